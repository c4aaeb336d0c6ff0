"""Keywords by the names that other packages have for them, answered with those of this one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from ..messages import InputError, suggest

#: what is meant by names of other packages, folded as :func:`.suggest` does
_OTHERS = {
    "random_seed": "seed rng randomstate key rngkey", "likelihood": "family",
    "max_seconds": "maxtime timeout", "target_se": "tol tolerance dlogz accuracy",
    "max_evaluations": "maxcall maxcalls maxncalls", "n_particles": "nlive nsamples ndraws",
    "progressbar": "progress quiet silent verbose", "executor": "pool cores njobs nworkers",
}  # fmt: skip
MEANT = {word: meant for meant, words in _OTHERS.items() for word in words.split()}
_P = ParamSpec("_P")
_R = TypeVar("_R")


def hinted(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function without ``**options`` that says which of its arguments may have been meant.

    >>> @hinted
    ... def draw(n, *, random_seed=None):
    ...     return n
    >>> draw(3, random_seed=0)
    3
    >>> draw(3, seed=0)
    Traceback (most recent call last):
        ...
    TypeError: draw() has no argument 'seed'; did you mean 'random_seed'? (it takes n, random_seed)
    """

    @cache  # most programs ask few functions
    def known() -> tuple[str, ...]:
        return tuple(name for name in inspect.signature(function).parameters if name != "self")

    @wraps(function)
    def answering(*args: _P.args, **words: _P.kwargs) -> _R:
        for word in words.keys() - known():
            hint = suggest(word, known(), MEANT)
            name = function.__qualname__.removesuffix(".__init__")
            takes = ", ".join(known())
            raise TypeError(f"{name}() has no argument {word!r}{hint} (it takes {takes})")
        return function(*args, **words)

    return answering


def also(**synonyms: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A function that takes some keywords by a second name, too; not by both at once.

    >>> @also(family="likelihood")
    ... def fit(y, *, likelihood="gaussian"):
    ...     return likelihood
    >>> fit(3, family="poisson")
    'poisson'
    >>> fit(3, family="poisson", likelihood="gamma")
    Traceback (most recent call last):
    evidence.InputError: family= and likelihood= of fit() are the same; give one of them
    """

    def taking(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def renaming(*args: _P.args, **words: _P.kwargs) -> _R:
            for word, name in synonyms.items():
                if word in words and name in words:
                    raise InputError(
                        f"{word}= and {name}= of {function.__name__}() are the same; give one of "
                        "them"
                    )
                if word in words:
                    words[name] = words.pop(word)
            return function(*args, **words)

        return renaming

    return taking
