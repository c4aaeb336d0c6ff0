r"""One-dimensional integrals and draws, many at a time: the hot loop of guided draws.

A latent value v is drawn from

.. math:: r(v) \propto N(v; m, s^2) \prod_i \frac{p(y_i|\eta_i)}{t_i(\eta_i)},\qquad
          \eta_i = o_i + a_i v ,

and the integral of the right hand side is its weight; m is different for every draw, and so may be
the known part o of what a datum sees. There are one or several data.

Where the integrand is smooth, two draws from a Gaussian near it, mirror images of each other, are
weighed, and v is one of them: unbiased whatever the Gaussian. With one datum its mode and width
are functions of the mean alone, found at a few means and interpolated for all draws. Where the
integrand is far from a Gaussian the integral is a sum over a lattice with a random shift, and v
one of its nodes: for a shift that is uniform both are unbiased whatever the spacing, and for a
smooth integrand the sum hardly depends on the shift. With one datum, draws whose means are near
each other share a lattice, which costs less than anything else.

What is to come may have sent a message (:mod:`.foresight`), a further factor of the integrand.

It knows no latent values, no order and no sites' origin: :mod:`.guide` and :mod:`.steps` do.
"""

from __future__ import annotations

import math

import numpy as np

from ..models.likelihoods.quadrature import local_maximum
from ..numerics.jit import jit, vector_loop
from ..numerics.normal import LANES, fill_normals, fill_uniforms
from ..numerics.special import LOG_SQRT_2PI, exp, log, polynomial
from .foresight import add_message

_SKEW = 0.1  # third derivative up to which two draws are enough
_NEAR = 0.6  # spacing of a lattice that draws share, in widths
_SPREAD = 48.0  # spacings between means up to which a lattice is cheap
_WIDE = 8.0  # standard deviations of the cavity where it has nodes
_TRIES, _MOST_NODES = 8, 192  # of its spacing and its reach, and nodes
_UNEVEN = 1e-4  # what every other node may tell differently
_LARGEST_EXPONENT = 600.0
_CELLS = 8  # at most, between means at which modes are found; _eight of them
_NOTHING = -1e300  # the logarithm of zero
_NEWTON = 6  # steps of Newton's method before one that is safe
_SPACING = 0.75  # of the lattice, in widths: the sum over a Gaussian is good to 1e-15
_NODES = 20  # of the lattice at first; it grows where the integrand has not fallen
_FAR, _OFF, _LEAN = 4.0, 0.5, 1.2  # widths at which the logarithm may be off, and lean, by this
_CLIFF = 0.3  # spacing relative to that of smooth integrands
_MORE = 8  # nodes it grows by
_CAPACITY = 1536  # nodes, at most; then the spacing doubles
_DROP = 25.0  # logarithm by which it must have fallen
_REACH = 7.0  # standard deviations of the cavity searched for a second mode
_FEW = 32  # data up to which two modes are looked for
_SKEWED = 0.3  # the same with several data, whose Gaussian is bent
_LONGEST = 2.0  # step of Newton's method with several data, in standard deviations
_DIFFERENCE = 0.5  # standard deviations between slopes of which differences are taken
_CLOSE = 0.3  # widths of a first step after which there is no second
_LOOKED_AT = 8  # draws of which the fall is looked at first


@jit
def scratch(n, lanes):
    """Memory for ``n`` draws, and random numbers' state (:func:`.lanes_of`)."""
    cells, lines = min(_CELLS, 2 + n // 64), n // (2 * LANES) + 1
    return (
        np.empty(_CAPACITY),
        np.empty(_CAPACITY),
        np.empty(_CAPACITY),
        np.empty(4 * max(3 * n, _CAPACITY)),
        np.empty((7, n)),
        np.empty(3 * n),
        np.empty(4 * lines * LANES),
        np.empty((3, cells + 1)),
        np.empty((3, _CELLS)),
        np.empty(cells + 1, np.bool_),
        lanes,
    )


@jit
def draw_with_one(
    rng, kernel, concave, data, hints, root, value, eps, log_weight, memory, message, leave
):  # fmt: skip
    """Draws given their means in ``value``, which they replace, under a datum that sees v itself.

    They may share nodes of a lattice, each being what it should, but not independent of the
    others, and ``leave`` it by a step each. ``eps`` comes in as uniforms and goes out as the draws
    in units of ``root`` from their means.
    """
    theta, c, nu, tau = data[0][0], data[3][0], data[4][0], data[5][0]
    x, g, eta, out, draws, points, randoms, table, pieces, smooth, lanes = memory
    n, cells = value.size, smooth.size - 1
    low, high, finite = _range(value, draws[5], draws[6])
    points[:n], spacing = value, _NEAR * root
    if not concave:
        spacing = _finest(kernel, theta, tau, hints, root, eta, out)
    step, all_smooth = max(high - low, 1e-9 * root) / cells, False
    if high - low > _SPREAD * spacing:  # too many nodes, unless there is no other way
        all_smooth = _tabulate(
            kernel, concave, data, low, step, root, hints, x, g, eta, out, table, pieces, smooth
        )
    if not all_smooth:
        if _draw_near(rng, kernel, data, spacing, root, value, eps, log_weight, memory, message):
            if leave:
                _leave_lattice(kernel, data, root, value, memory, message)
            _in_units(value, points, root, eps)
            return
        _tabulate(
            kernel, concave, data, low, step, root, hints, x, g, eta, out, table, pieces, smooth
        )
    draws[0], draws[4] = value, eps
    both, quarter = points[: 2 * n], randoms.size // 4
    fill_normals(lanes, randoms[:quarter], randoms[quarter : 2 * quarter])
    _mirror(table, pieces, low, step, randoms, draws, both)
    kernel(both.ctypes, theta.ctypes, 2 * n, 1, 0, 1, out.ctypes)
    add_message(message, both, 1.0, out)
    _draw_of_two(draws, both, randoms, out, (c, nu, tau), root)
    for m in range(0 if finite and smooth.all() else n):
        place = (value[m] - low) / step
        i = min(int(place), cells - 1) if place >= 0.0 else 0
        if not (smooth[i] and smooth[i + 1] and place <= cells + 1e-9):
            draws[4, m], draws[5, m] = _draw_on_lattice(
                rng, kernel, concave, data, value[m], root, hints, x, g, eta, out, message
            )
    _in_units(draws[4], value, root, eps)
    _add(log_weight, draws[5])
    value[:] = draws[4]


@vector_loop
def _in_units(value, means, root, eps):
    for m in range(value.size):
        eps[m] = (value[m] - means[m]) / root


@vector_loop
def _add(total, some):
    for m in range(total.size):
        total[m] += some[m]


@vector_loop
def _mirror(table, pieces, low, step, normals, draws, both):
    """Two draws of every Gaussian, mirror images of each other; its width goes to row 2 of
    ``draws``, which has means in row 0.

    Its mode less its mean is a cubic, its width is linear between the table's means: sums over
    these of powers of how far a mean is beyond them, so that no draw looks anything up.
    """
    n, last, per = draws.shape[1], table.shape[1] - 1.0, 1.0 / step
    means, widths, one, two = draws[0], draws[2], both[:n], both[n:]
    square, cube, bend = _eight(pieces[0]), _eight(pieces[1]), _eight(pieces[2])
    start, slope, width = table[0, 0], table[2, 0], table[1, 0]
    for m in range(n):
        place = (means[m] - low) * per
        at = place if place > 0.0 else 0.0
        at = at if at < last else last
        shift, wide = start + slope * at, width
        for i in range(_CELLS):
            beyond = at - i if at > i else 0.0
            shift += beyond * beyond * (square[i] + beyond * cube[i])
            wide += beyond * bend[i]
        widths[m] = wide
        mode, away = means[m] + shift, wide * normals[m]
        one[m], two[m] = mode - away, mode + away


@vector_loop
def _eight(w):
    return w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]


@jit
def _tabulate(
    kernel, concave, data, low, step, root, hints, x, g, eta, out, table, pieces, smooth
):  # fmt: skip
    """Modes less means, widths, and derivatives of the former at means; what :func:`_mirror` adds
    up; whether all integrands are smooth."""
    for i in range(smooth.size):
        mean = low + i * step
        smooth[i], mode, table[1, i], _ = _shape(
            kernel, concave, data, mean, root, hints, eta, out
        )
        table[0, i] = mode - mean
        table[2, i] = step * ((table[1, i] / root) ** 2 - 1.0)
    _falls(kernel, data, low, step, root, table, smooth, x, g, eta, out)
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
def draw_with_several(
    rng, kernel, concave, data, known, hints, root, value, normals, uniforms, log_weight, memory,
    message, together,
):  # fmt: skip
    """As :func:`draw_with_one` under several data; of draw m they see ``known[:, m] + a v``.

    ``together`` these are the same for all draws.

    Two draws of a skewed Gaussian near the integrand, one or two of Newton's steps away, are
    weighed.
    """
    theta, scale, first, c, nu, tau = data
    x, g, eta, out, draws, points = memory[:6]
    n, half = value.size, 0.5 / (root * root)
    if (
        together
        and concave
        and _draw_near(
            rng, kernel, data, _NEAR * root, root, value, uniforms, log_weight, memory, message
        )
    ):
        return
    at, one, two, three = draws[0], draws[1], draws[2], draws[5]
    far = not concave and c.size <= _FEW  # other modes may be looked for
    if far:
        for m in range(n):
            for i in range(c.size):
                first[i] = known[i, m]
            places = _places(hints, first, scale)
            value[m], log_w = _draw_on_lattice(
                rng, kernel, concave, data, value[m], root, places, x, g, eta, out, message
            )
            log_weight[m] += log_w
        return
    at[:] = value
    h = _DIFFERENCE * root
    for _step in range(2):
        one[:], two[:], three[:] = 0.0, 0.0, 0.0
        for i in range(c.size):
            a = scale[i]
            for m in range(n):
                points[m] = known[i, m] + a * (at[m] - h)
                points[n + m] = known[i, m] + a * at[m]
                points[2 * n + m] = known[i, m] + a * (at[m] + h)
            kernel(points.ctypes, theta[i].ctypes, 3 * n, 1, 0, 1, out.ctypes)
            _add_slopes(points, out, a, nu[i], tau[i], one, two, three)
        for m in range(n):
            one[m] -= 2.0 * half * (at[m] - value[m])
            two[m] = two[m] / (2.0 * h) - 2.0 * half
            three[m] /= h * h
        longest = 0.0
        for m in range(n):
            move = -one[m] / two[m] if two[m] < 0.0 else 0.0
            limit = _LONGEST * root
            at[m] += min(max(move, -limit), limit) if abs(move) < math.inf else 0.0
            longest = max(longest, one[m] * one[m] / -two[m] if two[m] < 0.0 else math.inf)
        if longest < _CLOSE * _CLOSE:
            break
    both, total, widths, skews = points[: 2 * n], np.zeros(2 * n), draws[2], draws[5]
    left, right, far_out = draws[3], draws[6], draws[4]
    for m in range(n):
        width = 1.0 / math.sqrt(-two[m]) if two[m] < 0.0 else 0.0
        skews[m] = three[m] * width * width * width
        widths[m] = width if width > 0.0 and abs(skews[m]) < _SKEWED else 0.0
        skews[m] = skews[m] if widths[m] > 0.0 else 0.0
        far_out[m] = 0.0
    shape, some = (at, widths, skews), max(n // _LOOKED_AT, 1)
    if _look_far_out(kernel, data, known, half, value, shape, some, out, far_out):
        _look_far_out(kernel, data, known, half, value, shape, 1, out, far_out)
    for m in range(n):
        left[m] = at[m] + widths[m] * _bent(-normals[m], skews[m])
        right[m] = at[m] + widths[m] * _bent(normals[m], skews[m])
        total[m] = -half * (left[m] - value[m]) ** 2
        total[n + m] = -half * (right[m] - value[m]) ** 2
    for i in range(c.size):
        a = scale[i]
        for m in range(n):
            both[m] = known[i, m] + a * left[m]
            both[n + m] = known[i, m] + a * right[m]
        kernel(both.ctypes, theta[i].ctypes, 2 * n, 1, 0, 1, out.ctypes)
        _add_tilts(both, out, c[i], nu[i], tau[i], total)
    both[:n], both[n:] = left, right
    add_message(message, both, 1.0, total)
    for m in range(n):
        mean, width = value[m], widths[m]
        if width == 0.0 or far_out[m] > 0.0:
            for i in range(c.size):
                first[i] = known[i, m]
            value[m], log_w = _draw_on_lattice(
                rng, kernel, concave, data, mean, root, hints[0, :1], x, g, eta, out, message
            )
            log_weight[m] += log_w
            continue
        one_w = total[m] if total[m] > _NOTHING else _NOTHING  # NaN is no weight
        two_w = total[n + m] if total[n + m] > _NOTHING else _NOTHING
        best = max(one_w, two_w)
        one_w = math.exp(one_w - best) * _stretch(-normals[m], skews[m])
        two_w = math.exp(two_w - best) * _stretch(normals[m], skews[m])
        value[m] = left[m] if uniforms[m] * (one_w + two_w) < one_w else right[m]
        if best > _NOTHING:
            log_weight[m] += (
                best + math.log(0.5 * (one_w + two_w) * width / root) + 0.5 * normals[m] ** 2
            )
        else:
            log_weight[m] = -math.inf


@jit
def _bent(u, skew):
    r"""Where :math:`e^{-z^2/2 + s z^3/6}` is what the standard normal density is at u, nearly.

    .. math:: z = u + s u^2/6 + 5 s^2 u^3/72,

    which grows with u for every s. Nearly: what is left of the logarithm is of order s² u², but
    for a term odd in u.
    """
    return u + skew * u * u * (1.0 / 6.0 + (5.0 / 72.0) * skew * u)


@jit
def _stretch(u, skew):
    """Its derivative."""
    return 1.0 + skew * u * (1.0 / 3.0 + (5.0 / 24.0) * skew * u)


@jit
def draw_alike(
    rng, kernel, concave, data, hints, root, value, uniforms, log_weight, memory, message
):  # fmt: skip
    """As :func:`draw_with_several` where all means and all known parts are the same."""
    x, g, eta, out = memory[0], memory[1], memory[2], memory[3]
    mean, far = value[0], not concave and data[1].size <= _FEW
    places = _places(hints, data[2], data[1]) if far else hints[0, :1]
    first, last, log_w = _lattice(
        rng, kernel, concave, data, mean, root, places, x, g, eta, out, message
    )
    for m in range(value.size):
        log_weight[m] += log_w
        value[m] = x[_pick(g, first, last, uniforms[m])] if log_w > -math.inf else mean


@jit
def _places(hints, known, scale):
    """Values of v at which data have their hints, (K, D) in their predictors."""
    out = np.empty(hints.size)
    for k in range(hints.shape[0]):
        for i in range(known.size):
            out[k * known.size + i] = (hints[k, i] - known[i]) / scale[i]
    return out


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


@vector_loop
def _add_tilts(points, out, c, nu, tau, total):
    for m in range(total.size):
        total[m] += out[m] - c - points[m] * (nu - 0.5 * tau * points[m])


@jit
def _look_far_out(kernel, data, known, half, value, shape, every, out, far_out):
    """Whether the integrand of some draw does not fall as its skewed Gaussian.

    One of ``every`` so many draws is looked at.
    """
    theta, scale, _, c, nu, tau = data
    at, widths, skews = shape
    k = (value.size - 1) // every + 1
    places, points, total = np.empty(3 * k), np.empty(3 * k), np.zeros(3 * k)
    for j in range(3 * k):
        m, u = j % k * every, (j // k - 1) * _FAR
        places[j] = at[m] + widths[m] * _bent(u, skews[m])
        total[j] = math.log(_stretch(u, skews[m])) - half * (places[j] - value[m]) ** 2
    for i in range(c.size):
        for j in range(3 * k):
            points[j] = known[i, j % k * every] + scale[i] * places[j]
        kernel(points.ctypes, theta[i].ctypes, 3 * k, 1, 0, 1, out.ctypes)
        _add_tilts(points, out, c[i], nu[i], tau[i], total)
    found = False
    for j in range(k):
        fall = total[k + j] - 0.5 * _FAR * _FAR
        near = abs(total[j] - fall) < 1.0 and abs(total[2 * k + j] - fall) < 1.0
        if not near and widths[j * every] > 0.0:
            far_out[j * every], found = 1.0, True
    return found


@vector_loop
def _range(value, least, most):
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


@jit
def _shape(kernel, concave, data, mean, root, hints, eta, out):
    """Whether the integrand may be smooth; its mode, its width, and the least width seen."""
    mode, width, skew = _mode(kernel, data, mean, root, mean, eta, out)
    smooth, narrow = skew < _SKEW, width / math.sqrt(max(1.0, skew))
    if not concave and data[3].size <= _FEW:  # there may be other modes, and narrower ones
        for hint in hints:
            other = _mode(kernel, data, mean, root, hint, eta, out)
            narrow = min(narrow, other[1])
            smooth = smooth and abs(other[0] - mode) < width
    return smooth, mode, width, narrow


@jit
def _finest(kernel, theta, tau, hints, root, eta, out):
    """Spacing of a lattice that sees maxima of a likelihood that is not log-concave."""
    spacing = _NEAR * root
    for place in hints:
        eta[0] = place
        kernel(eta.ctypes, theta.ctypes, 1, 1, 0, 3, out.ctypes)
        curvature = 1.0 / (root * root) - out[2] - tau
        if curvature > 0.0:
            spacing = min(spacing, _NEAR / math.sqrt(curvature))
    return spacing


@jit
def _draw_near(rng, kernel, data, spacing, root, value, uniforms, log_weight, memory, message):
    """Draws whose means are near each other, from one lattice for all; whether that is possible.

    With nodes :math:`x_j = x_0 + j δ` the Gaussian's factor of node j is :math:`a_j b^j`, where a
    is the same for all draws, and b for all nodes. There may be no data at all.
    """
    x, g, eta, out, draws = memory[:5]
    _, scale, known, _, nu, tau = data
    v, half = root * root, 0.5 / (root * root)
    low, high, _ = _range(value, draws[5], draws[6])
    left, middle, pull = 1.0, 0.5 * (low + high), 0.0
    for i in range(nu.size):
        left -= scale[i] * scale[i] * tau[i] * v
        pull += scale[i] * (nu[i] - tau[i] * known[i]) * v
    reach = _WIDE * root / math.sqrt(left)
    start, stop = (low - pull) / left - reach, (high - pull) / left + reach
    for _ in range(_TRIES):
        size = int(min((stop - start) / spacing, 1.0 * _CAPACITY)) + 2
        if size > _CAPACITY:
            return False
        first, last = _near_nodes(
            kernel, data, (start, spacing), size, half, low, high, x, g, eta, out, message
        )
        if first == 0 or last == size - 1:  # the likelihood pulls beyond the cavity's mass
            longer = 0.5 * (stop - start)
            start -= longer if first == 0 else 0.0
            stop += longer if last == size - 1 else 0.0
            continue
        if last - first > _MOST_NODES:
            return False
        worst = 0.0
        for mean in (low, middle, high):
            worst = max(worst, _unevenness(x, g, first, last + 1, half, mean, eta))
        if worst < _UNEVEN:
            break
        spacing *= 0.5
    else:
        return False
    size = last - first + 2
    origin = x[first] - rng.random() * spacing
    _near_nodes(kernel, data, (origin, spacing), size, half, low, high, x, g, eta, out, message)
    farthest = max(high - middle, 1e-3 * root) * (x[size - 1] - x[0])  # power of any node
    if 2.0 * half * farthest > _LARGEST_EXPONENT:
        return False
    top = _exponentials(x, g, 0, size, half, middle, eta)
    constant = top + math.log(spacing / root) - LOG_SQRT_2PI
    draws[0], draws[4] = value, uniforms
    padded = (size + 7) // 8 * 8
    eta[size:padded] = 0.0
    _draw_nodes(draws, eta[:padded], x[:size], middle, 2.0 * half, constant)
    _add(log_weight, draws[5])
    value[:] = draws[6]
    return True


@jit
def _leave_lattice(kernel, data, root, value, memory, message):
    """A Metropolis step from every node that was drawn to anywhere in its cell.

    It leaves the density that was drawn from as it is, and nothing on the lattice. The draws'
    means come in ``memory``.
    """
    x, g, _, out, draws, points, randoms, _, _, _, lanes = memory
    n, mean, new, gain = value.size, points[: value.size], draws[0], draws[1]
    where, chance = randoms[:n], randoms[n:]
    fill_uniforms(lanes, randoms)
    _move(value, x, g, where, new, gain)
    kernel(new.ctypes, data[0][0].ctypes, n, 1, 0, 1, out.ctypes)
    _add_ratios(new, out, data[3][0], data[4][0], data[5][0], n, gain)
    add_message(message, new, 1.0, gain)
    _accept(value, new, mean, gain, chance, 0.5 / (root * root))


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


@jit
def _near_nodes(kernel, data, lattice, size, half, low, high, x, g, eta, out, message):
    """Ratios at the nodes in g, and the first and the last node that matter to any mean."""
    for j in range(size):
        x[j], g[j] = lattice[0] + j * lattice[1], 0.0
    _add_data(kernel, data, x[:size], g, eta, out)
    add_message(message, x[:size], 1.0, g[:size])
    lowest, highest = _highest(x, g, size, half, low), _highest(x, g, size, half, high)
    first, last = 0, size - 1
    while first < last and not g[first] - half * (x[first] - low) ** 2 > lowest - _DROP:
        first += 1
    while last > first and not g[last] - half * (x[last] - high) ** 2 > highest - _DROP:
        last -= 1
    return first - 1 if first else 0, last + 1 if last < size - 1 else last


@jit
def _add_data(kernel, data, x, g, eta, out):
    """What all data say, less their sites, at places."""
    theta, scale, known, c, nu, tau = data
    for i in range(c.size):
        for j in range(x.size):
            eta[j] = known[i] + scale[i] * x[j]
        kernel(eta.ctypes, theta[i].ctypes, x.size, 1, 0, 1, out.ctypes)
        _add_ratios(eta, out, c[i], nu[i], tau[i], x.size, g)


@vector_loop
def _add_ratios(eta, loglik, c, nu, tau, size, g):
    """Log likelihoods less their sites; NaN is no value."""
    for j in range(size):
        value = g[j] + loglik[j] - c - eta[j] * (nu - 0.5 * tau * eta[j])
        g[j] = value if value > _NOTHING else _NOTHING


@vector_loop
def _highest(x, g, size, half, mean):
    """Of the integrand's logarithm at nodes."""
    top = -math.inf
    for j in range(size):
        away = x[j] - mean
        value = g[j] - half * away * away
        top = value if value > top else top
    return top


@vector_loop
def _exponentials(x, g, first, last, half, mean, out):
    """The integrand at nodes, relative to its largest value; the logarithm of that."""
    top = _highest(x[first:last], g[first:last], last - first, half, mean)
    for j in range(first, last):
        away = x[j] - mean
        out[j] = exp(g[j] - half * away * away - top)
    return top


@vector_loop
def _unevenness(x, g, first, last, half, mean, out):
    """By how much every other node may differ from all, in their sums."""
    _exponentials(x, g, first, last, half, mean, out)
    even, odd = 0.0, 0.0
    for j in range(first, last - 1, 2):
        even += out[j]
        odd += out[j + 1]
    even += out[last - 1] if (last - first) % 2 else 0.0
    return abs(even - odd) / (even + odd)


@vector_loop
def _draw_nodes(draws, weights, nodes, middle, precision, constant):
    """Sums over nodes, a node by weight, log of the sum: see :func:`_draw_near`.

    Eight weights at a time stay in registers; their number is a multiple of that, those beyond
    the nodes are zero.
    """
    n, origin, spacing = draws.shape[1], nodes[0], (nodes[-1] - nodes[0]) / (nodes.size - 1)
    base, total, power, left = draws[1], draws[2], draws[3], draws[4]
    log_weight, value = draws[5], draws[6]
    for m in range(n):
        base[m] = exp((draws[0, m] - middle) * precision * spacing)
        total[m] = 0.0
    for j in range(weights.size - 8, -1, -8):
        a, b, c, d, e, f, g, h = _eight(weights[j:])
        for m in range(n):
            total[m] = polynomial(base[m], (total[m], h, g, f, e, d, c, b, a))
    for m in range(n):
        away = draws[0, m] - middle
        log_weight[m] = constant + log(total[m], total[m] - 1.0)
        log_weight[m] += away * precision * (origin - middle - 0.5 * away)
        left[m] *= total[m]
        power[m], value[m] = 1.0, 0.0
    for j in range(0, weights.size, 8):
        some = _eight(weights[j:])  # a draw passes nodes while of its share something is left
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
def draw_ahead(
    rng, kernel, theta, root, value, normals, uniforms, log_weight, memory, message
):  # fmt: skip
    """Draws where there are no data: on a lattice, or of two mirror images one, by weight."""
    nothing, n = np.empty(0), value.size
    data = (theta[:0], nothing, nothing, nothing, nothing, nothing)
    if _draw_near(
        rng, kernel, data, _NEAR * root, root, value, uniforms, log_weight, memory, message
    ):
        return
    both, total = memory[5][: 2 * n], np.zeros(2 * n)
    for m in range(n):
        away = root * normals[m]
        both[m], both[n + m] = value[m] - away, value[m] + away
    add_message(message, both, 1.0, total)
    for m in range(n):
        left, right = math.exp(total[m]), math.exp(total[n + m])
        value[m] = both[m] if uniforms[m] * (left + right) < left else both[n + m]
        log_weight[m] += math.log(0.5 * (left + right))


@vector_loop
def _draw_of_two(draws, both, normals, loglik, site, root):
    """One of two draws, by weight, in row 4 of ``draws``, and log of their mean weight in row 5.

    Means are in row 0, widths in row 2, uniforms in row 4. Where neither has any weight it is the
    mean.
    """
    constant, nu, tau = site
    n, half = both.size // 2, 0.5 / (root * root)
    for m in range(n):
        mean, one, two = draws[0, m], both[m], both[n + m]
        first = loglik[m] - one * (nu - 0.5 * tau * one) - half * (one - mean) * (one - mean)
        second = loglik[n + m] - two * (nu - 0.5 * tau * two) - half * (two - mean) * (two - mean)
        first = first if first > _NOTHING else _NOTHING
        second = second if second > _NOTHING else _NOTHING
        top = first if first > second else second
        ratio = exp((second if first > second else first) - top)
        share = 1.0 if first > second else ratio  # of the first, relative to the larger one
        some = top > _NOTHING
        chosen = one if draws[4, m] * (1.0 + ratio) < share else two
        draws[4, m] = chosen if some else mean
        mass = (0.5 + 0.5 * ratio) * (draws[2, m] / root)
        weight = top + log(mass, mass - 1.0) + 0.5 * normals[m] * normals[m] - constant
        draws[5, m] = weight if some else -math.inf


@jit
def _mode(kernel, data, mean, root, start, eta, out):
    """Near the integrand's maximum, its width there, and its skewness: any will do, good ones do
    best."""
    theta, scale, known, c, nu, tau = data
    precision = 1.0 / (root * root)
    mode = start
    for step in range(_NEWTON + 2):
        if step == _NEWTON:  # Newton's method jumps to and fro between a cliff and a plain
            if c.size > 1:
                break
            v = 1.0 / (precision - tau[0])
            mode = local_maximum(
                kernel, theta[0], start, v * (mean * precision - nu[0]), v, eta, out
            )
        slope, curvature, third = (mean - mode) * precision, -precision, 0.0
        for i in range(c.size):
            a = scale[i]
            eta[0] = known[i] + a * mode
            kernel(eta.ctypes, theta[i].ctypes, 1, 1, 0, 3, out.ctypes)
            slope += a * (out[1] - nu[i] + tau[i] * eta[0])
            curvature += a * a * (out[2] + tau[i])
            third += a * a * a * out[3]
        if not (curvature < 0.0 and abs(slope) < math.inf):
            mode = start
        elif slope * slope < -0.04 * curvature or step > _NEWTON:
            width = 1.0 / math.sqrt(-curvature)
            return mode - slope / curvature, width, abs(third) * width * width * width
        else:
            mode -= slope / curvature
    return start, root, 1.0


@jit
def _falls(kernel, data, low, step, root, table, smooth, x, g, eta, out):
    """Only integrands that fall on both sides as their Gaussians do stay ``smooth``: no cliff is
    near. ``table`` has modes less means, and widths."""
    half = 0.5 / (root * root)
    for i in range(smooth.size):
        for j in range(3):
            away = table[0, i] + (j - 1) * _FAR * table[1, i]
            x[3 * i + j], g[3 * i + j] = low + i * step + away, -half * away * away
    _add_data(kernel, data, x[: 3 * smooth.size], g, eta, out)
    for i in range(smooth.size):
        left, middle, right = g[3 * i], g[3 * i + 1], g[3 * i + 2]
        even, odd = 0.5 * (left + right) - middle, 0.5 * (left - right)
        even_falls = abs(even + 0.5 * _FAR * _FAR) < _OFF
        smooth[i] = smooth[i] and even_falls and abs(odd) < _LEAN


@jit
def _draw_on_lattice(
    rng, kernel, concave, data, mean, root, hints, x, g, eta, out, message
):  # fmt: skip
    """A node of a shifted lattice in proportion to the integrand there, and log of its sum."""
    first, last, log_w = _lattice(
        rng, kernel, concave, data, mean, root, hints, x, g, eta, out, message
    )
    if not log_w > -math.inf:
        return mean, log_w
    return x[_pick(g, first, last, rng.random())], log_w


@jit
def _pick(g, first, last, uniform):
    """A node, from the sums of the integrand up to each of them."""
    chosen, target = first, uniform * g[last - 1]
    while g[chosen] < target and chosen < last - 1:
        chosen += 1
    return chosen


@jit
def _lattice(rng, kernel, concave, data, mean, root, hints, x, g, eta, out, message):
    """Nodes ``first`` to ``last`` in x, sums of the integrand up to each in g, log of its sum."""
    smooth, mode, width, narrow = _shape(kernel, concave, data, mean, root, hints, eta, out)
    if smooth:
        table, falls = np.array([[mode - mean], [width]]), np.ones(1, np.bool_)
        _falls(kernel, data, mean, 0.0, root, table, falls, x, g, eta, out)
        narrow = narrow if falls[0] else min(narrow, _CLIFF * width)
    spacing = _SPACING * narrow
    _, scale, known, _, nu, tau = data
    v = root * root
    pull, drop = 0.0, 0.0
    for i in range(nu.size):
        pull += scale[i] * (nu[i] - tau[i] * known[i])
        drop += scale[i] * scale[i] * tau[i]
    a = 1.0 - drop * v
    cavity, reach = (mean - pull * v) / a, _REACH * root / math.sqrt(a)
    lowest = mode if concave else min(mode, cavity - reach)
    highest = mode if concave else max(mode, cavity + reach)
    shift, half, middle = rng.random(), 0.5 / v, _CAPACITY // 2
    narrow = spacing
    while True:
        lattice = (mode + (shift - middle) * spacing, spacing)
        first, last = middle - _NODES // 2, middle + _NODES // 2
        top = _nodes(kernel, data, mean, half, lattice, first, last, x, g, eta, out)
        while first >= _MORE and (x[first] > lowest or g[first] > top - _DROP):
            new = first - _MORE
            more = _nodes(kernel, data, mean, half, lattice, new, first, x, g, eta, out)
            first, top = new, max(top, more)
        while last <= _CAPACITY - _MORE and (x[last - 1] < highest or g[last - 1] > top - _DROP):
            new = last + _MORE
            more = _nodes(kernel, data, mean, half, lattice, last, new, x, g, eta, out)
            last, top = new, max(top, more)
        if (first >= _MORE and last <= _CAPACITY - _MORE) or not spacing < 1e100:
            break
        spacing *= 2.0
    if not concave and spacing > narrow:  # nodes may pass by a mode
        return first, last, math.nan
    if not _NOTHING < top < math.inf:
        return first, last, -math.inf
    add_message(message, x[first:last], 1.0, g[first:last])
    total = _add_up(g[first:last], top)
    return first, last, top + math.log(total * spacing / root) - LOG_SQRT_2PI


@vector_loop
def _add_up(g, top):
    """Sums of exponentials up to every one of them."""
    for i in range(g.size):
        g[i] = exp(g[i] - top)
    for i in range(1, g.size):
        g[i] += g[i - 1]
    return g[-1]


@jit
def _nodes(kernel, data, mean, half, lattice, first, last, x, g, eta, out):
    """Log of the integrand at nodes ``first`` to ``last`` of a lattice, and its maximum."""
    origin, spacing = lattice
    for i in range(first, last):
        x[i] = origin + i * spacing
        g[i] = -half * (x[i] - mean) ** 2
    _add_data(kernel, data, x[first:last], g[first:last], eta, out)
    top = -math.inf
    for i in range(first, last):
        top = max(top, g[i])
    return top
