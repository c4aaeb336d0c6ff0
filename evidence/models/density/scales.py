r"""Coordinates whose scale depends on other coordinates, as in hierarchical models.

In a funnel, or wherever groups have a standard deviation of their own, some coordinates
(*parents*) tell the location and the scale of others (*children*). The change

.. math:: x_P = u_P,\qquad x_i = a_i + A_i^T (u_P - m) + e^{B_i^T (u_P - m)}\, u_i

makes children that know nothing of their parents' scale any more: what is called a non-centred
parameterisation, with as much of it as the draws ask for. Its log Jacobian is linear,
:math:`\sum_i B_i^T (u_P - m)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...numerics.arrays import Array, Flags, Indices


@dataclass(frozen=True, eq=False)
class Scales:
    """The change of variables x = g(u), invertible whatever its numbers."""

    parents: Indices
    children: Indices
    centre: Array
    """m, (parents,)"""
    offset: Array
    """a, (children,)"""
    location: Array
    """A, (children, parents)"""
    slope: Array
    """B, (children, parents)"""

    def __call__(self, u: Array) -> Array:
        """x of every row."""
        x = np.array(u, dtype=float)
        x[:, self.children] = self._centres(u) + np.exp(self._log_scale(u)) * u[:, self.children]
        return x

    def inverse(self, x: Array) -> Array:
        """u of every row."""
        u = np.array(x, dtype=float)
        u[:, self.children] = (x[:, self.children] - self._centres(x)) / np.exp(self._log_scale(x))
        return u

    def log_slope(self, u: Array) -> Array:
        """log \\|∂x/∂u\\| of every row."""
        return self._log_scale(u).sum(axis=1)

    def pull(self, u: Array, slope: Array) -> Array:
        """The gradient in u, log Jacobian included, from the gradient in x."""
        out = np.array(slope, dtype=float)
        children = slope[:, self.children]
        stretched = np.exp(self._log_scale(u)) * children
        per_scale = stretched * u[:, self.children] + 1.0
        out[:, self.children] = stretched
        out[:, self.parents] += children @ self.location + per_scale @ self.slope
        return out

    def identity(self) -> tuple[Array, ...]:
        """Arrays that tell this change from others."""
        indices = (self.parents.astype(float), self.children.astype(float))
        return *indices, self.centre, self.offset, self.location, self.slope

    def _centres(self, u: Array) -> Array:
        return self.offset + (u[:, self.parents] - self.centre) @ self.location.T

    def _log_scale(self, u: Array) -> Array:
        return (u[:, self.parents] - self.centre) @ self.slope.T


@dataclass(frozen=True, eq=False)
class Rescaled:
    """A density in the coordinates u."""

    model: Any
    scales: Scales

    def log_prob(self, u: Array) -> Array:
        value = self.model.log_prob(self.scales(u)) + self.scales.log_slope(u)
        return np.where(np.isnan(value), -np.inf, value)

    def log_prob_and_gradient(self, u: Array) -> tuple[Array, Array]:
        value, slope = self.model.log_prob_and_gradient(self.scales(u))
        value = value + self.scales.log_slope(u)
        return np.where(np.isnan(value), -np.inf, value), self.scales.pull(u, slope)


def learn(
    x: Array, w: Array, known: Scales | None = None, *, significant: float = 5.0,
    likely: float = 2.5, material: float = 0.1, lasting: float = 0.2, fewest: float = 50.0,
) -> Scales | None:  # fmt: skip
    """Scales that draws x with weights w (which sum to one) show, or None if they show none.

    A child is a coordinate with residuals (from its regression on all others) whose log
    magnitude correlates with another coordinate; many weak correlations with the same one count
    as well. One whose residuals from the parents alone do not is a parent itself, as the common
    mean of groups is. Then locations and log scales are regressed in turn: a child's log scale
    on the parents that it correlates with, its location on the others, weighted by the scales.
    Children that are ``known`` from earlier draws stay so: of many, each set shows only some.

    >>> rng = np.random.default_rng(0)
    >>> v = 3.0 * rng.standard_normal(4000)
    >>> x = np.column_stack([v, np.exp(v / 2) * rng.standard_normal(4000)])
    >>> scales = learn(x, np.full(4000, 1 / 4000))
    >>> scales.parents.tolist(), scales.children.tolist(), scales.slope.round(1).tolist()
    ([0], [1], [[0.5]])

    ``significant``: standard errors of a correlation, or of a parent's sum of their squares;
    ``likely``: standard errors of a child of a parent that is significant; ``material``:
    correlation below which it changes little; ``lasting``: correlation that makes a child in the
    end; ``fewest``: effective draws that say anything about scales.
    """
    effective = 1.0 / np.sum(w * w)
    n = x.shape[1]
    if n < 2 or effective < max(fewest, 4.0 * n):
        return None
    centred = x - w @ x
    cov = (w[:, None] * centred).T @ centred
    sd = np.sqrt(np.diag(cov))
    if not (np.isfinite(sd).all() and (sd > 0.0).all()):
        return None
    z = centred / sd
    correlations = cov / np.outer(sd, sd)
    precision = np.linalg.inv(correlations + 1e-6 * np.eye(n))
    square = effective * _correlations(_log_size(z @ precision, w), z, w) ** 2
    np.fill_diagonal(square, 0.0)
    square[square < effective * material**2] = 0.0
    together = square.sum(axis=0) > n + significant * np.sqrt(2.0 * n)
    parent = together | (square.max(axis=0) > significant**2)
    before = np.zeros((n, n), bool)
    if known is not None:
        before[np.ix_(known.children, known.parents)] = known.slope != 0.0
        parent |= before.any(axis=0)
    square[:, ~parent] = 0.0
    square[square < likely**2] = 0.0
    square[before] = np.maximum(square[before], likely**2)
    children = _children(square)
    while children.any():
        up, down = np.flatnonzero(~children), np.flatnonzero(children)
        gram = correlations[np.ix_(up, up)] + 1e-6 * np.eye(up.size)
        location = np.linalg.solve(gram, correlations[np.ix_(up, down)])
        told = _correlations(_log_size(z[:, down] - z[:, up] @ location, w), z[:, up], w) ** 2
        told[square[np.ix_(down, up)] == 0.0] = 0.0
        weakest = int(told.max(axis=1).argmin())
        strong = np.where(together[up], material, lasting)
        clear = told > np.maximum(likely**2 / effective, strong**2)
        clear |= before[np.ix_(down, up)]
        if clear[weakest].any():
            return _regress(z, w, sd, w @ x, up, down, clear)
        children[down[weakest]] = False
    return None


def _children(score: Array) -> Flags:
    """Which coordinates depend on others: parents first that explain the most."""
    n = len(score)
    children, drivers = np.zeros(n, bool), np.zeros(n, bool)
    while True:
        open_ = ~drivers
        gain = np.where(children | drivers, 0.0, score[open_].sum(axis=0))
        best = int(gain.argmax())
        if gain[best] <= 0.0:
            return children
        drivers[best] = True
        children |= (score[:, best] > 0.0) & ~drivers


def _regress(
    z: Array, w: Array, sd: Array, mean: Array, up: Indices, down: Indices, where: Flags, *,
    rounds: int = 4,
) -> Scales:  # fmt: skip
    """Locations and scales of standardised coordinates, in turn, in the units of x.

    A location does not depend on what tells the scale, but in units of the scale: where that is
    small, it has to be right. The mean of u sees to the latter.

    ``rounds``: locations and scales in turn.
    """
    parents, children = z[:, up], z[:, down]
    slope = np.zeros((down.size, up.size))
    offset, location = np.zeros(down.size), np.zeros((down.size, up.size))
    for _ in range(rounds):
        residuals = np.empty_like(children)
        for i in range(down.size):
            plain = ~where[i]  # these tell no scale
            scale = np.exp(np.clip(parents @ slope[i], -30.0, 30.0))
            design = np.column_stack([np.ones(len(z)), parents[:, plain], scale])
            weighted = design * (w / scale**2)[:, None]
            gram = weighted.T @ design
            gram[np.diag_indices_from(gram)] *= 1.0 + 1e-9
            found = np.linalg.solve(gram, weighted.T @ children[:, i])
            offset[i], location[i, plain] = found[0], found[1:-1]
            residuals[:, i] = children[:, i] - design @ found
        size = _log_size(residuals, w)
        for i in range(down.size):
            told_by = parents[:, where[i]]
            weighted = told_by * w[:, None]
            gram = weighted.T @ told_by + 1e-9 * np.eye(told_by.shape[1])
            slope[i, where[i]] = np.linalg.solve(gram, weighted.T @ size[:, i])
    offset, location = mean[down] + sd[down] * offset, sd[down, None] * location / sd[up]
    return Scales(up, down, mean[up], offset, location, slope / sd[up])


def _log_size(residuals: Array, w: Array) -> Array:
    """log |residual|, centred; far outliers towards zero are cut off."""
    size = np.log(np.abs(residuals) + 1e-300)
    size = np.maximum(size, w @ size - 6.0)
    return size - w @ size


def _correlations(a: Array, b: Array, w: Array) -> Array:
    """Weighted correlations of the columns of a with those of b; both are centred."""
    cross = (w[:, None] * a).T @ b
    return cross / np.sqrt(np.outer(w @ (a * a), w @ (b * b)))
