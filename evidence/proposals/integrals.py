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
from ..numerics.special import LOG_SQRT_2PI, exp, log
from .foresight import add_message

_SKEW = 0.1  # third derivative up to which two draws are enough
_NEAR = 0.6  # spacing of a lattice that draws share, in widths
_SPREAD = 48.0  # spacings between means up to which a lattice is cheap
_WIDE = 8.0  # standard deviations of the cavity where it has nodes
_TRIES, _MOST_NODES = 8, 192  # of its spacing and its reach, and nodes
_UNEVEN = 1e-4  # what every other node may tell differently
_LARGEST_EXPONENT = 600.0
_CELLS = 8  # between means at which modes are found
_NOTHING = -1e300  # the logarithm of zero
_NEWTON = 6  # steps of Newton's method before one that is safe
_SPACING = 0.75  # of the lattice, in widths: the sum over a Gaussian is good to 1e-15
_NODES = 20  # of the lattice at first; it grows where the integrand has not fallen
_FAR, _OFF, _LEAN = 4.0, 0.5, 1.2  # widths at which the logarithm may be off, and lean, by this
_CLIFF = 0.3  # spacing relative to that of smooth integrands
_MORE = 4  # nodes it grows by
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
def scratch(n):
    """Memory for ``n`` draws."""
    cells = min(_CELLS, 1 + n // 256)
    return (
        np.empty(_CAPACITY),
        np.empty(_CAPACITY),
        np.empty(_CAPACITY),
        np.empty(4 * max(3 * n, _CAPACITY)),
        np.empty(n, np.intp),
        np.empty((7, n)),
        np.empty(3 * n),
        np.empty((3, cells + 1)),
        np.empty(cells + 1, np.bool_),
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
    x, g, eta, out, rows, draws, points, table, smooth = memory
    n, cells = value.size, smooth.size - 1
    low, high = _range(value)
    points[:n], spacing = value, _NEAR * root
    if not concave:
        spacing = _finest(kernel, theta, tau, hints, root, eta, out)
    step, all_smooth = max(high - low, 1e-9 * root) / cells, False
    if high - low > _SPREAD * spacing:  # too many nodes, unless there is no other way
        all_smooth = _tabulate(
            kernel, concave, data, low, step, root, hints, x, g, eta, out, table, smooth
        )
    if not all_smooth:
        if _draw_near(rng, kernel, data, spacing, root, value, eps, log_weight, memory, message):
            if leave:
                _leave_lattice(rng, kernel, data, root, value, memory, message)
            for m in range(n):
                eps[m] = (value[m] - points[m]) / root
            return
        _tabulate(kernel, concave, data, low, step, root, hints, x, g, eta, out, table, smooth)
    used = 0
    draws[4] = eps
    if smooth.all() and np.isfinite(value).all():
        _interpolate(table, low, step, value, draws)
        used = n
        for m in range(n):
            rows[m], draws[3, m] = m, rng.standard_normal()
    for m in range(n if used == 0 else 0):
        mean = value[m]
        place = (mean - low) / step
        i = min(int(place), cells - 1) if place >= 0.0 else 0
        if smooth[i] and smooth[i + 1] and place <= cells + 1e-9:
            _interpolate(table[:, i:], low + i * step, step, value[m : m + 1], draws[:, used:])
            rows[used], draws[3, used], draws[4, used] = m, rng.standard_normal(), eps[m]
            used += 1
            continue
        value[m], log_w = _draw_on_lattice(
            rng, kernel, concave, data, mean, root, hints, x, g, eta, out, message
        )
        log_weight[m] += log_w
        eps[m] = (value[m] - mean) / root
    if used:
        both = points[: 2 * used]
        _mirror(draws, both)
        kernel(both.ctypes, theta.ctypes, 2 * used, 1, 0, 1, out.ctypes)
        add_message(message, both, 1.0, out)
        site = (c + math.log(root) + LOG_SQRT_2PI, nu, tau)
        _draw_of_two(draws, both, out, site, 0.5 / (root * root))
        for i in range(used):
            m = rows[i]
            log_weight[m] += draws[5, i]
            eps[m] = (draws[4, i] - value[m]) / root
            value[m] = draws[4, i]


@vector_loop
def _interpolate(table, low, step, means, draws):
    """Means, modes and widths in rows 0 to 2 of ``draws``."""
    last = table.shape[1] - 2.0
    for m in range(means.size):
        place = (means[m] - low) / step
        at = place if place > 0.0 else 0.0
        i = int(at if at < last else last)
        t = place - i
        rise = table[0, i + 1] - table[0, i]
        bow, bend = table[2, i] - rise, rise - table[2, i + 1]
        draws[0, m] = means[m]
        draws[1, m] = table[0, i] + t * rise + t * (1.0 - t) * ((1.0 - t) * bow + t * bend)
        draws[2, m] = table[1, i] + t * (table[1, i + 1] - table[1, i])


@jit
def _tabulate(kernel, concave, data, low, step, root, hints, x, g, eta, out, table, smooth):
    """Modes, widths, and the modes' derivatives at means; whether all integrands are smooth."""
    for i in range(smooth.size):
        smooth[i], table[0, i], table[1, i], _ = _shape(
            kernel, concave, data, low + i * step, root, hints, x, g, eta, out
        )
        table[2, i] = step * (table[1, i] / root) ** 2
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
    x, g, eta, out, _, draws, points, _, _ = memory
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


@jit
def _range(value):
    """The smallest and the largest of numbers that are finite."""
    low, high = math.inf, -math.inf
    for one in value:
        if abs(one) < math.inf:
            low, high = min(low, one), max(high, one)
    return (low, high) if low <= high else (0.0, 0.0)


@jit
def _shape(kernel, concave, data, mean, root, hints, x, g, eta, out):
    """Whether the integrand is smooth; its mode and width, and the spacing of a lattice for it."""
    mode, width, skew = _mode(kernel, data, mean, root, mean, eta, out)
    smooth, narrow = skew < _SKEW, width
    if not concave and data[3].size <= _FEW:  # there may be other modes, and narrower ones
        for hint in hints:
            other = _mode(kernel, data, mean, root, hint, eta, out)
            narrow = min(narrow, other[1])
            smooth = smooth and abs(other[0] - mode) < width
    if smooth and _falls(kernel, data, mean, root, mode, width, x, g, eta, out):
        return True, mode, width, _SPACING * narrow
    spacing = _SPACING * width * (_CLIFF if smooth else 1.0 / math.sqrt(max(1.0, skew)))
    return False, mode, width, min(spacing, _SPACING * narrow)


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
    x, g, eta, out, _, draws, _, _, _ = memory
    _, scale, known, _, nu, tau = data
    v, half = root * root, 0.5 / (root * root)
    low, high = _range(value)
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
    _draw_nodes(draws, eta[:size], origin, spacing, middle, 2.0 * half, constant)
    for m in range(value.size):
        log_weight[m] += draws[5, m]
        value[m] = draws[6, m]
    return True


@jit
def _leave_lattice(rng, kernel, data, root, value, memory, message):
    """A Metropolis step from every node that was drawn to anywhere in its cell.

    It leaves the density that was drawn from as it is, and nothing on the lattice. The draws'
    means come in ``memory``.
    """
    x, g, _, out, _, _, points, _, _ = memory
    n, spacing = value.size, x[1] - x[0]
    mean, new, gain, chance = points[:n], points[n : 2 * n], points[2 * n : 3 * n], out[3 * n :]
    for m in range(n):
        chance[m] = rng.random()
        gain[m] = -g[int((value[m] - x[0]) / spacing + 0.5)]
        new[m] = value[m] + spacing * (rng.random() - 0.5)
    kernel(new.ctypes, data[0][0].ctypes, n, 1, 0, 1, out.ctypes)
    _add_ratios(new, out, data[3][0], data[4][0], data[5][0], n, gain)
    add_message(message, new, 1.0, gain)
    _accept(value, new, mean, gain, chance, 0.5 / (root * root))


@vector_loop
def _accept(value, new, mean, gain, chance, half):
    for m in range(value.size):
        rise = gain[m] - half * (new[m] - value[m]) * (new[m] + value[m] - 2.0 * mean[m])
        value[m] = new[m] if chance[m] < exp(min(rise, 0.0)) else value[m]


@jit
def _near_nodes(kernel, data, lattice, size, half, low, high, x, g, eta, out, message):
    """Ratios at the nodes in g, and the first and the last node that matter to any mean."""
    theta, scale, known, c, nu, tau = data
    for j in range(size):
        x[j], g[j] = lattice[0] + j * lattice[1], 0.0
    for i in range(c.size):
        for j in range(size):
            eta[j] = known[i] + scale[i] * x[j]
        kernel(eta.ctypes, theta[i].ctypes, size, 1, 0, 1, out.ctypes)
        _add_ratios(eta, out, c[i], nu[i], tau[i], size, g)
    add_message(message, x[:size], 1.0, g[:size])
    lowest, highest = _highest(x, g, size, half, low), _highest(x, g, size, half, high)
    first, last = 0, size - 1
    while first < last and not g[first] - half * (x[first] - low) ** 2 > lowest - _DROP:
        first += 1
    while last > first and not g[last] - half * (x[last] - high) ** 2 > highest - _DROP:
        last -= 1
    return first - 1 if first else 0, last + 1 if last < size - 1 else last


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
def _draw_nodes(draws, weights, origin, spacing, middle, precision, constant):
    """Sums over nodes, a node by weight, log of the sum: see :func:`_draw_near`."""
    n = draws.shape[1]
    base, total, power, target = draws[1], draws[2], draws[3], draws[4]
    log_weight, value = draws[5], draws[6]
    for m in range(n):
        base[m] = exp((draws[0, m] - middle) * precision * spacing)
        total[m] = 0.0
    for j in range(weights.size - 1, -1, -1):
        weight = weights[j]
        for m in range(n):
            total[m] = total[m] * base[m] + weight
    for m in range(n):
        away = draws[0, m] - middle
        log_weight[m] = constant + log(total[m], total[m] - 1.0)
        log_weight[m] += away * precision * (origin - middle - 0.5 * away)
        target[m] *= total[m]
        value[m] = origin
        power[m], total[m] = 1.0, 0.0
    for j in range(weights.size - 1):
        weight = weights[j]
        for m in range(n):
            total[m] += weight * power[m]
            power[m] *= base[m]
            value[m] += spacing if total[m] < target[m] else 0.0


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
    both, total = memory[6][: 2 * n], np.zeros(2 * n)
    for m in range(n):
        away = root * normals[m]
        both[m], both[n + m] = value[m] - away, value[m] + away
    add_message(message, both, 1.0, total)
    for m in range(n):
        left, right = math.exp(total[m]), math.exp(total[n + m])
        value[m] = both[m] if uniforms[m] * (left + right) < left else both[n + m]
        log_weight[m] += math.log(0.5 * (left + right))


@vector_loop
def _mirror(draws, both):
    """Two draws of every Gaussian, mirror images of each other."""
    n = both.size // 2
    for m in range(n):
        away = draws[2, m] * draws[3, m]
        both[m], both[n + m] = draws[1, m] - away, draws[1, m] + away


@vector_loop
def _draw_of_two(draws, both, loglik, site, half):
    """One of two draws, by weight, in row 4 of ``draws``, and log of their mean weight in row 5.

    Rows: mean, mode, width, normal, uniform; none of the two where both have no weight at all.
    """
    constant, nu, tau = site
    n = both.size // 2
    for m in range(n):
        mean, one, two = draws[0, m], both[m], both[n + m]
        first = loglik[m] - one * (nu - 0.5 * tau * one) - half * (one - mean) * (one - mean)
        second = loglik[n + m] - two * (nu - 0.5 * tau * two) - half * (two - mean) * (two - mean)
        first = first if first > _NOTHING else _NOTHING
        second = second if second > _NOTHING else _NOTHING
        top = first if first > second else second
        ratio = exp((second if first > second else first) - top)
        share = 1.0 if first > second else ratio  # of the first, relative to the larger one
        normal, width = draws[3, m], draws[2, m]
        some = top > _NOTHING
        chosen = one if draws[4, m] * (1.0 + ratio) < share else two
        draws[4, m] = chosen if some else mean
        weight = top + log(0.5 + 0.5 * ratio, 0.5 * ratio - 0.5) + log(width, width - 1.0)
        weight += 0.5 * normal * normal + LOG_SQRT_2PI - constant
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
def _falls(kernel, data, mean, root, mode, width, x, g, eta, out):
    """Whether the integrand falls on both sides as its Gaussian does: there is no cliff."""
    x[0], x[1], x[2] = mode, mode - _FAR * width, mode + _FAR * width
    _integrand(kernel, data, mean, 0.5 / (root * root), 0, 3, x, g, eta, out)
    even, odd = 0.5 * (g[1] + g[2]) - g[0], 0.5 * (g[1] - g[2])
    return abs(even + 0.5 * _FAR * _FAR) < _OFF and abs(odd) < _LEAN


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
    _, mode, _, spacing = _shape(kernel, concave, data, mean, root, hints, x, g, eta, out)
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
    if not abs(top) < math.inf:
        return first, last, -math.inf
    add_message(message, x[first:last], 1.0, g[first:last])
    total = 0.0
    for i in range(first, last):
        total += math.exp(g[i] - top)
        g[i] = total
    return first, last, top + math.log(total * spacing / root) - LOG_SQRT_2PI


@jit
def _nodes(kernel, data, mean, half, lattice, first, last, x, g, eta, out):
    """The integrand at nodes ``first`` to ``last`` of a lattice."""
    origin, spacing = lattice
    for i in range(first, last):
        x[i] = origin + i * spacing
    return _integrand(kernel, data, mean, half, first, last, x, g, eta, out)


@jit
def _integrand(kernel, data, mean, half, first, last, x, g, eta, out):
    """Log of the integrand at nodes ``first`` to ``last``, and its maximum."""
    theta, scale, known, c, nu, tau = data
    for i in range(first, last):
        away = x[i] - mean
        g[i] = -half * away * away
    for d in range(c.size):
        for i in range(first, last):
            eta[i] = known[d] + scale[d] * x[i]
        kernel(eta[first:].ctypes, theta[d].ctypes, last - first, 1, 0, 1, out.ctypes)
        for i in range(first, last):
            g[i] += out[i - first] - c[d] - eta[i] * (nu[d] - 0.5 * tau[d] * eta[i])
    top = -math.inf
    for i in range(first, last):
        if math.isnan(g[i]):
            g[i] = -math.inf
        top = max(top, g[i])
    return top
