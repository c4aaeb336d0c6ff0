"""An integrand's logarithm at many places; its mode, its width, and whether it is near a Gaussian.

The factor N(v; m, s²) is left out of ratios: it is the only one that knows the mean.
"""

from __future__ import annotations

import math

from ...models.likelihoods.quadrature import local_maximum
from ...numerics.jit import jit, vector_loop
from ...numerics.special import exp

NOTHING = -1e300  # the logarithm of zero
FEW = 32  # data up to which two modes are looked for
FAR = 4.0  # widths at which the logarithm is compared with a Gaussian's,


@jit
def add_data(f, x, g, nodes):
    """Add what all data say, less their sites, at places x."""
    eta, out = nodes.eta, nodes.out
    for i in range(f.data.size):
        datum = f.data[i]
        for j in range(x.size):
            eta[j] = datum.known + datum.scale * x[j]
        f.kernel(eta.ctypes, f.theta[i].ctypes, x.size, 1, 0, 1, out.ctypes)
        add_ratios(eta, out, datum.c, datum.nu, datum.tau, x.size, g)


@vector_loop
def add_ratios(eta, loglik, c, nu, tau, size, g):
    """Log likelihoods less their sites; NaN is no value."""
    for j in range(size):
        value = g[j] + loglik[j] - c - eta[j] * (nu - 0.5 * tau * eta[j])
        g[j] = value if value > NOTHING else NOTHING


@vector_loop
def add_tilts(eta, loglik, c, nu, tau, total):
    """The same, whatever the value."""
    for m in range(total.size):
        total[m] += loglik[m] - c - eta[m] * (nu - 0.5 * tau * eta[m])


@vector_loop
def highest(x, g, size, half, mean):
    """Of the integrand's logarithm at nodes; ``half`` is 1/2s²."""
    top = -math.inf
    for j in range(size):
        away = x[j] - mean
        value = g[j] - half * away * away
        top = value if value > top else top
    return top


@vector_loop
def exponentials(x, g, first, last, half, mean, out):
    """The integrand at nodes, relative to its largest value; the logarithm of that."""
    top = highest(x[first:last], g[first:last], last - first, half, mean)
    for j in range(first, last):
        away = x[j] - mean
        out[j] = exp(g[j] - half * away * away - top)
    return top


@jit
def shape(f, mean, nodes):
    """Whether the integrand may be smooth; its mode, its width, and the least width seen."""
    small_skew = 0.1  # third derivative up to which two draws are enough
    top, width, skew = _mode(f, mean, mean, nodes)
    smooth, narrow = skew < small_skew, width / math.sqrt(max(1.0, skew))
    if not f.concave and f.data.size <= FEW:  # there may be other modes, and narrower ones
        for i in range(f.data.size):
            for hint in f.hints[i]:
                start = (hint - f.data[i].known) / f.data[i].scale
                other = _mode(f, mean, start, nodes)
                narrow = min(narrow, other[1])
                smooth = smooth and abs(other[0] - top) < width
    return smooth, top, width, narrow


@jit
def _mode(f, mean, start, nodes):
    """Near the integrand's maximum, its width there, and its skewness: any will do, good ones do
    best."""
    newton = 6  # steps of Newton's method before one that is safe
    data, eta, out = f.data, nodes.eta, nodes.out
    precision = 1.0 / (f.root * f.root)
    mode = start
    for step in range(newton + 2):
        if step == newton:  # Newton's method jumps to and fro between a cliff and a plain
            if data.size > 1:
                break
            v = 1.0 / (precision - data[0].tau)
            at = v * (mean * precision - data[0].nu)
            mode = local_maximum(f.kernel, f.theta[0], start, at, v, eta, out)
        slope, curvature, third = (mean - mode) * precision, -precision, 0.0
        for i in range(data.size):
            datum, a = data[i], data[i].scale
            eta[0] = datum.known + a * mode
            f.kernel(eta.ctypes, f.theta[i].ctypes, 1, 1, 0, 3, out.ctypes)
            slope += a * (out[1] - datum.nu + datum.tau * eta[0])
            curvature += a * a * (out[2] + datum.tau)
            third += a * a * a * out[3]
        if not (curvature < 0.0 and abs(slope) < math.inf):
            mode = start
        elif slope * slope < -0.04 * curvature or step > newton:
            width = 1.0 / math.sqrt(-curvature)
            return mode - slope / curvature, width, abs(third) * width * width * width
        else:
            mode -= slope / curvature
    return start, f.root, 1.0


@jit
def falls(f, low, step, table, smooth, nodes):
    """Only integrands that fall on both sides as their Gaussians do stay ``smooth``: no cliff is
    near. ``table`` has modes less means, and widths, of means ``step`` apart from ``low`` on."""
    off = 0.5  # by which it may be off
    lean = 1.2  # by which it may lean
    x, g, half = nodes.x, nodes.g, 0.5 / (f.root * f.root)
    for i in range(smooth.size):
        for j in range(3):
            away = table[0, i] + (j - 1) * FAR * table[1, i]
            x[3 * i + j], g[3 * i + j] = low + i * step + away, -half * away * away
    add_data(f, x[: 3 * smooth.size], g, nodes)
    for i in range(smooth.size):
        left, middle, right = g[3 * i], g[3 * i + 1], g[3 * i + 2]
        even, odd = 0.5 * (left + right) - middle, 0.5 * (left - right)
        even_falls = abs(even + 0.5 * FAR * FAR) < off
        smooth[i] = smooth[i] and even_falls and abs(odd) < lean
