"""What the referee of a density makes of a search that saw something else, or the same."""

import math

import numpy as np
import pytest

import evidence as ev
from evidence.approximations.density.reference import Scouted
from evidence.approximations.density.search import Search
from evidence.methods.base import Outcome, widen
from evidence.methods.density import hide, vouched


@pytest.mark.parametrize(
    ("seen", "agree"),
    [
        (Scouted(-1.2, 0.1), True),
        (Scouted(-2.0, 0.1), False),  # apart
        (Scouted(-1.0, 0.5), False),  # says nothing
        (Scouted(-1.0, math.inf, -3.0), False),  # never came to its end
    ],
)
def test_a_look_vouches_for_the_log_z_that_it_saw(seen, agree):
    assert vouched(seen, Outcome("smc", -1.0, 0.05)) == agree


def test_modes_that_nobody_knew_widen_the_error_bar():
    """26 climbs of 26 with one more each way: log 1/(1 - 25/26)."""
    model = ev.DensityModel(lambda x: -0.5 * x @ x, dim=2, prior=ev.GaussianPrior(np.zeros(2)))
    search = Search(model, np.random.default_rng(0), surprises=[1.0, 1.0, 1.0])
    assert search.hidden == pytest.approx(25.0 / 26.0)
    outcome = Outcome("importance", -1.0, 0.01)
    hide(search.hidden, outcome)
    widen(outcome)
    assert outcome.logz_se == pytest.approx(math.log(26.0))
    assert [w.code for w in outcome.warnings] == ["modes-missed"]
    search.confirmed = True
    assert search.hidden == 0.0


def test_a_lattice_of_modes_is_integrated():
    """Three cosines: 27 narrow modes in a box, log Z = 3 log I₀(8)."""

    def log_likelihood(x):
        return 8.0 * np.sum(np.cos(2.0 * np.pi * x), axis=-1)

    model = ev.DensityModel(log_likelihood, dim=3, prior=[(-1.5, 1.5)] * 3, vectorized=True)
    truth = 3.0 * math.log(np.i0(8.0))
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert not result.warnings
    assert abs(result.logz - truth) < 4.0 * result.logz_se < 0.2
