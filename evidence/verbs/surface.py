"""Evidence as a function of hyperparameters: the picture of Kuss and Rasmussen (2005)."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from ..approximations.gp.ep import fit_ep
from ..execution.arguments import check_choice, check_kind
from ..execution.checkpoint import digest
from ..execution.clock import Stopped
from ..execution.options import told
from ..execution.progress import compiling
from ..hyper.at_theta import NoEvidence, numerics
from ..hyper.grid import Cell, check_grid, run_grid
from ..messages import messages
from ..methods.registry import METHODS
from ..models.types import Described
from ..paths.families import family
from ..results.base import data_frame
from ..results.surface import Surface
from ._call import Call
from ._options import EveryCell
from .estimate import log_evidence


def evidence_surface(
    model: Described,
    grid: Mapping[str, ArrayLike],
    *,
    method: str | None = "auto",
    target_se: float | None = 0.1,
    random_seed: int | np.random.Generator | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    max_seconds: float | None = None,
    progressbar: bool = True,
    **options: Unpack[EveryCell],
) -> Surface:
    """EP, corrected EP and Monte Carlo log evidence over a grid of hyperparameters.

    Parameters
    ----------
    model : GPModel or SparseModel
        Whatever ``grid`` does not name stays as it is there.
    grid : mapping
        Natural values by hyperparameter name (see ``model.hyperparameters.names``; any
        unambiguous ending does).
    method : str or None
        As in :func:`evidence.log_evidence`; ``None`` leaves Monte Carlo out.
    target_se : float or None
        Standard error that each cell should reach.
    random_seed : int or Generator, optional
        Same seed, same answer; by default that of ``checkpoint``, where there is one.
    executor, checkpoint
        As in :func:`evidence.log_evidence`; here tasks, and what is kept, are cells.
    max_seconds : float, optional
        Stop then: cells not begun are left out, running ones show what they know. With
        ``checkpoint=`` the same call computes both later on.
    progressbar : bool
        Show one line in a terminal or notebook.
    **options
        More of the same for every cell: ``reference``, ``move``, …

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
    check_kind("model", model, Described)
    if method is not None:
        check_choice("method", method, (*METHODS, *family(model).reported))
    call = Call(
        target_se, max_seconds=max_seconds, random_seed=random_seed, executor=executor,
        checkpoint=checkpoint,
    )  # fmt: skip
    names, axes = check_grid(model.hyperparameters, grid)
    points = [dict(zip(names, values, strict=True)) for values in itertools.product(*axes)]
    texts = {k: digest(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    asked = f"{method}, {call.target_se}, {sorted(texts.items())}"
    grid_text = f"{', '.join(names)} {digest(*axes)}"
    call.begin(model, lambda: {"grid": grid_text, "options": asked})
    clock, store = call.clock, call.store
    words = {"method": method, "target_se": call.target_se, **options}
    if method == "auto":
        words.setdefault("frugal", True)  # cells are many
    left = math.inf if call.max_seconds is None else call.max_seconds
    cell_at = partial(_cell, model.without_matrices(), words, time.time() + left)
    with compiling(progressbar):
        cells, warnings = run_grid(cell_at, points, call.seed, clock, store, executor, progressbar)
    rows = [{**point, **cell._asdict()} for point, cell in zip(points, cells, strict=True)]
    return told(Surface(names, data_frame(rows), messages([*warnings, *store.warnings])))


def _cell(
    model: Described, words: Mapping[str, Any], deadline: float,
    values: Mapping[str, float], seed: tuple[Any, int], stop: Callable[[], bool],
) -> Cell:  # fmt: skip
    """Everything about one point, on one core; a point where numbers fail says so."""
    started, cell = time.perf_counter(), Cell(warnings="")
    try:
        with numerics(), ThreadPoolExecutor(1) as alone:
            here, left = model.at(values), deadline - time.time()
            if stop() or left <= 0.0:
                raise Stopped
            if words["method"] is None:
                ep = fit_ep(here)
                cell = Cell(ep.logz, ep.logz_corrected, warnings="; ".join(ep.warnings))
            else:
                result = log_evidence(
                    here, random_seed=np.random.default_rng(list(seed)), executor=alone,
                    max_seconds=None if left == math.inf else left, progressbar=False, **words,
                )  # fmt: skip
                if result.settings.get("interrupted"):
                    raise Stopped
                of = {row.method: row.logz for row in result.rows}
                cell = Cell(
                    of.get("ep", math.nan), of.get("ep_corrected", math.nan), result.logz,
                    result.logz_se, result.method, warnings="; ".join(result.warnings),
                )  # fmt: skip
    except NoEvidence as failure:
        cell = cell._replace(warnings=str(failure))
    return cell._replace(seconds=time.perf_counter() - started)
