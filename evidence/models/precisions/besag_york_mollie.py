r"""Maps with structure and noise: the Besag-York-Mollié model in the form of Riebler et al.

.. math:: b = \sigma (\sqrt\varphi\, u + \sqrt{1 - \varphi}\, v),\quad v \sim N(0, I)

with a scaled :func:`.icar` u. The 2n latent values (b, u) have the sparse precision

.. math:: \begin{pmatrix} \frac{1}{\sigma^2(1-\varphi)} I &
          -\frac{\sqrt\varphi}{\sigma(1-\varphi)} I \\
          \cdot & R + \frac{\varphi}{1-\varphi} I \end{pmatrix}.

Reference: A. Riebler, S. H. Sørbye, D. Simpson and H. Rue, Statistical Methods in Medical
Research 25 (2016) 1145-1165.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array, hstack, kron

from ...numerics.arrays import Array
from .base import WIDE, Bounds, Combination, Combined, Parameters, selection
from .graph import icar
from .scaled import Scaled


@dataclass(frozen=True, eq=False, repr=False)
class BYM2(Combined):
    """See :func:`bym2`."""

    field: Scaled
    """u, at sigma = 1."""
    parts: Combination
    """I of b, I between b and u, I of u, R of u."""
    sigma: float
    phi: float
    sigma_bounds: Bounds
    phi_bounds: Bounds
    design: csr_array | None = None

    parameters: ClassVar[Parameters] = {"sigma": None, "phi": 0.0}

    def matrix(self) -> csc_array:
        rest = 1.0 - self.phi
        between = -math.sqrt(self.phi) / (self.sigma * rest)
        return self.parts(1.0 / (self.sigma**2 * rest), between, self.phi / rest, 1.0)

    @property
    def null(self) -> Array:
        share = self.sigma * math.sqrt(self.phi)
        both = np.vstack([share * self.field.null, self.field.null])
        return both / math.hypot(share, 1.0)

    @property
    def constraints(self) -> tuple[csr_array, Array] | None:
        if self.field.constraints is None:
            return None
        C, r = self.field.constraints
        return csr_array(hstack([csr_array(C.shape), C])), r

    def __repr__(self) -> str:
        return self._described("bym2", self.field.size)


def bym2(
    graph: object,
    sigma: float = 1.0,
    phi: float = 0.5,
    *,
    n: int | None = None,
    sigma_bounds: Bounds = WIDE,
    phi_bounds: Bounds = (1e-3, 0.999),
) -> BYM2:
    r"""Effects of sites on a map, a share of whose variance is shared with their neighbours.

    Data see the total effect b: ``design`` picks it, the first half of the 2n latent values; the
    second half is the structured part u. The free hyperparameters are ``sigma`` and ``phi``.
    A site without neighbours has :math:`u \sim N(0, 1)`.

    Parameters
    ----------
    graph : sparse matrix, square array, or list of pairs
        As in :func:`.icar`.
    sigma : float
        Standard deviation of a typical effect.
    phi : float
        The structured share of its variance, between 0 and 1.
    n : int, optional
        Sites, where edges are given and the last sites have none.
    sigma_bounds, phi_bounds : pair of float or "fixed"
        Where they are searched for, if at all; those of ``phi`` are between 0 and 1.

    Examples
    --------
    >>> effects = bym2([(0, 1), (1, 2), (2, 3)], sigma=0.5, phi=0.8)
    >>> effects, effects.n, effects.design.shape
    (bym2(4 sites, sigma=0.5, phi=0.8), 8, (4, 8))
    """
    field = icar(graph, n=n)
    one, unit, R = eye_array(field.n), np.eye(2), field.structure
    b, u = np.diag(unit[0]), np.diag(unit[1])
    parts = Combination.of(kron(b, one), kron(unit[::-1], one), kron(u, one), kron(u, R))
    design = selection(np.arange(field.n), 2 * field.n)
    return BYM2(field, parts, sigma, phi, sigma_bounds, phi_bounds, design)
