"""Independent copies of one prior that share its hyperparameters: a series for every group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array, csr_array, eye_array, kron

from ...execution.arguments import check_size, shown
from ...messages import InputError
from ...numerics.arrays import Array
from ..borrowed import borrowed
from .base import Precision


@dataclass(frozen=True, eq=False, repr=False)
class Copies(Precision):
    """See :func:`copies`."""

    part: Precision
    count: int

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.count * self.part.n

    def matrix(self) -> csc_array:
        return csc_array(kron(eye_array(self.count), self.part.matrix(), format="csc"))

    roots = borrowed("part.roots")
    hyperparameters = borrowed("part.hyperparameters")
    theta = borrowed("part.theta")
    bounds = borrowed("part.bounds")

    @property
    def null(self) -> Array:
        return np.asarray(np.kron(np.eye(self.count), self.part.null), float)

    @property
    def constraints(self) -> tuple[csr_array, Array] | None:
        if self.part.constraints is None:
            return None
        C, r = self.part.constraints
        return csr_array(kron(eye_array(self.count), C, format="csr")), np.tile(r, self.count)

    @property
    def design(self) -> csr_array | None:  # type: ignore[override]
        """As that of one, copy after copy."""
        own = self.part.design
        return None if own is None else csr_array(kron(eye_array(self.count), own, format="csr"))

    def clone_with_theta(self, theta: ArrayLike) -> Self:
        return replace(self, part=self.part.clone_with_theta(theta))

    def __repr__(self) -> str:
        return f"copies({self.part!r}, {self.count})"


def copies(part: Precision, count: int) -> Copies:
    """Independent copies of a prior, one after the other, with the same hyperparameters.

    Examples
    --------
    >>> from evidence.models.precisions import ar1
    >>> years = copies(ar1(20, 0.5), 3)
    >>> years.n, [p.name for p in years.hyperparameters]
    (60, ['rho', 'sigma'])
    """
    if not isinstance(part, Precision):
        raise InputError(
            f"part must be a prior of ev.precisions, such as ar1(20, 0.5), got {shown(part)}"
        )
    check_size("count", count, 4)
    return Copies(part, count)
