r"""Gaussian references of a :class:`.DensityModel`, with heavier tails.

In latent coordinates y the reference is N(m, Σ) exactly. With Σ = R Rᵀ the model's coordinates
are

.. math:: x = m + R\, g(R^{-1}(y - m)),\qquad g(z) = z\,e^{hz^2/2},

so moves and drivers see a Gaussian base, while draws in x have tails as heavy as ``tails`` = h
says; h = 0 is the Gaussian itself, and then x = y. Where some coordinates tell the scale of
others, all this happens in coordinates u in which they do not, and x = ``scales(u)``
(:mod:`evidence.models.density.scales`); R is triangular then, and only those that tell have tails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...messages import InputError
from ...models.density.changes import Tails
from ...models.density.model import DensityModel
from ...models.density.scales import Rescaled, Scales
from ...models.identity import rounded
from ...numerics.arrays import Array
from ...numerics.special import LOG_SQRT_2PI
from ..mixture import Share
from ..reference import positive_eigh
from .verdict import Rough, all_usable


class Mode(NamedTuple):
    """A maximum, the inverse of the negative Hessian there, and Laplace's log Z."""

    x: Array
    cov: Array
    logz: float


def usable_modes(modes: Sequence[Mode]) -> list[Mode]:
    """Those whose Gaussians can be drawn from."""
    fine = all_usable(np.array([mode.cov for mode in modes])) if modes else ()
    return [mode for mode, its in zip(modes, fine, strict=True) if its]


def pooled(modes: Sequence[Mode], power: float) -> tuple[Array, Array]:
    """Mean and covariance of the Gaussians at modes, weighted by a power of their parts of Z."""
    means, covs, logz = map(np.array, zip(*modes, strict=True))
    weights = np.exp(power * (logz - logz.max()))
    weights = weights / weights.sum()
    mean = weights @ means
    cov = np.einsum("k,kij->ij", weights, covs)
    return mean, cov + (weights[:, None] * (means - mean)).T @ (means - mean)


@dataclass(eq=False)
class DensityReference:
    """N(mean, cov) in latent coordinates, and the estimate of log Z it stands for."""

    name: str
    model: DensityModel
    mean: Array
    cov: Array
    logz: float
    tails: float = 0.0
    converged: bool = True
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ()
    """Modes found on the way, the best first, in the model's coordinates."""
    scales: Scales | None = None
    several: bool = False
    """Whether it is over several modes in coordinates with constant scales."""
    share: Share | None = None
    """Of the posterior, where this is a component of a :class:`.Mixture`."""
    top: float = np.inf
    """The largest log p/q that draws have shown: what exceeds it by far is out of their reach."""
    scouted: Rough | None = None
    """What a look from the prior saw, where there was one."""
    lost: float = 0.0
    """The part of the posterior that it saw out of this one's reach."""

    def identity(self) -> tuple[Array, ...]:
        """Arrays that tell this reference from others: see :mod:`evidence.models.identity`."""
        more = () if self.scales is None else self.scales.identity()
        if self.share is not None:
            more += self.share.identity()
        return tuple(rounded(part) for part in (self.mean, self.cov, self.tails, *more))

    @property
    def target(self) -> Any:
        """The density in u: the model itself where scales are constant and nothing is shared."""
        target = self.model if self.share is None else Shared(self.model, self.share)
        return target if self.scales is None else Rescaled(target, self.scales)

    log_density = property(lambda self: self)
    claim = property(lambda self: replace(self, share=None))  #: what decides about shares
    var = property(lambda self: np.diag(self.cov))

    @cached_property
    def eigh(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors (columns, C-contiguous) of Σ.

        Of D C D with C of unit diagonal: with C = V s Vᵀ they are those of R Rᵀ, R = D V √s,
        whose singular values are right whatever the units in D.
        """
        # units of coordinates, relative to each other, whose squares rounding leaves alone
        much = 1e-4
        sd = np.sqrt(np.diag(self.cov))
        if sd.min() > much * sd.max():
            return positive_eigh(self.cov, self.name)
        s, V = positive_eigh(self.cov / sd / sd[:, None], self.name)
        U, root, _ = np.linalg.svd(sd[:, None] * V * np.sqrt(s))
        return root[::-1] ** 2, np.ascontiguousarray(U[:, ::-1])

    @cached_property
    def root(self) -> Array:
        """R with R Rᵀ = Σ."""
        if self.scales is not None:
            order = np.concatenate([self.scales.parents, self.scales.children])
            R = np.empty_like(self.cov)
            R[order] = np.linalg.cholesky(self.cov[np.ix_(order, order)])
            return R
        s, U = self.eigh
        return U * np.sqrt(s)

    @cached_property
    def inverse_root(self) -> Array:
        """R⁻¹."""
        if self.scales is not None:
            return np.asarray(np.linalg.inv(self.root), dtype=float)
        s, U = self.eigh
        return U.T / np.sqrt(s)[:, None]

    @cached_property
    def precision(self) -> Array:
        """Σ⁻¹."""
        return self.inverse_root.T @ self.inverse_root

    @cached_property
    def change(self) -> Tails | None:
        if not self.tails > 0.0:
            return None
        if self.scales is None:
            return Tails(self.tails)
        return Tails(np.where(np.arange(self.mean.size) < self.scales.parents.size, self.tails, 0))

    def standardise(self, y: Array) -> Array:
        """z = R⁻¹(y - m)."""
        return (y - self.mean) @ self.inverse_root.T

    @cached_property
    def _at_mean(self) -> float:
        """log N(m; m, Σ)."""
        return -0.5 * float(np.log(self.eigh[0]).sum()) - self.mean.size * LOG_SQRT_2PI

    def log_base(self, z: Array) -> Array:
        """log N(y; m, Σ) from z."""
        return self._at_mean - 0.5 * np.einsum("mi,mi->m", z, z)

    def warp(self, y: Array) -> Array:
        """u: the tails put on."""
        if self.change is None:
            return y
        return self.mean + self.change(self.standardise(y)) @ self.root.T

    def to_model(self, y: Array) -> Array:
        """The model's coordinates x."""
        u = self.warp(y)
        return u if self.scales is None else self.scales(u)

    def from_model(self, x: Array) -> Array:
        """y from the model's coordinates."""
        u = x if self.scales is None else self.scales.inverse(x)
        return u if self.change is None else self.mean + self._latent(u) @ self.root.T

    def log(self, x: Array) -> Array:
        """log q of every row in the model's coordinates, NaN where it is too far out for it."""
        with np.errstate(all="ignore"):
            u = x if self.scales is None else self.scales.inverse(x)
            z = self._latent(u)
            value = self.log_base(z)
            if self.change is not None:
                value -= self.change.log_slope(z).total
            return value if self.scales is None else value - self.scales.log_slope(u)

    def log_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """Shapes (M,) and (M, d); constant scales only."""
        z = self._latent(x)
        slope = -z
        if self.change is not None:
            slope = (slope - self.change.log_slope(z).first) / self.change.derivatives(z).g1
        return self.log(x), slope @ self.inverse_root

    def _latent(self, u: Array) -> Array:
        """z, from where the tails are put on."""
        z = self.standardise(u)
        return z if self.change is None else self.change.inverse(z)

    def curvature(self, x: Any) -> Any:
        raise InputError(
            "coordinates 'prior' and 'expected' need a Gaussian prior with a likelihood; use "
            "'base', 'identity' or 'diagonal'"
        )


@dataclass(frozen=True, eq=False)
class Shared:
    """A component's share of a density."""

    model: Any
    share: Share

    def log_prob(self, x: Array) -> Array:
        value = self.model.log_prob(x) + self.share.log(x)
        return np.where(np.isnan(value), -np.inf, value)

    def log_prob_and_gradient(self, x: Array) -> tuple[Array, Array]:
        value, slope = self.model.log_prob_and_gradient(x)
        log_share, share_slope = self.share.log_and_gradient(x)
        value = value + log_share
        return np.where(np.isnan(value), -np.inf, value), slope + share_slope


def density_prior_reference(model: DensityModel) -> DensityReference:
    """The prior as reference, log Z_q = 0."""
    if model.prior is None:
        raise InputError(
            "reference='prior' needs a prior that is Gaussian in some coordinates: pass prior= "
            "to DensityModel (ev.GaussianPrior, or distributions of scipy.stats), or use "
            "reference='fitted'"
        )
    return DensityReference("prior", model, model.prior.mean, model.prior.cov, 0.0)
