"""NUTS is exact, and row by row it is the recursive algorithm of the papers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from covering import covering, seldom
from moves.invariance import smallest_p_value
from problems import small_model
from scipy.stats import ttest_1samp

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.moves import HMC
from evidence.moves.hamiltonian.nuts import NUTS
from evidence.numerics.normal import standard_normal
from evidence.statistics.diagnostics import ess

#: reference -> fit, move: two to five doublings, or cut at three
CASES = {
    "ep": (ev.fit_ep, NUTS(0.7)),
    "laplace": (ev.fit_laplace, NUTS(0.4, max_depth=3)),
    "prior": (prior_reference, NUTS(0.15)),
}
NARROW = ["probit", "poisson(exposure=1.5)", "student_t(df=4, scale=0.5)"]


@pytest.mark.parametrize(
    ("reference", "likelihood", "beta"),
    seldom(covering(CASES, NARROW, [0.0, 0.3, 1.0]), 1, 2, 3, 4, 6),
)
def test_invariance(reference, likelihood, beta):
    """10,000 exact draws stay exact draws; false alarm rate at most 1e-5 per case. A shift of
    0.05 sd would be seen."""
    fit, move = CASES[reference]
    path = ev.Path(fit(small_model(likelihood)))
    assert smallest_p_value(path, move, beta, steps=3, m=10_000) > 1e-5


@pytest.mark.parametrize("mass", seldom(["identity", "expected"], 0))
def test_invariance_in_other_coordinates(mass):
    path = ev.Path(ev.fit_ep(small_model("poisson(exposure=1.5)")))
    assert smallest_p_value(path, NUTS(0.3, coordinates=mass), 1.0) > 1e-5


class Leaf(NamedTuple):
    a: np.ndarray
    p: np.ndarray
    log_w: float


def leapfrog(path: ev.Path, frame, beta: float, eps: float, leaf: Leaf) -> Leaf:
    """By the density of x and its gradient."""
    force = frame.slope(path.gradient(frame.to_latent(leaf.a), beta))[0]
    p = leaf.p + 0.5 * eps * force
    a = leaf.a + eps * p
    x = frame.to_latent(a)
    p = p + 0.5 * eps * frame.slope(path.gradient(x, beta))[0]
    return Leaf(a, p, float(path.log_density(x, beta)[0] - 0.5 * p @ p))


def turned(leaves: list[Leaf]) -> bool:
    half = len(leaves) // 2
    for stretch in (leaves, leaves[: half + 1], leaves[half - 1 :]):
        rho = np.sum([leaf.p for leaf in stretch], axis=0)
        if not min(stretch[0].p @ rho, stretch[-1].p @ rho) > 0.0:
            return True
    return False


def build(
    leap: Callable[[Leaf], Leaf], start: Leaf, origin: float, depth: int, visited: list[Leaf]
) -> list[Leaf] | None:
    """2^depth leaves beyond ``start``, or None as soon as they diverge or any half has turned."""
    if depth == 0:
        visited.append(leap(start))
        return visited[-1:] if visited[-1].log_w - origin > -1000.0 else None
    near = build(leap, start, origin, depth - 1, visited)
    far = near and build(leap, near[-1], origin, depth - 1, visited)
    return near + far if near and far and not turned(near + far) else None


def transition(
    leap: Callable[[float, Leaf], Leaf], start: Leaf, forward, u_leaf, u_merge
) -> tuple[Leaf, list[Leaf]]:
    """Hoffman and Gelman's recursion with Betancourt's draws: the new state, all leaves."""

    def weights(leaves: list[Leaf]) -> np.ndarray:
        return np.exp([leaf.log_w - start.log_w for leaf in leaves])

    drawn, old, visited = start, [start], []
    for depth in range(len(forward)):
        if not forward[depth]:
            old = old[::-1]
        step = partial(leap, 1.0 if forward[depth] else -1.0)
        u = u_leaf[len(visited) :]
        new = build(step, old[-1], start.log_w, depth, visited)
        if new is None:
            break
        w = weights(new)
        if u_merge[depth] * weights(old).sum() < w.sum():
            drawn = new[np.flatnonzero(u[: len(new)] * w.cumsum() < w)[-1]]
        old = old + new
        if turned(old):
            break
        if not forward[depth]:
            old = old[::-1]
    return drawn, visited


class Numbers(NamedTuple):
    eps: np.ndarray
    p: np.ndarray
    forward: np.ndarray  # (depths, M)
    u_leaf: np.ndarray  # (leaves, M)
    u_merge: np.ndarray  # (depths, M)


def numbers(rng: np.random.Generator, move: NUTS, m: int, n: int) -> Numbers:
    """The random numbers of a transition, in the order in which the batch draws them."""
    eps = move.step_size * (1.0 + move.jitter * rng.uniform(-1.0, 1.0, m))
    p = standard_normal(rng, (m, n))
    forward, u_leaf, u_merge = [], [], []
    for depth in range(move.max_depth):
        forward.append(rng.random(m) < 0.5)
        u_leaf += [rng.random(m) for _ in range(2**depth)]
        u_merge.append(rng.random(m))
    return Numbers(eps, p, *map(np.array, (forward, u_leaf, u_merge)))


def agrees_with_the_recursion(path, move, m, seed=0):
    """Every row, at its own β; returns the number of leaves of each."""
    frame = move.frame(path)
    state = move.init_reference(np.random.default_rng(seed), path, m)
    beta = np.linspace(0.0, 1.0, m)
    trees = move.grow(np.random.default_rng(seed + 1), path, beta, state)
    new, info = move.step(np.random.default_rng(seed + 1), path, beta, state)
    drawn = numbers(np.random.default_rng(seed + 1), move, m, path.n)
    leaves, diverged = [], 0
    for i in range(m):
        log_p = path.log_density(frame.to_latent(state.a[i]), beta[i])[0]
        start = Leaf(state.a[i], drawn.p[i], float(log_p - 0.5 * drawn.p[i] @ drawn.p[i]))

        def leap(sign, leaf, i=i):
            return leapfrog(path, frame, beta[i], sign * drawn.eps[i], leaf)

        leaf, visited = transition(
            leap, start, drawn.forward[:, i], drawn.u_leaf[:, i], drawn.u_merge[:, i]
        )
        error = start.log_w - np.array([leaf.log_w for leaf in visited])
        diverged += error[-1] > 1000.0
        leaves.append(len(visited))
        assert trees.leaves[i] == len(visited)
        np.testing.assert_allclose(new.a[i], leaf.a, atol=1e-8)
        assert info.acceptance[i] == pytest.approx(np.exp(-np.maximum(error, 0.0)).mean())
    assert info.gradients == sum(leaves)
    assert info.failures == diverged
    check = move.evaluate(path, frame, new.a)
    np.testing.assert_allclose(new.tilt, check.tilt, atol=1e-9)
    np.testing.assert_allclose(new.slope, check.slope, atol=1e-9)
    return np.array(leaves), diverged


@pytest.mark.parametrize(
    ("likelihood", "n", "fit", "move"),
    [
        pytest.param("probit", 2, ev.fit_ep, NUTS(0.1, max_depth=7), marks=pytest.mark.slow),
        ("poisson(exposure=1.5)", 2, prior_reference, NUTS(0.15, max_depth=4)),
        pytest.param(
            *("student_t(df=4, scale=0.5)", 5, ev.fit_laplace),
            NUTS(0.1, coordinates="identity"),
            marks=pytest.mark.slow,
        ),
        ("student_t(df=4, scale=0.5)", 5, prior_reference, NUTS(0.4, "identity", jitter=0.0)),
        pytest.param(
            "probit", 3, prior_reference, NUTS(0.2, coordinates="expected"), marks=pytest.mark.slow
        ),
    ],
)
def test_batch_agrees_with_the_recursion(likelihood, n, fit, move):
    path = ev.Path(fit(small_model(likelihood, n)))
    leaves, diverged = agrees_with_the_recursion(path, move, 150)
    assert diverged == 0
    assert np.count_nonzero(leaves & (leaves + 1)) >= 3  # some stop within a doubling


@pytest.mark.interpreted
def test_batch_agrees_with_the_recursion_on_a_few_rows():
    path = ev.Path(ev.fit_ep(small_model("probit", 3)))
    agrees_with_the_recursion(path, NUTS(0.3, max_depth=5), 12)


def test_divergences_stop_their_row_only():
    path = ev.Path(prior_reference(small_model("poisson(exposure=1.5)", 5)))
    leaves, diverged = agrees_with_the_recursion(path, NUTS(0.4, max_depth=5), 150)
    assert 0 < diverged < 75
    assert leaves.max() >= 7


@pytest.mark.interpreted
def test_states_of_no_density_stay_and_count_as_failures():
    path = ev.Path(ev.fit_ep(small_model("probit", 3)))
    move, rng = NUTS(0.3, max_depth=3), np.random.default_rng(0)
    state = move.init_reference(rng, path, 4)
    state.tilt[1] = -np.inf
    with np.errstate(invalid="ignore"):
        new, info = move.step(rng, path, 1.0, state)
    assert info.failures == 1
    assert info.acceptance[1] == 0.0
    np.testing.assert_array_equal(new.a[1], state.a[1])
    assert all(np.isfinite(field).all() for field in (new.a, new.slope, info.acceptance))


@pytest.mark.interpreted
def test_state_caches_what_it_says_and_seeds_repeat():
    path = ev.Path(ev.fit_ep(small_model("probit", 4)))
    move = NUTS(0.6, max_depth=4)
    state = move.init_reference(np.random.default_rng(0), path, 10)
    before = [field.copy() for field in state]
    new, info = move.step(np.random.default_rng(1), path, 0.5, state)
    for field, copy in zip(state, before, strict=True):
        np.testing.assert_array_equal(field, copy)  # the input is not changed
    again, _ = move.step(np.random.default_rng(1), path, 0.5, state)
    for field, same in zip(new, again, strict=True):
        np.testing.assert_array_equal(field, same)
    tilt, gradient = path.tilt_and_gradient(move.latent(path, new))
    np.testing.assert_allclose(new.tilt, tilt, atol=1e-10)
    np.testing.assert_allclose(new.slope, move.frame(path).slope(gradient), atol=1e-9)
    assert ((info.acceptance > 0.0) & (info.acceptance <= 1.0)).all()


def test_one_beta_per_row():
    """Row-wise temperatures: every row does what it would do in a batch at its temperature."""
    path = ev.Path(ev.fit_ep(small_model("poisson(exposure=1.5)", 4)))
    move, betas = NUTS(0.4), np.array([0.1, 0.5, 1.0])
    state = move.init(path, np.random.default_rng(1).standard_normal((3, 4)))
    together, info = move.step(np.random.default_rng(2), path, betas, state)
    for row, beta in enumerate(betas):
        alone, info_alone = move.step(np.random.default_rng(2), path, beta, state)
        np.testing.assert_allclose(together.a[row], alone.a[row], atol=1e-10)
        assert info.acceptance[row] == pytest.approx(info_alone.acceptance[row])


def chains(path, move, x, steps):
    """(steps, chains, N) draws and the number of gradients."""
    rng, state = np.random.default_rng(1), move.init(path, x)
    draws, gradients = [], 0
    for _ in range(steps):
        state, info = move.step(rng, path, 1.0, state)
        gradients += info.gradients
        draws.append(move.latent(path, state))
    return np.array(draws), gradients


def test_gaussian_target_in_twenty_dimensions():
    """Moments to 1e-5; more independent draws per gradient than HMC of a badly chosen length."""
    model = small_model("gaussian(noise_std=0.7)", 20)
    path, exact = ev.Path(prior_reference(model)), ev.fit_ep(model)
    x = np.random.default_rng(0).multivariate_normal(exact.mean, exact.cov, size=60)
    draws, gradients = chains(path, NUTS(0.25), x, 150)
    z = (draws - exact.mean) / np.sqrt(np.diag(exact.cov))
    per_chain = np.concatenate([z.mean(axis=0), (z * z).mean(axis=0) - 1.0], axis=1)
    assert ttest_1samp(per_chain, 0.0).pvalue.min() * 40 > 1e-5
    efficiency = ess(draws.swapaxes(0, 1)).min() / gradients
    for n_leapfrog in (1, 25):  # a random walk, and a full period of the slowest coordinate
        fixed, work = chains(path, HMC(0.25, n_leapfrog=n_leapfrog, jitter=0.0), x, 150)
        assert efficiency > ess(fixed.swapaxes(0, 1)).min() / work
