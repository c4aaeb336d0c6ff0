r"""Standard normal numbers in vector instructions, several times faster than one by one.

Box and Muller's transformation: with u, v uniform, :math:`\sqrt{-2\log(1-u)}` times cosine and
sine of 2πv are two independent standard normals. Uniforms have 53 bits, so that no number is
beyond 8.6, where one of 10¹⁷ would be.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import vector_loop
from ._special import log

_HALF_PI = 0.5 * math.pi
_ROUND = 1.5 * 2.0**52  # x + _ROUND - _ROUND is x rounded


def standard_normal(rng: np.random.Generator, shape: Any) -> NDArray[np.float64]:
    """As ``rng.standard_normal(shape)``, other numbers.

    >>> z = standard_normal(np.random.default_rng(0), (1000, 100))
    >>> z.shape, bool(abs(z.mean()) < 0.01), bool(abs(z.std() - 1.0) < 0.01)
    ((1000, 100), True, True)
    """
    size = math.prod(shape)
    pairs = rng.random((2, (size + 1) // 2))
    _box_muller(pairs[0], pairs[1])
    return pairs.reshape(-1)[:size].reshape(shape)


@vector_loop
def _box_muller(u, v):
    """Turn uniforms in [0, 1) into standard normals, in place.

    Quarter turns are counted off the angle; sine and cosine of the rest, in ±π/4, have the
    polynomials of fdlibm.
    """
    for i in range(u.size):
        w = 1.0 - u[i]
        radius = math.sqrt(-2.0 * log(w, w - 1.0))
        turn = 4.0 * v[i]
        quarter = (turn + _ROUND) - _ROUND
        x = (turn - quarter) * _HALF_PI
        q = x * x
        s = 1.58969099521155010221e-10 * q - 2.50507602534068634195e-08
        s = s * q + 2.75573137070700676789e-06
        s = s * q - 1.98412698298579493134e-04
        s = s * q + 8.33333333332248946124e-03
        s = s * q - 1.66666666666666324348e-01
        sine = x + x * q * s
        c = -1.13596475577881948265e-11 * q + 2.08757232129817482790e-09
        c = c * q - 2.75573143513906633035e-07
        c = c * q + 2.48015872894767294178e-05
        c = c * q - 1.38888888888741095749e-03
        c = c * q + 4.16666666666666019037e-02
        cosine = 1.0 - 0.5 * q + q * q * c
        k = np.int64(quarter)
        odd = (k & 1) != 0
        first, second = (sine if odd else cosine), (cosine if odd else sine)
        u[i] = -radius * first if ((k + 1) & 2) != 0 else radius * first
        v[i] = -radius * second if (k & 2) != 0 else radius * second
