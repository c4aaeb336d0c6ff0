r"""A guide that learns from its own weights where its Gaussian is wrong.

Weights of guided draws (:mod:`.guide`) are uneven mostly because the posterior is
wider or narrower than its Gaussian along the few directions in which it is wide. Take those,
:math:`s = D^T(x - μ)` with :math:`s \sim N(0, I)` under q, fit

.. math:: \log w \approx \text{const} + \sum_i \big(b_i s_i - \tfrac12 a_i s_i^2\big)
          =: \text{const} + \log h(s)

to the weights of a first batch, and let :math:`q' \propto q\,h` be the guide's Gaussian: along
:math:`D_i` its variance becomes :math:`v_i = 1/(1 + a_i)` and its mean :math:`v_i b_i`,

.. math:: Σ' = Σ - G\,(I - V)\,G^T, \qquad μ' = μ + G V b, \qquad G = Σ D ,

and Z grows by :math:`E_q[h] = \prod_i v_i^{1/2} \exp(\tfrac12 v_i b_i^2)`. Draws are made as
before, likelihoods exactly and sites divided out, and at the end so is :math:`h`: unbiased,
whatever has been learnt. On the way they are not resampled: weights that h is still a part of say
wrongly which draws are worth more. Where the posterior falls more slowly than its Gaussian weights
have no variance (v > 2); h widens it, and what counts for that is the fit in the tail.

Reference: E. L. Ionides, J. Comput. Graph. Stat. 17 (2008) 295 (truncated weights).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..gaussians.base import Conditionals, NotPositiveDefinite
from ..messages import InputError
from ..numerics.arrays import Array
from .guide import CannotGuide, Guide, Twist


def twisted(
    guide: Guide, drawn: Array, log_weight: Array, parts: tuple[float, ...] = (1.0, 0.9, 0.7, 0.4)
) -> Guide:
    """The guide with what its draws (N, n), in the model's order, say about it; O(N³).

    Of log h it takes the first of these ``parts`` that leaves a distribution without one of the
    sites. Raises :class:`CannotGuide` where nothing can be learnt.
    """
    if guide.twist is not None:
        raise InputError("a guide learns once")
    w, effective = truncated(log_weight)
    q = guide.gaussian
    size = directions_of(q.order.size, effective)
    if size == 0:
        raise CannotGuide(f"{effective:.0f} effective draws are too few to learn from")
    directions = _wide_directions(q, size)
    s = directions.T @ (drawn[q.order] - q.mean[:, None])
    slope, curvature = fit(s, log_weight, w)
    onto = q.times(directions)
    for part in parts:
        b, a = part * slope, part * curvature
        v = 1.0 / (1.0 + a)
        try:
            learnt = q.less(onto @ (v * b), onto, 1.0 - v)
            sd = learnt.sd
        except NotPositiveDefinite:
            continue
        if np.min(1.0 - guide.sites.tau * sd**2) > 0.0:
            log_h = 0.5 * float(np.sum(np.log(v) + v * b**2))
            twist = Twist(directions, q.mean, b, a)
            return replace(guide, gaussian=learnt, twist=twist, log_z0=guide.log_z0 + log_h)
    raise CannotGuide("what was learnt leaves no distribution without one of the sites")


def directions_of(n: int, effective: float, most: int = 16, each: float = 16.0) -> int:
    """How many of n directions draws tell of, if ``each`` takes so many effective ones; no more
    than ``most``, and none where ``effective`` is NaN."""
    return min(most, n, int(effective / each)) if effective >= each else 0


def truncated(log_weight: Array) -> tuple[Array, float]:
    """Weights of which none is so large that a single draw teaches, and what they are worth."""
    w = np.exp(log_weight - log_weight.max())
    w = np.minimum(w, math.sqrt(w.size) * w.mean())
    return w, float(w.sum() ** 2 / (w @ w))


def _wide_directions(q: Conditionals, size: int, rounds: int = 4, spare: int = 8) -> Array:
    """D: near the leading eigenvectors of Σ, scaled such that DᵀΣD = I, by ``rounds`` of iteration
    of a subspace that has some ``spare`` dimensions."""
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((q.mean.size, min(size + spare, q.mean.size)))
    for _ in range(rounds):
        basis, _ = np.linalg.qr(q.times(basis))
    variances, rotation = np.linalg.eigh(basis.T @ q.times(basis))
    return basis @ rotation[:, ::-1][:, :size] / np.sqrt(variances[::-1][:size])


def fit(
    s: Array, log_weight: Array, w: Array, below: float = 0.1, rounds: int = 10,
    widest: float = 64.0,
) -> tuple[Array, Array]:  # fmt: skip
    """b and a by least squares under the weights: it is the posterior that h must describe.

    Where draws weigh less than h says they do no harm, where they weigh more they make heavy
    tails: beyond ``below`` the former count linearly (one-sided Huber, by ``rounds`` of
    reweighting). No v = 1/(1 + a) is above ``widest``.
    """
    seen = w > 0.0
    w, log_weight = w[seen], log_weight[seen]
    features = np.vstack([np.ones(s.shape[1]), s, -0.5 * s**2])[:, seen]
    root = np.sqrt(w)
    for _ in range(rounds):
        found = np.linalg.lstsq((features * root).T, log_weight * root, rcond=None)[0]
        residual = log_weight - found @ features
        root = np.sqrt(w * np.minimum(1.0, below / np.maximum(-residual, below)))
    _, slope, curvature = np.split(found, [1, 1 + len(s)])
    return slope, np.maximum(curvature, 1.0 / widest - 1.0)
