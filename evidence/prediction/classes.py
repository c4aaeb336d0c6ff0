r"""Predictions for several classes: what :func:`evidence.predict` makes of a SoftmaxModel.

With weights :math:`w_s` and latent values :math:`x_* \sim N(m_s, S_s)` of the C classes, a new
label has

.. math:: p(y_* = k) = \sum_s w_s \int \mathrm{softmax}(x)_k\, N(x; m_s, S_s)\,dx.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..execution.arguments import shown
from ..execution.lazy import pd
from ..execution.progress import Bar
from ..messages import InputError
from ..models.likelihoods.softmax import Softmax
from ..numerics.arrays import Array
from ..plots.predictions import plot_class_prediction
from .base import AtPoints
from .mixture import Mixture, blocks

NODES = 1024  # quasi-random latent values behind every probability, at least


@dataclass(frozen=True, eq=False, repr=False)
class ClassPrediction(AtPoints):
    """What a model of several classes says at new points; made by :func:`evidence.predict`.

    Attributes
    ----------
    classes : array (C,)
        The labels, in the order of the columns below.
    probability : array (n, C)
        P(y = class) for a new observation; rows sum to one.
    mean, var : array (n, C)
        Mean and variance of the latent value of each class; zero for one that is the baseline.

    Examples
    --------
    >>> from evidence import SoftmaxModel, predict
    >>> X, y = [[0.0], [0.5], [2.0], [3.0], [3.5]], ["a", "a", "b", "c", "c"]
    >>> prediction = predict(SoftmaxModel(X, y, "9.0 * RBF(1.0)"), [[0.2], [3.3], [30.0]])
    >>> prediction.label.tolist()[:2], prediction.probability[2].round(2).tolist()
    (['a', 'c'], [0.33, 0.33, 0.33])
    >>> prediction.log_density(["a", "c", "b"]).round(1).tolist()
    [-0.2, -0.2, -1.1]
    """

    _format = "evidence-class-prediction"

    classes: NDArray[Any]
    probability: Array
    mean: Array
    var: Array
    X_new: Array | None = None
    data: tuple[Array, NDArray[Any]] | None = None
    """Inputs and labels that the model was given, for the plot."""

    def _about(self) -> list[str]:
        return ["{} points, {} classes".format(*self.probability.shape)]

    _draw = plot_class_prediction

    @classmethod
    def of(
        cls, mixture: Mixture, likelihood: Softmax, classes: NDArray[Any], nodes: Array,
        batch_size: int | None = None, bar: Bar | None = None, **context: Any,
    ) -> ClassPrediction:  # fmt: skip
        """One pass over the points, with normals (S, R, C) for the integral over the fields."""
        probability, mean, var = np.zeros((3, mixture.n, classes.size))
        for rows in blocks([mixture], batch_size, mixture.work + nodes.size, bar):
            m, cov = mixture.at(rows)
            probability[rows] = expected_probabilities(likelihood, m, cov, nodes)
            own = np.s_[rows, likelihood.baseline :]
            mean[own] = m.mean(axis=1).T
            var[own] = np.einsum("bcc->bc", cov) + m.var(axis=1).T
        return cls(classes, probability, mean, var, **context)

    def _mixed(self, w: Array, predictions: Sequence[ClassPrediction]) -> dict[str, Any]:
        if not all(np.array_equal(p.classes, self.classes) for p in predictions):
            raise InputError("predictions are of different classes")
        return {"probability": np.tensordot(w, [p.probability for p in predictions], 1)}

    @property
    def label(self) -> NDArray[Any]:
        """The most probable class at every point, shape (n,)."""
        return self.classes[self.probability.argmax(axis=1)]

    def log_density(self, y_new: ArrayLike) -> Array:
        """Log predictive probability of new labels, one per point.

        Parameters
        ----------
        y_new : array (n,)
            Labels among ``classes``.
        """
        y = self._one_each(y_new)
        hits = y[:, None] == self.classes
        if not hits.any(axis=1).all():
            unknown = y[~hits.any(axis=1)].tolist()[0]
            raise InputError(f"y_new holds {shown(unknown)}, not one of {self.classes.tolist()}")
        return np.log(self.probability[hits])

    def to_frame(self) -> pd.DataFrame:
        """One row per point: the most probable label and the probability of every class."""
        columns = {"label": self.label}
        columns |= {f"p[{c}]": p for c, p in zip(self.classes, self.probability.T, strict=True)}
        return pd.DataFrame(columns)

    _frame = to_frame


def expected_probabilities(likelihood: Softmax, mean: Array, cov: Array, z: Array) -> Array:
    """Of classes at b points, (b, C), under a mixture of S Gaussians.

    Means (P, S, b), the covariance (b, P, P) of every component, normals (S, R, P).
    """
    if not cov.any():
        return likelihood.probabilities(mean.swapaxes(0, 1)).mean(axis=0).T
    s, U = np.linalg.eigh(cov)  # covariances may be singular
    root = U * np.sqrt(np.maximum(s, 0.0))[:, None, :]
    x = np.einsum("src,bkc->srkb", z, root, optimize=True) + mean.swapaxes(0, 1)[:, None]
    return likelihood.probabilities(x).mean(axis=(0, 1)).T
