"""Coverage of a thousand models: truths are right, and the table says what is in its rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from covering import seldom

import evidence as ev
from scripts.benchmarks.coverage import KINDS, summary


@pytest.mark.parametrize(
    "kind", seldom(["probit", "poisson", "bernoulli groups", "poisson groups"], 0, 3)
)
def test_truths_are_those_of_another_method(kind):
    """Importance sampling from EP with an error bar of its own: within 4.5 of it."""
    pytest.importorskip("formulae")
    for number in range(2):
        rng = np.random.default_rng([list(KINDS).index(kind), number, 1414])
        model, truth, _ = KINDS[kind](number, rng)
        words = {"n_particles": 500, "n_islands": 8, "random_seed": 1, "progressbar": False}
        result = ev.log_evidence(model, method="importance", **words)
        assert abs(result.logz - truth) < 4.5 * result.logz_se + 1e-5


def test_the_table_counts():
    row = {"failure": "", "warnings": "", "error": 0.05, "accuracy": 1e-6, "se": 0.05,
           "seconds": 1.0}  # fmt: skip
    z = {"a": [1.0, -1.0, 3.5, 6.0], "b": [0.5, 0.5]}
    rows = [{"kind": kind, "number": i, "z": v} | row for kind, zs in z.items()
            for i, v in enumerate(zs)]  # fmt: skip
    rows[0]["warnings"] = "slow-mixing"
    table = summary(pd.DataFrame(rows)).set_index("kind")
    assert table.models.to_dict() == {"a": 4, "b": 2, "all": 6}
    assert table.rms_z["a"] == pytest.approx(np.sqrt((1.0 + 3.5**2 + 36.0) / 3))
    assert table.misses["a"] == 1
    assert table.false_alarms["all"] == 1
    assert table.beyond_3["a"] == pytest.approx(2 / 3)
