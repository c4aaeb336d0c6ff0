"""What the likelihoods say about observations and parameters they cannot use."""

from __future__ import annotations

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

NAN = float("nan")
INF = float("inf")

OBSERVATIONS = [
    (
        Poisson(),
        [1, -3],
        r"y: the poisson likelihood wants counts 0, 1, 2, … \(up to 2\^53\), got -3 at y\[1\]$",
    ),
    (Poisson(), [0.5, 2, 7.25], r"wants counts .*, got 0\.5, 7\.25, first at y\[0\]$"),
    (Poisson(), [1, NAN], r"y contains NaN or inf"),
    (Poisson(), [1, INF], r"y contains NaN or inf"),
    (Poisson(), ["1", "2"], r"y must hold real numbers.*type <U1"),
    (Poisson(), -np.arange(1.0, 9.0), r"got -8, -7, -6, -5, -4, -3, …, first at y\[0\]$"),
    (NegativeBinomial(), [1e6 + 0.5], r"y: the negative_binomial .* got 1000000\.5 at y\[0\]$"),
    (Binomial(5), [1, 7, 9], r"y must not exceed n, .*y\[1\] = 7 of n = 5, and so 2 of 3 data$"),
    (Binomial([5, 8]), [1, 9], r"y must not exceed n, .*y\[1\] = 9 of n = 8, and so 1 of 2"),
    (Binomial(5), [2.5], r"y: the binomial likelihood wants counts"),
    (
        Gamma(),
        [1.0, 0.0, -2.0],
        r"y: the gamma likelihood wants positive numbers, got -2, 0, first at y\[1\]$",
    ),
    (Gamma(), [NAN], r"y contains NaN or inf"),
    (Ordinal(), [1, 2, 3], r"y: the ordinal .* 1 gap\(s\) wants categories 0 to 2, got 3;"),
    (Ordinal([1, 2]), [0.5, -1, 3], r"categories 0 to 3, got -1, 0\.5; count K categories"),
    (Ordinal(), ["low"], r"y must hold real numbers.*type <U3"),
    (Cloglog(), [0, 2], r"y: the cloglog likelihood wants labels -1 and \+1 .* got 0, 2$"),
    (Gaussian(), [NAN], r"y contains NaN or inf"),
    (Gaussian(), [1 + 2j], r"y must hold real numbers.*complex"),
    (StudentT(), [-INF], r"y contains NaN or inf"),
    (StudentT(), [None], r"y must hold real numbers, got None"),
    (Logit(), [0, 1, 2], r"y: the logit likelihood wants labels -1 and \+1 .* got 0, 1, 2$"),
    (Logit(), ["a", "b"], r"y must hold real numbers.*type <U1"),
    (Probit(), [-1, 0], r"y: the probit likelihood wants labels .*, got -1, 0$"),
    (Probit(), [1, NAN], r"y contains NaN or inf"),
    (Beta(), [0.5, 1.0, 0.0], r"y: the beta .* above 0 and below 1, got 0, 1, first at y\[1\]$"),
    (BetaBinomial(5), [1, 7], r"y must not exceed n, .*y\[1\] = 7 of n = 5, and so 1 of 2 data$"),
    (BetaBinomial(5), [0.5], r"the beta_binomial likelihood wants counts .* at y\[0\]$"),
    (AsymmetricLaplace(), [NAN], r"y contains NaN or inf"),
    *(
        (make(), [3, 0.5], r"wants counts .*, got 0\.5 at y\[1\]$")
        for make in (Geometric, ZeroInflatedPoisson, ZeroInflatedNegativeBinomial, HurdlePoisson,
                     HurdleNegativeBinomial)
    ),
    *(
        (make(), [1.0, 2.0, 0.0], r"y: the .* wants positive numbers, got 0 at y\[2\]$")
        for make in (Exponential, Weibull, LogNormal, LogLogistic)
    ),
]  # fmt: skip


@pytest.mark.parametrize(("likelihood", "y", "message"), OBSERVATIONS)
def test_bad_observations(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        likelihood.check(y)


PARAMETERS = [
    (Gaussian, {"noise_std": 0.0}, r"noise_std must be a positive number.*got 0\.0$"),
    (Gaussian, {"noise_std": [1.0, -2.0]}, r"noise_std must be .*got -2$"),
    (Gaussian, {"noise_std": "1"}, r"noise_std must .*got '1\'"),
    (Gaussian, {"noise_std": [[1.0]]}, r"noise_std must be .*shape"),
    (Gaussian, {"noise_std": []}, r"noise_std must be .*got shape \(0,\)"),
    (StudentT, {"df": INF}, r"df must be a finite number.*got inf$"),
    (StudentT, {"scale": NAN}, r"scale must be .*got nan$"),
    (StudentT, {"df": True}, r"df must be .*got True$"),
    (Poisson, {"exposure": -1}, r"exposure must be a positive number.*got -1$"),
    (Poisson, {"offset": [0.0, INF]}, r"offset contains NaN or inf"),
    (NegativeBinomial, {"dispersion": 0}, r"dispersion must be a positive .*got 0$"),
    (NegativeBinomial, {"exposure": None}, r"exposure must .*got None"),
    (Gamma, {"shape": 0}, r"shape must be a positive .*got 0$"),
    (Gamma, {"shape": [1.0, -2.0]}, r"shape must be positive, got -2$"),
    (Ordinal, {"gaps": None}, r"gaps must hold real numbers, got None"),
    (Ordinal, {"gaps": (1.0, 0.0)}, r"gaps must be positive, got 0$"),
    (Ordinal, {"gaps": -1.0}, r"gaps must be a positive number.*got -1\.0$"),
    (Ordinal, {"gaps": [[1.0]]}, r"gaps must be .*got shape \(1, 1\)$"),
    (Binomial, {"n": 0}, r"n must be a positive .*got 0$"),
    (Binomial, {"n": 2.5}, r"n must be whole numbers .*got 2\.5$"),
    (Binomial, {"n": [2, 2.5]}, r"n must be whole numbers .*got \(2\.0, 2\.5\)$"),
    (BetaBinomial, {"n": 2.5}, r"n must be whole numbers .*got 2\.5$"),
    (BetaBinomial, {"phi": 0}, r"phi must be a positive number, got 0$"),
    (ZeroInflatedPoisson, {"zi": 1.0}, r"zi must be a number above 0 and below 1, got 1\.0$"),
    (ZeroInflatedPoisson, {"zi": [0.5, 0.0]}, r"zi must be positive and below 1, got 0$"),
    (HurdleNegativeBinomial, {"hu": [0.5, 1.5]}, r"hu must be positive and below 1, got 1\.5$"),
    (HurdleNegativeBinomial, {"shape": -1}, r"shape must be a positive number, got -1$"),
    (AsymmetricLaplace, {"quantile": 95}, r"quantile must be a number above 0 and below 1"),
    (LogLogistic, {"shape": 1.0}, r"shape must be a number above 1, got 1\.0$"),
    (LogLogistic, {"shape": [2.0, 0.5]}, r"shape must be above 1, got 0\.5$"),
]


@pytest.mark.parametrize(("make", "arguments", "message"), PARAMETERS)
def test_bad_parameters(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Gaussian, "noise_std"),
        (StudentT, "df"),
        (StudentT, "scale"),
        (Poisson, "exposure"),
        (Poisson, "offset"),
        (NegativeBinomial, "dispersion"),
        (Binomial, "n"),
        (Gamma, "shape"),
        (ZeroInflatedPoisson, "zi"),
        (ZeroInflatedNegativeBinomial, "shape"),
        (HurdlePoisson, "hu"),
        (HurdleNegativeBinomial, "offset"),
        (Geometric, "exposure"),
        (Beta, "phi"),
        (BetaBinomial, "phi"),
        (Weibull, "shape"),
        (LogNormal, "sigma"),
        (LogLogistic, "shape"),
        (AsymmetricLaplace, "quantile"),
    ],
)
def test_parameters_of_another_length(make, name):
    fine = [0.2, 0.3, 0.4] if name in make.limits and name != "shape" else [2.0, 3.0, 4.0]
    likelihood = make(**{name: fine})
    message = f"{name} has 3 values but there are 2 data; give a number or one value per datum"
    y = np.full(2, 0.5) if make is Beta else np.ones(2)
    with pytest.raises(ValueError, match=message):
        likelihood.theta(y)
    with pytest.raises(ValueError, match=message):
        likelihood.log_prob(y, y)
    with pytest.raises(ValueError, match=message):
        likelihood.simulate(np.ones((5, 2)), np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        likelihood.conditional_moments(y)


def test_latent_values_of_another_length():
    with pytest.raises(ValueError, match=r"x must be an array of shape \(2,\), got shape \(3,\)"):
        Logit().log_prob(np.zeros(3), [1, -1])


def test_rates_too_large_to_draw():
    for likelihood in (Poisson(), NegativeBinomial()):
        with pytest.raises(ValueError, match=r"x: the rate reaches .*too large to draw"):
            likelihood.simulate(np.array([60.0]), np.random.default_rng(0))


@pytest.mark.parametrize("likelihood", [Probit(), Logit(), Cloglog()])
def test_labels_in_other_codes(likelihood):
    for labels in ([0, 1], [False, True], [0.0, 1.0]):
        y, notes = likelihood.check(labels)
        np.testing.assert_array_equal(y, [-1.0, 1.0])
        assert notes == ("y: labels 0/1 were taken as -1/+1",)
    assert likelihood.check([-1, 1]).notes == ()


def test_counts_and_reals_of_any_number_type():
    for y in ([0, 3], np.array([0, 3], np.uint8), [0.0, 3.0]):
        np.testing.assert_array_equal(Poisson().check(y).y, [0.0, 3.0])
        assert Gaussian().check(y).y.dtype == float
    np.testing.assert_array_equal(Poisson().check([False, True]).y, [0.0, 1.0])


def test_likelihoods_are_values():
    assert Ordinal(2) == Ordinal([2.0]) == Ordinal((np.float32(2.0),))
    assert StudentT(4, 0.5) == StudentT(4.0, np.float32(0.5))
    assert Poisson(exposure=np.array([1.0, 2.0])) == Poisson(exposure=[1, 2])
    assert len({Poisson(exposure=[1, 2]), Poisson(exposure=(1, 2)), Poisson()}) == 2
