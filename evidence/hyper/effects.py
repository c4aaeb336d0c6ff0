r"""Likelihoods of several modes, with the effects of groups integrated one by one.

Given what groups have in common, β and θ, effects of standard deviation τ are independent:

.. math:: p(y|\beta, \theta) = \prod_g \int N(u; 0, 1)
          \prod_{i \in g} p(y_i|\eta_i + a_i \tau u, \theta)\, du .

The integrand may have a peak at every datum, or be a needle beside the prior: EP then has no
answer that keeps its digits, and draws mix slowly. It is integrated by Gauss and Legendre's rule
between places that lie about the prior's and about every datum's peak, each by factors of its
width.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.legendre import leggauss

from ..models.likelihoods.base import Likelihood
from ..models.likelihoods.quadrature import evaluate
from ..models.sparse import SparseModel
from ..numerics.arrays import Array
from ..numerics.special import LOG_SQRT_2PI
from .parts import Parts

_NODES, _WEIGHTS = leggauss(6)
_DATUM = np.array([0.0, 1.0, 3.0, 9.0, 27.0, 100.0, 500.0])


class EffectsIntegrated:
    """log p(y | β, θ) for a row of standard normal coordinates of β and natural values of θ."""

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
        free = model.likelihood.free
        self.names = [n for n in free if np.ndim(model.likelihood.value_of(n)) == 0]

    @property
    def cost(self) -> float:
        """Values of a density of one datum that one look takes."""
        G, R = self.table.shape
        return float(G * R * (R + 1) * 2 * _DATUM.size * _NODES.size)

    def __call__(self, row: Array) -> float:
        values, z = self.parts.values(row[None, self.n :]), np.zeros((1, self.model.n))
        z[0, self.common] = row[: self.n]
        own = dict(zip(self.names, values[0, self.parts.n_kernel :].tolist(), strict=True))
        with np.errstate(all="ignore"):
            roots = self.parts.roots(values)
            x = self.parts.coloured(roots, z)[0, self.common]
            eta = self.design @ x + self.model.prior.mean
            slope = self.slope * roots[self.term][0, 0, 0]
            total = self._integrals(self.model.likelihood.changed(own), eta, slope).sum()
        return float(total) if np.isfinite(total) else -np.inf

    def _integrals(self, likelihood: Likelihood, eta: Array, slope: Array) -> Array:
        """The log of every group's."""
        # places about a peak, in its widths
        spots = np.array([0.0, 0.7, 1.5, 3.0, 6.0, 12.0, 40.0])
        y, table = self.model.y, self.table
        theta, at = likelihood.theta(y), likelihood.location(y)
        width = 1.0 / (np.sqrt(-evaluate(likelihood.kernel, theta, at)[2]) * np.abs(slope))
        about = ((at - eta) / slope)[table][..., None] + width[table][..., None] * _both(_DATUM)
        about = about.reshape(len(table), -1)
        prior = np.broadcast_to(_both(spots), (len(table), 2 * spots.size - 1))
        places = np.sort(np.hstack([prior, about]), axis=1)
        half = 0.5 * np.diff(places)[..., None]
        u = (places[:, :-1, None] + half * (1.0 + _NODES)).reshape(len(table), -1)
        theta = np.broadcast_to(theta[:, table, None], (len(theta), *table.shape, u.shape[1]))
        x = eta[table][..., None] + slope[table][..., None] * u[:, None]
        each = evaluate(likelihood.kernel, theta.reshape(len(theta), -1), x.ravel(), 1)[0]
        each = np.where(self.real[..., None], each.reshape(x.shape), 0.0).sum(axis=1)
        each += np.log((half * _WEIGHTS).reshape(u.shape)) - 0.5 * u**2
        return np.logaddexp.reduce(each, axis=1) - LOG_SQRT_2PI


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


def _both(places: Array) -> Array:
    """On both sides."""
    return np.concatenate([-places[:0:-1], places])
