r"""Second-order correction to EP (Opper, Paquet and Winther 2013).

.. math:: \log Z \approx \log Z_{EP} + \sum_{l\ge3} \tfrac12 \sum_{m\ne n}
          \frac{c_{l,m} c_{l,n}}{l!} \Big(\frac{\Sigma_{mn}}{\Sigma_{mm}\Sigma_{nn}}\Big)^l

with :math:`c_{l,n}` the l-th cumulant of the n-th tilted distribution; l = 1, 2 vanish at the
fixed point. O(N²) per order.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...numerics.jit import jit
from ..reference import GaussianReference

MAX_ORDER = 8


@jit
def _pair_sums(cov, scale, kappa, out):
    """``out[l] += Σ_{m<n} κ_lm κ_ln ρ_mn^l`` for the rows l = 3 … of ``kappa``."""
    n = scale.size
    for i in range(n):
        for j in range(i):
            rho = cov[i, j] * scale[i] * scale[j]
            power = rho * rho
            for l in range(3, kappa.shape[0]):
                power *= rho
                out[l] += kappa[l, i] * kappa[l, j] * power


def second_order_terms(
    reference: GaussianReference, max_order: int = MAX_ORDER
) -> NDArray[np.float64]:
    """The terms l = 3 … ``max_order`` (their sum is the correction)."""
    model, sites, var = reference.model, reference.sites, reference.var
    v = 1.0 / (1.0 / var - sites.tau)
    m = v * (reference.mean / var - sites.nu)
    cumulants = model.likelihood.tilted_cumulants(model.y, m, v, max_order)
    scale = 1.0 / np.sqrt(var)
    standardised = cumulants * scale ** np.arange(max_order + 1)[:, None]
    sums = np.zeros(max_order + 1)
    _pair_sums(reference.cov, scale, standardised, sums)
    return np.array([sums[l] / math.factorial(l) for l in range(3, max_order + 1)])
