"""What a move is.

A move changes a *batch* of states and leaves p_β invariant, row by row::

    state = move.init(path, x)                       # cache what steps need
    state, info = move.step(rng, path, beta, state)  # one transition per row

``State`` is a named tuple of arrays whose first axis is the batch, so a driver reorders
particles with :func:`take` and reads ``state.tilt`` for weights, knowing nothing else.
β enters only ``step``: a state stays valid when its temperature changes.
``Info`` is for diagnostics and adaptation only.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..path import Path

Array = NDArray[np.float64]


class Info(NamedTuple):
    """Acceptance probability per row and the number of rows whose numerics failed."""

    acceptance: Array
    failures: int


class State(Protocol):
    """Anything with a batch of tilts."""

    tilt: Array


StateT = TypeVar("StateT", bound=Any)


class Move(Protocol):
    """A transition kernel; ``step_size`` is what drivers adapt towards ``target``."""

    name: str
    step_size: float
    target: float

    def init(self, path: Path, x: Array) -> Any: ...

    def init_reference(self, rng: np.random.Generator, path: Path, m: int) -> Any:
        """A state of ``m`` exact draws from the reference."""
        ...

    def step(
        self, rng: np.random.Generator, path: Path, beta: float | Array, state: Any
    ) -> tuple[Any, Info]: ...

    def latent(self, path: Path, state: Any) -> Array:
        """The batch x of a state, shape (M, N)."""
        ...


def take(state: StateT, index: NDArray[np.intp]) -> StateT:
    """Rows ``index`` of a state, as in resampling."""
    return type(state)(*(field[index] for field in state))
