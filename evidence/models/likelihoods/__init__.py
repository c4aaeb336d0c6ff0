"""Likelihoods, one file each; a name is imported (and its kernel compiled) when first used.

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
    from .base import Likelihood as Likelihood
    from .base import Observations as Observations
    from .base import Predictive as Predictive
    from .binomial import Binomial as Binomial
    from .cloglog import Cloglog as Cloglog
    from .custom import from_function as from_function
    from .gamma import Gamma as Gamma
    from .gaussian import Gaussian as Gaussian
    from .logit import Logit as Logit
    from .negative_binomial import NegativeBinomial as NegativeBinomial
    from .ordinal import Ordinal as Ordinal
    from .poisson import Poisson as Poisson
    from .probit import Probit as Probit
    from .registry import describe as describe
    from .registry import get as get
    from .student_t import StudentT as StudentT

#: those that models know by name, each in a file of that name, and their classes
NAMES = {
    "probit": "Probit",
    "logit": "Logit",
    "cloglog": "Cloglog",
    "gaussian": "Gaussian",
    "student_t": "StudentT",
    "gamma": "Gamma",
    "poisson": "Poisson",
    "negative_binomial": "NegativeBinomial",
    "binomial": "Binomial",
    "ordinal": "Ordinal",
}

if not TYPE_CHECKING:  # type checkers read the imports above, and know what is missing
    _HOME, __getattr__, __dir__ = offered(__spec__)
    __all__ = sorted(_HOME)
