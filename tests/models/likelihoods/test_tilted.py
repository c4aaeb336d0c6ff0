"""Tilted moments and cumulants against brute-force integrals at 30 digits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import mpmath as mp
import numpy as np
import pytest

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

ORDER = 8

# likelihood, oracle, y, cavity mean, cavity variance, tolerance of the cumulants 3 … 8
CAVITIES = [
    (Probit(), oracle.probit, 1.0, 0.0, 1.0, 1e-10),
    (Probit(), oracle.probit, -1.0, 40.0, 1e-4, 1e-10),
    (Probit(), oracle.probit, -1.0, 3.0, 1.0, 1e-10),
    (Probit(), oracle.probit, 1.0, 2.0, 9.0, 1e-10),
    (Probit(), oracle.probit, 1.0, -1e3, 1e5, 1e-8),
    (Logit(), oracle.logit, -1.0, 0.5, 2.0, 1e-10),
    (Logit(), oracle.logit, 1.0, 30.0, 1e-4, 1e-10),
    (Logit(), oracle.logit, 1.0, -600.0, 1e5, 1e-8),
    (Logit(), oracle.logit, 1.0, 600.0, 1e5, 1e-8),
    (Gaussian(0.01), lambda y: oracle.gaussian(y, 0.01), -1e3, 1e3, 1e5, 1e-8),
    (Gaussian(5.0), lambda y: oracle.gaussian(y, 5.0), 3.0, -2.0, 1e-4, 1e-8),
    (Poisson(), oracle.poisson, 0.0, 0.0, 1.0, 1e-10),
    (Poisson(), oracle.poisson, 0.0, 900.0, 1e5, 1e-8),
    (Poisson(), oracle.poisson, 7.0, -30.0, 1e-4, 1e-8),
    (Poisson(), oracle.poisson, 1000.0, 12.0, 0.3, 1e-8),
    (Poisson(), oracle.poisson, 1e6, -900.0, 1e5, 1e-8),
    (Poisson(), oracle.poisson, 1e6, 13.8, 1e-4, 1e-8),
    (NegativeBinomial(0.5), lambda y: oracle.negative_binomial(y, 0.5), 0.0, 500.0, 1e5, 1e-7),
    (NegativeBinomial(0.5), lambda y: oracle.negative_binomial(y, 0.5), 7.0, -3.0, 40.0, 1e-8),
    (NegativeBinomial(1e6), lambda y: oracle.negative_binomial(y, 1e6), 1e6, 0.0, 9.0, 1e-8),
    (Binomial(50), lambda y: oracle.binomial(y, 50), 0.0, 3.0, 2.0, 1e-8),
    (Binomial(50), lambda y: oracle.binomial(y, 50), 50.0, -300.0, 1e5, 1e-8),
    (Binomial(1e6), lambda y: oracle.binomial(y, 1e6), 999_999.0, 0.0, 9.0, 1e-8),
    (Cloglog(), oracle.cloglog, 1.0, 0.5, 2.0, 1e-10),
    (Cloglog(), oracle.cloglog, 1.0, -600.0, 1e5, 1e-8),
    (Cloglog(), oracle.cloglog, -1.0, 3.0, 1e5, 1e-8),
    (Cloglog(), oracle.cloglog, -1.0, 2.0, 1e-4, 1e-8),
    (Gamma(2.0), lambda y: oracle.gamma(y, 2.0), 0.3, 0.0, 1.0, 1e-8),
    (Gamma(0.05), lambda y: oracle.gamma(y, 0.05), 1e3, -30.0, 1e5, 1e-8),
    (Gamma(1e5), lambda y: oracle.gamma(y, 1e5), 7.0, 1.0, 4.0, 1e-8),
    (Ordinal((1.0, 2.0)), lambda y: oracle.ordinal(y, (1.0, 2.0)), 0.0, 1.0, 2.0, 1e-8),
    (Ordinal((1.0, 2.0)), lambda y: oracle.ordinal(y, (1.0, 2.0)), 1.0, -300.0, 1e5, 1e-8),
    (Ordinal((1.0, 2.0)), lambda y: oracle.ordinal(y, (1.0, 2.0)), 2.0, 40.0, 1e-4, 1e-8),
    (Ordinal((30.0, 1e-4)), lambda y: oracle.ordinal(y, (30.0, 1e-4)), 1.0, 8.0, 400.0, 1e-8),
    # Student-t: one mode, the needle of a datum in a wide cavity, an outlier, and two modes
    # of comparable mass (log-mass ratios near 1, then 1e-3)
    (StudentT(), oracle.student_t, 0.5, 0.0, 1.0, 1e-8),
    (StudentT(4, 0.01), lambda y: oracle.student_t(y, 4, 0.01), 3.0, 1.0, 100.0, 1e-6),
    (StudentT(1, 0.1), lambda y: oracle.student_t(y, 1, 0.1), 1e3, 0.0, 1e-4, 1e-8),
    (StudentT(8, 0.05), lambda y: oracle.student_t(y, 8, 0.05), 8.0, 0.0, 1.0, 1e-8),
    (StudentT(8, 0.05), lambda y: oracle.student_t(y, 8, 0.05), 8.5, 0.0, 1.0, 1e-8),
    (StudentT(2, 1e-3), lambda y: oracle.student_t(y, 2, 1e-3), 0.0, 6.0, 1.0, 1e-6),
    (Geometric(), oracle.negative_binomial, 3.0, 0.0, 2.0, 1e-8),
    # zeros that are no counts: below and above the step, and a cavity on both sides of it
    *(
        (ZeroInflatedPoisson(z), lambda y, z=z: oracle.zero_inflated(y, z), y, m, v, 1e-8)
        for z, y, m, v in ((0.3, 0.0, 30.0, 1e3), (1e-4, 0.0, 4.0, 4.0), (0.3, 7.0, -3.0, 40.0))
    ),
    *(
        (ZeroInflatedNegativeBinomial(r, 0.2), lambda y, r=r: oracle.zero_inflated(
            y, 0.2, lambda y: oracle.negative_binomial(y, r)), y, m, v, 1e-8)
        for r, y, m, v in ((0.5, 0.0, 1.0, 9.0), (0.5, 7.0, 0.0, 4.0))
    ),
    *(
        (HurdlePoisson(0.3), lambda y: oracle.hurdle(y, 0.3), y, m, v, 1e-8)
        for y, m, v in ((0.0, 1.0, 2.0), (1.0, -40.0, 1e3), (7.0, -3.0, 40.0))
    ),
    *(
        (HurdleNegativeBinomial(r, 0.2), lambda y, r=r: oracle.hurdle(
            y, 0.2, lambda y: oracle.negative_binomial(y, r)), y, m, v, 1e-8)
        for r, y, m, v in ((0.3, 1.0, 8.0, 9.0), (50.0, 7.0, -2.0, 100.0))
    ),
    *(
        (Beta(phi), lambda y, phi=phi: oracle.beta(y, phi), y, m, v, 1e-8)
        for phi, y, m, v in ((2.0, 0.3, 0.0, 1.0), (0.3, 1e-6, 2.0, 100.0),
                             (30.0, 0.99, -6.0, 9.0), (1e3, 0.6, 1.0, 1e-2))
    ),
    *(
        (BetaBinomial(n, phi), lambda y, n=n, phi=phi: oracle.beta_binomial(y, n, phi), y, m, v,
         1e-8)
        for n, phi, y, m, v in ((5, 2.0, 0.0, 1.0, 4.0), (30, 0.3, 30.0, -9.0, 100.0),
                                (30, 50.0, 11.0, 2.0, 1.0))
    ),
    (Exponential(), oracle.weibull, 3.0, 0.0, 1.0, 1e-8),
    (Weibull(3.0), lambda y: oracle.weibull(y, 3.0), 0.3, -30.0, 1e3, 1e-8),
    (Weibull(0.3), lambda y: oracle.weibull(y, 0.3), 4.0, 2.0, 4.0, 1e-8),
    (LogLogistic(3.0), lambda y: oracle.log_logistic(y, 3.0), 0.3, 1.0, 4.0, 1e-8),
    (LogLogistic(30.0), lambda y: oracle.log_logistic(y, 30.0), 4.0, -3.0, 100.0, 1e-8),
    (LogNormal(0.1), lambda y: oracle.lognormal(y, 0.1), 4.0, -3.0, 4.0, 1e-8),
    *(
        (AsymmetricLaplace(q, s), lambda y, q=q, s=s: oracle.asymmetric_laplace(y, q, s), y, m, v,
         1e-8)
        for q, s, y, m, v in ((0.5, 1.0, 0.5, 0.0, 1.0), (0.9, 0.01, 3.0, 1.0, 100.0),
                              (0.1, 0.1, 2.0, -30.0, 1.0), (0.3, 5.0, 0.0, 1.0, 1e-2))
    ),
]  # fmt: skip


#: that differ from others in their derivatives alone, which have tests of their own
ALIKE = {
    "hurdle_negative_binomial", "zero_inflated_negative_binomial", "geometric", "exponential",
    "log_logistic", "binomial", "gamma",
}  # fmt: skip


def _few() -> list[Any]:
    """One of every kind of likelihood; minutes of digits are in the others."""
    seen: Counter[str] = Counter(ALIKE)
    marked = []
    for case in CAVITIES:
        seen[case[0].name] += 1
        marks = [pytest.mark.slow] if seen[case[0].name] > 1 else []
        marked.append(pytest.param(*case, marks=marks))
    return marked


@pytest.mark.parametrize(
    ("likelihood", "log_density", "y", "m", "v", "tol"),
    _few(),
    ids=lambda p: f"{p:g}" if isinstance(p, float) else getattr(p, "name", ""),
)
def test_quadrature_matches_brute_force(likelihood, log_density, y, m, v, tol):
    """1e-9 for log Z, mean (of itself or the standard deviation) and variance."""
    with mp.workdps(30):
        feature = likelihood.location(np.array([y]))[0]
        names = ("scale", "noise_std", "sigma")
        scale = next(
            (getattr(likelihood, name) for name in names if hasattr(likelihood, name)), 1.0
        )
        kappa = oracle.tilted_cumulants(log_density(y), m, v, ORDER, feature, scale)
        want = np.array([float(k) for k in kappa])
    y, m, v = (np.array([a]) for a in (y, m, v))
    sd = np.sqrt(want[2])
    got = Likelihood.tilted_cumulants(likelihood, y, m, v, ORDER)[:, 0]
    for log_z, mean, var in (got[:3], np.ravel(Likelihood.tilted(likelihood, y, m, v))):
        assert log_z == pytest.approx(want[0], rel=1e-9, abs=1e-12)
        assert mean == pytest.approx(want[1], rel=1e-9, abs=1e-9 * sd)
        assert var == pytest.approx(want[2], rel=1e-9)
    own = likelihood.tilted_cumulants(y, m, v, ORDER)[:, 0]
    for k in range(3, ORDER + 1):
        assert got[k] == pytest.approx(want[k], rel=tol, abs=tol * sd**k), k
        assert own[k] == pytest.approx(want[k], rel=tol, abs=tol * sd**k), k


def test_oracle_agrees_with_the_closed_form():
    with mp.workdps(30):
        got = oracle.tilted_cumulants(oracle.gaussian(1.0, 0.5), -2.0, 3.0, 4, 1.0, 0.5)
        total = mp.mpf("3.25")
        log_z = -mp.mpf(9) / (2 * total) - mp.log(2 * mp.pi * total) / 2
        want = [log_z, -2 + 9 / total, mp.mpf("0.75") / total, 0, 0]
        assert max(abs(a - b) for a, b in zip(got, want, strict=True)) < 1e-15


@pytest.mark.parametrize("likelihood", [Probit(), Gaussian(0.3)], ids=lambda p: p.name)
def test_closed_form_equals_quadrature(likelihood):
    m, v = (a.ravel() for a in np.meshgrid(np.linspace(-9, 9, 13), 10.0 ** np.arange(-4, 6)))
    for scaled in (m, m * np.sqrt(v)):
        y = np.where(np.arange(m.size) % 2, 1.0, -1.0)
        closed = likelihood.tilted(y, scaled, v)
        generic = Likelihood.tilted(likelihood, y, scaled, v)
        assert np.max(np.abs(closed[0] - generic[0]) / (1.0 + np.abs(closed[0]))) < 1e-9
        assert np.max(np.abs(closed[1] - generic[1]) / np.sqrt(closed[2])) < 1e-9
        assert np.max(np.abs(closed[2] / generic[2] - 1.0)) < 3e-9


def test_closed_form_of_probit_s_cumulants_equals_quadrature():
    z, v = (a.ravel() for a in np.meshgrid(np.linspace(-6, 9, 31), 10.0 ** np.arange(-3, 5)))
    y = np.where(np.arange(z.size) % 2, 1.0, -1.0)
    m = y * z * np.sqrt(1.0 + v)
    closed, generic = (kind.tilted_cumulants(Probit(), y, m, v, ORDER) for kind in
                       (Probit, Likelihood))  # fmt: skip
    error = np.abs(closed - generic)
    error[0] /= 1.0 + np.abs(generic[0])
    error[1:] /= np.sqrt(generic[2]) ** np.arange(1, ORDER + 1)[:, None]
    assert error[:3].max() < 1e-8
    assert error[3:].max() < 3e-6  # of quadrature, whose moments cancel


def test_gaussian_cumulants_stop_at_two():
    y, m, v = np.array([1.0, 2.0]), np.zeros(2), np.array([1.0, 5.0])
    kappa = Gaussian(0.3).tilted_cumulants(y, m, v, ORDER)
    np.testing.assert_array_equal(kappa[:3], Gaussian(0.3).tilted(y, m, v))
    assert (kappa[3:] == 0.0).all()


@pytest.mark.parametrize(
    "likelihood",
    [
        Logit(),
        StudentT(),
        Poisson(),
        NegativeBinomial(),
        Cloglog(),
        Gamma(),
        Ordinal(),
        AsymmetricLaplace(),
        ZeroInflatedPoisson(),
        HurdlePoisson(),
        Weibull(),
        BetaBinomial(2),
    ],
    ids=lambda p: p.name,
)
def test_cavities_without_a_density(likelihood):
    """A point mass is exact; what is no distribution gives NaN and does not hang."""
    y = np.ones(5)
    m, v = np.array([0.3, 0.0, np.nan, np.inf, 0.0]), np.array([0.0, -1.0, 1.0, 1.0, np.inf])
    log_z, mean, var = likelihood.tilted(y, m, v)
    assert (log_z[0], mean[0], var[0]) == (likelihood.log_prob([0.3], [1])[0], 0.3, 0.0)
    assert np.isnan([log_z[1:], mean[1:], var[1:]]).all()


def test_many_random_cavities_obey_the_evidence_identities():
    """d log Z/dm = (mean - m)/v and d²log Z/dm² = (var - v)/v², by central differences."""
    rng = np.random.default_rng(0)
    n = 400
    for likelihood in (
        Logit(), StudentT(4, 0.3), Poisson(), NegativeBinomial(2.0), Cloglog(), Gamma(2.0),
        Ordinal((1.0, 0.5)), ZeroInflatedPoisson(0.3), ZeroInflatedNegativeBinomial(1.5, 0.3),
        HurdlePoisson(0.3), HurdleNegativeBinomial(0.7, 0.3), Geometric(), Beta(3.0),
        BetaBinomial(9, 3.0), Exponential(), Weibull(2.0), LogNormal(0.3), LogLogistic(3.0),
        AsymmetricLaplace(0.8, 0.3),
    ):  # fmt: skip
        v = 10.0 ** rng.uniform(-2, 2, n)
        m = np.clip(rng.normal(size=n) * (1 + np.sqrt(v)), -20, 20)
        y = likelihood.check(likelihood.simulate(np.clip(m, -3, 3), rng)).y
        h = 1e-3 * np.sqrt(v)
        low, mid, high = (likelihood.tilted(y, m + k * h, v) for k in (-1, 0, 1))
        slope = (high[0] - low[0]) / (2 * h)
        tilt = (high[1] - low[1]) / (2 * h)
        scale = 1 / np.sqrt(v) + np.abs(slope)
        np.testing.assert_array_less(np.abs((mid[1] - m) / v - slope) / scale, 1e-4)
        np.testing.assert_allclose(mid[2] / v, tilt, rtol=1e-3, atol=1e-5)
