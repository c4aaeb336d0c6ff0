r"""Likelihoods of several modes, with the effects of groups integrated one by one.

Given what groups have in common, β and θ, effects of standard deviation τ are independent:

.. math:: p(y|\beta, \theta) = \prod_g \int N(u; 0, 1)
          \prod_{i \in g} p(y_i|\eta_i + a_i \tau u, \theta)\, du .

The integrand may have a peak at every datum, or be a needle beside the prior: EP then has no
answer that keeps its digits, and draws mix slowly. It is integrated by Gauss and Legendre's rule
between places that lie about the prior's and about every datum's peak, each by factors of its
width. The log of the integrand bends by no more than prior and peaks do together,
:math:`1/w^2 = 1 + \sum_i 1/w_i^2`: of places within two w one will do, and where the integrand is
low it is asked for at these only.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.legendre import leggauss

from ..models.hyperparameters import scalars
from ..models.likelihoods.quadrature import evaluate
from ..models.sparse import SparseModel
from ..numerics.arrays import Array, Indices
from ..numerics.special import LOG_SQRT_2PI
from .parts import Parts

_NODES, _WEIGHTS = leggauss(6)
_DATUM = np.array([0.0, 1.0, 3.0, 9.0, 27.0, 100.0, 500.0])  # about a datum's peak, in its widths


class EffectsIntegrated:
    """log p(y | β, θ) for rows of standard normal coordinates of β and natural values of θ."""

    def __init__(self, model: SparseModel, parts: Parts, term: int) -> None:
        self.model, self.parts, self.term = model, parts, term
        inside = parts.terms == term
        self.common, self.n = np.flatnonzero(~inside), int(np.sum(~inside))
        own = model.A[:, np.flatnonzero(inside)].tocoo()
        self.design = model.A[:, self.common].toarray()
        self.slope, group = np.empty(model.y.size), np.empty(model.y.size, int)
        self.slope[own.row], group[own.row] = own.data, own.col
        members = [np.flatnonzero(group == g) for g in np.unique(group)]
        most = max(map(len, members))
        #: data by groups, the first of which is repeated where there are fewer
        self.table = np.array([np.r_[m, np.full(most - len(m), m[0])] for m in members])
        self.real = np.arange(most) < np.array([[len(m)] for m in members])
        self.names = scalars(model.likelihood)

    @property
    def cost(self) -> float:
        """Values of a density of one datum that one look takes, about."""
        return 150.0 * self.table.size

    def __call__(self, rows: Array, *, together: float = 5e5) -> Array:
        """Of rows, as many of them ``together`` as have so many such values."""
        parts = np.array_split(rows, 1 + int(len(rows) * self.cost / together))
        with np.errstate(all="ignore"):
            total = np.concatenate([self._of(part) for part in parts])
        return np.where(np.isfinite(total), total, -np.inf)

    def _of(self, rows: Array) -> Array:
        model, values = self.model, self.parts.values(rows[:, self.n :])
        z = np.zeros((len(rows), model.n))
        z[:, self.common] = rows[:, : self.n]
        roots = self.parts.roots(values)
        x = self.parts.coloured(roots, z)[:, self.common]
        eta = x @ self.design.T + model.prior.mean
        slope = self.slope * roots[self.term][:, 0]
        theta, at = model.theta[:, None], model.likelihood.location(model.y)
        own = dict(zip(self.names, values[:, self.parts.n_kernel :].T, strict=True))
        if own:
            theta = model.likelihood.thetas(model.y, own)
            at = model.likelihood.locations_at(model.y, own)
        theta = np.broadcast_to(theta, (len(theta), *eta.shape))
        grouped = (
            part[..., self.table].reshape(*part.shape[:-2], -1, self.table.shape[1])
            for part in (theta, np.broadcast_to(at, eta.shape), eta, slope)
        )
        theta, at, eta, slope = grouped
        return self._integrals(theta, at, eta, slope).reshape(len(rows), -1).sum(axis=1)

    def _integrals(
        self, theta: Array, at: Array, eta: Array, slope: Array, depth: float = 30.0,
        apart: float = 2.0,
    ) -> Array:  # fmt: skip
        """The log of every group's, of parameters (K, groups, data) and other rows of data. What
        is so many nats deep is of no account; of places less than so many w ``apart`` one is."""
        kernel = self.model.likelihood.kernel
        real = np.tile(self.real, (len(eta) // len(self.real), 1))

        def log_p(group: Indices, u: Array) -> Array:
            x = eta[group] + slope[group] * u[:, None]
            own = theta.take(group, axis=1).reshape(len(theta), -1)
            each = evaluate(kernel, own, x.ravel(), 1)[0]
            return np.where(real[group], each.reshape(x.shape), 0.0).sum(axis=1) - 0.5 * u * u

        bends = np.abs(evaluate(kernel, theta.reshape(len(theta), -1), at.ravel())[2])
        least = 0.25 * self.model.likelihood.counts  # which may bend elsewhere, as their log link
        bends = np.fmax(np.where(bends < np.inf, bends, 0.0), least).reshape(at.shape)
        peak, width = (at - eta) / slope, 1.0 / (np.sqrt(bends) * np.abs(slope))
        weight = np.where(real, width**-2.0, 0.0)
        narrow = 1.0 / np.sqrt(1.0 + weight.sum(axis=1, keepdims=True))
        middle = narrow**2 * np.sum(weight * peak, axis=1, keepdims=True)
        two = np.hstack([np.zeros_like(middle), middle]), np.hstack([narrow**0.0, narrow])
        spots = np.array([0.0, 0.8, 1.6, 2.4, 3.3, 4.5, 6.0, 12.0, 40.0])  # in widths
        places = np.sort(np.hstack([_spread(*two, spots), _between(peak, width)]), axis=1)
        new = np.diff(np.floor(places / (apart * narrow)), axis=1, prepend=-np.inf) != 0.0
        new &= np.isfinite(places)
        group, u = np.nonzero(new)[0], places[new]
        height = log_p(group, u)
        top = np.maximum.reduceat(height, np.searchsorted(group, np.arange(len(eta))))
        high = height > top[group] - depth
        near = high[:-1] | high[1:]
        near[1:] |= high[:-2]
        near[:-1] |= high[2:]
        left = np.flatnonzero(near & (group[:-1] == group[1:]))
        half, owner = 0.5 * (u[left + 1] - u[left])[:, None], group[left]
        nodes = u[left, None] + half * (1.0 + _NODES)
        values = log_p(np.repeat(owner, _NODES.size), nodes.ravel()).reshape(nodes.shape)
        parts = (np.exp(values - top[owner, None]) * half * _WEIGHTS).sum(axis=1)
        return np.log(np.bincount(owner, parts, len(eta))) + top - LOG_SQRT_2PI


def _spread(peak: Array, width: Array, factors: Array) -> Array:
    """Places about peaks, rows of them, on both sides by factors of their widths."""
    away = width[..., None] * np.concatenate([-factors, factors])
    return (peak[..., None] + away).reshape(len(peak), -1)


def _between(peak: Array, width: Array, alike: float = 4.0) -> Array:
    """Such places about data's peaks, from each no farther than to the next where widths are
    ``alike``, within this factor; others are infinite."""
    order = np.argsort(peak, axis=1)
    peak, width = (np.take_along_axis(part, order, axis=1) for part in (peak, width))
    gap = np.diff(peak, axis=1, prepend=-np.inf, append=np.inf)
    gap[width.max(axis=1) > alike * width.min(axis=1)] = np.inf
    sides = [np.repeat(far[..., None], _DATUM.size, axis=2) for far in (gap[:, :-1], gap[:, 1:])]
    away = width[..., None] * np.tile(_DATUM, 2)
    inside = (away <= np.concatenate(sides, axis=2)).reshape(len(peak), -1)
    return np.where(inside, _spread(peak, width, _DATUM), np.inf)


def effects_integrated(
    model: SparseModel, parts: Parts, *, most: float = 1e5, dimensions: int = 6,
    strong: float = 1e5,
) -> EffectsIntegrated | None:  # fmt: skip
    """Of one term of groups with an effect each, and little else, where EP has no answer.

    ``most``: values of a density of one datum, in the time of a millisecond or two;
    ``dimensions``: values of β and θ together, at most; ``strong``: curvature of a datum's log p
    above which the sites of EP lose their digits.
    """
    likelihood = model.likelihood
    if model.n_predictors > 1 or not (likelihood.log_concave or likelihood.unimodal):
        return None
    curved = evaluate(likelihood.kernel, model.theta, likelihood.location(model.y))[2]
    if likelihood.log_concave and not -curved.min() > strong:
        return None
    for term in np.flatnonzero((parts.sizes == 1) & (parts.counts > 1)):
        inside = parts.terms == term
        few = np.sum(~inside) + parts.free.size <= dimensions
        if few and (np.diff(model.A[:, np.flatnonzero(inside)].indptr) == 1).all():
            found = EffectsIntegrated(model, parts, int(term))
            return found if found.cost <= most else None
    return None
