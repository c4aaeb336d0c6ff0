r"""Compiled draws from the standard normal truncated to (l, ∞).

:func:`upper_tail` inverts the distribution function, :func:`upper_tails` does it in vector
instructions. With Q = 1 - Φ the draw solves

.. math:: Q(z) = (1 - u)\,Q(l) \quad\Longleftrightarrow\quad \Phi(z) = u + (1 - u)\,\Phi(l),

and whichever side is below one half is used, so that nothing cancels in either tail.
:func:`slice_step` is a Markov transition that needs no special function.

References: M. J. Wichura, Applied Statistics 37 (1988) 477, AS 241 (quantiles of the normal);
P. Damien and S. G. Walker, J. Comput. Graph. Stat. 10 (2001) 206 (slices).
"""

from __future__ import annotations

import math

import numpy as np

from .jit import jit, vector_loop
from .special import erfcx_into, exp, log, log_ndtr_derivatives, polynomial

_SQRT_HALF = math.sqrt(0.5)


@jit
def upper_tail(lower, u):
    """The quantile ``u`` in [0, 1) of a standard normal given that it exceeds ``lower``.

    To 1e-13 relative to ``max(|z|, 1)``, for every ``lower``.
    """
    far = 30.0  # beyond 37 Q(l) underflows; from here on it is divided out
    if lower > far:
        return lower + _far_excess(lower, -math.log1p(-u))
    p = (1.0 - u) * 0.5 * math.erfc(lower * _SQRT_HALF)
    if p < 0.075:
        z = _tail_quantile(math.sqrt(-math.log(p)))
    elif p < 0.925:
        z = _central_quantile(0.5 - p)
    elif u > 0.0:
        below = u + (1.0 - u) * 0.5 * math.erfc(-lower * _SQRT_HALF)
        z = -_tail_quantile(math.sqrt(-math.log(below)))
    else:
        z = lower
    return max(z, lower)


@vector_loop
def upper_tails(lower, u, mass, z):
    """``mass = Q(lower)`` to 2e-15 relative and ``z = upper_tail(lower, u)``, for arrays.

    Where Q(lower) underflows ``mass`` does.
    """
    rare = 2e-11  # below it quantiles take another polynomial
    n = lower.size
    for i in range(n):
        z[i] = abs(lower[i]) * _SQRT_HALF
        z[i] = z[i] if z[i] < 30.0 else 30.0
    erfcx_into(z, mass)
    for i in range(n):
        side = 0.5 * mass[i] * exp(-z[i] * z[i])
        above = lower[i] > 0.0
        mass[i] = side if above else 1.0 - side
        p = (1.0 - u[i]) * mass[i]
        rest = 1.0 - p if above else u[i] + (1.0 - u[i]) * side
        small = p if p < rest else rest
        small = small if small > rare else rare
        far = _nearer_tail_quantile(math.sqrt(-log(small, small - 1.0)))
        far = far if p < 0.5 else -far
        near = _central_quantile(0.5 - p)
        value = near if small > 0.075 else far
        z[i] = value if value > lower[i] else lower[i]
    for i in range(n):
        p = (1.0 - u[i]) * mass[i]
        if p < rare or p > 1.0 - rare:
            z[i] = upper_tail(lower[i], u[i])


@jit
def multiply_tails(lower, mass, product, log_product):
    """Multiply masses of :func:`upper_tails` up, those that may underflow by their logarithm.

    ``product`` has room for forty before a logarithm of it must be taken.
    """
    small = 5.0  # from here on tails are multiplied by their logarithms
    for i in range(lower.size):
        if lower[i] < small:
            product[i] *= mass[i]
        else:
            log_product[i] += log_ndtr_derivatives(-lower[i], np.int64(1))[0]


@jit
def slice_step(z, lower, u1, u2):
    """From ``z > lower`` to another, leaving the truncated normal invariant.

    The level ``u1 exp(-z²/2)``, ``u1`` in (0, 1], cuts out ``z'² < z² - 2 log u1``; ``u2`` in
    [0, 1) picks a point of that interval, as far as it lies above ``lower``.
    """
    right = math.sqrt(z * z - 2.0 * math.log(u1))
    left = max(lower, -right)
    return left + u2 * (right - left)


@jit
def _far_excess(lower, exponential):
    """``d`` with ``log Q(lower) - log Q(lower + d) = exponential``, for ``lower`` ≫ 1.

    With the hazard h = N/Q this reads ``d (lower + d/2) + log h(lower + d)/h(lower) =
    exponential``. The logarithm is small: the fixed point gains a factor z² with every round.
    """
    d, rest = 0.0, exponential
    for _ in range(4):
        d = 2.0 * rest / (lower + math.sqrt(lower * lower + 2.0 * rest))
        rest = exponential - math.log(_far_hazard(lower + d) / _far_hazard(lower))
    return d


@jit
def _far_hazard(x):
    """N(x)/Q(x) by Laplace's continued fraction, to 1e-13 from x = 30 on."""
    return x + 1.0 / (x + 2.0 / (x + 3.0 / (x + 4.0 / x)))


@vector_loop
def _central_quantile(q):
    """The z with Φ(z) = 1/2 + q, for |q| ≤ 0.425."""
    central_top = (
        2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
        4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
        1.3314166789178437745e2, 3.3871328727963666080e0,
    )  # fmt: skip
    central_bottom = (
        5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
        2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
        4.2313330701600911252e1, 1.0,
    )  # fmt: skip
    r = 0.180625 - q * q
    return q * polynomial(r, central_top) / polynomial(r, central_bottom)


@jit
def _tail_quantile(r):
    """The z > 1.4 with Q(z) = exp(-r²), for r ≤ 27."""
    far_top = (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
        2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
        5.46378491116411436990e0, 6.65790464350110377720e0,
    )  # fmt: skip
    far_bottom = (
        2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
        7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922737958310e-1,
        5.99832206555887937690e-1, 1.0,
    )  # fmt: skip
    if r <= 5.0:
        return _nearer_tail_quantile(r)
    r -= 5.0
    return polynomial(r, far_top) / polynomial(r, far_bottom)


@vector_loop
def _nearer_tail_quantile(r):
    """The same for r ≤ 5."""
    near_top = (
        7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
        1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
        4.63033784615654529590e0, 1.42343711074968357734e0,
    )  # fmt: skip
    near_bottom = (
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
        1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
        2.05319162663775882187e0, 1.0,
    )  # fmt: skip
    r -= 1.6
    return polynomial(r, near_top) / polynomial(r, near_bottom)
