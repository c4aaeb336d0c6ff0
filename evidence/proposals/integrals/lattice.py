r"""A draw by a lattice of its own: for integrands that are far from any Gaussian.

Nodes are added on both sides of the mode until the integrand has fallen, and where a cavity far
away may have mass, up to there. About the only place h where a likelihood may be narrow they are
dense: :math:`x = h + δ \sinh u`, evenly in u.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.jit import jit, vector_loop
from ...numerics.special import LOG_SQRT_2PI, exp, log
from ..foresight import add_message
from .integrand import NOTHING, add_data, falls, shape
from .records import CAPACITY

DROP = 25.0  # logarithm by which an integrand must have fallen


@jit
def draw_on_lattice(rng, f, mean, nodes):
    """A node of a shifted lattice in proportion to the integrand there, and log of its sum."""
    first, last, log_w = lattice(rng, f, mean, nodes)
    if not log_w > -math.inf:
        return mean, log_w
    return nodes.x[pick(nodes.g, first, last, rng.random())], log_w


@jit
def pick(g, first, last, uniform):
    """A node, from the sums of the integrand up to each of them."""
    chosen, target = first, uniform * g[last - 1]
    while g[chosen] < target and chosen < last - 1:
        chosen += 1
    return chosen


@jit
def lattice(rng, f, mean, nodes):
    """Nodes ``first`` to ``last`` in x, sums of the integrand up to each in g, log of its sum."""
    first_nodes = 20  # nodes at first; if too many the spacing doubles
    growth = 8  # nodes by which it grows
    many = 128  # nodes, of which most are far from where they have to be dense
    x, g, root = nodes.x, nodes.g, f.root
    mode, spacing = _spacing(f, mean, nodes)
    lowest, highest = _range(f, mean, mode)
    if highest - lowest > many * spacing and f.hints.size == 1:
        return _graded(rng, f, mean, spacing, (lowest, highest), nodes)
    shift, middle, wished = rng.random(), CAPACITY // 2, spacing
    while True:
        origin = mode + (shift - middle) * spacing
        first, last = middle - first_nodes // 2, middle + first_nodes // 2
        top = _nodes(f, mean, (origin, spacing), first, last, nodes)
        while first >= growth and (x[first] > lowest or g[first] > top - DROP):
            new = first - growth
            more = _nodes(f, mean, (origin, spacing), new, first, nodes)
            first, top = new, max(top, more)
        while last <= CAPACITY - growth and (x[last - 1] < highest or g[last - 1] > top - DROP):
            new = last + growth
            more = _nodes(f, mean, (origin, spacing), last, new, nodes)
            last, top = new, max(top, more)
        if (first >= growth and last <= CAPACITY - growth) or not spacing < 1e100:
            break
        spacing *= 2.0
    if not f.concave and spacing > wished:  # nodes may pass by a mode
        return first, last, math.nan
    if not NOTHING < top < math.inf:
        return first, last, -math.inf
    add_message(f.message, x[first:last], 1.0, g[first:last])
    total = _add_up(g[first:last], top)
    return first, last, top + math.log(total * spacing / root) - LOG_SQRT_2PI


@jit
def _spacing(f, mean, nodes):
    """The integrand's mode, and a spacing by the least width."""
    spacing = 0.75  # in widths: the sum over a Gaussian is good to 1e-15
    cliff = 0.3  # spacing relative to that of smooth integrands
    smooth, mode, width, narrow = shape(f, mean, nodes)
    if smooth:
        table, as_gaussian = np.array([[mode - mean], [width]]), np.ones(1, np.bool_)
        falls(f, mean, 0.0, table, as_gaussian, nodes)
        narrow = narrow if as_gaussian[0] else min(narrow, cliff * width)
    return mode, spacing * narrow


@jit
def _range(f, mean, mode):
    """Where there must be nodes: the integrand may be small and rise again."""
    searched = 7.0  # standard deviations of the cavity searched for a second mode
    if f.concave:
        return mode, mode
    cavity, sd = _cavity(f, mean)
    return min(mode, cavity - searched * sd), max(mode, cavity + searched * sd)


@jit
def _cavity(f, mean):
    """Mean and standard deviation without the sites of the data."""
    v, pull, drop = f.root * f.root, 0.0, 0.0
    for i in range(f.data.size):
        datum = f.data[i]
        pull += datum.scale * (datum.nu - datum.tau * datum.known)
        drop += datum.scale * datum.scale * datum.tau
    a = 1.0 - drop * v
    return (mean - pull * v) / a, f.root / math.sqrt(a)


@vector_loop
def _grade(lattice, place, gaussian, x, g):
    """Nodes from a lattice in u, and logs of the Gaussian there and of dx/du."""
    (first, step), (hint, narrow), (half, mean) = lattice, place, gaussian
    for j in range(x.size):
        power = exp(first + j * step)
        x[j] = hint + 0.5 * narrow * (power - 1.0 / power)
        slope = 0.5 * narrow * (power + 1.0 / power)
        g[j] = log(slope, slope - 1.0) - half * (x[j] - mean) * (x[j] - mean)


@jit
def _graded(rng, f, mean, narrow, ends, nodes):
    """As :func:`lattice`, between ``ends`` or as far beyond as the cavity is wide: nodes are
    ``narrow`` or less apart at the datum's hint."""
    coarse = 0.6  # spacing far from there, in standard deviations of the cavity
    beyond = 7.0  # of these
    x, g, half, sd = nodes.x, nodes.g, 0.5 / (f.root * f.root), _cavity(f, mean)[1]
    hint = (f.hints[0, 0] - f.data[0].known) / f.data[0].scale
    low, high = ends[0] - beyond * sd - hint, ends[1] + beyond * sd - hint
    first, step = math.asinh(low / narrow), coarse * sd / max(-low, high)
    size = int((math.asinh(high / narrow) - first) / step) + 2
    if size > CAPACITY:
        return 0, 1, math.nan
    _grade((first - rng.random() * step, step), (hint, narrow), (half, mean), x[:size], g)
    add_data(f, x[:size], g, nodes)
    add_message(f.message, x[:size], 1.0, g[:size])
    top = g[:size].max()
    if not NOTHING < top < math.inf:
        return 0, size, -math.inf
    total = _add_up(g[:size], top)
    return 0, size, top + math.log(total * step / f.root) - LOG_SQRT_2PI


@vector_loop
def _add_up(g, top):
    """Sums of exponentials up to every one of them."""
    for i in range(g.size):
        g[i] = exp(g[i] - top)
    for i in range(1, g.size):
        g[i] += g[i - 1]
    return g[-1]


@jit
def _nodes(f, mean, places, first, last, nodes):
    """Log of the integrand at nodes ``first`` to ``last`` of a lattice, and its maximum."""
    x, g, half = nodes.x, nodes.g, 0.5 / (f.root * f.root)
    origin, spacing = places
    for i in range(first, last):
        x[i] = origin + i * spacing
        g[i] = -half * (x[i] - mean) ** 2
    add_data(f, x[first:last], g[first:last], nodes)
    top = -math.inf
    for i in range(first, last):
        top = max(top, g[i])
    return top
