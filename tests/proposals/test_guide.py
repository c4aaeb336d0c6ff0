"""Guided draws: exact normalisers whatever the sites, exact weights where nothing is left."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from covering import in_turns, seldom
from problems import EVERY, covariance, exact_draws, log_z_by_quadrature, small_model
from scipy import stats
from scipy.special import ndtr, ndtri

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.models.likelihoods import Poisson
from evidence.proposals import guide as guiding
from evidence.proposals.guide import CannotGuide, make_guide, make_net
from evidence.proposals.integrals import one

REFERENCES = {"ep": ev.fit_ep, "laplace": ev.fit_laplace, "prior": prior_reference}
rng_of = np.random.default_rng


def draw(reference, n, seed=0):
    """Draws, weights relative to Z_q, and the estimate of log Z with its standard error."""
    guide = make_guide(reference)
    x, log_w = guide.draw(n, rng_of(seed))
    w = np.exp(log_w)
    return x, w, guide.log_z0 + np.log(w.mean()), w.std() / w.mean() / np.sqrt(n)


@pytest.mark.parametrize(("likelihood", "reference"), in_turns(EVERY, REFERENCES))
def test_unbiased_for_z(likelihood, reference):
    """z-score below 4.5 (false alarm 7e-6 a case) at a standard error below 0.02."""
    model = small_model(likelihood)
    _, _, log_z, se = draw(REFERENCES[reference](model), 20_000)
    assert abs(log_z - log_z_by_quadrature(model)) < 4.5 * max(se, 1e-6)
    assert se < 0.02


@pytest.mark.interpreted
@pytest.mark.parametrize("likelihood", ["probit", "student_t(df=4, scale=0.5)"])
def test_few_draws_are_near(likelihood):
    model = small_model(likelihood)
    _, _, log_z, _ = draw(ev.fit_ep(model), 50)
    assert abs(log_z - log_z_by_quadrature(model, 40)) < 0.05


@pytest.mark.parametrize("likelihood", seldom(EVERY, *range(6)))
def test_weighted_draws_are_posterior_draws(likelihood):
    """Means and second moments against 5000 exact draws, from sites that are off.

    Utilities are probit's latent values with unit noise. z-scores below 5: with 6 of them a
    false alarm has probability 3e-6.
    """
    model = small_model(likelihood)
    ep = ev.fit_ep(model)
    sites = ep.sites._replace(nu=0.7 * ep.sites.nu, tau=0.7 * ep.sites.tau)
    off = reference_with(model, sites)
    x, w, log_z, se = draw(off, 15_000, 1)
    assert abs(log_z - log_z_by_quadrature(model)) < 4.5 * max(se, 1e-6)
    exact = exact_draws(rng_of(2), ep, 1.0, 5000).T
    if likelihood == "probit":
        y = model.y[:, None]  # z given x and y, by quantiles of the tail that is left
        exact = exact - y * ndtri(rng_of(3).random(exact.shape) * ndtr(y * exact))
        assert (x * model.y[:, None] > 0.0).all()
    centre, w = exact.mean(axis=1, keepdims=True), w / w.sum()
    for power in (1, 2):
        mine, theirs = (x - centre) ** power, (exact - centre) ** power
        mean = mine @ w
        variance = ((mine - mean[:, None]) ** 2) @ w**2 + theirs.var(axis=1) / exact.shape[1]
        assert (np.abs(mean - theirs.mean(axis=1)) < 5.0 * np.sqrt(variance)).all()


def reference_with(model, sites):
    """A Gaussian reference with any sites, its normaliser by the textbook formula."""
    cov = np.linalg.inv(np.linalg.inv(model.K) + np.diag(sites.tau))
    pull = sites.nu - sites.tau * model.mean
    mean = model.mean + cov @ pull
    m = model.mean
    log_z = np.sum(sites.c + sites.nu * m - 0.5 * sites.tau * m * m) + 0.5 * pull @ cov @ pull
    log_z -= 0.5 * np.linalg.slogdet(np.eye(model.n) + model.K * sites.tau)[1]
    return dataclasses.replace(
        ev.fit_ep(model), sites=sites, mean=mean, var=np.diag(cov).copy(), logz=log_z
    )


def test_nothing_is_left_to_weigh_when_the_sites_are_exact():
    """A Gaussian likelihood: every weight is one, every draw the posterior's."""
    model = small_model("gaussian(noise_std=0.7)", 40)
    ep = ev.fit_ep(model)
    x, w, log_z, _ = draw(ep, 4000)
    np.testing.assert_allclose(w, 1.0, atol=1e-9)
    assert abs(log_z - ep.logz) < 1e-9
    root = np.linalg.cholesky(ep.cov)
    eps = np.linalg.solve(root, x - ep.mean[:, None])
    assert np.abs(eps.mean(axis=1)).max() < 5.0 / np.sqrt(4000)
    assert np.abs(eps @ eps.T / 4000 - np.eye(40)).max() < 6.0 * np.sqrt(2.0 / 4000)


def two_bumps(x, y):
    """Half of the noise is around -4 x: two narrow bumps, between them nothing."""
    a, b = (y - x) / 0.3, (y + 4.0 * x) / 0.3
    top = max(-0.5 * a * a, -0.5 * b * b)
    p, q = math.exp(-0.5 * a * a - top), math.exp(-0.5 * b * b - top)
    p, q = p / (p + q), q / (p + q)
    u, v = a / 0.3, -4.0 * b / 0.3
    du, dv = -1.0 / 0.09, -16.0 / 0.09
    d1 = p * u + q * v
    d2 = p * (u * u + du) + q * (v * v + dv) - d1 * d1
    m3 = p * (u**3 + 3.0 * u * du) + q * (v**3 + 3.0 * v * dv)
    d3 = m3 - 3.0 * d1 * (d2 + d1 * d1) + 2.0 * d1**3
    return top + math.log(math.exp(-0.5 * a * a - top) + math.exp(-0.5 * b * b - top)), d1, d2, d3


def one_value(likelihood, variance, y):
    if likelihood == "two bumps":
        likelihood = ev.likelihoods.from_function(two_bumps, name=likelihood, fisher=np.ones_like)
    return ev.GPModel(K=[[variance]], y=[y], likelihood=likelihood, jitter=0.0)


HARD = [
    ("two bumps", 2.0, 4.0),
    ("two bumps", 2.0, -4.0),
    ("logit", 1e4, 1.0),  # a cliff in a wide cavity
    ("logit", 1e6, -1.0),
    ("poisson", 1e4, 0.0),  # an exponential cliff
    ("poisson", 25.0, 300.0),  # a needle
    ("student_t(df=4, scale=0.5)", 9.0, 8.0),  # two modes
    ("student_t(df=2, scale=0.1)", 9.0, 9.0),  # of very different widths
    ("negative_binomial(dispersion=2.0)", 100.0, 5.0),
    ("probit", 1e6, 1.0),
    ("cloglog", 1e4, 1.0),  # exponential on one side only
    ("gamma(shape=0.05)", 1e4, 2.0),
    ("gamma(shape=300)", 25.0, 9.0),  # a needle
    ("ordinal(gaps=(0.001, 3))", 1e4, 1.0),  # a narrow category in a wide cavity
    ("ordinal(gaps=(50, 3))", 400.0, 1.0),  # a plateau
]


@pytest.mark.parametrize(
    ("reference", "likelihood", "variance", "y"),
    seldom(
        [
            (reference, *case)
            for start in range(2)
            for case, reference in in_turns(HARD, ["ep", "prior"], start)
        ],
        *range(len(HARD)),
    ),
)
def test_one_latent_value_is_an_exact_integral(reference, likelihood, variance, y):
    """The lattice's sum scatters by less than a tenth, and its mean is right within 4.5 se.

    Draws may share a lattice, whose own error is below a millionth.
    """
    model = one_value(likelihood, variance, y)
    truth = model.likelihood.tilted(model.y, model.mean, np.array([variance]))[0][0]
    _, w, log_z, se = draw(REFERENCES[reference](model), 2000)
    assert w.std() / w.mean() < 0.1
    assert abs(log_z - truth) < max(4.5 * se, 1e-6)


@pytest.mark.parametrize(("likelihood", "variance", "y"), HARD)
def test_one_latent_value_is_drawn_from_its_density(likelihood, variance, y):
    """Kolmogorov-Smirnov at 1e-5 against the tilted density on a fine grid (probit: utilities)."""
    model = one_value(likelihood, variance, y)
    x, *_ = draw(ev.fit_ep(model), 5000)
    if likelihood == "probit":
        assert stats.kstest(x[0], stats.halfnorm(scale=np.sqrt(variance + 1.0)).cdf).pvalue > 1e-5
        return
    grid = np.linspace(x.min() - 0.1 * np.ptp(x), x.max() + 0.1 * np.ptp(x), 100_001)
    log_p = model.likelihood.log_prob(grid, np.full(grid.size, y)) - 0.5 * grid**2 / variance
    mass = np.cumsum(np.exp(log_p - log_p.max()))
    assert stats.kstest(x[0], lambda at: np.interp(at, grid, mass / mass[-1])).pvalue > 1e-5


def test_one_of_two_draws_is_properly_weighted():
    """From a Gaussian that is off: mass, mean and second moment within 4.5 standard errors."""
    likelihood, y, mean, root = Poisson(), 3.0, 0.4, 0.7
    model = ev.GPModel(K=[[root**2]], y=[y], likelihood=likelihood, mean=mean, jitter=0.0)
    n = 20_000
    rng, both, draws = rng_of(0), np.empty(2 * n), np.empty((6, n))
    draws[0], draws[4], normals = mean, rng.random(n), rng.standard_normal(n)
    table = np.array([[0.8, 0.8], [0.6, 0.6], [0.0, 0.0]])
    one._mirror(table, np.zeros((3, 8)), mean, 1.0, normals, draws, both)
    loglik = likelihood.log_prob(both, np.full(2 * n, y))
    one._draw_of_two(draws, both, normals, loglik, (0.0, 0.0, 0.0), root)
    drawn = draws[4:].T
    log_z, centre, variance = likelihood.tilted(model.y, model.mean, np.array([root**2]))
    w = np.exp(drawn[:, 1] - log_z[0])
    for value, truth in ((1.0, 1.0), (drawn[:, 0] - centre, 0.0),
                         ((drawn[:, 0] - centre) ** 2, variance[0])):  # fmt: skip
        terms = w * value
        assert abs(terms.mean() - truth) < 4.5 * terms.std() / np.sqrt(w.size)


def test_draws_do_not_depend_on_how_data_are_ordered():
    """Another order of the data: the same log Z, and values in the places of their data."""
    model = small_model("poisson(exposure=1.5)", 3)
    flipped = ev.GPModel(
        K=model.K[::-1, ::-1], y=model.y[::-1], likelihood=model.likelihood, mean=model.mean[::-1]
    )
    x, w, log_z, se = draw(ev.fit_ep(model), 20_000)
    x2, w2, log_z2, se2 = draw(ev.fit_ep(flipped), 20_000, 1)
    assert abs(log_z - log_z2) < 4.5 * np.hypot(se, se2)
    for a, b in zip(x @ w / w.sum(), (x2 @ w2 / w2.sum())[::-1], strict=True):
        assert abs(a - b) < 0.05


def test_sites_of_negative_precision_come_first():
    model = ev.GPModel(
        K=covariance(12),
        y=np.resize([0.1, 6.0, -0.2], 12),
        likelihood="student_t(df=2, scale=0.2)",
    )
    ep = ev.fit_ep(model)
    negative = ep.sites.tau < 0.0
    assert 0 < negative.sum() < 12
    order = make_guide(ep).gaussian.order
    assert set(order[: negative.sum()]) == set(np.flatnonzero(negative))


def test_what_cannot_guide_says_so():
    model = small_model("probit", 3)
    ep = ev.fit_ep(model)
    narrow = dataclasses.replace(ep, sites=ep.sites._replace(tau=np.full(3, 1.5)))
    with pytest.raises(CannotGuide, match="narrower than probit's noise"):
        make_guide(narrow)
    model = small_model("poisson(exposure=1.5)", 3)
    ep = ev.fit_ep(model)
    for cov, words in ((np.ones((3, 3)), "numerically singular"), (10.0 * model.K, "not a dist")):
        with pytest.raises(CannotGuide, match=words):
            make_guide(with_covariance(ep, cov))
    with pytest.raises(CannotGuide, match="singular to within rounding"):
        make_guide(dataclasses.replace(ep, logz=ep.logz + 1.0))


def with_covariance(reference, cov):
    """The same sites, and a q that has nothing to do with them."""

    class Wrong(type(reference.gaussian)):
        covariance = cov

    wrong = dataclasses.replace(reference)
    wrong.__dict__["gaussian"] = Wrong(reference.model.prior, *reference.sites[1:])
    return wrong


def test_blocks_do_not_change_the_draws(monkeypatch):
    """The matrix products between blocks are a matter of speed."""
    model = small_model("probit", 40)
    guide = make_guide(ev.fit_ep(model))
    monkeypatch.setattr(guiding, "_BLOCK", 1)
    _, one = guide.draw(2000, rng_of(0))
    monkeypatch.setattr(guiding, "_BLOCK", 64)
    _, other = guide.draw(2000, rng_of(0))
    assert abs(np.log(np.exp(one).mean()) - np.log(np.exp(other).mean())) < 0.02
    assert one.std() == pytest.approx(other.std(), rel=0.2)


def test_a_shifted_net_fills_every_coordinate_evenly():
    """One point in each of 64 cells, whatever the shift; what has no digits is only random."""
    net = make_net(make_guide(ev.fit_ep(small_model("probit", 5))), 64, rng_of(0), most=3)
    assert net.shape == (3, 64)
    first, second = np.empty((5, 64)), np.empty((5, 64))
    rng = rng_of(1)
    for out in (first, second):
        guiding._uniforms(rng, net, out)
        assert (out >= 0.0).all()
        assert (out < 1.0).all()
        assert all(len(set(row)) == 64 for row in np.floor(64.0 * out[:3]).astype(int))
    assert np.abs(first - second).min(axis=1).max() > 0.0
    cells = np.floor(64.0 * first[3:]).astype(int)
    assert all(len(set(row)) < 64 for row in cells)


def test_a_single_point_of_a_net_is_uniform():
    """Over shifts: Kolmogorov-Smirnov and correlation of two coordinates, both at 1e-6."""
    net = make_net(make_guide(ev.fit_ep(small_model("probit", 2))), 8, rng_of(0))
    rng, out, points = rng_of(1), np.empty((2, 8)), []
    for _ in range(4000):
        guiding._uniforms(rng, net, out)
        points.append(out[:, 3].copy())
    points = np.array(points)
    assert all(stats.kstest(column, "uniform").pvalue > 1e-6 for column in points.T)
    assert stats.pearsonr(*points.T).pvalue > 1e-6


@pytest.mark.parametrize(
    ("likelihood", "n", "less"),
    [("probit", 64, 0.5), ("probit", 50, 0.5), ("poisson(exposure=1.5)", 64, 0.9)],
)
def test_unbiased_with_a_net(likelihood, n, less):
    """Means over 1000 shifts of one net, z-score below 4.5; less scatter than without."""
    model = small_model(likelihood)
    guide = make_guide(prior_reference(model))
    net, rng = make_net(guide, n, rng_of(0)), rng_of(1)
    assert net.shape[1] == n

    def estimates(net):
        return [np.exp(guide.draw(n, rng, net=net)[1]).mean() for _ in range(1000)]

    with_net, without = np.array(estimates(net)), np.array(estimates(None))
    error = guide.log_z0 + np.log(with_net.mean()) - log_z_by_quadrature(model)
    assert abs(error) < 4.5 * with_net.std() / with_net.mean() / np.sqrt(1000)
    assert with_net.std() < less * without.std()


def test_steps_off_the_lattice_keep_the_density():
    """Mean and variance of 300 calls' draws, z-scores below 4.5; accepting every step adds 3 %."""
    model, rng = one_value("logit", 1.0, 1.0), rng_of(0)
    guide = make_guide(ev.fit_ep(model))
    x = np.array([guide.draw(4000, rng)[0][0] for _ in range(300)])
    assert np.unique(x).size > 0.9 * x.size
    grid = np.linspace(-12.0, 14.0, 20_001)
    p = np.exp(model.likelihood.log_prob(grid, np.ones(grid.size)) - grid**2 / 2.0)
    p /= p.sum()
    mean = p @ grid
    for power, exact in ((1, 0.0), (2, p @ (grid - mean) ** 2)):
        means = ((x - mean) ** power).mean(axis=1)
        assert abs(means.mean() - exact) < 4.5 * means.std() / np.sqrt(300)
