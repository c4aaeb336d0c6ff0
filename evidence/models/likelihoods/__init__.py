"""Likelihoods, one file each; a name is imported (and its kernel compiled) when first used.

>>> from evidence import likelihoods
>>> likelihoods.get("student_t(df=4, scale=0.5)")
StudentT(df=4.0, scale=0.5)
>>> likelihoods.describe(likelihoods.Poisson(exposure=2))
'poisson(exposure=2, offset=0)'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Likelihood, Observations, Predictive
    from .custom import from_function
    from .gaussian import Gaussian
    from .logit import Logit
    from .negative_binomial import NegativeBinomial
    from .poisson import Poisson
    from .probit import Probit
    from .registry import describe, get
    from .student_t import StudentT

_HOME = {
    "Probit": "probit",
    "Logit": "logit",
    "Gaussian": "gaussian",
    "StudentT": "student_t",
    "Poisson": "poisson",
    "NegativeBinomial": "negative_binomial",
    "Likelihood": "base",
    "Observations": "base",
    "Predictive": "base",
    "from_function": "custom",
    "get": "registry",
    "describe": "registry",
}

__all__ = [
    "Gaussian",
    "Likelihood",
    "Logit",
    "NegativeBinomial",
    "Observations",
    "Poisson",
    "Predictive",
    "Probit",
    "StudentT",
    "describe",
    "from_function",
    "get",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
