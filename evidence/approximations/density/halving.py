r"""Prior mass halved again and again, by draws: how a search that knows nothing finds the mass.

Above a level :math:`L^*` of the likelihood lies the part :math:`X(L^*)` of the prior, and

.. math:: Z = \int_0^1 L(X)\, dX .

Each level is the highest above which the cloud has effective draws enough; Gaussians learn from
these, and draws of them, wherever they fall, add to the cloud (:mod:`.cloud`): no draw is rejected
and every one has its weight, so a level costs a few hundred evaluations in seven dimensions, where
moves within :math:`L > L^*` take some forty for every point. Unlike tempering it passes phase
transitions: a narrow peak on broad ground is followed from the first draw that falls on it,
however little of the posterior it holds by then.

References: J. Skilling, Bayesian Analysis 1 (2006) 833; F. Feroz et al., Open Journal of
Astrophysics 2 (2019) 10 (weights of all draws); J. U. Lange, Monthly Notices of the Royal
Astronomical Society 525 (2023) 3181 (proposals that are learnt).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from ...numerics.arrays import Array, Indices
from .blend import Blend, learnt, log_normal
from .cloud import Cloud
from .policy import Policy


def halve(
    cloud: Cloud, rng: np.random.Generator, policy: Policy, most: float = 0.0,
    over: Callable[[], bool] = lambda: False, left: float = 1e-3, tolerated: float = 0.05,
) -> float:  # fmt: skip
    """Add draws to a cloud, ``most`` or, of 0, as many as the policy says, and until time for it
    is ``over``, up to where the part ``left`` of Z may be above; the logarithm of the part of Z
    that may be above where that ended, -inf if it did not end too early. Of a level's mass the
    part ``tolerated`` need not be explained.

    Examples
    --------
    >>> from evidence import DensityModel, GaussianPrior
    >>> from evidence.approximations.density.policy import NORMAL
    >>> model = DensityModel(lambda x: -0.5 * np.sum(x**2, axis=1), dim=2,
    ...                      prior=GaussianPrior(np.zeros(2)), vectorized=True)
    >>> rng = np.random.default_rng(0)
    >>> cloud = Cloud(model).screen(rng, 512)
    >>> halve(cloud, rng, NORMAL), len(cloud.rounds) > 0
    (-inf, True)
    """
    model, n, enough = cloud.model, policy.drawn(cloud.model), policy.alive(cloud.model)
    most = cloud.log_l.size + (most or policy.halved[model.vectorized])
    blend: Blend | None = None
    coarse = replace(policy, unexplained=tolerated)
    while True:
        flat, above, log_w = _level(cloud, enough)
        log_z = float(logsumexp(cloud.log_w + cloud.log_l[cloud.kept]))
        ahead = cloud.ahead
        if ahead < np.log(left) + np.logaddexp(log_z, ahead) or flat:
            return -np.inf
        if cloud.log_l.size + n > most or over():
            return ahead
        points = cloud.z[above], log_normal(cloud.z[above]), log_w
        blend = learnt(blend, model, points, float(logsumexp(log_w)), rng, coarse)
        cloud.add(rng, blend, n)
        cloud.forget()


def _level(cloud: Cloud, enough: float, flat: float = 0.1) -> tuple[bool, Indices, Array]:
    """Set the highest level above which draws are worth enough: whether nothing rises above it
    any more, by so many nats as are ``flat``, these draws and their log W/N."""
    height, log_w = cloud.height, cloud.log_w
    order = np.argsort(-height, kind="stable")
    total = np.logaddexp.accumulate(log_w[order])
    worth = np.exp(2.0 * total - np.logaddexp.accumulate(2.0 * log_w[order]))
    reached = np.flatnonzero(worth >= enough)
    last = int(reached[0]) if reached.size else order.size - 1
    cloud.level = float(height[order[last]])
    some = height >= cloud.level  # a plateau is taken as a whole
    level = reached.size > 0 and height[order[0]] - cloud.level < flat
    return bool(level), cloud.kept[some], log_w[some]
