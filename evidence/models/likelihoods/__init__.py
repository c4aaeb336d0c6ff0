"""Likelihoods; a name is imported (and its kernel compiled) when first used.

>>> from evidence import likelihoods
>>> likelihoods.get("student_t(df=4, scale=0.5)")
StudentT(df=4.0, scale=0.5)
>>> likelihoods.describe(likelihoods.Poisson(exposure=2))
'poisson(exposure=2, offset=0)'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...execution.lazy import offered

if TYPE_CHECKING:
    from .asymmetric_laplace import AsymmetricLaplace as AsymmetricLaplace
    from .base import Likelihood as Likelihood
    from .base import Observations as Observations
    from .base import Predictive as Predictive
    from .beta import Beta as Beta
    from .beta import BetaBinomial as BetaBinomial
    from .binomial import Binomial as Binomial
    from .censored import Censored as Censored
    from .cloglog import Cloglog as Cloglog
    from .custom import from_function as from_function
    from .gamma import Gamma as Gamma
    from .gaussian import Gaussian as Gaussian
    from .logit import Logit as Logit
    from .negative_binomial import Geometric as Geometric
    from .negative_binomial import NegativeBinomial as NegativeBinomial
    from .ordinal import Ordinal as Ordinal
    from .poisson import Poisson as Poisson
    from .predicted import Predicted as Predicted
    from .probit import Probit as Probit
    from .registry import describe as describe
    from .registry import get as get
    from .student_t import StudentT as StudentT
    from .times import Exponential as Exponential
    from .times import LogLogistic as LogLogistic
    from .times import LogNormal as LogNormal
    from .times import Weibull as Weibull
    from .truncated import Truncated as Truncated
    from .zeros import HurdleNegativeBinomial as HurdleNegativeBinomial
    from .zeros import HurdlePoisson as HurdlePoisson
    from .zeros import ZeroInflatedNegativeBinomial as ZeroInflatedNegativeBinomial
    from .zeros import ZeroInflatedPoisson as ZeroInflatedPoisson

#: those that models know by name, and their classes
NAMES = {
    "probit": "Probit", "logit": "Logit", "cloglog": "Cloglog", "gaussian": "Gaussian",
    "student_t": "StudentT", "gamma": "Gamma", "poisson": "Poisson",
    "negative_binomial": "NegativeBinomial", "binomial": "Binomial", "ordinal": "Ordinal",
    "geometric": "Geometric", "zero_inflated_poisson": "ZeroInflatedPoisson",
    "zero_inflated_negative_binomial": "ZeroInflatedNegativeBinomial",
    "hurdle_poisson": "HurdlePoisson", "hurdle_negative_binomial": "HurdleNegativeBinomial",
    "beta": "Beta", "beta_binomial": "BetaBinomial", "exponential": "Exponential",
    "lognormal": "LogNormal", "weibull": "Weibull", "log_logistic": "LogLogistic",
    "asymmetric_laplace": "AsymmetricLaplace",
}  # fmt: skip

if not TYPE_CHECKING:  # type checkers read the imports above, and know what is missing
    _HOME, __getattr__, __dir__ = offered(__spec__)
    __all__ = sorted(_HOME)
