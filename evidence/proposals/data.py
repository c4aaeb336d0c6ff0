r"""Draws datum by datum where each sees a few predictors and the prior is a matrix.

With L the lower factor of q's covariance, its rows in the order of data, predictors of one datum
beside each other, :math:`x_n = m_n + L_{nn} \xi` with m_n what the data before say. The P numbers
ξ come one after the other, each from a normal density times a tilt

.. math:: e^{\lambda(\xi_p)} \approx E\big[p(y_n|x_n)/t_n(x_n) \,|\, \xi_1, …, \xi_p\big]

with those to come averaged by Gauss and Hermite's nodes, and λ interpolated between values on a
lattice: a normal density times piecewise exponentials, which is drawn from by its distribution
function. What λ gets wrong is left to the weight, which is exact. The first of a datum is its last
predictor: given the others, likelihoods are best behaved in mu.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ..approximations.gp.cavities import log_site
from ..approximations.predictors.ep import nodes
from ..approximations.predictors.reference import LARGEST_DENSE, BlockReference
from ..execution.clock import check_interrupt
from ..gaussians.blocks import BlockSites
from ..models.likelihoods.predicted import Several
from ..numerics.arrays import Array, Indices
from ..numerics.normal import standard_normal
from .guide import Between, CannotGuide, never

#: where tilts are evaluated, in standard deviations
LATTICE = np.array([-7.0, -5.0, -3.5, -2.5, -1.5, -0.75, 0.0, 0.75, 1.5, 2.5, 3.5, 5.0, 7.0])


class Coloured(NamedTuple):
    """Draws in the model's own order, (P·N, n)."""

    values: Array

    def take(self, columns: Indices) -> Array:
        """Of some of the draws."""
        return self.values[:, columns]


@dataclass(frozen=True, eq=False)
class DatumGuide:
    """What draws need."""

    mean: Array
    factor: Array
    """L, (N·P, N·P), datum by datum, the last predictor first."""
    sites: BlockSites
    likelihood: Several
    y: Array
    log_z0: float

    dearer: ClassVar[int] = 16
    abreast: ClassVar[bool] = True

    @property
    def size(self) -> int:
        """Number of latent values."""
        return self.mean.size

    def draw(
        self, n: int, rng: np.random.Generator, between: Between = never
    ) -> tuple[Coloured, Array]:
        """``n`` draws, and their log weights; ``between`` as for :meth:`.Guide.draw`."""
        N, P = self.y.size, self.size // self.y.size
        mean = self.mean.reshape(P, N)[::-1]
        xi, log_weight = np.empty((N * P, n)), np.zeros(n)
        for i in range(N):
            check_interrupt()
            own = slice(i * P, (i + 1) * P)
            middle = mean[:, i, None] + self.factor[own, : i * P] @ xi[: i * P]
            xi[own], log_w = self._draw_one(i, middle, self.factor[own, own], rng)
            log_weight += log_w
            if (chosen := between(log_weight)) is not None:
                xi[: own.stop] = xi[: own.stop, chosen]
        values = (self.factor @ xi).reshape(N, P, n)[:, ::-1].swapaxes(0, 1).reshape(P * N, n)
        values += self.mean[:, None]
        return Coloured(values), log_weight

    def _draw_one(
        self, i: int, middle: Array, L: Array, rng: np.random.Generator, steepest: float = 3.0
    ) -> tuple[Array, Array]:
        """ξ of a datum (P, n), and log weights.

        A wall between two places is far above the straight line: what no draw met there was a
        fifth of Z, before tilts fell by 3 nats at most from one place to the next.
        """
        P, n = middle.shape
        xi, log_weight, known = np.empty((P, n)), np.zeros(n), middle
        for p in range(P):
            base_mean, base_sd = np.zeros(1), np.ones(1)
            if p == P - self.likelihood.contrasts:  # what data do not see
                xi[p] = standard_normal(rng, (n,))
            else:
                if p == P - 1:
                    base_mean, base_sd = self._last(i, known, L[p, p])
                at = base_mean + base_sd * LATTICE[:, None]
                tilt = self._ahead(i, known, L, p, at) - 0.5 * at**2 + 0.5 * LATTICE[:, None] ** 2
                z, ratio = draw_tilted(tilt, LATTICE, rng.random((2, n)), steepest)
                xi[p] = base_mean + base_sd * z
                log_weight += ratio + np.log(base_sd) + 0.5 * (z**2 - xi[p] ** 2)
            known = known + L[:, p, None] * xi[p]
        return xi, log_weight + self._tilt(i, known)

    def _last(self, i: int, known: Array, sd: float) -> tuple[Array, Array]:
        """Mean and standard deviation of the last ξ under the likelihood."""
        found = self._integrated(i, known, sd)
        if found is None:
            return np.zeros(1), np.ones(1)
        _, mean, variance = found
        ok = np.isfinite(mean) & (variance > 0.0)
        variance = np.where(ok, variance, sd**2)
        return np.where(ok, (mean - known[-1]) / sd, 0.0), np.sqrt(variance) / sd

    def _integrated(self, i: int, known: Array, sd: float) -> tuple[Array, Array, Array] | None:
        """log E[p/t] over mu ~ N(known, sd²), and mu's mean and variance under p, given the
        predictors before it, (P, B)."""
        further, mu = known[-2::-1], known[-1]
        nu, W, at = self.sites.nu[:, i], self.sites.W[i], self.sites.at[:, i]
        away = further - at[1:, None]
        slope = nu[0] - W[0, 1:] @ away
        precision = 1.0 / sd**2 - W[0, 0]
        if not precision > 0.0:
            return None
        m, v = ((mu - at[0]) / sd**2 - slope) / precision, np.full(mu.size, 1.0 / precision)
        found = self.likelihood.tilted_first(i, self.y, further.T, at[0] + m, v)
        if found is None:
            return None
        rest = self.sites.c[i] + away.T @ nu[1:]
        rest -= 0.5 * np.einsum("pb,pq,qb->b", away, W[1:, 1:], away)
        return found[0] - log_site(m, v, slope, W[0, 0]) - rest, found[1], found[2]

    def _ahead(self, i: int, known: Array, L: Array, p: int, at: Array) -> Array:
        """log E[p/t] of a datum given its p-th ξ, (G, n) or (G, 1), over those to come."""
        P, last = len(L), len(L) - 1
        exact = p < last and self._integrated(i, known, L[last, last]) is not None
        left = last - p - (exact or self.likelihood.contrasts)
        z, log_w = _ahead(left)
        to_come = L[:, p + 1 : p + 1 + left] @ z.T
        if not exact and at.shape[-1] == 1:
            return self._averaged(i, known, L[:, p], at[:, 0], to_come, log_w)
        away = L[:, p, None, None, None] * at[:, None] + to_come[:, None, :, None]
        if not exact:
            tilt = self._tilt(i, known[:, None, None] + away)
        else:
            eta = known[:, None, None] + away
            found = self._integrated(i, eta.reshape(P, -1), L[last, last])
            assert found is not None
            tilt = np.where(np.isnan(found[0]), -np.inf, found[0]).reshape(eta.shape[1:])
        tilt = tilt + log_w[:, None]
        top = np.maximum(tilt.max(axis=1), -1e300)
        return top + np.log(np.exp(tilt - top[:, None]).sum(axis=1))

    def _averaged(
        self, i: int, known: Array, step: Array, at: Array, to_come: Array, log_w: Array
    ) -> Array:
        """log Σ w p/t of one datum over nodes to come (P, M), at known + step·at, (G, n)."""
        known, step, to_come = known[::-1], step[::-1], to_come[::-1]
        nu, W = self.sites.nu[:, i], self.sites.W[i]
        away = step[:, None, None] * at[:, None] + to_come[:, None]
        flat = away.reshape(len(W), -1)
        far = known - self.sites.at[:, i, None]
        site, own = (nu @ x - 0.5 * np.sum(x * (W @ x), axis=0) for x in (far, flat))
        curved = W @ far
        with np.errstate(over="ignore", invalid="ignore"):
            tilt = self.likelihood.at([i]).averaged(
                self.y[[i]], known, away, log_w - own.reshape(away.shape[1:]), to_come.T @ curved
            )
            tilt += np.multiply.outer(at, step @ curved) - (site + self.sites.c[i])
        return np.where(tilt > -1e300, tilt, -1e300)

    def _tilt(self, i: int, eta: Array) -> Array:
        """log p/t of one datum at predictors (P, …), the last one first."""
        P = len(eta)
        flat = eta[::-1].reshape(P, -1).T[:, :, None]
        own = self.sites.of(slice(i, i + 1))
        with np.errstate(over="ignore", invalid="ignore"):
            each = self.likelihood.at([i]).log_probs(self.y[[i]], flat) - own.log(flat)
        return np.where(np.isnan(each), -np.inf, each).reshape(eta.shape[1:])


def _ahead(left: int) -> tuple[Array, Array]:
    """Nodes (M, left) of N(0, I) and logs of weights: of many directions exact to degree three."""
    ahead = {1: 5, 2: 3}  # nodes in every direction to come, by how many these are
    if not left:
        return np.zeros((1, 0)), np.zeros(1)
    if left in ahead:
        return nodes(left, ahead[left])
    z = np.sqrt(left) * np.vstack([np.eye(left), -np.eye(left)])
    return z, np.full(len(z), -np.log(len(z)))


def _turned(T: Array, columns: Array) -> Array:
    """T_n x_n, datum by datum, of columns (N·P, …)."""
    return np.matmul(T, columns.reshape(len(T), T.shape[1], -1)).reshape(columns.shape)


def draw_tilted(
    tilt: Array, lattice: Array, uniforms: Array, steepest: float = np.inf, *, deep: float = 200.0
) -> tuple[Array, Array]:
    r"""Of :math:`\phi(z)\, e^{\lambda(z)}`, λ linear between values (G, n) on a lattice (G,).

    From one place to the next it falls by ``steepest`` nats at most. Draws (n,), from uniform
    numbers (2, n), and the log of φ over the density that they are of.

    ``deep``: nats below the largest as which a tilt of zero counts.
    """
    tilt = np.maximum(tilt, tilt.max(axis=0) - deep)
    beside = np.maximum(np.vstack([tilt[:1], tilt[:-1]]), np.vstack([tilt[1:], tilt[-1:]]))
    tilt = np.maximum(tilt, beside - steepest)
    slope = np.diff(tilt, axis=0) / np.diff(lattice)[:, None]
    slope = np.vstack([slope[:1], slope, slope[-1:]])
    at = np.concatenate([lattice[:1], lattice])[:, None]
    level = np.vstack([tilt[:1], tilt]) - slope * at  # λ = level + slope · z
    low = np.concatenate([[-np.inf], lattice])[:, None] - slope
    high = np.concatenate([lattice, [np.inf]])[:, None] - slope
    upper = low > 0.0  # where digits are in the other tail
    below, above = np.where(upper, -high, low), np.where(upper, -low, high)
    start = ndtr(below)
    share = ndtr(above) - start
    with np.errstate(divide="ignore"):
        log_mass = level + 0.5 * slope**2 + np.log(share)
    top = log_mass.max(axis=0)
    sums = np.cumsum(np.exp(log_mass - top), axis=0)
    cell = np.minimum((uniforms[0] * sums[-1] > sums).sum(axis=0), len(sums) - 1)
    m = np.arange(tilt.shape[1])
    z = ndtri(start[cell, m] + uniforms[1] * share[cell, m])
    z = slope[cell, m] + np.where(upper[cell, m], -z, z)
    return z, top + np.log(sums[-1]) - level[cell, m] - slope[cell, m] * z


def make_datum_guide(reference: BlockReference) -> DatumGuide:
    """The guide of a fitted reference."""
    reference = _eased(reference)
    model, q = reference.model, reference.gaussian
    N, P = model.y.size, model.n_predictors
    if N * P > LARGEST_DENSE:
        raise CannotGuide(f"a matrix of all {N * P} predictors is too large to draw from")
    order = np.arange(P * N).reshape(P, N)[::-1].T.ravel()
    turn = np.eye(P)
    turn[:-1, -1] = model.likelihood.contrasts
    back = np.tile(np.linalg.inv(turn), (N, 1, 1))
    try:
        cov = q.covariance[np.ix_(order, order)]
        L: Array = np.asarray(np.linalg.cholesky(_turned(back, _turned(back, cov).T)), float)
    except np.linalg.LinAlgError:
        raise CannotGuide("the covariance of the reference is numerically singular") from None
    L = _turned(np.tile(turn, (N, 1, 1)), L)
    return DatumGuide(q.mean, L, reference.sites, model.likelihood, model.observed, reference.logz)


def _eased(reference: BlockReference, part: float = 0.75) -> BlockReference:
    """The same means, by sites of less precision: (K⁻¹ + cW) μ = K⁻¹ m + ν - (1 - c) W μ.

    ``part`` is c, as which data to come count: at 1 one of 30,000 draws under a softmax may weigh
    thousands of times the mean (tails of posteriors are longer on the side where it is flat), at
    0.75 two hundred times, and draws are worth no less. Sites that are too sharp to be taken away
    again, as a datum's own draws do, are left out: draws are weighted with what they stand for.
    """
    reference = reference.blunt
    sites, mean = reference.sites, reference.gaussian.mean.reshape(reference.sites.nu.shape)
    wide = sites._replace(
        nu=sites.nu - (1.0 - part) * sites.times_W(mean - sites.at), W=part * sites.W,
        pi=None if sites.pi is None else part * sites.pi,
    )  # fmt: skip
    model = reference.model
    return BlockReference.of(reference.name, model, model.prior.with_blocks(wide))
