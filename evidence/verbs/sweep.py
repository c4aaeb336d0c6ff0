"""Many runs side by side: ladders, moves, references and seeds into one tidy table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..execution.arguments import check_choice, check_count, listed
from ..messages import InputError
from ..methods.registry import METHODS, unused
from ..paths.families import family
from ..results.evidence import EvidenceResult
from ..statistics import ladders as ladder_shapes
from ._options import EveryRun
from ._several import run_each

if TYPE_CHECKING:
    from ..models.types import Model
    from ..moves.base import Move
    from ..results.sweep import Sweep
    from ._options import Reference


def sweep(
    model: Model,
    method: str | Sequence[str] = "smc",
    *,
    ladders: Sequence[Any] | Mapping[str, Any] = ("adaptive",),
    moves: Sequence[str | Move] | None = None,
    references: Sequence[str | Reference] | None = None,
    seeds: int | Iterable[int] = 3,
    progressbar: bool = True,
    **options: Unpack[EveryRun],
) -> Sweep:
    """Run :func:`evidence.log_evidence` for every combination.

    Parameters
    ----------
    model : GPModel, SoftmaxModel or DensityModel
    method : str or sequence of str
        As in :func:`evidence.log_evidence`; a sequence runs them all.
    ladders : sequence or mapping
        Each ``"adaptive"``, a number n (``ev.ladders.geometric(n)``) or explicit temperatures;
        a mapping gives them names.
    moves, references : sequence
        Names or objects; the reference is by default the model's best.
    seeds : int or iterable of int
        How many seeds, or which.
    progressbar : bool
        Show one line in a terminal or notebook.
    **options
        For every run: ``target_se``, ``n_particles``, ``n_islands``, ``executor``, options of
        the method, …

    Returns
    -------
    Sweep
        A pandas DataFrame with ``save`` and ``load``.
        One row per run (^C leaves those finished by then): ``method``, ``move``, ``ladder``,
        ``reference``, ``seed``, ``logz``,
        ``logz_se``, ``seconds`` (fitting the reference included), ``gradients``, ``levels``,
        ``warnings`` (their number), and ``ep`` and ``ep_corrected`` where the model has
        them. What was asked for is in ``frame.attrs["words"]``.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> frame = ev.sweep(model, ladders=[2, 4], seeds=2, n_particles=64, progressbar=False)
    >>> frame.groupby("ladder").logz.mean().round(1).to_dict()
    {'geometric(2)': -1.6, 'geometric(4)': -1.6}
    >>> ax = ev.plots.plot_logz_vs_time(frame)
    """
    most = 10**6  # seeds
    from ..results.sweep import Sweep

    if isinstance(method, Mapping):
        raise InputError(
            "method must be names of methods, got a mapping; log Z on a grid of hyperparameters "
            "is ev.evidence_surface"
        )
    methods = [method] if isinstance(method, str) else listed("method", method)
    moves = None if moves is None else listed("moves", moves)
    references = None if references is None else listed("references", references)
    named, kind = _name_ladders(ladders), family(model)
    for name in methods:
        check_choice("method", name, (*METHODS, *kind.reported))
    if isinstance(seeds, int | np.integer):
        check_count("seeds", seeds, 1, below=most)
        seeds = range(int(seeds))
    seeds = listed("seeds", seeds)
    bases = _label([kind.preferred(model, None)] if references is None else references)
    movers = _label([kind.move(model)] if moves is None else moves)
    every = itertools.product(methods, bases, movers, named.items(), seeds)
    columns, runs = [], []
    for name, (reference, base), (move, mover), (ladder, betas), seed in every:
        varied = {"reference": base, "move": mover, "betas": betas}
        words = {key: value for key, value in varied.items() if key not in unused(name)}
        words |= {"model": model, "method": name, "random_seed": seed, **options}
        runs.append((f"{name} {move} {ladder} seed {seed}", words))
        asked = {"method": name, "move": move, "ladder": ladder, "reference": reference}
        columns.append(asked | {"seed": seed})
    if not runs:
        raise InputError("nothing to run: methods, references, moves, ladders or seeds are empty")
    results = run_each(runs, "run", progressbar)
    rows = [{**asked, **_numbers(one)} for asked, one in zip(columns, results, strict=False)]
    frame = Sweep(rows)
    frame.attrs["interrupted"] = len(rows) < len(runs)
    frame.attrs["words"] = {key: str(value) for key, value in options.items()}
    return frame


def _name_ladders(ladders: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    listed("ladders", ladders)
    named: dict[str, Any] = {}
    pairs = ladders.items() if isinstance(ladders, Mapping) else ((None, one) for one in ladders)
    for label, ladder in pairs:
        if isinstance(ladder, int | np.integer):
            named[label or f"geometric({ladder})"] = ladder_shapes.geometric(int(ladder))
        elif label is not None or isinstance(ladder, str):
            named[label or ladder] = ladder
        else:
            steps = f"{ladder_shapes.check(ladder).size - 1} steps"
            while steps in named:
                steps += "'"
            named[steps] = ladder
    return named


def _label(things: Sequence[Any]) -> list[tuple[str, Any]]:
    """Each with its name, or with all of its settings where names are not enough."""
    names = [t if isinstance(t, str) else str(getattr(t, "name", t)) for t in things]
    clear = len(set(names)) == len(names)
    return [
        (name if clear or isinstance(t, str) else repr(t), t)
        for name, t in zip(names, things, strict=True)
    ]


def _numbers(result: EvidenceResult) -> dict[str, Any]:
    """What a row keeps of its run."""
    estimates = {row.method: row for row in result.rows}
    trace = result.trace_columns
    return {
        "logz": result.logz, "logz_se": result.logz_se, "seconds": result.rows[-1].seconds,
        "gradients": float(np.sum(trace["gradients"])) if "gradients" in trace else math.nan,
        "levels": len(trace["beta"]) if "beta" in trace else 0, "warnings": len(result.warnings),
        **{name: estimates[name].logz for name in ("ep", "ep_corrected") if name in estimates},
    }  # fmt: skip
