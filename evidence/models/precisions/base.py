r"""The contract of a prior that is given by its sparse precision: x ~ N(m, Q⁻¹).

It knows neither data nor sites. Hyperparameters are like those of scikit-learn's kernels:
positive numbers whose logs are ``theta``, each free unless its bounds are ``"fixed"``. A
parameter of an interval (a, 1), such as a correlation, has log-odds in its place
(:mod:`evidence.models.scales`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array, csr_array, issparse

from ...execution.arguments import array, number, shown
from ...messages import InputError
from ...numerics.arrays import Array, Indices
from ..scales import natural, to_line

Bounds = tuple[float, float] | str
WIDE = (1e-5, 1e5)
Parameters = Mapping[str, float | None]


class Hyperparameter(NamedTuple):
    """One of them, as scikit-learn describes its own."""

    name: str
    n_elements: int
    fixed: bool
    low: float = np.nan
    """Where its interval (low, 1) begins; NaN for a positive number."""


class Precision(ABC):
    """A Gaussian prior by its precision matrix; frozen dataclasses, made by a function each.

    A subclass has a field for every parameter in ``parameters``, and one for its bounds.
    """

    parameters: ClassVar[Parameters] = MappingProxyType({})
    """Fields, and where their intervals (a, 1) begin; None for positive numbers."""

    n: int
    """Latent values."""
    design: csr_array | None = None
    """What data see of them by default, (N, n); None where they see all, each one once."""

    @abstractmethod
    def matrix(self) -> csc_array:
        """Q, shape (n, n); its pattern does not depend on hyperparameters."""

    def roots(self, values: Array) -> Array | None:
        """Lower roots of the covariance of k values, (B, k, k), for rows of natural values of what
        is free, where the prior is of independent and equal groups of k; None where it is not."""
        return None

    @property
    def null(self) -> Array:
        """Basis of the null space of Q, shape (n, d); d = 0 where Q is positive definite."""
        return np.zeros((self.n, 0))

    @property
    def constraints(self) -> tuple[csr_array, Array] | None:
        """C, shape (J, n), and r, shape (J,), where C x = r."""
        return None

    def __post_init__(self) -> None:
        for name, low in self.parameters.items():
            bounds = check_bounds(name, getattr(self, f"{name}_bounds"), low)
            object.__setattr__(self, f"{name}_bounds", bounds)
            object.__setattr__(self, name, self._checked(name, low))

    def _checked(self, name: str, low: float | None) -> float:
        value = getattr(self, name)
        if low is None:
            return number(name, value, above=0.0)
        return number(name, value, above=low, below=1.0)

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """All of them, free or fixed."""
        lows = {name: np.nan if low is None else low for name, low in self.parameters.items()}
        return [Hyperparameter(name, 1, self._fixed(name), low) for name, low in lows.items()]

    def _fixed(self, name: str) -> bool:
        return getattr(self, f"{name}_bounds") == "fixed"

    @property
    def _free(self) -> tuple[list[str], Array]:
        names = [name for name in self.parameters if not self._fixed(name)]
        return names, np.array([self.parameters[name] for name in names], float)

    @property
    def theta(self) -> Array:
        """The free ones on the real line: logs, or log-odds."""
        names, lows = self._free
        return to_line([getattr(self, name) for name in names], lows)

    @property
    def bounds(self) -> Array:
        """Of ``theta``, shape (P, 2)."""
        names, lows = self._free
        ends = [getattr(self, f"{name}_bounds") for name in names]
        return to_line(np.reshape(ends, (-1, 2)), lows[:, None])

    def clone_with_theta(self, theta: ArrayLike) -> Self:
        """The same prior at other hyperparameters."""
        names, lows = self._free
        values = natural(array("theta", theta, (len(names),)), lows)
        changes = dict(zip(names, values.tolist(), strict=True))
        return replace(self, **changes) if changes else self  # type: ignore[type-var]

    def _described(self, name: str, *facts: str) -> str:
        """``icar(10 sites, sigma=1)``."""
        values = [f"{field}={getattr(self, field):.6g}" for field in self.parameters]
        return f"{name}({', '.join([*facts, *values])})"


def check_bounds(name: str, bounds: Bounds, low: float | None) -> Bounds:
    """A pair of increasing numbers within the parameter's interval, or ``"fixed"``."""
    if isinstance(bounds, str) and bounds == "fixed":
        return bounds
    inside = "positive" if low is None else f"between {low:g} and 1"
    try:
        first, last = (float(value) for value in bounds)
    except (TypeError, ValueError):
        first = last = np.nan
    if not (0.0 if low is None else low) < first < last < (np.inf if low is None else 1.0):
        raise InputError(
            f"{name}_bounds must be 'fixed' or a pair of increasing numbers, {inside}, got "
            f"{shown(bounds)}"
        )
    return first, last


@dataclass(frozen=True, eq=False)
class Combination:
    """Linear combinations of matrices on their common pattern, whatever the weights.

    >>> pair = Combination.of(np.eye(2), np.ones((2, 2)))
    >>> pair(1.0, 0.0).nnz, pair(2.0, 3.0).toarray().tolist()
    (4, [[5.0, 3.0], [3.0, 5.0]])
    """

    table: Array
    """Their entries, a row for each matrix."""
    indices: Indices
    indptr: Indices

    @classmethod
    def of(cls, *matrices: csc_array | Array) -> Combination:
        """Of square matrices, sparse or dense."""
        entries = [csc_array(matrix).tocoo() for matrix in matrices]
        n = entries[0].shape[0]
        keys = [e.coords[1].astype(np.int64) * n + e.coords[0] for e in entries]
        pattern = np.unique(np.concatenate(keys))
        table = np.zeros((len(entries), pattern.size))
        for row, key, entry in zip(table, keys, entries, strict=True):
            row[np.searchsorted(pattern, key)] = entry.data
        return cls(table, pattern % n, np.searchsorted(pattern, np.arange(n + 1) * n))

    @property
    def n(self) -> int:
        """Rows, and columns."""
        return self.indptr.size - 1

    def __call__(self, *weights: float) -> csc_array:
        """The weighted sum."""
        data = np.asarray(weights) @ self.table
        return csc_array((data, self.indices, self.indptr), shape=(self.n, self.n))


class Combined(Precision):
    """A prior whose precision is such a combination."""

    parts: Combination

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.parts.n


def selection(columns: Sequence[int] | Indices, n: int) -> csr_array:
    """The design that picks these latent values out of n."""
    columns = np.asarray(columns)
    rows = np.arange(columns.size + 1)
    return csr_array((np.ones(columns.size), columns, rows), shape=(columns.size, n))


def sparse(name: str, value: object, *, most: float = 1e150) -> csr_array:
    """A SciPy sparse array, or what can be made one, with finite numbers.

    ``most``: entry of a sparse matrix.
    """
    given: csr_array = value if issparse(value) else csr_array(array(name, value, ("N", "n")))
    if given.ndim != 2:
        raise InputError(f"{name} must be a matrix, got shape {given.shape}")
    if given.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers, got {given.dtype}")
    out = csr_array(given, dtype=float)
    out.sum_duplicates()
    if not np.isfinite(out.data).all():
        raise InputError(f"{name} contains NaN or inf")
    if out.nnz and (largest := float(np.abs(out.data).max())) > most:
        raise InputError(
            f"{name} has an entry of size {largest:.3g}, whose square overflows; scale it to less "
            f"than {most:.0e}"
        )
    return out
