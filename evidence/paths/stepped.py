r"""The tempered path of a model whose latent values have a sparse order.

.. math:: \log p_\beta(u) = \log Z_q + \log q(u) + \beta \sum_i h_i(\eta_i),\qquad
          h_i = \ell_i - \log t_i,\quad \eta = A u + o

States are latent values u: those of a :class:`~evidence.models.sparse.SparseModel`, the states of
a chain behind a :class:`~evidence.models.gp.GPModel`. Their coordinates are those in which q is
white, :math:`u = \mu + D a`: moves solve with a sparse factor and see no matrix. (Where there are
constraints the map is not one to one, and Gaussian all the same.) A component of a mixture goes to
its share of the posterior, as in :mod:`.shared`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..approximations.reference import GaussianReference
from ..messages import InputError
from ..models.likelihoods.quadrature import evaluate
from .base import TemperedPath, by_rows
from .coordinates import Array, Frame

if TYPE_CHECKING:
    from ..gaussians.base import Root


@dataclass(frozen=True, eq=False)
class RootFrame(Frame):
    """White coordinates of a Gaussian without a matrix."""

    white: Root

    def turn(self, a: Array) -> Array:
        return np.ascontiguousarray(self.white.draw(np.ascontiguousarray(a.T)).T)

    def from_latent(self, x: Array) -> Array:
        return np.ascontiguousarray(self.white.whiten((x - self.mean).T).T)

    def slope(self, gradient: Array) -> Array:
        columns = np.ascontiguousarray(gradient.T)
        return np.ascontiguousarray(self.white.draw_transposed(columns).T)


class SteppedPath(TemperedPath):
    """p_β from one reference, to the posterior or to a component's share of it."""

    matrix = False
    reference: GaussianReference

    def __init__(self, reference: GaussianReference) -> None:
        super().__init__(reference)
        white = reference.gaussian.root()
        self.frames["base"] = RootFrame(white.mean, np.ones(white.mean.size), white)

    @property
    def n(self) -> int:
        return self.mean.size

    @property
    def mean(self) -> Array:
        return self.frames["base"].mean

    def make_coordinates(self, kind: str) -> Frame:
        raise InputError(
            f"coordinates={kind!r}: a model without a covariance matrix has those of its "
            "reference only, 'base'"
        )

    def parameters(self, x: Array) -> Array:
        return by_rows(self.model.from_latent, x)

    def latent(self, parameters: Array) -> Array:
        return by_rows(self.model.to_latent, parameters)

    def tilt(self, x: Array) -> Array:
        return self._tilt(x)[0]

    def tilt_and_gradient(self, x: Array) -> tuple[Array, Array]:
        total, slopes = self._tilt(x)
        return total, np.ascontiguousarray((self.model.prior.design.T @ slopes.T).T)

    def _tilt(self, x: Array, together: int = 2**14) -> tuple[Array, Array]:
        """Tilt, and its slope in what the data see; so many of these at a time."""
        model, (c, nu, tau) = self.model, self.reference.sites
        prior, kernel = model.prior, model.likelihood.kernel
        eta, share = prior.predictors(x), self.reference.share
        total, log_share, more = np.empty(len(eta)), np.zeros(len(eta)), np.zeros_like(eta)
        if share is not None:
            log_share, more = share.log_and_gradient(eta)
        with np.errstate(over="ignore", invalid="ignore"):
            step = max(together // c.size, 1)
            for part in (slice(m, m + step) for m in range(0, len(eta), step)):
                rows = eta[part]
                theta = model.theta if len(rows) == 1 else np.tile(model.theta, len(rows))
                value, slope, *_ = evaluate(kernel, theta, rows.ravel(), order=1)
                sites = c + rows * (nu - 0.5 * tau * rows)
                total[part] = (value.reshape(rows.shape) - sites).sum(axis=1)
                eta[part] = slope.reshape(rows.shape) - nu + tau * rows
        total[np.isnan(total)] = -np.inf
        return total + log_share, eta + more
