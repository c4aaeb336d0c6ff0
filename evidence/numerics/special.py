"""Compiled special functions: the normal tail, written so that nothing cancels.

The elementwise functions made by ``vector_loop`` have neither branches nor calls: inlined into
a loop over arrays they become vector instructions.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from .jit import jit, vector_loop

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
_LOG2_E = 1.0 / math.log(2.0)

_LN2_HIGH = 6.93147180369123816490e-01  # 33 bits: its product with an exponent is exact
_LN2_LOW = 1.90821492927058770002e-10
_LARGEST = sys.float_info.max


@vector_loop
def polynomial(x, coefficients):
    """Horner's scheme, for a tuple of coefficients from the highest power down.

    The compiler unrolls the loop, and vectorises one around it.
    """
    total = coefficients[0]
    for k in range(1, len(coefficients)):
        total = total * x + coefficients[k]
    return total


@jit
def log_ndtr_derivatives(z, order):
    r"""``(F, F', F'', F''')`` of :math:`F(z) = \log\Phi(z)`.

    With ``r = N(z)/Φ(z)`` and ``t = z + r`` the derivatives are ``r``, ``-r t`` and
    ``r (t (t + r) - 1)``. For ``z ≪ 0`` both ``t`` and the last bracket lose all digits, so
    there the continued fraction of the Mills ratio is used: with ``x = -z``,
    ``t = 1/(x + s)``, ``s = 2/(x + u)``, ``u = 3/(x + v)``, ``v = 4/(x + …)`` and

    ``t (t + r) - 1 = 2 t² (x + 3u - 2v) / ((x + u)² (x + v))``,

    a product of positive terms. The two branches agree to 1e-13 where they meet. Derivatives
    beyond ``order`` (1 or 3) are returned as zero.
    """
    if z < -7.0 or (order > 1 and z < -4.0):
        x = -z
        depth = 20 if x > 7.0 else 40
        v = 0.0
        for k in range(depth, 3, -1):
            v = k / (x + v)
        u = 3.0 / (x + v)
        s = 2.0 / (x + u)
        t = 1.0 / (x + s)
        r = x + t
        value = -0.5 * z * z - LOG_SQRT_2PI - math.log(r)
        third = 2.0 * r * t * t * (x + 3.0 * u - 2.0 * v) / ((x + u) * (x + u) * (x + v))
        return value, r, -r * t, third
    if z > 0.0:
        upper = 0.5 * math.erfc(z * _SQRT_HALF)
        value, tail = math.log1p(-upper), 1.0 - upper
    else:
        tail = 0.5 * math.erfc(-z * _SQRT_HALF)
        value = math.log(tail)
    r = math.exp(-0.5 * z * z - LOG_SQRT_2PI) / tail
    t = z + r
    return value, r, -r * t, r * (t * (t + r) - 1.0)


@jit
def log1p_exp(x):
    """``log(1 + exp(x))`` without overflow."""
    if x > 0.0:
        return x + math.log1p(math.exp(-x))
    return math.log1p(math.exp(x))


@jit
def sigmoid(x):
    """``1 / (1 + exp(-x))`` without overflow, accurate in both tails."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


@vector_loop
def erfcx_into(x, out):
    """``out = exp(x²) erfc(x)`` for arrays with x ≥ 0, to 5e-16 relative.

    A polynomial in t = (x - 3)/(x + 3) for (1 + 2x) erfcx(x), which is smooth on [0, ∞].
    Without branches or calls the compiler turns the loop into vector instructions.
    """
    erfcx_odd = (
        -3.451497487664328e-11, 1.2019719440135793e-09, -1.3906145791730994e-08,
        1.0277997488271058e-07, -6.175617678992323e-07, 3.473024167841533e-06,
        -2.0100843094844725e-05, 0.0001250994355712812, -0.0007798322884823084,
        0.0025293918180474668, 0.06830802734384515, 0.12964515870276475, -0.1356211061245812,
    )  # fmt: skip
    erfcx_even = (
        8.393734858690877e-10, -8.217595058711455e-09, 4.1064013667940355e-08,
        -1.4047654315428462e-07, 3.5576086684080595e-07, -7.308281468783614e-07,
        4.949196649968345e-06, -0.00010515971958448065, 0.0018886903449991718,
        -0.02377051491717134, -0.11927366341538638, -0.0475622943534492, 1.2530080582697296,
    )  # fmt: skip
    for i in range(x.size):
        t = (x[i] - 3.0) / (x[i] + 3.0)
        q = t * t
        value = polynomial(q, erfcx_even) + t * polynomial(q, erfcx_odd)
        out[i] = value / (1.0 + 2.0 * x[i])


@vector_loop
def exp_parts(x, low):
    """``(h, r, t)`` with exp(x + low) = 2h (1 + r + t), 2h a power of two; ``|low| ≪ 1``.

    ``r`` is in ±(ln 2)/2 and ``t = exp(r) - 1 - r``, to 4e-16 relative. Above 709.78 the
    product overflows to infinity; below -708.05 ``h`` is zero: there are no subnormal results.
    """
    magic = 1.5 * 2.0**52  # x + magic holds round(x) in its last bits
    exp_even = (
        2.0914717341716378e-09, 2.755727357010214e-07, 2.4801587325605324e-05,
        0.001388888888888373, 0.04166666666666667, 0.5,
    )  # fmt: skip
    exp_odd = (
        2.5105259538448494e-08, 2.7557255297969643e-06, 0.0001984126987490126,
        0.008333333333326112, 0.1666666666666667,
    )  # fmt: skip
    x = -708.5 if x < -708.5 else x
    x = 710.0 if x > 710.0 else x
    shifted = x * _LOG2_E + magic
    k = shifted - magic
    h = np.int64((np.float64(shifted).view(np.int64) + 1022) << 52).view(np.float64)
    r = ((x - k * _LN2_HIGH) - k * _LN2_LOW) + low
    q = r * r
    return h, r, q * (polynomial(q, exp_even) + r * polynomial(q, exp_odd))


@vector_loop
def exp(x):
    """``exp(x)`` to 2e-16 relative; zero below -708.05."""
    h, r, t = exp_parts(x, 0.0)
    return 2.0 * (h + h * (r + t))


@vector_loop
def log(u, f):
    """``log(u)`` for a positive normal ``u``, to 4e-16 relative; ∞ and NaN stay what they are.

    ``f`` is ``u - 1``, perhaps to more digits than ``u`` has: ``log(1.0 + f, f)`` is log1p
    for f ≥ -½. With u = 2^k m, m in [√½, √2] and s = (m - 1)/(m + 1), log m = 2 atanh(s); the
    polynomial is that of fdlibm.
    """
    sqrt_half_bits = 0x3FE6A09E667F3BCD
    mantissa = 2**52 - 1
    bits = np.float64(u).view(np.int64) - sqrt_half_bits
    k = np.float64(bits >> 52)
    m = np.int64((bits & mantissa) + sqrt_half_bits).view(np.float64)
    f = m - 1.0 if abs(u - m) > 0.0 else f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = (
        (1.479819860511658591e-01 * w + 1.818357216161805012e-01) * w + 2.857142874366239149e-01
    ) * w + 6.666666666666735130e-01
    even = (1.531383769920937332e-01 * w + 2.222219843214978396e-01) * w + 3.999999999940941908e-01
    half = 0.5 * f * f
    value = k * _LN2_HIGH - ((half - (s * (half + z * (odd + z * even)) + k * _LN2_LOW)) - f)
    return value if u <= _LARGEST else u


@vector_loop
def log_ndtr_slopes(z, value, slope):
    """``value = log Φ(z)`` and ``slope = N(z)/Φ(z)`` for arrays, both to 2e-15 relative.

    The fast form of :func:`log_ndtr_derivatives` at order 1. Above 37.6 both are zero; ``z`` is
    left clipped there.
    """
    half_double = -(2**27)  # a mask that keeps 26 bits of a mantissa
    n = z.size
    for i in range(n):
        z[i] = 40.0 if z[i] > 40.0 else z[i]
        slope[i] = abs(z[i]) * _SQRT_HALF
    erfcx_into(slope, value)
    for i in range(n):
        lower, half = z[i] <= 0.0, 0.5 * value[i]
        x = z[i] if z[i] > 0.0 else 0.0
        # z² in two parts: far out, its rounding would be most of the error of exp(-z²/2)
        head = np.int64(np.float64(x).view(np.int64) & half_double).view(np.float64)
        h, r, t = exp_parts(-0.5 * head * head, -0.5 * (x - head) * (x + head))
        e = 2.0 * (h + h * (r + t))
        value[i] = half if lower else -e * half
        slope[i] = _INV_SQRT_2PI * e / (half if lower else 1.0 - e * half)
    for i in range(n):
        x, u = z[i], value[i]
        lower = x <= 0.0
        v = log(u if lower else 1.0 + u, u - 1.0 if lower else u)
        value[i] = v - (0.5 * x * x if lower else 0.0)
