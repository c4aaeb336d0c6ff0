"""Priors in every form that people have them in: the same posterior, and exact evidences."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

import evidence as ev
from evidence.models.density.priors import Dependent, InverseOnly, Quantiles
from evidence.models.formulas.priors import OfSquare

Y = np.array([0.3, 1.1, -0.4])
POINTS = np.random.default_rng(0).standard_normal((50, 2))


def loglik(theta):
    """Three data around θ₀ + θ₁, of batches."""
    return stats.norm.logpdf(Y, theta.sum(axis=-1)[..., None], 0.5).sum(axis=-1)


def gradient(theta):
    slope = (Y - theta.sum(axis=-1)[..., None]).sum(axis=-1) / 0.25
    return np.stack([slope, slope], axis=-1)


def truth(mean, cov):
    """log N(y; 1·sum of means, σ² I + 11ᵀ · variance of the sum)."""
    cov = 0.25 * np.eye(3) + np.sum(cov)
    return float(stats.multivariate_normal.logpdf(Y, np.full(3, np.sum(mean)), cov))


class Bare:
    """An object with a quantile function and nothing else."""

    def __init__(self, mean, sd):
        self.mean, self.sd = mean, sd

    def ppf(self, q):
        return self.mean + self.sd * ndtri(q)


INDEPENDENT = truth([1.0, 0.0], np.diag([4.0, 1.0]))
MEAN, COV = np.array([1.0, -1.0]), np.array([[2.0, 0.8], [0.8, 1.0]])


def cube(u):
    return np.array([1.0, 0.0]) + np.array([2.0, 1.0]) * ndtri(u)


def hierarchical(u):
    a = 1.0 + 2.0 * ndtri(u[..., 0])
    return np.stack([a, 0.5 * a + ndtri(u[..., 1])], axis=-1)


# θ₀ ~ N(1, 2²), θ₁ ~ N(θ₀/2, 1): their sum is N(1.5, (1.5 · 2)² + 1)
HIERARCHICAL = truth([1.5], np.array([[10.0]]))
AFTER = {"a": stats.norm(1.0, 2.0), "b": lambda a: stats.norm(0.5 * a, 1.0)}

FORMS = {
    "scipy": ({"prior": [stats.norm(1, 2), stats.norm()]}, INDEPENDENT),
    "modern": ({"prior": [stats.Normal(mu=1.0, sigma=2.0), stats.Normal()]}, INDEPENDENT),
    "ppf alone": ({"prior": [Bare(1.0, 2.0), Bare(0.0, 1.0)]}, INDEPENDENT),
    "by name": ({"prior": {"a": stats.norm(1, 2), "b": Bare(0.0, 1.0)}}, INDEPENDENT),
    "gaussian": ({"prior": ev.GaussianPrior(MEAN, COV)}, truth(MEAN, COV)),
    "multivariate": ({"prior": stats.multivariate_normal(MEAN, COV)}, truth(MEAN, COV)),
    "cube": ({"prior_transform": cube, "dim": 2}, INDEPENDENT),
    "cube, dependent": ({"prior_transform": hierarchical, "dim": 2}, HIERARCHICAL),
    "dependent": ({"prior": AFTER}, HIERARCHICAL),
}


#: every form with a gradient, which goes through its map; three without, which is asked for
#: values alone
_WITHOUT = ("cube", "dependent")
_CASES = [*((form, True) for form in FORMS), *((form, False) for form in _WITHOUT)]


@pytest.mark.parametrize(("form", "with_gradient"), _CASES)
def test_evidence(form, with_gradient):
    words, exact = FORMS[form]
    grad = gradient if with_gradient else None
    model = ev.DensityModel(loglik, vectorized=True, grad=grad, **words)
    result = ev.log_evidence(
        model, effort="frugal", target_se=0.05, random_seed=1, progressbar=False
    )
    assert abs(result.logz - exact) < 4.0 * result.logz_se + 1e-6
    assert result.logz_se < 0.06
    assert not result.warnings


@pytest.mark.parametrize("form", [name for name in FORMS if "dependent" in name or name == "cube"])
def test_slopes_by_differences_follow_the_map(form):
    model = ev.DensityModel(loglik, vectorized=True, grad=gradient, **FORMS[form][0])
    _, slope = model.log_prob_and_gradient(POINTS)
    for i, h in enumerate(np.eye(2) * 1e-5):
        wanted = (model.log_prob(POINTS + h) - model.log_prob(POINTS - h)) / 2e-5
        assert slope[:, i] == pytest.approx(wanted, rel=1e-4, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 3])
def test_boxes_and_uniform_distributions_are_the_same(d):
    forms = [
        [(-1.0, 3.0)] * d,
        np.array([[-1.0, 3.0]] * d),
        [stats.uniform(-1.0, 4.0)] * d,
        [stats.Uniform(a=-1.0, b=3.0)] * d,
        stats.uniform(-1.0, 4.0),
    ]
    models = [ev.DensityModel(lambda t: -0.5 * t @ t, dim=d, prior=prior) for prior in forms]
    x = np.random.default_rng(1).standard_normal((20, d))
    for model in models:
        assert (model.log_prob(x) == models[0].log_prob(x)).all()
        assert model.constrain(x) == pytest.approx(-1.0 + 4.0 * ndtr(x), rel=1e-15)
        assert model.unconstrain(model.constrain(x)) == pytest.approx(x, abs=1e-9)
    result = ev.log_evidence(models[0], target_se=0.1, random_seed=0, progressbar=False)
    exact = d * (0.5 * math.log(2 * math.pi) + math.log(ndtr(3.0) - ndtr(-1.0)) - math.log(4.0))
    assert abs(result.logz - exact) < 4.0 * result.logz_se


def test_fast_paths_are_scipy_s_own_numbers():
    mixed = [
        stats.norm(1, 2),
        stats.uniform(2, 3),
        stats.gamma(2.0),
        stats.norm(),
        stats.uniform(),
    ]
    x = np.random.default_rng(2).standard_normal((40, 5))
    change = Quantiles(mixed)
    theta = change(x)
    for i, one in enumerate(mixed):
        assert theta[:, i] == pytest.approx(one.ppf(ndtr(x[:, i])), rel=1e-12)
        assert change._log_density(x)[1][:, i] == pytest.approx(one.logpdf(theta[:, i]), rel=1e-9)
    assert change.inverse(theta) == pytest.approx(x, abs=1e-9)
    assert np.isnan(change.inverse(theta + 10.0)[:, [1, 4]]).all()


def test_few_groups_serve_many_parameters():
    """Time is another matter: twenty different uniform distributions are one call."""
    some = [stats.uniform(k, 1.0 + k) for k in range(20)] + [stats.norm(k) for k in range(20)]
    change = Quantiles(some)
    assert [len(change._groups(np.zeros((n, 40)))) for n in (1, 2000)] == [2, 2]


def test_quantiles_alone_make_a_distribution():
    one = InverseOnly(stats.gamma(2.0, scale=3.0))
    theta = np.array([0.1, 2.0, 30.0])
    assert one.cdf(theta) == pytest.approx(stats.gamma.cdf(theta, 2.0, scale=3.0), rel=1e-6)
    assert one.sf(theta) == pytest.approx(stats.gamma.sf(theta, 2.0, scale=3.0), rel=1e-6)
    assert one.logpdf(theta) == pytest.approx(stats.gamma.logpdf(theta, 2.0, scale=3.0), abs=1e-4)


def test_dependent_priors_go_back_and_forth():
    entries = {"s": stats.expon(), "x": lambda s: stats.norm(0, s), "u": lambda s, x: (x, x + s)}
    change = Dependent(entries)
    x = np.random.default_rng(3).standard_normal((30, 3))
    theta = change(x)
    assert theta[:, 0] == pytest.approx(stats.expon.ppf(ndtr(x[:, 0])))
    assert theta[:, 1] == pytest.approx(theta[:, 0] * x[:, 1])
    assert theta[:, 2] == pytest.approx(theta[:, 1] + theta[:, 0] * ndtr(x[:, 2]))
    assert change.inverse(theta) == pytest.approx(x, abs=1e-7)


def test_names_come_from_where_they_are():
    prior = {"slope": (0.0, 1.0), "scale": stats.halfnorm()}
    model = ev.DensityModel(lambda t: 0.0, prior=prior)
    assert model.names == ("slope", "scale")
    assert model.n == 2
    result = ev.log_evidence(model, target_se=0.2, random_seed=0, progressbar=False)
    assert result.names == ("slope", "scale")
    assert result.samples[:, 0].min() > 0.0
    assert result.samples[:, 0].max() < 1.0
    named = ev.DensityModel(lambda t: 0.0, prior_transform=lambda u: u, names=["a", "b", "c"])
    assert named.n == 3
    list_of = [stats.norm(), lambda first: stats.norm(first)]
    assert ev.DensityModel(lambda t: 0.0, prior=list_of, names=["first", "then"]).n == 2


def test_a_transform_may_write_into_what_it_is_given():
    def scaled(u):
        u *= 10.0
        return u

    model = ev.DensityModel(lambda t: 0.0, dim=2, prior_transform=scaled)
    x = np.zeros((3, 2))
    assert (model.constrain(x) == 5.0).all()
    assert (x == 0.0).all()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"dim": 2, "prior_transform": lambda u: u[:1]}, "prior_transform"),
        ({"dim": 2, "prior_transform": lambda u: u * np.nan}, "prior_transform"),
        ({"dim": 2, "prior_transform": lambda u: None}, "prior_transform"),
        ({"dim": 2, "prior_transform": "cube"}, "prior_transform"),
        ({"dim": 2, "prior_transform": cube, "prior": stats.norm()}, "prior or prior_transform"),
        ({"dim": 2, "prior_transform": cube, "bounds": [(0, 1)] * 2}, "bounds"),
        ({"prior_transform": cube}, "dim"),
        ({"prior": stats.norm()}, "dim"),
        ({"dim": 3, "prior": stats.multivariate_normal(MEAN, COV)}, "prior has 2 dimensions"),
        ({"prior": [(0.0, 1.0), (2.0, 1.0)]}, r"prior\[1\]"),
        ({"prior": [(0.0, math.nan)]}, r"prior\[0\]"),
        ({"prior": [(0.0, math.inf)]}, r"prior\[0\]"),
        ({"prior": [("0", "1")]}, r"prior\[0\]"),
        ({"prior": {"a": lambda b: stats.norm(b), "b": stats.norm()}}, r"prior\['a'\]"),
        ({"prior": {"a": stats.norm(), "b": lambda a: 3.0}}, r"prior\['b'\]"),
        ({"prior": [stats.norm()] * 2, "names": ["a"]}, "names|dim"),
    ],
)
def test_errors_name_the_argument(words, match):
    with pytest.raises(ev.InputError, match=match):
        ev.DensityModel(lambda t: 0.0, **words)


def test_there_is_no_way_back_from_a_transform():
    model = ev.DensityModel(lambda t: 0.0, dim=2, prior_transform=cube)
    with pytest.raises(ev.InputError, match="prior_transform"):
        model.unconstrain(np.zeros(2))


def test_priors_of_functions_of_a_parameter_are_their_own():
    """Of a variance, for its root, beside the same one for the parameter itself."""
    square = stats.expon(scale=2.0)
    change = Quantiles([OfSquare(square), square, OfSquare(stats.gamma(2.0)), stats.gamma(2.0)])
    x = np.array([[-1.0, -1.0, 0.7, 0.7]])
    roots = np.sqrt([square.ppf(stats.norm.cdf(-1.0)), stats.gamma(2.0).ppf(stats.norm.cdf(0.7))])
    np.testing.assert_allclose(change(x)[0, [0, 2]], roots, rtol=1e-12)
    np.testing.assert_allclose(change(x)[0, [1, 3]], roots**2, rtol=1e-12)
    np.testing.assert_allclose(change.inverse(change(x)), x, atol=1e-9)


def test_alike_functions_of_a_loop_are_called_once_and_mean_what_they_say():
    calls, prior = [], {"mu": stats.norm(0, 5), "tau": stats.halfnorm(0, 2)}

    def told(mu, tau):
        calls.append(mu.size)
        return stats.norm(mu, tau)

    def of_shape(a):
        return lambda mu: stats.gamma(a, scale=np.exp(mu))

    for i in range(20):
        prior[f"a{i}"] = lambda mu, tau: told(mu, tau)
    for i in range(3):
        prior[f"b{i}"] = of_shape(2.0 + i)
    prior["c"] = lambda b2, tau: (b2, b2 + tau)
    prior["d"] = stats.expon()
    model = ev.DensityModel(lambda t: 0.0, prior=prior)
    x = np.random.default_rng(1).normal(size=(6, model.n))
    calls.clear()
    theta = model.constrain(x)
    assert calls == [6]
    assert model.unconstrain(theta) == pytest.approx(x, abs=1e-8)
    u, mu, tau = stats.norm.cdf(x), theta[:, 0], theta[:, 1]
    for i in range(20):
        assert theta[:, 2 + i] == pytest.approx(stats.norm(mu, tau).ppf(u[:, 2 + i]))
    for i in range(3):
        exact = stats.gamma(2.0 + i, scale=np.exp(mu)).ppf(u[:, 22 + i])
        assert theta[:, 22 + i] == pytest.approx(exact)
    assert theta[:, 25] == pytest.approx(theta[:, 24] + tau * u[:, 25])


def test_a_function_that_makes_a_deviation_below_zero_is_told():
    prior = {"a": stats.norm(), "b": lambda a: stats.norm(0.0, a)}
    with pytest.raises(ev.InputError, match="finite quantiles"):
        ev.DensityModel(lambda t: 0.0, prior=prior)


def test_a_distribution_of_ones_own_is_asked_column_by_column():
    class Shifted:
        def __init__(self, by):
            self.by = by

        def ppf(self, u):
            assert u.shape in ((), self.by.shape)
            return self.by - np.log1p(-u)

    prior = {"a": stats.norm(), "b": lambda a: Shifted(a), "c": lambda a: Shifted(a)}
    model = ev.DensityModel(lambda t: 0.0, prior=prior)
    x = np.random.default_rng(2).normal(size=(5, 3))
    theta = model.constrain(x)
    assert theta[:, 2] == pytest.approx(x[:, 0] - np.log(stats.norm.sf(x[:, 2])))
    assert model.unconstrain(theta) == pytest.approx(x, abs=1e-6)


@pytest.mark.parametrize("rows", [1, 7, 1200])
def test_a_family_is_asked_at_once(rows):
    """One call serves distributions that differ in their parameters: the same as one by one."""
    kinds = [stats.t(0.2 + i, loc=i, scale=1.0 + i) for i in range(3)]
    kinds += [stats.gamma(2.0), stats.gamma(a=0.3, scale=4.0), stats.beta(2.0, 0.5)]
    change = Quantiles(kinds)
    assert len(change._groups(np.zeros((7, 6)))) == 3
    x = 4.0 * np.random.default_rng(0).standard_normal((rows, 6))
    x[0, :2] = [40.0, -40.0]
    theta, slope = change.slopes(x)
    for i, kind in enumerate(kinds):
        alone = Quantiles([kind])
        np.testing.assert_array_equal(theta[:, [i]], alone(x[:, [i]]))
        np.testing.assert_array_equal(slope[:, [i]], alone.slopes(x[:, [i]])[1])
        np.testing.assert_array_equal(change.inverse(theta)[:, [i]], alone.inverse(theta[:, [i]]))


def test_a_family_of_ones_own_is_asked_by_itself():
    """A class of the same name as one of SciPy's is another."""

    class T(stats.rv_continuous):
        def _pdf(self, x):
            return 0.5 * np.exp(-np.abs(x))

    kinds = [T(name="t")(loc=1.0), stats.t(3.0), stats.t(4.0)]
    assert len(Quantiles(kinds)._groups(np.zeros((1, 3)))) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        stats.norm(0, -1), stats.norm(0, 0), stats.norm(np.nan, 1), stats.halfnorm(0, -1),
        stats.expon(scale=-2), stats.uniform(2, -1), stats.uniform(0, 0), stats.gamma(-1),
        stats.t(-3), stats.loguniform(0, 1),
    ],
)  # fmt: skip
def test_a_distribution_that_is_none_is_refused_at_once(wrong):
    """SciPy gives NaN for all that is asked of it; norm(0, -1) was answered as norm(0, 1)."""
    name = wrong.dist.name
    with pytest.raises(ev.InputError, match=rf"prior\[1\] is {name}\(.*scale must be positive"):
        ev.DensityModel(loglik, vectorized=True, prior=[stats.norm(), wrong])
    with pytest.raises(ev.InputError, match=rf"prior\['a'\] is {name}\("):
        ev.DensityModel(loglik, vectorized=True, prior={"a": wrong, "b": lambda a: stats.norm(a)})
    if name in ("norm", "uniform"):
        with pytest.raises(ev.InputError, match=rf"linear\['m'\] is {name}\("):
            ev.linear_density(Y, np.ones((3, 1)), 1.0, linear={"m": wrong}, prior={"s": (0, 1)})


@pytest.mark.parametrize("prior", [stats.norm([0, 1], 1), [stats.norm([0, 1], 1), (0, 1)]])
def test_a_distribution_of_several_numbers_is_refused(prior):
    with pytest.raises(ev.InputError, match=r"prior\[0\] is norm\(\[0, 1\], 1\), of 2 numbers"):
        ev.DensityModel(loglik, vectorized=True, prior=prior)


@pytest.mark.parametrize("prior", [stats.dirichlet([1, 1]), stats.wishart(3, np.eye(2)), "flat"])
def test_what_is_no_prior_is_told_of_before_a_dimension_is_asked_for(prior):
    with pytest.raises(ev.InputError, match=r"prior must be ev\.GaussianPrior"):
        ev.DensityModel(loglik, vectorized=True, prior=prior)


def _wide(b, k):
    return stats.norm(0.0, k + np.abs(b))


@pytest.mark.parametrize("entry", [lambda b, k=2: _wide(b, k), partial(_wide, k=2)])
def test_arguments_that_are_given_are_no_names_of_parameters(entry):
    model = ev.DensityModel(loglik, vectorized=True, prior={"b": stats.norm(), "c": entry})
    assert np.allclose(model.constrain([1.0, 1.0]), [1.0, 3.0])


@pytest.mark.filterwarnings("error")
def test_what_quantiles_warn_of_far_out_stays_inside():
    """Boost's root finding gives up at 1e-97 of a beta, and says so whatever errstate is."""
    change = Quantiles([stats.beta(2, 4), stats.betaprime(2, 3), stats.invgauss(1.0)])
    x = np.linspace(-37.0, 37.0, 75)[:, None] * np.ones(3)
    assert np.isfinite(change(x)).all()
    change.slopes(x), change.derivatives(x), change.inverse(change(x))
    Dependent({"a": stats.norm(), "b": lambda a: stats.beta(2.0 + 0.0 * a, 4.0)})(x[:, :2])
