"""Averages of estimates of Z with their error bars, and how well Markov chains mix.

The functions on chains take x of shape (chains, draws, ...) and give one number per coordinate,
of shape (...). A coordinate that never moves, that holds values that are not finite, or that has
fewer than 4 draws tells nothing about mixing: its answer is NaN.

References
----------
Geyer (1992), Practical Markov chain Monte Carlo, Statistical Science 7, 473–483.

Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021), Rank-normalization, folding, and
localization: an improved R̂ for assessing convergence of MCMC, Bayesian Analysis 16, 667–718.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

from ..messages import InputError, Message
from ..numerics.arrays import Array

_BLOCK = 2**19  # draws worked on at a time: 4 MB, about what the processor's cache holds
_NARROWEST = 8  # coordinates in a block at least: a cache line of the strided source
FEWEST = 4  # draws that say anything about mixing


class LogMean(NamedTuple):
    """log of a mean of positive estimates, its standard error, and how uneven they were."""

    value: float
    se: float
    relative_sd: float
    largest_share: float


def log_mean(log_values: ArrayLike) -> LogMean:
    r"""``log mean exp`` of independent log estimates with a delta-method standard error.

    Each :math:`\hat Z_i` is unbiased for Z, so :math:`\hat Z_i` are averaged, not their logs.
    The error bar is the standard error of the mean in relative terms; with one estimate it is
    NaN. Where it is large, :func:`widened` makes it larger.

    >>> estimate = log_mean([0.0, 0.1, -0.1, 0.05])
    >>> round(estimate.value, 4), round(estimate.se, 4)
    (0.0152, 0.042)
    >>> round(log_mean([0.0, 10.0, -10.0, 5.0]).se)
    29
    """
    log_values = np.asarray(log_values, dtype=float)
    k = log_values.size
    peak = log_values.max()
    if not np.isfinite(peak):
        return LogMean(float(peak), np.nan, np.nan, 1.0)
    z = np.exp(log_values - peak)
    mean = z.mean()
    value = float(peak + np.log(mean))
    relative_sd = float(z.std(ddof=1) / mean) if k > 1 else np.nan
    se = widened(relative_sd / math.sqrt(k), value, log_values)
    return LogMean(value, se, relative_sd, float(z.max() / z.sum()))


def widened(se: float, value: float, log_values: Array, meaningful: float = 0.5) -> float:
    r"""The error bar of ``value``, the log of a mean, from the mean's relative standard error.

    The two are the same while the latter is small, but it never exceeds one, however far apart
    the logarithms are: a single estimate then outweighs all others, and the mean falls short of
    Z by nobody knows how much. Where it is above ``meaningful``, the
    distance to what a lognormal :math:`\hat Z` would have had for its mean, from the mean of the
    logarithms and half their variance, is part of the error bar.
    """
    if not se > meaningful:
        return se
    finite = log_values[np.isfinite(log_values)]
    lognormal = finite.mean() + 0.5 * finite.var(ddof=min(1, finite.size - 1))
    return math.hypot(se, lognormal - value)


def autocorrelation(x: ArrayLike) -> Array:
    r"""The autocorrelation that :func:`ess` sums: all chains together, shape (draws, ...).

    .. math:: \rho_t = 1 - \Big(W - \frac1m \sum_{j=1}^m c_{jt}\Big) \Big/ \hat v,
              \qquad \hat v = \frac{n-1}n W + \frac Bn

    with W the mean variance within the m chains of n draws and B/n the variance of their means
    (left out for one chain). Chains that disagree keep it from falling to zero.

    >>> np.round(autocorrelation([[1.0, -1.0, 1.0, -1.0, 1.0]]), 2)
    array([ 1.  , -1.05,  0.32, -0.65, -0.12])
    """
    return _where_it_moves(lambda z: _rho(z).T, x, lead=np.shape(x)[1:2])


def ess(x: ArrayLike) -> Array:
    r"""Effective sample size of the mean, from Geyer's initial monotone sequence.

    .. math:: S_{\rm eff} = \frac{S}{-1 + 2 \sum_{k<K} P_k + \rho_{2K}},
              \qquad P_k = \min_{l \le k} (\rho_{2l} + \rho_{2l+1})

    with S draws in all chains, ρ from :func:`autocorrelation` and K the first pair whose sum is
    not positive. The chains are taken whole. Antithetic chains may exceed S; like Stan, by a
    factor of :math:`\log_{10} S` at most.

    >>> rng = np.random.default_rng(0)
    >>> ess(rng.standard_normal((4, 1000, 3))).round()
    array([3847., 4028., 3631.])
    """
    return _where_it_moves(_geyer, x)


def ess_bulk(x: ArrayLike) -> Array:
    """Effective sample size in the bulk: that of the normal scores of all ranks, chains split.

    Exists for heavy tails too, and does not change under monotone transformations of x.

    >>> rng = np.random.default_rng(0)
    >>> ess_bulk(rng.standard_cauchy((4, 1000))).round()
    np.float64(3744.0)
    """
    return _where_it_moves(lambda z: _geyer(_normal_scores(_split(z))), x)


def ess_tail(x: ArrayLike) -> Array:
    """Effective sample size in the tails: the smaller of those of the 5 % and 95 % quantiles.

    >>> rng = np.random.default_rng(0)
    >>> ess_tail(rng.standard_normal((4, 1000))).round()
    np.float64(4028.0)
    """

    def smaller(z: Array) -> Array:
        low, high = (
            _geyer(_split((z <= q[:, None, None]).astype(float)))
            for q in np.quantile(z, (0.05, 0.95), axis=(1, 2))
        )
        return np.fmin(low, high)  # ties may leave nothing beyond one of the quantiles

    return _where_it_moves(smaller, x)


def rhat(x: ArrayLike) -> Array:
    r"""Rank-normalised split R̂, the larger of bulk (ranks of x) and tail (of ``|x − median|``).

    .. math:: \hat R = \sqrt{\hat v / W}

    with W and v̂ as in :func:`autocorrelation`, over halves of chains: one chain has an R̂ too.
    Below 1.01 the chains agree; chains frozen in different places have an enormous one.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((4, 1000))
    >>> rhat(x).round(2), rhat(x + [[0], [0], [0], [2]]).round(1)
    (np.float64(1.0), np.float64(1.3))
    """

    def larger(z: Array) -> Array:
        z = _split(z)
        folded = np.abs(z - np.median(z, axis=(1, 2), keepdims=True))
        return np.fmax(_split_rhat(_normal_scores(z)), _split_rhat(_normal_scores(folded)))

    return _where_it_moves(larger, x)


def by_coordinate(statistic: Callable[[Array], Array], x: ArrayLike) -> Array:
    """Apply a statistic of blocks, (B, chains, draws) → (..., B), to x (chains, draws, ...).

    A few coordinates at a time are copied with their draws side by side, so that the working
    memory stays at some tens of megabytes however many coordinates there are.

    >>> by_coordinate(lambda z: z.mean(axis=(1, 2)), np.arange(12.0).reshape(1, 4, 3))
    array([4.5, 5.5, 6.5])
    """
    x = np.asarray(x)
    if x.ndim < 2 or 0 in x.shape:
        raise InputError(f"x must have shape (chains, draws, ...) without zeros, got {x.shape}")
    chains, draws, *shape = x.shape
    flat = x.reshape(chains, draws, -1)
    width = max(_NARROWEST, _BLOCK // (chains * draws))
    blocks = (flat[..., i : i + width] for i in range(0, flat.shape[2], width))
    with np.errstate(all="ignore"):  # what is not finite ends as NaN or inf, and says so
        done = [statistic(np.array(b.transpose(2, 0, 1), float, order="C")) for b in blocks]
    joined = np.concatenate(done, axis=-1)
    return joined.reshape((*joined.shape[:-1], *shape))[()]


def _where_it_moves(
    statistic: Callable[[Array], Array], x: ArrayLike, lead: tuple[int, ...] = ()
) -> Array:
    """Apply a statistic to the coordinates that have one; NaN for the others."""

    def guarded(z: Array) -> Array:
        answer = np.full((*lead, len(z)), np.nan)
        spread = np.ptp(z, axis=(1, 2))
        moves = (spread > 0.0) & (spread < np.inf)
        if z.shape[2] >= FEWEST and moves.any():
            answer[..., moves] = statistic(z[moves])
        return answer

    return by_coordinate(guarded, x)


def _split(z: Array) -> Array:
    half = z.shape[2] // 2
    return np.concatenate([z[..., :half], z[..., -half:]], axis=1)


def _rho(z: Array) -> Array:
    """Autocorrelation of all chains together: (B, chains, draws) → (B, draws)."""
    m, n = z.shape[1:]
    padded = next_fast_len(2 * n, real=True)  # so that lags do not wrap around
    spectrum = rfft(z - z.mean(axis=2, keepdims=True), padded, axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)  # one way back for all chains
    c = irfft(power, padded, axis=1)[:, :n] / n
    within = c[:, 0] * n / (n - 1)
    total = c[:, 0] + (z.mean(axis=2).var(axis=1, ddof=1) if m > 1 else 0.0)
    rho = 1.0 - (within[:, None] - c) / total[:, None]
    rho[:, 0] = 1.0
    return rho


def _geyer(z: Array) -> Array:
    """Effective sample size: (B, chains, draws) → (B,)."""
    size = z.shape[1] * z.shape[2]
    rho = _rho(z)
    last = max((z.shape[2] - 3) // 2, 0)  # the last lags rest on a handful of products
    even = rho[:, 0 : 2 * last + 1 : 2]
    pairs = even + rho[:, 1 : 2 * last + 2 : 2]
    ended = pairs <= 0.0
    ended[:, last] = True
    stop = ended.argmax(axis=1)
    monotone = np.minimum.accumulate(pairs, axis=1)
    summed = np.where(np.arange(last + 1) < stop[:, None], monotone, 0.0).sum(axis=1)
    final = np.where((even > 0.0) | (pairs > 0.0), even, 0.0)[np.arange(len(z)), stop]
    tau = -1.0 + 2.0 * summed + final
    return size / np.maximum(tau, 1.0 / np.log10(size))


def _normal_scores(z: Array) -> Array:
    """Φ⁻¹((r − 3/8)/(S + 1/4)) of the ranks r among all draws of a coordinate, ties averaged."""
    from scipy.stats import rankdata  # a second to load, and no evidence needs it

    flat = z.reshape(len(z), -1)
    scores = ndtri((rankdata(flat, axis=1) - 0.375) / (flat.shape[1] + 0.25))
    return np.asarray(scores.reshape(z.shape), dtype=float)


def _split_rhat(z: Array) -> Array:
    n = z.shape[2]
    within = z.var(axis=2, ddof=1).mean(axis=1)
    means = z.mean(axis=2).var(axis=1, ddof=1)
    return np.sqrt((n - 1) / n + means / within)


def unmixed(x: ArrayLike, *, apart: float = 1.01, effective: int = 100) -> Iterator[Message]:
    """Whether chains agree and are long enough, by the limits of Vehtari et al. (2021).

    ``apart``: R-hat of chains that agree, at most; ``effective``: draws that each chain should be
    worth.
    """
    chains = len(np.asarray(x))
    r = float(np.fmax.reduce(np.ravel(rhat(x)), initial=np.nan))
    if r > apart:
        yield Message(
            "chains-disagree",
            f"the chains do not agree, R-hat is {r:.3g} where {apart} is the limit: more draws, "
            "a longer tune or another move are needed",
        )
    each = (np.ravel(worth(x)) for worth in (ess_bulk, ess_tail))
    bulk, tails = (float(np.fmin.reduce(sizes, initial=np.nan)) for sizes in each)
    if np.fmin(bulk, tails) < effective * chains:
        yield Message(
            "low-ess",
            f"draws of {chains} chains are worth {bulk:.0f} independent ones in the bulk and "
            f"{tails:.0f} in the tails (of the worst coordinate, by ranks), and should be worth "
            f"{effective * chains}: more draws are needed",
        )
