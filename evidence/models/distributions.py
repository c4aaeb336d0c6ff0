"""Distributions of scipy.stats from text such as ``"norm(0, 2)"``: parsed, never evaluated."""

from __future__ import annotations

import ast
from typing import Any

from scipy import stats

from ..execution.arguments import shown
from ..messages import InputError, suggest
from .expressions import check_length, quoted, readable, tree_of

_MEANT = {
    word: family
    for family, words in {
        "expon": "exponential",
        "halfcauchy": "cauchy+ halfstudentt halft studentt+",  # a half-t there is none of
        "halfnorm": "halfgaussian halfn halfnormal normal+",
        "invgamma": "inversegamma",
        "lognorm": "lognormal",
        "norm": "gauss gaussian n normal",
        "t": "student studentt",
    }.items()
    for word in words.split()
}
_OF_SCALE = ("expon", "halfcauchy", "halfnorm")  # whose first argument is where they begin


def from_text(name: str, text: str) -> Any:
    """The distribution of scipy.stats that a text such as ``"norm(0, 2)"`` describes.

    >>> from_text("x", "norm(0, scale=2)").std()
    np.float64(2.0)
    """
    check_length(f"priors[{name!r}]", text)
    try:
        with readable(f"priors[{shown(name)}]", text):
            if "(" in text:
                _check_name(text.partition("(")[0].strip())
            return _distribution(tree_of(text.strip()))
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
    family = getattr(stats, name, None)
    if isinstance(family, stats.rv_continuous) or not name[:1].isalpha():
        return
    known = [n for n, d in vars(stats).items() if isinstance(d, stats.rv_continuous)]
    hint = suggest(name, known, _MEANT)
    if (family is None or isinstance(family, type)) and hint != ".":
        usual = next((n for n in _OF_SCALE if f"{n!r}" in hint), None)
        raise LookupError(f"{hint} Its scale has a name, {usual}(scale=2)" if usual else hint)


def _distribution(call: ast.expr) -> Any:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError
    family = getattr(stats, call.func.id, None)
    if not isinstance(family, stats.rv_continuous):
        raise ValueError
    words = {str(k.arg): _number(k.value) for k in call.keywords}
    return family(*map(_number, call.args), **words)


def _number(node: ast.expr) -> float:
    value = ast.literal_eval(node)
    if not isinstance(value, int | float):
        raise ValueError
    return value
