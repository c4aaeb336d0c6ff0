r"""How to add a move: one step that leaves every tempered density invariant.

A move changes a *batch* of states and leaves p_β invariant, row by row::

    state = move.init(path, x)                       # cache what steps need
    state, info = move.step(rng, path, beta, state)  # one transition per row

``State`` is a named tuple of arrays whose first axis is the batch, so a driver reorders
particles with :func:`take` and reads ``state.tilt`` for weights, knowing nothing else.
β, a number or one per row, enters only ``step``: a state stays valid when its temperature
changes. ``Info`` is for diagnostics and adaptation only.

To write a new one, derive from :class:`GradientMove` (which keeps coordinates a, tilt and its
slope there) or :class:`LatentMove` (latent values and tilt), write ``step`` and end it with
:func:`metropolis`. In coordinates the base is N(0, diag γ), so that
:math:`\log p_\beta = \beta h - \tfrac12 \sum a^2/\gamma + \mathrm{const}`. Barker's proposal
(Livingstone and Zanella 2022), whose steps prefer the side that the gradient points to:

>>> from dataclasses import dataclass
>>> import numpy as np
>>> import evidence as ev
>>> from evidence.moves.base import GradientMove, metropolis, per_row
>>> @dataclass
... class Barker(GradientMove):
...     target: float = 0.6
...     name: str = "barker"
...
...     def step(self, rng, path, beta, state):
...         frame, beta = self.frame(path), per_row(beta, len(state.a))
...         def force(s):
...             return beta[:, None] * s.slope - s.a / frame.gamma
...         def log_density(s):
...             return beta * s.tilt - 0.5 * np.sum(s.a**2 / frame.gamma, axis=1)
...         z = self.step_size * rng.standard_normal(state.a.shape)
...         towards = rng.random(z.shape) < 1.0 / (1.0 + np.exp(-z * force(state)))
...         z = np.where(towards, z, -z)
...         new = self.evaluate(path, frame, state.a + z)
...         ratio = np.logaddexp(0.0, -z * force(state)) - np.logaddexp(0.0, z * force(new))
...         log_ratio = log_density(new) - log_density(state) + ratio.sum(axis=1)
...         return metropolis(rng, log_ratio, state, new)

It serves every model, driver and method at once. The evidence of two opposite probit labels is
:math:`\log(\arccos(\tfrac13) / 2\pi)` here:

>>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
>>> draws = ev.sample(model, move=Barker(), draws=500, tune=200, random_seed=0, progressbar=False)
>>> bool(draws.rhat < 1.05), bool(0.4 < draws.acceptance.mean() < 0.8)
(True, True)
>>> result = ev.log_evidence(
...     model, method="smc", move=Barker(), reference="prior", random_seed=0, progressbar=False
... )
>>> bool(abs(result.logz - np.log(np.arccos(1 / 3) / (2 * np.pi))) < 4 * result.logz_se)
True

A move of the package is a file beside this one, with its name in :mod:`.registry` and in
``tests/moves/test_invariance.py``, where exact draws have to stay exact draws.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..numerics.arrays import Rng
from ..numerics.copies import copy
from ..numerics.jit import jit
from ..numerics.normal import standard_normal
from ..paths.base import Array, TemperedPath
from ..paths.coordinates import Frame

Beta = float | Array  # a number, or one per row

Proposed = tuple[Array, tuple[Array | float, ...]]  # and what a ratio has to know of it


class Info(NamedTuple):
    """What a step tells: for diagnostics and adaptation only."""

    acceptance: Array
    """Acceptance probability of each row, (M,)."""
    failures: int
    """Rows whose numerics failed: rejected, and counted."""
    gradients: int
    """Evaluations of a row's log-likelihood, its gradient or its metric."""


class State(Protocol):
    """What drivers read of the state of any move."""

    @property
    def tilt(self) -> Array: ...


StateT = TypeVar("StateT", bound=Any)
KeyT = TypeVar("KeyT", bound=Any)


class Move(ABC, Generic[StateT]):
    """One step of a batch of states, one row each. To write: where to start, and the step."""

    name: str
    """What results call it."""
    step_size: float
    """What drivers adapt, during burn-in and between temperatures."""
    target: float | None
    """The acceptance probability they adapt it towards; None where nothing needs tuning."""
    longest: ClassVar[float] = math.inf
    """What they adapt it up to: longer steps would be the same ones, accepted as often."""
    riemannian: ClassVar[bool] = False
    """Whether it follows a curvature that depends on the position."""

    @abstractmethod
    def init(self, path: TemperedPath, x: Array) -> StateT:
        """The state at latent values ``x``, shape (M, N)."""

    @abstractmethod
    def init_reference(self, rng: Rng, path: TemperedPath, m: int) -> StateT:
        """A state of ``m`` exact draws from the reference."""

    @abstractmethod
    def step(self, rng: Rng, path: TemperedPath, beta: Beta, state: StateT) -> tuple[StateT, Info]:
        """One transition of every row that leaves p_β invariant; β a number or one per row."""

    def latent(self, path: TemperedPath, state: StateT) -> Array:
        """The batch x of a state, shape (M, N)."""
        return self.to_latent(path, state[0])

    def to_latent(self, path: TemperedPath, position: Array) -> Array:
        """x from the first field of states, any number of rows."""
        return position

    def prepare(self, path: TemperedPath) -> None:
        """Compute what is computed once per path, before it goes to other processes."""
        path.coordinates("base")

    def stretch(self, path: TemperedPath, rows: int) -> int:
        """How many steps of so many rows :meth:`run` makes best at once; 1: it is not called."""
        return 1

    def run(
        self, rng: Rng, path: TemperedPath, beta: Beta, state: StateT, steps: int, every: int
    ) -> tuple[StateT, Array, Array, Info]:
        """Many steps in one call: the last state, x and tilt of every ``every``-th one, (M, K, N)
        and (M, K), and what the steps tell, acceptances summed."""
        raise NotImplementedError


class Slope(NamedTuple):
    """Coordinates, tilt and the tilt's gradient in these coordinates."""

    a: Array
    tilt: Array
    slope: Array


class Latent(NamedTuple):
    """Latent values and tilt."""

    x: Array
    tilt: Array


@dataclass
class GradientMove(Move[Slope]):
    """What moves that follow the tilt's gradient share: two N × N products per evaluation.

    Parameters
    ----------
    step_size : float
    coordinates : str, optional
        One of :mod:`evidence.paths.coordinates`; by default the base's own, whitened.
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.
    """

    step_size: float = 1.0
    coordinates: str | None = None
    target: float | None = None
    name: str = ""

    def frame(self, path: TemperedPath) -> Frame:
        """The map to and from the coordinates in use."""
        return path.coordinates(self.coordinates or "base")

    def prepare(self, path: TemperedPath) -> None:
        self.frame(path)

    def evaluate(self, path: TemperedPath, frame: Frame, a: Array) -> Slope:
        """Tilt and slope at ``a``."""
        return Slope(a, *path.tilt_and_slope(frame, a))

    def init(self, path: TemperedPath, x: Array) -> Slope:
        """Cache coordinates, tilt and slope of the batch ``x``."""
        frame = self.frame(path)
        return self.evaluate(path, frame, frame.from_latent(x))

    def init_reference(self, rng: Rng, path: TemperedPath, m: int) -> Slope:
        """``m`` exact draws from the reference."""
        frame = self.frame(path)
        return self.evaluate(path, frame, standard_normal(rng, (m, path.n)) * frame.root)

    def to_latent(self, path: TemperedPath, position: Array) -> Array:
        return self.frame(path).to_latent(position)

    log_ratio: ClassVar[Callable[..., None]]
    """Compiled: fills its last argument, from two states, β and what :meth:`propose` adds."""

    def propose(self, rng: Rng, frame: Frame, beta: Array, state: Slope) -> Proposed:
        """One proposal per row, and what :attr:`log_ratio` has to know of them."""
        raise NotImplementedError

    def step(self, rng: Rng, path: TemperedPath, beta: Beta, state: Slope) -> tuple[Slope, Info]:
        """Propose, evaluate, accept or reject; moves that do more have their own."""
        frame, beta = self.frame(path), per_row(beta, len(state.a))
        a, known = self.propose(rng, frame, beta, state)
        new, log_ratio = self.evaluate(path, frame, a), np.empty(len(a))
        self.log_ratio(*state, *new, beta, *known, log_ratio)
        return metropolis(rng, log_ratio, state, new)


@dataclass
class LatentMove(Move[Latent]):
    """What moves without a gradient share.

    Parameters
    ----------
    step_size : float
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.
    """

    step_size: float = 1.0
    target: float | None = None
    name: str = ""

    def draw(self, rng: Rng, path: TemperedPath, m: int) -> Array:
        """``m`` exact draws from the reference, minus its mean."""
        return path.coordinates("base").turn(standard_normal(rng, (m, path.n)))

    def init(self, path: TemperedPath, x: Array) -> Latent:
        """Cache the tilt of the batch ``x``."""
        x = np.array(x, dtype=float, order="C")
        return Latent(x, path.tilt(x))

    def init_reference(self, rng: Rng, path: TemperedPath, m: int) -> Latent:
        """``m`` exact draws from the reference."""
        return self.init(path, path.mean + self.draw(rng, path, m))


def kept(build: Callable[[KeyT], StateT]) -> Callable[[KeyT], StateT]:
    """Let ``build(key)`` be called once for every object, and keep the result as long as that
    lives: a move is a description, copied at every temperature, and holds no such thing."""
    made: WeakKeyDictionary[KeyT, StateT] = WeakKeyDictionary()

    @wraps(build)
    def get(key: KeyT) -> StateT:
        if key not in made:
            made[key] = build(key)
        return made[key]

    return get


def per_row(beta: Beta, m: int) -> Array:
    """β as one number per row."""
    return np.full(m, beta, dtype=float)


@jit
def _decide(log_ratio, u, acceptance, rejected):
    """Fill acceptances and the rejected rows; return how many, and how many ratios are NaN."""
    count, failed = 0, 0
    for m in range(log_ratio.size):
        ratio = log_ratio[m]
        acceptance[m] = np.exp(min(ratio, 0.0)) if ratio == ratio else 0.0
        if ratio != ratio:
            failed += 1
        if not u[m] < acceptance[m]:
            rejected[count] = m
            count += 1
    return count, failed


@jit
def _put_back(before, after, rows):
    """Give some rows their old values."""
    for m in rows:
        copy(before[m], after[m])


def metropolis(
    rng: Rng, log_ratio: Array, old: StateT, new: StateT, gradients: int = 1
) -> tuple[StateT, Info]:
    """Accept rows of ``new`` with probability min(1, exp(log_ratio)), in place.

    A ratio that is not a number is a rejection and counts as a failure.
    """
    m = log_ratio.size
    acceptance, rejected = np.empty(m), np.empty(m, np.intp)
    count, failed = _decide(log_ratio, rng.random(m), acceptance, rejected)
    if count:
        rejected = rejected[:count]
        for before, after in zip(old, new, strict=True):
            if after.ndim == 2:
                _put_back(before, after, rejected)
            else:
                after[rejected] = before[rejected]
    return new, Info(acceptance, failed, gradients * m)


def quarter_turn(step_size: float, *, longest: int = 64) -> int:
    """Steps that turn a unit oscillator by about π/2: where mass and posterior match, the
    trajectory then ends where it has forgotten its start.

    >>> quarter_turn(0.5), quarter_turn(2.0)
    (3, 1)

    ``longest``: steps of a trajectory whose number of steps is not given.
    """
    return int(min(max(1, round(0.5 * np.pi / step_size)), longest))


def take(state: StateT, index: NDArray[np.intp]) -> StateT:
    """Rows ``index`` of a state, as in resampling."""
    return type(state)(*(field[index] for field in state))


def stacked(states: list[StateT]) -> StateT:
    """Rows of one state after those of another."""
    if len(states) == 1:
        return states[0]
    return type(states[0])(*(np.concatenate(fields) for fields in zip(*states, strict=True)))


def scaled(move: Any, factor: float) -> Any:
    """The move with its step size multiplied; the move itself where there is nothing to tune.

    A trajectory keeps its number of steps: a small factor makes it short, not fine.
    """
    if move.target is None or factor == 1.0:
        return move
    changes = {"step_size": move.step_size * factor}
    if getattr(move, "n_leapfrog", 0) is None:
        changes["n_leapfrog"] = quarter_turn(move.step_size)
    return replace(move, **changes)
