r"""The tempered path of one component of a mixture, to its share of the posterior.

.. math:: p_\beta(x) = Z_q\, q_c(x) \exp \beta \Big(\sum_n h_n(x_n) + \log a_c(x)\Big)

ends in :math:`p(y, x)\, a_c(x)`, whose integral is :math:`Z_c`; see
:mod:`evidence.approximations.mixture`.
"""

from __future__ import annotations

from ..approximations.mixture import Share
from ..approximations.reference import GaussianReference
from .base import TemperedPath
from .coordinates import Array
from .gp import Path


class SharedPath(TemperedPath):
    """From a component of a :class:`.Mixture` to its share of a GPModel's posterior."""

    reference: GaussianReference

    def __init__(self, reference: GaussianReference) -> None:
        super().__init__(reference)
        self._whole = Path(reference)
        assert reference.share is not None
        self._share: Share = reference.share

    def tilt(self, x: Array) -> Array:
        """Σ_n h_n(x_n) + log a_c(x), shape (M,)."""
        return self._whole.tilt(x) + self._share.log(x)

    def tilt_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """The tilt and its gradient, shapes (M,) and (M, N)."""
        log_share, slope = self._share.log_and_gradient(x)
        tilt, gradient = self._whole.tilt_and_gradient(x)
        return tilt + log_share, gradient + slope
