"""The documentation as a folder of pages: README, how-to pages, and the reference.

    python scripts/build_docs.py --out build/docs

Everything comes from docstrings and the README; formulas become MathML, so that pages need no
network. The build fails, with a list, where a formula cannot be drawn, a cross-reference or a
link points nowhere, reStructuredText is malformed, a public name has no docstring or describes
arguments that it does not take, or pdoc warns.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import warnings
from pathlib import Path

os.environ["NUMBA_DISABLE_JIT"] = "1"  # nothing is computed here, so nothing need be compiled

import pdoc.render
from documentation.completeness import missing
from documentation.pages import Site
from pdoc.render_helpers import to_html

import evidence

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = Path(__file__).parent / "documentation" / "templates"

HOW_TO = {
    "Add a likelihood": "evidence.models.likelihoods.custom",
    "Add a move": "evidence.moves.base",
    "Add a driver": "evidence.drivers",
    "Bring any density": "evidence.models.density",
    "Run on a cluster": "evidence.execution.tasks",
    "Save and resume": "evidence.execution.checkpoint",
}
GROUPS = {
    "Models": [
        "GPModel", "SparseModel", "SoftmaxModel", "DensityModel", "parse_kernel", "likelihoods",
        "precisions",
    ],
    "Formulas": [
        "from_formula", "FormulaModel", "summarise", "Summary", "prior_sensitivity", "Sensitivity",
    ],
    "Densities": [
        "from_jax", "from_pymc", "from_stan", "GaussianPrior", "SoftAbs", "Fisher", "examples",
    ],
    "Evidence": [
        "log_evidence", "EvidenceResult", "resample_move", "ais", "parallel_tempering",
        "log_orthant", "ladders", "sweep", "Sweep", "evidence_from_draws", "BridgeEvidence",
    ],
    "Approximations": ["fit_ep", "fit_laplace", "fit_reference", "Mixture", "Path"],
    "Posterior draws": ["sample", "Draws", "moves"],
    "Choosing models": [
        "compare", "Comparison", "optimise", "Optimum", "evidence_surface", "Surface",
        "integrated_evidence", "IntegratedEvidence", "sample_hyperparameters", "HyperDraws", "loo",
        "LooResult",
    ],
    "Prediction": [
        "predict", "Prediction", "ClassPrediction", "GaussianProcessClassifier",
        "GaussianProcessRegressor",
    ],
    "Simulated data and bounds": [
        "simulate", "Simulated", "posterior_draws", "bidirectional", "Bidirectional",
    ],
    "Data and figures": ["datasets", "plots"],
}  # fmt: skip
ROOMS = [
    "evidence", "evidence.moves", "evidence.models.likelihoods", "evidence.models.precisions",
    "evidence.plots",
    "evidence.models.examples", "evidence.statistics.ladders", "evidence.models.datasets",
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs")
    out = parser.parse_args().out
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        site = Site(evidence)
        problems = [*missing(site, ROOMS), *ungrouped()]
        write(site, out, problems)
    ours = (str(w.message) for w in warned if " for pandas." not in str(w.message))
    problems += [*site.render.problems, *(f"pdoc: {message}" for message in ours)]
    for problem in dict.fromkeys(problems):
        print(problem, file=sys.stderr)
    if problems:
        return 1
    print(f"wrote {len(site.pages)} pages, start at {out / 'index.html'}")
    return 0


def ungrouped() -> list[str]:
    """Public names without a place on the front page, and places without a name."""
    placed = {name for names in GROUPS.values() for name in names}
    elsewhere = {"InputError"}  # with all other words to users: evidence.messages
    return [f"GROUPS: {name}" for name in sorted((placed ^ set(evidence.__all__)) - elsewhere)]


def write(site: Site, out: Path, problems: list[str]) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    pdoc.render.configure(template_directory=TEMPLATES, search=False, show_source=True)
    pdoc.render.env.globals["site"] = site
    pdoc.render.env.tests["shown"] = site.shown
    for name in site.pages:
        target = out / site.addresses[name]
        target.parent.mkdir(parents=True, exist_ok=True)
        text = front(site, out, problems) if name == site.root else page_of(site, name)
        target.write_text(text, encoding="utf-8")
    for name in ("index.html", "style.css"):
        made = pdoc.render.env.get_template(f"{name}.jinja2").render(root_module_name=site.root)
        (out / name).write_text(made, encoding="utf-8")
    offered = set(site.aliases.values())
    entries = [[name, place, int(name in offered)] for name, place in site.addresses.items()]
    names = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
    (out / "names.js").write_text(f"const NAMES = {names};\n", encoding="utf-8")
    shutil.copy(TEMPLATES / "search.js", out)


def page_of(site: Site, name: str) -> str:
    return pdoc.render.html_module(site.pages[name], site.pages)


def front(site: Site, out: Path, problems: list[str]) -> str:
    """README, how-to pages, and every public name."""
    offers = {doc.name: doc for doc in site.offers[site.root]}
    offers |= {name: site.pages[module] for name, module in rooms(site).items()}
    groups = {group: [offers[name] for name in names] for group, names in GROUPS.items()}
    listed = {doc.taken_from[0] for docs in groups.values() for doc in docs}
    inside = [
        page
        for name, page in site.pages.items()
        if name.count(".") == 1 and name not in {*listed, *HOW_TO.values()}
    ]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return pdoc.render.env.get_template("front.html.jinja2").render(
        readme=links(to_html(readme), site, out, problems),
        how_to=HOW_TO,
        groups=groups,
        inside=inside,
        page=site.root,
    )


def rooms(site: Site) -> dict[str, str]:
    """Public names that are modules."""
    found = {name: getattr(evidence, name).__name__ for name in evidence.__all__}
    return {name: home for name, home in found.items() if home in site.pages}


def links(page: str, site: Site, out: Path, problems: list[str]) -> str:
    """The README's links to files: modules to their pages, others to copies."""

    def lead(match: re.Match[str]) -> str:
        target = match[2]
        if re.match(r"(https?:|#|mailto:)", target):
            return match[0]
        module = target.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        if module in site.pages:
            target = site.address(module, site.root)
        elif not (ROOT / target).exists():
            problems.append(f"README.md links to {target}, which does not exist")
        elif (ROOT / target).is_dir():
            target = copy_folder(target, out)
        else:
            copy_file(ROOT / target, out)
        return f'{match[1]}="{target}"'

    return re.sub(r'\b(href|src)="([^"]*)"', lead, page)


def copy_file(source: Path, out: Path) -> None:
    target = out / source.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def copy_folder(name: str, out: Path) -> str:
    """Copies of a folder's files, and a page that lists them."""
    files = sorted(file for file in (ROOT / name).iterdir() if file.is_file())
    for file in files:
        copy_file(file, out)
    listing = pdoc.render.env.get_template("folder.html.jinja2")
    page = out / name / "index.html"
    page.write_text(listing.render(name=name, files=[f.name for f in files]), encoding="utf-8")
    return f"{name}/index.html"


if __name__ == "__main__":
    sys.exit(main())
