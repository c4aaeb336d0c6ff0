r"""Matérn fields on a regular grid: stochastic partial differential equations on a lattice.

The field :math:`(\kappa^2 - \Delta)^{\alpha/2} x = W` has a Matérn covariance with
:math:`\nu = \alpha - d/2` and, for integer α, a sparse precision. On a grid -Δ becomes the graph
Laplacian L of neighbouring cells, free at the edges, and with :math:`k = \kappa h`

.. math:: Q = \frac{v_\alpha(k)}{\sigma^2} (k^2 I + L)^\alpha, \quad
          v_\alpha(k) = \int_{[-\pi,\pi]^d}
          \Big(k^2 + \sum_i 2 - 2\cos\omega_i\Big)^{-\alpha} \frac{d\omega}{(2\pi)^d},

so that σ is the standard deviation on a grid without edges, exactly, however coarse it is.

Reference: F. Lindgren, H. Rue and J. Lindström, An explicit link between Gaussian fields and
Gaussian Markov random fields, J. R. Statist. Soc. B 73 (2011) 423-498.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array, eye_array, kronsum, sparray

from ...execution.arguments import check_count, check_memory, number, shown
from ...messages import InputError
from ...numerics.arrays import Array
from .base import WIDE, Bounds, Combination, Combined, Parameters, selection


@dataclass(frozen=True, eq=False, repr=False)
class MaternGrid(Combined):
    """See :func:`matern_grid`."""

    parts: Combination
    """I, L, …, L^α on the grid with its margin."""
    shape: tuple[int, ...]
    nu: float
    spacing: float
    range: float
    sigma: float
    range_bounds: Bounds
    sigma_bounds: Bounds
    design: csr_array | None = None

    parameters: ClassVar[Parameters] = {"range": None, "sigma": None}

    def matrix(self) -> csc_array:
        alpha = round(self.nu + len(self.shape) / 2)
        k = math.sqrt(8.0 * self.nu) * self.spacing / self.range
        scale = _variance(k, alpha, len(self.shape)) / self.sigma**2
        binomial = (math.comb(alpha, j) * k ** (2 * (alpha - j)) for j in range(alpha + 1))
        return self.parts(*(scale * b for b in binomial))

    def __repr__(self) -> str:
        cells = " x ".join(map(str, self.shape))
        return self._described("matern_grid", cells, f"nu={self.nu:g}")


def _variance(k: float, alpha: int, d: int) -> float:
    """v_α(k): along the last axis in closed form, along others by the trapezoidal rule."""
    a: Array = np.array(2.0 + k * k)
    excess = np.array(k * k)  # a - 2, without cancellation
    if d > 1:
        points = math.ceil(40.0 / min(k, 1.0))  # the error is about exp(-k · points)
        w = 4.0 * np.sin(np.pi * np.arange(points) / points) ** 2
        excess = k * k + reduce(np.add.outer, [w] * (d - 1))
        a = 2.0 + excess
    b = excess * (a + 2.0)  # a² - 4
    forms = {1: b**-0.5, 2: a * b**-1.5, 3: (a * a + 2.0) * b**-2.5}
    return float(np.mean(forms[alpha]))


def matern_grid(
    shape: int | Sequence[int],
    range: float,
    sigma: float = 1.0,
    nu: float = 1.0,
    spacing: float = 1.0,
    margin: int | None = None,
    *,
    range_bounds: Bounds = WIDE,
    sigma_bounds: Bounds = WIDE,
) -> MaternGrid:
    r"""A Matérn field on a regular grid in one or two dimensions, by its sparse precision.

    At the edges of a grid a free field varies more: twice the variance in one dimension, four
    times in a corner. Therefore the grid is wider than ``shape`` by a margin that data do not
    see: ``design`` picks the inside, row by row. With a margin of one range (the default, at the
    ``range`` given here) the standard deviation is within two percent of ``sigma`` inside; the
    margin stays as wide when the range is learnt. Correlations are those of the lattice: at nine
    cells per range within 0.035 of the Matérn kernel's for nu = 1, finer grids come closer.

    Parameters
    ----------
    shape : int or sequence of int
        Cells along each axis.
    range : float
        Distance at which the correlation has fallen to about 0.14, √(8ν)/κ; for a length scale l
        of scikit-learn's Matern kernel, 2 l.
    sigma : float
        Standard deviation of each value.
    nu : float
        Smoothness: 1 or 2 in two dimensions, 1/2, 3/2 or 5/2 in one.
    spacing : float
        Distance of neighbouring cells, in the units of ``range``.
    margin : int, optional
        Cells added at every edge.
    range_bounds, sigma_bounds : pair of float or "fixed"
        Where they are searched for, if at all.

    Examples
    --------
    >>> field = matern_grid((30, 40), range=8.0, margin=5)
    >>> field, field.n, field.design.shape
    (matern_grid(30 x 40, nu=1, range=8, sigma=1), 2000, (1200, 2000))
    """
    cells = _shape(shape)
    d = len(cells)
    alpha = number("nu", nu, above=0.0) + d / 2
    if alpha not in (1.0, 2.0, 3.0):
        fits = ", ".join(f"{a - d / 2:g}" for a in (1, 2, 3) if a > d / 2)
        raise InputError(
            f"nu + d/2 must be 1, 2 or 3: nu may be {fits} in {d} dimension{'s' * (d > 1)}, "
            f"got {shown(nu)}"
        )
    number("range", range, above=0.0)
    number("spacing", spacing, above=0.0)
    check_count("margin", margin, least=0)
    edge = math.ceil(min(range / spacing, 1e15)) if margin is None else margin
    wide = [size + 2 * edge for size in cells]
    least = 10 * math.prod(size + 2 * (margin or 0) for size in cells)
    check_memory("shape", shape, least)
    check_memory("range", range, 10, *wide)
    first, *others = map(_path, wide)
    laplacian: sparray = reduce(lambda done, path: kronsum(path, done), others, first)
    powers = [eye_array(math.prod(wide)), laplacian]
    powers += [laplacian @ laplacian] if alpha > 1 else []
    powers += [powers[-1] @ laplacian] if alpha > 2 else []
    inside = np.arange(math.prod(wide)).reshape(wide)[(slice(edge, -edge or None),) * d]
    design = selection(inside.ravel(), math.prod(wide)) if edge else None
    bounds, parts = (range_bounds, sigma_bounds), Combination.of(*powers)
    return MaternGrid(parts, cells, float(nu), spacing, range, sigma, *bounds, design)


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(np.atleast_1d(np.asarray(shape)).tolist())
    if len(sizes) not in (1, 2):
        raise InputError(f"shape must be one or two numbers of cells, got {shape!r:.60}")
    for size in sizes:
        check_count("shape", size, optional=False)
    return sizes


def _path(n: int) -> sparray:
    """The Laplacian of n cells in a row."""
    degrees = np.full(n, 2.0)
    degrees[[0, -1]] -= 1.0
    diagonals = [*[-np.ones(n - 1)] * 2, degrees if n > 1 else np.zeros(1)]
    return diags_array(diagonals, offsets=(-1, 1, 0), shape=(n, n))
