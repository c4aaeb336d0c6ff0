r"""Bridge sampling: the ratio of a normaliser to another from draws of both densities.

Given draws of the posterior q/Z and of a normalised proposal g, with u = log q - log g and
weights :math:`s_1, s_2` proportional to the effective numbers of draws, log Z = λ solves

.. math:: \frac1{n_2} \sum_{x \sim g} \frac{e^{u - \lambda}}{s_1 e^{u - \lambda} + s_2}
          = \frac1{n_1} \sum_{x \sim q} \frac{1}{s_1 e^{u - \lambda} + s_2},

Meng and Wong's optimal bridge. The left side falls with λ and the right side rises, so there is
one solution. What is averaged is bounded by 1/s₁ and 1/s₂: unlike importance weights it has a
variance, whatever the tails. To first order log Z has the sum of both sides' relative variances;
that of the right side takes the autocorrelation of its draws into account.

References
----------
X.-L. Meng and W. H. Wong, Statistica Sinica 6 (1996) 831 (the estimate); S. Frühwirth-Schnatter,
Econometrics Journal 7 (2004) 143 (its error with correlated draws).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from ..numerics.arrays import Array
from .diagnostics import ess
from .weights import pareto_shape


class Bridge(NamedTuple):
    """log Z, and what both sides contribute to its variance."""

    logz: float
    variance_draws: float
    variance_proposal: float
    at_draws: Array
    """What is averaged over the draws, (chains, draws), of mean one"""
    at_proposal: Array
    """What is averaged over the proposal, of mean one"""
    share: float
    """s₁, the draws' share of all effective draws"""
    overlap: float
    """∫ p g / (s₁ p + s₂ g): one where posterior and proposal are the same, zero where apart"""

    @property
    def se(self) -> float:
        """Standard error of log Z."""
        return math.sqrt(self.variance_draws + self.variance_proposal)

    @property
    def ess(self) -> float:
        """Effective number of the draws' side."""
        return float(effective(self.at_draws))

    @property
    def sides(self) -> tuple[Array, Array]:
        """What is averaged, of mean one, for each side."""
        return self.at_draws, self.at_proposal

    @property
    def shapes(self) -> tuple[float, float]:
        """Pareto's k of what is averaged over the draws, and over the proposal."""
        one, two = (np.sort(side[side > 0.0], axis=None) for side in self.sides)
        return tuple(pareto_shape(np.log(side)) for side in (one, two))  # type: ignore[return-value]

    @property
    def fewest(self) -> float:
        """Values that make the average of the side where they are fewer."""
        return min(side.size / float(np.mean(side**2)) for side in self.sides)

    @property
    def shape(self) -> float:
        """The larger one, of sides where few values make the average; -inf if there are none."""
        uneven = 2.0  # mean square of values of mean one, below which none of them matters
        pairs = zip(self.sides, self.shapes, strict=True)
        return max((k for side, k in pairs if np.mean(side**2) > uneven), default=-np.inf)


def bridge(at_draws: Array, at_proposal: Array, n_effective: float, rounds: int = 2) -> Bridge:
    """The optimal bridge, from u at draws (chains, draws) and at independent proposals (n,).

    ``n_effective`` is a first guess of what the draws are worth; of ``rounds`` further ones
    learn it from the bridge itself.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.standard_normal((4, 500)), 1.5 * rng.standard_normal(2000)
    >>> def u(x):  # log of exp(-x²/2) over N(x; 0, 1.5²)
    ...     return -0.5 * x**2 * (1 - 1 / 1.5**2) + np.log(1.5) + 0.5 * np.log(2 * np.pi)
    >>> answer = bridge(u(x), u(y), 2000.0)
    >>> bool(abs(answer.logz - 0.919) < 3 * answer.se), round(answer.se, 3)
    (True, 0.008)
    """
    for _ in range(rounds):
        share = n_effective / (n_effective + at_proposal.size)
        logz = _solve(at_draws, at_proposal, share)
        left = _terms(at_proposal - logz, share) + at_proposal - logz
        right = _terms(at_draws - logz, share)
        left_mean, right_mean = _log_mean(left), _log_mean(right)
        f_proposal, f_draws = np.exp(left - left_mean), np.exp(right - right_mean)
        n_effective = effective(f_draws)
    return Bridge(
        float(logz), f_draws.var() / n_effective, f_proposal.var() / f_proposal.size,
        f_draws, f_proposal, share, float(np.exp(right_mean)),
    )  # fmt: skip


def terms(u: Array, share: float) -> Array:
    """What is averaged over draws where log q - log g - log Z is u."""
    return np.exp(_terms(u, share))


def variance(u: Array, n_draws: float, n_proposal: float) -> float:
    r"""Variance of log Z with so many independent draws of both, from u less log Z at draws.

    .. math:: \Big(\frac1{n_1} + \frac1{n_2}\Big) \Big(\frac1I - 1\Big),\qquad
              I = \int \frac{p g}{s_1 p + s_2 g}
    """
    overlap = terms(u, n_draws / (n_draws + n_proposal)).mean()
    return max((1.0 / n_draws + 1.0 / n_proposal) * (1.0 / float(overlap) - 1.0), 0.0)


def effective(values: Array) -> float:
    """Effective number of draws (chains, draws); all of them where they never differ."""
    n = float(ess(values))
    return n if n > 0.0 else float(values.size)


def disagreement(of: Bridge, draws: Array, proposal: Array) -> Array:
    r"""How many standard errors apart draws and proposals see the mean of each test function.

    Weighted with what is averaged both are draws of :math:`p g / (s_1 p + s_2 g)`; if draws and
    log density do not belong to each other they are not. ``draws`` (chains, draws, functions)
    and ``proposal`` (n, functions) are the functions' values.
    """
    f, h = of.at_draws[..., None], of.at_proposal[:, None]
    mean_draws, mean_proposal = (f * draws).mean(axis=(0, 1)), (h * proposal).mean(axis=0)
    influence = f * (draws - mean_draws)
    worth = np.nan_to_num(ess(influence), nan=of.at_draws.size)
    variance = influence.var(axis=(0, 1)) / worth
    variance += (h * (proposal - mean_proposal)).var(axis=0) / len(proposal)
    gap = mean_draws - mean_proposal
    return np.divide(gap, np.sqrt(variance), out=np.zeros_like(gap), where=variance > 0.0)


def _solve(at_draws: Array, at_proposal: Array, share: float, *, digits: float = 1e-10) -> float:
    """``digits``: of log Z."""

    def excess(logz: float) -> float:
        u = at_proposal - logz
        return _log_mean(_terms(u, share) + u) - _log_mean(_terms(at_draws - logz, share))

    seen = np.concatenate([at_draws.ravel(), at_proposal[at_proposal > -np.inf]])
    low, high = seen.min() - 1.0, seen.max() + 1.0
    while excess(low) < 0.0:
        low -= 2.0 * (high - low)
    while excess(high) > 0.0:
        high += 2.0 * (high - low)
    return float(brentq(excess, low, high, xtol=digits))


def _terms(u: Array, share: float) -> Array:
    """log of 1/(s₁ exp u + s₂)."""
    return -np.logaddexp(math.log(share) + u, math.log1p(-share))


def _log_mean(values: Array) -> float:
    return float(logsumexp(values) - np.log(values.size))
