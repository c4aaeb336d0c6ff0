"""Likelihoods by name."""

from __future__ import annotations

import pickle

import pytest

from evidence import likelihoods
from evidence.models.likelihoods import (
    AsymmetricLaplace,
    Beta,
    BetaBinomial,
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    Geometric,
    HurdleNegativeBinomial,
    HurdlePoisson,
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

READ = [
    ("probit", Probit()),
    ("  Probit() ", Probit()),
    ("studentt", StudentT()),
    ("Student-t(df = 3)", StudentT(df=3.0)),
    ("StudentT(df=4, scale=5e-1)", StudentT(4.0, 0.5)),
    ("negative binomial(dispersion=2)", NegativeBinomial(2.0)),
    ("binomial(n=50)", Binomial(50)),
    ("gamma(shape=2)", Gamma(2.0)),
    ("ordinal(gaps=(1, 0.5))", Ordinal((1.0, 0.5))),
    ("ordinal(gaps=2)", Ordinal((2.0,))),
    ("zero_inflated_poisson(zi=0.2)", ZeroInflatedPoisson(0.2)),
    ("zero-inflated negative binomial(shape=2, zi=0.2)", ZeroInflatedNegativeBinomial(2.0, 0.2)),
    ("HurdlePoisson(hu=0.2)", HurdlePoisson(0.2)),
    ("hurdle_negative_binomial(hu=.2)", HurdleNegativeBinomial(1.0, 0.2)),
    ("geometric", Geometric()),
    ("Beta(phi=3)", Beta(3.0)),
    ("betabinomial(n=5, phi=3)", BetaBinomial(5, 3.0)),
    ("log-normal(sigma=2)", LogNormal(2.0)),
    ("exponential", Exponential()),
    ("weibull", Weibull()),
    ("loglogistic(shape=3)", LogLogistic(3.0)),
    ("asymmetric laplace(quantile=0.9)", AsymmetricLaplace(0.9)),
    ("poisson(exposure=(1, 2), offset=-1)", Poisson((1.0, 2.0), -1.0)),
]


@pytest.mark.parametrize(("text", "want"), READ)
def test_get_reads(text, want):
    assert likelihoods.get(text) == want


@pytest.mark.parametrize("name", likelihoods.NAMES)
def test_likelihoods_are_pickled(name):
    likelihood = likelihoods.get(name)
    assert pickle.loads(pickle.dumps(likelihood)) == likelihood


def test_get_passes_objects_through():
    likelihood = Gaussian(0.2)
    assert likelihoods.get(likelihood) is likelihood


REFUSED = [
    (
        "probti",
        r"unknown name 'probti'; did you mean 'probit'\? Known: probit, logit, cloglog, gaussian",
    ),
    ("bernoulli", r"did you mean 'probit' or 'logit'\?"),
    ("zip", r"did you mean 'zero_inflated_poisson'\?"),
    ("weibul", r"did you mean 'weibull'\?"),
    ("weibull(k=2)", r"weibull has no parameter 'k'; it takes shape$"),
    ("exponential(rate=2)", r"exponential has no parameter 'rate'; it takes no parameters$"),
    ("logistic", r"did you mean 'logit'\?"),
    ("normal(noise_std=1)", r"did you mean 'gaussian'\?"),
    ("xyz", r"unknown name 'xyz'. Known: .*from_function"),
    ("gaussian(sigma=1)", r"gaussian has no parameter 'sigma'; it takes noise_std$"),
    ("student_t(nu=4)", r"no parameter 'nu'; it takes df, scale$"),
    ("probit(a=1)", r"it takes no parameters$"),
    ("student_t(4)", r"cannot read 'student_t\(4\)'; parameters are keyword"),
    ("student_t(df=4", r"cannot read"),
    ("student_t(df=4, df=5)", r"cannot read"),
    ("student_t(df=__import__('os').getpid())", r"cannot read"),
    ("student_t(**{'df': 4})", r"cannot read"),
    ("student_t(df=4)(scale=1)", r"cannot read"),
    ("student_t(df=4).x", r"cannot read"),
    ("student_t(df=-4)", r"df must be a positive number"),
    ("student_t(df='4')", r"df must .*got '4'"),
    ("", r"unknown name ''"),
    (None, r"likelihood must be a Likelihood object or a string, got None"),
    (Probit, r"likelihood must be a Likelihood object or a string.*Probit"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_get_refuses(text, message):
    with pytest.raises(ValueError, match=message):
        likelihoods.get(text)


@pytest.mark.parametrize(
    ("likelihood", "text"),
    [
        (Probit(), "probit"),
        (StudentT(4, 0.5), "student_t(df=4, scale=0.5)"),
        (Ordinal((1.0, 0.5)), "ordinal(gaps=(1, 0.5))"),
        (Ordinal(()), "ordinal(gaps=())"),
        (Ordinal(2.0), "ordinal(gaps=(2,))"),
        (Poisson((1.0, 2.0)), "poisson(exposure=(1, 2), offset=0)"),
        (Gaussian(1e-7), "gaussian(noise_std=1e-07)"),
        (Gaussian(0.1 + 0.2), "gaussian(noise_std=0.30000000000000004)"),
        (NegativeBinomial(1e22), "negative_binomial(dispersion=1e+22, exposure=1, offset=0)"),
    ],
)
def test_describe_round_trips(likelihood, text):
    assert likelihoods.describe(likelihood) == text
    assert likelihoods.get(text) == likelihood


def test_describe_is_short_for_arrays():
    text = likelihoods.describe(Poisson(exposure=[1.0] * 500))
    assert text == "poisson(exposure=<500 values>, offset=0)"


def test_module_attributes():
    assert set(likelihoods.__all__) <= set(dir(likelihoods))
    assert all(getattr(likelihoods, name) for name in likelihoods.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        likelihoods.Nonsense  # noqa: B018
