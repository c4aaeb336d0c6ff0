"""Data at the edge of doubles: the right answer, or one line that says which datum is too far."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csc_array
from scipy.special import gammaln, logsumexp

import evidence as ev
from evidence.gaussians.base import NotPositiveDefinite

K = np.eye(3) + 0.5
FAR = [1.0, 1e15, 2.0]
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")  # NumPy's own


def run(model, **words):
    return ev.log_evidence(model, random_seed=0, progressbar=False, **words)


@pytest.mark.parametrize(
    ("y", "likelihood", "datum"),
    [
        (FAR, "poisson", "datum 1, 1e+15,"),
        ([3, 1, 2], "poisson(offset=1e308)", "datum 0, 3,"),
        ([1, 1, 2], "gamma(shape=1e308)", "datum "),
    ],
)
def test_fits_that_fail_name_the_datum(y, likelihood, datum):
    with pytest.raises(NotPositiveDefinite, match="beyond what doubles resolve") as caught:
        run(ev.GPModel(K=K, y=y, likelihood=likelihood))
    assert datum in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_that_fail_name_the_datum():
    result = run(ev.GPModel(K=K, y=[1.0, 1e308, 2.0], likelihood="gaussian"))
    assert np.isnan(result.logz)
    assert any("datum 1, 1e+308," in warning for warning in result.warnings)


@pytest.mark.parametrize("constant", [1e308, 1e17])
@pytest.mark.parametrize("vectorized", [False, True])
def test_densities_whose_digits_are_nats(constant, vectorized):
    def bowl(x):
        return constant - 0.5 * np.sum(x**2, axis=-1)

    with pytest.raises(ev.InputError, match=r"logdensity returned .* subtract a constant"):
        ev.DensityModel(bowl, 2, bounds=[(0, 1), (0, 1)], vectorized=vectorized)


@pytest.mark.slow
def test_a_density_far_below_zero():
    model = ev.DensityModel(lambda x: -1e308, 1, prior=ev.GaussianPrior(np.zeros(1)))
    result = run(model, effort="frugal")
    assert np.isnan(result.logz)
    assert any("subtract a constant" in warning for warning in result.warnings)


@pytest.mark.parametrize("likelihood", ["gaussian(noise_std=0.3)", "poisson"])
def test_a_prior_a_million_times_as_wide_as_a_latent_value_is_known(likelihood):
    """Draws in steps refuse, annealing has all of Z, and was told to try draws in steps again."""
    prior, y = csc_array(np.array([[1e-12]])), np.full(30, 5.0)
    model = ev.SparseModel(prior, y, likelihood=likelihood, A=np.ones((30, 1)))
    answer = run(model)
    if likelihood == "poisson":
        rate = np.exp(np.linspace(0.5, 3.0, 20001))  # of 30 data, under a flat prior
        log_p = y.sum() * np.log(rate) - y.size * rate - gammaln(y + 1.0).sum()
        mass = logsumexp(log_p) + np.log(2.5 / 20000)
        truth = mass - 0.5 * np.log(2.0 * np.pi * 1e12)
    else:
        truth = stats.norm.logpdf(5.0, 0.0, 1e6) - 29 * np.log(0.3) - 14.5 * np.log(2.0 * np.pi)
        truth -= 0.5 * np.log(30.0)
    assert abs(answer.logz - truth) < 4.0 * answer.logz_se + 1e-9
    assert answer.logz_se < 0.01
    assert not answer.warnings
    assert any("resample-move" in note for note in answer.notes)
