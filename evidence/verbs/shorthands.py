"""One method by its name: :func:`evidence.log_evidence` with ``method=`` filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from ._options import AisRun, ResampleMoveRun, TemperingRun
from .estimate import log_evidence

if TYPE_CHECKING:
    from ..models.types import Model
    from ..results.evidence import EvidenceResult


def ais(model: Model, **options: Unpack[AisRun]) -> EvidenceResult:
    """Annealed importance sampling: :func:`evidence.log_evidence` with ``method="ais"``.

    Parameters
    ----------
    model : GPModel, SoftmaxModel or DensityModel
    **options
        What :func:`evidence.log_evidence` takes, and ``direction`` ("forward" or "both"),
        ``posterior``, ``n_reverse``: see :func:`evidence.methods.ais.ais`.

    Returns
    -------
    EvidenceResult

    Examples
    --------
    >>> from evidence import GPModel
    >>> model = GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> result = ais(model, direction="both", random_seed=0, progressbar=False)
    >>> list(result.estimates.index[-3:])
    ['ais_forward', 'ais_reverse', 'ais']
    """
    return log_evidence(model, method="ais", **options)


def parallel_tempering(model: Model, **options: Unpack[TemperingRun]) -> EvidenceResult:
    """Parallel tempering: :func:`evidence.log_evidence` with ``method="pt"``.

    Parameters
    ----------
    model : GPModel, SoftmaxModel or DensityModel
    **options
        What :func:`evidence.log_evidence` takes, and ``n_levels``, ``n_sweeps``, ``explore``,
        ``reversible``, ``estimator``: see :func:`evidence.methods.pt.pt`.

    Returns
    -------
    EvidenceResult

    Examples
    --------
    >>> from evidence import GPModel
    >>> model = GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> result = parallel_tempering(model, n_sweeps=16, random_seed=0, progressbar=False)
    >>> list(result.trace.columns[:4])
    ['beta', 'logz', 'acceptance', 'swap_rate']
    """
    return log_evidence(model, method="pt", **options)


def resample_move(model: Model, **options: Unpack[ResampleMoveRun]) -> EvidenceResult:
    """Tempered resample-move: :func:`evidence.log_evidence` with ``method="smc"``.

    Parameters
    ----------
    model : GPModel, SoftmaxModel or DensityModel
    **options
        What :func:`evidence.log_evidence` takes, and ``resampling``, ``waste_free``: see
        :func:`evidence.methods.smc.smc`.

    Returns
    -------
    EvidenceResult

    Examples
    --------
    >>> from evidence import GPModel
    >>> model = GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> result = resample_move(model, resampling="residual", random_seed=0, progressbar=False)
    >>> result.method
    'smc'
    """
    return log_evidence(model, method="smc", **options)
