"""Draws under several data: weights and moments against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from numba import carray
from scipy import stats
from scipy.stats import norm

from evidence.gaussians.base import Sites
from evidence.models import likelihoods
from evidence.models.likelihoods.quadrature import evaluate
from evidence.numerics.jit import kernel
from evidence.numerics.normal import lanes_of
from evidence.proposals.integrals import (
    Draws,
    Integrand,
    data_of,
    draw_ahead,
    draw_with_one,
    draw_with_several,
    workspace,
)
from evidence.proposals.integrals.lattice import lattice


def memory(rng, n):
    return workspace(n, lanes_of(rng))


@pytest.mark.parametrize(
    ("name", "y", "offsets"),
    [
        ("poisson", [2.0, 0.0, 5.0, 1.0], [0.3, -0.2, 0.9, 0.1]),  # nearly Gaussian: two draws
        ("logit", [1.0, 1.0, -1.0, 1.0], [0.3, -0.2, 0.9, 0.1]),
        ("poisson", [90.0, 80.0], [4.4, 4.3]),  # as skewed as two draws may be
        ("poisson", [0.0, 60.0], [3.0, 2.0]),  # far from one: a lattice
        ("student_t(df=2, scale=0.2)", [-2.0, 2.0], [0.0, 0.0]),  # two modes
    ],
)
@pytest.mark.parametrize("root", [0.4, 1.5])
def test_weights_and_draws(name, y, offsets, root):
    """E[w], E[w v] and E[w v²] of 2¹⁴ draws, within 4.5 standard errors."""
    likelihood, y, n, mean = likelihoods.get(name), np.array(y), 2**14, 0.2
    D, rng = y.size, np.random.default_rng(0)
    theta = np.ascontiguousarray(likelihood.theta(y).T)
    scale, c = np.linspace(0.7, 1.3, D), np.full(D, -0.4)
    nu, tau = np.linspace(-0.3, 0.4, D), np.linspace(0.05, 0.1, D)
    known = np.repeat(np.array(offsets)[:, None], n, axis=1)
    hints = np.ascontiguousarray(likelihood.locations(y).T)
    value, log_weight = np.full(n, mean), np.zeros(n)
    data, concave = data_of(scale, Sites(c, nu, tau)), likelihood.log_concave
    f = Integrand(likelihood.kernel, concave, data, theta, hints, root, np.empty(0))
    draws = Draws(value, rng.standard_normal(n), rng.random(n), log_weight)
    draw_with_several(rng, f, known, draws, memory(rng, n), False)
    v = np.linspace(mean - 9.0 * root, mean + 9.0 * root, 20_001)
    eta = np.array(offsets)[:, None] + scale[:, None] * v
    columns = np.repeat(likelihood.theta(y)[:, :, None], v.size, axis=2)
    loglik = evaluate(likelihood.kernel, columns.reshape(len(columns), -1), eta.ravel())[0]
    tilt = loglik.reshape(eta.shape) - c[:, None] - eta * (nu[:, None] - 0.5 * tau[:, None] * eta)
    log_r = tilt.sum(axis=0) - 0.5 * ((v - mean) / root) ** 2 - np.log(root * np.sqrt(2 * np.pi))
    top = log_r.max()
    r, w = np.exp(log_r - top), np.exp(log_weight - top)
    for power in range(3):
        truth = np.sum(r * v**power) * (v[1] - v[0])
        found = w * value**power
        error = found.std(ddof=1) / np.sqrt(n) + 1e-9 * abs(truth)
        assert abs(found.mean() - truth) < 4.5 * error


@kernel
def falls_from_zero(x_, theta_, n, stride, step, order, out_):
    x, out = carray(x_, n), carray(out_, (4, n))
    for i in range(n):
        out[0, i] = -x[i] if x[i] > 0.0 else np.nan
        out[1, i], out[2, i], out[3, i] = -1.0, 0.0, 0.0


@pytest.mark.parametrize("concave", [True, False])
def test_where_a_kernel_has_no_value_there_is_no_weight(concave):
    """Two of them under N(0.5, 1): the integral of exp(-2v) over v > 0, or nothing lost."""
    n, rng, zero = 2**12, np.random.default_rng(0), np.zeros(2)
    value, log_weight = np.full(n, 0.5), np.zeros(n)
    data, hints = data_of(np.ones(2), Sites(zero, zero, zero)), np.ones((2, 1))
    f = Integrand(falls_from_zero, concave, data, zero[:, None], hints, 1.0, np.empty(0))
    draws = Draws(value, rng.standard_normal(n), rng.random(n), log_weight)
    draw_with_several(rng, f, np.zeros((2, n)), draws, memory(rng, n), False)
    w, truth = np.exp(log_weight), np.exp(-2.0 * 0.5 + 2.0) * norm.cdf(0.5 - 2.0)
    assert abs(w.mean() - truth) < 4.5 * w.std(ddof=1) / np.sqrt(n)
    assert value[w > 0.0].min() > 0.0


def test_skewed_integrands_need_no_lattice():
    """Bent draws weigh nearly the same where two mirrored ones of a Gaussian differ."""
    y = np.array([20.0, 20.0])
    likelihood, n = likelihoods.get("poisson"), 4096
    rng, D = np.random.default_rng(0), y.size
    theta = np.ascontiguousarray(likelihood.theta(y).T)
    value, log_weight = np.full(n, 3.0), np.zeros(n)
    nu, tau = np.full(D, 60.0), np.full(D, 20.0)  # sites of about the right curvature
    data, root = data_of(np.ones(D), Sites(np.zeros(D), nu, tau)), np.sqrt(1.0 / 40.04)
    hints = np.ascontiguousarray(likelihood.locations(y).T)
    f = Integrand(likelihood.kernel, True, data, theta, hints, root, np.empty(0))
    draws = Draws(value, rng.standard_normal(n), rng.random(n), log_weight)
    draw_with_several(rng, f, np.zeros((D, n)), draws, memory(rng, n), False)
    w = np.exp(log_weight - log_weight.max())
    assert 1e-5 < w.std() / w.mean() < 0.01  # a lattice makes 1e-10
    skew = stats.skew(value)
    assert abs(skew + 1.0 / np.sqrt(y.sum())) < 0.12  # of the log of a gamma variable


@pytest.mark.interpreted  # where what is written beside an array is an error
def test_draws_ahead_whose_means_are_far_apart():
    """E[exp(m(v))] of a message that is log-linear in the middle of its table."""
    n, root, slope = 2000, 0.01, 0.7
    rng = np.random.default_rng(4)
    value = np.repeat([-3.0, 1e4], n // 2)  # no lattice has room for both
    places = np.arange(-8.0, 8.25, 0.5)
    message = np.r_[0.0, 1.0, slope * places]
    log_weight = np.zeros(n)
    nothing = np.empty(0)
    data, none = data_of(nothing, Sites(nothing, nothing, nothing)), np.empty((0, 1))
    f = Integrand(likelihoods.get("logit").kernel, True, data, none, none, root, message)
    draws = Draws(value, rng.standard_normal(n), rng.random(n), log_weight)
    draw_ahead(rng, f, draws, memory(rng, n))
    near, far = np.exp(log_weight).reshape(2, -1)
    exact = np.exp(-3.0 * slope + 0.5 * (slope * root) ** 2)
    assert near.mean() == pytest.approx(exact, rel=1e-5)
    np.testing.assert_allclose(far, np.exp(8.0 * slope), rtol=1e-12)  # constant beyond the table
    assert np.abs(value[: n // 2] + 3.0).max() < 0.06


@pytest.mark.parametrize(
    ("name", "y"),
    [("logit", 1.0), ("poisson", 3.0), ("negative_binomial", 2.0), ("student_t", 0.5)],
)
@pytest.mark.parametrize(
    ("root", "spread", "n", "error"),
    [
        (0.05, 3.0, 2001, 0.02),  # pairs of draws
        (0.05, 3.0, 101, 0.1),  # whose Gaussians are interpolated between few means
        (0.6, 1.0, 1000, 1e-5),  # one lattice for all
        (0.6, 0.0, 77, 1e-5),
    ],
)
def test_every_mean_has_its_own_integral(name, y, root, spread, n, error):
    """Weights of means side by side to ``error``, their average and, of draws in units of their
    integrands' widths, mean, slope along the means and variance within 4.5 standard errors."""
    likelihood, rng = likelihoods.get(name), np.random.default_rng(0)
    theta = np.ascontiguousarray(likelihood.theta(np.array([y])).T)
    hints = np.ascontiguousarray(likelihood.locations(np.array([y])).T)
    means = rng.permutation(np.linspace(-spread, spread, n))
    c, nu, tau = -0.7, 0.2, 0.3
    data = data_of(np.ones(1), Sites(*np.array([[c], [nu], [tau]])))
    kernel, concave = likelihood.kernel, likelihood.log_concave
    f = Integrand(kernel, concave, data, theta, hints, root, np.empty(0))
    u = np.linspace(-8.0, 8.0, 161)
    eta = means[:, None] + root * u
    loglik = likelihood.log_prob(eta.ravel(), np.full(eta.size, y)).reshape(eta.shape)
    log_r = loglik - c - eta * (nu - 0.5 * tau * eta) - 0.5 * u**2 - 0.5 * np.log(2.0 * np.pi)
    r = np.exp(log_r) * (u[1] - u[0])
    mass = r.sum(axis=1)
    mean = (r * eta).sum(axis=1) / mass
    sd = np.sqrt((r * (eta - mean[:, None]) ** 2).sum(axis=1) / mass)
    drawn, ratios = [], []
    for _ in range(40):
        value, eps, log_weight = means.copy(), rng.random(n), np.zeros(n)
        draws = Draws(value, np.empty(0), eps, log_weight)
        draw_with_one(rng, f, draws, memory(rng, n), True)
        np.testing.assert_allclose(value, means + root * eps, rtol=1e-12, atol=1e-12)
        drawn.append((value - mean) / sd)
        ratios.append(np.exp(log_weight) / mass)
    z, w = np.array(drawn), np.array(ratios)
    assert np.abs(w - 1.0).max() < error
    for terms in (w - 1.0, w * z, w * z * means, w * (z**2 - 1.0)):
        assert abs(terms.mean()) < 4.5 * terms.std() / np.sqrt(z.size) + 1e-6


@pytest.mark.parametrize("scale", [0.03, 0.001])
def test_a_narrow_likelihood_in_a_wide_cavity_needs_few_nodes(scale):
    """Weights against sums over a fine graded grid, shares of draws near the datum, nodes."""
    likelihood = likelihoods.get(f"student_t(df=2, scale={scale})")
    rng, n = np.random.default_rng(1), 60
    y, root, tau, nu, c = np.array([0.5]), 2.0, 0.1, 0.3, -0.7
    theta = np.ascontiguousarray(likelihood.theta(y).T)
    hints = np.ascontiguousarray(likelihood.locations(y).T)
    data = data_of(np.ones(1), Sites(np.array([c]), np.array([nu]), np.array([tau])))
    f = Integrand(likelihood.kernel, False, data, theta, hints, root, np.empty(0))
    means, nodes = np.linspace(-12.0, 12.0, n), memory(rng, n).nodes
    u, step = np.linspace(-14.0, 14.0, 40_001, retstep=True)
    v = y + scale * np.sinh(u)
    log_l = likelihood.log_prob(v, np.repeat(y, v.size)) - c - v * (nu - 0.5 * tau * v)
    for mean in means:
        r = np.exp(log_l + norm.logpdf(v, mean, root)) * scale * np.cosh(u) * step
        first, last, log_w = lattice(rng, f, mean, nodes)
        assert last - first < 1000
        assert log_w == pytest.approx(np.log(r.sum()), abs=2e-3)
        near = np.abs(nodes.x[first:last] - y) < 5.0 * scale
        each = np.diff(nodes.g[first:last], prepend=0.0) / nodes.g[last - 1]
        truth = r[np.abs(v - y) < 5.0 * scale].sum() / r.sum()
        assert each[near].sum() == pytest.approx(truth, abs=0.02)
