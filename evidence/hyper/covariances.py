r"""Covariance matrices for many values of the hyperparameters, on the same inputs.

scikit-learn computes all pairwise distances again for every θ. For an isotropic squared
exponential, alone or times a constant, :math:`\sigma^2 \exp(-r^2 / 2\ell^2)`, they are kept and
one pass over half the matrix is left. Other kernels are called as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from ..models.covariance import call_kernel
from ..numerics.arrays import Array
from ..numerics.jit import jit, vector_loop
from ..numerics.special import exp

_TILE = 32


#: a value held, or the position of its log in θ
_Parameter = float | int


@vector_loop
def _row(squared, variance, rate, out):
    for k in range(out.size):
        out[k] = variance * exp(rate * squared[k])


@jit
def _fill(squared, variance, rate, diagonal, out):
    """variance · exp(rate · r²) from condensed r², band by band and mirrored tile by tile."""
    n = out.shape[0]
    for i0 in range(0, n, _TILE):
        i1 = min(i0 + _TILE, n)
        for i in range(i0, i1):
            first = n * i - i * (i + 1) // 2
            _row(squared[first : first + n - i - 1], variance, rate, out[i, i + 1 :])
            out[i, i] = diagonal
        for j0 in range(i0, n, _TILE):
            for j in range(j0, min(j0 + _TILE, n)):
                for i in range(i0, min(i1, j)):
                    out[j, i] = out[i, j]


def covariance_functions(
    kernels: Sequence[Any], X: Any, relative_jitter: float
) -> list[Callable[[Array], Array]]:
    """K(θ) with its jitter for each kernel, a new array per call; θ as ``kernel.theta`` has it.

    >>> from evidence.models.kernels.parse import parse_kernel
    >>> (K,) = covariance_functions([parse_kernel("4.0 * RBF(1.5)")], np.eye(2), 0.0)
    >>> K(np.log([9.0, 1.0])).round(4).tolist()
    [[9.0, 3.3109], [3.3109, 9.0]]
    """
    parameters = [_squared_exponential(kernel) for kernel in kernels]
    squared = pdist(X, "sqeuclidean") if any(parameters) else np.empty(0)
    return [
        partial(_from_distances, squared, len(X), relative_jitter, *own)
        if own
        else partial(_general, kernel, X, relative_jitter)
        for kernel, own in zip(kernels, parameters, strict=True)
    ]


def _from_distances(
    squared: Array,
    n: int,
    relative_jitter: float,
    variance: _Parameter,
    length: _Parameter,
    theta: Array,
) -> Array:
    v, l = (float(np.exp(theta[p])) if isinstance(p, int) else p for p in (variance, length))
    out = np.empty((n, n))
    _fill(squared, v, -0.5 / (l * l), v * (1.0 + relative_jitter), out)
    return out


def _general(kernel: Any, X: Array, relative_jitter: float, theta: Array) -> Array:
    kernel = kernel.clone_with_theta(theta) if theta.size else kernel
    K = np.array(call_kernel(kernel, X), dtype=float, order="C")
    K.flat[:: len(X) + 1] += relative_jitter * np.mean(np.diag(K))
    return K


def _squared_exponential(kernel: Any) -> tuple[_Parameter, _Parameter] | None:
    """Variance and length scale, where the kernel is no more than that."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Product

    factors = [kernel.k1, kernel.k2] if type(kernel) is Product else [kernel]
    kinds = [type(factor) for factor in factors]
    if kinds.count(RBF) != 1 or kinds.count(ConstantKernel) != len(factors) - 1:
        return None
    parameters: dict[type, _Parameter] = {ConstantKernel: 1.0}
    index = 0
    for kind, factor in zip(kinds, factors, strict=True):
        (parameter,) = factor.hyperparameters
        value = getattr(factor, parameter.name)
        if np.ndim(value) != 0:  # one scale per column
            return None
        parameters[kind] = float(value) if parameter.fixed else index
        index += not parameter.fixed
    return parameters[ConstantKernel], parameters[RBF]
