"""How a :class:`.GPModel` stores its prior: as a matrix, or by a structure that its kernel has.

``structure="auto"`` is dense up to N = 2000; above, the first structure of the table whose kernels
and inputs these are; else dense while :math:`10 N^2` numbers fit into the machine's memory and a
fit of EP takes less than an hour or so. What does not fit is refused before memory is touched.
``"vecchia"`` is an approximation and must be asked for by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ..execution.arguments import machine_memory, shown
from ..execution.lazy import Kernel
from ..gaussians.base import Prior
from ..gaussians.markov import MarkovPrior
from ..gaussians.sparse import Pattern
from ..messages import InputError, suggest
from ..numerics.arrays import Array
from .kernels import statespace
from .kernels.vecchia import MOST_DIMENSIONS, Neighbours, VecchiaPrior

_ALWAYS_DENSE = 2000
_SWEEPS = 30  # of a fit
_SPEED = 4e10  # operations a second with a sparse factor, of which a sweep takes three
_VECCHIA = re.compile(r"vecchia(?:\(m=([1-9]\d{0,5})\))?")


class WithJitter(NamedTuple):
    """A prior, and what was added to the variances of its kernel."""

    prior: Prior
    jitter: float


class Structure(NamedTuple):
    """One way of storing a prior."""

    needs: str
    suits: Callable[[Kernel, Array | None], bool]
    """Whether kernel and inputs have it."""
    prior: Callable[[Kernel, Array, Array, float, Prior | None, int | None], WithJitter] | None
    """From kernel, inputs, mean, relative jitter, one of the same data, and number of neighbours;
    None where K is made and factorised."""
    gigabytes: Callable[[float], float]
    """Of N."""
    seconds: Callable[[float], float]
    """Of a fit, roughly."""


def _markov(
    kernel: Kernel, X: Array, mean: Array, jitter: float, like: Prior | None, m: int | None
) -> WithJitter:
    prior = MarkovPrior(mean, statespace.chain(kernel, X, jitter))
    return WithJitter(prior, jitter / (1.0 + jitter) * float(prior.variances.mean()))


def _vecchia(
    kernel: Kernel, X: Array, mean: Array, jitter: float, like: Prior | None, m: int | None, *,
    entry: float = 1.1e-7,
) -> WithJitter:  # fmt: skip
    """Order, neighbours and pattern are those of ``like`` where it has as many neighbours.

    ``entry``: gigabytes for a number of the factor, EP and draws at their largest.
    """
    assert m is not None
    if isinstance(like, VecchiaPrior) and like.neighbours.m == m:
        neighbours, pattern = like.neighbours, like.pattern
    else:
        neighbours = Neighbours.of(kernel, X, m)
        analysis = neighbours.analysis
        gigabytes = entry * float(analysis.panels.offsets[-1])
        _check_vecchia(len(X), m, gigabytes, _SWEEPS * 3.0 * analysis.flops / _SPEED)
        pattern = Pattern.upon(analysis, neighbours.design)
    prior = VecchiaPrior(kernel, neighbours, mean, jitter, pattern)
    return WithJitter(prior, prior.jitter)


STRUCTURES = {
    "markov": Structure(
        f"inputs on a line and {statespace.FORMS}", statespace.has_chain, _markov,
        lambda n: 5e-7 * n,
        lambda n: _SWEEPS * 2e-6 * n,
    ),
    "vecchia": Structure(
        f"any kernel in up to {MOST_DIMENSIONS} dimensions, an approximation",
        lambda kernel, X: False, _vecchia,
        lambda n: 1.8 * (n / 20000.0) ** 1.32,
        lambda n: _SWEEPS * 3.0 * 1.5e10 * (n / 20000.0) ** 1.78 / _SPEED,
    ),
    "dense": Structure(
        "any kernel, or K", lambda kernel, X: True, None,
        lambda n: 8e-8 * n**2,
        lambda n: _SWEEPS * 2.5 * n**3 / 5e10,
    ),
}  # fmt: skip


def choose(
    structure: object, n: int, kernel: Kernel, X: Array | None, *, patient: float = 3600.0,
    neighbours: int = 30,
) -> str:  # fmt: skip
    """The name of the structure; an error where it is unknown, or too large for this machine.

    ``patient``: seconds for a fit that nobody asked for by name; ``neighbours``: on whom a datum
    depends.
    """
    names = ("auto", *STRUCTURES)
    if (vecchia := _VECCHIA.fullmatch(re.sub(r"\s", "", str(structure)))) is not None:
        if X is None or kernel is None:
            raise InputError(f"structure={structure!r} needs kernel= and X, got K")
        return f"vecchia(m={vecchia[1] or neighbours})"
    if not isinstance(structure, str) or structure not in names:
        raise InputError(
            f"structure must be one of {', '.join(map(repr, names))}, got {shown(structure)}"
            f"{suggest(structure, names)}"
        )
    patience = patient if structure == "auto" else float("inf")
    if structure == "auto":
        suited = (name for name, one in STRUCTURES.items() if one.suits(kernel, X))
        structure = "dense" if n <= _ALWAYS_DENSE else next(suited)
    if structure == "dense":
        _check_size(n, patience)
    elif X is None or kernel is None:
        raise InputError(f"structure={structure!r} needs kernel= and X, got K")
    return str(structure)


def make(
    structure: str, kernel: Kernel, X: Array, mean: Array, jitter: float, like: Prior | None
) -> WithJitter:
    """The prior of a structure as :func:`choose` names it, which is no matrix.

    What does not depend on hyperparameters is taken from ``like``, a prior of the same data.
    """
    vecchia = _VECCHIA.fullmatch(structure)
    prior = STRUCTURES["vecchia" if vecchia else structure].prior
    assert prior is not None
    return prior(kernel, X, mean, jitter, like, int(vecchia[1]) if vecchia else None)


def _check_vecchia(
    n: int, m: int, gigabytes: float, seconds: float, *, longest: float = 86400.0
) -> None:
    """``longest``: seconds for a fit that somebody asked for."""
    there = machine_memory() / 1e9
    if gigabytes <= there and seconds <= longest:
        return
    dense = STRUCTURES["dense"]
    raise InputError(
        f"structure='vecchia(m={m})' takes {gigabytes:,.2g} GB of memory, where this machine has "
        f"{there:,.0f} GB, and {_in_words(seconds)} for a fit of N={n} observations; "
        f"alternatives: fewer neighbours, 'vecchia(m={max(m // 2, 1)})'; structure='markov' for "
        f"{STRUCTURES['markov'].needs}; structure='dense' ({dense.gigabytes(n):,.2g} GB, "
        f"{_in_words(dense.seconds(n))}); fewer data"
    )


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
