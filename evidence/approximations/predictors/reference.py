"""Gaussian references whose sites see several predictors of a datum: q, and its log Z."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ...execution.clock import check_interrupt
from ...gaussians.base import Prior
from ...gaussians.blocks import BlockGaussian, BlockSites, units_of
from ...messages import InputError
from ...numerics.arrays import Array
from ..reference import Reference, positive_eigh

#: predictors of all data that a matrix is made of: with more, Monte Carlo starts from the prior
LARGEST_DENSE = 8000


class OfSeveral(Protocol):
    """A model whose data may see several predictors; its likelihood is then :class:`.Several`."""

    @property
    def prior(self) -> Prior: ...
    @property
    def observed(self) -> Array: ...
    @property
    def likelihood(self) -> Any: ...


@dataclass(eq=False)
class BlockReference(Reference):
    """A reference whose sites see several predictors each."""

    sites: BlockSites

    share = None

    @classmethod
    def of(cls, name: str, model: OfSeveral, q: BlockGaussian, **more: Any) -> BlockReference:
        """Of a Gaussian that is known."""
        logz = q.log_normaliser(q.sites.c)
        out = cls(name, model, q.sites, *q.latent, logz, **more)
        out.gaussian = q
        return out

    def identity(self) -> tuple[Array, ...]:
        """Arrays that tell this reference from others."""
        return tuple(self.sites[:3])

    @cached_property
    def gaussian(self) -> BlockGaussian:
        return self.model.prior.with_blocks(self.sites)

    @property
    def predictors(self) -> tuple[Array, Array]:
        """Means (P, N) and covariances (N, P, P) of what the likelihoods see."""
        return self.gaussian.mean.reshape(self.sites.nu.shape), self.gaussian.blocks

    @property
    def blunt(self) -> BlockReference:
        """Without the sites that doubles cannot take away from q again; itself if there are none.

        (A mode where predicted noise is next to zero has such ones, and next to none of Z.)
        """
        sites = without_sharp(self.model.prior, self.sites)
        if sites is self.sites:
            return self
        return BlockReference.of(self.name, self.model, self.model.prior.with_blocks(sites))

    @property
    def lost(self) -> float:
        """About how many nats are rounding in log Z from draws, where sites cancel likelihoods."""
        mean = self.predictors[0] - self.sites.at
        linear, square = self.sites.nu * mean, mean * self.sites.times_W(mean)
        sizes = np.abs(self.sites.c).sum() + np.abs(linear).sum() + 0.5 * np.abs(square).sum()
        return float(np.finfo(float).eps * sizes)

    @property
    def logz_corrected(self) -> float:
        """The same: there is no correction."""
        return self.logz

    @cached_property
    def eigh(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors (columns, C-contiguous) of Σ."""
        if self.mean.size > LARGEST_DENSE:
            raise InputError(
                f"the covariance of the {self.name} reference couples {self.mean.size} latent "
                f"values, more than the {LARGEST_DENSE} that a dense matrix is made for; use "
                "reference='prior'"
            )
        check_interrupt(11.0 * self.mean.size**3)
        return positive_eigh(self.cov, self.name)

    def curvature(self, x: Array) -> Array:
        """W x for columns of x, what the sites add to the prior's precision."""
        shaped = np.moveaxis(x.reshape(*self.sites.nu.shape, -1), -1, 0)
        return np.moveaxis(self.sites.times_W(shaped), 0, -1).reshape(x.shape)


def without_sharp(prior: Prior, sites: BlockSites, *, sharpest: float = 1e10) -> BlockSites:
    """Sites that say nothing in place of those whose curvature is more than so many times the
    prior's precision: what is left when one is taken from their sum has lost its digits."""
    if sites.pi is not None:  # whose curvatures are shares
        return sites
    sd = units_of(prior, len(sites.nu))
    scaled = np.nan_to_num(sd[:, :, None] * sites.W * sd[:, None, :], nan=np.inf)
    sharp = np.abs(scaled).max(axis=(1, 2)) > sharpest
    if not sharp.any():
        return sites
    keep = np.where(sharp, 0.0, 1.0)
    return sites._replace(c=keep * sites.c, nu=keep * sites.nu, W=keep[:, None, None] * sites.W)


def block_prior_reference(model: OfSeveral) -> BlockReference:
    """The prior as reference: empty sites, log Z_q = 0."""
    none = BlockSites.none(model.prior, len(model.likelihood.predictors))
    return BlockReference.of("prior", model, model.prior.with_blocks(none))
