"""What the package says to its users: mistakes as errors, doubts as warnings with a code.

It says nothing about when: rooms raise and collect these where they notice something.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping


class InputError(ValueError):
    """A mistake in what was asked for: one line names the argument, what came, what would do.

    >>> import evidence as ev
    >>> ev.GPModel([0.0, 1.0], [1, -1], "RBF(1.0)", likelihood="probt")
    Traceback (most recent call last):
    evidence.InputError: likelihood: unknown name 'probt'; did you mean 'probit'? ...
    """

    def __init__(self, text: object) -> None:
        super().__init__(" ".join(str(text).split()))


InputError.__module__ = "evidence"  # its public name, in tracebacks and pickles


class Message(str):
    """A warning: a text, and a code that programs may rely on.

    >>> warning = Message("ep-not-converged", "EP did not converge in 200 sweeps")
    >>> warning.code, warning == "EP did not converge in 200 sweeps"
    ('ep-not-converged', True)
    """

    __slots__ = ("code",)
    code: str

    def __new__(cls, code: str, text: str) -> Message:
        message = super().__new__(cls, text)
        message.code = code
        return message

    def __reduce__(self) -> tuple[type[Message], tuple[str, str]]:
        return Message, (self.code, str(self))


def messages(texts: Iterable[str]) -> tuple[Message, ...]:
    """Each text once, as a :class:`Message`; one that came without a code has an empty one.

    >>> [(one.code, one) for one in messages(["a text", Message("few", "two"), "a text"])]
    [('', 'a text'), ('few', 'two')]
    """
    coded = (text if isinstance(text, Message) else Message("", text) for text in texts)
    return tuple(dict.fromkeys(coded))


def suggest(
    word: object, choices: Iterable[str], meant: Mapping[str, str] | None = None, *,
    longest: int = 200,
) -> str:  # fmt: skip
    """``"; did you mean 'probit'?"`` where a choice is close, else ``"."``.

    Case, blanks, hyphens and underscores do not count; ``meant`` adds synonyms.

    >>> suggest("Probt", ["probit", "logit"]), suggest("x", ["probit"])
    ("; did you mean 'probit'?", '.')

    ``longest``: characters of a word that choices are compared with.
    """
    folded = {_fold(choice): choice for choice in choices}
    try:
        key = _fold(str(word))[:longest]
    except Exception:  # other people's objects may refuse to be shown
        return "."
    close = [folded[k] for k in difflib.get_close_matches(key, folded, n=1, cutoff=0.45)]
    if meant and meant.get(key) in folded.values():
        close = [meant[key]]
    return f"; did you mean {close[0]!r}?" if close else "."


def _fold(word: str) -> str:
    return re.sub(r"[\s_-]", "", word).lower()
