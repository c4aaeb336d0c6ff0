r"""What paths up and paths down say about log Z: bounds, and Bennett's acceptance ratio.

Forward log weights v have E exp v = Z, reverse ones u have E exp u = 1/Z
(:mod:`.annealing`). Jensen's inequality turns them into bounds, for every ladder and every
invariant move,

.. math:: E\,v \le \log Z \le -E\,u .

Where the way down is the time reversal of the way up, the densities of v on the way up and of
-u on the way down obey :math:`p_F(v)\,e^v = Z\,p_R(v)` (Crooks 1999), and of all their averages
the one with σ the logistic function and :math:`M = \log(n_F / n_R)`,

.. math:: \sum_{i=1}^{n_F} \sigma(v_i - \log Z - M) = \sum_{j=1}^{n_R} \sigma(u_j + \log Z + M)

has the least variance (Bennett 1976) and is the maximum likelihood estimate (Shirts et al.
2003). Time reversal means the same steps in opposite order, each of them reversible, as all of
:mod:`evidence.moves` are but ``gibbs``; the bounds need no such thing. Paths up that meet a
likelihood of zero have v = -∞; then E exp u is less than 1/Z, and all of this still holds.

References
----------
Bennett (1976), Efficient estimation of free energy differences from Monte Carlo data, Journal
of Computational Physics 22, 245–268.

Crooks (1999), Entropy production fluctuation theorem and the nonequilibrium work relation for
free energy differences, Physical Review E 60, 2721–2726.

Grosse, Ghahramani, Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte
Carlo, arXiv:1511.02543.

Shirts, Bair, Hooker, Pande (2003), Equilibrium free energies from nonequilibrium measurements
using maximum-likelihood methods, Physical Review Letters 91, 140601.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import log_expit, logsumexp

from ..messages import InputError
from ..numerics.arrays import Array
from ..statistics.diagnostics import LogMean, log_mean


class Bounds(NamedTuple):
    """Means of log weights, and logs of mean weights, with their standard errors.

    Attributes
    ----------
    lower : float
        mean of v: its expectation is at most log Z.
    upper : float
        mean of -u: its expectation is at least log Z.
    reverse : float
        -log mean exp u: an upper bound in expectation too.
    """

    lower: float
    lower_se: float
    upper: float
    upper_se: float
    reverse: float
    reverse_se: float


class Bennett(NamedTuple):
    """The estimate of log Z, its standard error, and whether the two ways agree.

    Attributes
    ----------
    gap : float
        Reverse minus forward log mean weight. Many error bars away from zero, the paths
        do not overlap and no error bar here is to be believed.
    """

    value: float
    se: float
    gap: float
    gap_se: float


def bounds(forward: ArrayLike, reverse: ArrayLike) -> Bounds:
    """Sandwich log Z between forward and reverse log weights.

    Weights are a vector, or (groups, n) where only groups are independent: chains that draws
    were taken from, for instance.

    >>> rng = np.random.default_rng(0)
    >>> v = 3.0 - 0.5 + rng.standard_normal(10_000)  # Gaussian work, log Z = 3
    >>> u = -3.0 - 0.5 + rng.standard_normal(5_000)
    >>> sandwich = bounds(v, u)
    >>> round(sandwich.lower, 1), round(sandwich.upper, 1)
    (2.5, 3.5)
    """
    v, u = _groups(forward), _groups(reverse)
    down = _log_mean(u)
    return Bounds(*_mean(v), *_mean(-u), -down.value, down.se)


def bennett(forward: ArrayLike, reverse: ArrayLike) -> Bennett:
    r"""Combine forward and reverse log weights by Bennett's acceptance ratio.

    With the root's :math:`c = \log Z + M` the estimate is
    :math:`c + \log\overline{\sigma(v - c)} - \log\overline{\sigma(u + c)}`, whose standard error
    is that of two independent log means; to first order it does not matter that c was estimated
    as well. Weights come in groups as for :func:`bounds`.

    >>> rng = np.random.default_rng(0)
    >>> v = 3.0 - 0.5 + rng.standard_normal(10_000)  # Gaussian work, log Z = 3
    >>> u = -3.0 - 0.5 + rng.standard_normal(5_000)
    >>> estimate = bennett(v, u)
    >>> abs(estimate.value - 3.0) < 3.0 * estimate.se < 0.06
    True
    """
    v, u = _groups(forward), _groups(reverse)
    up, down = _log_mean(v), _log_mean(u)
    gap, gap_se = -down.value - up.value, math.hypot(up.se, down.se)
    ends = np.concatenate([v[np.isfinite(v)], -u[np.isfinite(u)]])
    if not (np.isfinite(v).any() and np.isfinite(u).any()):
        return Bennett(math.nan, math.nan, gap, gap_se)

    def excess(c: float) -> float:
        """log Σ σ(v - c) - log Σ σ(u + c): decreasing, from +∞ to -∞."""
        return float(logsumexp(log_expit(v - c)) - logsumexp(log_expit(u + c)))

    pad = 1.0 + math.log(max(v.size, u.size))
    c = brentq(excess, ends.min() - pad, ends.max() + pad, xtol=1e-12, rtol=1e-14)
    left, right = _log_mean(log_expit(v - c)), _log_mean(log_expit(u + c))
    return Bennett(c + left.value - right.value, math.hypot(left.se, right.se), gap, gap_se)


def _groups(log_w: ArrayLike) -> Array:
    """Log weights as (independent groups, weights of a group)."""
    log_w = np.asarray(log_w, dtype=float)
    if log_w.ndim not in (1, 2) or log_w.size == 0:
        raise InputError(f"log weights must be a vector or (groups, n), got shape {log_w.shape}")
    return log_w.reshape(len(log_w), -1)


def _log_mean(groups: Array) -> LogMean:
    """With the error bar of the mean itself: how far off it may be, the other direction tells."""
    found = log_mean(logsumexp(groups, axis=1) - math.log(groups.shape[1]))
    return found._replace(se=found.relative_sd / math.sqrt(len(groups)))


def _mean(groups: Array) -> tuple[float, float]:
    each = groups.mean(axis=1)
    if each.size == 1 or not np.isfinite(each).all():
        return float(each.mean()), math.nan
    return float(each.mean()), float(each.std(ddof=1) / math.sqrt(each.size))
