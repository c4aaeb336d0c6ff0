r"""Covariance matrices for many values of the hyperparameters, on the same inputs.

scikit-learn computes all pairwise distances again for every θ, after half a millisecond of looking
up names. For one isotropic kernel, alone or times a constant, :math:`\sigma^2 k(r/\ell)` with k a
squared exponential or Matérn's of order 1/2, 3/2 or 5/2, distances are kept and one pass over half
the matrix is left. Other kernels are called as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from ..execution.lazy import Kernel, kernels
from ..models.covariance import call_kernel
from ..numerics.arrays import Array
from ..numerics.jit import jit, vector_loop
from ..numerics.special import exp

#: a value held, or the position of its log in θ
_Parameter = float | int


@vector_loop
def _squared_exponential(squared, variance, length, out):
    rate = -0.5 / (length * length)
    for k in range(out.size):
        out[k] = variance * exp(rate * squared[k])


@vector_loop
def _matern(squared, variance, length, nu, out):
    rate = 2.0 * nu / (length * length)
    first, second = 1.0 if nu > 1.0 else 0.0, 1.0 / 3.0 if nu > 2.0 else 0.0
    for k in range(out.size):
        a = math.sqrt(rate * squared[k])
        out[k] = variance * (1.0 + a * (first + a * second)) * exp(-a)


@jit
def _fill(squared, variance, length, nu, diagonal, out):
    """variance · k(r/length) from condensed r², band by band and mirrored tile by tile."""
    tile = 32
    n = out.shape[0]
    for i0 in range(0, n, tile):
        i1 = min(i0 + tile, n)
        for i in range(i0, i1):
            first = n * i - i * (i + 1) // 2
            own, row = squared[first : first + n - i - 1], out[i, i + 1 :]
            if nu == math.inf:
                _squared_exponential(own, variance, length, row)
            else:
                _matern(own, variance, length, nu, row)
            out[i, i] = diagonal
        for j0 in range(i0, n, tile):
            for j in range(j0, min(j0 + tile, n)):
                for i in range(i0, min(i1, j)):
                    out[j, i] = out[i, j]


def covariance_functions(
    kernels: Sequence[Kernel], X: Any, relative_jitter: float
) -> list[Callable[[Array], Array]]:
    """K(θ) with its jitter for each kernel, a new array per call; θ as ``kernel.theta`` has it.

    >>> from evidence.models.kernels.parse import parse_kernel
    >>> (K,) = covariance_functions([parse_kernel("4.0 * RBF(1.5)")], np.eye(2), 0.0)
    >>> K(np.log([9.0, 1.0])).round(4).tolist()
    [[9.0, 3.3109], [3.3109, 9.0]]
    """
    parameters = [_isotropic(kernel) for kernel in kernels]
    squared = pdist(X, "sqeuclidean") if any(parameters) else np.empty(0)
    return [
        partial(_from_distances, squared, len(X), relative_jitter, *own)
        if own
        else partial(_general, kernel, X, relative_jitter)
        for kernel, own in zip(kernels, parameters, strict=True)
    ]


def _from_distances(
    squared: Array, n: int, relative_jitter: float, nu: float,
    variance: _Parameter, length: _Parameter, theta: Array,
) -> Array:  # fmt: skip
    v, l = (float(np.exp(theta[p])) if isinstance(p, int) else p for p in (variance, length))
    out = np.empty((n, n))
    _fill(squared, v, l, nu, v * (1.0 + relative_jitter), out)
    return out


def _general(kernel: Kernel, X: Array, relative_jitter: float, theta: Array) -> Array:
    kernel = kernel.clone_with_theta(theta) if theta.size else kernel
    K = np.array(call_kernel(kernel, X), dtype=float, order="C")
    K.flat[:: len(X) + 1] += relative_jitter * np.mean(np.diag(K))
    return K


def _isotropic(kernel: Kernel) -> tuple[float, _Parameter, _Parameter] | None:
    """ν (infinite for a squared exponential), variance and length scale of a kernel that is no
    more than that."""
    factors = [kernel.k1, kernel.k2] if type(kernel) is kernels.Product else [kernel]
    shapes = [factor for factor in factors if type(factor) in (kernels.RBF, kernels.Matern)]
    others = {type(factor) for factor in factors if factor not in shapes}
    if len(shapes) != 1 or others - {kernels.ConstantKernel}:
        return None
    nu = getattr(shapes[0], "nu", math.inf)
    if nu not in (0.5, 1.5, 2.5, math.inf) or np.ndim(shapes[0].length_scale):
        return None  # one scale per column
    variance: _Parameter = 1.0
    index = 0
    for factor in factors:
        (parameter,) = factor.hyperparameters
        own = float(getattr(factor, parameter.name)) if parameter.fixed else index
        index += not parameter.fixed
        if factor is shapes[0]:
            length = own
        else:
            variance = own
    return float(nu), variance, length
