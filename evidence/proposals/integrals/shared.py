r"""Draws whose means are near each other, from one lattice for all.

With nodes :math:`x_j = x_0 + j δ` the Gaussian's factor of node j is :math:`a_j b^j`, where a is
the same for all draws, and b for all nodes: sums over nodes are polynomials in b.
"""

from __future__ import annotations

import math

from ...numerics.copies import copy
from ...numerics.jit import jit, vector_loop
from ...numerics.normal import fill_uniforms
from ...numerics.special import LOG_SQRT_2PI, exp, log, polynomial
from ..foresight import add_message
from .integrand import add_data, add_ratios, exponentials, highest
from .lattice import DROP
from .records import CAPACITY

NEAR = 0.6  # spacing, in widths


@jit
def draw_near(rng, f, spacing, draws, work):
    """Draws from one lattice; whether that is possible. There may be no data at all."""
    largest_exponent = 600.0
    x, g, eta, rows, root = work.nodes.x, work.nodes.g, work.nodes.eta, work.rows, f.root
    low, high, _ = ends(draws.value, rows[5], rows[6])
    half, middle = 0.5 / (root * root), 0.5 * (low + high)
    first, last, spacing = _place(f, spacing, low, high, work.nodes)
    if last < 0:
        return False
    size = last - first + 2
    origin = x[first] - rng.random() * spacing
    _add_nodes(f, (origin, spacing), size, low, high, work.nodes)
    farthest = max(high - middle, 1e-3 * root) * (x[size - 1] - x[0])  # power of any node
    if 2.0 * half * farthest > largest_exponent:
        return False
    top = exponentials(x, g, 0, size, half, middle, eta)
    constant = top + math.log(spacing / root) - LOG_SQRT_2PI
    copy(draws.value, rows[0])
    copy(draws.uniforms, rows[4])
    padded = (size + 7) // 8 * 8
    eta[size:padded] = 0.0
    _draw_nodes(rows, eta[:padded], x[:size], middle, 2.0 * half, constant)
    add(draws.log_weight, 1.0, rows[5])
    copy(rows[6], draws.value)
    return True


@jit
def _place(f, spacing, low, high, nodes):
    """The first and the last node that matter to means from ``low`` to ``high``, and a spacing for
    which sums over every other node agree; -1 where there is none."""
    wide = 8.0  # standard deviations of the cavity where it has nodes
    tries = 8  # of its spacing and its reach
    most_nodes = 192  # nodes at most
    uneven = 1e-4  # what every other node may tell differently
    x, g = nodes.x, nodes.g
    v, half = f.root * f.root, 0.5 / (f.root * f.root)
    left, pull = 1.0, 0.0
    for i in range(f.data.size):
        datum = f.data[i]
        left -= datum.scale * datum.scale * datum.tau * v
        pull += datum.scale * (datum.nu - datum.tau * datum.known) * v
    reach = wide * f.root / math.sqrt(left)
    start, stop = (low - pull) / left - reach, (high - pull) / left + reach
    for _ in range(tries):
        size = int(min((stop - start) / spacing, 1.0 * CAPACITY)) + 2
        if size > CAPACITY:
            break
        first, last = _add_nodes(f, (start, spacing), size, low, high, nodes)
        if first == 0 or last == size - 1:  # the likelihood pulls beyond the cavity's mass
            longer = 0.5 * (stop - start)
            start -= longer if first == 0 else 0.0
            stop += longer if last == size - 1 else 0.0
            continue
        if last - first > most_nodes:
            break
        worst = 0.0
        for mean in (low, 0.5 * (low + high), high):
            worst = max(worst, _unevenness(x, g, first, last + 1, half, mean, nodes.eta))
        if worst < uneven:
            return first, last, spacing
        spacing *= 0.5
    return 0, -1, spacing


@jit
def _add_nodes(f, lattice, size, low, high, nodes):
    """Ratios at the nodes in g, and the first and the last node that matter to any mean."""
    x, g, half = nodes.x, nodes.g, 0.5 / (f.root * f.root)
    for j in range(size):
        x[j], g[j] = lattice[0] + j * lattice[1], 0.0
    add_data(f, x[:size], g, nodes)
    add_message(f.message, x[:size], 1.0, g[:size])
    lowest, top = highest(x, g, size, half, low), highest(x, g, size, half, high)
    first, last = 0, size - 1
    while first < last and not g[first] - half * (x[first] - low) ** 2 > lowest - DROP:
        first += 1
    while last > first and not g[last] - half * (x[last] - high) ** 2 > top - DROP:
        last -= 1
    return first - 1 if first else 0, last + 1 if last < size - 1 else last


@vector_loop
def _unevenness(x, g, first, last, half, mean, out):
    """By how much every other node may differ from all, in their sums."""
    exponentials(x, g, first, last, half, mean, out)
    even, odd = 0.0, 0.0
    for j in range(first, last - 1, 2):
        even += out[j]
        odd += out[j + 1]
    even += out[last - 1] if (last - first) % 2 else 0.0
    return abs(even - odd) / (even + odd)


@vector_loop
def _draw_nodes(rows, weights, nodes, middle, precision, constant):
    """Of means in row 0 and uniforms in row 4: a node by weight in row 6, log of the sum in row 5.

    Eight weights at a time stay in registers; their number is a multiple of that, those beyond
    the nodes are zero.
    """
    n, origin, spacing = rows.shape[1], nodes[0], (nodes[-1] - nodes[0]) / (nodes.size - 1)
    base, total, power, left = rows[1], rows[2], rows[3], rows[4]
    log_weight, value = rows[5], rows[6]
    for m in range(n):
        base[m] = exp((rows[0, m] - middle) * precision * spacing)
        total[m] = 0.0
    for j in range(weights.size - 8, -1, -8):
        a, b, c, d, e, f, g, h = eight(weights[j:])
        for m in range(n):
            total[m] = polynomial(base[m], (total[m], h, g, f, e, d, c, b, a))
    for m in range(n):
        away = rows[0, m] - middle
        log_weight[m] = constant + log(total[m], total[m] - 1.0)
        log_weight[m] += away * precision * (origin - middle - 0.5 * away)
        left[m] *= total[m]
        power[m], value[m] = 1.0, 0.0
    for j in range(0, weights.size, 8):
        some = eight(weights[j:])  # a draw passes nodes while of its share something is left
        for m in range(n):
            p, rest, passed = power[m], left[m], value[m]
            for k in range(8):
                rest -= some[k] * p
                passed += 1.0 if rest > 0.0 else 0.0
                p *= base[m]
            power[m], left[m], value[m] = p, rest, passed
    for m in range(n):
        place = origin + spacing * value[m]
        value[m] = place if place < nodes[-1] else nodes[-1]


@jit
def leave_lattice(f, means, draws, work):
    """A Metropolis step from every node that was drawn to anywhere in its cell.

    It leaves the density that was drawn from as it is, and nothing on the lattice.
    """
    n, value, randoms = draws.value.size, draws.value, work.randoms
    new, gain, where, chance = work.rows[0], work.rows[1], randoms[:n], randoms[n:]
    datum, out = f.data[0], work.nodes.out
    fill_uniforms(work.lanes, randoms)
    _move(value, work.nodes.x, work.nodes.g, where, new, gain)
    f.kernel(new.ctypes, f.theta[0].ctypes, n, 1, 0, 1, out.ctypes)
    add_ratios(new, out, datum.c, datum.nu, datum.tau, n, gain)
    add_message(f.message, new, 1.0, gain)
    _accept(value, new, means, gain, chance, 0.5 / (f.root * f.root))


@vector_loop
def _move(value, x, g, where, new, gain):
    """To places in the cells of nodes; the ratios at nodes are lost."""
    spacing = x[1] - x[0]
    for m in range(value.size):
        gain[m] = -g[int((value[m] - x[0]) / spacing + 0.5)]
    for m in range(value.size):
        new[m] = value[m] + spacing * (where[m] - 0.5)


@vector_loop
def _accept(value, new, mean, gain, chance, half):
    for m in range(value.size):
        old, other = value[m], new[m]
        rise = gain[m] - half * (other - old) * (other + old - 2.0 * mean[m])
        value[m] = other if chance[m] < exp(0.0 if rise > 0.0 else rise) else old


@vector_loop
def add(value, factor, row):
    """value += factor · row."""
    for m in range(value.size):
        value[m] += factor * row[m]


@vector_loop
def eight(w):
    return w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]


@vector_loop
def ends(value, least, most):
    """The smallest and the largest of numbers that are finite; whether all are.

    Halves are compared, number by number, in memory that is given: vector instructions.
    """
    n, strange = value.size, 0
    for m in range(n):
        finite = abs(value[m]) < math.inf
        least[m] = value[m] if finite else math.inf
        most[m] = value[m] if finite else -math.inf
        strange += 0 if finite else 1
    while n > 1:
        half = (n + 1) // 2
        for m in range(n - half):
            low, high = least[half + m], most[half + m]
            least[m] = low if low < least[m] else least[m]
            most[m] = high if high > most[m] else most[m]
        n = half
    return (least[0], most[0], strange == 0) if least[0] <= most[0] else (0.0, 0.0, False)
