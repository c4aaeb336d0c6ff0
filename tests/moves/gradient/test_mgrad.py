from __future__ import annotations

import numpy as np
import pytest
from moves.invariance import statistics
from problems import LIKELIHOODS, small_model
from scipy.stats import ks_2samp

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.moves import AGradZ, MGrad, take
from evidence.moves.gradient import mgrad
from evidence.moves.gradient.mgrad import _log_ratio, coefficients
from evidence.numerics import threads as parallel
from evidence.numerics.normal import standard_normal


def test_invariance_for_a_gaussian_posterior_in_ten_dimensions():
    """Exact posterior draws of a conjugate model, base = prior (tests the prior branch hard)."""
    model = small_model("gaussian(noise_std=0.7)", 10)
    path, posterior = ev.Path(prior_reference(model)), ev.fit_ep(model)
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(posterior.mean, posterior.cov, size=40_000, method="cholesky")
    move = MGrad(step_size=0.3)
    state = move.init(path, x[:20_000])
    for _ in range(5):
        state, _ = move.step(rng, path, 1.0, state)
    after = statistics(path, move.latent(path, state))
    fresh = statistics(path, x[20_000:])
    p = [ks_2samp(after[k], fresh[k], method="asymp").pvalue for k in fresh]
    assert min(p) * len(p) > 1e-5


@pytest.mark.interpreted
def test_detailed_balance_by_quadrature_in_one_dimension():
    """π(x) T(x, y) = π(y) T(y, x) for the accepted part of the kernel, on a grid."""
    model = small_model("poisson(exposure=1.5)", 1)
    path = ev.Path(ev.fit_ep(model))
    frame = path.coordinates("identity")
    beta, delta, gamma = 0.7, 1.3 * frame.gamma[0], frame.gamma[0]
    x = np.linspace(-2.0, 2.5, 25)
    log_pi = path.log_density(x[:, None], beta)
    tilt, slope = path.tilt_and_gradient(x[:, None])
    g = beta * slope[:, 0]
    a = x - path.mean[0]
    l1 = gamma * delta / (delta + 2 * gamma)
    l2 = l1 * (delta + 4 * gamma) / (delta + 2 * gamma)
    mean = l1 * (2 / delta * a + g)
    log_q = -0.5 * (a[None, :] - mean[:, None]) ** 2 / l2 - 0.5 * np.log(2 * np.pi * l2)
    exact = (log_pi[None, :] + log_q.T) - (log_pi[:, None] + log_q)
    pull, push, spread, weigh = coefficients(frame.gamma, delta)
    assert spread[0] ** 2 == pytest.approx(l2)
    ratio = np.empty((x.size, x.size))
    ones = np.full(x.size, beta)
    slope_u = slope * frame.T[0, 0]
    au = a[:, None] * frame.T[0, 0]
    for i in range(x.size):
        rows = np.full(x.size, i)
        _log_ratio(
            au[rows], tilt[rows], slope_u[rows], au, tilt, slope_u, ones, pull, push, weigh,
            ratio[i],
        )  # fmt: skip
    np.testing.assert_allclose(ratio, exact, atol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_one_beta_per_row(likelihood):
    """Row-wise temperatures: every row does what it would do alone."""
    path = ev.Path(ev.fit_ep(small_model(likelihood, 4)))
    x = np.random.default_rng(1).standard_normal((3, 4))
    move = MGrad(step_size=1.0)
    betas = np.array([0.1, 0.5, 1.0])
    together, info = move.step(np.random.default_rng(2), path, betas, move.init(path, x))
    for row, beta in enumerate(betas):
        alone, info_alone = move.step(np.random.default_rng(2), path, beta, move.init(path, x))
        np.testing.assert_allclose(together.a[row], alone.a[row], atol=1e-12)
        assert info.acceptance[row] == pytest.approx(info_alone.acceptance[row])


@pytest.mark.interpreted
def test_state_caches_what_it_says():
    path = ev.Path(ev.fit_ep(small_model("probit", 6)))
    move = MGrad(step_size=2.0)
    rng = np.random.default_rng(3)
    state = move.init_reference(rng, path, 50)
    before = [field.copy() for field in state]
    new, info = move.step(rng, path, 1.0, state)
    for field, copy in zip(state, before, strict=True):
        np.testing.assert_array_equal(field, copy)  # the input is not changed
    x = move.latent(path, new)
    tilt, gradient = path.tilt_and_gradient(x)
    np.testing.assert_allclose(new.tilt, tilt, atol=1e-10)
    np.testing.assert_allclose(new.slope, move.frame(path).slope(gradient), atol=1e-9)
    assert 0.0 < info.acceptance.mean() < 1.0
    picked = take(new, np.array([3, 3, 1]))
    np.testing.assert_array_equal(picked.a, new.a[[3, 3, 1]])


def test_gaussian_likelihood_needs_no_rejections():
    """With EP exact the tilt is flat: large steps are independent draws, always accepted."""
    path = ev.Path(ev.fit_ep(small_model("gaussian(noise_std=0.7)", 6)))
    move = MGrad(step_size=1e9)
    rng = np.random.default_rng(4)
    _, info = move.step(rng, path, 1.0, move.init_reference(rng, path, 100))
    assert info.acceptance.min() > 1 - 1e-6


def test_unknown_move_names_the_nearest():
    with pytest.raises(ValueError, match="unknown move 'mgard'; did you mean 'mgrad'"):
        ev.moves.get("mgard")


def test_one_move_serves_many_paths():
    """Nothing of one path is carried over to the next, whatever became of the first."""
    used = MGrad(step_size=1.0, coordinates="identity")
    for n in (4, 4, 6, 4):
        path = ev.Path(prior_reference(small_model("probit" if n == 4 else "logit", n)))
        fresh = MGrad(step_size=1.0, coordinates="identity")
        state = used.init_reference(np.random.default_rng(5), path, 20)
        a, _ = used.step(np.random.default_rng(6), path, 1.0, state)
        b, _ = fresh.step(np.random.default_rng(6), path, 1.0, state)
        np.testing.assert_array_equal(a.a, b.a)
        del path, state


class Replay:
    """A generator that hands out what was drawn before, step by step."""

    def __init__(self, normals, uniforms):
        self.normals, self.uniforms = iter(normals), iter(uniforms)

    def standard_normal(self, shape):
        return next(self.normals).copy()

    def random(self, m):
        return next(self.uniforms)


@pytest.mark.interpreted
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_many_steps_in_one_call_are_the_same_steps(rows, monkeypatch):
    path = ev.Path(ev.fit_ep(small_model("probit", 9)))
    move, rng, steps = MGrad(4.0), np.random.default_rng(0), 12
    assert move.stretch(path, rows) > 1
    assert move.stretch(path, 5) == 1
    assert AGradZ().stretch(path, rows) == 1
    state = move.init_reference(rng, path, rows)
    kept = [part.copy() for part in state]
    last, x, tilt, info = move.run(np.random.default_rng(1), path, 0.7, state, steps, 3)
    for part, before in zip(state, kept, strict=True):
        np.testing.assert_array_equal(part, before)
    again = np.random.default_rng(1)
    replay = Replay(standard_normal(again, (steps, rows, 9)), again.random((steps, rows)))
    monkeypatch.setattr(mgrad, "standard_normal", Replay.standard_normal)
    acceptance = np.zeros(rows)
    for k in range(steps):
        state, one = move.step(replay, path, 0.7, state)
        acceptance += one.acceptance
        if (k + 1) % 3 == 0:
            wanted = move.latent(path, state)
            np.testing.assert_allclose(x[:, k // 3], wanted, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(tilt[:, k // 3], state.tilt, rtol=1e-9)
    np.testing.assert_allclose(info.acceptance, acceptance, rtol=1e-9)
    assert 0.0 < acceptance.sum() < rows * steps
    assert info.gradients == rows * steps
    np.testing.assert_allclose(last.slope, state.slope, rtol=1e-9, atol=1e-12)


def test_a_state_without_density_is_left_alone():
    """NaN ratios are rejections, and counted."""
    path = ev.Path(ev.fit_ep(small_model("probit", 9)))
    move = MGrad(1.0)
    state = move.init_reference(np.random.default_rng(0), path, 2)
    state.slope[1] = np.nan
    last, _, _, info = move.run(np.random.default_rng(1), path, 1.0, state, 8, 8)
    assert info.failures == 8
    assert info.acceptance[1] == 0.0
    np.testing.assert_array_equal(last.a[1], state.a[1])


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_threads_do_not_change_a_bit(rows, monkeypatch):
    path = ev.Path(ev.fit_ep(small_model("probit", 9)))
    move = MGrad(1.0)
    state = move.init_reference(np.random.default_rng(0), path, rows)

    def run(cores):
        monkeypatch.setattr(parallel, "available_cores", lambda: cores)
        last, x, tilt, info = move.run(np.random.default_rng(1), path, 1.0, state, 20, 2)
        return *last, x, tilt, info.acceptance

    for one, two in zip(run(1), run(2), strict=True):
        np.testing.assert_array_equal(one, two)
