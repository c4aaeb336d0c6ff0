"""Evidence at one setting of hyperparameters, and settings that have none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csc_array

import evidence as ev
from evidence import precisions
from evidence.approximations.gp.exact import log_evidence_of
from evidence.hyper.at_theta import (
    GuidedEvidence,
    NoEvidence,
    check_digits,
    ep_at,
    guided_estimate,
)
from evidence.hyper.direct import ClosedForm, ExactEvidence
from evidence.hyper.parts import parts_of
from evidence.models.priors import Priors


@pytest.mark.parametrize("log_odds", [36.0, 50.0])
def test_a_share_that_rounds_to_one_has_no_evidence(log_odds: float) -> None:
    # a default prior of bym2 has mass there, where a matrix is singular or 1 - phi is zero
    areas = precisions.bym2([(0, 1), (1, 2), (2, 3), (3, 4)], sigma=0.5)
    model = ev.SparseModel(areas, [3, 1, 4, 1, 5], likelihood="poisson")
    assert np.isfinite(ep_at(model, np.array([-0.7, 3.0])).logz)
    with pytest.raises(NoEvidence):
        ep_at(model, np.array([-0.7, log_odds]))


def test_a_likelihood_that_overflows_has_no_evidence() -> None:
    # (100 / mean)^1000; a search over shapes went there, and ended
    A = np.ones((2, 1))
    model = ev.SparseModel(csc_array(np.eye(1)), [0.01, 100.0], A=A, likelihood="weibull(shape=1)")
    assert np.isfinite(ep_at(model, np.array([0.0])).logz)
    with pytest.raises(NoEvidence, match="overflows"):
        ep_at(model, np.log([1000.0]))


def test_more_than_the_likelihood_can_be_is_no_evidence() -> None:
    # between modes, sites that contradict each other may promise hundreds of nats
    model = ev.GPModel(K=np.eye(2), y=[0.1, -0.2], likelihood="student_t(df=3, scale=0.5)")
    reference, highest = ev.fit_ep(model), model.likelihood.ceiling(model.y)
    check_digits(replace(reference, logz=highest), 0.1)
    with pytest.raises(NoEvidence):
        check_digits(replace(reference, logz=highest + 0.2), 0.1)


def test_slopes_where_noise_is_lost_in_rounding_are_differences():
    """EP's own slope in the length scale is 6e18 there, and ruined every surrogate."""
    x = np.array([0.31151941, 0.5043952, 0.57547366, 1.20127305, 1.56081354, 1.84095163])
    y = np.array([0.08350668, 0.07947001, 0.08338431, 0.09007174, 0.05102953, 0.00404748])
    model = ev.GPModel(
        x, y, "0.0025 * Matern(0.35, nu=2.5)", likelihood="gaussian(noise_std=1e-4)"
    )
    theta = np.log([0.234658, 1e-8])
    priors = {"length_scale": "flat", "noise_std": "flat"}
    known = Priors.of(model.hyperparameters, priors, ["constant_value"])
    evidence = ClosedForm(ExactEvidence(model, known), known.lows, 2)
    look, h = evidence.look(theta), 1e-4
    ends = [evidence.look(theta + s * h * np.array([1.0, 0.0])).log_z for s in (1, -1)]
    assert look.gradient[0] == pytest.approx((ends[0] - ends[1]) / (2.0 * h), rel=1e-3, abs=1e-2)


@pytest.mark.parametrize("kernel", ["1.5 * RBF(0.7) + WhiteKernel(0.1)", "fixed", None])
def test_a_look_by_the_matrix_alone_is_the_models_own(kernel):
    """Whatever of kernel and noise is free; a kernel's own matrix stays as it is."""
    X = np.linspace(0.0, 3.0, 8)[:, None]
    K = 0.8 ** np.abs(X - X.T)
    if kernel == "fixed":
        model = ev.GPModel(X, np.sin(3 * X[:, 0]), lambda a, b: K, likelihood="gaussian")
    elif kernel is None:
        model = ev.GPModel(y=np.sin(3 * X[:, 0]), K=K, mean=0.3, likelihood="gaussian")
    else:
        model = ev.GPModel(X, np.sin(3 * X[:, 0]), kernel, mean=0.3, likelihood="gaussian")
    every = {name: stats.lognorm(1.0) for name in model.hyperparameters.names}
    look = ExactEvidence(model, model.with_priors(every).priors)
    for values in np.exp(np.random.default_rng(1).standard_normal((3, len(every)))):
        there = model.at(dict(zip(every, values, strict=True)))
        assert look.at(values) == pytest.approx(log_evidence_of(there), rel=1e-12)
    np.testing.assert_array_equal(K, 0.8 ** np.abs(X - X.T))


GRID = np.linspace(0.0, 3.0, 12)
SMALL = {
    "chain": lambda: ev.GPModel(
        GRID, np.sin(GRID), "1.5 * Matern(0.7, nu=1.5)", likelihood="gaussian", structure="markov"
    ),
    "neighbours": lambda: ev.GPModel(
        GRID, np.sin(GRID), "2.0 * RBF(0.5)", likelihood="gaussian", structure="vecchia(m=40)"
    ),
    "series": lambda: ev.from_formula(
        "y ~ 1 + (1|g) + ar1(t)",
        {"y": np.sin(np.arange(60.0)), "t": np.arange(60) % 30, "g": list("abcd") * 15},
    ),
}


@pytest.mark.parametrize("kind", SMALL)
def test_small_priors_of_any_structure_are_matrices(kind, monkeypatch):
    """The same number as by their structure, which takes ten times as long; noise that leaves a
    matrix no digits is left to the structure."""
    model = SMALL[kind]()
    every = {name: stats.lognorm(1.0) for name in model.hyperparameters.names}
    every |= {name: stats.uniform(-1, 2) for name in every if "rho" in name}
    priors = model.with_priors(every).priors
    parts = parts_of(model, priors) if isinstance(model, ev.SparseModel) else None
    look = ExactEvidence(model, priors, parts)
    assert look.by_matrix
    start = model.hyperparameters.values
    noisy, exact = start * 1.3 ** np.where(start > 0.5, 1.0, -1.0), start.copy()
    exact[-1] = 1e-5
    want = [log_evidence_of(model.at(dict(zip(every, v, strict=True)))) for v in (noisy, exact)]
    assert look.at(exact) == want[1]
    monkeypatch.setattr("evidence.hyper.direct.log_evidence_of", None)
    assert look.at(noisy) == pytest.approx(want[0], rel=1e-9)
    with pytest.raises(TypeError):
        look.at(exact)


def test_modes_far_narrower_than_the_prior_have_an_evidence():
    """Two clusters under Student noise of a hundredth of what stands between them: a fourth of
    such settings was lost. Given what is common to all, data are independent."""
    y = np.array([-5.233, -5.126, 7.753, 7.808, 8.32, -5.013, 7.654, 7.983])
    own, scale, df = 24.2, 0.058, 4.0
    likelihood = f"student_t(df={df}, scale={scale})"
    model = ev.GPModel(K=100.0 + own * np.eye(y.size), y=y, likelihood=likelihood)
    c, log_g = np.linspace(-60.0, 60.0, 1201), np.linspace(-12.0, 8.0, 401)  # scales of normals
    sd = np.sqrt(own + scale**2 * np.exp(-log_g))
    weight = stats.gamma(df / 2.0, scale=2.0 / df).pdf(np.exp(log_g)) * np.exp(log_g)
    total = stats.norm(0.0, 10.0).logpdf(c)
    for datum in y:
        density = stats.norm.pdf(datum, c, sd[:, None])
        total += np.log(weight @ density * (log_g[1] - log_g[0]))
    truth = np.logaddexp.reduce(total) + np.log(c[1] - c[0])
    drawn = guided_estimate(ev.fit_ep(model), 64, np.random.default_rng(0), 0.1)
    assert drawn.log_z == pytest.approx(truth, abs=0.01)


@pytest.mark.parametrize(
    ("wide", "scale", "n", "most"), [(0.53, 3.0, 256, 0.05), (61.0, 0.01, 16, 1e-5)]
)
def test_clusters_of_a_robust_regression(wide, scale, n, most):
    """By a grid over what data have in common, Student's t as a mixture of normals. EP has no
    claim to 7 % of Z in the first case; evenly spaced nodes have no room for the second's
    likelihood. Four standard errors of 32 estimates."""
    y = np.array([-4.891, 8.116, -5.033, 8.059, -4.88])
    model = ev.GPModel(
        np.arange(5.0), y, f"ConstantKernel(100.0) + WhiteKernel({wide})",
        likelihood=f"student_t(df=2.0, scale={scale})", jitter=0,
    )  # fmt: skip
    t, c = np.linspace(-16.0, 6.0, 241), np.linspace(-60.0, 60.0, 2401)
    log_w = stats.gamma.logpdf(np.exp(t), 1.0) + t + np.log(t[1] - t[0])
    sd = np.sqrt(wide + scale**2 * np.exp(-t))[:, None, None]
    each = np.logaddexp.reduce(log_w[:, None, None] + stats.norm.logpdf(y - c[:, None], 0.0, sd))
    truth = np.logaddexp.reduce(each.sum(axis=1) + stats.norm.logpdf(c, 0.0, 10.0)) + np.log(0.05)
    theta = model.hyperparameters.theta
    best = ep_at(model, theta)
    free = np.arange(theta.size)
    at = GuidedEvidence(model, free, n, theta[None], (best.sites,), np.eye(theta.size))
    z = np.exp([at(theta, np.random.default_rng(i))[0] - truth for i in range(32)])
    error = z.std(ddof=1) / np.sqrt(z.size)
    assert abs(z.mean() - 1.0) < 4.0 * error + 1e-6 < most
