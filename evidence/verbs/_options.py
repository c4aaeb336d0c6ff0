"""Keywords that verbs hand on to :func:`evidence.log_evidence`, for type checkers.

They are explained in :func:`evidence.log_evidence` and in :mod:`evidence.methods`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    import os
    from concurrent.futures import Executor

    import numpy as np
    from numpy.typing import ArrayLike

    from ..drivers.smc import Sampler
    from ..moves.base import Move
    from ..paths.families import Reference
    from ..results.draws import Draws
    from ..results.evidence import EvidenceResult
    from ..results.hyper import HyperDraws

#: what is known of latent values: see :func:`evidence.predict`
Posterior: TypeAlias = "Reference | Draws | EvidenceResult | HyperDraws | ArrayLike"

Method = Literal[
    "auto", "smc", "ais", "importance", "guided", "pt", "arm", "orthant", "sequential", "ep",
    "laplace",
]  # fmt: skip
Effort = Literal["frugal", "normal", "thorough"]


class Sizes(TypedDict, total=False):
    """How many."""

    n_particles: int | None
    n_islands: int | None


class Budget(Sizes, total=False):
    """How much, and where."""

    target_se: float | None
    max_seconds: float | None
    executor: Executor | None


class Way(TypedDict, total=False):
    """From where, and how."""

    reference: str | Reference | None
    move: str | Move | None
    betas: str | int | ArrayLike


class Start(Budget, Way):
    """How much, where, from where, and how."""


class Run(Start, total=False):
    """All that log_evidence takes for every method."""

    max_evaluations: int | None
    effort: Effort
    random_seed: int | np.random.Generator | None
    checkpoint: str | os.PathLike[str] | None
    progressbar: bool


class AisOptions(TypedDict, total=False):
    """What :func:`evidence.methods.ais.ais` takes."""

    direction: str
    posterior: ArrayLike | None
    n_reverse: int | None


class TemperingOptions(TypedDict, total=False):
    """What :func:`evidence.methods.pt.pt` takes."""

    n_levels: int | None
    n_sweeps: int | None
    explore: int
    reversible: bool
    estimator: str


class ResampleMoveOptions(TypedDict, total=False):
    """What :func:`evidence.methods.smc.smc` takes."""

    resampling: str | None
    waste_free: int | None


class MethodOptions(AisOptions, TemperingOptions, ResampleMoveOptions, total=False):
    """What belongs to one method alone, all methods together."""

    frugal: bool
    threshold: float
    i_max: int
    generate: str
    sampler: Sampler | None
    freeze: bool
    order: str | ArrayLike
    adaptive: bool
    sweeps: int


class AisRun(Run, AisOptions):
    """All that :func:`evidence.ais` takes."""


class TemperingRun(Run, TemperingOptions):
    """All that :func:`evidence.parallel_tempering` takes."""


class ResampleMoveRun(Run, ResampleMoveOptions):
    """All that :func:`evidence.resample_move` takes."""


class EveryModel(Start, MethodOptions, total=False):
    """What :func:`evidence.compare` takes for every model."""

    method: Method
    effort: Effort


class EveryCell(MethodOptions, Sizes, Way):
    """What :func:`evidence.evidence_surface` takes for every cell."""


class EveryRun(Budget, MethodOptions):
    """What :func:`evidence.sweep` takes for every run."""
