r"""Moments of one-dimensional tilted distributions :math:`p(y|x)\,N(x; m, v)` by quadrature.

Each integral is split at its modes, found uphill from the cavity's mean and from the
likelihood's locations, into panels that grow geometrically away from them and are halved until
the 15-point Kronrod and the 7-point Gauss rule agree on the mass. This copes with what a GP
produces: cavities a hundred times wider than the cliff the likelihood puts into them, counts
that make the tilted density a needle, and the two modes of a robust likelihood. Not resolved
are moments above the third that a tail of less than 1e-12 of the mass decides (a Student-t
whose cavity is thousands of its scales wide). Where they suffice, sums over lattices are
many times as fast (:mod:`.lattice`) and come first.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...numerics.arrays import Array
from ...numerics.jit import from_python, jit
from ...numerics.special import LOG_SQRT_2PI
from ...numerics.threads import run
from .lattice import lattice_moments


def _kronrod() -> tuple[Array, Array, Array]:
    """Kronrod nodes and weights on [-1, 1], and embedded Gauss weights, zero where not a node."""
    nodes = np.array([
        0.991455371120812639206854697526329, 0.949107912342758524526189684047851,
        0.864864423359769072789712788640926, 0.741531185599394439863864773280788,
        0.586087235467691130294144691693013, 0.405845151377397166906606412076961,
        0.207784955007898467600689403773245, 0.0,
    ])  # fmt: skip
    kronrod = np.array([
        0.022935322010529224963732008058970, 0.063092092629978553290700663189204,
        0.104790010322250183839876322541518, 0.140653259715525918745189590510238,
        0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
        0.204432940075298892414161999234649, 0.209482141084727828012999174891714,
    ])  # fmt: skip
    gauss = np.zeros(15)
    gauss[1::2] = np.polynomial.legendre.leggauss(7)[1]
    mirrored = np.concatenate([-nodes, nodes[-2::-1]])
    return mirrored, np.append(kronrod, kronrod[-2::-1]), gauss


_X15, _K15, _G15 = _kronrod()


@jit
def _log_tilted(kernel, theta, x, m, v, buffer, out):
    """``out[:3] = g, g', g''`` at one point, for g = log p(y|x) - (x - m)²/2v."""
    buffer[0] = x
    kernel(buffer.ctypes, theta.ctypes, 1, 1, 0, 3, out.ctypes)
    out[0] -= 0.5 * (x - m) * (x - m) / v
    out[1] -= (x - m) / v
    out[2] -= 1.0 / v


@jit
def local_maximum(kernel, theta, start, m, v, buffer, out):
    """A local maximum of the log tilted density: bracket the slope, then safeguarded Newton."""
    _log_tilted(kernel, theta, start, m, v, buffer, out)
    # exp(x) can overflow at the start: the curvature is inf there, but the step must not be 0
    step = max(1.0 / math.sqrt(max(-out[2], 1.0 / v)), 1e-6 * math.sqrt(v))
    near, far, uphill = start, start, 1.0 if out[1] > 0.0 else -1.0
    while uphill * out[1] > 0.0:
        near = far
        far += uphill * step
        step *= 2.0
        _log_tilted(kernel, theta, far, m, v, buffer, out)
    lo, hi = (near, far) if uphill > 0.0 else (far, near)
    x, moved = 0.5 * (lo + hi), hi - lo
    for _ in range(200):
        _log_tilted(kernel, theta, x, m, v, buffer, out)
        if out[1] > 0.0:
            lo = x
        else:
            hi = x
        if out[1] * out[1] < -1e-6 * out[2]:  # within a thousandth of a standard deviation
            break
        # Newton steps must shrink: down an exponential cliff they would stay at 1 for ever
        step = out[1] / out[2] if out[2] < 0.0 else hi - lo
        if not (lo < x - step < hi and abs(step) < 0.5 * moved):
            step = x - 0.5 * (lo + hi)
        x -= step
        moved = abs(step)
    return x


@jit
def _edge(kernel, theta, start, direction, width, floor, m, v, buffer, out):
    """The first point, doubling steps outwards from ``start``, where g has dropped to floor."""
    step = width
    x = start + direction * step
    _log_tilted(kernel, theta, x, m, v, buffer, out)
    while out[0] > floor:
        step *= 1.5
        x += direction * step
        _log_tilted(kernel, theta, x, m, v, buffer, out)
    return x


@jit
def _grow(stack, count, start, end, step):
    """Push panels from ``start`` to ``end``, each twice as long as the last; the new count."""
    max_doublings = 30
    direction = 1.0 if end > start else -1.0
    inner = start
    for k in range(max_doublings):
        outer = inner + direction * step
        if (end - outer) * direction < 0.5 * step or k == max_doublings - 1:
            outer = end
        stack[count, 0], stack[count, 1] = min(inner, outer), max(inner, outer)
        count += 1
        if outer == end:
            break
        inner = outer
        step *= 2.0
    return count


@jit
def _panel(kernel, theta, a, b, base, mode, width, m, v, x15, out, sums):
    """Add the Kronrod sums of one panel to ``sums``; return |K15 - G7| of the mass.

    The prior's exponent is taken relative to the mode, ``(x-m)² - (mode-m)²`` factorised: far
    from the cavity's mean both are large and their difference would lose its digits.
    """
    half, mid = 0.5 * (b - a), 0.5 * (a + b)
    for i in range(15):
        x15[i] = mid + half * _X15[i]
    kernel(x15.ctypes, theta.ctypes, 15, 1, 0, 1, out.ctypes)
    fine, coarse = 0.0, 0.0
    for k in range(sums.size):
        sums[k] = 0.0
    for i in range(15):
        away = x15[i] - mode
        p = half * math.exp(out[i] - base - 0.5 * away * (away + 2.0 * (mode - m)) / v)
        fine += _K15[i] * p
        coarse += _G15[i] * p
        term, u = _K15[i] * p, away / width
        for k in range(sums.size):
            sums[k] += term
            term *= u
    return abs(fine - coarse)


@jit
def _peak(kernel, theta, start, m, v, buffer, out):
    """A local maximum near ``start``: its place, height and width."""
    mode = local_maximum(kernel, theta, start, m, v, buffer, out)
    _log_tilted(kernel, theta, mode, m, v, buffer, out)
    return mode, out[0], 1.0 / math.sqrt(max(-out[2], 1.0 / v))


@jit
def _insert(peaks, used, place, width):
    """Put a peak (place, width) among those before it, in order; the new number of them.

    Of two nearer than the narrower one's width the narrower one stays.
    """
    for k in range(used):
        if not abs(place - peaks[k, 0]) > min(width, peaks[k, 1]):
            if width < peaks[k, 1]:
                peaks[k, 0], peaks[k, 1] = place, width
            return used
    k = used
    while k > 0 and peaks[k - 1, 0] > place:
        peaks[k, 0], peaks[k, 1] = peaks[k - 1, 0], peaks[k - 1, 1]
        k -= 1
    peaks[k, 0], peaks[k, 1] = place, width
    return used + 1


@jit
def tilted_one(kernel, theta, m, v, hints, moments, work):
    """Write log Ẑ, mean and central moments 2, 3, … of one site into ``moments``.

    There may be a mode uphill of the mean ``m`` and of each of the ``hints``. All are NaN where
    the cavity is not a distribution (``v <= 0``, or NaN) or the likelihood cannot be evaluated;
    ``v = 0`` is a point mass.
    """
    drop = 60.0  # the integrand is followed until it has fallen by exp(-60)
    tolerance = 1e-11  # on |K15 - G7| relative to the total mass
    max_panels = 400
    stack, x15, buffer, out, sums, totals = work
    for k in range(moments.size):
        moments[k] = np.nan if v != 0.0 else 0.0
    if v == 0.0:
        _log_tilted(kernel, theta, m, m, 1.0, buffer, out)
        moments[0], moments[1] = out[0], m
    if not (v > 0.0 and np.isfinite(v) and np.isfinite(m)):
        return
    peaks, used = np.empty((hints.size + 1, 2)), 1
    mode, height, width = _peak(kernel, theta, m, m, v, buffer, out)
    peaks[0, 0], peaks[0, 1], top = mode, width, height
    for hint in hints:
        other, other_height, other_width = _peak(kernel, theta, hint, m, v, buffer, out)
        top = max(top, other_height)
        used = _insert(peaks, used, other, other_width)
        if other_height + math.log(other_width) > height + math.log(width):
            mode, height, width = other, other_height, other_width
    lo, hi = peaks[0], peaks[used - 1]
    floor = top - drop
    first = _edge(kernel, theta, lo[0], -1.0, lo[1], floor, m, v, buffer, out)
    last = _edge(kernel, theta, hi[0], 1.0, hi[1], floor, m, v, buffer, out)
    if not (np.isfinite(first) and np.isfinite(last) and np.isfinite(top)):
        return
    count = _grow(stack, 0, lo[0], first, 2.0 * lo[1])
    count = _grow(stack, count, hi[0], last, 2.0 * hi[1])
    for k in range(used - 1):
        middle = 0.5 * (peaks[k, 0] + peaks[k + 1, 0])
        count = _grow(stack, count, peaks[k, 0], middle, 2.0 * peaks[k, 1])
        count = _grow(stack, count, peaks[k + 1, 0], middle, 2.0 * peaks[k + 1, 1])

    buffer[0] = mode
    kernel(buffer.ctypes, theta.ctypes, 1, 1, 0, 1, out.ctypes)
    base = out[0] - (height - top)
    for k in range(totals.size):
        totals[k] = 0.0
    panels = 0
    scale = math.sqrt(2.0 * math.pi) * width * math.exp(height - top)  # a floor for the mass
    while count > 0:
        count -= 1
        a, b = stack[count, 0], stack[count, 1]
        error = _panel(kernel, theta, a, b, base, mode, width, m, v, x15, out, sums)
        panels += 1
        wanted = tolerance * max(totals[0], scale)
        if error > wanted and panels < max_panels and count + 2 <= stack.shape[0]:
            mid = 0.5 * (a + b)
            stack[count, 0], stack[count, 1] = a, mid
            stack[count + 1, 0], stack[count + 1, 1] = mid, b
            count += 2
        else:
            for k in range(totals.size):
                totals[k] += sums[k]

    moments[0] = top + math.log(totals[0]) - LOG_SQRT_2PI - 0.5 * math.log(v)
    _centre(totals, mode, width, moments)


@jit
def _centre(totals, mode, width, moments):
    """Mean and central moments, from sums of powers of widths from the mode."""
    mass = totals[0]
    shift = totals[1] / mass
    moments[1] = mode + width * shift
    power = width
    for k in range(2, moments.size):
        power *= width
        central, binomial = 0.0, 1.0
        for j in range(k + 1):  # Σ_j C(k, j) E[u^(k-j)] (-shift)^j
            central += binomial * (totals[k - j] / mass) * (-shift) ** j
            binomial *= (k - j) / (j + 1.0)
        moments[k] = central * power


@jit
def _tilted_some(kernel, theta, m, v, hints, out, some, work):
    datum, moments = np.empty(theta.shape[0]), np.empty(out.shape[0])
    for n in np.nonzero(some)[0]:
        for p in range(theta.shape[0]):
            datum[p] = theta[p, n]
        tilted_one(kernel, datum, m[n], v[n], hints[:, n], moments, work)
        for k in range(moments.size):
            out[k, n] = moments[k]


def tilted_workspace(size: int) -> tuple[Array, ...]:
    """Scratch arrays of :func:`tilted_one` for ``size`` moments (log Ẑ counts as one)."""
    return tuple(np.empty(shape) for shape in ((160, 2), 15, 1, 60, size, size))


def evaluate(kernel: Callable[..., None], theta: Array, x: Array, order: int = 3) -> Array:
    """log p and its derivatives up to ``order``, 1 or 3, at ``x``, shape (4, N)."""
    theta, x = (np.ascontiguousarray(part, dtype=float) for part in (theta, x))
    out, call = np.empty((4, x.size)), from_python(kernel)  # which reads bare memory
    call(x.ctypes, theta.ctypes, x.size, theta.shape[1], 1, order, out.ctypes)
    return out


def tilted_moments(
    kernel: Callable[..., None], theta: Array, m: Array, v: Array, hints: Array, order: int, *,
    log_concave: bool = False, unimodal: bool = False, strip: Array | float = 0.0,
    together: int = 16384,
) -> Array:  # fmt: skip
    """log Ẑ, mean and central moments up to ``order`` (≥ 2), shape (order + 1, N).

    ``hints`` (K, N): K places for each datum near which its likelihood may be largest. Where it
    is ``log_concave``, or rises to the only hint and falls beyond it (``unimodal``), sums over a
    lattice come first, and adaptive quadrature where they do not suffice; for ``strip`` see
    :meth:`.Likelihood.strip`.

    ``together``: data in one call; more are shared among cores.
    """
    strips = np.full(m.shape, strip)
    parts = [slice(i, i + together) for i in range(0, max(m.size, 1), together)]
    outs: list[Array] = [np.empty(0)] * len(parts)

    def share(first: int, stride: int) -> None:
        for k in range(first, len(parts), stride):
            own = parts[k]
            # copies are of one type, which is compiled once: writable and without gaps
            given = np.array(theta[:, own], order="C"), np.array(m[own]), np.array(v[own])
            there = np.array(hints[:, own], order="C")
            out, left = np.empty((order + 1, m[own].size)), np.ones(m[own].size, dtype=bool)
            if log_concave or unimodal:
                lattice_moments(kernel, log_concave, strips[own], *given, there, out, left)
            if left.any():
                _tilted_some(kernel, *given, there, out, left, tilted_workspace(order + 1))
            outs[k] = out

    run(share, len(parts))
    return outs[0] if len(parts) == 1 else np.concatenate(outs, axis=1)


def cumulants(moments: Array) -> Array:
    """Cumulants from (log Ẑ, mean, central moments); rows 0 and 1 pass through."""
    mu = moments.copy()
    mu[0], mu[1] = 1.0, 0.0
    kappa = np.zeros_like(mu)
    for n in range(2, mu.shape[0]):
        terms = (math.comb(n - 1, k - 1) * kappa[k] * mu[n - k] for k in range(2, n - 1))
        kappa[n] = mu[n] - sum(terms)
    kappa[:2] = moments[:2]
    return kappa
