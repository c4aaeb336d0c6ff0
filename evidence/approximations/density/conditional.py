r"""Laplace's method for most parameters, given the few that tell their scale.

Some *parents* P (a noise level, the scale of a walk) tell how narrow the posterior of all other
parameters, the *children* C, is. Given its parents the rest is close to Gaussian: with its mode
m(P) and its negative Hessian H(P) there

.. math:: \hat p(P) = p\big(P, m(P)\big)\, (2\pi)^{c/2}\, |H(P)|^{-1/2}

is close to their marginal density, right into necks that no Gaussian in all dimensions covers.

Reference: L. Tierney, J. B. Kadane, J. Amer. Statist. Assoc. 81 (1986) 82, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from ...models.density.model import DensityModel
from ...numerics.arrays import Array, Flags, Indices
from ...numerics.special import LOG_SQRT_2PI

_STEP = {True: 1e-3, False: 0.02}  # of a difference of the gradient, of the value, in sd
_MATRICES = 2**24  # numbers in matrices at a time


class Conditional(NamedTuple):
    """The Gaussian of children at given parents, one in every row: all coordinates ``x``, with the
    mode in the children's place, the lower triangular ``root`` L with L Lᵀ = H, (M, c, c), and
    log p̂(P), (M,)."""

    x: Array
    root: Array
    log_p: Array


@dataclass(frozen=True, eq=False)
class ConditionalLaplace:
    """Children's modes and Hessians at any parents, from derivatives by differences.

    Attributes
    ----------
    draws : array (M, d)
        Rough ones of the posterior, which say where Newton's steps begin: effects of groups fall
        as their scale grows, on no plane. (From a plane steps did not arrive where two groups of
        counts differ by 400: the far end of their scale was lost, .02 nats, unseen.)
    """

    model: DensityModel
    parents: Indices
    draws: Array

    @cached_property
    def children(self) -> Indices:
        return np.setdiff1d(np.arange(self.model.n), self.parents)

    @cached_property
    def spread(self) -> Array:
        """Standard deviations of parents."""
        sd = self.draws[:, self.parents].std(axis=0)
        return np.where(sd > 0.0, sd, 1.0)

    @cached_property
    def _near(self) -> cKDTree:
        return cKDTree(self.draws[:, self.parents] / self.spread)

    def at(self, P: Array, steps: int = 30, resting: float = 1e-4, near: int = 16) -> Conditional:
        """At rows of parents (M, parents), by Newton's ``steps`` from the mean of so many ``near``
        draws, until one promises no more than ``resting`` nats. (From the single nearest one a
        draw in another mode finds its own, and nothing says that one is missed.)"""
        c, nearest = self.children.size, range(1, 1 + min(near, len(self.draws)))
        x = self.draws[self._near.query(P / self.spread, nearest)[1]].mean(axis=1)
        x[:, self.parents] = P
        sd = np.tile(self.draws[:, self.children].std(axis=0), (len(P), 1))
        rows, root = np.arange(len(P)), np.tile(np.eye(c), (len(P), 1, 1))
        top = np.full(len(P), -np.inf)
        for _ in range(steps):
            value, slope, H = self._derivatives(x[rows], sd[rows])
            curvature, S, L = _definite(H, value)
            sd[rows] = 1.0 / curvature
            root[rows] = curvature[..., None] * L
            step = np.linalg.solve(S, (slope * sd[rows])[..., None])[..., 0] * sd[rows]
            gain = 0.5 * np.sum(slope * step, axis=1)
            top[rows] = value + np.where(gain < resting, gain, 0.0)
            going = np.isfinite(value + gain) & ~(gain < resting)
            if not going.any():
                break
            rows, before = rows[going], x[rows[going]]
            x[rows] = self._uphill(before, value[going], step[going])
            away = np.abs(x[rows] - before)[:, self.children]
            sd[rows] = np.maximum(sd[rows], away)  # where a step went far all else is new
            if not (rows := rows[away.any(axis=1)]).size:
                break
        half = np.log(np.einsum("mii->mi", root)).sum(axis=1)
        log_p = top - half + c * LOG_SQRT_2PI
        return Conditional(x, root, np.where(log_p < np.inf, log_p, -np.inf))

    def log_marginal(self, P: Array) -> Array:
        """log p̂ of rows of parents, (M,)."""
        return np.concatenate([self.at(P[some]).log_p for some in self.parts(len(P))])

    def parts(self, m: int) -> list[slice]:
        """Rows whose matrices fit into memory."""
        size = max(1, _MATRICES // self.children.size**2)
        return [slice(i, i + size) for i in range(0, m, size)]

    def standardised(self, x: Array) -> tuple[Array, Array]:
        """Children of rows x as their parents' Gaussians have them, N(0, I) if these are right,
        and the roots of these."""
        given = self.at(x[:, self.parents])
        away = x[:, self.children] - given.x[:, self.children]
        return np.einsum("mji,mj->mi", given.root, away), given.root

    def _uphill(self, x: Array, value: Array, step: Array, most: int = 12) -> Array:
        """After a step, cut to a quarter as often as it takes to go uphill, or doubled as long as
        it does: down an exponential Newton's have unit length."""
        out, height = x.copy(), value.copy()

        def better(rows: Indices, length: float) -> Flags:
            new = x[rows]
            new[:, self.children] += length * step[rows]
            up = (reached := self.model.log_prob(new)) > height[rows]
            out[rows[up]], height[rows[up]] = new[up], reached[up]
            return up

        first = better(rows := np.arange(len(x)), 1.0)
        on, back = rows[first], rows[~first]
        for k in range(1, most):
            on = on[better(on, 2.0**k)] if on.size else on
            back = back[~better(back, 0.25**k)] if back.size else back
        return out

    def _derivatives(self, x: Array, sd: Array, most: int = 2**22) -> tuple[Array, Array, Array]:
        """log p, its gradient and its negative Hessian among children; so many numbers at once."""
        rows = max(1, most // (2 * self.children.size * self.model.n))
        by = self._of_gradients if self.model.has_gradient else self._of_values
        parts = [by(x[i : i + rows], sd[i : i + rows]) for i in range(0, len(x), rows)]
        value, slope, H = (np.concatenate(part) for part in zip(*parts, strict=True))
        return value, slope, H

    def _moved(self, x: Array, h: Array) -> tuple[Array, Array]:
        """Every row with one child moved up, with one moved down, (M c, d)."""
        m, c = h.shape
        steps = np.zeros((m, c, self.model.n))
        steps[:, np.arange(c), self.children] = h
        up, down = (x[:, None] + s * steps for s in (1.0, -1.0))
        return up.reshape(m * c, -1), down.reshape(m * c, -1)

    def _of_gradients(self, x: Array, sd: Array) -> tuple[Array, Array, Array]:
        h = _STEP[True] * sd
        value, slope = self.model.log_prob_and_gradient(x)
        up, down = (self.model.log_prob_and_gradient(p)[1] for p in self._moved(x, h))
        H = (down - up)[:, self.children].reshape(*h.shape, -1) / (2.0 * h[..., None])
        return value, slope[:, self.children], 0.5 * (H + np.swapaxes(H, 1, 2))

    def _of_values(self, x: Array, sd: Array) -> tuple[Array, Array, Array]:
        h, c = _STEP[False] * sd, self.children
        H = np.empty((*h.shape, c.size))
        value = self.model.log_prob(x)
        up, down = (self.model.log_prob(p).reshape(h.shape) for p in self._moved(x, h))
        bend = up + down - 2.0 * value[:, None]
        for i, j in zip(*np.triu_indices(c.size, 1), strict=True):
            step = np.zeros_like(x)
            step[:, c[i]], step[:, c[j]] = h[:, i], h[:, j]
            both = self.model.log_prob(x + step) + self.model.log_prob(x - step) - 2.0 * value
            H[:, i, j] = H[:, j, i] = (bend[:, i] + bend[:, j] - both) / (2 * h[:, i] * h[:, j])
        H[:, range(c.size), range(c.size)] = -bend / h**2
        return value, (up - down) / (2.0 * h), H


def _definite(H: Array, value: Array) -> tuple[Array, Array, Array]:
    r"""Roots of the diagonals, matrices scaled by these, and Cholesky factors of the latter.

    Where some eigenvalues λ are not positive all are \|λ\|; a matrix that is not finite is I.
    """
    tiny = 1e-100  # number
    # on the scaled diagonal: at least so much, or what rounding leaves of differences
    least = np.maximum(1e-10, 1e-12 * np.abs(value))
    root = np.sqrt(np.abs(np.einsum("mii->mi", H)))
    usable = (root > tiny) & (root < 1.0 / tiny)
    bad = ~(usable.all(axis=1) & np.isfinite(H).all(axis=(1, 2)))
    root = np.where(bad[:, None], 1.0, root)
    S = np.where(bad[:, None, None], 0.0, H) / (root[:, :, None] * root[:, None, :])
    S = S + np.where(bad | ~(least < 1.0), 1.0, least)[:, None, None] * np.eye(S.shape[1])
    try:
        return root, S, np.asarray(np.linalg.cholesky(S), dtype=float)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(S)
        values = np.abs(values)  # of slopes far beyond the diagonal's they are as large
        values += 1e-10 * np.maximum(values.max(axis=1, keepdims=True), 1.0)
        S = (vectors * values[:, None]) @ np.swapaxes(vectors, 1, 2)
        return root, S, np.asarray(np.linalg.cholesky(S), dtype=float)


def telling(model: DensityModel, points: Array, sd: Array) -> Array:
    """How much coordinate i (row) tells of the scale of j, (d, d): the largest squared slope of
    its logarithm, per standard deviation of i, at points (M, d) of the posterior.

    Where a neck begins the others may not feel it yet: one looks two standard deviations to
    either side as well. Slopes of both signs cancel: a coordinate that tells another's scale by
    its distance from a centre, as children of a funnel do, is none to begin with.

    >>> model = DensityModel(  # v tells the scale of two others
    ...     lambda x: -0.5 * x[0] ** 2 - x[0] - 0.5 * np.exp(-x[0]) * (x[1:] @ x[1:]), dim=3
    ... )
    >>> told = telling(model, np.random.default_rng(0).standard_normal((4, 3)), np.ones(3))
    >>> told[0].round(2).tolist(), bool(told[1:].max() < 0.01)
    ([0.0, 0.25, 0.25], True)
    """
    places = (-2.0, 0.0, 2.0)  # standard deviations from a point that is asked what tells a scale
    much = 0.5  # squared log of a scale, beyond which it does not count any more
    told = np.zeros((model.n, model.n))
    for x in points:
        scale = _scales(model, x[None], 0.1 * sd)[0]
        scale = np.where(np.isfinite(scale), np.minimum(scale, sd), sd)
        slopes = np.zeros((len(places), model.n, model.n))
        for i, away in enumerate(places):
            ends = [x + np.diag(away * sd + s * 0.5 * scale) for s in (1.0, -1.0)]
            up, down = (_scales(model, end, 0.1 * scale) for end in ends)
            with np.errstate(all="ignore"):
                slopes[i] = np.log(up / down) * (sd / scale)[:, None]
        slopes[~np.isfinite(slopes)] = 0.0
        slopes = slopes.max(axis=0).clip(0.0) + slopes.min(axis=0).clip(None, 0.0)
        told = np.maximum(told, np.minimum(slopes**2, much))
    np.fill_diagonal(told, 0.0)
    return told


def _scales(model: DensityModel, x: Array, h: Array) -> Array:
    """One over the root of the curvature along every coordinate, NaN where it is negative."""
    steps = np.diag(h)
    up, down = (model.log_prob((x[:, None] + s * steps).reshape(-1, h.size)) for s in (1.0, -1.0))
    with np.errstate(all="ignore"):
        bend = 2.0 * model.log_prob(x)[:, None] - (up + down).reshape(x.shape)
        return np.asarray(h / np.sqrt(bend))
