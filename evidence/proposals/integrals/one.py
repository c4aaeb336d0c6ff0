"""Draws under a datum that sees the latent value itself: modes and widths by the mean alone."""

from __future__ import annotations

import math

from ...numerics.copies import copy
from ...numerics.jit import jit, vector_loop
from ...numerics.normal import fill_normals
from ...numerics.special import exp, log
from ..foresight import add_message
from .integrand import NOTHING, falls, shape
from .lattice import draw_on_lattice
from .records import CELLS
from .shared import NEAR, add, draw_near, eight, ends, leave_lattice


@jit
def draw_with_one(rng, f, draws, work, leave):
    """Draws given their means, which they replace, under one datum of known part 0 and scale 1.

    They may share nodes of a lattice, each being what it should, but not independent of the
    others, and ``leave`` it by a step each. Uniforms are replaced by the draws in units of the
    root from their means. Normals are not asked for.
    """
    spread = 48.0  # spacings between means up to which a lattice is cheap
    value, rows, points, root = draws.value, work.rows, work.points, f.root
    n, cells = value.size, work.smooth.size - 1
    low, high, finite = ends(value, rows[5], rows[6])
    copy(value, points)
    spacing = NEAR * root
    if not f.concave:
        spacing = _finest(f, work.nodes)
    step, all_smooth = max(high - low, 1e-9 * root) / cells, False
    if high - low > spread * spacing:  # too many nodes, unless there is no other way
        all_smooth = _tabulate(f, low, step, work)
    if not all_smooth:
        if draw_near(rng, f, spacing, draws, work):
            if leave:
                leave_lattice(f, points[:n], draws, work)
            _in_units(value, points, root, draws.uniforms)
            return
        _tabulate(f, low, step, work)
    _draw_pairs(f, low, step, draws, work)
    smooth = work.smooth
    for m in range(0 if finite and smooth.all() else n):
        place = (value[m] - low) / step
        i = min(int(place), cells - 1) if place >= 0.0 else 0
        if not (smooth[i] and smooth[i + 1] and place <= cells + 1e-9):
            rows[4, m], rows[5, m] = draw_on_lattice(rng, f, value[m], work.nodes)
    _in_units(rows[4], value, root, draws.uniforms)
    add(draws.log_weight, 1.0, rows[5])
    copy(rows[4], value)


@jit
def _finest(f, nodes):
    """Spacing of a lattice that sees maxima of a likelihood that is not log-concave."""
    eta, out, root = nodes.eta, nodes.out, f.root
    spacing = NEAR * root
    for place in f.hints[0]:
        eta[0] = place
        f.kernel(eta.ctypes, f.theta[0].ctypes, 1, 1, 0, 3, out.ctypes)
        curvature = 1.0 / (root * root) - out[2] - f.data[0].tau
        if curvature > 0.0:
            spacing = min(spacing, NEAR / math.sqrt(curvature))
    return spacing


@jit
def _tabulate(f, low, step, work):
    """Modes less means, widths, and derivatives of the former at means; what :func:`_mirror` adds
    up; whether all integrands are smooth."""
    table, pieces, smooth = work.table, work.pieces, work.smooth
    for i in range(smooth.size):
        mean = low + i * step
        smooth[i], mode, table[1, i], _ = shape(f, mean, work.nodes)
        table[0, i] = mode - mean
        table[2, i] = step * ((table[1, i] / f.root) ** 2 - 1.0)
    falls(f, low, step, table, smooth, work.nodes)
    pieces[:] = 0.0
    square, cube, bend = 0.0, 0.0, 0.0  # of the piece before
    for i in range(smooth.size - 1):
        rise, rate, end = table[0, i + 1] - table[0, i], table[2, i], table[2, i + 1]
        pieces[0, i] = 3.0 * rise - 2.0 * rate - end - square - 3.0 * cube
        square, pieces[1, i] = 3.0 * rise - 2.0 * rate - end, rate + end - 2.0 * rise - cube
        cube = rate + end - 2.0 * rise
        pieces[2, i] = table[1, i + 1] - table[1, i] - bend
        bend = table[1, i + 1] - table[1, i]
    return smooth.all()


@jit
def _draw_pairs(f, low, step, draws, work):
    """Draws in row 4 and log weights in row 5, from Gaussians that are interpolated."""
    datum, rows, out, n = f.data[0], work.rows, work.nodes.out, draws.value.size
    copy(draws.value, rows[0])
    copy(draws.uniforms, rows[4])
    both, normals, quarter = work.points[: 2 * n], work.randoms, work.randoms.size // 4
    fill_normals(work.lanes, normals[:quarter], normals[quarter : 2 * quarter])
    _mirror(work.table, work.pieces, low, step, normals, rows, both)
    f.kernel(both.ctypes, f.theta[0].ctypes, 2 * n, 1, 0, 1, out.ctypes)
    add_message(f.message, both, 1.0, out)
    _draw_of_two(rows, both, normals, out, (datum.c, datum.nu, datum.tau), f.root)


@vector_loop
def _mirror(table, pieces, low, step, normals, rows, both):
    """Two draws of every Gaussian, mirror images of each other; its width goes to row 2, means are
    in row 0.

    Its mode less its mean is a cubic, its width is linear between the table's means: sums over
    these of powers of how far a mean is beyond them, so that no draw looks anything up.
    """
    n, last, per = rows.shape[1], table.shape[1] - 1.0, 1.0 / step
    means, widths, one, two = rows[0], rows[2], both[:n], both[n:]
    square, cube, bend = eight(pieces[0]), eight(pieces[1]), eight(pieces[2])
    start, slope, width = table[0, 0], table[2, 0], table[1, 0]
    for m in range(n):
        place = (means[m] - low) * per
        at = place if place > 0.0 else 0.0
        at = at if at < last else last
        shift, wide = start + slope * at, width
        for i in range(CELLS):
            beyond = at - i if at > i else 0.0
            shift += beyond * beyond * (square[i] + beyond * cube[i])
            wide += beyond * bend[i]
        widths[m] = wide
        mode, away = means[m] + shift, wide * normals[m]
        one[m], two[m] = mode - away, mode + away


@vector_loop
def _draw_of_two(rows, both, normals, loglik, site, root):
    """One of two draws, by weight, in row 4, and log of their mean weight in row 5.

    Means are in row 0, widths in row 2, uniforms in row 4. Where neither has any weight it is the
    mean.
    """
    constant, nu, tau = site
    n, half = both.size // 2, 0.5 / (root * root)
    for m in range(n):
        mean, one, two = rows[0, m], both[m], both[n + m]
        first = loglik[m] - one * (nu - 0.5 * tau * one) - half * (one - mean) * (one - mean)
        second = loglik[n + m] - two * (nu - 0.5 * tau * two) - half * (two - mean) * (two - mean)
        first = first if first > NOTHING else NOTHING
        second = second if second > NOTHING else NOTHING
        top = first if first > second else second
        ratio = exp((second if first > second else first) - top)
        share = 1.0 if first > second else ratio  # of the first, relative to the larger one
        some = top > NOTHING
        chosen = one if rows[4, m] * (1.0 + ratio) < share else two
        rows[4, m] = chosen if some else mean
        mass = (0.5 + 0.5 * ratio) * (rows[2, m] / root)
        weight = top + log(mass, mass - 1.0) + 0.5 * normals[m] * normals[m] - constant
        rows[5, m] = weight if some else -math.inf


@vector_loop
def _in_units(value, means, root, eps):
    for m in range(value.size):
        eps[m] = (value[m] - means[m]) / root
