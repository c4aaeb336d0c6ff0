r"""Resampling schemes: which particles survive.

Every scheme maps M weights to ``size`` ancestors (M of them by default), in ascending order,
such that particle i has on average :math:`\mathrm{size}\,w_i / \sum_j w_j` offspring: estimates
stay unbiased, and a weight of zero has none. They differ in the variance they add.

References
----------
R. Douc, O. Cappé and E. Moulines, Comparison of resampling schemes for particle filtering,
ISPA 2005, 64–69.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ancestors = NDArray[np.intp]


def systematic(weights: Array, rng: np.random.Generator, size: int | None = None) -> Ancestors:
    """Ancestors with expected counts proportional to ``weights``, from one uniform.

    Counts differ from their expectation by less than one; neighbours are as far apart as can
    be, so the order of the particles matters.

    >>> systematic(np.array([0.0, 1.0, 1.0, 2.0]), np.random.default_rng(0)).tolist()
    [1, 2, 3, 3]
    """
    m = weights.size if size is None else size
    cumulative = np.cumsum(weights)
    return _locate(cumulative, (np.arange(m) + rng.random()) * (cumulative[-1] / m))


def stratified(weights: Array, rng: np.random.Generator, size: int | None = None) -> Ancestors:
    """One independent uniform in each of ``size`` strata: counts within two of expectation.

    >>> stratified(np.array([0.0, 1.0, 1.0, 2.0]), np.random.default_rng(0)).tolist()
    [1, 2, 3, 3]
    """
    m = weights.size if size is None else size
    cumulative = np.cumsum(weights)
    return _locate(cumulative, (np.arange(m) + rng.random(m)) * (cumulative[-1] / m))


def residual(weights: Array, rng: np.random.Generator, size: int | None = None) -> Ancestors:
    """⌊size w_i / Σw⌋ copies for certain, and what is missing multinomially from the fractions.

    >>> residual(np.array([0.0, 1.0, 1.0, 2.0]), np.random.default_rng(0)).tolist()
    [1, 2, 3, 3]
    """
    m = weights.size if size is None else size
    expected = weights * (m / weights.sum())
    counts = np.floor(expected).astype(np.intp)
    missing = m - int(counts.sum())
    if missing > 0:
        counts += np.bincount(multinomial(expected - counts, rng, missing), minlength=weights.size)
    return np.repeat(np.arange(weights.size), counts)[:m]


def multinomial(weights: Array, rng: np.random.Generator, size: int | None = None) -> Ancestors:
    """Independent ancestors.

    >>> multinomial(np.array([0.0, 1.0, 0.0]), np.random.default_rng(0), 2).tolist()
    [1, 1]
    """
    m = weights.size if size is None else size
    cumulative = np.cumsum(weights)
    return _locate(cumulative, np.sort(rng.random(m)) * cumulative[-1])


def _locate(cumulative: Array, points: Array) -> Ancestors:
    """The particle in whose share of the total weight each point lies."""
    last = np.searchsorted(cumulative, cumulative[-1])  # the last one that has a share
    return np.minimum(np.searchsorted(cumulative, points, side="right"), last)


SCHEMES: dict[str, Callable[..., Ancestors]] = {
    "systematic": systematic,
    "stratified": stratified,
    "residual": residual,
    "multinomial": multinomial,
}


class Pool:
    """The weighted particles of one step: rounds of R, each for the islands that asked for it.

    Log weights come with their increment, and normalised before it: the sum of a round's weights
    is an estimate of the step's ratio of normalisers, and rounds are averaged.

    >>> pool = Pool(n_islands=2, n_particles=2)
    >>> pool.add(np.array([0, 1]), np.log([[0.5, 0.5], [0.9, 0.1]]))
    >>> pool.add(np.array([1]), np.log([[0.1, 0.5]]))
    >>> pool.ess.round(2).tolist(), np.exp(pool.log_ratio).round(2).tolist()
    ([2.0, 2.37], [1.0, 0.8])
    """

    def __init__(self, n_islands: int, n_particles: int) -> None:
        self.n_particles = n_particles
        self.rounds = np.zeros(n_islands, np.intp)
        self._batches: list[tuple[Ancestors, Array]] = []
        self._log_sum = np.full(n_islands, -np.inf)
        self._log_squares = np.full(n_islands, -np.inf)

    def add(self, islands: Ancestors, log_w: Array) -> None:
        """One round, log weights of shape (islands, R)."""
        self._batches.append((islands, log_w))
        self.rounds[islands] += 1
        peak = log_w.max(axis=1)
        peak[peak == -np.inf] = 0.0
        w = np.exp(log_w - peak[:, None])
        with np.errstate(divide="ignore"):  # an island without any weight
            log_sum, log_squares = np.log(w.sum(axis=1)), np.log(np.sum(w * w, axis=1))
        self._log_sum[islands] = np.logaddexp(self._log_sum[islands], log_sum + peak)
        squares = np.logaddexp(self._log_squares[islands], log_squares + 2.0 * peak)
        self._log_squares[islands] = squares

    @property
    def log_ratio(self) -> Array:
        """log of the mean over rounds: what is added to log Ẑ."""
        return self._log_sum - np.log(self.rounds)

    @property
    def ess(self) -> Array:
        """Effective sample size, all rounds together; zero where every weight is."""
        ess, alive = np.zeros(self.rounds.size), np.isfinite(self._log_sum)
        ess[alive] = np.exp(2.0 * self._log_sum[alive] - self._log_squares[alive])
        return ess

    @property
    def log_w(self) -> Array:
        """Normalised log weights of the first round, for islands that have no other."""
        total = np.where(np.isfinite(self._log_sum), self._log_sum, 0.0)
        return self._batches[0][1] - total[:, None]

    def resample(
        self, chosen: NDArray[np.bool_], scheme: str, rng: np.random.Generator
    ) -> Ancestors:
        """R rows per island, (G R,), of the rounds stacked in order; others keep their first."""
        g, m = self.rounds.size, self.n_particles
        rows = [[np.arange(i * m, (i + 1) * m)] for i in range(g)]
        weights = [[row] for row in self._batches[0][1]]
        start = g * m
        for islands, log_w in self._batches[1:]:
            for i, row in zip(islands, log_w, strict=True):
                rows[i].append(np.arange(start, start + m))
                weights[i].append(row)
                start += m
        index = np.empty((g, m), np.intp)
        for i in range(g):
            index[i] = rows[i][0]
            if chosen[i]:
                w = np.concatenate(weights[i])
                w = np.exp(w - w.max()) if w.max() > -np.inf else np.ones(w.size)
                index[i] = np.concatenate(rows[i])[SCHEMES[scheme](w, rng, m)]
        return index.ravel()
