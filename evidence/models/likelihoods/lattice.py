r"""Moments of many tilted distributions :math:`p(y|x)\,N(x; m, v)`, by sums over lattices.

The sum :math:`T_h = h \sum_j f(a + jh)` converges geometrically where ``f`` is analytic in a strip
of half-width ``s`` and has fallen to nothing at both ends: its error is of order
:math:`e^{-2\pi s/h}` (L. N. Trefethen and J. A. C. Weideman, SIAM Review 56 (2014) 385). Data are
taken in batches, node by node, so that all loops are vector instructions: a mode by Newton's
method, the ends of the range, then sums over a lattice and over the points halfway between its
nodes, until they agree on all moments.

They must agree to 1e-11, which is what both are worth then; of an analytic likelihood they need
not, since what is left of the error is their difference times a factor :math:`e^{-\pi s/h}`.
Kinks, cliffs and needles are left to :mod:`.quadrature`, and so is any likelihood that may have
mass where nobody looked. Outside the range there is nothing

* where p(y|·) is log-concave: the integrand has fallen by a factor, and goes on falling;
* where p(y|·) rises to one place and falls beyond it: ``N(x; m, v)`` times its largest value is
  small there. There may be two modes, of which the narrow one is found, as it is near that place:
  spacings are no wider than it, and most of the mass must not be far from it.

The moments of a datum do not depend on the others in its batch.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.jit import jit, vector_loop
from ...numerics.special import LOG_SQRT_2PI, exp, log

_BATCH = 256
_NEWTON = 8  # steps towards the mode, at most, and to each end
_AIM = 1.05  # what is aimed at, relative to what is asked for

# What a batch keeps of its data: each number in a row of its own, after these their parameters,
# then sums. One array, and rows at constant distances, so that loops become vector instructions.
_ROWS = 13
_INDEX, _M, _PRECISION, _STRIP, _MODE, _WIDTH, _LOW, _HIGH, _DONE, _BASE, _PEAK, _LEFT, _RIGHT = (
    row * _BATCH for row in range(_ROWS)
)
_SPACING = _HIGH  # of the lattice, when modes have been found


@vector_loop
def _newton_step(state, n, shifted, here, there):
    """One step uphill for all that have not arrived; the number of those that have."""
    close = 1e-3  # squared distance from the mode, in widths, from which one step more is enough
    arrived = 0
    for i in range(n):
        precision, x = state[_PRECISION + i], state[_MODE + i]
        low, high, done = state[_LOW + i], state[_HIGH + i], state[_DONE + i] > 0.0
        slope = here[n + i] - (x - state[_M + i]) * precision
        bend = (there[n + i] - here[n + i]) / (shifted[i] - x)
        curvature = precision - (bend if bend < 0.0 else 0.0)
        new = x + slope / curvature
        low, high = (x if slope > 0.0 else low), (high if slope > 0.0 else x)
        good = slope * slope < close * curvature
        new = new if (low <= new) & (new <= high) | good else 0.5 * (low + high)
        state[_MODE + i] = x if done else new
        state[_WIDTH + i] = state[_WIDTH + i] if done else 1.0 / math.sqrt(curvature)
        state[_LOW + i], state[_HIGH + i] = low, high
        state[_DONE + i] = 1.0 if done | good else 0.0
        arrived += done | good
    return arrived


@jit
def _find_modes(kernel, theta, state, n, x, here, there):
    """Newton's method from the hints; slopes at two places make a curvature."""
    difference = 1e-3  # in widths, between the slopes that make a curvature
    for step in range(_NEWTON):
        for i in range(n):
            x[i] = state[_MODE + i] + difference * state[_WIDTH + i]
        kernel(state[_MODE:].ctypes, theta.ctypes, n, _BATCH, 1, 1, here.ctypes)
        kernel(x.ctypes, theta.ctypes, n, _BATCH, 1, 1, there.ctypes)
        if step == 0:
            for i in range(n):
                state[_PEAK + i] = here[i]
        if _newton_step(state, n, x, here, there) == n:
            break
    kernel(state[_MODE:].ctypes, theta.ctypes, n, _BATCH, 1, 1, here.ctypes)
    for i in range(n):
        state[_BASE + i] = here[i]


@vector_loop
def _edge_step(state, n, side, ends, x, out, drop):
    """One step of Newton's method, for the root of the fall or, on a cliff, for its logarithm.

    One is linear in the distance for Gaussians, the other for exponentials.
    """
    spare = 1.3  # what is still good, relative to the aim
    arrived, aim = 0, _AIM * drop
    for i in range(n):
        mode, m, precision = state[_MODE + i], state[_M + i], state[_PRECISION + i]
        distance, done = ends[i], state[_DONE + i] > 0.0
        away = x[i] - mode
        fall = state[_BASE + i] - out[i] + 0.5 * away * (away + 2.0 * (mode - m)) * precision
        slope = side * ((x[i] - m) * precision - out[n + i])
        excess = fall / aim - 1.0
        gap = log(1.0 + excess, excess) if excess > 1.0 else 2.0 - 2.0 * math.sqrt(aim / fall)
        factor = 1.0 - gap * fall / (slope * distance)
        factor = factor if factor > 0.4 else 0.4  # also of NaN
        factor = factor if factor < 3.0 else 3.0
        good = (drop <= fall) & (fall <= spare * drop)
        ends[i] = distance if done | good else distance * factor
        state[_DONE + i] = 1.0 if done | good else 0.0
        arrived += done | good
    return arrived


@jit
def _find_ends(kernel, theta, state, n, drop, x, out):
    """Where the log-concave integrand has dropped enough, to the left and to the right."""
    far = math.sqrt(2.0 * _AIM * drop)
    for side, row in ((-1.0, _LEFT), (1.0, _RIGHT)):
        for i in range(n):
            state[row + i] = far * state[_WIDTH + i]
            state[_DONE + i] = 0.0
        for _ in range(_NEWTON):
            for i in range(n):
                x[i] = state[_MODE + i] + side * state[row + i]
            kernel(x.ctypes, theta.ctypes, n, _BATCH, 1, 1, out.ctypes)
            if _edge_step(state, n, side, state[row:], x, out, drop) == n:
                break
        n = _keep(state, n, state[_DONE : _DONE + n])
    return n


@jit
def _bound_ends(state, n, drop):
    """Where N(x; m, v) times the largest likelihood is small."""
    for i in range(n):
        mode, m, precision = state[_MODE + i], state[_M + i], state[_PRECISION + i]
        spare = state[_PEAK + i] - state[_BASE + i] + 0.5 * (mode - m) * (mode - m) * precision
        reach = math.sqrt(2.0 * (drop + spare) / precision)
        state[_LEFT + i], state[_RIGHT + i] = mode - m + reach, m + reach - mode


@vector_loop
def _add_node(state, n, x, out, term, u, sums):
    for i in range(n):
        away = x[i] - state[_MODE + i]
        lean = away + 2.0 * (state[_MODE + i] - state[_M + i])
        term[i] = exp(out[i] - state[_BASE + i] - 0.5 * away * lean * state[_PRECISION + i])
        u[i] = away
    for k in range(sums.shape[0]):
        for i in range(n):
            sums[k, i] += term[i]
            term[i] *= u[i]


@jit
def _add(kernel, theta, state, n, nodes, shift, sums, work):
    """Sums of the integrand and its moments over so many nodes, from the left end + shift."""
    x, out, term, u = work
    sums[:, :n] = 0.0
    for j in range(nodes):
        for i in range(n):
            away = (j + shift) * state[_SPACING + i] - state[_LEFT + i]
            x[i] = state[_MODE + i] + away
        kernel(x.ctypes, theta.ctypes, n, _BATCH, 1, 1, out.ctypes)
        _add_node(state, n, x, out, term, u, sums)


@vector_loop
def _compare(state, n, nodes, halfway, spread, scale, differ):
    """Add one sum to the other; ``differ``: whether any moment is not the same for both.

    Also where the mean is too far from the mode for central moments, or nodes may pass by it.
    """
    strict = 1e-11  # difference of two sums, relative, that is always good
    loose = 1e-5  # and one that never is
    error = 1e-12  # what may be left of it in an analytic integrand
    lean = 3.0  # (mean - mode)² / variance, at most: what holds of every single mode
    for i in range(n):
        mass, strip = nodes[0, i] + halfway[0, i], state[_STRIP + i]
        shift, second = (nodes[1, i] + halfway[1, i]) / mass, (nodes[2, i] + halfway[2, i]) / mass
        spacing = 0.5 * state[_SPACING + i]
        lost = shift * shift > lean * (second - shift * shift)
        differ[i] = 1.0 if lost | (spacing > state[_WIDTH + i]) else 0.0
        tolerance = error * exp(math.pi * strip / spacing)
        tolerance = tolerance if tolerance > strict else strict
        scale[i] = mass * (tolerance if tolerance < loose else loose)
        state[_SPACING + i], spread[i] = spacing, math.sqrt(second)
    for k in range(nodes.shape[0]):
        for i in range(n):
            differ[i] = differ[i] if abs(nodes[k, i] - halfway[k, i]) <= scale[i] else 1.0
            scale[i] *= spread[i]
            nodes[k, i] += halfway[k, i]


@vector_loop
def _finish(state, n, sums, shift, out):
    """log Ẑ, mean and central moments from sums: one factor u becomes u - shift at a time."""
    for k in range(sums.shape[0]):
        for i in range(n):
            out[k, i] = sums[k, i] / sums[0, i]
    for i in range(n):
        shift[i] = out[1, i]
    for first in range(1, sums.shape[0]):
        for k in range(sums.shape[0] - 1, first - 1, -1):
            for i in range(n):
                out[k, i] -= shift[i] * out[k - 1, i]
    for i in range(n):
        away, precision = state[_MODE + i] - state[_M + i], state[_PRECISION + i]
        mass = sums[0, i] * state[_SPACING + i] * math.sqrt(precision)
        top = state[_BASE + i] - 0.5 * away * away * precision
        out[0, i] = top + log(mass, mass - 1.0) - LOG_SQRT_2PI
        out[1, i] = state[_MODE + i] + shift[i]


@jit
def _keep(state, n, keep):
    """Move the data to keep to the front; their number."""
    used = 0
    for i in range(n):
        if keep[i] > 0.0:
            if used < i:
                for row in range(0, state.size, _BATCH):
                    state[row + used] = state[row + i]
            used += 1
    return used


@jit
def _move(source, first, target, start, n):
    for row in range(source.shape[0]):
        for i in range(n):
            target[row, start + i] = source[row, first + i]


@jit
def lattice_moments(kernel, concave, strip, theta, m, v, hints, out, left):
    """Write log Ẑ, mean and central moments where lattices suffice; ``left`` marks the others."""
    first_drop = 24.0  # logarithm by which the integrand falls
    more = 2.5  # and more for every moment
    first_intervals = 16  # of the first lattice
    levels = 5  # how often it is halved, at most
    many = 5  # moments for which the first lattice is twice as fine
    # data of which those that differ are gathered before lattices are halved
    chunk_size = 64 * _BATCH
    size, parameters = out.shape[0], theta.shape[0]
    state = np.empty((_ROWS + parameters + 2 * size) * _BATCH)
    own = state[_ROWS * _BATCH :]
    sums = own[parameters * _BATCH :].reshape((2, size, _BATCH))
    nodes, halfway = sums[0], sums[1]  # unpacked, they would not be known to be without gaps
    x, here, there = np.empty(_BATCH), np.empty(4 * _BATCH), np.empty(4 * _BATCH)
    term, power, differ = np.empty(_BATCH), np.empty(_BATCH), np.empty(_BATCH)
    work = (x, here, term, power)
    drop = first_drop + more * size
    intervals = first_intervals if size < many else 2 * first_intervals
    waiting = np.empty((state.size // _BATCH, min(chunk_size, m.size)))
    left[:] = True
    for chunk in range(0, m.size, chunk_size):
        used = min(chunk_size, m.size - chunk)
        for level in range(levels):
            count, used = used, 0
            for start in range(0, count, _BATCH):
                n = min(_BATCH, count - start)
                if level == 0:
                    for i in range(n):
                        k = chunk + start + i
                        state[_INDEX + i], state[_STRIP + i] = k, strip[k]
                        state[_M + i], state[_PRECISION + i] = m[k], 1.0 / v[k]
                        state[_MODE + i], state[_WIDTH + i] = hints[0, k], math.sqrt(v[k])
                        state[_LOW + i], state[_HIGH + i] = -math.inf, math.inf
                        state[_DONE + i] = 0.0
                        for p in range(parameters):
                            own[p * _BATCH + i] = theta[p, k]
                    _find_modes(kernel, own, state, n, x, here, there)
                    n = _keep(state, n, state[_DONE : _DONE + n])
                    if concave:
                        n = _find_ends(kernel, own, state, n, drop, x, here)
                    else:
                        _bound_ends(state, n, drop)
                    for i in range(n):
                        state[_SPACING + i] = (state[_LEFT + i] + state[_RIGHT + i]) / intervals
                    _add(kernel, own, state, n, intervals + 1, 0.0, nodes, work)
                else:
                    _move(waiting, start, state.reshape((-1, _BATCH)), 0, n)
                _add(kernel, own, state, n, intervals << level, 0.5, halfway, work)
                _compare(state, n, nodes, halfway, term, power, differ)
                _finish(state, n, nodes, term, halfway)
                for i in range(n):
                    if differ[i] == 0.0:
                        k = int(state[_INDEX + i])
                        left[k] = False
                        for j in range(size):
                            out[j, k] = halfway[j, i]
                n = _keep(state, n, differ)
                _move(state.reshape((-1, _BATCH)), 0, waiting, used, n)
                used += n
