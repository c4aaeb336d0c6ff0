"""A grid of hyperparameters: independent cells, each with a seed of its own.

They run on all cores, in processes or on a cluster, and a checkpoint keeps those that are
finished. What is computed in a cell is the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..drivers.stopping import run_pieces
from ..execution.arguments import array, shown
from ..execution.checkpoint import Checkpoint
from ..execution.clock import Clock
from ..execution.job import Job
from ..execution.progress import progress_line
from ..messages import InputError, Message, messages
from ..models.hyperparameters import Hyperparameters
from ..models.scales import to_line
from ..numerics.arrays import Array


class Cell(NamedTuple):
    """What there is to say of one point of the grid."""

    ep: float = math.nan
    ep_corrected: float = math.nan
    logz: float = math.nan
    logz_se: float = math.nan
    method: str = ""
    seconds: float = math.nan
    warnings: str = "not run"


def check_grid(
    free: Hyperparameters, grid: Mapping[str, ArrayLike]
) -> tuple[tuple[str, ...], list[Array]]:
    """Full names of the axes, and their values."""
    if not isinstance(grid, Mapping) or not grid:
        example = "{'length_scale': [0.5, 1, 2]}"
        raise InputError(
            f"grid must map names of hyperparameters to values, such as {example}, got "
            + shown(grid)
        )
    names, axes = [free.names[free.index(name)] for name in grid], []
    if len(set(names)) < len(names):
        raise InputError(f"grid names a hyperparameter twice: {', '.join(names)}")
    for name, values in grid.items():
        axis = np.atleast_1d(array(f"grid[{shown(name)}]", values, (), ("n",)))
        low = free.lows[free.index(name)]
        if not np.isfinite(to_line(axis, low)).all() or np.unique(axis).size < axis.size:
            wanted = "positive numbers" if np.isnan(low) else f"numbers between {low:g} and 1"
            wanted = f"different {wanted}"
            raise InputError(f"grid[{shown(name)}] must hold {wanted}, got {shown(values)}")
        axes.append(axis)
    return tuple(names), axes


def run_grid(
    cell_at: Callable[..., Cell], points: Sequence[Mapping[str, float]],
    seed: np.random.SeedSequence, clock: Clock, store: Checkpoint,
    executor: Executor | None = None, progressbar: bool = True,
) -> tuple[list[Cell], list[Message]]:  # fmt: skip
    """``cell_at(values=, seed=, stop=)`` at every point, and what to be careful about."""
    count = len(points)
    cells: dict[int, Cell] = {}
    tasks = {i: {"values": point, "seed": (seed.entropy, i)} for i, point in enumerate(points)}
    with progress_line(progressbar, total=count, unit="cell") as bar:

        def done(index: int, cell: Cell) -> None:
            cells[index] = cell
            bar.update()

        notes = run_pieces(
            Job(cell_at, ()), tasks, "cell {}", Cell, done, clock, store, executor,
            whole=lambda cell: not clock.expired(),  # else it is computed again when resumed
        )  # fmt: skip
    warnings = list(messages(notes))
    if lost := count - len(cells):
        why = "max_seconds" if clock.expired() else "interrupted"
        warnings.append(Message("cells-missing", f"{why}: {lost} of {count} cells were not run"))
    if doubtful := sum(bool(cell.warnings) for cell in cells.values()):
        text = f"{doubtful} of {len(cells)} cells carry a warning, see table.warnings"
        warnings.append(Message("cells-doubtful", text))
    return [cells.get(i, Cell()) for i in range(count)], warnings
