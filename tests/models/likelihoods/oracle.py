"""Independent truths at 30 to 40 digits: textbook log densities and brute-force integrals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import mpmath as mp
from mpmath.calculus.quadrature import GaussLegendre

LogDensity = Callable[[mp.mpf], mp.mpf]
_RULE = GaussLegendre(mp.mp)
_DEGREE = 4  # 24 Gauss-Legendre nodes a panel


def probit(y):
    def log_p(x):
        z = y * x
        tail = mp.erfc(abs(z) / mp.sqrt(2)) / 2
        return mp.log1p(-tail) if z > 0 else mp.log(tail)

    return log_p


def logit(y):
    def log_p(x):
        z = y * x
        return -mp.log1p(mp.exp(-z)) if z > 0 else z - mp.log1p(mp.exp(z))

    return log_p


def gaussian(y, noise_std=1.0):
    y, s = mp.mpf(y), mp.mpf(noise_std)
    return lambda x: -((y - x) ** 2) / (2 * s * s) - mp.log(2 * mp.pi * s * s) / 2


def student_t(y, df=4.0, scale=1.0):
    y, d, s = mp.mpf(y), mp.mpf(df), mp.mpf(scale)
    constant = mp.loggamma((d + 1) / 2) - mp.loggamma(d / 2) - mp.log(d * mp.pi * s * s) / 2
    return lambda x: constant - (d + 1) / 2 * mp.log1p((x - y) ** 2 / (d * s * s))


def poisson(y, exposure=1.0, offset=0.0):
    y, shift = mp.mpf(y), mp.log(mp.mpf(exposure)) + mp.mpf(offset)
    constant = mp.loggamma(y + 1)
    return lambda x: y * (x + shift) - mp.exp(x + shift) - constant


def negative_binomial(y, dispersion=1.0, exposure=1.0, offset=0.0):
    y, r = mp.mpf(y), mp.mpf(dispersion)
    shift = mp.log(mp.mpf(exposure)) + mp.mpf(offset) - mp.log(r)
    constant = mp.loggamma(r + y) - mp.loggamma(r) - mp.loggamma(y + 1)

    def log_p(x):
        eta = x + shift
        return constant - r * mp.log1p(mp.exp(eta)) - y * mp.log1p(mp.exp(-eta))

    return log_p


def binomial(y, n):
    y, n = mp.mpf(y), mp.mpf(n)
    constant = mp.loggamma(n + 1) - mp.loggamma(y + 1) - mp.loggamma(n - y + 1)
    return lambda x: constant - y * mp.log1p(mp.exp(-x)) - (n - y) * mp.log1p(mp.exp(x))


def cloglog(y):
    def log_p(x):
        u = mp.exp(x)
        return mp.log(-mp.expm1(-u)) if y > 0 else -u

    return log_p


def gamma(y, shape=1.0):
    y, k = mp.mpf(y), mp.mpf(shape)
    constant = k * mp.log(k) - mp.loggamma(k) + (k - 1) * mp.log(y)
    return lambda x: constant - k * x - k * y * mp.exp(-x)


def ordinal(y, gaps=(1.0,)):
    """P(y ≤ k) from the tail where it is small, then their difference at many digits."""
    cuts = [mp.mpf(0)]
    for gap in gaps:
        cuts.append(cuts[-1] + mp.mpf(gap))
    y = int(y)

    def log_p(x):
        with mp.workdps(mp.mp.dps + 60):
            if x > 0:  # P(y < k) of both cutpoints
                high = 1 / (1 + mp.exp(x - cuts[y])) if y < len(cuts) else mp.mpf(1)
                low = 1 / (1 + mp.exp(x - cuts[y - 1])) if y else mp.mpf(0)
                return mp.log(high - low)
            high = 1 / (1 + mp.exp(cuts[y - 1] - x)) if y else mp.mpf(1)
            low = 1 / (1 + mp.exp(cuts[y] - x)) if y < len(cuts) else mp.mpf(0)
            return mp.log(high - low)

    return log_p


def zero_inflated(y, zi, of=poisson):
    zero, counts, z = of(0), of(y), mp.mpf(zi)
    if y:
        return lambda x: mp.log1p(-z) + counts(x)
    return lambda x: mp.log(z + (1 - z) * mp.exp(zero(x)))


def hurdle(y, hu, of=poisson):
    zero, counts, h = of(0), of(y), mp.mpf(hu)

    def log_p(x):
        if not y:
            return mp.log(h)
        with mp.workdps(mp.mp.dps + 60):
            return mp.log1p(-h) + counts(x) - mp.log(-mp.expm1(zero(x)))

    return log_p


def _log_beta(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def beta(y, phi=1.0):
    y, phi = mp.mpf(y), mp.mpf(phi)

    def log_p(x):
        a, b = phi / (1 + mp.exp(-x)), phi / (1 + mp.exp(x))
        return (a - 1) * mp.log(y) + (b - 1) * mp.log1p(-y) - _log_beta(a, b)

    return log_p


def beta_binomial(y, n, phi=1.0):
    y, n, phi = mp.mpf(y), mp.mpf(n), mp.mpf(phi)
    ways = -mp.log(n + 1) - _log_beta(y + 1, n - y + 1)

    def log_p(x):
        with mp.workdps(mp.mp.dps + 40):
            a, b = phi / (1 + mp.exp(-x)), phi / (1 + mp.exp(x))
            return ways + _log_beta(a + y, b + n - y) - _log_beta(a, b)

    return log_p


def lognormal(y, sigma=1.0):
    of_log = gaussian(mp.log(mp.mpf(y)), sigma)
    return lambda x: of_log(x) - mp.log(mp.mpf(y))


def weibull(y, shape=1.0):
    y, k = mp.mpf(y), mp.mpf(shape)

    def log_p(x):
        z = k * (mp.log(y) - x + mp.loggamma(1 + 1 / k))
        return mp.log(k) - mp.log(y) + z - mp.exp(z)

    return log_p


def log_logistic(y, shape=2.0):
    y, k = mp.mpf(y), mp.mpf(shape)
    c = mp.log(mp.sin(mp.pi / k) * k / mp.pi)

    def log_p(x):
        z = abs(k * (mp.log(y) - x - c))
        return mp.log(k) - mp.log(y) - z - 2 * mp.log1p(mp.exp(-z))

    return log_p


def asymmetric_laplace(y, quantile=0.5, sigma=1.0):
    y, tau, s = mp.mpf(y), mp.mpf(quantile), mp.mpf(sigma)

    def log_p(x):
        u = (y - x) / s
        return mp.log(tau) + mp.log1p(-tau) - mp.log(s) - u * (tau - (1 if u < 0 else 0))

    return log_p


def derivatives(log_p: LogDensity, x: float) -> list[mp.mpf]:
    """The value and the first three derivatives at ``x``.

    Numerical differentiation leaves 1e-40 where a derivative vanishes; that becomes zero.
    """
    c = mp.taylor(log_p, mp.mpf(x), 3, chop=False)
    noise = abs(c[0]) * mp.mpf("1e-30")
    return [d if abs(d) > noise else mp.mpf(0) for d in (c[0], c[1], 2 * c[2], 6 * c[3])]


def tilted_cumulants(
    log_p: LogDensity, m: float, v: float, order: int, feature: float, scale: float = 1.0
) -> list[mp.mpf]:
    """log Z and the cumulants 1 … order of exp(log_p(x)) N(x; m, v).

    Panels grow geometrically around every local maximum reached from ``m`` and ``feature``,
    and around ``feature`` itself, where log_p changes over a length of order ``scale``.
    """
    m, v = mp.mpf(m), mp.mpf(v)

    def g(x):
        return log_p(x) - (x - m) ** 2 / (2 * v)

    peaks = [_climb(g, mp.mpf(start), mp.sqrt(v)) for start in (m, feature)]
    top = max(g(x) for x, _ in peaks)
    outer = []
    for sign in (-1, 1):
        at, step = sign * max(sign * x for x, _ in peaks), peaks[0][1]
        while g(at) > top - 85:
            at, step = at + sign * step, step * mp.mpf("1.3")
        outer.append(at)
    edges = set(outer)
    for x, width in [*peaks, (mp.mpf(feature), mp.mpf(scale))]:
        for sign in (-1, 1):
            at, step = x, width
            while outer[0] < at < outer[1]:
                edges.add(at)
                at, step = at + sign * step, step * mp.mpf("1.6")
    edges = sorted(edges)
    centre = max(peaks, key=lambda p: g(p[0]) + mp.log(p[1]))[0]
    raw = [mp.mpf(0)] * (order + 1)
    for a, b in pairwise(edges):
        if max(g(a), g(b), g((a + b) / 2)) < top - 200:
            continue
        for node, weight in _RULE.get_nodes(a, b, _DEGREE, mp.mp.prec):
            term = weight * mp.exp(g(node) - top)
            for k in range(order + 1):
                raw[k] += term
                term *= node - centre
    moments = [r / raw[0] for r in raw]
    kappa = [mp.mpf(0)] * (order + 1)
    for n in range(1, order + 1):
        kappa[n] = moments[n] - sum(
            mp.binomial(n - 1, k - 1) * kappa[k] * moments[n - k] for k in range(1, n)
        )
    kappa[1:2] = [k + centre for k in kappa[1:2]]
    kappa[0] = top + mp.log(raw[0]) - mp.log(2 * mp.pi * v) / 2
    return kappa


def _climb(g: LogDensity, start: mp.mpf, width: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """A local maximum of ``g`` (to a fraction of its width) and that width."""
    with mp.workdps(20):
        h = width / 1000
        step = h if g(start + h) > g(start) else -h
        lo, mid = start - step, start
        while g(mid + step) > g(mid):
            lo, mid, step = mid, mid + step, 2 * step
        hi = mid + step
        ratio = (mp.sqrt(5) - 1) / 2
        for _ in range(60):
            a, b = hi - ratio * (hi - lo), lo + ratio * (hi - lo)
            if g(a) > g(b):
                hi = b
            else:
                lo = a
        mode = (lo + hi) / 2
        w = width
        while g(mode + w) < g(mode) - 2 or g(mode - w) < g(mode) - 2:
            w /= 2
        return mode, w
