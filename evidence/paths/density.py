r"""The tempered path of a :class:`~evidence.models.density.model.DensityModel`.

.. math:: \log p_\beta(y) = \log Z_q + \log q(y) + \beta\,h(y),\qquad
          h(y) = \log p(x(y)) + \log\Big|\frac{\partial x}{\partial y}\Big| - \log Z_q q(y)

States are latent coordinates y, in which the base is Gaussian
(:mod:`evidence.approximations.density.reference`); parameters are what users see.
"""

from __future__ import annotations

import numpy as np

from ..approximations.density.reference import DensityReference
from ..messages import InputError
from ..models.density import changes
from ..models.density.functions import no_nan
from ..models.density.model import DensityModel
from .base import TemperedPath, by_rows
from .coordinates import Array, Frame


class DensityPath(TemperedPath):
    """p_β for one reference of a DensityModel."""

    dense = True
    reference: DensityReference
    model: DensityModel

    @property
    def riemannian(self) -> bool:
        return self.model.has_metric and self.reference.scales is None

    def parameters(self, y: Array) -> Array:
        return self.model.constrain(by_rows(self.reference.to_model, np.asarray(y, dtype=float)))

    def latent(self, parameters: Array) -> Array:
        return by_rows(self.reference.from_model, self.model.unconstrain(parameters))

    def to_shared(self, x: Array) -> Array:
        return self.reference.to_model(x)

    def from_shared(self, x: Array) -> Array:
        return self.reference.from_model(x)

    # -- the tilt ---------------------------------------------------------------------------

    def tilt(self, y: Array) -> Array:
        q = self.reference
        with np.errstate(all="ignore"):  # far out, tails overflow: such a proposal is rejected
            return self._tilt(q, q.standardise(y), y)

    def _tilt(self, q: DensityReference, z: Array, y: Array) -> Array:
        value = q.target.log_prob(q.warp(y)) - q.log_base(z) - self.log_z0
        return value if q.change is None else no_nan(value + q.change.log_slope(z).total)

    def tilt_and_slope(self, frame: Frame, a: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):  # a step that is too long ends anywhere
            return super().tilt_and_slope(frame, a)

    def tilt_and_gradient(self, y: Array) -> tuple[Array, Array]:
        q = self.reference
        z = q.standardise(y)
        with np.errstate(all="ignore"):
            value, slope = self.target_and_gradient(y)
            h = value - q.log_base(z) - self.log_z0
        slope += z @ q.inverse_root
        slope[~np.isfinite(slope)] = 0.0  # any fixed function of y leaves moves exact
        return h, slope

    # -- the target, log p(x(y)) |∂x/∂y|, and its curvature ---------------------------------

    def target_and_gradient(self, y: Array) -> tuple[Array, Array]:
        """log density of y at β = 1 and its gradient."""
        q = self.reference
        if q.change is None:
            value, slope = q.target.log_prob_and_gradient(y)
            return value, np.array(slope)
        z = q.standardise(y)
        d, extra = q.change.derivatives(z), q.change.log_slope(z)
        value, slope = q.target.log_prob_and_gradient(q.mean + d.g @ q.root.T)
        slope = changes.gradient(d, slope @ q.root) + extra.first
        return no_nan(value + extra.total), slope @ q.inverse_root

    def curvature(self, y: Array) -> Array:
        """What the metric is made from at β = 1, (M, d, d)."""
        q, model = self.reference, self.model
        if q.scales is not None:
            raise InputError(
                "in a reference with scales the metric is not known; use reference='gaussian'"
            )
        if q.change is None:
            return model.curvature(y)
        z = q.standardise(y)
        d = q.change.derivatives(z)
        x = q.mean + d.g @ q.root.T
        inner = q.root.T @ model.curvature(x) @ q.root
        if model.tensorial:
            inner = changes.tensor(d, inner)
        else:
            slope = model.log_prob_and_gradient(x)[1] @ q.root
            inner = changes.hessian(d, -slope, inner)
            changes.diagonal(inner)[...] -= q.change.log_slope(z).second
        return q.inverse_root.T @ inner @ q.inverse_root

    def curvature_slope(self, y: Array, W: Array) -> Array:
        """∇⟨W, curvature⟩ for symmetric matrices W."""
        q, model = self.reference, self.model
        if q.change is None:
            return model.curvature_slope(y, W)
        z = q.standardise(y)
        d = q.change.derivatives(z)
        x = q.mean + d.g @ q.root.T
        V = q.inverse_root @ W @ q.inverse_root.T
        pulled = q.root @ changes.pull(d, V) @ q.root.T
        inner = model.curvature_slope(x, pulled) @ q.root
        C = q.root.T @ model.curvature(x) @ q.root
        if model.tensorial:
            out = changes.tensor_contraction(d, C, V, inner)
        else:
            slope = model.log_prob_and_gradient(x)[1] @ q.root
            out = changes.contraction(d, -slope, C, V, inner)
            out = out - np.einsum("mii->mi", V) * q.change.log_slope(z).third
        return out @ q.inverse_root

    def curvature_tensor(self, y: Array) -> Array | None:
        """All derivatives of the curvature (M, d, d, d), where the model knows them."""
        return None if self.reference.change is not None else self.model.curvature_tensor(y)

    def curvature_along(self, y: Array, w: Array) -> Array:
        """∇(wᵀ curvature w)."""
        if self.reference.change is None:
            return self.model.curvature_along(y, w)
        return self.curvature_slope(y, w[:, :, None] * w[:, None, :])


def own_path(model: DensityModel) -> DensityPath:
    """The density in its own coordinates, from N(0, I) at β = 0."""
    d = model.n
    return DensityPath(DensityReference("given", model, np.zeros(d), np.eye(d), 0.0))
