r"""Functions of a component's mean, interpolated where many components share a variance.

Components made from posterior draws differ in their means only, so an integral
:math:`g(m) = \int p(y|x) N(x; m, v)\,dx` is wanted at hundreds of m for the same y and v. It is
smooth on the scale of :math:`\sqrt v` and of the likelihood: the Chebyshev interpolant of
:math:`\log g` over the range of the means settles with a few dozen nodes. Nodes are doubled
until the last coefficients vanish; points where they never do are evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.chebyshev import chebinterpolate, chebval

from .arrays import Array, Indices


def over_means(
    function: Callable[[Array, Array, Indices], Array], mean: Array, var: Array, *,
    tolerance: float = 1e-9,
) -> Array:  # fmt: skip
    """``function(mean, var, columns)`` at all means (S, b).

    Parameters
    ----------
    function : callable
        Elementwise, from means (K, c), variances (1, c) or (K, c), and which c of the b points
        these are.
    mean, var : array (S, b) and (1, b) or (S, b)

    >>> import numpy as np
    >>> m, v = np.linspace(-3.0, 3.0, 500)[:, None], np.ones((1, 1))
    >>> calls = []
    >>> def bump(m, v, columns):
    ...     calls.append(len(m))
    ...     return -np.log1p(0.1 * m * m + v)
    >>> bool(np.allclose(over_means(bump, m, v), -np.log1p(0.1 * m * m + 1.0), atol=1e-8)), calls
    (True, [16, 32])

    ``tolerance``: of the values.
    """
    sizes = (16, 32, 64, 128)
    left = np.arange(mean.shape[1])
    out = np.empty(mean.shape)
    low, high = mean.min(axis=0), mean.max(axis=0)
    middle, half = 0.5 * (low + high), np.maximum(0.5 * (high - low), 1e-300)

    def at_nodes(u: Array) -> Array:
        return function(middle[left] + half[left] * u[:, None], var[:, left], left)

    for size in sizes if len(var) == 1 else ():
        if not left.size or 2 * size > len(mean):
            break
        coefficients = chebinterpolate(at_nodes, size - 1)  # type: ignore[type-var]
        scale = np.maximum(np.abs(coefficients).max(axis=0), 1.0)
        done = np.abs(coefficients[-3:]).max(axis=0) <= tolerance * scale
        settled = left[done]
        u = (mean[:, settled] - middle[settled]) / half[settled]
        out[:, settled] = chebval(u, coefficients[:, done], tensor=False)
        left = left[~done]
    if left.size:
        out[:, left] = function(mean[:, left], var[:, left], left)
    return out
