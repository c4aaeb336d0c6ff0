"""The API reference: which names stand under which heading, and a page for each of them.

Every module without an underscore has a page as well, below "inside", for what docstrings refer
to and for those who change the package.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import evidence

GROUPS = {
    "Models": [
        "GPModel", "SparseModel", "PredictorsModel", "SoftmaxModel", "DensityModel",
        "parse_kernel", "likelihoods", "precisions",
    ],
    "Formulas": [
        "from_formula", "FormulaModel", "jzs", "summarise", "Summary", "plot_effects",
        "prior_sensitivity", "Sensitivity",
    ],
    "Densities": [
        "linear_density", "from_jax", "from_numpyro", "from_pymc", "from_stan",
        "GaussianPrior", "SoftAbs", "Fisher", "examples",
    ],
    "Evidence": [
        "log_evidence", "EvidenceResult", "load", "ladders", "sweep", "Sweep",
        "evidence_from_draws", "BridgeEvidence",
    ],
    "Shorthands of log_evidence(method=…)": [
        "resample_move", "ais", "parallel_tempering", "log_orthant",
    ],
    "Approximations": ["fit_ep", "fit_laplace", "fit_reference", "Mixture", "Path"],
    "Posterior draws": ["sample", "Draws", "moves"],
    "Choosing models": [
        "compare", "Comparison", "all_submodels", "Submodels", "savage_dickey", "optimise",
        "Optimum", "evidence_surface", "Surface",
        "integrated_evidence", "IntegratedEvidence", "sample_hyperparameters", "HyperDraws", "loo",
        "LooResult",
    ],
    "Prediction": [
        "predict", "Prediction", "ClassPrediction", "GaussianProcessClassifier",
        "GaussianProcessRegressor",
    ],
    "Simulated data and bounds": [
        "simulate", "Simulated", "posterior_draws", "bidirectional", "Bidirectional", "calibrate",
        "Calibration", "design", "Design", "replicate", "Replicates",
    ],
    "Data, figures and mistakes": ["datasets", "plots", "InputError", "set_options"],
}  # fmt: skip
ROOMS = [
    "evidence", "evidence.moves", "evidence.models.likelihoods", "evidence.models.precisions",
    "evidence.plots", "evidence.models.examples", "evidence.statistics.ladders",
    "evidence.models.datasets",
]  # fmt: skip


def offers(room: str) -> dict[str, object]:
    """What a module offers: names in ``__all__``, else those defined in it."""
    module = importlib.import_module(room)
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n, found in vars(module).items() if _is_own(n, found, room)]
    return {name: getattr(module, name) for name in names}


def _is_own(name: str, found: object, room: str) -> bool:
    home = getattr(found, "__module__", "") or ""
    return callable(found) and not name.startswith("_") and home.startswith(room)


def misplaced() -> list[str]:
    """Public names under no heading or under several, and headings' names that do not exist."""
    placed = [name for names in GROUPS.values() for name in names]
    wrong = set(placed) ^ set(evidence.__all__) | {n for n in placed if placed.count(n) > 1}
    return [f"GROUPS: {name}" for name in sorted(wrong)]


def modules() -> list[str]:
    found = pkgutil.walk_packages(evidence.__path__, "evidence.")
    return sorted(m.name for m in found if "._" not in m.name)


def write(folder: Path) -> None:
    """Pages of the reference as reStructuredText, and an index of them."""
    for path, text in _pages():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _pages() -> Iterator[tuple[str, str]]:
    index = [_title("API reference"), "``import evidence as ev``; these are ``ev.…``.\n"]
    for group, names in GROUPS.items():
        listed = []
        for name in names:
            found = getattr(evidence, name)
            full = found.__name__ if isinstance(found, ModuleType) else f"evidence.{name}"
            listed.append(full)
            yield f"reference/{name}.rst", _page(name, full, found)
        index += [
            _title(group, "-"),
            _directive("autosummary", "", *(f"~{n}" for n in listed), nosignatures=""),
        ]
        index += [_directive("toctree", "", *names, hidden="")]
    inside = defaultdict(list)  # modules by the folder that they are in
    for name in modules():
        package = hasattr(importlib.import_module(name), "__path__")
        inside[name if package else name.rpartition(".")[0]].append(name)
    for room, names in inside.items():
        parts = [
            _title(name, "-") + _directive("automodule", name, members="")
            for name in names if name not in ROOMS
        ]  # fmt: skip
        yield f"inside/{room}.rst", _title(f"Inside {room}") + "\n".join(parts)
    index += [_title("Inside", "-"), "All modules, room by room: :doc:`/inside/index`.\n"]
    yield "reference/index.rst", "\n".join(index)
    rooms = [_title("Inside"), "The modules of the package. Public names are in the reference.\n"]
    rooms += [_directive("toctree", "", *inside, maxdepth="1")]
    yield "inside/index.rst", "\n".join(rooms)


def _page(name: str, full: str, found: object) -> str:
    kind = "class" if inspect.isclass(found) else "function"
    if isinstance(found, ModuleType):
        members = ", ".join(offers(full))
        return _title(f"ev.{name}") + _directive("automodule", full, members=members)
    options = {"members": "", "inherited-members": ""} if kind == "class" else {}
    return _title(f"ev.{name}") + _directive(f"auto{kind}", full, **options)


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _directive(kind: str, argument: str, *lines: str, **options: str) -> str:
    marked = [f"   :{name}: {value}".rstrip() for name, value in options.items()]
    body = [f".. {kind}:: {argument}".rstrip(), *marked, "", *(f"   {line}" for line in lines)]
    return "\n".join(body) + "\n"
