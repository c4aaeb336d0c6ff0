"""Compiled special functions: the normal tail, written so that nothing cancels."""

from __future__ import annotations

import math

from ._jit import jit, vector_loop

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


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
    """``out = exp(x²) erfc(x)`` for arrays with x ≥ 0, to 3e-16 relative.

    A polynomial in t = (x - 3)/(x + 3) for (1 + 2x) erfcx(x), which is smooth on [0, ∞].
    Without branches or calls the compiler turns the loop into vector instructions.
    """
    for i in range(x.size):
        t = (x[i] - 3.0) / (x[i] + 3.0)
        p = -3.451497487664328e-11
        p = p * t + 8.393734858690877e-10
        p = p * t + 1.2019719440135793e-09
        p = p * t - 8.217595058711455e-09
        p = p * t - 1.3906145791730994e-08
        p = p * t + 4.1064013667940355e-08
        p = p * t + 1.0277997488271058e-07
        p = p * t - 1.4047654315428462e-07
        p = p * t - 6.175617678992323e-07
        p = p * t + 3.5576086684080595e-07
        p = p * t + 3.473024167841533e-06
        p = p * t - 7.308281468783614e-07
        p = p * t - 2.0100843094844725e-05
        p = p * t + 4.949196649968345e-06
        p = p * t + 0.0001250994355712812
        p = p * t - 0.00010515971958448065
        p = p * t - 0.0007798322884823084
        p = p * t + 0.0018886903449991718
        p = p * t + 0.0025293918180474668
        p = p * t - 0.02377051491717134
        p = p * t + 0.06830802734384515
        p = p * t - 0.11927366341538638
        p = p * t + 0.12964515870276475
        p = p * t - 0.0475622943534492
        p = p * t - 0.1356211061245812
        p = p * t + 1.2530080582697296
        out[i] = p / (1.0 + 2.0 * x[i])


@jit
def log_ndtr_slopes(z, value, slope):
    """``value = log Φ(z)`` and ``slope = N(z)/Φ(z)`` for arrays; ``z`` is left as |z|/√2.

    The fast form of :func:`log_ndtr_derivatives` at order 1.
    """
    n = z.size
    for i in range(n):
        slope[i] = z[i]
        z[i] = abs(z[i]) * _SQRT_HALF
    erfcx_into(z, value)
    for i in range(n):
        w, half = z[i], 0.5 * value[i]
        if slope[i] <= 0.0:
            value[i] = math.log(half) - w * w
            slope[i] = _INV_SQRT_2PI / half
        else:
            e = math.exp(-w * w)
            value[i] = math.log1p(-e * half)
            slope[i] = _INV_SQRT_2PI * e / (1.0 - e * half)
