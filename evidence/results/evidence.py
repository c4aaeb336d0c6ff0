"""The log evidence of a model: the answer, its error bar, and how it was computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import plots
from ..messages import InputError, Message
from ..models.gp import GPModel
from ..models.sparse import SparseModel
from ..numerics.arrays import Array
from . import export
from .base import DataFrame, Figure, Result, data_frame, frame_of_draws


class Estimate(NamedTuple):
    """One way of estimating log Z."""

    method: str
    logz: float
    logz_se: float
    seconds: float


@dataclass(eq=False, repr=False)
class EvidenceResult(Result):
    """The log marginal likelihood of a model, with everything needed to judge it.

    Attributes
    ----------
    logz, logz_se : float
        log Z (a sum of natural logs, not divided by N) and its standard error; NaN where the
        method has none.
    samples : array (S, N)
        Equally weighted draws of the latent values from the posterior (empty where the method
        makes none).
    islands : array
        log Ẑ of every independent island, whose spread is the error bar (empty where there are
        none).
    warnings : tuple of Message
        What went wrong: texts, each with a short ``code``; empty when nothing did.
    notes : tuple of str
        What was noticed about the data, and what was chosen and why.
    settings, model : dict
        How the run was made, and of what.
    names : tuple of str
        Names of the columns of ``samples``, where they are parameters.
    component : array (S,)
        The number of the component that every draw is of, where the reference was a mixture.
    resolution : float
        How far a search vouches for an answer: a part of the posterior whose basin holds less
        of the prior than this may have been missed (more would have been met with 95 %); of a
        Gaussian five times as wide as the fit, where a density has no prior. 0 where nothing has
        to be searched, 1 where nothing was.
    evaluations : dict
        Points at which the user's function was called in each phase: ``fit``, ``scout``,
        ``pilot``, ``run``; and its ``gradients``. Empty where the model is not the user's own.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> result = ev.log_evidence(model, method="smc", random_seed=0, progressbar=False)
    >>> list(result.estimates.index), bool(result.logz_se < 0.1)
    (['laplace', 'ep', 'ep_corrected', 'smc'], True)
    >>> list(result.trace.columns[:4])
    ['beta', 'logz', 'logz_se', 'ess']
    """

    _format = "evidence-result"
    _digits = ".4f"
    _figure = plots.plot_result

    method: str
    logz: float
    logz_se: float
    rows: tuple[Estimate, ...]
    trace_columns: dict[str, Array] = field(default_factory=dict)
    history_columns: dict[str, Array] = field(default_factory=dict)
    samples: Array = field(default_factory=lambda: np.zeros((0, 0)))
    islands: Array = field(default_factory=lambda: np.zeros(0))
    correction_terms: Array = field(default_factory=lambda: np.zeros(0))
    warnings: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    evaluations: dict[str, int] = field(default_factory=dict)
    component_rows: tuple[tuple[str, float, float], ...] = ()
    component: Array = field(default_factory=lambda: np.zeros(0))
    resolution: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.component_rows = tuple((name, z, se) for name, z, se in self.component_rows)
        rows = self.rows
        self.rows = tuple(Estimate(**r) if isinstance(r, dict) else Estimate(*r) for r in rows)

    @property
    def estimates(self) -> DataFrame:
        """Every estimate of log Z: index ``method``, columns logz, logz_se, seconds.

        ``seconds`` is what it takes to get that number from nothing: the Monte Carlo row
        includes fitting its reference.
        """
        return data_frame(list(self.rows)).set_index("method")

    @property
    def components(self) -> DataFrame:
        """The parts of a mixture, one per mode at best: name, logz, logz_se and share of Z.

        Empty where one Gaussian was enough, or draws came from all of the mixture at once.
        """
        parts = data_frame(list(self.component_rows), columns=["name", "logz", "logz_se"])
        share = np.exp(parts.logz.astype(float) - self.logz)
        return parts.assign(share=share).rename_axis("component")

    def plot_corner(
        self, names: Sequence[str] | None = None, periods: Mapping[str, float] | None = None
    ) -> Figure:
        """Posterior draws, every parameter against every other: :func:`.plot_corner`.

        Parameters
        ----------
        names : sequence of str, optional
            Parameters to show; by default the first eight.
        periods : mapping of str to float, optional
            Of angles, which are cut where draws are fewest.
        """
        return plots.plot_corner(self, names, periods)

    @property
    def latent_draws(self) -> Array:
        """Those of latent values, (1, S, N)."""
        return self.samples[None]

    def to_frame(self) -> DataFrame:
        """One row per draw of ``samples``: ``chain``, ``draw``, then every parameter by its name,
        or x[0], x[1], …"""
        names = self.names or [f"x[{i}]" for i in range(self.samples.shape[1])]
        return frame_of_draws(self.samples[None], names)

    @property
    def trace(self) -> DataFrame:
        """One row per temperature: beta, logz so far, logz_se, ess, acceptance, step_size, …"""
        return data_frame(self.trace_columns)

    @property
    def history(self) -> DataFrame:
        """The estimate as time went by: seconds, n_islands, logz, logz_se."""
        return data_frame(self.history_columns)

    def _warned(self) -> str:
        codes = [getattr(warning, "code", "") or "no code" for warning in self.warnings]
        return f"warnings: {', '.join(codes)}" if codes else "no warnings"

    def _about(self) -> list[str]:
        se = f" ± {self.logz_se:.4f}" if math.isfinite(self.logz_se) else ""
        how = f"{self.method}; {self._warned()}"
        lines = [f"log Z = {self.logz:.4f}{se}   ({how})", self._about_model()]
        if self.evaluations:
            phases = ", ".join(f"{name} {n:,}" for name, n in self.evaluations.items())
            lines.append(f"evaluations: {sum(self.evaluations.values()):,} ({phases})")
        if self.resolution:
            lines.append(
                f"resolution: parts of the posterior around less than {self.resolution:.1g} of "
                "the prior's mass may be unseen"
            )
        if self.correction_terms.size:
            terms = (f"l={l} {t:+.2g}" for l, t in enumerate(self.correction_terms, start=3))
            lines.append("second-order correction to EP by order: " + "  ".join(terms))
        return lines

    def _frame(self) -> DataFrame:
        return self.estimates.rename_axis(None)

    def _label(self) -> str:
        return f"logz={self.logz:.4f} ± {self.logz_se:.4f}, {self.method}"

    def to_arviz(
        self,
        model: GPModel | SparseModel | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Any:
        """Posterior draws as ArviZ InferenceData (0.x) or DataTree (1.x).

        ``log_evidence`` and ``log_evidence_se`` are among the posterior's attributes.

        Parameters
        ----------
        model : GPModel or SparseModel, optional
            The result's; adds ``observed_data``, ``log_likelihood`` (for ``arviz.loo``) and
            ``posterior_predictive``.
        random_seed : int or Generator, optional
            Of the posterior predictive draws.
        """
        if not self.samples.size:
            raise InputError(
                "there are no posterior draws to export: the run ended before it drew, or method "
                f"{self.method!r} leaves none"
            )
        return export.to_arviz(self, model, random_seed)
