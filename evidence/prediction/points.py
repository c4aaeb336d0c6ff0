"""New points as users give them, and as the prior sees them.

A model has C latent fields: one, or one for each class. Fields with one prior see the new points
alike, so covariances come once for all C of them or once for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse, vstack

from ..execution.arguments import array
from ..messages import InputError
from ..models.formulas.model import FormulaModel
from ..models.sparse import SparseModel
from ..models.types import Described
from ..numerics.arrays import Array


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs for the kernels of a model, or covariances that stand for them."""

    mean: Array
    """Prior mean of every field, shape (C, n)."""
    X: Array | None = None
    K: Array | None = None
    """Covariances with the latent values at the data, (1, n, N) or (C, n, N)."""
    diag: Array | None = None
    """Prior variances, (1, n) or (C, n)."""

    @property
    def n(self) -> int:
        return self.mean.shape[1]

    def at(self, model: Described, rows: slice) -> tuple[Array, Array, Array]:
        """Covariances (F, b, N), variances (F, b) and means (C, b) under the model's prior.

        F is 1 where all fields have the same, else C.
        """
        if self.K is not None and self.diag is not None:
            return self.K[:, rows], self.diag[:, rows], self.mean[:, rows]
        assert self.X is not None
        each = [_covariances(kernel, model.X, self.X[rows]) for kernel in _kernels(model)]
        k, diag = (np.stack(part) for part in zip(*each, strict=True))
        return k, diag, self.mean[:, rows]


@dataclass(frozen=True, eq=False)
class DesignPoints:
    """Which latent values of a SparseModel new data see, and what is known of their predictors."""

    design: csr_array
    offset: Array
    extra: Array | None = None
    """Variances of what new data see beyond these latent values, shape (n,)."""
    new: Callable[[Any], Array] | None = None
    """From the model at other hyperparameters to further such variances, of groups that are not
    in it."""

    predictors: int = 1
    """How many every datum sees: the design has so many parts, one after the other."""

    @property
    def n(self) -> int:
        return int(self.design.shape[0]) // self.predictors

    @property
    def X(self) -> None:
        """They have no inputs."""


@singledispatch
def design_points(
    model: SparseModel, A_new: object, offset: float | ArrayLike | None, new_groups: str = "error"
) -> DesignPoints:
    """New rows of A, or those of the data."""
    P = model.n_predictors
    if A_new is None:
        if offset is not None:
            raise InputError("mean_new goes with new points; pass X_new (rows of A) too")
        return DesignPoints(model.A, model.offset, predictors=P)
    if P > 1 and isinstance(A_new, list | tuple):
        A_new = vstack([csr_array(own) for own in A_new])
    A = csr_array(A_new if issparse(A_new) else array("X_new", A_new, ("N", model.n)), dtype=float)
    if A.shape[1] != model.n:
        raise InputError(
            f"X_new must have a column for each of {model.n} latent values, as A has, got shape "
            f"{A.shape}"
        )
    known = array("mean_new", 0.0 if offset is None else offset, (), (A.shape[0],))
    return DesignPoints(A, np.broadcast_to(known, (A.shape[0],)), predictors=P)


@design_points.register
def _of_table(
    model: FormulaModel, A_new: object, offset: float | ArrayLike | None, new_groups: str = "error"
) -> DesignPoints:
    """The same of a table."""
    if A_new is None or issparse(A_new):
        return design_points.dispatch(SparseModel)(model, A_new, offset)
    if offset is not None:
        raise InputError("mean_new: rows of a table bring their own; offset(x) is for the formula")
    A, known, new = model.rows_of(A_new, new_groups)
    variances = None if new is None else partial(FormulaModel.variances_as_first, rows=new)
    return DesignPoints(A, known, None, variances, model.n_predictors)


def _kernels(model: Described) -> tuple[Any, ...]:
    """The different kernels; none where the model was given matrices."""
    kernels = tuple(kernel for kernel in model.hyperparameters.kernels if kernel is not None)
    return kernels[:1] if model.shared else kernels


def _covariances(
    kernel: Callable[..., Any], X: Any, X_new: Array, *, diagonal: int = 256
) -> tuple[Array, Array]:
    """Covariances (b, N) with the data, and variances (b,).

    ``diagonal``: points at a time when a kernel has no diag.
    """
    k = array("kernel(X_new, X)", kernel(X_new, X), (len(X_new), len(X)))
    if hasattr(kernel, "diag"):
        return k, np.asarray(kernel.diag(X_new), dtype=float)
    parts = (X_new[i : i + diagonal] for i in range(0, len(X_new), diagonal))
    return k, np.concatenate([np.diag(kernel(part, part)) for part in parts])


@singledispatch
def new_points(
    model: Described, X_new: ArrayLike | None, K_new: ArrayLike | None, k_diag: ArrayLike | None,
    mean_new: float | ArrayLike | None, new_groups: str = "error",
) -> Points | DesignPoints | None:  # fmt: skip
    """The new points as the model sees them, or None for the data themselves."""
    if X_new is None and K_new is None and k_diag is None:
        if mean_new is not None:
            raise InputError("mean_new goes with new points; pass X_new (or K_new and k_diag) too")
        return None
    if _kernels(model):
        if K_new is not None or k_diag is not None:
            raise InputError("K_new and k_diag are for models with a given K; pass X_new")
        assert model.X is not None
        columns = model.X.shape[1]
        X = array("X_new", X_new, ("n", columns), *[("n",)] * (columns == 1)).reshape(-1, columns)
        return Points(_new_mean(model, mean_new, len(X)), X)
    if X_new is not None:
        raise InputError(
            "X_new: this model was given K and has no kernel; pass K_new= (n x N) and "
            "k_diag= (n) for the new points"
        )
    if K_new is None or k_diag is None:
        raise InputError("K_new and k_diag go together; pass both")
    C, N = len(fields := model.field_priors), fields[0].mean.size
    K = _by_field("K_new", K_new, C, "n", N)
    n = K.shape[1]
    diag = _by_field("k_diag", k_diag, C, n)
    if diag.min() < 0.0:
        raise InputError(f"k_diag holds a negative variance, {diag.min():.3g}")
    return Points(_new_mean(model, mean_new, n), None, K, diag)


@new_points.register
def _new_rows(
    model: SparseModel, X_new: ArrayLike | None, K_new: ArrayLike | None, k_diag: ArrayLike | None,
    mean_new: float | ArrayLike | None, new_groups: str = "error",
) -> DesignPoints:  # fmt: skip
    if K_new is not None or k_diag is not None:
        raise InputError("K_new and k_diag are for a GPModel; pass X_new (rows of A)")
    return design_points(model, X_new, mean_new, new_groups)


def _by_field(name: str, value: object, C: int, *shape: int | str) -> Array:
    """What all fields have together, or one part for each class, along a first axis."""
    given = array(name, value, shape, *[(C, *shape)] * (C > 1))
    return given if given.ndim > len(shape) else given[None]


def _new_mean(model: Described, mean_new: object, n: int) -> Array:
    """Shape (C, n)."""
    before = np.array([prior.mean for prior in model.field_priors])
    C = len(before)
    if mean_new is None:
        if np.ptp(before, axis=1).any():
            raise InputError(
                "mean_new is missing: the prior mean of this model differs between data; pass "
                "the prior mean at the new points"
            )
        return np.broadcast_to(before[:, :1], (C, n))
    mean = array("mean_new", mean_new, (), *([(n,)] if C == 1 else [(C,), (C, n)]))
    return np.broadcast_to(mean[:, None] if C > 1 and mean.ndim == 1 else mean, (C, n))
