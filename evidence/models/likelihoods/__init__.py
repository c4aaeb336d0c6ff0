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
    from .base import Likelihood as Likelihood
    from .base import Observations as Observations
    from .base import Predictive as Predictive
    from .custom import from_function as from_function
    from .gaussian import Gaussian as Gaussian
    from .logit import Logit as Logit
    from .negative_binomial import NegativeBinomial as NegativeBinomial
    from .poisson import Poisson as Poisson
    from .probit import Probit as Probit
    from .registry import describe as describe
    from .registry import get as get
    from .student_t import StudentT as StudentT

#: those that models know by name, each in a file of that name, and their classes
NAMES = {
    "probit": "Probit",
    "logit": "Logit",
    "gaussian": "Gaussian",
    "student_t": "StudentT",
    "poisson": "Poisson",
    "negative_binomial": "NegativeBinomial",
}
_HOME = {cls: name for name, cls in NAMES.items()} | {
    "Likelihood": "base",
    "Observations": "base",
    "Predictive": "base",
    "from_function": "custom",
    "get": "registry",
    "describe": "registry",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
