"""What integrals are given, as records that compiled code takes; the memory they work in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...gaussians.base import Sites
from ...numerics.arrays import Array
from ...numerics.jit import Kernel, jit
from ...numerics.normal import LANES

CAPACITY = 2**14  # nodes of a lattice, at most: modes a thousandth as wide as the cavity are met
CELLS = 8  # between means at which modes are found, at most


#: a datum that sees ``known + scale v``, and its site exp(c + νη - τη²/2)
DATUM = np.dtype([(name, float) for name in ("scale", "known", "c", "nu", "tau")])


def data_of(scale: Array, sites: Sites) -> np.recarray[Any, Any]:
    """Records of data, their known parts 0, in the order of ``scale``."""
    data = np.recarray(scale.size, DATUM)
    data.scale, data.known = scale, 0.0
    data.c, data.nu, data.tau = sites
    return data


class Integrand(NamedTuple):
    """N(v; m, s²) times likelihoods over sites times a message; m comes with every draw."""

    kernel: Kernel
    concave: bool
    """Whether the likelihood is log-concave."""
    data: np.recarray[Any, Any]
    """Of type DATUM, (D,)."""
    theta: Array
    """Parameters of the likelihood, shape (D, P)."""
    hints: Array
    """Where a datum's likelihood may be largest, shape (D, K)."""
    root: float
    """s."""
    message: Array


class Draws(NamedTuple):
    """What becomes of n draws, one number each."""

    value: Array
    """Means m at first, then draws v."""
    normals: Array
    uniforms: Array
    log_weight: Array
    """To which the logarithms of integrals are added."""


class Nodes(NamedTuple):
    """Memory for a lattice."""

    x: Array
    """Nodes, (CAPACITY,)."""
    g: Array
    """Logarithms of ratios, or of the integrand, at nodes."""
    eta: Array
    """What data see there."""
    out: Array
    """What kernels say, of all nodes or 3n points: four numbers each."""


class Workspace(NamedTuple):
    """Memory for n draws, and the state of random numbers."""

    nodes: Nodes
    rows: Array
    """Numbers of every draw, (7, n)."""
    points: Array
    """Three places for every draw."""
    randoms: Array
    table: Array
    """Modes less means, widths, and the slopes of the former at means, (3, cells + 1)."""
    pieces: Array
    """What cubics between means add, (3, CELLS)."""
    smooth: Array
    """Whether the integrands at means are, (cells + 1,)."""
    lanes: NDArray[np.uint64]
    """State of random numbers (:func:`~evidence.numerics.normal.lanes_of`)."""


@jit
def workspace(n, lanes):
    cells, lines = min(CELLS, 2 + n // 64), n // (2 * LANES) + 1
    return Workspace(
        Nodes(
            np.empty(CAPACITY), np.empty(CAPACITY), np.empty(CAPACITY),
            np.empty(4 * max(3 * n, CAPACITY)),
        ),
        np.empty((7, n)), np.empty(3 * n), np.empty(4 * lines * LANES), np.empty((3, cells + 1)),
        np.empty((3, CELLS)), np.empty(cells + 1, np.bool_), lanes,
    )  # fmt: skip
