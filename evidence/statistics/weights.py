r"""Weights of particles by their logarithms: their mean, what they are worth, their tail.

For weights :math:`w_1, \dots, w_n`, of a mean that estimates a ratio of normalisers,

.. math:: \mathrm{ess} = \frac{\bar w^2}{\overline{w^2}}, \qquad
          \widehat{\operatorname{var}} = \frac{n}{n-1}\Big(\frac{1}{\mathrm{ess}} - 1\Big),

their effective sample size relative to n and the relative variance of one of them. Both
say too much where the tail is heavy, which :func:`pareto_shape` finds out.

References
----------
J. Zhang and M. A. Stephens, Technometrics 51 (2009) 316 (the fit); A. Vehtari et al., J. Mach.
Learn. Res. 25 (2024) 72 (what it says about an average).
"""

from __future__ import annotations

import math
from types import EllipsisType

import numpy as np
from numpy.typing import ArrayLike

from ..messages import Message
from ..numerics.arrays import Array, Flags, Indices
from .resampling import SCHEMES, Ancestors

LIMIT = 0.7  # shape of a tail above which no affordable number of weights tells their variance
_LOWEST = np.finfo(float).min  # finite, so that differences are numbers
_OUTERMOST = 3  # weights at an end whose excess is its scale: 2 are too noisy, 4 see too little


class Weights:
    r"""Weights by their logarithms, for G islands (G, n) or for one (n,), in batches.

    A further batch may be for some of the islands only. The particles behind the weights are
    taken to be stacked in the order in which they came: batch, island, particle.

    >>> weights = Weights(np.log([[1.0, 1.0], [1.8, 0.2]]))
    >>> weights.add(np.log([[0.2, 1.0]]), [1])
    >>> weights.count.tolist(), np.exp(weights.log_mean).round(2).tolist()
    ([2, 4], [1.0, 0.8])
    >>> (weights.ess * weights.count).round(2).tolist()
    [2.0, 2.37]
    """

    def __init__(self, log_w: ArrayLike | None = None) -> None:
        islands = () if log_w is None else np.shape(log_w)[:-1]
        self.count, self._size = np.zeros(islands, np.intp), 0
        self._top, self._sums = np.full(islands, _LOWEST), np.zeros((2, *islands))
        self._batches: list[Array] = []
        self._rows: list[Ancestors] = []
        if log_w is not None:
            self.add(log_w)

    def add(self, log_w: ArrayLike, islands: Flags | Indices | EllipsisType = ...) -> None:
        """One more batch; islands that are not among ``islands`` get no weight from it."""
        log_w = np.asarray(log_w, dtype=float)
        top = np.maximum(self._top[islands], log_w.max(axis=-1))
        w, shrink = np.exp(log_w - top[..., None]), np.exp(self._top[islands] - top)
        batch = np.array([w.sum(axis=-1), np.sum(w * w, axis=-1)])
        self._sums[:, islands] = self._sums[:, islands] * [shrink, shrink**2] + batch
        self._top[islands] = top
        self.count[islands] += log_w.shape[-1]
        shape = (*self.count.shape, log_w.shape[-1])
        padded, rows = np.full(shape, -np.inf), np.zeros(shape, np.intp)
        padded[islands] = log_w
        rows[islands] = self._size + np.arange(log_w.size).reshape(log_w.shape)
        self._size += log_w.size
        self._batches.append(padded)
        self._rows.append(rows)

    @property
    def n(self) -> int:
        """Number of weights, for one island."""
        return int(self.count)

    @property
    def log(self) -> Array:
        """All batches side by side, -inf where an island has none."""
        return np.concatenate(self._batches, axis=-1)

    @property
    def alive(self) -> Flags:
        """Whether an island has any weight at all."""
        return self._sums[0] > 0.0

    @property
    def relative(self) -> Array:
        """Weights relative to the island's largest; ones where all are zero."""
        return np.exp(np.where(self.alive[..., None], self.log - self._top[..., None], 0.0))

    @property
    def log_mean(self) -> Array:
        """log of the mean weight; -inf where all are zero."""
        with np.errstate(divide="ignore"):
            return self._top + np.log(self._sums[0] / self.count)

    @property
    def normalised(self) -> Array:
        """Log weights of the first batch over the mean of all; zeros where that is zero."""
        log_mean = np.where(self.alive, self.log_mean, 0.0)[..., None]
        return np.where(self.alive[..., None], self._batches[0] - log_mean, 0.0)

    @property
    def ess(self) -> Array:
        """Effective sample size relative to the number of weights; 0 where all are zero."""
        mean, square = self._sums / self.count
        return np.divide(mean**2, square, out=np.zeros_like(mean), where=self.alive)

    @property
    def relative_variance(self) -> float:
        """Of one weight; of weights that are all the same zero, whatever rounding says."""
        with np.errstate(divide="ignore"):
            return float(np.maximum(1.0 / self.ess - 1.0, 0.0) * self.count / (self.count - 1.0))

    @property
    def se(self) -> float:
        """Relative standard error of the mean, by the delta method that of its logarithm."""
        return math.sqrt(self.relative_variance / self.count)

    @property
    def log_sd(self) -> float:
        """Standard deviation of the log weights."""
        with np.errstate(invalid="ignore"):
            return float(self.log.std(ddof=1))

    @property
    def shape(self) -> float:
        """Pareto's k of the tail."""
        return pareto_shape(np.sort(self.log))

    def resample(self, chosen: Flags, scheme: str, rng: np.random.Generator) -> Ancestors:
        """Particles that go on, (G, R) for batches of R, as rows of their stack.

        Islands that are not ``chosen``, or without any weight, keep their first batch.
        """
        rows, index = np.concatenate(self._rows, axis=-1), self._rows[0].copy()
        w = self.relative
        for i in np.flatnonzero(chosen & self.alive):
            index[i] = rows[i, SCHEMES[scheme](w[i], rng, index.shape[1])]
        return index

    def heavy(self, limit: float = LIMIT, small: float = 0.1) -> bool:
        """Whether the tail's shape is above ``limit``, so that they do not tell their mean,
        and a weight's relative variance not so ``small`` that it does not matter."""
        return self.shape > limit and self.relative_variance > small

    def complaints(self, limit: float = LIMIT, largest: float = 0.1) -> list[Message]:
        """Reasons not to trust ``se``: the largest weight, or the fitted tail, says too much.

        That is a ``largest`` share of the sum, and a shape of the tail above ``limit``.

        An average of n weights whose tail has shape k behaves as its variance says as long as
        ``k < min(1 - 1/log10 n, 0.7)``; beyond that ``se`` and the mean tend to be too small.
        """
        n, share, shape = self.n, 1.0 / float(self._sums[0]), self.shape
        reasons = []
        if share > largest:
            reasons.append(f"the largest of {n} weights is {share:.0%} of their sum")
        if shape > min(1.0 - 1.0 / math.log10(n), limit):
            reasons.append(f"their tail is too heavy for its variance (Pareto k = {shape:.2f})")
        if not reasons:
            return []
        text = f"The weights are too uneven (sd of their logs {self.log_sd:.1f}): "
        text += " and ".join(reasons) + "; se, and likely logp, are too small."
        return [Message("heavy-tail", text)]


def variance_of_ends(w: Array) -> float:
    r"""Relative variance that both ends leave in the mean of n weights of evenly spread draws.

    Where draws fill the cube evenly all but the ends of a smooth integrand cancel. There the
    weight goes on beyond the last draw, of which a cell of size 1/n has only one: with an excess
    of mean :math:`σ` it is about exponential, and what it adds to the mean has variance

    .. math:: σ^2 / n^2, \qquad
              σ = \tfrac1k \sum_{i \le k} w_{(i)} - w_{(k+1)} .

    It is so skewed that the spread of sixteen such means is often too small.

    >>> variance_of_ends(np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0]))  # (1 / 11)²
    0.008264462809917356
    """
    if w.size <= _OUTERMOST:
        return 0.0
    return (_excess(w, 1.0) ** 2 + _excess(w, -1.0) ** 2) / float(w.sum()) ** 2


def variance_in_order(w: Array) -> float:
    r"""Relative variance of the mean of n weights whose draws came stratum by stratum,

    .. math:: \frac{n}{n-1} \sum_{i<n} \tfrac12 (w_{i+1} - w_i)^2 \Big/ \Big(\sum_i w_i\Big)^2 :

    what strata differ by is in it at their borders only, as the mean does not have it. Of
    independent draws it is the usual variance on average (W. G. Cochran, Sampling Techniques,
    3rd edition, Wiley 1977, section 8.11).

    >>> variance_in_order(np.array([1.0, 1.0, 1.0, 3.0, 3.0, 3.0]))  # one border: (6/5) 2 / 12²
    0.016666666666666666
    """
    if w.size < 2:
        return math.nan
    steps = np.diff(w)
    return 0.5 * w.size / (w.size - 1.0) * float(steps @ steps) / float(w.sum()) ** 2


def _excess(w: Array, sign: float) -> float:
    """The mean of the outermost weights at one end beyond the next one."""
    top = np.sort(sign * w)[-_OUTERMOST - 1 :]
    return float(top[1:].mean() - top[0])


def incremental(tilt: Array, step: float) -> Weights:
    """Weights exp(step · tilt), up to a factor."""
    highest = tilt.max()
    return Weights(step * (tilt - highest) if highest > -np.inf else tilt)


def pareto_shape(log_weights: ArrayLike, n: int | None = None) -> float:
    """Shape k of the generalised Pareto tail of n weights, from the largest ones, sorted.

    An average of n such weights behaves as its variance says while k < min(1 - 1/log10 n, 0.7)
    (Vehtari et al. 2024; the fit is Zhang and Stephens' of 2009).

    >>> rng = np.random.default_rng(0)
    >>> round(pareto_shape(np.sort(rng.standard_exponential(10_000) / 2)), 1)  # weights U^(-1/2)
    0.5
    """
    log_weights = np.asarray(log_weights, dtype=float)
    n = log_weights.size if n is None else n
    size = int(min(0.2 * n, 3.0 * np.sqrt(n), len(log_weights) - 1))
    tail = log_weights[-size - 1 :]
    if tail[-1] == -np.inf:  # as pareto_fit has it where most are zero
        return np.inf
    if tail[-1] - tail[0] < 1e-8:
        return -np.inf
    return pareto_fit(np.exp(tail[1:] - tail[-1]) - np.exp(tail[0] - tail[-1]))[0]


def pareto_fit(x: Array) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution; from excesses x > 0, sorted.

    The shape is drawn to 1/2, as ten more observations would do it; inf where most are zero.
    """
    size = x.size
    quartile = x[int(size / 4 + 0.5) - 1]
    if quartile < 1e-200:
        return np.inf, np.nan
    grid = 30 + int(np.sqrt(size))
    b = 1.0 / x[-1] + (1.0 - np.sqrt(grid / (np.arange(grid) + 0.5))) / (3.0 * quartile)
    shape = np.mean(np.log1p(-b[:, None] * x), axis=1)
    profile = size * (np.log(-b / shape) - shape - 1.0)
    posterior = np.exp(profile - np.max(profile))
    b = np.sum(b * posterior) / np.sum(posterior)
    shape = np.mean(np.log1p(-b * x))
    return float((size * shape + 5.0) / (size + 10.0)), float(-shape / b)
