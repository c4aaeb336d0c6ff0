"""Packages whose names are imported, and their kernels compiled, when they are first used."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..messages import suggest
from .clock import interruptible

_OTHERS = {
    "compare": "bayesfactor bayesfactors bf", "loo": "psisloo waic loocompare",
    "log_evidence": "marginallikelihood logz mlik nestedsampling", "GPModel": "gaussianprocess",
    "evidence_from_draws": "bridgesampler bridgesampling", "summarise": "summary",
    "resample_move": "smc samplesmc", "all_submodels": "anova anovabf regressionbf",
    "replicate": "ppc plotppc ppcheck priorpredictive posteriorpredictive",
}  # fmt: skip
_MEANT = {word: meant for meant, words in _OTHERS.items() for word in words.split()}


def offered(
    spec: ModuleSpec,
) -> tuple[dict[str, str], Callable[[str], object], Callable[[], list[str]]]:
    """The homes of a package's public names, its ``__getattr__`` and its ``__dir__``.

    The names and their homes are those of the relative imports ``from .home import name as name``
    in the package's own source. They stand under ``if TYPE_CHECKING``, and are never run.

    Examples
    --------
    >>> import evidence.moves as moves
    >>> homes, fetch, _ = offered(moves.__spec__)
    >>> homes["HMC"], fetch("HMC").__name__
    ('evidence.moves.hamiltonian.hmc', 'HMC')
    """
    homes = {
        alias.name: ".".join(filter(None, (spec.name, node.module)))
        for node in ast.walk(ast.parse(spec.loader.get_source(spec.name)))  # type: ignore[union-attr]
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
        if alias.asname == alias.name
    }

    def fetch(name: str) -> object:
        if name not in homes:
            hint = "" if name.startswith("_") else suggest(name, homes, _MEANT).removesuffix(".")
            raise AttributeError(f"module {spec.name!r} has no attribute {name!r}{hint}")
        with interruptible():  # kernels may have to be compiled
            home = import_module(homes[name])
            if name in vars(home):
                return vars(home)[name]
            return import_module(f"{home.__name__}.{name}")

    return homes, fetch, lambda: sorted(homes)


def needed(module: str, what: str, extra: str) -> ModuleType:
    """An optional package, or where to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(
            f"{what}, which is not installed: pip install 'log-evidence[{extra}]'"
        ) from None


class Later:
    """A module that is imported when it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self._name), name)


# for every module that needs them; of what stands in hints alone nothing is imported
if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from sklearn.gaussian_process import kernels
    from sklearn.gaussian_process.kernels import Kernel
else:
    pd, kernels = Later("pandas"), Later("sklearn.gaussian_process.kernels")
    Axes = Figure = DataFrame = Kernel = Any
