r"""The tempered target L_β: what moves and drivers know of a path from reference to posterior.

.. math:: p_\beta(x) = Z_q\, q(x)\, e^{\beta h(x)},\qquad h = \log p - \log Z_q q

for any density p, with q the reference and h the *tilt*. One file beside this one holds the path
of each kind of model. The metric at β is made where moves ask for it:
:math:`\Sigma^{-1} - \beta\,\nabla^2 h`, by Woodbury's identity where h is a sum over data
(``moves/riemannian/separable/system.py``), else as a full matrix
(``moves/riemannian/dense/field.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from .coordinates import Array, Frame, coordinates


def by_rows(change: Callable[[Array], Array], x: Array) -> Array:
    """A change of rows, of vectors (…, n)."""
    rows = change(x.reshape(-1, x.shape[-1]))
    return rows.reshape(*x.shape[:-1], rows.shape[-1])


class TemperedPath(ABC):
    r"""What every path offers to moves and drivers, whatever the model.

    A subclass gives :meth:`tilt` and :meth:`tilt_and_gradient`; its reference is a Gaussian with
    ``mean``, what :class:`.Base` asks for, and an estimate ``logz`` of its normaliser.
    """

    separable: ClassVar[bool] = False
    """Whether the tilt is a sum over coordinates of x, as metrics with one Cholesky need."""

    dense: ClassVar[bool] = False
    """Whether the path has a curvature of its own, a full matrix at every point."""

    compiled: ClassVar[bool] = False
    """Whether compiled code may evaluate the tilt, from :attr:`.Path.tilt_arguments`."""

    matrix: ClassVar[bool] = True
    """Whether the base's covariance is a matrix, and coordinates other than its own exist."""

    @property
    def riemannian(self) -> bool:
        """Whether Riemannian moves find what they need."""
        return self.separable

    def __init__(self, reference: Any) -> None:
        self.reference = reference
        self.model = reference.model
        self.log_z0: float = reference.logz
        self.frames: dict[str, Frame] = {}
        """The coordinates made so far; other processes receive them with the path."""

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: matrices as they are, so that it computes the same."""
        bare = replace(self.reference, model=self.model.bare())
        return {"reference": bare, "frames": self.frames}

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, state["reference"])
        self.frames = state["frames"]

    @property
    def n(self) -> int:
        """Dimension of a state."""
        return self.model.n

    @property
    def mean(self) -> Array:
        """Mean of the base q."""
        return self.reference.mean

    def coordinates(self, kind: str) -> Frame:
        """Coordinates with a diagonal base and unit mass (:mod:`.coordinates`), made once."""
        if kind not in self.frames:
            self.frames[kind] = self.make_coordinates(kind)
        return self.frames[kind]

    def make_coordinates(self, kind: str) -> Frame:
        """What :meth:`coordinates` keeps."""
        return coordinates(self.reference, kind)

    def parameters(self, x: Array) -> Array:
        """What users call the parameters, from states (…, N); the states themselves here."""
        return x

    def latent(self, parameters: Array) -> Array:
        """States from parameters (…, N)."""
        return parameters

    def to_shared(self, x: Array) -> Array:
        """Coordinates that paths from all references of the model have in common."""
        return x

    def from_shared(self, x: Array) -> Array:
        """The inverse of :meth:`to_shared`."""
        return x

    @abstractmethod
    def tilt(self, x: Array) -> Array:
        """h of every row, shape (M,)."""

    @abstractmethod
    def tilt_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """h and its gradient, shapes (M,) and (M, N)."""

    def tilt_and_slope(self, frame: Frame, a: Array) -> tuple[Array, Array]:
        """h and its gradient in the coordinates a, shapes (M,) and (M, N)."""
        tilt, gradient = self.tilt_and_gradient(frame.to_latent(a))
        return tilt, frame.slope(gradient)
