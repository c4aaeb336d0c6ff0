"""Evaluations are counted exactly, wherever a function is called."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from covering import seldom

import evidence as ev
from evidence.execution.meter import Meter, metered, phase, tally

pytestmark = pytest.mark.usefixtures("small_searches")


def gaussian(x):
    return -0.5 * float(x @ x)


class Counted:
    """A log density that counts its own calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return gaussian(x)


def test_phases_nest_and_derivatives_are_apart():
    with metered(Meter(most=12)) as meter:
        tally(1)
        with phase("pilot"):
            tally(2)
            with phase("run"):
                tally(3)
                tally(4, derivatives=True)
            tally(1)
        assert not meter.spent()
        tally(1)
    tally(100)  # nobody counts
    assert meter.counts == {"fit": 2, "pilot": 3, "run": 3, "gradients": 4}
    assert meter.left == 0
    assert meter.spent()


@pytest.mark.parametrize(
    "method", ["auto", "smc", "ais", pytest.param("pt", marks=pytest.mark.slow)]
)
def test_a_result_counts_what_its_function_counts(method):
    counted = Counted()
    model = ev.DensityModel(counted, dim=2, prior=ev.GaussianPrior(np.zeros(2)))
    counted.calls = 0
    few = {"n_sweeps": 8, "n_particles": 4, "n_levels": 3, "explore": 1}
    words = few if method == "pt" else {"target_se": 0.3}
    result = ev.log_evidence(model, method=method, **words, random_seed=0, progressbar=False)
    assert sum(result.evaluations.values()) == counted.calls
    assert result.evaluations["run"] > 0
    assert f"{counted.calls:,}" in result.summary()


@pytest.mark.parametrize("pool", seldom([ThreadPoolExecutor, ProcessPoolExecutor], 1))
def test_workers_bring_their_counts_back(pool):
    model = ev.DensityModel(gaussian, dim=2, prior=ev.GaussianPrior(np.zeros(2)))
    how = {"n_particles": 20, "n_islands": 4, "random_seed": 0, "progressbar": False}
    here = ev.log_evidence(model, method="smc", **how)
    with pool(1) as executor:
        there = ev.log_evidence(model, method="smc", executor=executor, **how)
    assert there.evaluations == here.evaluations
    assert there.logz == here.logz


def test_a_gp_model_has_no_function_to_count():
    model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    assert ev.log_evidence(model, random_seed=0, progressbar=False).evaluations == {}
    with pytest.raises(ev.InputError, match="max_evaluations"):
        ev.log_evidence(model, max_evaluations=100)
