r"""Walks from weighted draws, which tell what lies beyond the reach of a proposal.

Weights of draws say nothing of where there are none, such as the far end of a banana. Half of the
steps have the shape of a Gaussian of the proposal, which a walker at y chooses by its
responsibility :math:`r_k(y)`: along a bent valley they point where it leads,

.. math:: y' = y + \frac{2.38}{\sqrt d} \Sigma_k^{1/2} \epsilon, \qquad
          \alpha = \min\Big(1, \frac{p(y')\, r_k(y')}{p(y)\, r_k(y)}\Big).

Others are differences between such draws [1]_, or stretch a walker's difference from one of them
up to 150 times [2]_, as a whole or along one coordinate: from a narrow core into a slab around
it, or to a child's other mode, however narrow its scale is there,

.. math:: y' = a \pm e^u (y - a), \qquad \alpha = \min\Big(1, e^{du} \frac{p(y')}{p(y)}\Big).

References
----------
.. [1] C. J. F. ter Braak, Statistics and Computing 16 (2006) 239 (differential evolution).
.. [2] J. Goodman and J. Weare, Comm. Appl. Math. Comp. Sci. 5 (2010) 65.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...models.density.functions import far_out
from ...numerics.arrays import Array
from .blend import Blend, half_square


def walk(
    log_prob: Callable[[Array], Array], start: tuple[Array, Array], archive: Array, blend: Blend,
    rng: np.random.Generator, steps: int, scale: float = 1.0, jumps: int = 10,
) -> tuple[Array, Array, float]:  # fmt: skip
    """Walkers from points of some log p, by Gaussians of a blend and points of an archive.

    One in so many steps as ``jumps`` says is a whole difference of the archive, between modes,
    and three stretch; the others are ``scale`` times as long as suits a normal density.
    Points (steps, M, d) and their log p after every step, and the rate at which steps by
    Gaussians are accepted.
    """
    (at, value), gamma, accepted = start, scale * 2.38 / np.sqrt(start[0].shape[1]), 0.0
    seen, values = [], []
    for k in range(steps):
        if k % 2:
            new, log_ratio = _shaped(blend, at, gamma, rng)
        elif k % jumps in (4, 6, 8):
            new, log_ratio = _stretched(blend, at, archive, rng, whole=k % jumps == 4)
        else:
            one, other = rng.integers(len(archive), size=(2, len(at)))
            far = 1.0 if k % jumps == 0 else gamma / np.sqrt(2.0)
            new, log_ratio = at + far * (archive[one] - archive[other]), np.zeros(len(at))
        new_value = far_out(log_prob, new)
        with np.errstate(invalid="ignore"):
            go = np.log(rng.random(len(at))) < new_value - value + log_ratio
        at, value = np.where(go[:, None], new, at), np.where(go, new_value, value)
        accepted += float(go.mean()) / max(steps // 2, 1) if k % 2 else 0.0
        seen.append(at)
        values.append(value)
    return np.array(seen), np.array(values), accepted


def _stretched(
    blend: Blend, z: Array, archive: Array, rng: np.random.Generator, whole: bool,
    far: float = 5.0, farthest: float = 1e6,
) -> tuple[Array, Array]:  # fmt: skip
    """Every walker's difference from a point of the archive, or one of the model's coordinates of
    it, times e^u or -e^u, u uniform up to ``far``; and the logs of what volumes grow by. None goes
    beyond ``farthest`` prior deviations, where log N(z; 0, I) is rounded."""
    fixed, u = archive[rng.integers(len(archive), size=len(z))], rng.uniform(-far, far, len(z))
    step = (rng.choice([-1.0, 1.0], len(z)) * np.exp(u) - 1.0)[:, None] * (z - fixed)
    if not whole:
        assert blend.model.prior is not None
        chol, at = blend.model.prior.chol, rng.integers(z.shape[1], size=len(z))
        step = np.einsum("mi,mi->m", chol[at], step)[:, None] * np.linalg.inv(chol).T[at]
    near = np.linalg.norm(z + step, axis=1) < farthest
    return z + step, np.where(near, u * (z.shape[1] if whole else 1), -np.inf)


def _shaped(blend: Blend, z: Array, wide: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """A step of every walker in the chart, and what its acceptance owes to it: the ratio of
    responsibilities, and of the volumes of chart and coordinates. Steps out of the chart fail."""
    chart, rows = blend.chart, np.arange(len(z))
    y = chart.inward(z)
    before = blend.log_parts(y)
    kind = (before + rng.gumbel(size=before.shape)).argmax(axis=1)
    step = np.einsum("mij,mj->mi", blend.roots[kind], rng.standard_normal(y.shape))
    there = y + wide * step
    new = chart.outward(there, rng)
    log_ratio = blend.log_parts(there)[rows, kind] - before[rows, kind]
    log_ratio += half_square(new) - half_square(there) - half_square(z) + half_square(y)
    inside = np.isclose(chart.inward(new), there).all(axis=1)
    return new, np.where(inside, log_ratio, -np.inf)
