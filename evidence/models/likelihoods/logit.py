r"""Logit: p(y|x) = σ(y x), y = ±1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from ...numerics.jit import jit, vector_loop
from ...numerics.special import exp, log, sigmoid
from .base import Array
from .checks import Labels
from .pointwise import Pointwise


@vector_loop
def _first_order(x, theta, step, out):
    """log p(y|x) and its slope; with a constant ``step`` the loops become vector instructions."""
    for i in range(x.size):
        out[3, i] = exp(-abs(x[i]))
    for i in range(x.size):
        s, e = theta[0, np.uint64(i * step)], out[3, i]
        z = s * x[i]
        out[0, i] = (0.0 if z > 0.0 else z) - log(1.0 + e, e)
        out[1, i] = s * (e if z > 0.0 else 1.0) / (1.0 + e)


@jit
def _bends(x, theta):
    """The second and the third derivative."""
    s = theta[0]
    p = sigmoid(s * x) * sigmoid(-s * x)
    return -p, s * p * np.tanh(0.5 * s * x)


@dataclass(frozen=True)
class Logit(Labels):
    r"""Binary labels with a logistic link, :math:`p(y|x) = \sigma(y x) = 1/(1 + e^{-yx})`.

    With ``z = y x`` the derivatives of the log are ``y σ(-z)``, ``-σ(z) σ(-z)`` and
    ``y σ(z) σ(-z) tanh(z/2)``: products in which nothing cancels.

    >>> Logit().log_prob([0.0, 40.0], [1, -1]).round(6)
    array([ -0.693147, -40.      ])
    """

    name: ClassVar[str] = "logit"
    poles = np.pi

    kernel = Pointwise(_bends, 1, _first_order)

    link = staticmethod(expit)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        return np.tanh(0.5 * np.asarray(x)), 4.0 * expit(x) * expit(-np.asarray(x))
