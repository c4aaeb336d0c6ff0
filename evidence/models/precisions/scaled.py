"""Priors with one parameter, a standard deviation: Q = R/σ² with a fixed R.

Independent values are among them; random walks and maps are made of them elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array, csr_array, diags_array, eye_array

from ...execution.arguments import array, check_size, shown
from ...messages import InputError
from ...numerics.arrays import Array
from .base import WIDE, Bounds, Parameters, Precision


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Precision):
    """x ~ N(0, σ² R⁻), and x is orthogonal to the null space of R."""

    name: str
    """What it is called in text, and its size there."""
    size: str
    structure: csc_array
    """R, shape (n, n)."""
    basis: csc_array
    """Of its null space, orthonormal, shape (n, d)."""
    sigma: float = 1.0
    sigma_bounds: Bounds = WIDE

    parameters: ClassVar[Parameters] = {"sigma": None}

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.structure.shape[0]

    def matrix(self) -> csc_array:
        return self.structure / self.sigma**2

    def roots(self, values: Array) -> Array | None:
        """Of one value where all are alike, else of all; None where they depend on each other."""
        weights = self.structure.diagonal()
        if self.structure.nnz > self.n or weights.min() <= 0.0:
            return None
        own = weights[:1] if np.all(weights == weights[0]) else weights
        sigma = values if values.shape[1] else np.full((len(values), 1), self.sigma)
        return sigma[:, :, None] * np.diag(own**-0.5)

    @property
    def null(self) -> Array:
        return self.basis.toarray()

    @property
    def constraints(self) -> tuple[csr_array, Array] | None:
        d = self.basis.shape[1]
        return (self.basis.T.tocsr(), np.zeros(d)) if d else None

    def __repr__(self) -> str:
        return self._described(self.name, self.size)


@dataclass(frozen=True, eq=False, repr=False)
class Whitened(Scaled):
    """See :func:`whitened`."""

    root: Array = field(kw_only=True)
    """The lower root of the covariance."""

    def roots(self, values: Array) -> Array:
        return np.broadcast_to(self.root, (len(values), self.n, self.n))


def iid(n: int, sigma: float = 1.0, *, sigma_bounds: Bounds = WIDE) -> Scaled:
    r"""Independent values :math:`x_i \sim N(0, \sigma^2)`: groups, or what nothing explains.

    Fixed effects are such a prior with a large, fixed standard deviation:
    ``iid(p, sigma=10, sigma_bounds="fixed")``.

    Parameters
    ----------
    n : int
        Values.
    sigma : float
        Standard deviation of each.
    sigma_bounds : pair of float or "fixed"
        Where it is searched for, if at all.

    Examples
    --------
    >>> iid(3, sigma=0.5)
    iid(3, sigma=0.5)
    >>> iid(3, sigma=0.5).matrix().diagonal()
    array([4., 4., 4.])
    """
    check_size("n", n, 4)
    R = csc_array(eye_array(n))
    return Scaled("iid", str(n), R, csc_array((n, 0)), sigma, sigma_bounds)


def independent(sd: ArrayLike) -> Scaled:
    """Independent values with standard deviations of their own, nothing of which is free.

    Examples
    --------
    >>> independent([10.0, 2.5]).matrix().diagonal()
    array([0.01, 0.16])
    """
    sizes = array("sd", sd, ("n",))
    if sizes.min() <= 0.0:
        raise InputError(f"sd must be positive, got {shown(sd)}")
    R = csc_array(diags_array(1.0 / sizes**2))
    return Scaled("independent", str(sizes.size), R, csc_array((sizes.size, 0)), 1.0, "fixed")


def whitened(W: Array) -> Whitened:
    """Values x of which :math:`W x \\sim N(0, I)`, W square; nothing of it is free.

    >>> prior = whitened(np.array([[1.0, 3.0], [0.0, 0.5]]))
    >>> (prior.root @ prior.root.T).round(9).tolist()
    [[37.0, -12.0], [-12.0, 4.0]]
    """
    half = np.asarray(np.linalg.qr(np.linalg.inv(W).T, mode="r")).T
    root = half * np.sign(np.diag(half))
    R, none = csc_array(W.T @ W), csc_array((len(W), 0))
    return Whitened("whitened", str(len(W)), R, none, 1.0, "fixed", root=root)
