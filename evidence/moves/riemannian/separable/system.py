r"""The metric G = K⁻¹ + diag(d) at a point, in compiled code, and the loop over rows.

.. math:: G(x) = K^{-1} + \mathrm{diag}(d),\quad d_n = (1-\beta)\tau_n - \beta\ell_n''(x_n)
          \ge 0,\quad B = I + S K S = L L^T,\quad S = \mathrm{diag}(\sqrt d)

.. math:: G^{-1}p = K(p - b),\ b = S B^{-1} S K p,\qquad
          h_n = \tfrac12\mathrm{tr}(G^{-1}\partial_n G)
              = \tfrac12 \frac{d_n'}{d_n}\big(1 - \sum_k (L^{-1})_{kn}^2\big)

Nothing inverts K: along a trajectory ``r = K⁻¹(x - m)`` is carried, because
``K⁻¹G⁻¹p = p - d G⁻¹p``. Likelihoods that are not log-concave use their expected curvature
and max(τ, 0); their metric is constant in x.

A *point* is a (5, N) array: d, d', the force ∇log p_β, h and √d. A *system* is log p_β with the
memory of one thread; :class:`Systems` lends them to the threads of a call. In the order of calls:
:func:`prior_solve` at x, then :func:`local` or :func:`metric_at`, then :func:`solve`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....messages import InputError
from ....numerics.anderson import ROWS
from ....numerics.arrays import Array
from ....numerics.copies import copy
from ....numerics.jit import Kernel, jit
from ....numerics.lapack import factor_inverse, scratch, solve_lower, symmetric_times
from ....paths.base import TemperedPath

D, SLOPE, FORCE, TRACE, ROOT = range(5)
_VECTORS = 19  # the last one is solve()'s own


class System(NamedTuple):
    """log p_β as compiled code sees it, and two matrices and some vectors to work with."""

    theta: Array
    nu: Array
    tau: Array
    fixed: Array
    """Expected curvature of a likelihood that is not log-concave; empty for others."""
    mean: Array
    K: Array
    chol: Array
    L: Array
    inverse: Array
    out: Array
    points: Array
    history: Array
    vectors: Array
    flags: tuple[Any, ...]
    kernel: Kernel


class Systems:
    """The systems of one path: as many as there were threads at once, kept for the next call,
    since fresh pages cost as much as a factorisation."""

    def __init__(self, path: TemperedPath) -> None:
        if not path.separable:
            raise InputError(
                "this move's metric needs a likelihood with one latent value per datum, which "
                f"{path.model!r} has not; use 'mgrad', 'splitting', 'hmc' or 'elliptical'"
            )
        model, (_, nu, tau) = path.model, path.reference.sites
        lik = model.likelihood
        fixed = np.zeros(0) if lik.log_concave else np.ascontiguousarray(lik.fisher(model.y))
        chol = np.ascontiguousarray(model.chol.T)
        self._density = model.theta, nu, tau, fixed, model.mean, model.K, chol
        self._kernel = lik.kernel
        self.idle: list[System] = []

    @contextmanager
    def lend(self) -> Iterator[System]:
        """A system that no other thread has."""
        try:
            system = self.idle.pop()
        except IndexError:
            system = self.make()
        yield system
        self.idle.append(system)

    def make(self) -> System:
        """One more."""
        n = self._density[-1].shape[0]
        shapes = (n, n), (n, n), (4, n), (3, 5, n), (ROWS, n), (_VECTORS, n)
        return System._make((*self._density, *map(np.zeros, shapes), scratch(), self._kernel))


class Batch(NamedTuple):
    """What transitions read and write, row by row; x becomes the proposal."""

    beta: Array
    eps: Array
    x: Array
    z: Array
    log_ratio: Array
    code: NDArray[np.int64]
    factorisations: NDArray[np.int64]


def for_rows(transition: Callable[..., tuple[float, ...]]) -> Callable[..., None]:
    """Compiled transitions of rows first, first + stride, … of a batch."""

    @jit
    def transitions(arrays, kernel, parameters, b, first, stride):
        t = System(*arrays, kernel)  # a kernel inside a tuple takes Numba long to recognise
        for i in range(first, b.eps.size, stride):
            b.log_ratio[i], b.code[i], b.factorisations[i] = transition(
                t, b.beta[i], b.eps[i], parameters, b.x[i], b.z[i]
            )

    return transitions


def for_trajectories(trajectory: Callable[..., tuple[float, ...]]) -> Callable[..., None]:
    """The same, where a transition is a trajectory from fresh momenta to its end."""

    @jit
    def transition(t, beta, eps, parameters, x, z):
        p, (n_steps, tolerances) = t.vectors[17], parameters
        momentum_at(t, beta, x, z, p)
        before, after, code, count = trajectory(t, beta, eps, n_steps, x, p, tolerances)
        return after - before, code, count

    return for_rows(transition)


@jit
def local(t, beta, x, r, point):
    """Fill d, d', force, √d and h = 0 at x, given r = K⁻¹(x - m); return log p_β + constant."""
    n, out = x.size, t.out
    t.kernel(x.ctypes, t.theta.ctypes, n, n, 1, 3, out.ctypes)
    total, constant = 0.0, t.fixed.size > 0
    for i in range(n):
        site = t.nu[i] - t.tau[i] * x[i]
        total += beta * out[0, i] + (1.0 - beta) * 0.5 * (t.nu[i] + site) * x[i]
        total -= 0.5 * r[i] * (x[i] - t.mean[i])
        point[FORCE, i] = beta * out[1, i] + (1.0 - beta) * site - r[i]
        if constant:
            d, slope = (1.0 - beta) * max(t.tau[i], 0.0) + beta * t.fixed[i], 0.0
        else:
            d, slope = (1.0 - beta) * t.tau[i] - beta * out[2, i], -beta * out[3, i]
        if not d > 0.0:
            d, slope = 0.0, 0.0
        point[D, i], point[SLOPE, i], point[ROOT, i] = d, slope, np.sqrt(d)
        point[TRACE, i] = 0.0
    return total


@jit
def factorise(t, shift, point):
    """L and L⁻¹ of I + S K S with S² = d + shift; returns (info, ½ log|B|)."""
    n = t.mean.size
    root = t.out[3]
    for i in range(n):
        root[i] = np.sqrt(point[D, i] + shift)
    for j in range(n):
        for i in range(j, n):
            t.L[j, i] = root[i] * root[j] * t.K[j, i]
        t.L[j, j] += 1.0
    info = factor_inverse(t.L, t.inverse, t.flags)
    half = 0.0
    if info == 0:
        for i in range(n):
            half += np.log(t.L[i, i])
        if not np.isfinite(half):
            info = 1
    return info, half


@jit
def half_trace(t, point):
    """Fill h from L⁻¹."""
    n = point.shape[1]
    for j in range(n):
        total = 0.0
        for i in range(j, n):
            total += t.inverse[j, i] * t.inverse[j, i]
        d = point[D, j]
        point[TRACE, j] = 0.5 * point[SLOPE, j] / d * (1.0 - total) if d > 0.0 else 0.0


@jit
def metric_at(t, beta, x, r, point):
    """Fill all of a point at x, given r = K⁻¹(x - m); returns log p_β + constant, ½ log|B| and
    LAPACK's info."""
    value = local(t, beta, x, r, point)
    info, half = factorise(t, 0.0, point)
    if info == 0:
        half_trace(t, point)
    return value, half, info


@jit
def solve(t, root, p, v):
    """v = (K⁻¹ + diag(root²))⁻¹ p with the factor at hand."""
    tmp = t.vectors[_VECTORS - 1]
    symmetric_times(t.K, p, v, t.flags)
    for i in range(p.size):
        tmp[i] = root[i] * v[i]
    solve_lower(t.L, tmp, False, t.flags)
    solve_lower(t.L, tmp, True, t.flags)
    for i in range(p.size):
        tmp[i] = p[i] - root[i] * tmp[i]
    symmetric_times(t.K, tmp, v, t.flags)


@jit
def minus_energy(t, value, half, root, p, w):
    """-H, with log p_β and ½ log|B| where p and the factor belong; w is filled with G⁻¹p."""
    solve(t, root, p, w)
    return value - half - 0.5 * dot(p, w)


@jit
def prior_times(t, u, out):
    """out = K⁻¹u."""
    copy(u, out)
    solve_lower(t.chol, out, False, t.flags)
    solve_lower(t.chol, out, True, t.flags)


@jit
def prior_solve(t, x, r):
    """r = K⁻¹(x - m)."""
    for i in range(x.size):
        r[i] = x[i] - t.mean[i]
    prior_times(t, r, r)


@jit
def draw_momentum(t, root, z, p):
    """p = S z₁ + L_K⁻ᵀ z₂ ~ N(0, G)."""
    copy(z[1], p)
    solve_lower(t.chol, p, True, t.flags)
    for i in range(p.size):
        p[i] += root[i] * z[0, i]


@jit
def momentum_at(t, beta, x, z, p):
    """p ~ N(0, G(x)) from the standard normals z (2, N)."""
    r, point = t.vectors[0], t.points[0]
    prior_solve(t, x, r)
    local(t, beta, x, r, point)
    draw_momentum(t, point[ROOT], z, p)


@jit
def energy_at(t, beta, x, p, r, w, point):
    """-H, ½ log|B| and LAPACK's info at a new x; fills the point, r = K⁻¹(x - m), w = G⁻¹p."""
    prior_solve(t, x, r)
    value, half, info = metric_at(t, beta, x, r, point)
    return minus_energy(t, value, half, point[ROOT], p, w), half, info


@jit
def dot(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total
