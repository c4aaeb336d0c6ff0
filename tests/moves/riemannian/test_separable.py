"""The integrators as maps: reversible, volume-preserving, of second order, and the same
trajectories as a slow transcription of the report's algorithm with converged fixed points."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import report_pseudocode as report
from paths.curvature import metric
from problems import LIKELIHOODS, small_model
from scipy.stats import multivariate_normal

import evidence as ev
from evidence import moves
from evidence.approximations.reference import prior_reference
from evidence.moves.riemannian import IRREVERSIBLE, NO_FIXED_POINT, OK, mmala, second_order
from evidence.moves.riemannian.base import systems
from evidence.moves.riemannian.separable import doubled, leapfrog, midpoint
from evidence.moves.riemannian.separable.system import Systems, momentum_at
from evidence.numerics import threads
from evidence.numerics.lapack import factor_inverse, scratch, solve_lower, symmetric_times

REFERENCES = {"ep": ev.fit_ep, "laplace": ev.fit_laplace, "prior": prior_reference}
TIGHT = (1e-13, 1e-9)
N = 3


def make(likelihood="probit", reference="ep", n=N):
    path = ev.Path(REFERENCES[reference](small_model(likelihood, n)))
    return path, Systems(path).make()


def implicit(module, likelihood="probit", reference="ep", eps=0.3, steps=3, beta=0.7):
    """(x, p) -> (x', p') and the energy error."""
    _, t = make(likelihood, reference)

    def run(z, eps=eps, steps=steps):
        x, p = z[:N].copy(), z[N:].copy()
        before, after, code, _ = module.trajectory(t, beta, eps, steps, x, p, TIGHT)
        assert code == OK
        return np.concatenate([x, p]), after - before

    return run


def explicit(likelihood="probit", reference="ep", eps=0.3, steps=3, beta=0.7):
    """(x, p, x̃, p̃) -> the same, and the change of log density."""
    path, t = make(likelihood, reference)
    bind = doubled.binding(path, 2.0, 0.1)

    def run(z, eps=eps, steps=steps):
        x, p, y, q = (part.copy() for part in z.reshape(4, N))
        before, after, code, _ = doubled.trajectory(t, bind, beta, eps, steps, x, p, y, q)
        assert code == OK
        return np.concatenate([x, p, y, q]), after - before

    return run


def start(copies=1, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(2 * N) * 0.7
    return np.concatenate([z + 0.05 * k * rng.standard_normal(2 * N) for k in range(copies)])


MAPS = {
    "leapfrog": (lambda **kw: implicit(leapfrog, **kw), 1),
    "midpoint": (lambda **kw: implicit(midpoint, **kw), 1),
    "explicit": (explicit, 2),
}
STEPS = (16, 32, 64)
FLIP = np.r_[np.ones(N), -np.ones(N)]


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("name", MAPS)
def test_reversible(name, likelihood):
    build, copies = MAPS[name]
    run, z = build(likelihood=likelihood), start(copies)
    flip = np.tile(FLIP, copies)
    there, change = run(z)
    back, change_back = run(flip * there)
    np.testing.assert_allclose(flip * back, z, atol=1e-8)
    assert change == pytest.approx(-change_back, abs=1e-8)
    assert np.abs(there - z).max() > 0.1


@pytest.mark.parametrize("likelihood", ["probit", "poisson(exposure=1.5)"])
@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", MAPS)
def test_preserves_volume(name, reference, likelihood):
    """|det J - 1| ≤ 1e-6, J by fourth-order differences."""
    build, copies = MAPS[name]
    run, z = build(likelihood=likelihood, reference=reference), start(copies)
    h = 3e-3

    def difference(e):
        return run(z + e)[0] - run(z - e)[0]

    columns = [(8 * difference(h * e) - difference(2 * h * e)) / (12 * h) for e in np.eye(z.size)]
    assert abs(np.linalg.det(np.array(columns))) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", MAPS)
def test_energy_error_is_of_second_order(name):
    """At a fixed total time, halving ε divides the energy error by about four."""
    build, copies = MAPS[name]
    run = build(likelihood="poisson(exposure=1.5)")
    z = np.tile(start(), copies)
    errors = [abs(run(z, eps=0.4 / k, steps=k)[1]) for k in STEPS]
    if copies == 2:  # the density of the copies starts at its maximum: look at H alone
        errors = [abs(_energy_of_copies(z, 0.4 / k, k)) for k in STEPS]
    for coarse, fine in itertools.pairwise(errors):
        assert 3.3 < coarse / fine < 4.7


def _energy_of_copies(z, eps, steps):
    """Error of H̃ = H(x, p̃) + H(x̃, p) + binding, which the doubled map conserves."""
    path, t = make("poisson(exposure=1.5)")
    bind = doubled.binding(path, 2.0, 0.1)

    def energy(x, p, y, q):
        total = 0.0
        for a, b in ((x, q), (y, p)):
            total -= leapfrog.trajectory(t, 0.7, 0.1, 0, a.copy(), b.copy(), TIGHT)[0]
        M = np.linalg.inv(bind.covariance)
        dx, dp = x - y, p - q
        return total + 0.5 * bind.omega * (dx @ M @ dx + dp @ bind.covariance @ dp)

    before = energy(*z.reshape(4, N))
    parts = [part.copy() for part in z.reshape(4, N)]
    doubled.trajectory(t, bind, 0.7, eps, steps, *parts)
    return energy(*parts) - before


@pytest.mark.parametrize(
    ("reference", "beta"),
    [
        ("ep", 0.3),
        pytest.param("ep", 1.0, marks=pytest.mark.slow),
        pytest.param("prior", 0.3, marks=pytest.mark.slow),
        pytest.param("prior", 1.0, marks=pytest.mark.slow),
    ],
)
def test_same_trajectories_as_the_report(reference, beta):
    """Against Algorithms 1-4 with converged fixed points: end point and energies."""
    model = ev.GPModel(K=small_model("probit", 8).K, y=np.resize([1.0, -1.0, 1.0, 1.0], 8))
    path = ev.Path(REFERENCES[reference](model))
    t = Systems(path).make()
    fixed = report.constants(path.reference, beta)
    rng = np.random.default_rng(4)
    for _ in range(3):
        x = path.mean + 0.8 * rng.standard_normal(8)
        p = np.empty(8)
        momentum_at(t, beta, x, rng.standard_normal((2, 8)), p)
        x_end, p_end, H_start, H_end = report.rmhmc_proposal(x, p, 5, 0.2, 60, fixed)
        before, after, code, _ = leapfrog.trajectory(t, beta, 0.2, 5, x, p, (1e-10, 1e-7))
        assert code == OK
        np.testing.assert_allclose(x, x_end, atol=1e-8)
        np.testing.assert_allclose(p, p_end, atol=1e-8)
        assert after - before == pytest.approx(H_start - H_end, abs=1e-8)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("likelihood", ["probit", "student_t(df=4, scale=0.5)"])
def test_momentum_has_the_metric_as_covariance(likelihood, reference):
    """p = Σ c_i z_i in the 2N normals z: its covariance is Σ c_i c_iᵀ, exactly."""
    path, t = make(likelihood, reference)
    x, beta = np.array([0.3, -0.5, 1.0]), 0.6

    def momentum(z):
        p = np.empty(N)
        momentum_at(t, beta, x, z.reshape(2, N), p)
        return p

    units = np.eye(2 * N)
    C = np.array([momentum(z) for z in units])
    G = np.linalg.inv(metric(path, x, beta).inverse)
    np.testing.assert_allclose(C.T @ C, G, atol=1e-9 * np.abs(G).max())
    z = np.random.default_rng(5).standard_normal(2 * N)
    np.testing.assert_allclose(momentum(z), z @ C, atol=1e-12)


def test_a_wild_step_is_rejected_and_counted():
    """Fixed points that do not exist are failures, not crashes, and states stay as they were."""
    model = ev.GPModel(K=2.0 * np.eye(3), y=[0.0, 40.0, 300.0], likelihood="poisson")
    path = ev.Path(prior_reference(model))
    rng = np.random.default_rng(6)
    for move in (moves.RMHMC(20.0, n_leapfrog=1), moves.MidpointRMHMC(20.0, n_leapfrog=1)):
        state = move.init_reference(rng, path, 8)
        new, info = move.step(rng, path, 1.0, state)
        assert info.failures > 4
        stayed = info.acceptance == 0.0
        np.testing.assert_array_equal(new.x[stayed], state.x[stayed])


def test_an_irreversible_step_is_found_out():
    """Steps so long that the reverse iteration lands elsewhere get their own code."""
    path, t = make("poisson(exposure=1.5)", "prior")
    rng, codes = np.random.default_rng(7), set()
    for _ in range(300):
        x, p = path.mean + rng.standard_normal(N), np.empty(N)
        momentum_at(t, 1.0, x, rng.standard_normal((2, N)), p)
        codes.add(leapfrog.trajectory(t, 1.0, 2.5, 1, x, p, (1e-9, 1e-6))[2])
    assert {OK, NO_FIXED_POINT, IRREVERSIBLE} <= codes


@pytest.mark.interpreted
def test_rows_do_not_depend_on_the_batch():
    path, _ = make("probit", "ep")
    x = np.random.default_rng(8).standard_normal((3, N))
    betas = np.array([0.1, 0.5, 1.0])
    for move in (moves.RMHMC(0.3, n_leapfrog=2), moves.MMALA(0.5), moves.SecondOrder(1.0)):
        assert move.riemannian
        state = move.init(path, x)
        together, info = move.step(np.random.default_rng(9), path, betas, state)
        again, _ = move.step(np.random.default_rng(9), path, betas, state)
        np.testing.assert_array_equal(together.x, again.x)
        np.testing.assert_array_equal(state.x, x)
        np.testing.assert_allclose(together.tilt, path.tilt(together.x))
        assert info.failures == 0


@pytest.mark.parametrize("likelihood", ["poisson(exposure=1.5)", "student_t(df=4, scale=0.5)"])
@pytest.mark.parametrize(
    "name", ["rmhmc", "rmhmc-midpoint", "rmhmc-explicit", "mmala", "second-order"]
)
def test_nothing_is_left_over_in_a_system(name, likelihood):
    """The same draws whatever was computed in it before."""
    path, _ = make(likelihood)
    move = replace(moves.get(name), step_size=0.2)
    state = move.init_reference(np.random.default_rng(11), path, 5)
    results = []
    for rubbish in (0.0, 1.0, np.nan):
        with systems(path).lend() as t:
            for array in (t.L, t.inverse, t.out, t.points, t.history, t.vectors):
                array.fill(rubbish)
        with threads.single():
            results.append(move.step(np.random.default_rng(12), path, 0.7, state))
        assert len(systems(path).idle) == 1  # lent, and given back
    for new, info in results[1:]:
        np.testing.assert_array_equal(new.x, results[0][0].x)
        np.testing.assert_array_equal(info.acceptance, results[0][1].acceptance)
    assert results[0][1].acceptance.min() > 0.0


def _log_normal(x, mean, covariance):
    return multivariate_normal(mean, covariance).logpdf(x)


def _dense_proposal(path, beta, x, name, step):
    """Mean and covariance of a proposal from its definition, with dense matrices."""
    G = metric(path, x, beta)
    force = path.gradient(x, beta)[0]
    if name == "second-order":
        A = np.linalg.inv(np.linalg.inv(G.inverse) + 2.0 / step * np.eye(path.n))
        return x + A @ force, A + 2.0 / step * A @ A
    drift = force - (2.0 * G.half_trace if name == "mmala" else 0.0)
    return x + 0.5 * step**2 * G.inverse @ drift, step**2 * G.inverse


@pytest.mark.parametrize("likelihood", ["probit", "poisson(exposure=1.5)"])
@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", ["mmala", "simplified-mmala", "second-order"])
def test_log_ratio_from_the_definition(name, reference, likelihood):
    """log π(x')q(x|x') - log π(x)q(x'|x), with every density written out."""
    path, t = make(likelihood, reference)
    rng, beta, step = np.random.default_rng(13), 0.7, 0.9
    for _ in range(5):
        x = path.mean + 0.7 * rng.standard_normal(N)
        new, z = x.copy(), rng.standard_normal((3, N))
        if name == "second-order":
            ratio, code, _ = second_order.transition(t, beta, step, (), new, z)
        else:
            c = 2.0 if name == "mmala" else 0.0
            ratio, code, _ = mmala.transition(t, beta, step, c, new, z)
        assert code == OK
        there = _log_normal(new, *_dense_proposal(path, beta, x, name, step))
        back = _log_normal(x, *_dense_proposal(path, beta, new, name, step))
        density = path.log_density(np.array([x, new]), beta)
        assert ratio == pytest.approx(density[1] - density[0] + back - there, abs=1e-8)


def test_second_order_scheme_is_exact_for_a_quadratic():
    """Gaussian likelihood: every proposal is accepted, whatever δ."""
    path = ev.Path(prior_reference(small_model("gaussian(noise_std=0.7)", 6)))
    rng = np.random.default_rng(10)
    move = moves.SecondOrder(3.0)
    _, info = move.step(rng, path, 1.0, move.init_reference(rng, path, 50))
    assert info.acceptance.min() > 1 - 1e-9


@pytest.mark.parametrize("n", [1, 5, 64, 65, 200, 333])
def test_factor_and_inverse(n):
    rng = np.random.default_rng(n)
    A = rng.standard_normal((n, n))
    A = A @ A.T + n * np.eye(n)
    L, inverse, x = A.copy(), np.zeros((n, n)), rng.standard_normal(n)
    s = scratch()
    assert factor_inverse(L, inverse, s) == 0
    exact = np.linalg.cholesky(A)
    np.testing.assert_allclose(np.triu(L).T, exact, rtol=1e-12, atol=1e-12 * n)
    np.testing.assert_allclose(np.triu(inverse).T @ exact, np.eye(n), atol=1e-12)
    y, z, out = x.copy(), x.copy(), np.empty(n)
    solve_lower(L, y, False, s)
    solve_lower(L, z, True, s)
    symmetric_times(A, x, out, s)
    np.testing.assert_allclose(exact @ y, x, atol=1e-11)
    np.testing.assert_allclose(exact.T @ z, x, atol=1e-11)
    np.testing.assert_allclose(out, A @ x, rtol=1e-11, atol=1e-10)
    A[n // 2, n // 2] = -1.0
    assert factor_inverse(A.copy(), inverse, s) > 0
