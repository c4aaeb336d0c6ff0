"""The way of a Hamiltonian trajectory, for looking at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...execution.arguments import array, shown
from ...execution.keywords import hinted
from ...messages import InputError
from ...models.density.model import DensityModel
from ...paths.density import DensityPath, own_path
from ..base import Array, TemperedPath, per_row
from ..riemannian import OK, End
from ..riemannian.dense.field import DensityField
from ..riemannian.rmhmc import RiemannHMC
from .hmc import HMC, log_density

Points = Iterator[tuple[Array, float]]  # and their errors of the energy


class Trajectory(NamedTuple):
    """Points along one trajectory and how far its energy is off at each."""

    x: Array
    """(steps + 1, N) latent values, the start first; NaN after a step that failed."""
    energy_error: Array
    """(steps + 1,) H at the point minus H at the start; a point is accepted with exp(-this)."""


@hinted
def trajectory(
    move: object, target: DensityModel | TemperedPath, x: ArrayLike, *, n_steps: int | None = None,
    beta: float = 1.0, random_seed: int = 0,
) -> Trajectory:  # fmt: skip
    """Follow one trajectory of Hamiltonian or Riemannian Monte Carlo step by step.

    Parameters
    ----------
    move : HMC, RMHMC, MidpointRMHMC or ExplicitRMHMC
        Its step size and metric are used; jitter is left out, and nothing is accepted or
        rejected.
    target : DensityModel or Path
        A density, in its own coordinates; or the path of any model, for HMC.
    x : array (N,)
        Where it starts.
    n_steps : int, optional
        Leapfrog steps; by default the move's own number.
    beta : float
        Inverse temperature.
    random_seed : int
        For the momentum, and for the copies of the explicit integrator.

    Examples
    --------
    >>> import evidence as ev
    >>> banana = ev.examples.banana().model
    >>> way = ev.moves.trajectory(ev.moves.HMC(0.1, coordinates="identity"), banana, [0.0, 0.0])
    >>> way.x.shape[1], bool(abs(way.energy_error).max() < 0.5)
    (2, True)
    """
    if not isinstance(move, HMC | RiemannHMC):
        raise InputError(f"move must be HMC or a kind of Riemannian HMC, got {shown(move)}")
    path = own_path(target) if isinstance(target, DensityModel) else target
    if isinstance(move, RiemannHMC) and not path.dense:
        raise InputError("trajectories of Riemannian moves are followed for densities only")
    start = array("x", x, (path.n,), (1, path.n)).reshape(1, path.n)
    total = n_steps or move.n_leapfrog or int(np.ceil(np.pi / 2 / move.step_size))
    points, errors = np.full((total + 1, path.n), np.nan), np.full(total + 1, np.nan)
    points[0], errors[0] = start[0], 0.0
    still = replace(move, jitter=0.0, n_leapfrog=total)
    follow: Callable[..., Points] = _riemannian if isinstance(move, RiemannHMC) else _constant
    for k, (point, error) in enumerate(follow(still, path, start, beta, random_seed)):
        points[k + 1], errors[k + 1] = point, error
    return Trajectory(points, errors)


def _constant(move: HMC, path: TemperedPath, x: Array, beta: float, seed: int) -> Points:
    rng, row, state = np.random.default_rng(seed), per_row(beta, 1), move.init(path, x)
    p, eps = rng.standard_normal(x.shape), np.full(1, move.step_size)
    gamma = move.frame(path).gamma

    def log_p() -> float:
        out = np.empty(1)
        log_density(state.a, state.tilt, p, row, gamma, out)
        return float(out[0])

    before = log_p()
    assert move.n_leapfrog is not None
    for _ in range(move.n_leapfrog):
        state, p = move.integrate(path, row, state, p, eps, 1)
        yield move.latent(path, state)[0], before - log_p()


def _riemannian(move: RiemannHMC, path: DensityPath, x: Array, beta: float, seed: int) -> Points:
    field, ends = DensityField(path, per_row(beta, 1)), list[End]()
    with np.errstate(all="ignore"):
        start, eps = field.point(x), np.full(1, move.step_size)
        move.trajectories(np.random.default_rng(seed), field, start, eps, ends)
    for end in ends:
        if end.code[0] == OK:
            yield end.y[0], float(-end.log_ratio[0])
