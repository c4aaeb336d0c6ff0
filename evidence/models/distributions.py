"""Distributions of scipy.stats from text such as ``"norm(0, 2)"``: parsed, never evaluated."""

from __future__ import annotations

import ast

import numpy as np
from scipy import stats

from ..execution.arguments import shown
from ..messages import InputError, suggest
from ..numerics.arrays import Array
from .expressions import quoted, readable, tree_of

_MEANT = {
    word: family
    for family, words in {
        "expon": "exponential",
        "halfcauchy": "cauchy+",
        "halft": "halfstudent halfstudentt studentt+",
        "halfnorm": "halfgaussian halfn halfnormal normal+",
        "invgamma": "inversegamma",
        "lognorm": "lognormal",
        "norm": "gauss gaussian n normal",
        "t": "student studentt",
    }.items()
    for word in words.split()
}
_OF_SCALE = {
    "expon": "expon(scale=…), 1 over a rate", "halfcauchy": "halfcauchy(scale=…)",
    "halfnorm": "halfnorm(scale=…)", "halft": "halft(df, scale=…)",
}  # fmt: skip


class HalfT(stats.rv_continuous):
    """The size of Student's t, which SciPy has not: brms' prior of deviations is one."""

    def _pdf(self, x: Array, df: Array) -> Array:
        return 2.0 * stats.t.pdf(x, df)

    def _cdf(self, x: Array, df: Array) -> Array:
        return 1.0 - self._sf(x, df)

    def _sf(self, x: Array, df: Array) -> Array:
        return 2.0 * stats.t.sf(x, df)

    def _ppf(self, q: Array, df: Array) -> Array:
        return stats.t.isf(0.5 - 0.5 * q, df)

    def _isf(self, q: Array, df: Array) -> Array:
        return stats.t.isf(0.5 * q, df)


def from_text(name: str, text: str) -> stats.distributions.rv_frozen:
    """The distribution of scipy.stats that a text such as ``"norm(0, 2)"`` describes.

    >>> from_text("x", "norm(0, scale=2)").std()
    np.float64(2.0)
    >>> from_text("x", "halfnorm(2)")
    Traceback (most recent call last):
    evidence.InputError: priors['x'] is 'halfnorm(2)': the last number is where it begins, ...
    """
    try:
        with readable(f"priors[{shown(name)}]", text):
            if "(" in text:
                _check_name(text.partition("(")[0].strip())
            return _distribution(f"priors[{shown(name)}] is {quoted(text)}", tree_of(text.strip()))
    except InputError:
        raise
    except LookupError as error:
        hint = f"{error}"
    except (ValueError, SyntaxError, TypeError):
        hint = (
            " (a flat prior leaves a model without an evidence); write a continuous distribution "
            "of scipy.stats with numbers, such as 'norm(0, 10)' or 'halfnorm(scale=2)'"
        )
    raise InputError(f"priors[{shown(name)}] is {quoted(text)}, which is no proper density{hint}")


def _check_name(name: str) -> None:
    """What is before the bracket, by a name that other packages have for it."""
    family = _family(name)
    if isinstance(family, stats.rv_continuous) or not name[:1].isalpha():
        return
    known = [n for n, d in vars(stats).items() if isinstance(d, stats.rv_continuous)] + ["halft"]
    hint = suggest(name, known, _MEANT)
    if (family is None or isinstance(family, type)) and hint != ".":
        usual = next((n for n in _OF_SCALE if f"{n!r}" in hint), None)
        raise LookupError(f"{hint} Its scale has a name, {_OF_SCALE[usual]}" if usual else hint)


def _family(name: str) -> object:
    half_t = HalfT(a=0.0, name="halft")
    return half_t if name == "halft" else getattr(stats, name, None)


def _distribution(told: str, call: ast.expr) -> stats.distributions.rv_frozen:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError
    family = _family(call.func.id)
    if not isinstance(family, stats.rv_continuous):
        raise ValueError
    words = {str(k.arg): _number(k.value) for k in call.keywords}
    given = list(map(_number, call.args))
    begins = given[family.numargs : family.numargs + 1]
    if begins and begins[0] and (family.a, family.b) == (0.0, np.inf):
        shapes = ", ".join(f"{number:g}" for number in given[: family.numargs])
        raise InputError(
            f"{told}: the last number is where it begins, SciPy's loc; write its scale by name, "
            f"{call.func.id}({shapes}{', ' * bool(shapes)}scale={begins[0]:g}), of a rate 1 over "
            "it, or loc= where you mean that"
        )
    return family(*given, **words)


def _number(node: ast.expr) -> float:
    value = ast.literal_eval(node)
    if not isinstance(value, int | float):
        raise ValueError
    return value
