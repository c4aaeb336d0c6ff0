r"""Elliptical slice sampling for x given θ (Murray, Adams and MacKay 2010).

A draw v ~ N(0, K) spans an ellipse through the state, :math:`m + (x-m)\cos a + v\sin a`, and a
is drawn from where f exceeds a random level by shrinking a bracket around 0.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from .states import Acceptance, Joint, JointState, StepSizes, coloured


def update(
    rng: Generator, target: Joint, state: JointState, sizes: StepSizes, *, max_shrinks: int = 200
) -> tuple[JointState, Acceptance]:
    """All blocks at once; 1 unless rounding kept the bracket from ending.

    ``max_shrinks``: after so many the bracket is 1e-40 wide, where only rounding can get.
    """
    mean = target.field.mean
    v = coloured(state.factors, rng.standard_normal(mean.shape))
    level = state.loglik - rng.standard_exponential()
    angle = rng.uniform(0.0, 2.0 * np.pi)
    low, high = angle - 2.0 * np.pi, angle
    for _ in range(max_shrinks):
        x = mean + np.cos(angle) * (state.x - mean) + np.sin(angle) * v
        loglik, gradient = target.field.loglik(x, state.theta)
        if loglik > level:
            return state._replace(x=x, loglik=loglik, gradient=gradient), Acceptance(1.0)
        low, high = (angle, high) if angle < 0.0 else (low, angle)
        angle = rng.uniform(low, high)
    return state, Acceptance(0.0)
