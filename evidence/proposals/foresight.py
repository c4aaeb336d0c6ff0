r"""What data to come say of a latent value beyond their sites, where latent values form a tree.

In steps :math:`u_k` is drawn given one value before it, its parent p. What has not been drawn by
then is summed up, beyond what the reference's sites say of it, by messages from the leaves on,

.. math:: m_k(u_p) = \int q(u_k|u_p) \prod_{i\ \text{owned}} \frac{p(y_i|\eta_i)}{t_i(\eta_i)}
          \prod_{c\ \text{child of}\ k} m_c(u_k)\, du_k ,

so that draws in proportion to :math:`r_k \prod_c m_c` have weights that hardly vary. The logarithm
of a message is a table in standardised u_p, constant far out: any function leaves estimates
unbiased, and with this one next to nothing is left of their variance.

It draws nothing: :mod:`.steps` does.

Reference: J. Heng, A. N. Bishop, G. Deligiannidis and A. Doucet, Ann. Statist. 48 (2020) 2904
(controlled sequential Monte Carlo, which learns such functions from draws).
"""

from __future__ import annotations

import math

import numpy as np

from ..numerics.jit import jit, vector_loop
from ..numerics.special import exp

_REACH, _PER_SD = 8.0, 2.0  # standard deviations that a table has, and its places in each
_PLACES = np.arange(-_REACH, _REACH + 0.5 / _PER_SD, 1.0 / _PER_SD)
WIDTH = 2 + _PLACES.size
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@vector_loop
def add_message(message, points, sign, out):
    """``out += sign · log m(points)``; ``message`` is an origin, a scale and a table, or nothing.

    Cubics through four places; constant beyond the table.
    """
    if message.size == 0:
        return
    origin, scale, table = message[0], message[1] * _PER_SD, message[2:]
    last = table.size - 1.0
    for m in range(points.size):
        at = (points[m] - origin) * scale + _REACH * _PER_SD
        at = at if at > 0.0 else 0.0
        at = at if at < last else last
        i = min(max(int(at), 1), table.size - 3)
        t = at - i
        outer = t * (t * t - 1.0) * table[i + 2] - t * (t - 1.0) * (t - 2.0) * table[i - 1]
        inner = (t * t - 1.0) * (t - 2.0) * table[i] - (t + 1.0) * t * (t - 2.0) * table[i + 1]
        out[m] += sign * (outer / 6.0 + inner / 2.0)


@jit
def foresee(kernel, steps, owned, sites, theta, messages):
    """Fill ``messages`` (n, WIDTH): the product of those from the children of every latent value,
    which is taken as a deviation from its mean."""
    indptr, indices, weights, sds = steps
    first, scale, base = owned
    c, nu, tau = sites
    points = _PLACES.size * _NODES.size
    v, eta, total, out = np.empty(points), np.empty(points), np.empty(points), np.empty(4 * points)
    message, sd = np.empty(_PLACES.size), sds.copy()
    for k in range(sd.size):  # of q's margins
        for p in range(indptr[k], indptr[k + 1]):
            sd[k] = math.hypot(sds[k], weights[p] * sd[indices[p]])
    for k in range(sd.size - 1, -1, -1):
        messages[k, 0], messages[k, 1] = 0.0, 1.0 / sd[k]
        if indptr[k] == indptr[k + 1]:
            continue
        parent = indices[indptr[k]]
        slope = weights[indptr[k]] * sd[parent]
        for a in range(_PLACES.size):
            for b in range(_NODES.size):
                v[a * _NODES.size + b] = slope * _PLACES[a] + sds[k] * _NODES[b]
        total[:] = 0.0
        for i in range(first[k], first[k + 1]):
            for j in range(points):
                eta[j] = base[i] + scale[i] * v[j]
            kernel(eta.ctypes, theta[i].ctypes, points, 1, 0, 1, out.ctypes)
            for j in range(points):
                total[j] += out[j] - c[i] - eta[j] * (nu[i] - 0.5 * tau[i] * eta[j])
        add_message(messages[k], v, 1.0, total)
        _average(total, message)
        for a in range(_PLACES.size):
            messages[parent, 2 + a] += message[a]


@vector_loop
def _average(total, message):
    """Logarithms of averages of exponentials, over nodes."""
    least = -300.0  # logarithm of a ratio that is not smaller
    for j in range(total.size):
        value = total[j] if total[j] > least else least
        total[j] = exp(value)
    for a in range(message.size):
        mean = 0.0
        for b in range(_NODES.size):
            mean += _WEIGHTS[b] * total[a * _NODES.size + b]
        message[a] = math.log(mean)
