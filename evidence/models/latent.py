"""What latent Gaussian models have in common, however their prior is stored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ..execution.arguments import plain
from ..gaussians.base import Gaussian, Prior
from ..messages import InputError
from ..numerics.arrays import Array
from .base import DataModel
from .differences import numerical_gradient
from .likelihoods.base import Likelihood, Observations


class LatentModel(DataModel):
    """A Gaussian prior over what the likelihood of every datum sees."""

    theta: Array
    """The likelihood's parameters, one column per datum."""
    mean: Array

    @abstractmethod
    def at(self, theta: Sequence[float] | Array | Mapping[str, float]) -> Self:
        """The same data under other hyperparameters, which are held there: without priors."""

    @abstractmethod
    def without(self, rows: ArrayLike) -> Self:
        """The same prior without some of the data, given by their numbers."""

    def with_data(self, y: Array) -> Self:
        new = super().with_data(y)
        new.theta = self.likelihood.theta(new.y)
        return new

    @property
    def suspect(self) -> str:
        """Which datum is farthest from the prior, in words."""
        prior = self.prior
        with np.errstate(all="ignore"):
            away = np.abs(self.likelihood.location(self.y) - prior.mean) / np.sqrt(prior.variances)
        i = int(np.argmax(np.nan_to_num(away, nan=np.inf)))
        return (
            f"datum {i}, {self.y[i]:.6g}, is farthest from the prior (mean {prior.mean[i]:.3g}, "
            f"standard deviation {np.sqrt(prior.variances[i]):.3g})"
        )

    def from_latent(self, u: Array) -> Array:
        """What samples hold, from rows of the prior's latent values."""
        return u

    def to_latent(self, x: Array) -> Array:
        """The inverse of :meth:`from_latent`, or an error where there is none."""
        return x

    def prior_gradient(self, q: Gaussian) -> Array:
        """Derivatives of log Z_q at fixed sites in the free parameters of the prior."""
        return numerical_gradient(self, q)


def observations(likelihood: Likelihood, y: object) -> Observations:
    """The data as their likelihood takes them, or an error."""
    if y is None:
        raise InputError("y is missing; pass the N observations")
    observed = plain("y", y)
    if observed.ndim != 1 or observed.size == 0:
        raise InputError(
            f"y must be a non-empty vector of N observations, got shape {observed.shape}"
        )
    return likelihood.check(observed)


def check_mean(name: str, *priors: Prior, far: float = 1e6, fine: float = 1e-6) -> None:
    """That doubles near the prior's mean tell values apart that its standard deviation does.

    ``far``: distance from zero where doubles are coarse; ``fine``: share of a standard deviation
    that is fine enough.
    """
    for prior in priors:
        size = np.abs(prior.mean)
        if not np.isfinite(size).all() or size.max() >= far:
            sd = np.sqrt(prior.variances)
            rough = np.flatnonzero((sd > 0.0) & ~(np.spacing(size) <= fine * sd))
            if rough.size:
                i = rough[0]
                raise InputError(
                    f"{name} is {prior.mean[i]:.3g} at datum {i}, where doubles are "
                    f"{np.spacing(size[i]):.1g} apart: too coarse beside the prior's standard "
                    f"deviation {sd[i]:.2g}; give one nearer to zero"
                )


def check_noise(name: str, model: LatentModel, most: float = 0.05) -> None:
    r"""That sites, :math:`\nu x - \tfrac12 \tau x^2`, leave digits to log Z where the prior's mean
    is: ½ eps Σ τ m² nats, with τ as sharp as densities of y - x are high."""
    y, lik, m = model.y, model.likelihood, model.prior.mean
    if not m.any() or lik.name == "gaussian" or model.n_predictors > 1:
        return
    if not np.array_equal(lik.location(y), y):  # no noise about x
        return
    with np.errstate(over="ignore"):
        tau = 2.0 * np.pi * np.exp(2.0 * lik.log_prob(y, y))
    lost = np.nan_to_num(0.5 * np.finfo(float).eps * tau * m**2)
    if not lost.sum() < most:
        i = int(np.argmax(lost))
        raise InputError(
            f"{name} is {m[i]:.6g} at datum {i}, {np.abs(m[i]) * np.sqrt(tau[i]):.1g} times its "
            f"noise: about {lost.sum():.2g} nats of log Z would be rounding; subtract "
            f"{np.round(m[i]):.12g} from y and from what its prior expects"
        )


def megabytes(of_ep: float, n: int, *, at_work: float = 500.0, kept: float = 220.0) -> float:
    """Of memory, roughly: for EP, which takes so many bytes, and the draws of n latent values
    after it, of two islands at work and kept by all.

    ``at_work``: bytes for every latent value at work; ``kept``: bytes for every one kept.
    """
    return float(f"{(of_ep + at_work * n + kept * min(64 * n, 2**22)) / 2**20:.3g}")
