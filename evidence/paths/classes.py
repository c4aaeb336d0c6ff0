r"""The tempered path of a :class:`~evidence.models.classes.SoftmaxModel`.

.. math:: h(x) = \sum_n \Big(x_{y_n n} - \log\sum_k e^{x_{kn}}\Big)
          - \big(c + b^T x - \tfrac12 x^T W x\big)

Every datum couples the values of all classes, so the tilt is no sum over coordinates. From the
prior, whose classes are independent, coordinates are made class by class: nothing of size
C·N × C·N exists, and one step costs C products with an N × N matrix per row (a single
matrix where classes share their prior).
"""

from __future__ import annotations

import numpy as np

from ..approximations.classes.reference import SoftmaxReference
from ..messages import InputError
from ..models.likelihoods import softmax as _softmax
from .base import TemperedPath
from .coordinates import KINDS, Array, Frame, block_coordinates


class SoftmaxPath(TemperedPath):
    """p_β for one reference of a SoftmaxModel."""

    reference: SoftmaxReference

    def make_coordinates(self, kind: str) -> Frame:
        if kind == "expected":
            known = ", ".join(known for known in KINDS if known != "expected")
            raise InputError(
                "coordinates 'expected' need a likelihood with one latent value per datum, which "
                f"{self.model!r} has not; use one of {known}"
            )
        if self.reference.name == "prior":
            return block_coordinates(self.reference.prior_blocks, self.mean, kind)
        return super().make_coordinates(kind)

    def tilt(self, x: Array) -> Array:
        x, total = np.ascontiguousarray(x), np.empty(len(x))
        _softmax.tilt(self.model.codes, *self.reference.sites, x, total)
        return total

    def tilt_and_gradient(self, x: Array) -> tuple[Array, Array]:
        x = np.ascontiguousarray(x)
        total, gradient = np.empty(len(x)), np.empty_like(x)
        _softmax.tilt(self.model.codes, *self.reference.sites, x, total, gradient)
        return total, gradient
