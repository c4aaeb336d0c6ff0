r"""Quantiles of Gaussian mixtures, and of observations whose latent value is such a mixture.

Latent quantiles are exact: each is the root of the mixture's distribution function
:math:`F(t) = \sum_s w_s \Phi((t - m_s)/\sqrt{v_s})`. A normal observation is a mixture again.
For others the latent distribution is represented by about a thousand nodes, midpoints of
strata of equal probability within each component, and

.. math:: F(y) \approx \sum_k w_k\, P(y_{\text{new}} \le y \mid x_k)

is inverted: by root finding for Student-t noise and gamma targets, by bisection over whole
numbers for counts and ordered categories.
The strata leave an error of at most 0.001 in F, not in the quantile. Likelihoods made from a
function know no P: their quantiles are those of simulated observations, with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ..models.likelihoods.base import Likelihood, Predictive
from ..numerics.arrays import Array, Indices
from ..numerics.chebyshev import over_means

Grid = tuple[Array, Indices]
Excess = Callable[[Array, Array, Indices], Array]
"""From y, a level and the column of a point to P(Y ≤ y) minus the level."""

NODES = 1000


class Part(NamedTuple):
    """Equally weighted components that share a likelihood; ``weight`` is that of all of them."""

    weight: float
    mean: Array
    var: Array
    likelihood: Likelihood

    @property
    def weights(self) -> Array:
        """Of every component, shape (S,)."""
        return np.full(len(self.mean), self.weight / len(self.mean))

    def average(self, values: Array) -> Array:
        """The weight times the mean of values (S, …), one for each component."""
        return self.weight * values.mean(axis=0)

    def log_density(self, y: Array) -> Array:
        """log ∫ p(y|x) N(x; m, v) dx for every component, shape (S, b)."""

        def log_z(mean: Array, var: Array, columns: Indices) -> Array:
            likelihood, observed = self.likelihood.at(columns), y[columns]
            var = np.broadcast_to(var, mean.shape)
            rows = zip(mean, var, strict=True)
            return np.array([likelihood.tilted(observed, m.copy(), v.copy())[0] for m, v in rows])

        if type(self.likelihood).tilted is Likelihood.tilted:  # by quadrature: not for all S × b
            return over_means(log_z, self.mean, self.var)
        return log_z(self.mean, self.var, np.arange(y.size))

    def probability(self, label: float) -> Array:
        """P(y = label) for every component, shape (S, b); for binary likelihoods."""
        return np.exp(self.log_density(np.full(self.mean.shape[1], label)))

    def predictive(self) -> Predictive:
        """Mean and variance of a new observation under every component, shape (S, b)."""
        if not hasattr(self.likelihood, "probability"):
            return self.likelihood.predictive(self.mean, self.var)
        positive, negative = self.probability(1.0), self.probability(-1.0)
        return Predictive(positive - negative, 4.0 * positive * negative)


def latent_quantiles(q: Array, parts: list[Part]) -> Array:
    """Quantiles of the latent value, shape (Q, b)."""
    mean = np.concatenate([part.mean for part in parts])
    sd = np.sqrt(np.concatenate([np.broadcast_to(part.var, part.mean.shape) for part in parts]))
    if len(mean) == 1:
        return mean + sd * ndtri(q)[:, None]
    weights = np.concatenate([part.weights for part in parts])
    by_point = np.ascontiguousarray(mean.T)
    sd_by_point = np.ascontiguousarray(np.maximum(sd, 1e-300).T)  # a component may be a point

    def excess(t: Array, level: Array, column: Indices) -> Array:
        with np.errstate(over="ignore"):
            return ndtr((t[:, None] - by_point[column]) / sd_by_point[column]) @ weights - level

    low = np.array([(mean + sd * z).min(axis=0) for z in ndtri(q)])
    high = np.array([(mean + sd * z).max(axis=0) for z in ndtri(q)])
    return _root(excess, _grid(q, mean), low.ravel(), high.ravel(), 1e-13).reshape(low.shape)


def observed_quantiles(q: Array, parts: list[Part]) -> Array:
    """Quantiles of a new observation, shape (Q, b)."""
    likelihood = parts[0].likelihood
    if likelihood.name == "gaussian":
        noisy = [(part, part.predictive()) for part in parts]
        return latent_quantiles(q, [part._replace(mean=y.mean, var=y.var) for part, y in noisy])
    if hasattr(likelihood, "probability"):
        negative = sum(part.average(part.probability(-1.0)) for part in parts)
        return np.where(q[:, None] <= negative, -1.0, 1.0)
    nodes = _nodes(parts)
    if type(likelihood).cdf is Likelihood.cdf:
        return _simulated(q, nodes)

    def excess(y: Array, level: Array, column: Indices) -> Array:
        cdf = [p.average(p.likelihood.at(column).cdf(y, p.mean[:, column])) for p in nodes]
        return np.sum(cdf, axis=0) - level

    grid = _grid(q, nodes[0].mean)
    if likelihood.counts:
        flat = _whole(excess, grid)
    else:
        flat = _root(excess, grid, *_bracket(excess, grid, nodes), 1e-6)
    return flat.reshape(q.size, -1)


def _nodes(parts: list[Part]) -> list[Part]:
    """Components without variance, about a thousand in all, that stand for those of the parts.

    Each component's strata are entered at another place (a golden-ratio sequence), so that nodes
    of components that lie close together do not repeat each other.
    """
    golden = 0.5 * (np.sqrt(5.0) - 1.0)
    per_component = max(1, NODES // sum(len(part.mean) for part in parts))
    nodes, passed = [], 0
    for part in parts:
        S, b = part.mean.shape
        shift = (0.5 + (passed + np.arange(S)) * golden) % 1.0
        z = ndtri((np.arange(per_component)[:, None] + shift) / per_component)
        x = part.mean + z[..., None] * np.sqrt(part.var)
        nodes.append(part._replace(mean=x.reshape(-1, b), var=np.zeros((1, b))))
        passed += S
    return nodes


def _grid(q: Array, mean: Array) -> Grid:
    """Levels and columns of a (Q, b) table, flat, for means (S, b)."""
    return np.repeat(q, mean.shape[1]), np.tile(np.arange(mean.shape[1]), q.size)


def _root(excess: Excess, grid: Grid, low: Array, high: Array, tol: float) -> Array:
    """Where the distribution function reaches the levels, to ``tol`` of them."""
    from scipy.optimize.elementwise import find_root

    wider = 1e-12 * (np.abs(low) + np.abs(high))  # rounding must not cost the change of sign
    least = float(np.minimum(grid[0], 1.0 - grid[0]).min())
    ends, tolerances = (low - wider, high + wider), {"fatol": tol * least}
    return find_root(excess, ends, args=grid, tolerances=tolerances).x


def _bracket(excess: Excess, grid: Grid, nodes: list[Part]) -> tuple[Array, Array]:
    """From the extreme nodes outwards, doubling steps, until the levels lie between."""
    ends = []
    for direction in (-1.0, 1.0):
        start = direction * np.max([(direction * part.mean).max(axis=0) for part in nodes], axis=0)
        end, step = start[grid[1]], 1.0
        while (short := direction * excess(end, *grid) < 0.0).any():
            end = np.where(short, end + direction * step, end)
            step *= 2.0
        ends.append(end)
    return ends[0], ends[1]


def _whole(excess: Excess, grid: Grid) -> Array:
    """The smallest whole numbers at which the distribution function reaches the levels."""
    low, high = np.full(grid[0].size, -1.0), np.ones(grid[0].size)
    while not (enough := excess(high, *grid) >= 0.0).all():
        low, high = np.where(enough, low, high), np.where(enough, high, 4.0 * high)
    while (high - low > np.maximum(1.0, 1e-15 * high)).any():
        middle = np.floor(0.5 * (low + high))
        enough = excess(middle, *grid) >= 0.0
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _simulated(q: Array, nodes: list[Part], *, simulated: int = 10) -> Array:
    """``simulated``: observations per node."""
    rng = np.random.default_rng(0)
    many = ((p, np.repeat(p.mean, simulated, axis=0)) for p in nodes)
    drawn = [p._replace(mean=p.likelihood.simulate(x, rng)) for p, x in many]
    y = np.concatenate([part.mean for part in drawn])
    order = np.argsort(y, axis=0)
    below = np.cumsum(np.concatenate([part.weights for part in drawn])[order], axis=0)
    ordered = np.take_along_axis(y, order, axis=0)
    first = [np.minimum((below < level - 1e-12).sum(axis=0), len(y) - 1) for level in q]
    return np.array([np.take_along_axis(ordered, at[None], axis=0)[0] for at in first])
