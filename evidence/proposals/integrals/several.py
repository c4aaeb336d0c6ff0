r"""Draws under several data, as of a group, whose known parts differ from draw to draw; or none.

Two draws of a skewed Gaussian near the integrand, one or two of Newton's steps away, are weighed.
In units of its width that density is what the standard normal one is at u, where nearly

.. math:: z = u + s u^2/6 + 5 s^2 u^3/72, \qquad e^{-z^2/2 + s z^3/6} \approx e^{-u^2/2},

which grows with u for every skewness s. Nearly: what is left of the logarithm is of order s² u²,
but for a term odd in u.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.copies import copy
from ...numerics.jit import jit, vector_loop
from ..foresight import add_message
from .integrand import FAR, FEW, NOTHING, add_tilts
from .lattice import draw_on_lattice, lattice, pick
from .shared import NEAR, draw_near


@jit
def draw_with_several(rng, f, known, draws, work, together):
    """Draws given their means, which they replace; of draw m data see ``known[:, m] + a v``.

    ``together`` these are the same for all draws. The known parts in f are overwritten.
    """
    skewed = 0.3  # skewness up to which a bent Gaussian is near
    last = 1.0  # widths of a last step up to which it is known where it leads
    if together and f.concave and draw_near(rng, f, NEAR * f.root, draws, work):
        return
    n, rows = draws.value.size, work.rows
    at, steps, widths, skews, far_out = rows[0], rows[1], rows[2], rows[5], rows[4]
    if not f.concave and f.data.size <= FEW:  # other modes may be looked for
        widths[:] = 0.0
        _draw_alone(rng, f, known, widths, draws, work.nodes)
        return
    _climb(f, known, draws.value, work)
    for m in range(n):
        curvature, third = widths[m], skews[m]
        width = 1.0 / math.sqrt(-curvature) if curvature < 0.0 else 0.0
        skew = third * width * width * width
        found = abs(skew) < skewed and steps[m] < last * last
        widths[m] = width if width > 0.0 and found else 0.0
        skews[m] = skew if widths[m] > 0.0 else 0.0
        far_out[m] = 0.0
    bent = (at, widths, skews)
    _look_far_out(f, known, draws.value, bent, work.nodes.out, far_out)
    total = np.zeros(2 * n)
    _weigh_pairs(f, known, draws, bent, work, total)
    for m in range(n):
        widths[m] = 0.0 if far_out[m] > 0.0 else widths[m]
    _draw_alone(rng, f, known, widths, draws, work.nodes)
    _choose(f.root, widths, skews, total, rows[3], rows[6], draws)


@jit
def _draw_alone(rng, f, known, widths, draws, nodes):
    """Those of no width, on lattices of their own."""
    value, log_weight = draws.value, draws.log_weight
    for m in range(value.size):
        if widths[m] == 0.0:
            for i in range(f.data.size):
                f.data[i].known = known[i, m]
            value[m], log_w = draw_on_lattice(rng, f, value[m], nodes)
            log_weight[m] += log_w


@jit
def _climb(f, known, means, work):
    """Places near modes in row 0, squares of the last steps there, in widths, in row 1, second
    derivatives before them in row 2 and third ones in row 5."""
    longest_step = 2.0  # step of Newton's method, in standard deviations
    difference = 0.5  # standard deviations between slopes of which differences are taken
    close = 0.3  # widths of a first step after which there is no second
    points, out, n = work.points, work.nodes.out, means.size
    at, one, two, three = work.rows[0], work.rows[1], work.rows[2], work.rows[5]
    half, h, limit = 0.5 / (f.root * f.root), difference * f.root, longest_step * f.root
    copy(means, at)
    for _step in range(2):
        one[:], two[:], three[:] = 0.0, 0.0, 0.0
        for i in range(f.data.size):
            datum, a = f.data[i], f.data[i].scale
            for m in range(n):
                points[m] = known[i, m] + a * (at[m] - h)
                points[n + m] = known[i, m] + a * at[m]
                points[2 * n + m] = known[i, m] + a * (at[m] + h)
            f.kernel(points.ctypes, f.theta[i].ctypes, 3 * n, 1, 0, 1, out.ctypes)
            _add_slopes(points, out, a, datum.nu, datum.tau, one, two, three)
        for m in range(n):
            one[m] -= 2.0 * half * (at[m] - means[m])
            two[m] = two[m] / (2.0 * h) - 2.0 * half
            three[m] /= h * h
        longest = 0.0
        for m in range(n):
            move = -one[m] / two[m] if two[m] < 0.0 else 0.0
            at[m] += min(max(move, -limit), limit) if abs(move) < math.inf else 0.0
            one[m] = one[m] * one[m] / -two[m] if two[m] < 0.0 else math.inf
            longest = max(longest, one[m])
        if longest < close * close:
            break


@vector_loop
def _add_slopes(points, out, a, nu, tau, one, two, three):
    """Of ratios at three places on a line: in the middle, their first and second difference."""
    n = one.size
    for m in range(n):
        left = a * (out[3 * n + m] - nu + tau * points[m])
        middle = a * (out[4 * n + m] - nu + tau * points[n + m])
        right = a * (out[5 * n + m] - nu + tau * points[2 * n + m])
        one[m] += middle
        two[m] += right - left
        three[m] += (right - middle) - (middle - left)


@jit
def _bend(u, skew):
    """z of a standard normal number."""
    return u + skew * u * u * (1.0 / 6.0 + (5.0 / 72.0) * skew * u)


@jit
def _stretch(u, skew):
    """Its derivative."""
    return 1.0 + skew * u * (1.0 / 3.0 + (5.0 / 24.0) * skew * u)


@jit
def _look_far_out(f, known, means, bent, out, far_out):
    """Of which draws the integrand does not fall as its skewed Gaussian."""
    half = 0.5 / (f.root * f.root)
    at, widths, skews = bent
    k = means.size
    places, points, total = np.empty(3 * k), np.empty(3 * k), np.zeros(3 * k)
    for j in range(3 * k):
        m, u = j % k, (j // k - 1) * FAR
        places[j] = at[m] + widths[m] * _bend(u, skews[m])
        total[j] = math.log(_stretch(u, skews[m])) - half * (places[j] - means[m]) ** 2
    for i in range(f.data.size):
        datum, a = f.data[i], f.data[i].scale
        for j in range(3 * k):
            points[j] = known[i, j % k] + a * places[j]
        f.kernel(points.ctypes, f.theta[i].ctypes, 3 * k, 1, 0, 1, out.ctypes)
        add_tilts(points, out, datum.c, datum.nu, datum.tau, total)
    for j in range(k):
        fall = total[k + j] - 0.5 * FAR * FAR
        near = abs(total[j] - fall) < 1.0 and abs(total[2 * k + j] - fall) < 1.0
        if not near and widths[j] > 0.0:
            far_out[j] = 1.0


@jit
def _weigh_pairs(f, known, draws, bent, work, total):
    """Two draws of every skewed Gaussian in rows 3 and 6, and logarithms of the integrand."""
    out, means, n = work.nodes.out, draws.value, draws.value.size
    half, both = 0.5 / (f.root * f.root), work.points[: 2 * n]
    left, right = work.rows[3], work.rows[6]
    at, widths, skews = bent
    for m in range(n):
        left[m] = at[m] + widths[m] * _bend(-draws.normals[m], skews[m])
        right[m] = at[m] + widths[m] * _bend(draws.normals[m], skews[m])
        total[m] = -half * (left[m] - means[m]) ** 2
        total[n + m] = -half * (right[m] - means[m]) ** 2
    for i in range(f.data.size):
        datum, a = f.data[i], f.data[i].scale
        for m in range(n):
            both[m] = known[i, m] + a * left[m]
            both[n + m] = known[i, m] + a * right[m]
        f.kernel(both.ctypes, f.theta[i].ctypes, 2 * n, 1, 0, 1, out.ctypes)
        add_tilts(both, out, datum.c, datum.nu, datum.tau, total)
    copy(left, both)
    copy(right, both[n:])
    add_message(f.message, both, 1.0, total)


@jit
def _choose(root, widths, skews, total, left, right, draws):
    """One of two by weight, and log of their mean weight, of draws that have a width."""
    value, normals, uniforms, log_weight = draws
    n = value.size
    for m in range(n):
        if widths[m] == 0.0:
            continue
        one = total[m] if total[m] > NOTHING else NOTHING  # NaN is no weight
        two = total[n + m] if total[n + m] > NOTHING else NOTHING
        best = max(one, two)
        one = math.exp(one - best) * _stretch(-normals[m], skews[m])
        two = math.exp(two - best) * _stretch(normals[m], skews[m])
        value[m] = left[m] if uniforms[m] * (one + two) < one else right[m]
        if best > NOTHING:
            mean = 0.5 * (one + two) * widths[m] / root
            log_weight[m] += best + math.log(mean) + 0.5 * normals[m] ** 2
        else:
            log_weight[m] = -math.inf


@jit
def draw_alike(rng, f, draws, work):
    """As :func:`draw_with_several` where all means and all known parts are the same."""
    value, x, g = draws.value, work.nodes.x, work.nodes.g
    first, last, log_w = lattice(rng, f, value[0], work.nodes)
    for m in range(value.size):
        draws.log_weight[m] += log_w
        if log_w > -math.inf:
            value[m] = x[pick(g, first, last, draws.uniforms[m])]


@jit
def draw_ahead(rng, f, draws, work):
    """Draws where there are no data: on a lattice, or of two mirror images one, by weight."""
    if draw_near(rng, f, NEAR * f.root, draws, work):
        return
    n, value = draws.value.size, draws.value
    both, total = work.points[: 2 * n], np.zeros(2 * n)
    for m in range(n):
        away = f.root * draws.normals[m]
        both[m], both[n + m] = value[m] - away, value[m] + away
    add_message(f.message, both, 1.0, total)
    for m in range(n):
        left, right = math.exp(total[m]), math.exp(total[n + m])
        value[m] = both[m] if draws.uniforms[m] * (left + right) < left else both[n + m]
        draws.log_weight[m] += math.log(0.5 * (left + right))
