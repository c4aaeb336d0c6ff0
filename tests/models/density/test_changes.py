"""Changes of variables against mpmath, and their chain rules against differences."""

from __future__ import annotations

import pickle

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import evidence as ev
from evidence.models.density import changes
from evidence.models.density.changes import Bounded, Tails
from evidence.models.density.checking import central
from evidence.models.density.priors import GaussianPrior, Quantiles, check_prior

BOUNDS = {
    "free": (None, None),
    "low": (-1.5, None),
    "high": (None, 3.0),
    "both": (-2.0, 5.0),
}
X = np.array([-30.0, -4.0, -1.0, -1e-3, 0.0, 0.3, 2.0, 5.0, 25.0])[:, None]


def exact_bounded(kind):
    return {
        "free": lambda x: x,
        "low": lambda x: -1.5 + mp.exp(x),
        "high": lambda x: 3 - mp.exp(-x),
        "both": lambda x: -2 + 7 / (1 + mp.exp(-x)),
    }[kind]


def exact_tails(h):
    return lambda x: x * mp.exp(mp.mpf(h) * x * x / 2)


def check_against(exact, change, points):
    """g, g', g'', g''' and log g' with its three derivatives."""
    d, slope = change.derivatives(points), change.log_slope(points)
    with mp.workdps(60):
        for i, x in enumerate(points[:, 0]):
            terms = mp.taylor(exact, mp.mpf(x), 4)
            wanted = [float(t * mp.factorial(k)) for k, t in enumerate(terms)]
            g1, g2, g3, g4 = (t * mp.factorial(k) for k, t in enumerate(terms) if k)
            a, b, c = g2 / g1, g3 / g1, g4 / g1
            logs = [mp.log(g1), a, b - a**2, c - 3 * a * b + 2 * a**3]
            found = [float(d.g[i, 0]), *(float(part[i, 0]) for part in d[1:])]
            np.testing.assert_allclose(found, wanted[:4], rtol=1e-11, atol=1e-300)
            found = [slope.total[i], slope.first[i, 0], slope.second[i, 0], slope.third[i, 0]]
            np.testing.assert_allclose(
                np.array(found, float), [float(v) for v in logs], rtol=1e-9, atol=1e-12
            )


@pytest.mark.parametrize("kind", BOUNDS)
def test_bounded_against_mpmath(kind):
    check_against(exact_bounded(kind), Bounded([BOUNDS[kind]]), X)


@pytest.mark.parametrize("h", [0.05, 0.4])
def test_tails_against_mpmath(h):
    check_against(exact_tails(h), Tails(h), X[np.abs(X[:, 0]) < 20.0])


@pytest.mark.parametrize("kind", BOUNDS)
def test_bounded_there_and_back(kind):
    change, x = Bounded([BOUNDS[kind]]), np.linspace(-12.0, 12.0, 49)[:, None]
    theta = change(x)
    low, high = change.low[0], change.high[0]
    assert (np.diff(theta[:, 0]) > 0.0).all()
    assert ((low < theta) & (theta < high)).all()
    # near a limit θ itself has few digits of the distance to it
    np.testing.assert_allclose(change.inverse(theta), x, atol=1e-9)
    assert not np.isnan(change(np.array([[-1e4], [1e4]]))).any()  # nor is that a warning


def test_all_kinds_side_by_side():
    """Columns do not get mixed up."""
    change = Bounded(list(BOUNDS.values()))
    x = np.random.default_rng(0).standard_normal((5, 4))
    together, slope = change.derivatives(x), change.log_slope(x)
    total = np.zeros(5)
    for j, kind in enumerate(BOUNDS):
        one = Bounded([BOUNDS[kind]])
        for a, b in zip(together, one.derivatives(x[:, [j]]), strict=True):
            np.testing.assert_array_equal(a[:, [j]], b)
        alone = one.log_slope(x[:, [j]])
        total += alone.total
        for a, b in zip(slope[1:], alone[1:], strict=True):
            np.testing.assert_array_equal(a[:, [j]], b)
    np.testing.assert_allclose(slope.total, total, rtol=1e-14)


@pytest.mark.parametrize("kind", ["low", "high", "both"])
def test_outside_and_on_the_limits_there_is_no_inverse(kind):
    low, high = BOUNDS[kind]
    outside = [v for v in (low, high) if v is not None]
    outside += [v - 1.0 for v in (low,) if v is not None]
    outside += [v + 1.0 for v in (high,) if v is not None]
    assert np.isnan(Bounded([BOUNDS[kind]]).inverse(np.array(outside)[:, None])).all()


@pytest.mark.parametrize("h", [0.01, 0.15, 0.4, 2.0])
def test_tails_there_and_back(h):
    change, x = Tails(h), np.linspace(-9.0, 9.0, 61)[:, None]
    np.testing.assert_allclose(change.inverse(change(x)), x, atol=1e-12, rtol=1e-12)


DISTRIBUTIONS = {
    "norm": stats.norm(1.0, 3.0),
    "expon": stats.expon(scale=2.0),
    "gamma": stats.gamma(0.7, scale=1.5),
    "beta": stats.beta(2.0, 5.0),
    "uniform": stats.uniform(-1.0, 4.0),
    "t": stats.t(3.0, loc=-1.0),
    "halfcauchy": stats.halfcauchy(scale=2.0),
    "lognorm": stats.lognorm(0.8),
    "halfnorm": stats.halfnorm(scale=3.0),
}


def exact_quantile(name, x):
    """F⁻¹(Φ(x)) by mpmath, where there is a closed form."""
    p, q = mp.ncdf(x), mp.ncdf(-x)
    return {
        "norm": lambda: 1 + 3 * x,
        "expon": lambda: -2 * mp.log(q),
        "uniform": lambda: -1 + 4 * p,
        "halfcauchy": lambda: 2 * mp.tan(mp.pi * p / 2),
        "lognorm": lambda: mp.exp(mp.mpf("0.8") * x),
    }[name]()


@pytest.mark.parametrize("name", ["norm", "expon", "uniform", "halfcauchy", "lognorm"])
def test_quantiles_against_mpmath(name):
    change = Quantiles([DISTRIBUTIONS[name]])
    points = np.array([-5.0, -1.3, -0.2, 0.0, 0.4, 2.0, 4.5])[:, None]
    d = change.derivatives(points)
    with mp.workdps(40):
        for i, x in enumerate(points[:, 0]):
            terms = mp.taylor(lambda t: exact_quantile(name, t), mp.mpf(x), 3)
            wanted = [float(t * mp.factorial(k)) for k, t in enumerate(terms)]
            found = [part[i, 0] for part in d]
            np.testing.assert_allclose(found[:2], wanted[:2], rtol=1e-9)
            # of higher order by differences: relative to g'
            np.testing.assert_allclose(
                np.array(found[2:]) / wanted[1], np.array(wanted[2:]) / wanted[1], atol=3e-6
            )


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_quantiles_by_differences(name):
    change = Quantiles([DISTRIBUTIONS[name]])
    x = np.array([-3.0, -0.7, 0.02, 1.1, 2.8])[:, None]
    d = change.derivatives(x)
    for lower, upper in zip((change, *(_order(change, k) for k in (1, 2))), d[1:], strict=True):
        wanted = central(lower, x)[:, :, 0]
        np.testing.assert_allclose(upper, wanted, rtol=2e-4, atol=2e-4 * np.abs(d.g1).max())


def _order(change, k):
    return lambda x: change.derivatives(x)[k]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_quantiles_there_and_back(name):
    """Far into both tails, as far as θ has the digits."""
    change = Quantiles([DISTRIBUTIONS[name]])
    x = np.linspace(-6.0, 6.0, 25)[:, None]
    back = change.inverse(change(x))
    bounded_above = np.isfinite(DISTRIBUTIONS[name].support()[1])
    good = x[:, 0] < (4.0 if bounded_above else 7.0)
    np.testing.assert_allclose(back[good], x[good], atol=1e-7)


def test_quantiles_far_out_are_exact_in_both_tails():
    """Without the survival function the upper tail would stop at 8 standard deviations."""
    change = Quantiles([stats.norm(0.0, 2.0)])
    x = np.array([[-20.0], [20.0]])
    np.testing.assert_allclose(change(x), 2.0 * x, rtol=1e-12)
    np.testing.assert_allclose(change.inverse(2.0 * x), x, rtol=1e-12)


def test_chain_rules():
    """∇F, ∇²F, and contractions with W of F(x) = f(g(x)) and of D F D, by differences."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 3))
    W = rng.standard_normal((3, 3, 3))
    W = W + np.swapaxes(W, 1, 2)
    change = Bounded([(0.0, None), (None, 2.0), (-1.0, 1.0)])

    def f(t):
        return np.sin(t[:, 0] * t[:, 1]) + t[:, 2] ** 3 * t[:, 0]

    def slope(t):
        a, b, c = t.T
        return np.column_stack([b * np.cos(a * b) + c**3, a * np.cos(a * b), 3.0 * c * c * a])

    def H(t):
        return central(slope, t)

    def inner(t, V):
        return central(lambda s: np.einsum("mij,mij->m", V, H(s)), t)

    d = change.derivatives(x)
    np.testing.assert_allclose(
        changes.gradient(d, slope(d.g)), central(lambda s: f(change(s)), x), atol=1e-8
    )

    def hessian(s):
        e = change.derivatives(s)
        return changes.hessian(e, slope(e.g), H(e.g))

    whole = central(lambda s: changes.gradient(change.derivatives(s), slope(change(s))), x)
    np.testing.assert_allclose(hessian(x), whole, atol=1e-6)
    found = changes.contraction(d, slope(d.g), H(d.g), W, inner(d.g, changes.pull(d, W)))
    wanted = central(lambda s: np.einsum("mij,mij->m", W, hessian(s)), x)
    np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())

    def tensor(s):
        e = change.derivatives(s)
        return changes.tensor(e, H(e.g))

    found = changes.tensor_contraction(d, H(d.g), W, inner(d.g, changes.pull(d, W)))
    wanted = central(lambda s: np.einsum("mij,mij->m", W, tensor(s)), x)
    np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("layout", ["C", "F", "view"])
def test_the_diagonal_is_written_to_whatever_the_layout(layout):
    A = np.zeros((2, 3, 3), order="F" if layout == "F" else "C")
    A = np.zeros((3, 2, 3)).transpose(1, 2, 0) if layout == "view" else A
    changes.diagonal(A)[...] += np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(A, [np.diag([1.0, 2.0, 3.0]), np.diag([4.0, 5.0, 6.0])])


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        ([(0.0, 1.0)], "bounds must hold 2 pairs"),
        ((0.0, 1.0), "bounds must hold 2 pairs"),
        (3, "bounds must hold 2 pairs"),
        ([(0.0, 1.0, 2.0), None], "bounds must hold 2 pairs"),
        ([None, (1.0, 1.0)], r"bounds\[1\] must be numbers or None with low < high"),
        ([None, (2.0, 1.0)], r"bounds\[1\] must be numbers or None with low < high"),
        ([(np.nan, None), None], r"bounds\[0\]"),
        ([None, (0.0, np.nan)], r"bounds\[1\]"),
        ([(np.inf, None), None], r"bounds\[0\]"),
        ([None, (None, -np.inf)], r"bounds\[1\]"),
        ([("a", "b"), None], r"bounds\[0\]"),
    ],
)
def test_bad_bounds(bounds, match):
    with pytest.raises(ValueError, match=match):
        Bounded(bounds, 2)


def test_infinite_limits_are_no_limits():
    change = Bounded([(-np.inf, np.inf), (0.0, np.inf), np.array([-np.inf, 1.0])], 3)
    x = np.array([[0.5, 0.0, 0.0]])
    np.testing.assert_array_equal(change(x), [[0.5, 1.0, 0.0]])


@pytest.mark.parametrize("cov", [2.5, [1.0, 4.0], [[2.0, -0.7], [-0.7, 1.0]]])
def test_gaussian_prior(cov):
    prior = GaussianPrior([0.5, -1.0], cov)
    x = np.random.default_rng(2).standard_normal((4, 2))
    exact = stats.multivariate_normal(prior.mean, prior.cov)
    np.testing.assert_allclose(prior.log_prob(x), exact.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(prior.gradient(x), central(prior.log_prob, x), atol=1e-8)
    np.testing.assert_allclose(prior.precision @ prior.cov, np.eye(2), atol=1e-13)
    np.testing.assert_allclose(prior.chol @ prior.chol.T, prior.cov, rtol=1e-13)


@pytest.mark.parametrize(
    ("mean", "cov", "match"),
    [
        ([0.0, np.nan], 1.0, "mean contains NaN"),
        ([[0.0], [1.0]], 1.0, "mean must be"),
        ([0.0, 0.0], [1.0, 2.0, 3.0], "cov must be"),
        ([0.0, 0.0], np.eye(3), "cov must be a number or an array of shape"),
        ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], "cov must be symmetric"),
        ([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], "cov must be positive definite"),
        ([0.0, 0.0], -1.0, "cov must be positive definite"),
        ([0.0, 0.0], np.inf, "cov must be a finite"),
    ],
)
def test_bad_gaussian_prior(mean, cov, match):
    with pytest.raises(ValueError, match=match):
        GaussianPrior(mean, cov)


@pytest.mark.parametrize("kind", ["low", "high", "both"])
def test_rounding_puts_no_point_on_a_limit(kind):
    change = Bounded([BOUNDS[kind]])
    theta = change(np.array([[-700.0], [-40.0], [40.0], [700.0]]))
    assert ((change.low < theta) & (theta < change.high)).all()


def test_the_last_derivatives_are_kept_for_the_same_place_only():
    change = check_prior([stats.gamma(2.5), stats.beta(2, 3)], 2)
    x = np.random.default_rng(1).standard_normal((4, 2))
    first = change.derivatives(x)
    kept = change._last
    change.derivatives(x.copy()).g[...] = np.nan  # what others do to their copy
    assert change._last is kept
    np.testing.assert_array_equal(change.derivatives(x).g, first.g)
    x += 0.5  # in place
    for known, fresh in zip(
        change.derivatives(x), check_prior(list(change.distributions), 2).derivatives(x),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(known, fresh)
    assert change.derivatives(x[:2])[0].shape == (2, 2)
    assert pickle.loads(pickle.dumps(change))._last is None


def test_a_pole_at_a_limit_has_no_more_mass_than_it_should():
    """Beta(.03, .03) on (0, 1): beyond 1e-308 a number must not become the smallest there is."""
    model = ev.DensityModel(
        lambda t: stats.beta(0.03, 0.03).logpdf(t[:, 0]), dim=1, bounds=[(0.0, 1.0)],
        vectorized=True,
    )  # fmt: skip
    x = np.linspace(-744.0, 0.0, 20_001)
    log_p = model.log_prob(x[:, None])
    assert np.trapezoid(np.exp(log_p), x) == pytest.approx(0.5, abs=1e-3)
