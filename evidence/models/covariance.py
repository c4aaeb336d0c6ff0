"""Prior covariances: from a kernel or a matrix, checked, jittered and factorised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..execution.arguments import array, number, shown
from ..execution.lazy import Kernel
from ..messages import InputError
from ..numerics.arrays import Array
from ..numerics.triangles import copy_triangle, factor, symmetrised
from .structures import choose


class CovarianceError(InputError):
    """The prior covariance is not positive definite."""


class Covariance(NamedTuple):
    """A prior covariance with its jitter, what the jitter was, and its lower Cholesky factor."""

    K: Array
    jitter: float
    chol: Array


def factorise(K: ArrayLike, name: str, n: int, relative_jitter: float) -> Covariance:
    """Check ``K``, add the jitter, factorise; ``name`` is what errors call it."""
    prior = check_covariance(K, name)
    if prior.shape[0] != n:
        raise InputError(
            f"{name} is {prior.shape[0]} x {prior.shape[1]} but y has {n} observations"
        )
    jitter = float(relative_jitter * np.mean(np.diag(prior)))
    prior.flat[:: n + 1] += jitter
    rows = np.zeros_like(prior)
    copy_triangle(prior, rows)
    info = factor(rows)
    if info != 0:
        if (low := np.linalg.eigvalsh(prior)[0]) < -1e-6 * np.abs(prior).max():
            raise CovarianceError(f"{name} is not positive definite: it has eigenvalue {low:.3g}")
        raise CovarianceError(
            f"{name} is not positive definite (Cholesky stopped at row {info} of {n}, "
            f"jitter {jitter:.3g}); pass a larger relative jitter, e.g. jitter=1e-6, "
            "or remove duplicated rows of X"
        )
    return Covariance(prior, jitter, rows.T)


class Source(NamedTuple):
    """Where a prior covariance comes from, but for the kernel or matrix itself."""

    X: Array | None
    """Inputs (N, D)."""
    jitter: float
    """Relative to the mean of the diagonal: by default 1e-6 if a kernel makes a matrix, else 0."""
    notes: tuple[str, ...]
    structure: str
    """Of the prior: see :mod:`evidence.models.structures`."""


def check_source(
    X: object, n: int, kernel: object, K: object, jitter: float | None, structure: str = "dense",
    *, kernel_jitter: float = 1e-6,
) -> Source:  # fmt: skip
    """Exactly one of kernel and K; a kernel comes with inputs, one row for each of n data.

    ``kernel_jitter``: relative jitter of what a kernel says.
    """
    inputs = None if X is None else check_inputs(X, n)
    if (kernel is None) == (K is None):
        raise InputError(
            "give exactly one of kernel= (with X) and K= (the covariance matrix); "
            f"got {'neither' if K is None else 'both'}"
        )
    if K is None and X is None:
        raise InputError("X is missing; a kernel needs the N x D inputs")
    structure = choose(structure, n, kernel, inputs)
    usual = kernel_jitter if K is None and structure != "markov" else 0.0
    relative = usual if jitter is None else number("jitter", jitter, least=0.0)
    notes = () if kernel is None else tuple(notes_on_inputs(inputs, structure))
    return Source(inputs, relative, notes, structure)


def as_kernel(kernel: object) -> Kernel:
    """A string parsed into a kernel; anything else as it is."""
    if not isinstance(kernel, str):
        return kernel
    from .kernels.parse import parse_kernel

    return parse_kernel(kernel)


def check_inputs(X: object, n: int) -> Array:
    """Inputs as an (N, D) matrix."""
    inputs = array("X", X, ("N",), ("N", "D"))
    if len(inputs) != n:
        raise InputError(f"X has {len(inputs)} rows but y has {n} observations")
    return inputs[:, None] if inputs.ndim == 1 else inputs


def notes_on_inputs(X: Array | None, structure: str) -> Iterator[str]:
    assert X is not None  # a kernel comes with inputs
    duplicated = X.shape[0] - np.unique(X, axis=0).shape[0] if structure == "dense" else 0
    if duplicated:
        yield (f"X: {duplicated} duplicated row(s); the covariance is singular but for the jitter")
    constant = np.flatnonzero((np.ptp(X, axis=0) == 0) & (len(X) > 1))
    if len(constant):
        listed = ", ".join(str(i) for i in constant[:5]) + (", …" if len(constant) > 5 else "")
        yield f"X: constant column(s) {listed} carry no information"


def call_kernel(kernel: Kernel, X: Array | None) -> Array:
    if not callable(kernel) or isinstance(kernel, type):
        raise InputError(
            f"kernel must be a scikit-learn kernel, a callable or a string, got {shown(kernel)}"
        )
    if not hasattr(kernel, "get_params"):
        return kernel(X, X)
    try:
        return kernel(X)  # not kernel(X, X): only this adds the noise of a WhiteKernel
    except ValueError as error:  # as many length scales as columns, for example
        raise InputError(f"kernel: {error}") from error


def check_covariance(K: ArrayLike, name: str) -> Array:
    """A symmetric matrix."""
    K = array(name, K, ("N", "N"))
    symmetric, asymmetry, largest = symmetrised(K)
    if asymmetry > 1e-8 * largest:
        raise InputError(
            f"{name} is not symmetric (largest difference {asymmetry:.3g}); "
            "pass (K + K.T) / 2 if that is what you mean"
        )
    return symmetric
