r"""Second-order correction to EP (Opper, Paquet and Winther 2013).

.. math:: \log Z \approx \log Z_{EP} + \sum_{l\ge3} \tfrac12 \sum_{m\ne n}
          \frac{c_{l,m} c_{l,n}}{l!} \Big(\frac{\Sigma_{mn}}{\Sigma_{mm}\Sigma_{nn}}\Big)^l

with :math:`c_{l,n}` the l-th cumulant of the n-th tilted distribution; l = 1, 2 vanish at the
fixed point. O(N²) per order.
"""

from __future__ import annotations

import math

import numpy as np

from ...execution.clock import check_interrupt
from ...gaussians.base import Gaussian
from ...models.latent import LatentModel
from ...numerics.arrays import Array


def second_order_terms(
    model: LatentModel, gaussian: Gaussian, max_order: int = 8, *, affordable: float = 2e4
) -> tuple[Array, float]:
    """The terms l = 3 … ``max_order`` (their sum is the correction), for EP's ``gaussian``, and
    the standard error of their sum where pairs are too many for all of them.

    ``affordable``: operations for the cumulants of a tilted distribution.
    """
    var = gaussian.variances
    check_interrupt(affordable * var.size)
    v = 1.0 / (1.0 / var - gaussian.tau)
    m = v * (gaussian.mean / var - gaussian.nu)
    cumulants = model.likelihood.tilted_cumulants(model.y, m, v, max_order)
    scale = 1.0 / np.sqrt(var)
    kappa = cumulants * scale ** np.arange(max_order + 1)[:, None]
    orders = range(3, max_order + 1)
    weights = np.array([1.0 / math.factorial(l) for l in orders])
    terms = weights * gaussian.pair_sums(kappa)[3:]
    return terms, float(np.linalg.norm(weights * gaussian.pair_errors(kappa)[3:]))
