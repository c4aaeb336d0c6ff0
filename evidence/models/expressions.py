"""Text that stands for something is parsed, never evaluated: what all its readers share."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ..messages import InputError

LONGEST = 2000  # characters; what people write by hand has dozens


@contextmanager
def readable(argument: str, text: str, longest: int = LONGEST) -> Iterator[None]:
    """Around what reads ``text``: one line where it is too long, or nested too deeply to read.

    >>> with readable("kernel", "RBF(1.5)", longest=3):
    ...     pass
    Traceback (most recent call last):
    evidence.InputError: kernel: 8 characters are too many (limit 3)
    """
    check_length(argument, text, longest)
    try:
        yield
    except RecursionError:
        raise InputError(
            f"{argument}: the text is nested too deeply or has too many parts"
        ) from None


def check_length(argument: str, text: str, longest: int = LONGEST) -> None:
    """Refuse text that nobody wrote by hand."""
    if len(text) > longest:
        raise InputError(f"{argument}: {len(text)} characters are too many (limit {longest})")


def quoted(text: str, *, shown: int = 60) -> str:
    """Text in a message, cut where it is long.

    ``shown``: characters of it in a message.
    """
    return repr(text if len(text) <= shown else f"{text[: shown - 3]}…")


def tree_of(text: str) -> ast.expr:
    """The syntax tree of an expression of Python; RecursionError where that is too deep.

    >>> type(tree_of("RBF(1.5)")).__name__
    'Call'
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python would warn about, readers refuse
            return ast.parse(text, mode="eval").body
    except MemoryError:  # of the parser's stack, not the machine's
        raise RecursionError from None
    except SyntaxError as error:
        if "too many nested" in error.msg:
            raise RecursionError from None
        raise
