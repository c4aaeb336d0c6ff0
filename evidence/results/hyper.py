"""Posterior draws of hyperparameters and latent values, and how well the chains mixed."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..execution import files
from ..messages import InputError
from ..statistics import diagnostics

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

_FORMAT = "evidence-hyper-draws"
_VERSION = 1
_ARRAYS = ("theta", "x", "loglik", "acceptance", "step_sizes", "tune_loglik")
_META = (
    *("names", "scheme", "seconds", "tune_seconds", "failures"),
    *("warnings", "settings", "model"),
)


@dataclass(eq=False)
class HyperDraws:
    """Draws of several independent chains from p(x, θ | y), and what they cost.

    Attributes
    ----------
    theta : array (chains, draws, P)
        Logarithms of the sampled hyperparameters; :attr:`values` are their exponentials.
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
    warnings : tuple of str
        What went wrong, in words; empty when nothing did.
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
    warnings: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            setattr(self, name, np.asarray(getattr(self, name), dtype=float))
        if self.theta.ndim != 3 or 0 in self.theta.shape:
            raise InputError(f"theta must have shape (chains, draws, P), got {self.theta.shape}")
        chains, draws, p = self.theta.shape
        wanted = {
            "loglik": (chains, draws),
            "acceptance": (chains, 2),
            "step_sizes": (chains, 2),
        }
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                raise InputError(
                    f"{name} must have shape {shape} to go with theta of shape "
                    f"{self.theta.shape}, got {getattr(self, name).shape}"
                )
        if self.x.ndim != 3 or self.x.shape[0] != chains:
            raise InputError(f"x must have shape ({chains}, kept, N), got {self.x.shape}")
        if len(self.names) != p:
            raise InputError(f"names must name {p} hyperparameters, got {len(self.names)}")

    # -- diagnostics ------------------------------------------------------------------------

    @property
    def values(self) -> Array:
        """exp(theta)."""
        return np.exp(self.theta)

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

    def table(self) -> pd.DataFrame:
        """One row per hyperparameter, in natural values; ``ess`` and ``rhat`` of the logs."""
        import pandas as pd

        flat = self.values.reshape(-1, len(self.names))
        q5, q50, q95 = np.quantile(flat, (0.05, 0.5, 0.95), axis=0)
        return pd.DataFrame(
            {
                "mean": flat.mean(axis=0),
                "sd": flat.std(axis=0, ddof=1) if len(flat) > 1 else np.nan,
                "q5": q5,
                "median": q50,
                "q95": q95,
                "ess": self.ess,
                "ess_bulk": diagnostics.ess_bulk(self.theta),
                "ess_tail": diagnostics.ess_tail(self.theta),
                "rhat": self.rhat,
            },
            index=pd.Index(self.names, name="hyperparameter"),
        )

    def summary(self) -> str:
        """A page of text: what ran, how well it mixed, and any warnings."""
        chains, draws, _ = self.theta.shape
        rates, sizes = self._means(self.acceptance), self._means(self.step_sizes)
        lines = [
            f"{self.scheme}: {chains} × {draws} draws (chains × draws) of hyperparameters and "
            f"{self.x.shape[-1]} latent values",
            "model: " + ", ".join(f"{k} {v}" for k, v in self.model.items()),
            f"step of x: acceptance {rates[0]}, size {sizes[0]}",
            f"step of hyperparameters: acceptance {rates[1]}, size {sizes[1]}",
            f"seconds: {self.seconds:.2f} after tuning, {self.tune_seconds:.2f} tuning; smallest "
            f"ESS per second {self.min_ess_per_second:.3g}; {self.failures} failures",
            "",
            self.table().to_string(float_format=lambda v: f"{v:.4g}"),
        ]
        lines += [f"WARNING: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    @staticmethod
    def _means(by_chain: Array) -> list[str]:
        return ["-" if np.isnan(v).any() else f"{v.mean():.3g}" for v in by_chain.T]

    def __repr__(self) -> str:
        chains, draws, p = self.theta.shape
        flag = f", {len(self.warnings)} warning(s)" if self.warnings else ""
        return f"HyperDraws({self.scheme}, chains={chains}, draws={draws}, theta={p}{flag})"

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Traces and marginals of the hyperparameters, the slowest first.

        Returns the Matplotlib figure; with ``path`` it is also saved there.
        """
        from ..plots.hyper import plot_hyper_draws

        figure = plot_hyper_draws(self)
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure

    def to_arviz(self) -> Any:
        """Natural values and log likelihood as ArviZ InferenceData (0.x) or DataTree (1.x).

        ``x`` is among them where every draw kept it (``keep=draws``).
        """
        posterior = {name: self.values[:, :, p] for p, name in enumerate(self.names)}
        if self.x.shape[1] == self.theta.shape[1]:
            posterior["x"] = self.x
        return files.to_arviz(posterior=posterior, sample_stats={"loglik": self.loglik})

    # -- files ------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one ``.npz`` file (arrays and JSON, no pickles), atomically."""
        meta = {name: getattr(self, name) for name in _META}
        files.write(path, _FORMAT, _VERSION, meta, {name: getattr(self, name) for name in _ARRAYS})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HyperDraws:
        """Read what :meth:`save` wrote; any other file is refused with a clear message."""
        meta, arrays = files.read(path, _FORMAT, _VERSION)
        fields: dict[str, Any] = {**meta, **arrays}
        fields |= {name: tuple(meta[name]) for name in ("names", "warnings")}
        return cls(**fields)
