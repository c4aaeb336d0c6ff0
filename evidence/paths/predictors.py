r"""The tempered path where a datum sees several predictors.

.. math:: \log p_\beta(x) = \log Z_q + \log q(x) + \beta \sum_n h_n(\eta_n),\qquad
          h_n = \log p(y_n|\eta_n) - \log t_n(\eta_n)

States are the predictors themselves, or latent values where these have a sparse order.
"""

from __future__ import annotations

import numpy as np

from ..approximations.predictors.reference import BlockReference
from ..messages import InputError
from .base import TemperedPath
from .coordinates import KINDS, Array, Frame
from .stepped import SteppedPath


class _Tilt:
    """Tilts of rows of predictors (B, P·N)."""

    reference: BlockReference

    def _values(self, x: Array) -> Array:
        model, eta = self.reference.model, self.reference.model.likelihood.split(x)
        with np.errstate(over="ignore", invalid="ignore"):
            each = model.likelihood.log_probs(model.y, eta) - self.reference.sites.log(eta)
        total = each.sum(axis=-1)
        return np.where(np.isnan(total), -np.inf, total)

    def _both(self, x: Array) -> tuple[Array, Array]:
        model, sites = self.reference.model, self.reference.sites
        eta = model.likelihood.split(x)
        value, slope = model.likelihood.slopes(model.y, eta)
        with np.errstate(over="ignore", invalid="ignore"):
            total = (value - sites.log(eta)).sum(axis=-1)
            slope = slope - sites.nu + sites.times_W(eta)
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
        return super().make_coordinates(kind)

    def tilt(self, x: Array) -> Array:
        return self._values(x)

    def tilt_and_gradient(self, x: Array) -> tuple[Array, Array]:
        return self._both(x)


class SteppedPredictorsPath(_Tilt, SteppedPath):
    """p_β from one reference, where latent values have a sparse order."""

    reference: BlockReference  # type: ignore[assignment]

    def tilt(self, x: Array) -> Array:
        return self._values(self.model.prior.predictors(x))

    def tilt_and_gradient(self, x: Array) -> tuple[Array, Array]:
        total, slopes = self._both(self.model.prior.predictors(x))
        return total, np.ascontiguousarray((self.model.prior.design.T @ slopes.T).T)
