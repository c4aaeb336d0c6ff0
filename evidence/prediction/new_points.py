"""New points as users give them: inputs for a kernel, or the covariances themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..messages import InputError
from .components import GivenPoints, KernelPoints, Points

Array = NDArray[np.float64]


class Field(Protocol):
    """One latent field: a :class:`~evidence.models.gp.GPModel`, or a class of several."""

    @property
    def kernel(self) -> Callable[..., Any] | None: ...

    @property
    def X(self) -> Array | None: ...

    @property
    def n(self) -> int: ...

    @property
    def mean(self) -> Array: ...


def new_points(
    model: Field,
    X_new: ArrayLike | None,
    K_new: ArrayLike | None,
    k_diag: ArrayLike | None,
    mean_new: Any,
) -> Points | None:
    """The new points, or None for the data themselves."""
    if model.kernel is None:
        if X_new is not None:
            raise InputError(
                "X_new: this model was given K and has no kernel; pass K_new= (n x N) and "
                "k_diag= (n) for the new points"
            )
        if K_new is None and k_diag is None:
            _check_no_mean(mean_new)
            return None
        if K_new is None or k_diag is None:
            raise InputError("K_new and k_diag go together; pass both")
        K, diag = _finite("K_new", K_new), _finite("k_diag", k_diag)
        if K.ndim != 2 or K.shape[1] != model.n or diag.shape != K.shape[:1]:
            raise InputError(
                f"K_new must be n x {model.n} and k_diag a vector of length n, got shapes "
                f"{K.shape} and {diag.shape}"
            )
        if diag.min(initial=0.0) < 0.0:
            raise InputError(f"k_diag holds a negative variance, {diag.min():.3g}")
        return GivenPoints(K, diag, _new_mean(model, mean_new, len(K)))
    if K_new is not None or k_diag is not None:
        raise InputError("K_new and k_diag are for models with a given K; pass X_new")
    if X_new is None:
        _check_no_mean(mean_new)
        return None
    X = _finite("X_new", X_new)
    assert model.X is not None
    columns = model.X.shape[1]
    if X.ndim == 1 and columns == 1:
        X = X[:, None]
    if X.ndim != 2 or X.shape[1] != columns or not len(X):
        raise InputError(
            f"X_new must be n x {columns}, like the X of the model, got shape {X.shape}"
        )
    return KernelPoints(model.kernel, model.X, X, _new_mean(model, mean_new, len(X)))


def _check_no_mean(mean_new: Any) -> None:
    if mean_new is not None:
        raise InputError("mean_new goes with new points; pass X_new (or K_new and k_diag) too")


def _finite(name: str, value: ArrayLike) -> Array:
    try:
        array = np.array(value, dtype=float, order="C")
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must be an array of numbers, got {type(value).__name__}"
        ) from None
    if not np.isfinite(array).all():
        raise InputError(f"{name} contains NaN or inf; drop or impute those first")
    return array


def _new_mean(model: Field, mean_new: Any, n: int) -> Array:
    if mean_new is None:
        if np.ptp(model.mean) > 0.0:
            raise InputError(
                "mean_new is missing: the prior mean of this model differs between data; pass "
                "the prior mean at the new points"
            )
        mean_new = model.mean[0]
    mean = _finite("mean_new", mean_new)
    if mean.shape not in ((), (n,)):
        raise InputError(f"mean_new must be a number or {n} of them, got shape {mean.shape}")
    return np.broadcast_to(mean, (n,))
