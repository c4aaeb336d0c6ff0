"""Likelihoods by name: ``"student_t(df=4, scale=0.5)"`` to an object and back."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from importlib import import_module
from typing import Any

from ...execution.arguments import shown
from ...messages import InputError, suggest
from ..expressions import readable, tree_of
from . import NAMES
from .base import Likelihood

_MEANT = {
    "bernoulli": "probit' or 'logit", "binary": "probit' or 'logit", "logistic": "logit",
    "sigmoid": "logit", "normal": "gaussian", "robust": "student_t", "t": "student_t",
    "complementaryloglog": "cloglog", "zip": "zero_inflated_poisson",
    "zinb": "zero_inflated_negative_binomial",
    "zeroinflatednegbinomial": "zero_inflated_negative_binomial",
    "hurdlenegbinomial": "hurdle_negative_binomial", "negbinomial": "negative_binomial",
    "asymlaplace": "asymmetric_laplace", "quantile": "asymmetric_laplace", "ordered": "ordinal",
    "cumulative": "ordinal", "count": "poisson' or 'negative_binomial",
}  # fmt: skip
_EXAMPLE = "write for example 'probit' or 'student_t(df=4, scale=0.5)'"


def get(spec: str | Likelihood) -> Likelihood:
    """Return the likelihood that ``spec`` describes.

    Parameters
    ----------
    spec : Likelihood or str
        An object is returned as it is. A string is a name, with parameters as literal keyword
        arguments if there are any; it is parsed, never evaluated.

    >>> get("student-t(df=4)")
    StudentT(df=4.0, scale=1.0)
    """
    if isinstance(spec, Likelihood):
        return spec
    if not isinstance(spec, str):
        raise InputError(
            f"likelihood must be a Likelihood object or a string, got {shown(spec)}; {_EXAMPLE}"
        )
    # so many characters: binomial(n=(…)) may have a number for every row
    with readable("likelihood", spec, 1_000_000):
        head, bracket, rest = spec.strip().partition("(")
        name = _known_name(head)
        arguments = _parse_arguments(spec, bracket + rest) if bracket else {}
    cls = getattr(import_module(__package__), NAMES[name])
    valid = [field.name for field in fields(cls)]
    for key in arguments:
        if key not in valid:
            takes = f"takes {', '.join(valid)}" if valid else "takes no parameters"
            raise InputError(f"likelihood: {name} has no parameter {key!r}; it {takes}")
    return cls(**arguments)


def _known_name(text: str) -> str:
    key = re.sub(r"[\s_-]", "", text).lower()
    names = {name.replace("_", ""): name for name in NAMES}
    if key in names:
        return names[key]
    hint = f"; did you mean '{_MEANT[key]}'?" if key in _MEANT else suggest(key, NAMES)
    raise InputError(
        f"likelihood: unknown name {shown(text.strip())}{hint} Known: {', '.join(NAMES)} "
        "(or make your own with ev.likelihoods.from_function)"
    )


def _parse_arguments(spec: str, call: str) -> dict[str, Any]:
    try:
        tree = tree_of("f" + call)
        if not isinstance(tree, ast.Call) or tree.args or not isinstance(tree.func, ast.Name):
            raise ValueError
        arguments = {str(k.arg): ast.literal_eval(k.value) for k in tree.keywords if k.arg}
        if len(arguments) != len(tree.keywords):
            raise ValueError
    except (ValueError, SyntaxError):
        raise InputError(
            f"likelihood: cannot read {shown(spec)}; parameters are keyword arguments with plain "
            f"numbers, {_EXAMPLE}"
        ) from None
    return arguments


def describe(likelihood: Likelihood) -> str:
    """Return a short description; :func:`get` reads it back where parameters are few.

    >>> from evidence.models.likelihoods import Gaussian
    >>> describe(Gaussian(noise_std=0.1))
    'gaussian(noise_std=0.1)'
    """
    if likelihood.name not in NAMES:
        return repr(likelihood)
    parts = [f"{f.name}={_in_words(getattr(likelihood, f.name))}" for f in fields(likelihood)]  # type: ignore[arg-type]
    return f"{likelihood.name}({', '.join(parts)})" if parts else likelihood.name


def _in_words(value: float | tuple[float, ...], *, few: int = 9) -> str:
    """``few``: values that are written out."""
    if not isinstance(value, tuple):
        return repr(value).removesuffix(".0")
    if len(value) > few:
        return f"<{len(value)} values>"
    return f"({', '.join(map(_in_words, value))}{',' * (len(value) == 1)})"
