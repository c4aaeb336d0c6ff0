"""Every scheme leaves p(x, θ | y) invariant: its ratios, its posterior, exact starts."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache, partial

import hyper_problems as problems
import numpy as np
import pytest
from scipy.stats import chi2, kstest

from evidence.approximations.reference import prior_reference
from evidence.hyper import agrad, elliptical, parametrisations, pcnl, pseudo_marginal
from evidence.hyper.at_theta import NoEvidence
from evidence.hyper.chains import run_chain
from evidence.hyper.fields import GPField
from evidence.hyper.schemes import SCHEMES
from evidence.hyper.states import StepSizes, metropolis
from evidence.statistics import diagnostics

STEPS = StepSizes(delta=0.8, kappa=0.1)
#: schemes that start exactly from an exact draw: all but the one with estimates
EXACT = ["agrad-z-joint", "agrad-z-gibbs", "pcnl-gibbs", "elliptical-gibbs", "whitened"]
RATIOS_TELL = ("agrad-z-gibbs", "pcnl-gibbs")  # of both, without a chain
CASES = {
    "regression": problems.regression,
    "classification": problems.classification,
    "softmax": problems.softmax,
}


# -- ratios against dense densities ------------------------------------------------------------


def proposals(case, propose, of_theta):
    """Three proposals: (target, before, after, log ratio, z, the auxiliary variable if any)."""
    target = problems.target_of(*CASES[case]())
    for seed in range(3):
        rng = np.random.default_rng(seed)
        state = target.start(rng, target.field.hyperparameters.theta)
        to = [target.propose(rng, state, 0, STEPS.kappa)] if of_theta else []
        x, gradient = (state.x[0], state.gradient[0]) if of_theta else (state.x, state.gradient)
        z = agrad.auxiliary(copy.deepcopy(rng), x, gradient, STEPS.delta)
        after, ratio = propose(rng, target, state, STEPS, *to)
        assert (after.x != state.x).any() or (after.theta != state.theta).any()
        loglik, gradient = target.field.loglik(after.x, after.theta)
        assert after.loglik == loglik
        np.testing.assert_array_equal(after.gradient, gradient)
        yield target, state, after, ratio, z


def log_z(target, z, x, theta, blocks):
    """log N(z; x + (δ/2) ∇f, (δ/2) I) of some blocks."""
    half = 0.5 * STEPS.delta
    gradient = target.field.loglik(x, theta)[1]
    centre = x + half * gradient
    return sum(problems.normal(z[b], centre[b], half * np.eye(target.field.n)) for b in blocks)


def log_given_z(target, x, z, theta, blocks):
    """log N(x; m + (2/δ) A (z - m), A)."""
    value = 0.0
    for b in blocks:
        K, m = target.field.covariance(b, theta), target.field.mean[b]
        A = np.linalg.inv(np.linalg.inv(K) + 2.0 / STEPS.delta * np.eye(len(K)))
        value += problems.normal(x[b], m + 2.0 / STEPS.delta * A @ (z[b] - m), 0.5 * (A + A.T))
    return value


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("jointly", [False, True])
def test_ratio_given_the_auxiliary_variable(jointly, case):
    propose = agrad.propose_jointly if jointly else agrad.propose
    for target, old, new, ratio, z in proposals(case, propose, jointly):
        blocks = [0] if jointly else range(len(old.x))
        z = z[None] if jointly else z
        expected = problems.log_joint(target, new.x, new.theta)
        expected -= problems.log_joint(target, old.x, old.theta)
        expected += log_z(target, z, new.x, new.theta, blocks)
        expected -= log_z(target, z, old.x, old.theta, blocks)
        expected += log_given_z(target, old.x, z, old.theta, blocks)
        expected -= log_given_z(target, new.x, z, new.theta, blocks)
        assert ratio == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("case", CASES)
def test_ratio_of_theta_given_x(case):
    for target, old, new, ratio, _ in proposals(case, parametrisations.propose_centred, True):
        expected = problems.log_joint(target, new.x, new.theta)
        assert ratio == pytest.approx(expected - problems.log_joint(target, old.x, old.theta))
        np.testing.assert_array_equal(old.x, new.x)


@pytest.mark.parametrize("case", CASES)
def test_ratio_of_theta_given_the_whitened_field(case):
    for target, old, new, ratio, _ in proposals(case, parametrisations.propose_whitened, True):
        field, value = target.field, []
        for state in (new, old):
            L = np.linalg.cholesky(field.covariance(0, state.theta))
            nu = np.linalg.solve(L, state.x[0] - field.mean[0])
            value.append((problems.log_joint(target, state.x, state.theta), L, nu))
        (after, L1, nu1), (before, L0, nu0) = value
        np.testing.assert_allclose(nu1, nu0, atol=1e-8)
        jacobian = np.log(np.diag(L1)).sum() - np.log(np.diag(L0)).sum()
        assert ratio == pytest.approx(after - before + jacobian, abs=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_ratio_of_pcnl(case):
    rho = 2.0 / (2.0 + STEPS.delta)
    for target, old, new, ratio, _ in proposals(case, pcnl.propose, False):
        field = target.field

        def forward(start, end, field=field):
            value = 0.0
            for b, m in enumerate(field.mean):
                K = field.covariance(b, start.theta)
                drift = rho * (start.x[b] - m) + (1.0 - rho) * K @ start.gradient[b]
                value += problems.normal(end.x[b], m + drift, (1.0 - rho**2) * K)
            return value

        expected = problems.log_joint(target, new.x, new.theta)
        expected -= problems.log_joint(target, old.x, old.theta)
        assert ratio == pytest.approx(expected + forward(new, old) - forward(old, new), abs=1e-6)


@pytest.mark.parametrize(
    ("log_ratio", "probability"), [(1.0, 1.0), (-1.0, np.exp(-1.0)), (np.nan, 0.0), (-np.inf, 0.0)]
)
def test_metropolis_accepts_with_the_ratio(log_ratio, probability):
    """A binomial count of 2000 within 4 standard errors (6e-5)."""
    rng = np.random.default_rng(0)
    steps = [metropolis(rng, "old", ("new", log_ratio)) for _ in range(2000)]
    assert {p for _, p in steps} == {probability}
    share = np.mean([state == "new" for state, _ in steps])
    assert abs(share - probability) <= 4.0 * np.sqrt(probability * (1.0 - probability) / 2000)


class Impulse:
    """A generator whose k-th standard normal is 1, and all others 0."""

    def __init__(self, k):
        self.k, self.seen = k, 0

    def standard_normal(self, size):
        out = np.zeros(size)
        if self.seen <= self.k < self.seen + out.size:
            out.flat[self.k - self.seen] = 1.0
        self.seen += out.size
        return out


def test_auxiliary_variable_has_its_moments():
    x, g, delta = np.array([[0.3, -1.0]]), np.array([[2.0, 0.5]]), 0.8
    np.testing.assert_allclose(agrad.auxiliary(Impulse(9), x, g, delta), x + 0.4 * g)
    zero = np.zeros((1, 2))
    root = [agrad.auxiliary(Impulse(k), zero, zero, delta)[0] for k in range(2)]
    np.testing.assert_allclose(root, np.sqrt(0.4) * np.eye(2))


def test_draw_given_the_auxiliary_variable_has_its_moments():
    target = problems.target_of(*problems.regression())
    state = target.start(np.random.default_rng(0), target.field.hyperparameters.theta)
    (factor,), delta = state.factors, 0.8
    K = target.field.covariance(0, state.theta)
    A = np.linalg.inv(np.linalg.inv(K) + 2.0 / delta * np.eye(3))
    z = np.array([0.3, -1.0, 2.0])
    mean = agrad.given_auxiliary(Impulse(99), factor, delta, z)
    np.testing.assert_allclose(mean, 2.0 / delta * A @ z, atol=1e-9)
    zero = np.zeros(3)
    root = np.array([agrad.given_auxiliary(Impulse(k), factor, delta, zero) for k in range(6)])
    np.testing.assert_allclose(root.T @ root, A, atol=1e-9)


def test_the_ellipse_always_leads_back_to_the_state():
    """Noise of 0.02: many shrinks, and each must keep the angle 0 in the bracket."""
    model = problems.regression()[0].at({"noise_std": 0.02})
    target = problems.target_of(model, problems.regression()[1])
    rng = np.random.default_rng(0)
    state, states = target.start(rng, model.hyperparameters.theta), set()
    for _ in range(200):
        state, info = elliptical.update(rng, target, state, STEPS)
        states.add(state.loglik)
        assert info.probability == 1.0
    assert len(states) == 200


@pytest.mark.parametrize("scheme", SCHEMES)
def test_steps_out_of_the_range_of_numbers_are_rejected(scheme):
    """What tuning may try before it knows the scale."""
    target, rng = problems.target_of(*problems.regression()), np.random.default_rng(0)
    state = target.start(rng, target.field.hyperparameters.theta)
    for _ in range(20):
        state, _ = SCHEMES[scheme].theta(rng, target, state, StepSizes(0.8, 1e5))
    assert np.isfinite(state.loglik)


# -- posteriors by quadrature ------------------------------------------------------------------


def chain(field, priors, scheme, seed, draws, tune=500):
    return run_chain(
        field,
        priors,
        scheme,
        lambda steps: None,
        draws=draws,
        tune=tune,
        thin=1,
        stride=1,
        seed=np.random.SeedSequence(seed),
        stop=lambda: False,
    )


def z_scores(run, x, truth):
    """How far the moments of θ and x are from the truth, in standard errors."""
    theta = np.array(run.theta)
    columns = np.concatenate([theta, theta**2, x, x**2], axis=1)
    ess = diagnostics.ess(columns[None])
    assert ess.min() > 30
    return (columns.mean(axis=0) - truth) / (columns.std(axis=0) / np.sqrt(ess))


@cache
def truth_of(case):
    return getattr(problems, f"{case}_moments")(*CASES[case]())


def check_posterior(case, scheme, draws):
    """Within 4 standard errors: ten or so dependent moments, 2-sided 6e-5 each."""
    (model, priors), truth = CASES[case](), truth_of(case)
    field = model if case == "softmax" else GPField(model)
    run = chain(field, priors, SCHEMES[scheme], 1, draws)
    x = np.array(run.x)
    x = x[:, :2] - x[:, 2:] if case == "softmax" else x
    scores = z_scores(run, x, truth)
    assert np.abs(scores).max() < 4.0, scores


@pytest.mark.parametrize(
    "scheme",
    [s if s == "whitened" else pytest.param(s, marks=pytest.mark.slow) for s in EXACT],
)
def test_regression_posterior(scheme):
    check_posterior("regression", scheme, 2500 if "joint" in scheme else 1200)


def test_pseudo_marginal_refuses_numbers_that_are_rounding():
    """With noise e⁻¹⁶ guided draws have no digits left; such a θ must not attract the chain.

    With less noise taken away they have: log Z hardly depends on it any longer.
    """
    target = problems.target_of(*problems.regression())
    theta = np.array([0.2, 0.0, -8.0])
    found = [
        pseudo_marginal.estimate(np.random.default_rng(0), target, theta - [0, 0, less], 4).log_z
        for less in (0.0, 4.0)
    ]
    assert abs(found[1] - found[0]) < 1e-3
    for less in (8.0, 12.0):
        with pytest.raises(NoEvidence, match=r"digits|not a distribution|rounding"):
            pseudo_marginal.estimate(np.random.default_rng(0), target, theta - [0, 0, less], 4)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["agrad-z-joint", "elliptical-gibbs"])
def test_softmax_posterior(scheme):
    check_posterior("softmax", scheme, 1500)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("case", CASES)
def test_posterior_at_length(case, scheme):
    if (case, scheme) != ("softmax", "pseudo-marginal"):
        check_posterior(case, scheme, 25_000)


class Rough(GPField):
    """The prior instead of EP: importance weights far from even."""

    def reference(self, theta):
        return prior_reference(self.model.at(theta))


def test_estimates_of_the_evidence():
    """Exact with EP and Gaussian noise; from the prior within 5 standard errors (6e-7)."""
    model, priors = problems.regression()
    target, rng = problems.target_of(model, priors), np.random.default_rng(0)
    theta = np.array([0.3, -0.2, -0.1])
    cov = model.at(theta).K + np.exp(2.0 * theta[2]) * np.eye(3)
    exact = problems.normal(model.y, model.mean, cov)
    assert pseudo_marginal.estimate(rng, target, theta, 4).log_z == pytest.approx(exact)
    rough = replace(target, field=Rough(model))
    cloud = pseudo_marginal.estimate(rng, rough, theta, 100_000)
    weights = np.exp(cloud.log_weights)
    se = weights.std() / weights.mean() / np.sqrt(weights.size)
    assert abs(cloud.log_z - exact) < 5.0 * se < 0.05


def test_pseudo_marginal_is_exact_with_noisy_estimates():
    """Three draws of the prior per θ; 4 standard errors as above."""
    noisy = partial(pseudo_marginal.update, bounds=(3, 3))
    model, priors = problems.classification()
    truth = problems.classification_moments(model, priors, points=15, nodes=9)
    scheme = SCHEMES["pseudo-marginal"]._replace(theta=noisy)
    run = chain(Rough(model), priors, scheme, 2, 600, 100)
    assert np.abs(z_scores(run, np.array(run.x), truth)).max() < 4.0


# -- exact starts ------------------------------------------------------------------------------


def simulated(case, scheme, replicates, steps):
    """Exact draws of (θ, x, y), then ``steps`` iterations that must leave θ and x a prior draw."""
    thetas, energies = [], []
    for seed in range(replicates):
        rng = np.random.default_rng([seed, 7])
        model, priors = CASES[case]()
        theta = model.hyperparameters.theta.copy()
        theta[priors.free] = problems.prior_draw(priors, rng)
        there = model.at(theta)
        x = there.mean + there.chol @ rng.standard_normal(model.n)
        model.y = there.likelihood.simulate(x, rng)
        model.theta = model.likelihood.theta(model.y)
        target = problems.target_of(model, priors)
        state = target.start(rng, theta)._replace(x=x[None])
        loglik, gradient = target.field.loglik(state.x, theta)
        state = state._replace(loglik=loglik, gradient=gradient)
        for _ in range(steps):
            state, _ = SCHEMES[scheme].latent(rng, target, state, StepSizes(0.8, 0.4))
            state, _ = SCHEMES[scheme].theta(rng, target, state, StepSizes(0.8, 0.4))
        thetas.append(state.theta)
        energies.append(np.sum(state.factors[0].whiten(state.x[0] - model.mean) ** 2))
    return priors, np.array(thetas), np.array(energies)


def check_exact_starts(scheme, replicates, steps, level):
    priors, theta, energy = simulated("regression", scheme, replicates, steps)
    for p, d in enumerate(priors.distributions):
        assert kstest((theta[:, p] - d.mu) / d.s, "norm").pvalue > level
    assert kstest(energy, chi2(3).cdf).pvalue > level


@pytest.mark.slow
def test_exact_starts_stay_exact():
    """Four Kolmogorov-Smirnov tests at 1e-4 each."""
    check_exact_starts("agrad-z-joint", 100, 15, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", EXACT)
def test_exact_starts_stay_exact_at_length(scheme):
    """Four Kolmogorov-Smirnov tests at 1e-4 each."""
    check_exact_starts(scheme, 2000, 20, 1e-4)
