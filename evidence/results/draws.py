"""Posterior draws of the latent values, and how well the chains that made them mix."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import plots
from ..messages import Message
from ..models.gp import GPModel
from ..models.sparse import SparseModel
from ..numerics.arrays import Array
from ..statistics import diagnostics
from . import export
from .base import DataFrame, Result, data_frame, frame_of_draws, quantiles_of


class Range(NamedTuple):
    """The least, the middle and the largest over the latent coordinates."""

    min: float
    median: float
    max: float


@dataclass(eq=False, repr=False)
class Draws(Result):
    """Draws of several Markov chains from the posterior, and what they cost.

    Diagnostics of a coordinate that never moves, or with fewer than 4 draws, are NaN, and so
    are the extremes over all coordinates then: what cannot be judged is not passed over.

    Attributes
    ----------
    x : array (chains, draws, N)
        Latent values after tuning, each chain from first to last.
    logtilt : array (chains, draws)
        log p(y|x) minus the log of the Gaussian sites: what of the posterior its Gaussian
        reference leaves to the sampler. It often mixes slowest.
    acceptance : array (chains,)
        Mean acceptance probability after tuning.
    step_size : float
        NaN where the move has none.
    move : str
        The name of the Markov move.
    seconds, tune_seconds : float
        Wall-clock time of all chains after tuning and while tuning.
    gradients : float
        Evaluations of the log likelihood or its gradient, per draw and chain.
    failures : int
        Proposals dropped because their numbers were not finite.
    warnings : tuple of Message
        What went wrong: texts, each with a short ``code``; empty when nothing did.
    settings, model : dict
        How the run was made, and of what.
    names : tuple of str
        Names of the coordinates, where they are parameters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, logtilt = rng.standard_normal((4, 500, 3)), rng.standard_normal((4, 500))
    >>> draws = Draws(x, logtilt, np.full(4, 0.6), 0.3, "mgrad", 2.0, 1.0, 1.0, 0)
    >>> draws.table().shape, bool(draws.ess.min > 1500), bool(draws.rhat < 1.01)
    ((3, 9), True, True)
    """

    _format = "evidence-draws"
    _digits = ".0f"
    _figure = plots.plot_draws
    _shapes = (
        ("x", ("chains", "draws", "N")),
        ("logtilt", ("chains", "draws")),
        ("acceptance", ("chains",)),
    )

    x: Array
    logtilt: Array
    acceptance: Array
    step_size: float
    move: str
    seconds: float
    tune_seconds: float
    gradients: float
    failures: int
    warnings: tuple[Message, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @property
    def latent_draws(self) -> Array:
        """Those of latent values, (chains, draws, N)."""
        return self.x

    # -- diagnostics ------------------------------------------------------------------------

    @cached_property
    def ess_by_coordinate(self) -> Array:
        """Effective sample size of the mean of each latent value, shape (N,)."""
        return diagnostics.ess(self.x)

    @cached_property
    def ess_bulk_by_coordinate(self) -> Array:
        """Effective sample size in the bulk, shape (N,)."""
        return diagnostics.ess_bulk(self.x)

    @cached_property
    def ess_tail_by_coordinate(self) -> Array:
        """Effective sample size in the tails, shape (N,)."""
        return diagnostics.ess_tail(self.x)

    @cached_property
    def rhat_by_coordinate(self) -> Array:
        """Rank-normalised split R̂, shape (N,)."""
        return diagnostics.rhat(self.x)

    @cached_property
    def ess(self) -> Range:
        """Effective sample sizes of the means over the coordinates."""
        return _range(self.ess_by_coordinate)

    @cached_property
    def ess_bulk(self) -> Range:
        """Effective sample sizes in the bulk over the coordinates."""
        return _range(self.ess_bulk_by_coordinate)

    @cached_property
    def ess_tail(self) -> Range:
        """Effective sample sizes in the tails over the coordinates."""
        return _range(self.ess_tail_by_coordinate)

    @cached_property
    def rhat(self) -> float:
        """The largest rank-normalised split R̂ of all coordinates."""
        return float(self.rhat_by_coordinate.max())

    @cached_property
    def min_ess_per_second(self) -> float:
        """The smallest effective sample size over the seconds after tuning."""
        return self.ess.min / self.seconds if self.seconds > 0.0 else math.nan

    @cached_property
    def mean(self) -> Array:
        """Posterior means, shape (N,)."""
        return self.x.mean(axis=(0, 1))

    @cached_property
    def sd(self) -> Array:
        """Posterior standard deviations, shape (N,); NaN from a single draw."""
        if self.logtilt.size < 2:
            return np.full(self.x.shape[2], np.nan)
        return diagnostics.by_coordinate(lambda z: z.std(axis=(1, 2), ddof=1), self.x)

    @property
    def kind(self) -> str:
        """What is drawn, for texts."""
        return "parameters" if self.names else "latent values"

    def label(self, i: int) -> str:
        """What coordinate i is called on a plot."""
        return self.names[i] if self.names else f"$x_{{{i}}}$"

    def to_frame(self) -> DataFrame:
        """One row per draw: ``chain``, ``draw``, then every parameter, or x[0], x[1], …"""
        return frame_of_draws(self.x, self.names or [f"x[{i}]" for i in range(self.x.shape[2])])

    def table(self, level: float = 0.9) -> DataFrame:
        """One row per latent coordinate, with ``mcse`` the standard error of its mean.

        Parameters
        ----------
        level : float
            Posterior mass of the interval: 0.95 makes columns ``q2.5`` and ``q97.5``.
        """
        ends = {name: q for name, q in quantiles_of(level).items() if name != "median"}
        levels = list(ends.values())
        found = diagnostics.by_coordinate(lambda z: np.quantile(z, levels, axis=(1, 2)), self.x)
        return data_frame(
            {
                "mean": self.mean, "sd": self.sd, **dict(zip(ends, found, strict=True)),
                "ess": self.ess_by_coordinate, "ess_bulk": self.ess_bulk_by_coordinate,
                "ess_tail": self.ess_tail_by_coordinate, "rhat": self.rhat_by_coordinate,
                "mcse": self.sd / np.sqrt(self.ess_by_coordinate),
            },
            index=list(self.names) or None,
        )  # fmt: skip

    def _about(self) -> list[str]:
        chains, draws, n = self.x.shape
        low, high = self.acceptance.min(), self.acceptance.max()
        return [
            f"{self.move}: {chains} × {draws} draws (chains × draws) of {n} {self.kind}",
            self._about_model(),
            f"step size {_number(self.step_size, '.4g')}, "
            f"acceptance {_number(self.acceptance.mean(), '.3f')}"
            + (f" ({low:.3f} to {high:.3f} by chain)" if chains > 1 else "")
            + f", {_number(self.gradients, '.3g')} gradients per draw",
            f"seconds: {self.seconds:.2f} after tuning, {self.tune_seconds:.2f} tuning",
            f"largest R-hat {_number(self.rhat, '.3f')}, smallest ESS per second "
            f"{_number(self.min_ess_per_second, '.1f')}, failures {self.failures}",
        ]

    def _frame(self) -> DataFrame:
        rows = {"ESS": self.ess, "ESS bulk": self.ess_bulk, "ESS tail": self.ess_tail}
        return data_frame(rows.values(), index=rows.keys())

    def _remarks(self) -> list[str]:
        n, lost = self.x.shape[2], int(np.isnan(self.ess_by_coordinate).sum())
        still = f"WARNING: {lost} of {n} {self.kind} never move, or are not finite"
        return [still] * (lost > 0 and self.x.shape[1] > 3) + super()._remarks()

    def _label(self) -> str:
        chains, draws, n = self.x.shape
        return f"{self.move}, chains={chains}, draws={draws}, n={n}"

    def to_arviz(
        self,
        model: GPModel | SparseModel | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Any:
        """Draws and log tilt as ArviZ InferenceData (0.x) or DataTree (1.x).

        Parameters
        ----------
        model : GPModel or SparseModel, optional
            The model of the draws; adds ``observed_data``, ``log_likelihood`` (for ``arviz.loo``)
            and ``posterior_predictive``.
        random_seed : int or Generator, optional
            Of the posterior predictive draws.
        """
        return export.to_arviz(self, model, random_seed, sample_stats={"logtilt": self.logtilt})


def _range(values: Array) -> Range:
    return Range(float(values.min()), float(np.median(values)), float(values.max()))


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
