"""The inverse of a sparse matrix on the pattern of its Cholesky factor.

From the root down, for columns J of a supernode and its rows R below, with Y = L_RJ L_JJ⁻¹,

    Z_RJ = -Z_RR Y,      Z_JJ = (L_JJ L_JJᵀ)⁻¹ - Yᵀ Z_RJ;

all entries of Z_RR are on the pattern, in the panels of ancestors.

References: K. Takahashi, J. Fagan and M.-S. Chin (1973); A. M. Erisman and W. F. Tinney,
Communications of the ACM 18 (1975) 177.
"""

from __future__ import annotations

from ..jit import vector_loop
from . import blas
from .supernodes import ancestor, panel


@vector_loop
def invert(panels, chosen, x, z, work, ratio, s):
    """Fill ``z``, zero before, from the factor ``x``, for the supernodes ``chosen``."""
    base, inverse = x.ctypes.data, z.ctypes.data
    for p in chosen[::-1]:
        at, _, rows, columns, below = panel(panels, p)
        r = below.size
        if columns == 1:
            d = 1.0 / x[at]
            for i in range(r):
                ratio[i] = d * x[at + 1 + i]
        for q in range(panels.links[p], panels.links[p + 1]):
            k0, k1, a, place, ld = ancestor(panels, p, q, r)
            for k in range(k0, k1):
                source = panels.offsets[a] + place[k - k0] * ld
                if columns == 1:
                    total, y = z[source + place[k - k0]] * ratio[k], ratio[k]
                    for i in range(k + 1, r):
                        v = z[source + place[i - k0]]
                        total += v * ratio[i]
                        z[at + 1 + i] -= v * y
                    z[at + 1 + k] -= total
                else:
                    for i in range(k, r):
                        work[k * r + i] = z[source + place[i - k0]]
        if columns == 1:
            total = d * d
            for i in range(r):
                total -= ratio[i] * z[at + 1 + i]
            z[at] = total
            continue
        a, out, y = base + 8 * at, inverse + 8 * at, ratio.ctypes.data
        for j in range(columns):
            for i in range(j, columns):
                z[at + j * rows + i] = x[at + j * rows + i]
            for i in range(r):
                ratio[j * r + i] = x[at + j * rows + columns + i]
        blas.potri(columns, out, rows, s)
        if r > 0:
            here = out + 8 * columns
            blas.trsm_right(False, r, columns, a, rows, y, r, s)
            blas.minus_symm(r, columns, work.ctypes.data, r, y, r, here, rows, s)
            blas.gemm(True, False, columns, columns, r, -1.0, y, r, here, rows, 1.0, out, rows, s)
