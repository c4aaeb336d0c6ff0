"""How a :class:`.GPModel` stores its prior: as a matrix, or by a structure that its kernel has.

``structure="auto"`` is dense up to N = 2000; above, the first structure of the table whose kernels
and inputs these are; else dense while :math:`10 N^2` numbers fit into the machine's memory and a
fit of EP takes less than an hour or so. What does not fit is refused before memory is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..execution.arguments import machine_memory, shown
from ..gaussians.base import Prior
from ..gaussians.markov import MarkovPrior
from ..messages import InputError, suggest
from ..numerics.arrays import Array
from .kernels import statespace

_ALWAYS_DENSE = 2000
_PATIENCE = 3600.0  # seconds for a fit that nobody asked for by name
_SWEEPS = 30  # of a fit


class Structure(NamedTuple):
    """One way of storing a prior."""

    needs: str
    suits: Callable[[Any, Array | None], bool]
    """Whether kernel and inputs have it."""
    prior: Callable[[Any, Array, Array, float], Prior] | None
    """From kernel, inputs, mean and relative jitter; None where K is made and factorised."""
    gigabytes: Callable[[float], float]
    """Of N."""
    seconds: Callable[[float], float]
    """Of a fit, roughly."""


def _markov(kernel: Any, X: Array, mean: Array, jitter: float) -> Prior:
    return MarkovPrior(mean, statespace.chain(kernel, X, jitter))


STRUCTURES = {
    "markov": Structure(
        f"inputs on a line and {statespace.FORMS}",
        statespace.has_chain,
        _markov,
        lambda n: 5e-7 * n,
        lambda n: _SWEEPS * 2e-6 * n,
    ),
    "dense": Structure(
        "any kernel, or K",
        lambda kernel, X: True,
        None,
        lambda n: 8e-8 * n**2,
        lambda n: _SWEEPS * 2.5 * n**3 / 5e10,
    ),
}


def choose(structure: Any, n: int, kernel: Any, X: Array | None) -> str:
    """The name of the structure; an error where it is unknown, or too large for this machine."""
    names = ("auto", *STRUCTURES)
    if structure not in names:
        raise InputError(
            f"structure must be one of {', '.join(map(repr, names))}, got {shown(structure)}"
            f"{suggest(structure, names)}"
        )
    patience = _PATIENCE if structure == "auto" else float("inf")
    if structure == "auto":
        suited = (name for name, one in STRUCTURES.items() if one.suits(kernel, X))
        structure = "dense" if n <= _ALWAYS_DENSE else next(suited)
    if structure == "dense":
        _check_size(n, patience)
    elif X is None or kernel is None:
        raise InputError(f"structure={structure!r} needs kernel= and X, got K")
    return str(structure)


def _check_size(n: int, patience: float) -> None:
    dense, there = STRUCTURES["dense"], machine_memory() / 1e9
    if dense.gigabytes(n) <= there and (n <= _ALWAYS_DENSE or dense.seconds(n) <= patience):
        return
    others = (
        f"structure={name!r} ({one.gigabytes(n):.2g} GB, {_in_words(one.seconds(n))}) for "
        f"{one.needs}"
        for name, one in STRUCTURES.items()
        if name != "dense"
    )
    raise InputError(
        f"y has N={n} observations, too many for structure='dense': "
        f"{dense.gigabytes(n):,.0f} GB of memory, where this machine has {there:,.0f} GB, and "
        f"{_in_words(dense.seconds(n))} for a fit; alternatives: {'; '.join(others)}; fewer data"
    )


def _in_words(seconds: float) -> str:
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds > size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
