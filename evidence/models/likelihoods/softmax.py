r"""Softmax: one of C classes, each of which has a predictor.

.. math:: p(y|\eta) = \frac{e^{\eta_y}}{\sum_k e^{\eta_k}}

Only differences of predictors matter. Where all C are latent the prior settles their mean; with a
``baseline`` the first class has the predictor 0, and C - 1 are left: two classes are the logistic
model of the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from ...execution.arguments import array
from ...messages import InputError
from ...numerics.arrays import Array
from .base import Observations
from .predicted import Expansion, Several

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, repr=False)
class Softmax(Several):
    """Classes 0, 1, …, C - 1, called by their ``labels``.

    >>> lik = Softmax(("none", "mild", "severe"), baseline=True)
    >>> lik.predictors, lik.probabilities(np.zeros((2, 1))).round(2).ravel().tolist()
    (('mild', 'severe'), [0.33, 0.33, 0.33])
    """

    labels: tuple[str, ...]
    baseline: bool = False

    name: ClassVar[str] = "softmax"
    counts: ClassVar[bool] = True
    categories: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"softmax({', '.join(self.labels)})"

    @property
    def predictors(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.labels[self.baseline :]

    @property
    def contrasts(self) -> bool:  # type: ignore[override]
        return not self.baseline

    def check(self, y: ArrayLike) -> Observations:
        values, C = array("y", y), len(self.labels)
        if not np.isin(values, np.arange(C)).all():
            raise InputError(f"y must hold the classes 0 to {C - 1}, counted from 0")
        return Observations(values)

    def theta(self, y: Array) -> Array:
        return y[None]

    def ceiling(self, y: Array) -> float:
        return 0.0

    def _of_all(self, eta: Array) -> Array:
        """Of all classes, (…, C, N)."""
        if not self.baseline:
            return eta
        return np.concatenate([np.zeros_like(eta[..., :1, :]), eta], axis=-2)

    def log_probs(self, y: Array, eta: Array, own: Mapping[str, Array] | None = None) -> Array:
        eta = self._of_all(eta)
        with np.errstate(invalid="ignore"):
            away = eta - eta.max(axis=-2, keepdims=True)
            hit = away[..., y.astype(np.intp), np.arange(y.size)]
            out = hit - np.log(np.exp(away).sum(axis=-2))
        return np.where(np.isnan(out), -np.inf, out)

    def averaged(self, y: Array, known: Array, away: Array, log_w: Array, tilt: Array) -> Array:
        """Sums of ratios of exponentials, without an exponential or logarithm for every place."""
        together = 512  # draws, whose places stay in a cache
        known, flat = self._of_all(known), self._of_all(away.reshape(len(away), -1))
        known, flat, hit = known - known.max(axis=0), flat - flat.max(axis=0), int(y[0])
        terms = log_w + flat[hit].reshape(log_w.shape)
        tops, top = terms.max(axis=1, keepdims=True), tilt.max(axis=0)
        w, factors, places = np.exp(terms - tops)[:, None], np.exp(tilt - top), np.exp(flat).T
        own, out = np.exp(known), np.empty((len(terms), tilt.shape[1]))
        for some in (slice(k, k + together) for k in range(0, tilt.shape[1], together)):
            total = np.maximum(places @ own[:, some], _TINY).reshape(*terms.shape, -1)
            out[:, some] = np.matmul(w, np.divide(factors[:, some], total, out=total))[:, 0]
        return np.log(np.maximum(out, _TINY)) + tops + (top + known[hit])

    def slopes(self, y: Array, eta: Array) -> tuple[Array, Array]:
        hits = y == np.arange(len(self.labels))[:, None]
        slope = hits - self.probabilities(eta)
        return self.log_probs(y, eta), slope[..., self.baseline :, :]

    def expand(self, y: Array, eta: Array) -> Expansion:
        value, slope = self.slopes(y, eta)
        pi = self.probabilities(eta)[self.baseline :]
        W = pi.T[:, :, None] * (np.eye(len(pi)) - pi.T[:, None, :])
        return Expansion(value, slope, W, None if self.baseline else pi)

    def probabilities(self, eta: Array) -> Array:
        """p(class k|η_n), (…, C, N)."""
        return softmax(self._of_all(eta), axis=-2)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        eta = self._of_all(self.split(x))
        return np.argmax(eta + rng.gumbel(size=eta.shape), axis=-2).astype(float)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        raise NotImplementedError("labels have no mean")
