"""Riemannian metrics and integrators for any density: derivatives, maps, invariance.

The oracle for invariance is that of :mod:`moves.invariance`: M exact draws of p_β stay exact
draws, by two-sample Kolmogorov–Smirnov tests with a false alarm of at most 1e-5 per case, on
densities whose exact draws are made by construction (:mod:`density.cases`).
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from covering import covering, seldom
from models.density.cases import CASES, Case, banana, funnel, given, tempered_draws
from scipy.special import ndtr, ndtri
from scipy.stats import ks_2samp

import evidence as ev
from evidence import moves
from evidence.approximations.density.modes import fit_density_laplace
from evidence.approximations.density.reference import DensityReference, density_prior_reference
from evidence.models.density.checking import central
from evidence.moves.base import per_row
from evidence.moves.riemannian import NO_METRIC, OK, rmhmc
from evidence.moves.riemannian.dense.field import DensityField, Goal, Point
from evidence.moves.riemannian.dense.integrators import (
    Doubled,
    Leapfrog,
    Midpoint,
    UnderWay,
    binding,
    solve_position,
)
from evidence.moves.riemannian.dense.metric import plain, soft
from evidence.paths.density import DensityPath, own_path

# -- SoftAbs ------------------------------------------------------------------------------------

SCALES = np.concatenate([10.0 ** np.arange(-12, 13), [0.019, 0.021, 0.3, 3.0, 19.9, 20.1]])


def exact_softabs(x, alpha):
    x, alpha = mp.mpf(x), mp.mpf(alpha)
    if x == 0:
        return 1 / alpha, mp.mpf(0)
    a = alpha * x
    return x * mp.coth(a), mp.coth(a) - a * mp.csch(a) ** 2


def exact_divided(x, y, alpha):
    if x == y:
        return exact_softabs(x, alpha)[1]
    return (exact_softabs(x, alpha)[0] - exact_softabs(y, alpha)[0]) / (mp.mpf(x) - mp.mpf(y))


class Watched:
    """A path that tells which V its ∇⟨V, A⟩ is asked for; A is given."""

    def __init__(self, A, alpha):
        self.A, self.model, self.asked = A, SimpleNamespace(metric=ev.SoftAbs(alpha)), None
        self.reference = SimpleNamespace(precision=np.eye(A.shape[1]))

    def curvature(self, y):
        return self.A

    def curvature_slope(self, y, V):
        self.asked = V
        return y

    def curvature_along(self, y, w):
        self.asked = w[:, :, None] * w[:, None, :]
        return y


def divided_differences(lam, alpha):
    """J of pairs of eigenvalues (M, 2), as (M, 2, 2): V = J for w = 1 and diagonal A."""
    path = Watched(lam[:, :, None] * np.eye(2), alpha)
    field, one = DensityField(path, np.ones(len(lam))), np.ones_like(lam)
    field.kinetic(Point(one, one[:, 0], one[:, 0], one, field.metric(one)), one)
    return path.asked


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_softabs_against_mpmath(alpha, sign):
    """|αλ| from 1e-12 to 1e12."""
    lam = np.concatenate([[0.0], sign * SCALES / alpha])
    metric = soft(lam[:, None, None], alpha)
    with mp.workdps(80):
        wanted = np.array([[float(v) for v in exact_softabs(x, alpha)] for x in lam]).T
    np.testing.assert_allclose(metric.lam[:, 0], lam, rtol=1e-15)
    np.testing.assert_allclose(metric.phi[:, 0], wanted[0], rtol=1e-14)
    np.testing.assert_allclose(metric.slope[:, 0], wanted[1], rtol=1e-11, atol=1e-300)
    assert (np.abs(metric.slope) <= 1.0).all()


@pytest.mark.parametrize("alpha", [1.0, 1e6])
def test_divided_differences_against_mpmath(alpha):
    """Pairs (λ, λ(1 ± near)) and (λ, -λ(1 + near)), equal ones included."""
    nearness = np.array([0.0, 1e-15, 1e-12, 1e-9, 1e-7, 3e-7, 1e-5, 1e-3, 0.1])
    other = np.concatenate([1.0 + nearness, 1.0 - nearness, -1.0 - nearness])
    scales = np.concatenate([SCALES, [2e-8, 5e-8, 3e-7, 2e-6, 4e-5]])
    lam = np.stack(np.broadcast_arrays(scales[:, None], scales[:, None] * other), axis=-1)
    lam = lam.reshape(-1, 2) / alpha
    J = divided_differences(lam, alpha)
    with mp.workdps(80):
        off = [float(exact_divided(x, y, alpha)) for x, y in lam]
        own = [[float(exact_softabs(x, alpha)[1]) for x in pair] for pair in lam]
    np.testing.assert_allclose(J[:, 0, 1], off, atol=1e-9)
    np.testing.assert_array_equal(J[:, 0, 1], J[:, 1, 0])
    np.testing.assert_allclose(np.einsum("mii->mi", J), own, rtol=1e-11)


def test_soft_metric_is_the_matrix_function():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 5, 5))
    A = A + np.swapaxes(A, 1, 2)
    alpha, p = 2.0, rng.standard_normal((4, 5))
    metric = soft(A, alpha)
    assert not metric.bad.any()
    for k in range(4):
        lam, Q = np.linalg.eigh(A[k])
        G = (Q * (lam / np.tanh(alpha * lam))) @ Q.T
        np.testing.assert_allclose(metric.solve(p)[k], np.linalg.solve(G, p[k]), rtol=1e-9)
        assert metric.half_logdet()[k] == pytest.approx(0.5 * np.linalg.slogdet(G)[1])
    check_momentum(metric, np.linalg.inv(_inverse(metric, 5)))


def test_cholesky_metric():
    rng = np.random.default_rng(1)
    B = rng.standard_normal((3, 4, 4))
    A = B @ np.swapaxes(B, 1, 2) + 0.5 * np.eye(4)
    metric, p = plain(A.copy()), rng.standard_normal((3, 4))
    np.testing.assert_allclose(metric.L @ np.swapaxes(metric.L, 1, 2), A, rtol=1e-12)
    np.testing.assert_allclose(metric.solve(p), np.linalg.solve(A, p[..., None])[..., 0])
    np.testing.assert_allclose(metric.half_logdet(), 0.5 * np.linalg.slogdet(A)[1])
    check_momentum(metric, A)


def _inverse(metric, d):
    m = len(metric.bad)
    return np.stack([metric.solve(np.tile(e, (m, 1))) for e in np.eye(d)], axis=2)


def check_momentum(metric, G):
    """The covariance of L z is L Lᵀ, column by column."""
    m, d = G.shape[:2]
    L = np.stack([metric.momentum(np.tile(e, (m, 1))) for e in np.eye(d)], axis=2)
    np.testing.assert_allclose(L @ np.swapaxes(L, 1, 2), G, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["soft", "plain"])
def test_bad_rows_are_marked_and_leave_others_alone(kind):
    rng = np.random.default_rng(2)
    B = rng.standard_normal((6, 3, 3))
    A = B @ np.swapaxes(B, 1, 2) + np.eye(3)

    def make(a):
        return soft(a, 1.0) if kind == "soft" else plain(a)

    broken = A.copy()
    broken[1, 0, 2] = np.nan
    broken[3] = np.inf
    broken[4] = -np.eye(3)
    before = broken.copy()
    metric, good = make(broken.copy()), make(A.copy())
    expected = [False, True, False, True, kind == "plain", False]
    np.testing.assert_array_equal(metric.bad, expected)
    p = rng.standard_normal((6, 3))
    for a, b in ((metric.solve(p), good.solve(p)), (metric.half_logdet(), good.half_logdet())):
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a[[0, 2, 5]], b[[0, 2, 5]])
    if kind == "soft":
        make(broken)
        np.testing.assert_array_equal(broken, before)


# -- the field ----------------------------------------------------------------------------------


def information(x):
    G = np.zeros((len(x), 3, 3))
    G[:, 0, 0] = 1.0 + x[:, 1] ** 2
    G[:, 1, 1], G[:, 2, 2] = 2.0 + np.sin(x[:, 0]), 1.5 + 0.1 * x[:, 2] ** 2
    G[:, 0, 1] = G[:, 1, 0] = 0.3 * np.cos(x[:, 2])
    return G


def information_slope(x, W):
    d0 = np.cos(x[:, 0]) * W[:, 1, 1]
    d1 = 2.0 * x[:, 1] * W[:, 0, 0]
    d2 = 0.2 * x[:, 2] * W[:, 2, 2] - 0.3 * np.sin(x[:, 2]) * (W[:, 0, 1] + W[:, 1, 0])
    return np.column_stack([d0, d1, d2])


METRICS = {
    "softabs 1": ev.SoftAbs(1.0),
    "softabs 1e6": ev.SoftAbs(1e6),
    "hessian": "hessian",
    "fisher": ev.Fisher(information, information_slope),
}


def convex(**words):
    """Log-concave, three-dimensional, with third derivatives everywhere."""
    B = np.array([[1.0, 0.4, 0.0], [0.0, 1.0, -0.5], [0.3, 0.0, 1.0]])

    def tensor(x):
        u = x @ B.T
        return -np.einsum("mn,ni,nj,nk->mijk", 24.0 * u + np.sinh(u), B, B, B)

    return ev.DensityModel(
        lambda x: -((x @ B.T) ** 4 + np.cosh(x @ B.T)).sum(axis=1),
        3,
        grad=lambda x: -(4.0 * (x @ B.T) ** 3 + np.sinh(x @ B.T)) @ B,
        hessian=lambda x: (
            -np.einsum("mn,ni,nj->mij", 12.0 * (x @ B.T) ** 2 + np.cosh(x @ B.T), B, B)
        ),
        third=lambda x, W: np.einsum("mijk,mij->mk", tensor(x), W),
        tensor=tensor,
        vectorized=True,
        **words,
    )


def field_of(metric, beta, tails):
    if metric == "hessian":
        model = convex(metric="hessian", check=True)
        cov = np.array([[1.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 1.0]])
        mean = np.array([0.1, 0.0, -0.1])  # few tails: they bend a Hessian
        reference = DensityReference("given", model, mean, cov, 0.0, 0.2 * tails)
        y = 0.3 * np.random.default_rng(3).standard_normal((4, 3))
    else:
        case = funnel(metric=METRICS[metric], check=True)
        reference = given(case, tails)
        y = DensityPath(reference).latent(case.draws(np.random.default_rng(3), 4))
    return DensityField(DensityPath(reference), per_row(beta, 4)), y


@pytest.mark.parametrize("tails", [0.0, 0.2])
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("metric", METRICS)
def test_field_by_differences(metric, beta, tails):
    """Density, force - ½∇log|G| and ∇(wᵀGw) for fixed w."""
    field, y = field_of(metric, beta, tails)
    point = field.point(y)
    assert not point.metric.bad.any()
    w = np.random.default_rng(4).standard_normal(y.shape)
    q = field.path.reference

    def log_p(t):
        base = -0.5 * np.einsum("mi,mi->m", q.standardise(t), q.standardise(t))
        return base + beta * field.path.tilt(t)

    def log_p_metric(t):
        return log_p(t) - field.metric(t).half_logdet()

    def quadratic(t):
        return np.einsum("mi,mij,mj->m", w, np.linalg.inv(_inverse(field.metric(t), 3)), w)

    np.testing.assert_allclose(point.log_p, log_p(y), atol=1e-10)
    np.testing.assert_allclose(point.h, field.path.tilt(y), atol=1e-10)
    wanted = central(log_p_metric, y)
    np.testing.assert_allclose(point.force, wanted, atol=2e-6 * max(1.0, np.abs(wanted).max()))
    wanted = central(quadratic, y)
    found = field.kinetic(point, w)
    np.testing.assert_allclose(found, wanted, atol=2e-6 * max(1.0, np.abs(wanted).max()))
    # the same from all of ∂A at once
    whole = field.point(y, tensor=True)
    assert (whole.tensor is None) == (metric == "fisher" or tails > 0.0)
    np.testing.assert_allclose(whole.force, point.force, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(field.kinetic(whole, w), found, rtol=1e-9, atol=1e-11)
    # and the energy they belong to
    p = np.random.default_rng(5).standard_normal(y.shape)
    kinetic = np.einsum("mi,mi->m", p, point.metric.solve(p))
    np.testing.assert_allclose(point.minus_energy(p), log_p_metric(y) - 0.5 * kinetic, atol=1e-9)


@pytest.mark.parametrize("beta", [0.3, 1.0])
@pytest.mark.parametrize("metric", ["hessian", "softabs 1", "softabs 1e6"])
def test_trajectories_do_not_depend_on_how_derivatives_are_asked_for(metric, beta):
    """All of ∂A at a point in one call and compiled fixed points, or a call for each."""
    known, y = field_of(metric, beta, 0.0)
    eps = per_row(0.1, len(y))
    ends, left = [], []
    for pairs in (known.pairs, 0):
        field = DensityField(known.path, known.beta, pairs)
        start, e = field.point(y), 0.25 * eps[:, None]
        p = start.metric.momentum(np.random.default_rng(1).standard_normal(y.shape))
        asked = field.point(y, tensor=True)
        assert (asked.tensor is None) == (pairs == 0)
        w, arrived = field.momentum(asked, p, e, Goal(1e-12))
        back, there = field.momentum(asked, p, e, Goal(1e-9, w))
        _, missed = field.momentum(asked, p, e, Goal(1e-9, w * (1.0 + 1e-6)))
        assert arrived.all()
        assert there.all()
        assert not missed.any()
        left.append(w)
        ends.append(Leapfrog(1e-11, 1e-8).follow(field, start, p, eps, 5))
        np.testing.assert_allclose(back, w, atol=1e-8)
    np.testing.assert_allclose(left[0], left[1], rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(ends[0].code, ends[1].code)
    assert (ends[0].code == OK).any()
    np.testing.assert_allclose(ends[0].y, ends[1].y, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ends[0].log_ratio, ends[1].log_ratio, atol=1e-7)


def test_each_row_has_its_own_temperature():
    field, y = field_of("softabs 1", 1.0, 0.2)
    betas = np.array([0.0, 0.3, 0.7, 1.0])
    together = DensityField(field.path, betas).point(y)
    for i, beta in enumerate(betas):
        alone = DensityField(field.path, per_row(beta, 1)).point(y[[i]])
        np.testing.assert_allclose(alone.force[0], together.force[i], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(alone.log_p[0], together.log_p[i], rtol=1e-12)
    some = np.array([3, 1])
    rows = DensityField(field.path, betas).rows(some).point(y[some])
    np.testing.assert_allclose(rows.force, together.force[some], rtol=1e-10, atol=1e-12)


# -- the integrators as maps --------------------------------------------------------------------

D = 3
TIGHT = (1e-13, 1e-9)
STARTS = 6


def maps(name, tails=0.0, beta=0.8):
    """(M, 2D) or (M, 4D) → the same, and the change of log density."""
    path = DensityPath(given(funnel(metric=ev.SoftAbs(1.0)), tails))

    def run(z, eps=0.2, n_steps=3):
        field = DensityField(path, per_row(beta, len(z)))
        y, p, *copies = (np.ascontiguousarray(part) for part in np.split(z, z.shape[1] // D, 1))
        rows, start = UnderWay(field, np.full(len(z), eps)), field.point(y)
        if name == "explicit":
            integrator = Doubled(binding(path, "base", 2.0, 0.5), np.zeros((len(z), 2, D)))
            phase = start, p, *copies, None
        else:
            integrator = {"leapfrog": Leapfrog, "midpoint": Midpoint}[name](*TIGHT)
            phase = integrator.phase(field, start, p)
        before = integrator.log_density(*phase)
        for _ in range(n_steps):
            phase = integrator.step(rows, *phase)
        assert (rows.code == OK).all()
        point, *others = phase
        change = integrator.log_density(*phase) - before
        return np.hstack([point.y, *others[: z.shape[1] // D - 1]]), change

    return run


def starts(name, tails=0.0, m=STARTS, seed=6):
    case = funnel()
    path = DensityPath(given(case, tails))
    rng = np.random.default_rng(seed)
    y = path.latent(case.draws(rng, m))
    z = [y, rng.standard_normal((m, D))]
    if name == "explicit":
        z += [part + 0.1 * rng.standard_normal((m, D)) for part in z]
    return np.hstack(z)


MAPS = ("leapfrog", "midpoint", "explicit")


def flip(z):
    sign = np.tile(np.repeat([1.0, -1.0], D), z.shape[1] // (2 * D))
    return z * sign


@pytest.mark.parametrize("tails", [0.0, 0.2])
@pytest.mark.parametrize("name", MAPS)
def test_reversible(name, tails):
    run, z = maps(name, tails), starts(name, tails)
    there, change = run(z)
    back, change_back = run(flip(there))
    np.testing.assert_allclose(flip(back), z, atol=1e-8)
    np.testing.assert_allclose(change, -change_back, atol=1e-8)
    assert (np.abs(there - z).max(axis=1) > 0.1).all()


@pytest.mark.parametrize("tails", [0.0, 0.2])
@pytest.mark.parametrize("name", MAPS)
def test_preserves_volume(name, tails):
    """|det J - 1| ≤ 1e-6 at every start, J by fourth-order differences."""
    run, z = maps(name, tails), starts(name, tails)
    h, d = 1e-3, z.shape[1]
    steps = h * np.multiply.outer([1.0, -1.0, 2.0, -2.0], np.eye(d))[:, :, None]
    one, back, two, far = run((z + steps).reshape(-1, d))[0].reshape(4, d, *z.shape)
    J = np.swapaxes((8.0 * (one - back) - (two - far)) / (12.0 * h), 0, 1)
    np.testing.assert_allclose(np.abs(np.linalg.det(J)), 1.0, atol=1e-6)


@pytest.mark.parametrize("name", ["leapfrog", "midpoint"])
def test_energy_error_is_of_second_order(name):
    """At a fixed total time, halving ε divides the energy error by about four."""
    run, z = maps(name), starts(name, m=12)
    errors = [np.abs(run(z, eps=0.3 / k, n_steps=k)[1]) for k in (4, 8, 16)]
    for coarse, fine in itertools.pairwise(errors):
        assert 3.3 < np.median(coarse / fine) < 4.7
        assert 3.3 < np.sqrt((coarse**2).mean() / (fine**2).mean()) < 4.7


def test_energy_error_of_the_doubled_map_is_of_second_order():
    """H(x, p̃) + H(x̃, p) + binding is what it conserves."""
    run, z = maps("explicit"), starts("explicit", m=12)
    path = DensityPath(given(funnel(metric=ev.SoftAbs(1.0))))
    b, field = binding(path, "base", 2.0, 0.5), DensityField(path, per_row(0.8, 12))

    def energy(state):
        y, p, y2, p2 = np.split(state, 4, axis=1)
        total = -field.point(y).minus_energy(p2) - field.point(y2).minus_energy(p)
        dy, dp = y - y2, p - p2
        both = np.einsum("mi,ij,mj->m", dy, b.M, dy) + np.einsum("mi,ij,mj->m", dp, b.inverse, dp)
        return total + 0.5 * b.omega * both

    errors = []
    for k in (8, 16, 32):
        errors.append(np.abs(energy(run(z, eps=0.3 / k, n_steps=k)[0]) - energy(z)))
    for coarse, fine in itertools.pairwise(errors):
        assert 3.3 < np.sqrt((coarse**2).mean() / (fine**2).mean()) < 4.7


@pytest.mark.parametrize("kind", ["base", "identity"])
def test_binding_matrices(kind):
    path = DensityPath(given(banana()))
    b = binding(path, kind, 3.0, 0.1)
    M = path.reference.precision if kind == "base" else np.eye(2)
    np.testing.assert_allclose(b.M, M, rtol=1e-12)
    np.testing.assert_allclose(b.M @ b.inverse, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(b.root @ b.root.T, b.M, rtol=1e-12)
    np.testing.assert_allclose(b.inverse_root @ b.inverse_root.T, b.inverse, rtol=1e-12)
    assert (b.omega, b.sigma) == (3.0, 0.1)


@pytest.mark.parametrize("kind", ["base", "identity"])
def test_copies_are_drawn_from_the_density_that_counts_them(kind):
    """Of normals z, up to a constant: -|z|²/2, beside -H."""
    path, rng = DensityPath(given(banana())), np.random.default_rng(0)
    field, z = DensityField(path, per_row(0.8, 5)), rng.standard_normal((5, 2, 2))
    integrator = Doubled(binding(path, kind, 3.0, 0.1), z)
    point, p = field.point(path.reference.mean + 0.1 * z[:, 0]), rng.standard_normal((5, 2))
    found = integrator.log_density(*integrator.phase(field, point, p))
    wanted = point.minus_energy(p) - 0.5 * np.sum(z**2, axis=(1, 2))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


ROWS = {
    "rmhmc": moves.RMHMC(0.3, n_leapfrog=3, jitter=0.0),
    "rmhmc-midpoint": moves.MidpointRMHMC(0.3, n_leapfrog=3, jitter=0.0),
    "rmhmc-explicit": moves.ExplicitRMHMC(0.1, n_leapfrog=3, omega=3.0, sigma=0.3, jitter=0.0),
}


class Recorded:
    """A generator that hands out what was drawn before, row by row."""

    def __init__(self, normals, uniforms):
        self.normals, self.uniforms = normals, uniforms

    def standard_normal(self, shape):
        assert shape == self.normals.shape
        return self.normals

    def random(self, m):
        return self.uniforms

    def uniform(self, low, high, m):
        return np.zeros(m)


@pytest.mark.parametrize("metric", ["softabs 1", "fisher"])
@pytest.mark.parametrize("name", ROWS)
def test_rows_do_not_influence_each_other(name, metric, monkeypatch):
    """Alone, together, and beside rows that fail: the same end."""
    monkeypatch.setattr(rmhmc, "standard_normal", Recorded.standard_normal)
    case = funnel(metric=METRICS[metric])
    path, rng, m = DensityPath(given(case, 0.1)), np.random.default_rng(7), 5
    y = path.latent(case.draws(rng, m))
    y[2] = 1e200  # has no metric
    shape = (m, 3, D) if name == "rmhmc-explicit" else (m, D)
    z, u, betas = rng.standard_normal(shape), rng.random(m), np.linspace(0.2, 1.0, m)

    def step(rows):
        with np.errstate(all="ignore"):
            state = ROWS[name].init(path, y[rows])
        return ROWS[name].step(Recorded(z[rows], u[rows]), path, betas[rows], state)

    together, info = step(np.arange(m))
    assert info.failures == 1
    assert info.acceptance[2] == 0.0
    np.testing.assert_array_equal(together.x[2], y[2])
    assert (info.acceptance[[0, 1, 3, 4]] > 0.01).all()
    for i in (0, 1, 3, 4):
        alone, one = step(np.array([i]))
        np.testing.assert_allclose(alone.x[0], together.x[i], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(one.acceptance[0], info.acceptance[i], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(alone.tilt[0], path.tilt(alone.x)[0], atol=1e-9)


@pytest.mark.parametrize("name", ROWS)
def test_rows_without_a_metric_are_rejected(name):
    """An indefinite Hessian as metric: those rows stay, the others move."""
    case = funnel(metric="hessian")
    path = DensityPath(given(case))
    rng = np.random.default_rng(8)
    y = path.latent(case.draws(rng, 400))
    lowest = np.linalg.eigvalsh(path.curvature(y))[:, 0]
    assert 0.1 < (lowest < 0.0).mean() < 0.9
    state = ROWS[name].init(path, y)
    new, info = ROWS[name].step(rng, path, 1.0, state)
    np.testing.assert_array_equal(new.x[lowest < 0.0], y[lowest < 0.0])
    assert (info.acceptance[lowest < 0.0] == 0.0).all()
    assert info.failures >= (lowest < 0.0).sum()
    assert info.acceptance[lowest > 0.0].mean() > 0.2
    field = DensityField(path, per_row(1.0, 400))
    end = Leapfrog(*TIGHT).follow(field, field.point(y), np.zeros_like(y), np.full(400, 0.1), 0)
    np.testing.assert_array_equal(end.code == NO_METRIC, lowest < 0.0)


@pytest.mark.parametrize("name", ["rmhmc", "rmhmc-midpoint"])
def test_a_wild_step_is_rejected_and_counted(name):
    case = funnel(metric=ev.SoftAbs(1.0))
    path, rng = DensityPath(given(case)), np.random.default_rng(9)
    state = ROWS[name].init(path, path.latent(case.draws(rng, 30)))
    move = type(ROWS[name])(20.0, n_leapfrog=1)
    new, info = move.step(rng, path, 1.0, state)
    assert info.failures > 15
    stayed = info.acceptance == 0.0
    np.testing.assert_array_equal(new.x[stayed], state.x[stayed])


def test_one_step_from_the_definition():
    """The generalised leapfrog by plain fixed-point iteration with a dense metric."""
    case = funnel(metric=ev.SoftAbs(1.0))
    path = DensityPath(given(case, 0.1))
    field, rng, eps = DensityField(path, per_row(0.7, 3)), np.random.default_rng(10), 0.1
    y, p = path.latent(case.draws(rng, 3)), rng.standard_normal((3, D))

    def minus_h(t, q):
        return field.point(t).minus_energy(q)

    def dy(t, q):
        return central(lambda s: minus_h(s, q), t)

    half = p.copy()
    for _ in range(20):
        half = p + 0.5 * eps * dy(y, half)
    new, v = y.copy(), field.metric(y).solve(half)
    for _ in range(20):
        new = y + 0.5 * eps * (v + field.metric(new).solve(half))
    last = half + 0.5 * eps * dy(new, half)
    end = Leapfrog(*TIGHT).follow(field, field.point(y), p, np.full(3, eps), 1)
    np.testing.assert_allclose(end.y, new, atol=1e-7)
    wanted = minus_h(new, last) - minus_h(y, p)
    np.testing.assert_allclose(end.log_ratio, wanted, atol=1e-7)


def test_the_way_back_must_find_both_velocities():
    """-w by the equation of the momentum, and -v by that of the position."""
    case = funnel(metric=ev.SoftAbs(1.0))
    path, integrator = DensityPath(given(case, 0.1)), Leapfrog(*TIGHT)
    field, rng = DensityField(path, per_row(0.7, 3)), np.random.default_rng(10)
    half = np.full((3, 1), 0.05)
    y, p = path.latent(case.draws(rng, 3)), rng.standard_normal((3, D))
    point, goal = field.point(y, tensor=True), Goal(TIGHT[0])
    half_p = p + half * point.force
    v, _ = field.momentum(point, half_p, 0.5 * half, goal)
    half_p = half_p + 0.5 * half * field.kinetic(point, v)
    w, _ = solve_position(field, point, half, v, half_p, goal)
    there = field.point(y + half * (v + w), tensor=True)
    p = half_p + half * (there.force + 0.5 * field.kinetic(there, w))

    def found(v, w):
        return integrator._returns(field, there, half, p, v, w)

    assert found(v, w).all()
    assert not found(1.001 * v, w).any()
    assert not found(v, 1.001 * w).any()


# -- invariance ---------------------------------------------------------------------------------

M = 20_000
COSTLY_M = 3_000


def statistics(path, y):
    z = path.reference.standardise(y)
    out = {f"z{i}": z[:, i] for i in range(path.n)}
    out |= {f"z{i}²": z[:, i] ** 2 for i in range(path.n)}
    out |= {f"z{i}z{j}": z[:, i] * z[:, j] for i in range(path.n) for j in range(i)}
    return out | {"tilt": path.tilt(y)}


REFERENCES = {
    "given": lambda case: given(case),
    "tails": lambda case: given(case, 0.2),
    "laplace": lambda case: fit_density_laplace(case.model),
    "prior": lambda case: density_prior_reference(case.model),
}
TARGETS = [
    ("banana", "given"),
    ("funnel", "tails"),
    ("limited", "tails"),
    ("logistic", "prior"),
]

_cache: dict[tuple[str, str, float], tuple[Case, DensityPath, np.ndarray, np.ndarray]] = {}


def exact(name, reference, beta):
    """A path and two independent sets of exact draws, shared by all moves of a process."""
    key = name, reference, beta
    if key not in _cache:
        case = CASES[name](metric=ev.SoftAbs(0.5))
        q = REFERENCES[reference](case)
        rng = np.random.default_rng(2**20)
        if beta == 0.0:
            y = q.mean + rng.standard_normal((2 * M, case.model.n)) @ q.root.T
        else:
            y = tempered_draws(case, q, beta, rng, 2 * M)
        _cache[key] = case, DensityPath(q), y[:M], y[M:]
    return _cache[key]


def smallest_p_value(name, reference, beta, move, steps, m=M, rare=0.02):
    """Smallest p-value, times the number of statistics.

    Failures are rejections, which is exact; they must be rare.
    """
    _, path, start, fresh = exact(name, reference, beta)
    rng, state, moved = np.random.default_rng(0), move.init(path, start[:m]), 0.0
    for _ in range(steps):
        state, info = move.step(rng, path, beta, state)
        moved = max(moved, float(info.acceptance.mean()))
        assert info.failures <= rare * m
    assert moved > 0.1, "the move hardly moves: the test would prove nothing"
    after, fresh = statistics(path, move.latent(path, state)), statistics(path, fresh)
    p = [ks_2samp(after[k], fresh[k], method="asymp").pvalue for k in fresh]
    return min(p) * len(p)


MOVES = {
    "mgrad": moves.MGrad(1.0),
    "agrad-z": moves.AGradZ(0.7),
    "agrad-u": moves.AGradU(0.7),
    "pcn": moves.PCN(1.0),
    "pcnl": moves.pcnl(0.7),
    "mala": moves.Langevin(0.15),
    "elliptical": moves.EllipticalSlice(),
    "hmc": moves.HMC(0.3, n_leapfrog=3),
    "splitting": moves.SplittingHMC(0.3),
    "nuts": moves.NUTS(0.4),
}
BETAS = [0.3, 1.0, 0.0]


@pytest.mark.parametrize(
    ("move", "target", "beta"),
    # each move meets one target always: the first of them the first, the second the second
    seldom(covering(MOVES, TARGETS, BETAS), *(4 * i + i % 4 for i in range(len(MOVES)))),
)
def test_invariance(move, target, beta):
    steps, m = (1, M // 2) if move == "nuts" else (3, M)
    assert smallest_p_value(*target, beta, MOVES[move], steps, m) > 1e-5


@pytest.mark.parametrize(
    ("move", "reference"),
    seldom(
        itertools.product(["mgrad", "pcn", "hmc"], ["limited, laplace", "independent, prior"]),
        0,
        3,
        4,
    ),
)
def test_invariance_with_other_references(move, reference):
    assert smallest_p_value(*reference.split(", "), 0.3, MOVES[move], 2) > 1e-5
    assert smallest_p_value(*reference.split(", "), 1.0, MOVES[move], 2) > 1e-5


COSTLY = {
    "rmhmc": moves.RMHMC(0.3, n_leapfrog=2),
    "rmhmc-midpoint": moves.MidpointRMHMC(0.3, n_leapfrog=2),
    "rmhmc-explicit": moves.ExplicitRMHMC(0.1, n_leapfrog=3, omega=3.0, sigma=0.3),
}


@pytest.mark.parametrize(
    ("move", "target", "beta"), seldom(covering(COSTLY, TARGETS, BETAS), 0, 5, 7, 8, 10)
)
def test_invariance_of_moves_with_a_metric(move, target, beta):
    p = smallest_p_value(*target, beta, COSTLY[move], 1, COSTLY_M, rare=0.05)
    assert p > 1e-5


@pytest.mark.slow
def test_invariance_in_coordinates_of_priors():
    p = smallest_p_value("independent", "prior", 1.0, COSTLY["rmhmc"], 1, 2_000, rare=0.02)
    assert p > 1e-5


@pytest.mark.parametrize("metric", seldom(["identity", "diagonal"], 0))
def test_invariance_in_other_coordinates(metric):
    for move in (moves.HMC(0.2, coordinates=metric, n_leapfrog=3), moves.MGrad(0.5, metric)):
        assert smallest_p_value("limited", "tails", 1.0, move, 3) > 1e-5


# -- both ways as often: what an incomplete check of reversibility breaks ------------------------


def crossings(move, low, high, cut, m):
    """Funnel 10 + 1 from exact draws with v in (low, high): steps across ``cut`` upwards and
    downwards that stay inside, each with its chance to be accepted, and the codes."""
    rng = np.random.default_rng(1)
    edges = ndtr(np.array([low, high]) / 3.0)
    v = 3.0 * ndtri(edges[0] + (edges[1] - edges[0]) * (np.arange(m) + rng.random(m)) / m)
    z = np.exp(0.5 * v)[:, None] * rng.standard_normal((m, 10))
    field = DensityField(own_path(ev.examples.funnel(10).model), np.ones(m))
    with np.errstate(all="ignore"):
        start = field.point(np.column_stack([v, z]))
        end = move.trajectories(rng, field, start, np.full(m, move.step_size))
    chance = np.where(end.code == OK, np.exp(np.minimum(end.log_ratio, 0.0)), 0.0)
    there = end.y[:, 0]
    chance[(there < low) | (there > high)] = 0.0
    return chance[(v < cut) & (there > cut)], chance[(v > cut) & (there < cut)], end.code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("move", "where"),
    [
        (moves.RMHMC(0.14, n_leapfrog=12), (-14.0, -8.0, -9.0)),
        (moves.MidpointRMHMC(0.7, n_leapfrog=4), (-8.0, 8.0, 0.0)),
        (moves.RMHMC(0.3, n_leapfrog=8), (-8.0, 8.0, 0.0)),
        (moves.MidpointRMHMC(0.35, n_leapfrog=6), (-14.0, -8.0, -9.5)),
    ],
    ids=["leapfrog, neck", "midpoint, long steps", "leapfrog, long steps", "midpoint, neck"],
)
def test_funnel_is_crossed_as_often_upwards_as_downwards(move, where):
    """False alarms at 4 standard deviations: 6e-5 each."""
    up, down, codes = crossings(move, *where, 1500)
    spread = np.sqrt((up**2).sum() + (down**2).sum())
    assert abs(up.sum() - down.sum()) < 4.0 * spread
    assert up.sum() > 5.0 * spread  # there is something to compare
    if move.step_size < 0.2:
        assert (codes == OK).mean() > 0.99
