r"""The tempered path of a :class:`~evidence.models.sparse.SparseModel`.

.. math:: \log p_\beta(u) = \log Z_q + \log q(u) + \beta \sum_i h_i(\eta_i),\qquad
          h_i = \ell_i - \log t_i,\quad \eta = A u + o

States are latent values u. Their coordinates are those in which q is white, :math:`u = \mu +
L^{-T} a`: moves solve with the sparse factor and see no matrix. (Where there are constraints the
map is not one to one, and Gaussian all the same.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..approximations.reference import GaussianReference
from ..gaussians.sparse import SparseGaussian
from ..messages import InputError
from ..models.likelihoods.quadrature import evaluate
from .base import TemperedPath
from .coordinates import Array, Frame


@dataclass(frozen=True, eq=False)
class SparseFrame(Frame):
    """White coordinates of a sparse Gaussian."""

    q: SparseGaussian

    def turn(self, a: Array) -> Array:
        return np.ascontiguousarray(self.q.solved.draw(np.ascontiguousarray(a.T)).T)

    def from_latent(self, x: Array) -> Array:
        return np.ascontiguousarray(self.q.solved.whiten((x - self.mean).T).T)

    def slope(self, gradient: Array) -> Array:
        return np.ascontiguousarray(self.q.solved.draw_transposed(gradient.T).T)


class SparsePath(TemperedPath):
    """p_β for one reference of a SparseModel."""

    reference: GaussianReference

    @property
    def riemannian(self) -> bool:
        return False

    def make_coordinates(self, kind: str) -> Frame:
        if kind != "base":
            raise InputError(
                f"coordinates={kind!r}: a SparseModel has those of its reference only, 'base'"
            )
        q: Any = self.reference.gaussian
        return SparseFrame(self.mean, np.ones(self.n), q)

    def tilt(self, x: Array) -> Array:
        return self.tilt_and_gradient(x, gradient=False)[0]

    def tilt_and_gradient(self, x: Array, gradient: bool = True) -> tuple[Array, Array]:
        model, (c, nu, tau) = self.model, self.reference.sites
        eta = model.predictors(np.asarray(x))
        total, slopes = np.empty(len(x)), np.empty_like(eta)
        with np.errstate(over="ignore", invalid="ignore"):
            for m, row in enumerate(eta):
                value, slope, *_ = evaluate(model.likelihood.kernel, model.theta, row)
                total[m] = np.sum(value - c - row * (nu - 0.5 * tau * row))
                slopes[m] = slope - nu + tau * row
        total[np.isnan(total)] = -np.inf
        return total, np.asarray((model.A.T @ slopes.T).T) if gradient else slopes
