r"""Standard normal numbers in vector instructions, several times faster than one by one.

Box and Muller's transformation: with u, v uniform, :math:`\sqrt{-2\log(1-u)}` times cosine and
sine of 2πv are two independent standard normals. Uniforms have 52 bits or more: no number is
beyond 8.6, where one of 10¹⁷ would be.

Large batches take their uniforms from lanes of xoshiro256++ (Blackman and Vigna 2021), side by
side in vector registers, as in Julia; every call seeds them, all their bits, with the generator
that it is given.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from .arrays import Array, Rng
from .jit import vector_loop
from .special import log, polynomial

LANES = 32
_MANY = 64 * LANES  # numbers that are worth the seeding of lanes
_BLOCK = 16 * LANES  # uniforms that stay in the first cache until they are used
_12, _17, _19, _23, _41, _45 = (np.uint64(k) for k in (12, 17, 19, 23, 41, 45))


# Degrees of freedom of scaled draws: weights have a variance of .04 for one value, .4 for ten and
# .7 for twenty where a posterior has the normal's tails.
_DF = 5.0


def standard_normal(rng: Rng, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """As ``rng.standard_normal(shape)``, other numbers.

    >>> z = standard_normal(np.random.default_rng(0), (1000, 100))
    >>> z.shape, bool(abs(z.mean()) < 0.01), bool(abs(z.std() - 1.0) < 0.01)
    ((1000, 100), True, True)
    """
    size = math.prod(shape)
    half = (size + 1) // 2
    if size < _MANY:
        pairs = rng.random((2, half))
        _box_muller(pairs[0], pairs[1])
    else:
        pairs = np.empty((2, -(-half // LANES) * LANES))
        with np.errstate(over="ignore"):
            fill_normals(lanes_of(rng), pairs[0], pairs[1])
    return pairs.reshape(-1)[:size].reshape(shape)


def lanes_of(rng: Rng) -> NDArray[np.uint64]:
    """States of generators side by side."""
    return rng.integers(2**64, size=(4, LANES), dtype=np.uint64)


@vector_loop
def fill_normals(lanes, first, second):
    """Fill both with standard normals; their length is a multiple of the number of lanes."""
    for start in range(0, first.size, _BLOCK):
        u, v = first[start : start + _BLOCK], second[start : start + _BLOCK]
        fill_uniforms(lanes, u)
        fill_uniforms(lanes, v)
        _box_muller(u, v)


@vector_loop
def fill_uniforms(lanes, out):
    """Multiples of 2⁻⁵² in [0, 1), from lanes of xoshiro256++ by turns; as many as for normals."""
    exponent = np.uint64(0x3FF0 << 48)  # of doubles in [1, 2)
    s0, s1, s2, s3 = lanes[0], lanes[1], lanes[2], lanes[3]
    for start in range(0, out.size, LANES):
        for j in range(LANES):
            a, b, c, d = s0[j], s1[j], s2[j], s3[j]
            total = a + d
            bits = ((total << _23) | (total >> _41)) + a
            c ^= a
            d ^= b
            s0[j], s1[j], s2[j] = a ^ d, b ^ c, c ^ (b << _17)
            s3[j] = (d << _45) | (d >> _19)
            out[start + j] = np.uint64((bits >> _12) | exponent).view(np.float64) - 1.0


@vector_loop
def _box_muller(u, v):
    """Turn uniforms in [0, 1) into standard normals, in place.

    Quarter turns are counted off the angle; sine and cosine of the rest, in ±π/4, have the
    polynomials of fdlibm.
    """
    magic = 1.5 * 2.0**52  # x + magic - magic is x rounded
    of_sine = (
        1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
        -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01,
    )  # fmt: skip
    of_cosine = (
        -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
        2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02,
    )  # fmt: skip
    for i in range(u.size):
        w = 1.0 - u[i]
        radius = math.sqrt(-2.0 * log(w, w - 1.0))
        turn = 4.0 * v[i]
        quarter = (turn + magic) - magic
        x = (turn - quarter) * (0.5 * math.pi)
        q = x * x
        sine = x + x * q * polynomial(q, of_sine)
        cosine = 1.0 - 0.5 * q + q * q * polynomial(q, of_cosine)
        k = np.int64(quarter)
        odd = (k & 1) != 0
        first, second = (sine if odd else cosine), (cosine if odd else sine)
        u[i] = -radius * first if ((k + 1) & 2) != 0 else radius * first
        v[i] = -radius * second if (k & 2) != 0 else radius * second


def student_factor(n: int, rng: Rng) -> Array:
    """What normal numbers are to be multiplied by, draw by draw, to be those of a Student-t."""
    return np.sqrt(_DF / rng.chisquare(_DF, n))


def normal_over_student(z: Array) -> Array:
    """log of N(z; 0, I) over that Student density, z (d, n)."""
    d, square = len(z), np.sum(z * z, axis=0)
    constant = gammaln(0.5 * _DF) - gammaln(0.5 * (_DF + d)) + 0.5 * d * np.log(0.5 * _DF)
    return constant + 0.5 * (_DF + d) * np.log1p(square / _DF) - 0.5 * square
