"""The search for modes: whatever the order of rows and the seed, the fixed points that count."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from covering import seldom
from mode_problems import two_groups, uneven_groups

from evidence import GPModel, InputError, fit_ep, likelihoods, log_evidence
from evidence.approximations.gp.modes import _maxima, extend_mixture, fit_mixture, mixture_of


@cache
def of_two_groups():
    return fit_mixture(two_groups().model)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
@pytest.mark.parametrize("problem", seldom([two_groups, uneven_groups], 0))
def test_fixed_points_hold_all_of_z(problem, seed):
    truth = problem()
    order = np.random.default_rng(seed).permutation(truth.model.n)
    model = GPModel(K=truth.model.K, y=truth.model.y[order], likelihood=truth.model.likelihood)
    mixture = fit_mixture(model, seed=seed)
    assert mixture.logz == pytest.approx(truth.logz, abs=0.02)
    assert mixture.components[-1].name == "prior"


@pytest.mark.parametrize("seed", range(6))
def test_two_groups_of_two_that_disagree_have_four_modes(seed):
    """A quarter of Z each; with a patience of twelve climbs one of these seeds had three."""
    group = np.array([0, 1, 0, 1])
    K = np.array([[64.0, 32.0], [32.0, 64.0]])[np.ix_(group, group)] + 1e-5 * np.eye(4)
    model = GPModel(
        K=K, y=[5.02144027, -0.80994226, 3.57154308, 1.94804319],
        likelihood="student_t(df=2, scale=0.1)",
    )  # fmt: skip
    assert len(fit_mixture(model, seed=seed).components) == 5


def test_a_saddle_is_no_component():
    """Between two groups EP has a fixed point that promises several nats more."""
    truth = two_groups()
    between = fit_ep(truth.model)
    modes = [component.mean[0] for component in of_two_groups().components[:-1]]
    assert abs(between.mean[0]) < 1.0 or between.logz < truth.logz
    np.testing.assert_allclose(np.sort(modes), [-8.0, 8.0], atol=0.1)


def test_one_gaussian_where_the_likelihood_is_log_concave():
    model = GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    assert fit_mixture(model).name == "ep"


def test_points_lead_to_further_components():
    whole = of_two_groups()
    half = mixture_of([whole.components[0]])
    other = whole.components[1].mean
    extended = extend_mixture(half, np.tile(other, (8, 1)))
    assert len(extended.components) == 3
    assert extend_mixture(extended, np.tile(other, (8, 1))) is extended


def square(x, y, s):
    r = y - x * x
    value = -0.5 * r * r / s**2 - math.log(s) - 0.9189385332046727
    return value, 2.0 * x * r / s**2, (2.0 * r - 4.0 * x * x) / s**2, -12.0 * x / s**2


def one_root(y, s):
    return np.sqrt(np.maximum(y, 0.0))


def both_roots(y, s):
    root = one_root(y, s)
    return np.array([root, -root])


def of_squares(location=both_roots, s=0.3):
    return likelihoods.from_function(square, name="square", params={"s": s}, location=location)


def test_integrals_see_every_maximum_they_are_told_of():
    """y = x² + noise under a wide prior whose mean is uphill of one root only."""
    y, m, v = np.array([4.0]), np.array([1.5]), np.array([9.0])
    x = np.linspace(-12.0, 12.0, 200_001)
    ell = np.array([square(one, 4.0, 0.3)[0] for one in (2.0, -2.0)])
    p = np.exp(-0.5 * ((4.0 - x * x) / 0.3) ** 2 - 0.5 * (x - 1.5) ** 2 / 9.0)
    mean = float(np.sum(x * p) / np.sum(p))
    assert ell[0] == ell[1]
    assert of_squares().tilted(y, m, v)[1][0] == pytest.approx(mean, abs=1e-6)
    assert of_squares(one_root).tilted(y, m, v)[1][0] > mean + 0.1


def test_maxima_that_integrals_do_not_know_of_are_told():
    K = 9.0 * np.ones((3, 3)) + 0.01 * np.eye(3)
    y, mean = [4.0, 4.1, 3.9], 1.5
    blind = fit_mixture(GPModel(K=K, y=y, mean=mean, likelihood=of_squares(one_root)))
    assert [warning.code for warning in blind.warnings] == ["hidden-maxima"]
    seeing = fit_mixture(GPModel(K=K, y=y, mean=mean, likelihood=of_squares()))
    assert not seeing.warnings


def test_maxima_are_those_of_any_part_of_the_data():
    """Data are looked at in parts where they are many."""
    y, mean = [4.0, 4.1, -1.0, 3.9], np.array([1.5, 1.5, 1.5, -1.5])
    model = GPModel(K=9.0 * np.eye(4), y=y, mean=mean, likelihood=of_squares(one_root))
    hints = np.vstack([model.mean, model.likelihood.locations(model.y)])
    whole = dict(_maxima(model, np.arange(4), hints))
    assert whole.keys() == {0, 1}
    assert whole[0] == pytest.approx([-1.99, 1.99], abs=0.02)
    parts = {
        **dict(_maxima(model, np.array([3, 0]), hints)),
        **dict(_maxima(model, np.array([2, 1]), hints)),
    }
    assert all(parts[n].tolist() == whole[n].tolist() for n in whole)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_guide_keeps_both_modes_of_a_likelihood(seed):
    """Its first weights are uneven; what it would learn from them holds one of the modes only."""
    y, s, mean, var = 25.0, 0.5, 1.0, 9.0
    x = np.linspace(-12.0, 14.0, 200_001)
    log_p = square(x, y, s)[0] - 0.5 * (x - mean) ** 2 / var - 0.5 * np.log(2.0 * np.pi * var)
    truth = float(np.log(np.sum(np.exp(log_p)) * (x[1] - x[0])))
    model = GPModel(K=[[var]], y=[y], mean=mean, likelihood=of_squares(s=s))
    words = {"method": "guided", "random_seed": seed, "progressbar": False}
    result = log_evidence(model, reference=fit_ep(model), **words)
    assert abs(result.logz - truth) < 4.0 * result.logz_se + 1e-6
    far = GPModel(K=[[100.0]], y=[y], mean=mean, likelihood=of_squares(s=0.1))
    with pytest.raises(InputError, match="narrow"):
        log_evidence(far, reference=fit_ep(far), **words)
