"""The likelihoods under test, each with its oracle, typical data and the size of its terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from covering import seldom

from evidence.models.likelihoods import (
    AsymmetricLaplace,
    Beta,
    BetaBinomial,
    Binomial,
    Cloglog,
    Exponential,
    Gamma,
    Gaussian,
    Geometric,
    HurdleNegativeBinomial,
    HurdlePoisson,
    Likelihood,
    Logit,
    LogLogistic,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
    Weibull,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)

from . import oracle


class Case(NamedTuple):
    likelihood: Likelihood
    log_density: Callable  # y -> (x -> log p(y|x)) in mpmath
    ys: tuple[float, ...]
    terms: Callable  # (x, y) -> largest term in each of log p, l1, l2, l3; 0 where none cancels


def _none(x, y):
    return np.zeros(4)


def _gaussian_terms(s):
    def terms(x, y):
        return np.array([0.5 * ((y - x) / s) ** 2 + abs(np.log(s)) + 1, 0, 0, 0])

    return terms


def _student_terms(df, s):
    def terms(x, y):
        z = abs(x - y) / (s * df**0.5)
        h, a, w = 1 / (1 + z * z), df + 1, s * df**0.5
        return np.array([a * np.log1p(z * z) + 2 + abs(np.log(s)), 0, a / w**2 * h,
                         6 * a / w**3 * z * h**2])  # fmt: skip

    return terms


def _poisson_terms(x, y):
    return np.array([0, max(y, np.exp(min(x, 700.0))), 0, 0])


def _negative_binomial_terms(r):
    def terms(x, y):
        p = 1 / (1 + r * np.exp(-x))
        return np.array([0, max(y * (1 - p), r * p), 0, (r + y) * p * (1 - p)])

    return terms


def _binomial_terms(n):
    def terms(x, y):
        return np.array([0, max(y, n / (1 + np.exp(-x))), 0, 0])

    return terms


def _cloglog_terms(x, y):
    """The third derivative of log(1 - exp(-u)) vanishes near u = 2.6."""
    u = np.exp(min(x, 5.0))
    return np.array([0, 0, 0, u * u * np.exp(-u)])


def _gamma_terms(k):
    def terms(x, y):
        constants = k + abs(np.log(k)) + abs(np.log(y)) + 1
        return np.array([constants, k * max(1.0, y * np.exp(-x)), 0, 0])

    return terms


def _ordinal_terms(gaps):
    """Slopes vanish midway between two cutpoints, which are rounded themselves."""

    def terms(x, y):
        away = np.abs(x - np.cumsum([0.0, *gaps])[max(int(y) - 1, 0) : int(y) + 1])
        curvature = np.sum(np.exp(-away))
        return np.array([0, (1 + sum(gaps)) * curvature, 0, curvature])

    return terms


def _zeros_terms(counts, slope):
    """``slope``: that of log p_0(0|x), of which there are powers."""

    def terms(x, y):
        s = slope(min(x, 600.0))
        w = 1.0 if s < 700.0 else 0.0  # a power of a number beyond does not count
        small = np.array([2 + abs(x), 1, 1 + w * s**2 * np.exp(-s / 4), 1 + w * s**3])
        return small if y == 0 else np.add(counts(x, y), [abs(x) + 1, 1, 1, 1])

    return terms


def _share_terms(phi, n=0.0):
    def terms(x, y):
        p, size = 1 / (1 + np.exp(-x)), phi + n + 1.0
        log_y = abs(np.log(y)) + abs(np.log1p(-y)) if n == 0.0 else 0.0
        total = size * (np.log(size) + 1 + log_y)
        slopes = 1 + p * (1 - p) * total
        return np.array([total + 5, slopes, slopes, slopes])

    return terms


def _times_terms(k, power):
    def terms(x, y):
        z = k * (np.log(y) - x)
        size = k * (1 + abs(x) + abs(np.log(y)))
        high = np.exp(min(z, 600.0)) if power else 1.0
        v = np.exp(-min(abs(z), 700.0))
        constants = size + abs(np.log(k)) + abs(np.log(y)) + 1
        noise = 1e-12  # of differentiation, where nothing is left
        return np.array([size**2 if power is None else constants, k * size * high, noise,
                         noise if power else noise + k**2 * size * v])  # fmt: skip

    return terms


_REALS = (0.0, -2.5, 1e3, -1e3)
_COUNTS = (0.0, 1.0, 7.0, 1000.0, 1e6)

CASES = [
    Case(Probit(), oracle.probit, (-1.0, 1.0), _none),
    Case(Logit(), oracle.logit, (-1.0, 1.0), _none),
    *(
        Case(Gaussian(s), lambda y, s=s: oracle.gaussian(y, s), _REALS, _gaussian_terms(s))
        for s in (1.0, 0.01)
    ),
    *(
        Case(StudentT(d, s), lambda y, d=d, s=s: oracle.student_t(y, d, s), _REALS,
             _student_terms(d, s))
        for d, s in ((4.0, 1.0), (0.5, 0.01), (1e6, 2.0))
    ),
    Case(Poisson(), oracle.poisson, _COUNTS, _poisson_terms),
    *(
        Case(NegativeBinomial(r), lambda y, r=r: oracle.negative_binomial(y, r), _COUNTS,
             _negative_binomial_terms(r))
        for r in (1.0, 0.05, 1e6)
    ),
    *(
        Case(Binomial(n), lambda y, n=n: oracle.binomial(y, n), ys, _binomial_terms(n))
        for n, ys in ((1, (0.0, 1.0)), (50, (0.0, 1.0, 25.0, 50.0)),
                      (10**6, (0.0, 1.0, 7e3, 5e5, 999_999.0, 1e6)))
    ),
    Case(Cloglog(), oracle.cloglog, (-1.0, 1.0), _cloglog_terms),
    *(
        Case(Gamma(k), lambda y, k=k: oracle.gamma(y, k), (1e-6, 0.3, 1.0, 1e3), _gamma_terms(k))
        for k in (1.0, 0.05, 1e6)
    ),
    *(
        Case(Ordinal(gaps), lambda y, gaps=gaps: oracle.ordinal(y, gaps),
             tuple(np.arange(len(gaps) + 2.0)), _ordinal_terms(gaps))
        for gaps in ((), (1.0,), (0.5, 3.0, 1e-3), (20.0, 1e-8))
    ),
]  # fmt: skip
#: those whose kernels are functions of one point
POINTWISE = [
    Case(Geometric(), oracle.negative_binomial, _COUNTS, _negative_binomial_terms(1.0)),
    *(
        Case(make(share), lambda y, law=law, share=share: law(y, share), _COUNTS,
             _zeros_terms(_poisson_terms, np.exp))
        for make, law in ((ZeroInflatedPoisson, oracle.zero_inflated),
                          (HurdlePoisson, oracle.hurdle))
        for share in (0.3, 1e-4)
    ),
    *(
        Case(make(r, 0.3), lambda y, law=law, r=r: law(
            y, 0.3, lambda y: oracle.negative_binomial(y, r)), _COUNTS,
             _zeros_terms(_negative_binomial_terms(r), lambda x, r=r: r / (1 + r * np.exp(-x))))
        for make, law in ((ZeroInflatedNegativeBinomial, oracle.zero_inflated),
                          (HurdleNegativeBinomial, oracle.hurdle))
        for r in (2.0, 0.05)
    ),
    *(
        Case(Beta(phi), lambda y, phi=phi: oracle.beta(y, phi), (0.3, 1e-6, 1 - 2**-20),
             _share_terms(phi))
        for phi in (0.05, 1e3)
    ),
    *(
        Case(BetaBinomial(n, phi), lambda y, n=n, phi=phi: oracle.beta_binomial(y, n, phi), ys,
             _share_terms(phi, n))
        for n, phi, ys in ((1, 2.0, (0.0, 1.0)), (30, 0.05, (0.0, 11.0)),
                           (1000, 5.0, (1.0, 500.0)))
    ),
    Case(Exponential(), oracle.weibull, (1e-6, 0.3, 1e3), _times_terms(1.0, True)),
    *(
        Case(Weibull(k), lambda y, k=k: oracle.weibull(y, k), (1e-6, 0.3, 1e3),
             _times_terms(k, True))
        for k in (0.1, 2.0, 5.0)
    ),
    *(
        Case(LogLogistic(k), lambda y, k=k: oracle.log_logistic(y, k), (1e-6, 0.3, 1e3),
             _times_terms(k, False))
        for k in (1.01, 2.0, 50.0)
    ),
    *(
        Case(LogNormal(s), lambda y, s=s: oracle.lognormal(y, s), (1e-6, 0.3, 1e3),
             _times_terms(1.0 / s, None))
        for s in (1.0, 0.02)
    ),
    *(
        Case(AsymmetricLaplace(q, s), lambda y, q=q, s=s: oracle.asymmetric_laplace(y, q, s),
             _REALS, lambda x, y, s=s: np.array([1 + (abs(x) + abs(y)) / s, 0, 0, 0]))
        for q, s in ((0.5, 1.0), (0.95, 0.01))
    ),
]  # fmt: skip
CASES += POINTWISE


def one_of_each(cases: list[Case]) -> list[object]:
    """The first case of every likelihood is always run, its other parameters are slow."""
    names = [case.likelihood.name for case in cases]
    return seldom(cases, *{names.index(name) for name in names})
