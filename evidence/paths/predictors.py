r"""The tempered path where a datum sees several predictors.

.. math:: \log p_\beta(x) = \log Z_q + \log q(x) + \beta \sum_n h_n(\eta_n),\qquad
          h_n = \log p(y_n|\eta_n) - \log t_n(\eta_n)

States are the predictors themselves, or latent values where these have a sparse order.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..approximations.predictors.reference import BlockReference
from ..approximations.reference import positive_eigh
from ..messages import InputError
from ..models.predictors import PredictorsModel
from .base import TemperedPath
from .coordinates import KINDS, Array, Frame, block_coordinates
from .stepped import SteppedPath


class _Tilt:
    """Tilts of rows of predictors (B, P·N)."""

    reference: BlockReference

    def tilt(self, x: Array) -> Array:
        model, eta = self.reference.model, self.reference.model.likelihood.split(x)
        with np.errstate(over="ignore", invalid="ignore"):
            each = model.likelihood.log_probs(model.observed, eta) - self.reference.sites.log(eta)
        total = each.sum(axis=-1)
        return np.where(np.isnan(total), -np.inf, total)

    def tilt_and_gradient(self, x: Array) -> tuple[Array, Array]:
        model, sites = self.reference.model, self.reference.sites
        eta = model.likelihood.split(x)
        value, slope = model.likelihood.slopes(model.observed, eta)
        with np.errstate(over="ignore", invalid="ignore"):
            total = (value - sites.log(eta)).sum(axis=-1)
            slope = slope - sites.slope(eta)
        return np.where(np.isnan(total), -np.inf, total), slope.reshape(x.shape)


class PredictorsPath(_Tilt, TemperedPath):
    """p_β from one reference, where the prior is a matrix."""

    def make_coordinates(self, kind: str) -> Frame:
        if kind == "expected":
            known = ", ".join(known for known in KINDS if known != "expected")
            raise InputError(
                "coordinates 'expected' need a likelihood with one latent value per datum, which "
                f"{self.model!r} has not; use one of {known}"
            )
        if self.reference.name == "prior" and isinstance(self.model, PredictorsModel):
            return block_coordinates([_Field(K) for K in self.model.covariances], self.mean, kind)
        return super().make_coordinates(kind)


class _Field:
    """One field's prior, centred: nothing of the size of all fields is made from it."""

    name = "prior"

    def __init__(self, K: Array) -> None:
        self.K, self.mean = K, np.zeros(len(K))

    @property
    def var(self) -> Array:
        return np.diag(self.K)

    @cached_property
    def eigh(self) -> tuple[Array, Array]:
        return positive_eigh(self.K, self.name)

    def curvature(self, x: Array) -> Array:
        return np.zeros_like(x)


class SteppedPredictorsPath(_Tilt, SteppedPath):
    """p_β from one reference, where latent values have a sparse order."""

    reference: BlockReference  # type: ignore[assignment]

    def tilt(self, x: Array) -> Array:
        return super().tilt(self.model.prior.predictors(x))

    def tilt_and_gradient(self, x: Array) -> tuple[Array, Array]:
        total, slopes = super().tilt_and_gradient(self.model.prior.predictors(x))
        return total, np.ascontiguousarray((self.model.prior.design.T @ slopes.T).T)
