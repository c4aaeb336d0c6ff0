"""Posterior draws of hyperparameters, and the evidence with them integrated out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .. import plots
from ..execution.arguments import check_count
from ..messages import InputError, Message
from ..models.gp import GPModel
from ..models.scales import natural
from ..models.sparse import SparseModel
from ..models.types import Described
from ..numerics.arrays import Array
from ..statistics import diagnostics
from . import export
from .base import DataFrame, Figure, Result, data_frame, frame_of_draws, quantiles_of
from .evidence import EvidenceResult
from .optimum import Optimum


@dataclass(eq=False, repr=False)
class HyperDraws(Result):
    """Draws of several independent chains from p(x, θ | y), and what they cost.

    :meth:`plot` draws traces and marginals of the hyperparameters, the slowest first.

    Attributes
    ----------
    theta : array (chains, draws, P)
        Logarithms of the sampled hyperparameters, log-odds of correlations and shares;
        :attr:`values` are natural.
    x : array (chains, kept, N)
        Latent values, kept at every ``settings["stride"]``-th draw from the first on; C · N of
        them, block after block, where the model has C latent fields.
    loglik : array (chains, draws)
        log p(y | x, θ).
    names : tuple of str
        The sampled hyperparameters.
    scheme : str
    acceptance : array (chains, 2)
        Mean acceptance after tuning of the step of x alone and of the step of θ; NaN where
        there is no such step.
    step_sizes : array (chains, 2)
        δ of the step of x, κ (a variance) of the step of θ; NaN where there is none.
    seconds, tune_seconds : float
        Wall-clock time of the slowest chain after tuning, and while tuning.
    failures : int
        Proposals of θ lost because a matrix had no Cholesky factor, or EP failed.
    tune_loglik : array (chains, tune)
        log p(y | x, θ) at the steps before: how the chains found the posterior.
    warnings : tuple of Message
        What went wrong: texts, each with a short ``code``; empty when nothing did.
    settings, model : dict
        How the run was made, and of what.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> theta, x = rng.standard_normal((2, 500, 1)), rng.standard_normal((2, 50, 3))
    >>> pairs = np.full((2, 2), 0.3)
    >>> draws = HyperDraws(
    ...     theta, x, rng.standard_normal((2, 500)), ("length_scale",), "agrad-z-joint",
    ...     pairs, pairs, 2.0, 1.0,
    ... )
    >>> draws.values.shape, bool(draws.ess[0] > 800), bool(draws.rhat[0] < 1.02)
    ((2, 500, 1), True, True)
    """

    _format = "evidence-hyper-draws"
    _figure = plots.plot_hyper_draws
    _shapes = (
        ("theta", ("chains", "draws", "P")),
        ("x", ("chains", "kept", "N")),
        ("loglik", ("chains", "draws")),
        ("acceptance", ("chains", 2)),
        ("step_sizes", ("chains", 2)),
    )

    theta: Array
    x: Array
    loglik: Array
    names: tuple[str, ...]
    scheme: str
    acceptance: Array
    step_sizes: Array
    seconds: float
    tune_seconds: float
    failures: int = 0
    tune_loglik: Array = field(default_factory=lambda: np.zeros((0, 0)))
    warnings: tuple[Message, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    lows: Array = field(default_factory=lambda: np.array(np.nan))
    """Where intervals (low, 1) begin; NaN for positive numbers."""
    latent_names: tuple[str, ...] = ()
    """Of latent values, where they are effects."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tune_loglik = np.asarray(self.tune_loglik, dtype=float)
        if len(self.names) != (p := self.theta.shape[2]):
            raise InputError(f"names must name {p} hyperparameters, got {len(self.names)}")

    @property
    def latent_draws(self) -> Array:
        """Those of latent values, (chains, kept, N)."""
        return self.x

    @property
    def kept(self) -> slice:
        """The draws that kept latent values, among all of a chain."""
        stride = self.settings.get("stride", 1)
        return slice(None, stride * self.x.shape[1], stride)

    # -- diagnostics ------------------------------------------------------------------------

    @property
    def values(self) -> Array:
        """What ``theta`` stands for."""
        return natural(self.theta, self.lows)

    @cached_property
    def ess(self) -> Array:
        """Effective sample size of the mean of each log hyperparameter, shape (P,)."""
        return diagnostics.ess(self.theta)

    @cached_property
    def rhat(self) -> Array:
        """Rank-normalised split R̂ of each hyperparameter, shape (P,)."""
        return diagnostics.rhat(self.theta)

    @cached_property
    def min_ess_per_second(self) -> float:
        """The smallest effective sample size over the seconds after tuning."""
        return float(self.ess.min()) / self.seconds if self.seconds > 0.0 else math.nan

    def to_frame(self) -> DataFrame:
        """One row per draw that kept latent values: ``chain``, ``draw``, hyperparameters in
        natural values, then every effect by its name, or x[0], x[1], …"""
        both = np.concatenate([self.values[:, self.kept], self.x], axis=2)
        latent = self.latent_names or [f"x[{i}]" for i in range(self.x.shape[2])]
        return frame_of_draws(both, [*self.names, *latent], self.kept.step)

    def table(self, level: float = 0.9) -> DataFrame:
        """One row per hyperparameter, in natural values, with the central interval of mass
        ``level``; ``ess`` and ``rhat`` of the logs."""
        columns = _moments(self.values.reshape(-1, len(self.names)), 1, level)
        bulk, tail = diagnostics.ess_bulk(self.theta), diagnostics.ess_tail(self.theta)
        columns |= {"ess": self.ess, "ess_bulk": bulk, "ess_tail": tail, "rhat": self.rhat}
        return data_frame(columns, index=self.names).rename_axis("hyperparameter")

    def _about(self) -> list[str]:
        chains, draws, _ = self.theta.shape
        rates, sizes = _means(self.acceptance), _means(self.step_sizes)
        return [
            f"{self.scheme}: {chains} × {draws} draws (chains × draws) of hyperparameters and "
            f"{self.x.shape[-1]} latent values",
            self._about_model(),
            f"step of x: acceptance {rates[0]}, size {sizes[0]}",
            f"step of hyperparameters: acceptance {rates[1]}, size {sizes[1]}",
            f"seconds: {self.seconds:.2f} after tuning, {self.tune_seconds:.2f} tuning; smallest "
            f"ESS per second {self.min_ess_per_second:.3g}; {self.failures} failures",
        ]

    def _label(self) -> str:
        chains, draws, p = self.theta.shape
        return f"{self.scheme}, chains={chains}, draws={draws}, theta={p}"

    def _frame(self) -> DataFrame:
        return self.table().rename_axis(None)

    def to_arviz(
        self,
        model: GPModel | SparseModel | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Any:
        """Natural values and log likelihood as ArviZ InferenceData (0.x) or DataTree (1.x).

        ``x`` is among them where every draw kept it (``keep=draws``).

        Parameters
        ----------
        model : GPModel, optional
            The model of the draws; adds ``observed_data``, ``log_likelihood`` (for ``arviz.loo``)
            and ``posterior_predictive``. All groups then have the draws that kept x.
        random_seed : int or Generator, optional
            Of the posterior predictive draws.
        """
        rows = slice(None) if model is None else self.kept
        values, loglik = self.values[:, rows], self.loglik[:, rows]
        posterior = {name: values[:, :, p] for p, name in enumerate(self.names)}
        if values.shape[1] == self.x.shape[1]:
            posterior["x"] = self.x
        stats = {"loglik": loglik}
        return export.to_arviz(self, model, random_seed, posterior, sample_stats=stats)


_OWNERS = {"ep": "EP's", "laplace": "Laplace's"}


@dataclass(eq=False, repr=False)
class IntegratedEvidence(EvidenceResult):
    """log ∫ p(θ) Z(θ) dθ with its error bar, and draws of θ from its posterior.

    Made by :func:`evidence.integrated_evidence`, and by
    :func:`evidence.log_evidence` of a model with priors. :meth:`plot` draws the posterior of
    every hyperparameter, and of every pair; :meth:`load` needs ``model=``.

    Attributes
    ----------
    names : tuple of str
        The hyperparameters integrated over.
    theta : array (S, P)
        Draws of hyperparameters from p(θ | y), equally weighted, on the real line: logs, or
        log-odds of correlations and shares.
    samples : array (S, P)
        The same draws in natural values.
    lows : array (P,)
        Where intervals (low, 1) begin; NaN for positive numbers.
    logz_ep : float
        The same integral over EP's evidence; of several classes, over Laplace's; NaN where few
        latent values were integrated together with the hyperparameters.
    optimum : Optimum
        Where EP's evidence times the prior is largest; None for several classes.
    source : GPModel, SparseModel or SoftmaxModel
        The model, where the priors are its own; files do not hold it.

    Examples
    --------
    >>> import evidence as ev
    >>> from scipy.stats import lognorm
    >>> model = ev.GPModel([0.0, 1.0, 2.0], [1, 1, -1], "1.0 * RBF(1.0)")
    >>> priors = {"length_scale": lognorm(1.0), "constant_value": lognorm(1.0)}
    >>> words = {"target_se": 0.2, "random_seed": 0, "progressbar": False}
    >>> whole = ev.integrated_evidence(model, priors, **words)
    >>> whole.names, whole.samples.shape[1], bool((whole.samples > 0).all())
    (('k1__constant_value', 'k2__length_scale'), 2, True)
    """

    _format = "evidence-integrated"
    _digits = ".4g"

    theta: Array = field(default_factory=lambda: np.zeros((0, 0)))
    lows: Array = field(default_factory=lambda: np.zeros(0))
    logz_ep: float = math.nan
    optimum: Optimum | None = None
    source: Described | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.samples = natural(self.theta, self.lows)

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"source": None}

    @property
    def latent_draws(self) -> Array:
        """None: the draws are of hyperparameters."""
        return np.zeros((1, 0, 0))

    def to_arviz(
        self,
        model: GPModel | SparseModel | None = None,
        random_seed: int | np.random.Generator | None = None,
        max_draws: int = 200,
    ) -> Any:
        """Natural values of hyperparameters as ArviZ InferenceData (0.x) or DataTree (1.x).

        ``log_evidence`` and ``log_evidence_se`` are among the posterior's attributes.

        Parameters
        ----------
        model : GPModel or SparseModel, optional
            The result's; adds ``observed_data``, ``log_likelihood`` (for ``arviz.loo``) and
            ``posterior_predictive``, at latent values drawn from EP's Gaussian, fitted at every
            draw of the hyperparameters.
        random_seed : int or Generator, optional
            Of these draws.
        max_draws : int
            With a model all groups have so many draws, evenly spaced.
        """
        if not len(self.theta):
            raise InputError("there are no draws to export: " + "; ".join(self.warnings))
        theta = self.theta[None]
        if model is not None:
            check_count("max_draws", max_draws, 1, optional=False)
            chosen = np.linspace(0, len(self.theta) - 1, min(max_draws, len(self.theta)))
            theta = theta[:, chosen.round().astype(int)]
        values = natural(theta, self.lows)
        posterior = {name: values[:, :, p] for p, name in enumerate(self.names)}
        return export.to_arviz(self, model, random_seed, posterior, theta)

    @property
    def table(self) -> DataFrame:
        """Posterior mean, sd and quantiles of the natural values; index ``name``."""
        return self.moments()

    def moments(self, level: float = 0.9) -> DataFrame:
        """The table with the central interval of posterior mass ``level``: 0.95 makes columns
        ``q2.5`` and ``q97.5``."""
        return data_frame(_moments(self.samples, 0, level), index=self.names).rename_axis("name")

    def _about(self) -> list[str]:
        lines = [
            f"log Z = {self.logz:.4f} ± {self.logz_se:.4f}   (hyperparameters{self._not} "
            f"integrated out, {self.rows[-1].seconds:.1f} s; {self._warned()})",
            self._about_model(),
        ]
        owner = _OWNERS[self.rows[0].method]
        at_best = math.nan if self.optimum is None else self.optimum.logz
        by = {f"the same from {owner} evidence": self.logz_ep, f"{owner} at its optimum": at_best}
        known = [f"{name}: {value:.4f}" for name, value in by.items() if not math.isnan(value)]
        if known:
            lines.append(";  ".join(known))
        return lines

    _frame = Result._frame  # of the table

    def _label(self) -> str:
        names = ", ".join(self.names)
        return f"logz={self.logz:.4f} ± {self.logz_se:.4f}, {names}{self._not} integrated out"

    @property
    def _not(self) -> str:
        return " not" if math.isnan(self.logz_se) else ""

    def _figure(self) -> Figure:
        if not len(self.theta):
            raise InputError("there are no draws to plot: " + "; ".join(self.warnings))
        return plots.plot_hyperparameters(self.names, self.samples, np.isnan(self.lows))


def _means(by_chain: Array) -> list[str]:
    return ["-" if np.isnan(v).any() else f"{v.mean():.3g}" for v in by_chain.T]


def _moments(values: Array, ddof: int, level: float) -> dict[str, Array]:
    """Mean, sd and quantiles over rows; NaN where there are too few."""
    values = values if len(values) else np.full((1, values.shape[1]), np.nan)
    sd = values.std(axis=0, ddof=ddof) if len(values) > ddof else np.full(len(values.T), np.nan)
    each = {name: np.quantile(values, q, axis=0) for name, q in quantiles_of(level).items()}
    return {"mean": values.mean(axis=0), "sd": sd} | each
