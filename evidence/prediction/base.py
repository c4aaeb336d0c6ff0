"""What the predictions of one field and of several classes have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..execution.arguments import check_weights
from ..messages import InputError
from ..numerics.arrays import Array
from ..results.base import ResultOnAxes


class AtPoints(ResultOnAxes):
    """Mean and variance of latent values at n points, and how predictions are mixed."""

    mean: Array
    var: Array

    @classmethod
    def mixture(cls, predictions: Sequence[Self], weights: ArrayLike | None = None) -> Self:
        """The mixture of several predictions of the same points: over models, for example.

        Densities, quantiles and probabilities are those of the mixture.

        Parameters
        ----------
        predictions : sequence of predictions of one kind
        weights : array, optional
            Non-negative weights, scaled to sum to one; equal by default.
        """
        w = check_weights("predictions", predictions, weights)
        if len(sizes := {len(prediction.mean) for prediction in predictions}) > 1:
            raise InputError(f"predictions are of different numbers of points: {sorted(sizes)}")
        others = predictions[0]._mixed(w, predictions)
        mean = np.tensordot(w, [p.mean for p in predictions], 1)
        var = np.tensordot(w, [p.var + (p.mean - mean) ** 2 for p in predictions], 1)
        return replace(predictions[0], mean=mean, var=var, **others)  # type: ignore[type-var]

    def _mixed(self, w: Array, predictions: Sequence[Self]) -> dict[str, Any]:
        """The other fields of a mixture; predictions that do not go together are refused."""
        raise NotImplementedError

    def _one_each(self, y_new: ArrayLike) -> NDArray[Any]:
        """New observations, one for each point."""
        y = np.asarray(y_new)
        if y.shape != self.mean.shape[:1]:
            raise InputError(
                f"y_new must be a vector with one observation for each of {len(self.mean)} "
                f"points, got shape {y.shape}"
            )
        return y
