"""Evidence as a function of hyperparameters: the picture of Kuss and Rasmussen (2005).

Cells are independent, each with a seed of its own, so they run on all cores, in processes or on
a cluster, and a checkpoint keeps those that are finished.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm.auto import tqdm

from .. import __version__
from ..approximations.gp.ep import fit_ep
from ..execution.arguments import (
    check_executor,
    check_path,
    check_positive,
    check_target,
    seed_sequence,
)
from ..execution.checkpoint import Checkpoint, digest
from ..execution.clock import Clock, Stopped
from ..execution.job import Job
from ..execution.tasks import run_tasks
from ..messages import InputError
from ..models.gp import CovarianceError, GPModel
from .estimate import log_evidence

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

_COLUMNS = ("ep", "ep_corrected", "logz", "logz_se", "method", "seconds", "warnings")


class Cell(NamedTuple):
    """What is known about one point of the grid."""

    ep: float
    ep_corrected: float
    logz: float
    logz_se: float
    method: str
    seconds: float
    warnings: str


@dataclass(frozen=True, eq=False)
class Surface:
    """Evidence over a grid, one row per cell, and its picture.

    Made by :func:`evidence_surface`, where there is an example.
    """

    names: tuple[str, ...]
    """Hyperparameters along the axes."""
    table: pd.DataFrame
    """Their values, then ``ep``, ``ep_corrected``, ``logz``, ``logz_se``, ``method``,
    ``seconds``, ``warnings`` (texts, empty when all is well)."""
    warnings: tuple[str, ...] = ()
    """What to be careful about, in words."""

    @property
    def column(self) -> str:
        """The best there is: ``logz`` where Monte Carlo was run, else ``ep_corrected``."""
        return "logz" if self.table.logz.notna().any() else "ep_corrected"

    @property
    def best(self) -> dict[str, float]:
        """Hyperparameters of the cell with the largest evidence, for ``model.at``."""
        values = self.table[self.column]
        if values.isna().all():
            raise InputError("no cell has an evidence: " + "; ".join(self.warnings))
        row = self.table.loc[values.idxmax()]
        return {name: float(row[name]) for name in self.names}

    def plot(self) -> Figure:
        """Contours over two hyperparameters, or curves over one; errors of EP beside them."""
        from .. import plots

        return plots.plot_surface(self)

    def __repr__(self) -> str:
        size = " x ".join(str(self.table[name].nunique()) for name in self.names)
        if self.table[self.column].isna().all():
            return f"Surface({size}: {', '.join(self.names)}; nothing known)"
        where = ", ".join(f"{name} = {value:.4g}" for name, value in self.best.items())
        top = self.table[self.column].max()
        return f"Surface({size}: {', '.join(self.names)}; largest {top:.3f} at {where})"


def evidence_surface(
    model: GPModel,
    grid: Mapping[str, ArrayLike],
    *,
    method: str | None = "auto",
    target_se: float | None = 0.1,
    random_seed: int | np.random.Generator | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    max_seconds: float | None = None,
    progressbar: bool = True,
    **words: Any,
) -> Surface:
    """EP, corrected EP and Monte Carlo log evidence over a grid of hyperparameters.

    Parameters
    ----------
    model : GPModel
        Whatever ``grid`` does not name stays as it is there.
    grid : mapping
        Natural values by hyperparameter name (see ``model.hyperparameters.names``; any
        unambiguous ending does).
    method : str or None
        As in :func:`evidence.log_evidence`; ``None`` leaves Monte Carlo out.
    target_se : float or None
        Standard error that each cell should reach.
    random_seed : int or Generator, optional
        Same seed, same answer; needed with ``checkpoint``.
    executor, checkpoint
        As in :func:`evidence.log_evidence`; here tasks, and what is kept, are cells.
    max_seconds : float, optional
        Stop then: cells not begun are left out, running ones show what they know. With
        ``checkpoint=`` the same call computes both later on.
    progressbar : bool
        Show one line in a terminal or notebook.
    **words
        More of the same: ``reference``, ``move``, …

    Returns
    -------
    Surface
        ``surface.table``, one row per cell; ``surface.best``; ``surface.plot()``.

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> x = np.linspace(0, 3, 12)
    >>> model = ev.GPModel(x, np.where(np.sin(4 * x) > 0, 1, -1), "4.0 * RBF(0.5)")
    >>> grid = {"length_scale": [0.1, 0.4, 1.6], "constant_value": [1.0, 16.0]}
    >>> surface = ev.evidence_surface(model, grid, random_seed=0, progressbar=False)
    >>> surface.best["k2__length_scale"], len(surface.table)
    (0.4, 6)
    """
    if not isinstance(model, GPModel):
        raise InputError(f"model must be a GPModel, got {type(model).__name__}")
    check_target("target_se", target_se)
    check_positive("max_seconds", max_seconds)
    check_path("checkpoint", checkpoint)
    check_executor(executor)
    if checkpoint is not None and random_seed is None:
        raise InputError("checkpoint= needs random_seed=: a resumed run goes on with its seed")
    names, axes = _check_grid(model, grid)
    points = list(itertools.product(*axes))
    seed = seed_sequence(random_seed)
    store = Checkpoint(
        checkpoint,
        {
            "package version": __version__,
            "model": f"{digest(model.K, model.mean, model.theta)} ({model!r})",
            "grid": f"{', '.join(names)} {digest(*axes)}",
            "words": f"{method}, {target_se}, {sorted(words.items())}",
            "random_seed": str(seed.entropy),
        },
    )
    cells: dict[int, Cell] = {}
    for i in range(len(points)):
        cell = store.get(f"cell {i}", Cell)
        if cell is not None:
            cells[i] = cell
    missing = [i for i in range(len(points)) if i not in cells]
    options = {"method": method, "target_se": target_se, **words}
    clock = Clock(max_seconds)
    deadline = math.inf if max_seconds is None else time.time() + max_seconds
    job = Job(_cell, (_light(model), names, options, deadline))
    tasks = [{"values": points[i], "seed": (seed.entropy, i)} for i in missing]
    with tqdm(
        total=len(points), initial=len(cells), unit="cell", disable=None if progressbar else True
    ) as bar:

        def done(index: int, cell: Cell) -> None:
            cells[missing[index]] = cell
            # a cell that the clock cut short is shown, and computed again when resumed
            if time.time() < deadline:
                store.put(f"cell {missing[index]}", cell)
                store.save_soon()
            bar.update()

        try:
            notes = run_tasks(job, tasks, clock, done, executor)
        finally:
            store.save()
    return Surface(
        names, _tabulate(names, points, cells), (*notes, *_warnings(points, cells, clock))
    )


def _check_grid(
    model: GPModel, grid: Mapping[str, ArrayLike]
) -> tuple[tuple[str, ...], list[Array]]:
    if not isinstance(grid, Mapping) or not grid:
        raise InputError(
            "grid must map names of hyperparameters to values, for example "
            f"{{'length_scale': [0.5, 1, 2]}}, got {grid!r}"
        )
    free, names, axes = model.hyperparameters, [], []
    for name, values in grid.items():
        names.append(free.names[free.index(name)])
        try:
            axis = np.atleast_1d(np.asarray(values, dtype=float))
        except (TypeError, ValueError):
            raise InputError(f"grid[{name!r}] must hold numbers, got {values!r}") from None
        if axis.ndim != 1 or axis.size == 0 or not (np.isfinite(axis) & (axis > 0)).all():
            raise InputError(f"grid[{name!r}] must be a vector of positive numbers")
        if np.unique(axis).size < axis.size:
            raise InputError(f"grid[{name!r}] holds a value twice")
        axes.append(axis)
    if len(set(names)) < len(names):
        raise InputError(f"grid names a hyperparameter twice: {', '.join(names)}")
    return tuple(names), axes


def _light(model: GPModel) -> GPModel:
    """The model without the matrices that every cell builds anew."""
    import copy

    if model.hyperparameters.n_kernel == 0:
        return model
    light = copy.copy(model)
    del light.K, light.chol
    return light


def _cell(
    model: GPModel,
    names: Sequence[str],
    options: Mapping[str, Any],
    deadline: float,
    values: Sequence[float],
    seed: tuple[int, int],
    stop: Callable[[], bool],
) -> Cell:
    """Everything about one point, on one core; a point where numbers fail says so."""
    started = time.perf_counter()
    known = [math.nan, math.nan]
    try:
        here = model.at(dict(zip(names, values, strict=True)))
        with np.errstate(all="ignore"):  # hopeless corners of a grid are told in words
            ep = fit_ep(here)
            known = [ep.logz, ep.logz_corrected]
        if options["method"] is None:
            said = "; ".join(ep.warnings)
            return Cell(*known, math.nan, math.nan, "", time.perf_counter() - started, said)
        left = deadline - time.time()
        if stop() or left <= 0.0:
            raise Stopped
        with np.errstate(all="ignore"):
            return _monte_carlo(here, options, seed, None if left == math.inf else left, started)
    except (CovarianceError, ArithmeticError, np.linalg.LinAlgError) as error:
        said = str(error) or f"EP failed: {type(error).__name__}"
        return Cell(*known, math.nan, math.nan, "", time.perf_counter() - started, said)


def _monte_carlo(
    here: GPModel,
    options: Mapping[str, Any],
    seed: tuple[int, int],
    left: float | None,
    started: float,
) -> Cell:
    with ThreadPoolExecutor(1) as alone:
        result = log_evidence(
            here,
            random_seed=np.random.default_rng(list(seed)),
            progressbar=False,
            executor=alone,
            max_seconds=left,
            **options,
        )
    if result.settings["interrupted"]:
        raise Stopped
    estimates = {row.method: row.logz for row in result.rows}
    return Cell(
        estimates["ep"],
        estimates["ep_corrected"],
        result.logz,
        result.logz_se,
        result.method,
        time.perf_counter() - started,
        "; ".join(result.warnings),
    )


def _tabulate(
    names: tuple[str, ...], points: Sequence[tuple[float, ...]], cells: dict[int, Cell]
) -> pd.DataFrame:
    import pandas as pd

    empty = Cell(*[math.nan] * 4, "", math.nan, "not run")
    rows = [(*point, *cells.get(i, empty)) for i, point in enumerate(points)]
    return pd.DataFrame(rows, columns=[*names, *_COLUMNS])


def _warnings(
    points: Sequence[tuple[float, ...]], cells: dict[int, Cell], clock: Clock
) -> list[str]:
    found = []
    if len(cells) < len(points):
        why = "max_seconds" if clock.expired() else "interrupted"
        found.append(f"{why}: {len(points) - len(cells)} of {len(points)} cells were not run")
    doubtful = sum(bool(cell.warnings) for cell in cells.values())
    if doubtful:
        found.append(f"{doubtful} of {len(cells)} cells carry a warning, see table.warnings")
    return found
