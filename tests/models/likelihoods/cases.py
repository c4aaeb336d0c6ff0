"""The likelihoods under test, each with its oracle, typical data and the size of its terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from evidence.models.likelihoods import (
    Binomial,
    Cloglog,
    Gamma,
    Gaussian,
    Likelihood,
    Logit,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
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
