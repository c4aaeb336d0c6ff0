"""log p(y | hyperparameters) of small latent Gaussian models: closed forms and quadrature.

Nothing here comes from the package that these numbers judge. All functions take a batch of
hyperparameters, each (T,), and what may be large is never subtracted: least squares are by
orthogonal factors, ratios of Gamma functions by sums or series.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import gammaln, log_expit

Array = np.ndarray
Marginal = Callable[..., Array]

LOG_2PI = float(np.log(2.0 * np.pi))
JITTER = 1e-6  # that kernels of GPModel have on their diagonal, relative to it
_BISECTIONS, _ENDS = 34, 16
_DROP = 40.0  # logs at the ends of an integral
_WIDEST = 9.0  # standard deviations of a group's effect
_LADDER = np.array([1.0, 3.0, 10.0, 40.0])  # breaks about the middle of a peak, in its widths


# -- normal noise ------------------------------------------------------------------------------


def one_factor(y: Array, columns: Array, sd: Array, g: Array) -> Marginal:
    """Of (sd of groups, noise): ``y = X β + b_g + e``, β ~ N(0, sd²), X = 1 and at most one more.

    Means of groups times √n are independent of what is within groups, which all of b leaves alone.
    """
    n = np.bincount(g).astype(float)
    mean = np.stack([np.bincount(g, v) / n for v in (*columns.T, y)])
    inside = np.stack([*columns.T, y]) - mean[:, g]
    root = np.sqrt(n)
    rows, target = [root * m for m in mean[:-1]], root * mean[-1]
    rest, free = inside[-1], y.size - n.size
    if columns.shape[1] == 2:
        x = inside[1] / np.linalg.norm(inside[1])
        rows = [np.r_[rows[0], 0.0], np.r_[rows[1], np.linalg.norm(inside[1])]]
        target, free = np.r_[target, x @ rest], free - 1
        rest = rest - x * (x @ rest)
    square = rest @ rest
    seen = np.r_[n, np.zeros(target.size - n.size)]

    def marginal(tau: Array, s: Array) -> Array:
        v = seen * tau[:, None] ** 2 + s[:, None] ** 2
        inner = -0.5 * free * (LOG_2PI + 2.0 * np.log(s)) - 0.5 * square / s**2
        size = -0.5 * (LOG_2PI + np.log(v)).sum(axis=1)
        w, k = 1.0 / np.sqrt(v), len(rows)
        own = np.eye(k)
        A = [
            np.hstack([w * r, np.tile(e / sd, (len(s), 1))])
            for r, e in zip(rows, own, strict=True)
        ]
        b = np.hstack([w * target, np.zeros((len(s), k))])
        log_det = np.full(len(s), np.log(sd).sum())
        for j in range(k):  # Gram and Schmidt, modified
            length = np.linalg.norm(A[j], axis=1, keepdims=True)
            q, log_det = A[j] / length, log_det + np.log(length[:, 0])
            b = b - q * (q * b).sum(axis=1, keepdims=True)
            A[j + 1 :] = [a - q * (q * a).sum(axis=1, keepdims=True) for a in A[j + 1 :]]
        return inner + size - log_det - 0.5 * (b**2).sum(axis=1)

    return marginal


def factors(y: Array, sd: float, *codes: Array) -> Marginal:
    """Of (sd of each factor, noise): an intercept, and crossed or nested factors, or designs.

    With columns Z, scales D and ``[Z, y] = Q R`` the posterior mode is the least squares of
    ``[R D / s; I]``, whose orthogonal factor has both the determinant and the sum of squares.
    """
    levels = [c if c.ndim == 2 else np.eye(c.max() + 1)[c] for c in codes]
    R = np.linalg.qr(np.hstack([np.ones((y.size, 1)), *levels, y[:, None]]), mode="r")
    p = R.shape[1] - 1
    owner = np.repeat(np.arange(len(codes)), [z.shape[1] for z in levels])

    def marginal(*theta: Array) -> Array:
        s = theta[-1]
        scale = np.stack([np.full(s.size, sd), *(theta[i] for i in owner)], axis=1)
        both = np.zeros((s.size, len(R) + p, p + 1))
        both[:, : len(R)] = R / s[:, None, None]
        both[:, : len(R), :p] *= scale[:, None]
        both[:, len(R) :, :p] = np.eye(p)
        diagonal = np.diagonal(np.linalg.qr(both, mode="r"), axis1=1, axis2=2)
        log_det = np.log(np.abs(diagonal[:, :p])).sum(axis=1) + y.size * np.log(s)
        return -0.5 * (y.size * LOG_2PI + diagonal[:, p] ** 2) - log_det

    return marginal


def gaussian_process(x: Array, y: Array, nu: float) -> Marginal:
    """Of (variance, length scale, noise) with a Matérn kernel; RBF for infinite nu."""
    apart = np.abs(x[:, None] - x)

    def marginal(variance: Array, length: Array, s: Array) -> Array:
        r = apart / length[:, None, None]
        if nu == np.inf:
            K = np.exp(-0.5 * r**2)
        else:
            r = np.sqrt(2.0 * nu) * r
            K = {0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + r**2 / 3.0}[nu] * np.exp(-r)
        own = JITTER + s**2 / variance
        L = np.linalg.cholesky(K + own[:, None, None] * np.eye(y.size))
        z = np.linalg.solve(L, np.broadcast_to(y[:, None], (len(L), y.size, 1)))[..., 0]
        log_det = np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
        size = y.size * (LOG_2PI + np.log(variance))
        return -0.5 * ((z**2).sum(axis=1) / variance + size) - log_det

    return marginal


# -- likelihoods of a level b, batches (T, 1), summed over data --------------------------------


def gamma_ratio(a: Array) -> Array:
    """log Γ(a + ½) - log Γ(a), without the difference where a is large."""
    large = np.maximum(a, 1e3)
    series = 0.5 * np.log(large) - 0.125 / large + 1.0 / (192.0 * large**3)
    return np.where(
        a < 1e3, gammaln(np.minimum(a, 1e3) + 0.5) - gammaln(np.minimum(a, 1e3)), series
    )


def student(y: Array, b: Array, df: Array, s: Array) -> Array:
    peak = gamma_ratio(0.5 * df) - 0.5 * np.log(np.pi * df) - np.log(s)
    z = (y - b[:, None]) / s[:, None]
    tail = np.log1p(z**2 / df[:, None]).sum(axis=1)
    return y.size * peak - 0.5 * (df + 1.0) * tail


def gamma(y: Array, b: Array, shape: Array) -> Array:
    """With mean exp(b)."""
    small, large = np.minimum(shape, 1e3), np.maximum(shape, 1e3)
    series = 0.5 * np.log(large / (2.0 * np.pi)) - 1.0 / (12.0 * large) + 1.0 / (360.0 * large**3)
    peak = np.where(shape < 1e3, small * np.log(small) - small - gammaln(small), series)
    d = np.log(y) - b[:, None]
    return y.size * peak - np.log(y).sum() - shape * (np.expm1(d) - d).sum(axis=1)


def ordinal(y: Array, b: Array, *gaps: Array) -> Array:
    """Categories 0, 1, …; cutpoints 0, gap 1, gap 1 + gap 2, …"""
    cut = [np.zeros_like(b)]
    for gap in gaps:
        cut.append(cut[-1] + gap)
    n = np.bincount(y, minlength=len(cut) + 1)
    total = n[0] * log_expit(cut[0] - b) + n[-1] * log_expit(b - cut[-1])
    for k, gap in enumerate(gaps):
        inside = log_expit(cut[k + 1] - b) + log_expit(b - cut[k]) + np.log(-np.expm1(-gap))
        total = total + n[k + 1] * inside
    return total


def dispersed(y: Array, r: Array) -> Array:
    """The part of the negative binomial without b: Σ log Γ(r + y)/(Γ(r) r^y y!)."""
    above = np.array([(y > j).sum() for j in range(int(y.max(initial=0)))])
    return np.log1p(np.arange(above.size) / r[:, None]) @ above - gammaln(y + 1.0).sum()


class Counts:
    """Σ over rows of one group of log p(y | b), less what b leaves alone, and its slope.

    Groups are the same in all that matters where they have the same rows n and sum S.
    """

    def __init__(self, family: str, n: Array, S: Array, r: Any = None) -> None:
        self.family, self.n, self.S, self.r = family, n, S, r

    def value(self, b: Array) -> Array:
        if self.family == "poisson":
            return self.S * b - self.n * np.exp(b)
        if self.family == "bernoulli":
            return self.S * log_expit(b) + (self.n - self.S) * log_expit(-b)
        return self.S * b - (self.n * self.r + self.S) * np.logaddexp(0.0, b - np.log(self.r))

    def slope(self, b: Array) -> Array:
        if self.family == "poisson":
            return self.S - self.n * np.exp(b)
        shift = 0.0 if self.family == "bernoulli" else np.log(self.r)
        most = self.n if self.family == "bernoulli" else self.n * self.r + self.S
        return self.S - most / (1.0 + np.exp(shift - b))


# -- effects of groups, by quadrature -----------------------------------------------------------


def count_groups(family: str, y: Array, g: Array, order: int) -> Marginal:
    """Of (level m, sd of groups[, dispersion]): a product of integrals with one peak each."""
    n = np.bincount(g).astype(float)
    S = np.bincount(g, y, n.size)
    (n, S), times = np.unique(np.stack([n, S]), axis=1, return_counts=True)
    t, w = leggauss(order)
    t, w = 0.5 * (t + 1.0), 0.5 * w

    def marginal(m: Array, tau: Array, *r: Array) -> Array:
        own = Counts(family, n, S, *(v[:, None] for v in r))
        m, tau = m[:, None], tau[:, None]

        def log_p(d: Array) -> Array:
            return own.value(m + d) - 0.5 * (d / tau) ** 2

        d = _mode(own, m, tau)
        top, total = log_p(d), np.zeros(np.broadcast_shapes(m.shape, n.shape))
        for side in (-1.0, 1.0):
            low, high = np.full_like(total, -60.0), np.zeros_like(total)
            for _ in range(_ENDS):
                middle = 0.5 * (low + high)
                far = log_p(d + side * _WIDEST * tau * np.exp(middle)) < top - _DROP
                low, high = np.where(far, low, middle), np.where(far, middle, high)
            reach = _WIDEST * tau * np.exp(high)
            for node, weight in zip(t, w, strict=True):  # squared, they are dense at the peak
                # nothing is above a mode but by rounding, of 1e17 nats where all fails
                at = np.minimum(log_p(d + side * reach * node**2) - top, 0.0)
                total += 2.0 * node * weight * reach * np.exp(at)
        each = top + np.log(total) - np.log(tau) - 0.5 * LOG_2PI
        if family == "poisson":
            rest: Any = -gammaln(y + 1.0).sum()
        else:
            rest = dispersed(y, r[0]) if r else 0.0
        return each @ times + rest

    return marginal


def _mode(own: Counts, m: Array, tau: Array) -> Array:
    """Of log p(y | m + d) - d²/(2 tau²), between 0 and tau² times the slope at m, which falls."""
    up = own.slope(m)
    low = np.zeros(np.broadcast_shapes(up.shape, tau.shape))
    high = np.arcsinh(np.minimum(tau**2 * np.abs(up), 1e300)) + low
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        d = np.sign(up) * np.sinh(middle)
        short = np.sign(up) * (own.slope(m + d) - d / tau**2) > 0.0
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.sign(up) * np.sinh(low)


def student_groups(y: Array, g: Array, df: float, order: int) -> Marginal:
    """Of (level m, sd of groups, scale): peaks may be at the prior's and at every datum."""
    t, w = leggauss(order)
    peak = float(gamma_ratio(np.array(0.5 * df))) - 0.5 * np.log(np.pi * df)
    steps = np.r_[-_LADDER[::-1], 0.0, _LADDER]

    def marginal(m: Array, tau: Array, s: Array) -> Array:
        total = np.zeros(m.size)
        for group in range(g.max() + 1):
            away = y[g == group] - m[:, None]
            about = away[..., None] + s[:, None, None] * steps
            breaks = np.hstack([tau[:, None] * steps, about.reshape(m.size, -1)])
            breaks = np.sort(breaks, axis=1)
            half = 0.5 * np.diff(breaks, axis=1)[..., None]
            d = (breaks[:, :-1, None] + half * (t + 1.0)).reshape(m.size, -1)
            spread = np.ones_like(d)
            for a in away.T:
                spread *= 1.0 + ((d - a[:, None]) / s[:, None]) ** 2 / df
            log_p = -0.5 * (df + 1.0) * np.log(spread) - 0.5 * (d / tau[:, None]) ** 2
            top = log_p.max(axis=1, keepdims=True)
            mass = (np.exp(log_p - top) * (half * w).reshape(m.size, -1)).sum(axis=1)
            total += top[:, 0] + np.log(mass) - np.log(tau) - 0.5 * LOG_2PI
        return total + y.size * (peak - np.log(s))

    return marginal
