"""The hyperparameters at which EP's log Z is largest, and how they were found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from .. import plots
from ..approximations.gp.modes import fit_best
from ..approximations.reference import GaussianReference
from ..messages import InputError, Message
from ..models.latent import LatentModel
from .base import DataFrame, ResultOnAxes
from .evidence import EvidenceResult


@dataclass(frozen=True, eq=False, repr=False)
class Optimum(ResultOnAxes):
    """The hyperparameters at which EP's log Z is largest, and how they were found.

    Made by :func:`evidence.optimise`. :meth:`load` needs ``model=``,
    the model of the search or any other of the same data, and fits EP again.

    Attributes
    ----------
    model : GPModel or SparseModel
        With these hyperparameters.
    reference : GaussianReference
        EP there, fitted from nothing.
    table : DataFrame
        One row per hyperparameter (index ``name``): ``value``, ``log_value``, ``se`` of
        the log value, bounds ``lower`` and ``upper`` of the value, ``at_bound``. The
        standard error is that of a normal approximation, from the curvature at the
        optimum; NaN at a bound.
    history : DataFrame
        One row per evaluation: ``restart``, ``logz``, ``objective`` (log Z plus the log
        density of the priors), ``gradient`` (largest component of the projected
        gradient), ``seconds``; NaN where the point was rejected.
    restarts : DataFrame
        One row per start (0 is the model's own): where it ended, ``logz``, ``objective``,
        ``iterations``, ``converged`` and ``message``.
    warnings : tuple of Message
        What went wrong: texts, each with a ``code``; empty when nothing did.
    seconds : float
        Wall-clock time.
    estimate : Callable[..., EvidenceResult] | None
        What :meth:`evidence` calls; files do not keep it.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel([0.0, 1.0, 2.0, 3.0], [1, 1, -1, -1], "1.0 * RBF(1.0)")
    >>> best = ev.optimise(model, progressbar=False)
    >>> list(best.table.index), best.logz >= ev.fit_ep(model).logz
    (['k1__constant_value', 'k2__length_scale'], True)
    """

    _format = "evidence-optimum"
    _digits = ".5g"
    _draw = plots.plot_search

    model: LatentModel
    reference: GaussianReference
    table: DataFrame
    history: DataFrame
    restarts: DataFrame
    warnings: tuple[Message, ...]
    seconds: float
    estimate: Callable[..., EvidenceResult] | None = None

    @property
    def logz(self) -> float:
        """EP's log Z at the optimum."""
        return self.reference.logz

    @property
    def logz_corrected(self) -> float:
        """EP's log Z with its second-order correction."""
        return self.reference.logz_corrected

    @property
    def rejected(self) -> int:
        """Trial points at which the covariance was singular or EP failed."""
        return int(self.history.objective.isna().sum())

    def evidence(self, **words: object) -> EvidenceResult:
        """Estimate log Z at the optimum: :func:`evidence.log_evidence` with these words."""
        if self.estimate is None:
            raise InputError("estimate is not kept in files: use ev.log_evidence(optimum.model)")
        return self.estimate(self.model, **words)

    def _about(self) -> list[str]:
        return [
            f"log Z = {self.logz:.4f} (EP), {self.logz_corrected:.4f} (EP, corrected)",
            f"prior: {self.model.hyperparameters.kernels[0]}",
            f"{len(self.history)} evaluations ({self.rejected} rejected) from "
            f"{len(self.restarts)} start(s) in {self.seconds:.1f} s",
        ]

    def _label(self) -> str:
        return f"logz={self.logz:.4f}, {self.model!r}"

    def _state(self) -> dict[str, Any]:
        state = super()._state()
        del state["reference"], state["estimate"]
        return state

    @classmethod
    def _restore(cls, state: dict[str, Any], models: Mapping[str, Any]) -> Self:
        if "model" in models:
            free, table = models["model"].hyperparameters, state["table"]
            where = [free.index(name) for name in table.index]
            model = models["model"].at(free.with_logs(where, table.log_value))
            models, state = {"model": model}, {**state, "reference": fit_best(model)}
        return super()._restore(state, models)
