r"""What the position-dependent samplers share: the metric at a point, in compiled code.

.. math:: G(x) = K^{-1} + \mathrm{diag}(d),\quad d_n = (1-\beta)\tau_n - \beta\ell_n''(x_n)
          \ge 0,\quad B = I + S K S = L L^T,\quad S = \mathrm{diag}(\sqrt d)

.. math:: G^{-1}p = K(p - b),\ b = S B^{-1} S K p,\qquad
          h_n = \tfrac12\mathrm{tr}(G^{-1}\partial_n G)
              = \tfrac12 \frac{d_n'}{d_n}\big(1 - \sum_k (L^{-1})_{kn}^2\big)

Nothing inverts K: along a trajectory ``r = K⁻¹(x - m)`` is carried, because
``K⁻¹G⁻¹p = p - d G⁻¹p``. Likelihoods that are not log-concave use their expected curvature
and max(τ, 0); their metric is constant in x.

A *point* is a (5, N) array: d, d', the force ∇log p_β, h and √d. A *workspace* belongs to one
thread. Transitions run row by row, in parallel threads where the caller allows it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...messages import InputError
from ...numerics import threads as rows
from ...numerics.anderson import ROWS
from ...numerics.jit import jit
from ...numerics.lapack import factor_inverse, solve_lower, symmetric_times
from ...numerics.normal import standard_normal
from ...paths.gp import Path
from ..base import Info, Latent, LatentMove, metropolis, per_row
from . import dense

Array = NDArray[np.float64]

D, SLOPE, FORCE, TRACE, ROOT = range(5)

#: What can go wrong in a transition; the proposal is then rejected and counted.
OK, NO_METRIC, NO_FIXED_POINT, IRREVERSIBLE = range(4)


class Target(NamedTuple):
    """log p_β as compiled code sees it."""

    kernel: Any
    theta: Array
    nu: Array
    tau: Array
    fixed: Array
    """Expected curvature of a likelihood that is not log-concave; empty for others."""
    mean: Array
    K: Array
    chol: Array


class Workspace(NamedTuple):
    """Two matrices (L and L⁻¹, column-major) and vectors for one thread."""

    L: Array
    inverse: Array
    out: Array
    points: Array
    history: Array
    vectors: Array


def target(path: Path) -> Target:
    """Collect what :class:`Target` holds."""
    if not path.separable:
        raise InputError(
            "this move's metric needs a likelihood with one latent value per datum, which "
            f"{path.model!r} has not; use 'mgrad', 'splitting', 'hmc' or 'elliptical'"
        )
    model, (_, nu, tau) = path.model, path.reference.sites
    lik = model.likelihood
    fixed = np.zeros(0) if lik.log_concave else np.ascontiguousarray(lik.fisher(model.y))
    chol = np.ascontiguousarray(model.chol.T)
    return Target(lik.kernel, model.theta, nu, tau, fixed, model.mean, model.K, chol)


_local = threading.local()


def workspace(n: int) -> Workspace:
    """This thread's workspace; kept, since fresh pages cost as much as a factorisation."""
    work = getattr(_local, "work", None)
    if work is None or work.out.shape[1] != n:
        work = Workspace(
            np.zeros((n, n)),
            np.zeros((n, n)),
            np.zeros((4, n)),
            np.zeros((3, 5, n)),
            np.zeros((ROWS, n)),
            np.zeros((24, n)),
        )
        _local.work = work
    return work


@jit
def local(t, beta, x, r, out, point):
    """Fill d, d', force, √d and h = 0 at x, given r = K⁻¹(x - m); return log p_β + constant."""
    n = x.size
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
def factorise(t, shift, point, work, s):
    """L and L⁻¹ of I + S K S with S² = d + shift; returns (info, ½ log|B|)."""
    n = t.mean.size
    root = work.out[3]
    for i in range(n):
        root[i] = np.sqrt(point[D, i] + shift)
    for j in range(n):
        for i in range(j, n):
            work.L[j, i] = root[i] * root[j] * t.K[j, i]
        work.L[j, j] += 1.0
    info = factor_inverse(work.L, work.inverse, s)
    half = 0.0
    if info == 0:
        for i in range(n):
            half += np.log(work.L[i, i])
        if not np.isfinite(half):
            info = 1
    return info, half


@jit
def half_trace(point, work):
    """Fill h from L⁻¹."""
    n = point.shape[1]
    for j in range(n):
        total = 0.0
        for i in range(j, n):
            total += work.inverse[j, i] * work.inverse[j, i]
        d = point[D, j]
        point[TRACE, j] = 0.5 * point[SLOPE, j] / d * (1.0 - total) if d > 0.0 else 0.0


@jit
def solve(t, root, work, p, v, tmp, s):
    """v = (K⁻¹ + diag(root²))⁻¹ p with the factor in the workspace."""
    symmetric_times(t.K, p, v, s)
    for i in range(p.size):
        tmp[i] = root[i] * v[i]
    solve_lower(work.L, tmp, False, s)
    solve_lower(work.L, tmp, True, s)
    for i in range(p.size):
        tmp[i] = p[i] - root[i] * tmp[i]
    symmetric_times(t.K, tmp, v, s)


@jit
def prior_solve(t, x, r, s):
    """r = K⁻¹(x - m)."""
    for i in range(x.size):
        r[i] = x[i] - t.mean[i]
    solve_lower(t.chol, r, False, s)
    solve_lower(t.chol, r, True, s)


@jit
def draw_momentum(t, root, z, p, s):
    """p = S z₁ + L_K⁻ᵀ z₂ ~ N(0, G)."""
    for i in range(p.size):
        p[i] = z[1, i]
    solve_lower(t.chol, p, True, s)
    for i in range(p.size):
        p[i] += root[i] * z[0, i]


@jit
def momentum_at(t, work, beta, x, z, p, s):
    """p ~ N(0, G(x)) from the standard normals z (2, N)."""
    r = work.vectors[0]
    prior_solve(t, x, r, s)
    local(t, beta, x, r, work.out, work.points[0])
    draw_momentum(t, work.points[0, ROOT], z, p, s)


@jit
def prior_times(t, u, out, s):
    """out = K⁻¹u."""
    for i in range(u.size):
        out[i] = u[i]
    solve_lower(t.chol, out, False, s)
    solve_lower(t.chol, out, True, s)


@jit
def dot(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


class Batch(NamedTuple):
    """What transitions read and write, row by row; x becomes the proposal."""

    beta: Array
    eps: Array
    x: Array
    z: Array
    log_ratio: Array
    code: Array
    count: Array
    """Factorisations."""


#: (workspace, batch, first row, stride)
Proposal = Callable[[Workspace, Batch, int, int], None]


@dataclass
class RiemannMove(LatentMove):
    """A batch of transitions, one compiled call per row; subclasses say which.

    Parameters
    ----------
    step_size, target, name
        As for :class:`.LatentMove`.
    """

    riemannian: ClassVar[bool] = True

    def prepare(self, path: Path) -> None:
        super().prepare(path)
        if not path.dense:
            self.density(path)

    def density(self, path: Path) -> Target:
        """log p_β as compiled code sees it, made once per path."""
        return path.cached("riemann target", target)

    def step_sizes(self, rng: np.random.Generator, path: Path, m: int) -> Array:
        """Step size of each row."""
        return np.full(m, self.step_size)

    def noise(self, rng: np.random.Generator, m: int, n: int) -> Array:
        """Standard normals of the batch, shape (M, ·, N)."""
        return standard_normal(rng, (m, 2, n))

    def proposal(self, path: Path) -> Proposal:
        """The compiled transition with this move's parameters."""
        raise NotImplementedError

    def trajectories(
        self, rng: np.random.Generator, field: Any, start: Any, eps: Array, ends: Any = None
    ) -> Any:
        """The same for any density, see :mod:`.dense_integrators`."""
        raise InputError(
            f"move {self.name!r} is for Gaussian-process models only; use 'rmhmc', "
            "'rmhmc-midpoint' or 'rmhmc-explicit'"
        )

    def step(
        self, rng: np.random.Generator, path: Path, beta: float | Array, state: Latent
    ) -> tuple[Latent, Info]:
        if path.dense:
            return self._dense_step(rng, path, beta, state)
        m, n = state.x.shape
        propose = self.proposal(path)
        batch = Batch(
            per_row(beta, m),
            self.step_sizes(rng, path, m),
            state.x.copy(),
            self.noise(rng, m, n),
            np.empty(m),
            np.empty(m, np.int64),
            np.empty(m, np.int64),
        )
        rows.run(lambda first, stride: propose(workspace(n), batch, first, stride), m)
        bad = batch.code != OK
        batch.log_ratio[bad] = np.nan
        batch.x[bad] = state.x[bad]
        proposed = Latent(batch.x, path.tilt(batch.x))
        new, info = metropolis(rng, batch.log_ratio, state, proposed)
        return new, info._replace(gradients=int(batch.count.sum()))

    def _dense_step(
        self, rng: np.random.Generator, path: Any, beta: float | Array, state: Latent
    ) -> tuple[Latent, Info]:
        m = len(state.x)
        field = dense.Field(path, per_row(beta, m))
        with np.errstate(all="ignore"):  # trajectories that fly off are rejected
            start = field.point(state.x)
            end = self.trajectories(rng, field, start, self.step_sizes(rng, path, m))
        bad = end.code != OK
        y = np.where(bad[:, None], state.x, end.y)
        new, info = metropolis(rng, end.log_ratio, state, Latent(y, end.h))
        return new, info._replace(gradients=int(end.evaluations))
