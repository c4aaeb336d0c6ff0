"""What importing and running cost: heavy packages stay out until they are needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: one process, and the packages that it has loaded after every step
STEPS = """
import sys
def told():
    print(*[m for m in ("pandas", "matplotlib", "sklearn", "arviz", "typer", "scipy.stats")
            if m in sys.modules])
import evidence as ev
told()
from evidence import likelihoods
print("evidence.models.likelihoods.base" in sys.modules)
likelihoods.get("poisson")
print(*[m for m in ("poisson", "logit", "probit", "negative_binomial")
        if "evidence.models.likelihoods." + m in sys.modules])
ev.GPModel, ev.log_evidence
told()
result = ev.log_evidence(ev.GPModel(K=[[1.0]], y=[1]), random_seed=0, progressbar=False)
told()
print(result.logz)
"""


@pytest.fixture(scope="module")
def loaded() -> list[list[str]]:
    told = subprocess.run(
        [sys.executable, "-c", STEPS], check=True, capture_output=True, text=True
    ).stdout
    return [line.split() for line in told.splitlines()]


def test_import_is_light(loaded):
    assert loaded[0] == []


def test_likelihoods_are_imported_when_first_used(loaded):
    """Importing one compiles no other."""
    assert loaded[1:3] == [["False"], ["poisson"]]


def test_neither_a_model_nor_its_evidence_loads_distributions(loaded):
    """scipy.stats takes as long as all the rest."""
    assert loaded[3] == []


def test_a_run_needs_none_of_the_heavy_packages(loaded):
    assert set(loaded[4]) <= {"scipy.stats"}
    assert abs(float(loaded[5][0]) + 0.6931) < 0.05


def test_everything_public_is_there():
    import evidence as ev

    for name in ev.__all__:
        assert getattr(ev, name) is not None
    assert set(ev.__all__) <= set(dir(ev))
