r"""Quantiles of Gaussian mixtures, and of observations whose latent value is such a mixture.

Latent quantiles are exact: each is the root of the mixture's distribution function
:math:`F(t) = \sum_s w_s \Phi((t - m_s)/\sqrt{v_s})`. A normal observation is a mixture again.
For others the latent distribution is represented by about a thousand nodes, midpoints of
strata of equal probability within each component, and

.. math:: F(y) \approx \sum_k w_k\, P(y_{\text{new}} \le y \mid x_k)

is inverted: by root finding for Student-t noise, by bisection over whole numbers for counts.
The strata leave an error of at most 0.001 in F, not in the quantile. Likelihoods made from a
function know no P: their quantiles are those of simulated observations, with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ..models.likelihoods.base import Likelihood
from ..numerics.chebyshev import over_means

Array = NDArray[np.float64]

NODES = 1000
_SIMULATED = 10  # observations per node
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


class Part(NamedTuple):
    """Equally weighted components that share a likelihood; ``weight`` is that of all of them."""

    weight: float
    mean: Array
    var: Array
    likelihood: Likelihood

    def average(self, values: Array) -> Array:
        """The weight times the mean of values (S, …), one for each component."""
        return self.weight * values.mean(axis=0)

    def log_density(self, y: Array) -> Array:
        """log ∫ p(y|x) N(x; m, v) dx for every component, shape (S, b)."""

        def log_z(mean: Array, var: Array, columns: NDArray[np.intp]) -> Array:
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


def latent_quantiles(q: Array, parts: list[Part]) -> Array:
    """Quantiles of the latent value, shape (Q, b)."""
    mean = np.concatenate([part.mean for part in parts])
    sd = np.sqrt(np.concatenate([np.broadcast_to(part.var, part.mean.shape) for part in parts]))
    if len(mean) == 1:
        return mean + sd * ndtri(q)[:, None]
    weights = np.repeat(
        [part.weight / len(part.mean) for part in parts], [len(part.mean) for part in parts]
    )
    by_point = np.ascontiguousarray(mean.T)
    sd_by_point = np.ascontiguousarray(np.maximum(sd, 1e-300).T)  # a component may be a point

    def distribution(t: Array, column: Array) -> Array:
        with np.errstate(over="ignore"):
            return ndtr((t[:, None] - by_point[column]) / sd_by_point[column]) @ weights

    low = np.array([(mean + sd * z).min(axis=0) for z in ndtri(q)])
    high = np.array([(mean + sd * z).max(axis=0) for z in ndtri(q)])
    return _roots(distribution, q, low, high, 1e-13)


def observed_quantiles(q: Array, parts: list[Part]) -> Array:
    """Quantiles of a new observation, shape (Q, b)."""
    likelihood = parts[0].likelihood
    if likelihood.name == "gaussian":
        return latent_quantiles(q, [_with_noise(part) for part in parts])
    if hasattr(likelihood, "probability"):
        negative = sum(part.average(part.probability(-1.0)) for part in parts)
        return np.where(q[:, None] <= negative, -1.0, 1.0)
    nodes = _nodes(parts)
    if type(likelihood).cdf is Likelihood.cdf:
        return _simulated(q, nodes)

    def distribution(y: Array, column: Array) -> Array:
        return np.sum(
            [p.average(p.likelihood.at(column).cdf(y, p.mean[:, column])) for p in nodes], axis=0
        )

    if likelihood.counts:
        return _whole(distribution, q, nodes[0].mean.shape[1])
    return _roots(distribution, q, *_bracket(distribution, q, nodes), 1e-6)


def _with_noise(part: Part) -> Part:
    mean, var = part.likelihood.predictive(part.mean, part.var)
    return part._replace(mean=mean, var=var)


def _nodes(parts: list[Part]) -> list[Part]:
    """Components without variance, about a thousand in all, that stand for those of the parts.

    Each component's strata are entered at another place (a golden-ratio sequence), so that nodes
    of components that lie close together do not repeat each other.
    """
    per_component = max(1, NODES // sum(len(part.mean) for part in parts))
    nodes, passed = [], 0
    for part in parts:
        S, b = part.mean.shape
        shift = (0.5 + (passed + np.arange(S)) * _GOLDEN) % 1.0
        z = ndtri((np.arange(per_component)[:, None] + shift) / per_component)
        x = part.mean + z[..., None] * np.sqrt(part.var)
        nodes.append(part._replace(mean=x.reshape(-1, b), var=np.zeros((1, b))))
        passed += S
    return nodes


def _roots(
    distribution: Callable[..., Array], q: Array, low: Array, high: Array, tol: float
) -> Array:
    """Where the distribution function reaches q, to ``tol`` of q, between low and high (Q, b)."""
    from scipy.optimize.elementwise import find_root

    level, column = _grid(q, low.shape[1])
    wider = 1e-12 * (np.abs(low) + np.abs(high))  # rounding must not cost the change of sign
    found = find_root(
        lambda y, level, column: distribution(y, column) - level,
        ((low - wider).ravel(), (high + wider).ravel()),
        args=(level, column),
        tolerances={"fatol": tol * float(np.minimum(q, 1.0 - q).min())},
    )
    return found.x.reshape(low.shape)


def _grid(q: Array, width: int) -> tuple[Array, NDArray[np.intp]]:
    """Levels and columns of a (Q, b) table, flat."""
    return np.repeat(q, width), np.tile(np.arange(width), q.size)


def _bracket(
    distribution: Callable[..., Array], q: Array, nodes: list[Part]
) -> tuple[Array, Array]:
    """From the extreme nodes outwards, doubling steps, until q lies between."""
    level, column = _grid(q, nodes[0].mean.shape[1])
    ends = []
    for direction in (-1.0, 1.0):
        start = direction * np.max([(direction * part.mean).max(axis=0) for part in nodes], axis=0)
        end, step = start[column], 1.0
        while (short := direction * (distribution(end, column) - level) < 0.0).any():
            end = np.where(short, end + direction * step, end)
            step *= 2.0
        ends.append(end.reshape(q.size, -1))
    return ends[0], ends[1]


def _whole(distribution: Callable[..., Array], q: Array, width: int) -> Array:
    """The smallest whole numbers at which the distribution function reaches q."""
    level, column = _grid(q, width)
    low, high = np.full(level.size, -1.0), np.ones(level.size)
    while not (enough := distribution(high, column) >= level).all():
        low, high = np.where(enough, low, high), np.where(enough, high, 4.0 * high)
    while (high - low > np.maximum(1.0, 1e-15 * high)).any():
        middle = np.floor(0.5 * (low + high))
        enough = distribution(middle, column) >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high.reshape(q.size, width)


def _simulated(q: Array, nodes: list[Part]) -> Array:
    rng = np.random.default_rng(0)
    drawn, weights = [], []
    for weight, mean, _, likelihood in nodes:
        x = np.repeat(mean, _SIMULATED, axis=0)
        drawn.append(likelihood.simulate(x, rng))
        weights.append(np.full(len(x), weight / len(x)))
    y = np.concatenate(drawn)
    order = np.argsort(y, axis=0)
    below = np.cumsum(np.concatenate(weights)[order], axis=0)
    ordered = np.take_along_axis(y, order, axis=0)
    first = [np.minimum((below < level - 1e-12).sum(axis=0), len(y) - 1) for level in q]
    return np.array([np.take_along_axis(ordered, at[None], axis=0)[0] for at in first])
