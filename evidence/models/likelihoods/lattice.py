r"""Moments of many tilted distributions :math:`p(y|x)\,N(x; m, v)` at once, by lattice sums.

The sum :math:`h \sum_j f(a + jh)` converges geometrically in :math:`1/h` where ``f`` is analytic
and has fallen to nothing at both ends (L. N. Trefethen and J. A. C. Weideman, SIAM Review 56
(2014) 385). Data are taken in batches, node by node, so that all loops are vector instructions.
For every datum the mode is found by Newton's method, then the ends of the range, then the sums
over a lattice and over the points halfway between its nodes are compared; where they differ the
lattice is halved.

Only moments that both sums agree on are given, so that kinks, cliffs and needles are left to
:mod:`.quadrature`; so is a likelihood that may have mass where nobody looked. Outside the range
lies nothing

* where p(y|·) is log-concave: the integrand has fallen by a factor, and goes on falling;
* where p(y|·) rises to one place and falls beyond it: ``N(x; m, v)`` times its largest value is
  small there. The mode does not matter then, there may be two, but the lattice must be finer than
  the likelihood at its peak.

A datum's moments do not depend on the others in its batch.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.jit import jit, vector_loop
from ...numerics.special import LOG_SQRT_2PI, exp

_BATCH = 256
_NEWTON = 8  # steps towards the mode, at most, and to each end
_CLOSE = 1e-3  # squared distance from the mode, in widths, from which one step more is enough
_DIFFERENCE = 1e-3  # in widths, between the slopes that make a curvature
_DROP, _MORE = 26.0, 2.5  # logarithm by which the integrand falls, and more for every moment
_AIM, _SPARE = 1.1, 1.4  # what is aimed at and what is still good, relative to it
_INTERVALS, _LEVELS = 20, 4  # of the first lattice; how often it is halved, at most
_TOLERANCE = 1e-10  # on the difference of two sums, relative to the moment
_LEAN = 3.0  # (mean - mode)² / variance, at most: what holds of every single mode

# A row for each number that a batch has for every datum; then its parameters, then sums.
_ROWS = 12
_INDEX, _M, _V, _MODE, _WIDTH, _LOW, _HIGH, _DONE, _LEFT, _RIGHT, _BASE, _PEAK = range(_ROWS)


@vector_loop
def _newton_step(state, n, shifted, here, there):
    """One step uphill for all that have not arrived; the number of those that have."""
    arrived = 0.0
    for i in range(n):
        m, precision, x = state[_M, i], 1.0 / state[_V, i], state[_MODE, i]
        low, high, done = state[_LOW, i], state[_HIGH, i], state[_DONE, i] > 0.0
        slope = here[n + i] - (x - m) * precision
        bend = (there[n + i] - here[n + i]) / (shifted[i] - x)
        curvature = precision - (bend if bend < 0.0 else 0.0)
        new = x + slope / curvature
        low, high = (x, high) if slope > 0.0 else (low, x)
        good = slope * slope < _CLOSE * curvature
        new = new if (low <= new <= high) or good else 0.5 * (low + high)
        state[_MODE, i] = x if done else new
        state[_WIDTH, i] = state[_WIDTH, i] if done else 1.0 / math.sqrt(curvature)
        state[_LOW, i], state[_HIGH, i] = low, high
        state[_DONE, i] = 1.0 if done or good else 0.0
        arrived += state[_DONE, i]
    return arrived


@jit
def _find_modes(kernel, theta, state, n, x, here, there):
    """Newton's method from the hints, whose slopes give curvatures; ``_PEAK``: log p there."""
    for step in range(_NEWTON):
        for i in range(n):
            x[i] = state[_MODE, i] + _DIFFERENCE * state[_WIDTH, i]
        kernel(state[_MODE].ctypes, theta.ctypes, n, _BATCH, 1, 1, here.ctypes)
        kernel(x.ctypes, theta.ctypes, n, _BATCH, 1, 1, there.ctypes)
        if step == 0:
            for i in range(n):
                bend = (there[n + i] - here[n + i]) / (x[i] - state[_MODE, i])
                state[_PEAK, i], state[_LEFT, i] = here[i], 1.0 / math.sqrt(-bend)
        if _newton_step(state, n, x, here, there) == n:
            break
    kernel(state[_MODE].ctypes, theta.ctypes, n, _BATCH, 1, 1, here.ctypes)
    for i in range(n):
        state[_BASE, i] = here[i]


@vector_loop
def _edge_step(state, n, row, x, out, drop):
    """One of Newton's steps for the root of twice the drop, which is linear for Gaussians."""
    side, arrived = (-1.0 if row == _LEFT else 1.0), 0.0
    aim = math.sqrt(2.0 * _AIM * drop)
    for i in range(n):
        mode, m, precision = state[_MODE, i], state[_M, i], 1.0 / state[_V, i]
        distance, done = state[row, i], state[_DONE, i] > 0.0
        away = x[i] - mode
        fall = state[_BASE, i] - out[i] + 0.5 * away * (away + 2.0 * (mode - m)) * precision
        slope = side * ((x[i] - m) * precision - out[n + i])
        root = math.sqrt(2.0 * fall)
        factor = 1.0 + (aim - root) * root / (slope * distance)
        factor = factor if factor > 0.4 else 0.4  # also of NaN
        factor = factor if factor < 3.0 else 3.0
        good = drop <= fall <= _SPARE * drop
        state[row, i] = distance if done or good else distance * factor
        state[_DONE, i] = 1.0 if done or good else 0.0
        arrived += state[_DONE, i]
    return arrived


@jit
def _find_ends(kernel, theta, state, n, row, drop, x, out):
    """Where the log-concave integrand has dropped enough, to the left or to the right."""
    side, far = (-1.0 if row == _LEFT else 1.0), math.sqrt(2.0 * _AIM * drop)
    for i in range(n):
        state[row, i], state[_DONE, i] = far * state[_WIDTH, i], 0.0
    for _ in range(_NEWTON):
        for i in range(n):
            x[i] = state[_MODE, i] + side * state[row, i]
        kernel(x.ctypes, theta.ctypes, n, _BATCH, 1, 1, out.ctypes)
        if _edge_step(state, n, row, x, out, drop) == n:
            break


@jit
def _bound_ends(state, n, drop):
    """Where N(x; m, v) times the largest likelihood is small; ``_DONE``: the finest scale."""
    for i in range(n):
        mode, m, v = state[_MODE, i], state[_M, i], state[_V, i]
        spare = state[_PEAK, i] - state[_BASE, i] + 0.5 * (mode - m) * (mode - m) / v
        reach, scale = math.sqrt(2.0 * v * (drop + spare)), state[_LEFT, i]
        state[_LEFT, i], state[_RIGHT, i] = mode - m + reach, m + reach - mode
        state[_DONE, i] = scale if spare >= 0.0 else 0.0


@vector_loop
def _add_node(state, n, x, out, term, u, sums):
    for i in range(n):
        away = x[i] - state[_MODE, i]
        lean = away + 2.0 * (state[_MODE, i] - state[_M, i])
        term[i] = exp(out[i] - state[_BASE, i] - 0.5 * away * lean / state[_V, i])
        u[i] = away / state[_WIDTH, i]
    for k in range(sums.shape[0]):
        for i in range(n):
            sums[k, i] += term[i]
            term[i] *= u[i]


@jit
def _add(kernel, theta, state, n, nodes, shift, sums, x, out, term, u):
    """Sums of the integrand and its moments over ``nodes`` at intervals of _HIGH from _LOW."""
    sums[:, :n] = 0.0
    for j in range(nodes):
        for i in range(n):
            x[i] = state[_MODE, i] - state[_LEFT, i] + (j + shift) * state[_HIGH, i]
        kernel(x.ctypes, theta.ctypes, n, _BATCH, 1, 1, out.ctypes)
        _add_node(state, n, x, out, term, u, sums)


@jit
def _agree(nodes, halfway, total):
    """Whether both sums give the same moments; their sum in ``total``, the mean's shift last."""
    for k in range(total.size):
        total[k] = nodes[k] + halfway[k]
    mass = total[0]
    spread, scale = math.sqrt(total[2] / mass), _TOLERANCE * mass
    shift = total[1] / mass
    good = shift * shift <= _LEAN * (total[2] / mass - shift * shift)
    for k in range(total.size):
        good = good and abs(nodes[k] - halfway[k]) <= scale
        scale *= spread
    return good


@jit
def _write(state, i, total, out):
    """log Ẑ, mean and central moments of one datum from its sums."""
    mass, mode, width = total[0], state[_MODE, i], state[_WIDTH, i]
    away, v = mode - state[_M, i], state[_V, i]
    log_mass = math.log(mass * 0.5 * state[_HIGH, i])
    out[0] = state[_BASE, i] - 0.5 * away * away / v + log_mass - LOG_SQRT_2PI - 0.5 * math.log(v)
    shift = total[1] / mass
    out[1] = mode + width * shift
    for k in range(1, total.size):
        total[k] /= mass
    total[0] = 1.0
    for first in range(1, total.size):  # E (u-s)^i u^(k-i), one i after the other
        for k in range(total.size - 1, first - 1, -1):
            total[k] -= shift * total[k - 1]
    power = width
    for k in range(2, total.size):
        power *= width
        out[k] = total[k] * power


@jit
def _keep(state, n, keep):
    """Move the data to keep to the front; their number."""
    used = 0
    for i in range(n):
        if keep[i]:
            if used < i:
                for row in range(state.shape[0]):
                    state[row, used] = state[row, i]
            used += 1
    return used


@jit
def lattice_moments(kernel, concave, theta, m, v, hints, out, left):
    """Write log Ẑ, mean and central moments where lattices suffice; ``left`` marks the others."""
    size, parameters = out.shape[0], theta.shape[0]
    state = np.empty((_ROWS + parameters + 2 * size, _BATCH))
    cut = _ROWS + parameters
    own, nodes, halfway = state[_ROWS:cut], state[cut : cut + size], state[cut + size :]
    x, here, there = np.empty(_BATCH), np.empty(4 * _BATCH), np.empty(4 * _BATCH)
    term, u, keep = np.empty(_BATCH), np.empty(_BATCH), np.empty(_BATCH, np.bool_)
    total, moments = np.empty(size), np.empty(size)
    drop = _DROP + _MORE * size
    left[:] = True
    for start in range(0, m.size, _BATCH):
        n = min(_BATCH, m.size - start)
        for i in range(n):
            k = start + i
            state[_INDEX, i], state[_M, i], state[_V, i] = k, m[k], v[k]
            state[_MODE, i], state[_WIDTH, i] = hints[0, k], math.sqrt(v[k])
            state[_LOW, i], state[_HIGH, i], state[_DONE, i] = -math.inf, math.inf, 0.0
            for p in range(parameters):
                own[p, i] = theta[p, k]
            keep[i] = v[k] > 0.0
        n = _keep(state, n, keep)
        _find_modes(kernel, own, state, n, x, here, there)
        n = _keep(state, n, state[_DONE] > 0.0)
        if concave:
            _find_ends(kernel, own, state, n, _LEFT, drop, x, here)
            n = _keep(state, n, state[_DONE] > 0.0)
            _find_ends(kernel, own, state, n, _RIGHT, drop, x, here)
            n = _keep(state, n, state[_DONE] > 0.0)
            state[_DONE] = math.inf
        else:
            _bound_ends(state, n, drop)
        for i in range(n):
            state[_HIGH, i] = (state[_LEFT, i] + state[_RIGHT, i]) / _INTERVALS
        _add(kernel, own, state, n, _INTERVALS + 1, 0.0, nodes, x, here, term, u)
        for level in range(_LEVELS):
            points = _INTERVALS << level
            _add(kernel, own, state, n, points, 0.5, halfway, x, here, term, u)
            for i in range(n):
                fine = 0.5 * state[_HIGH, i] <= state[_DONE, i]
                keep[i] = not (_agree(nodes[:, i], halfway[:, i], total) and fine)
                if not keep[i]:
                    k = int(state[_INDEX, i])
                    _write(state, i, total, moments)
                    for j in range(size):
                        out[j, k] = moments[j]
                    left[k] = False
                for j in range(size):
                    nodes[j, i] += halfway[j, i]
                state[_HIGH, i] *= 0.5
            n = _keep(state, n, keep)
