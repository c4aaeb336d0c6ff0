r"""Predictions where data see several predictors: as mixtures over those of parameters.

Given the further predictors a new observation follows the family with these parameters, and its
first predictor is Gaussian. So nodes of the further ones, Gauss and Hermite's or draws, each with
the first one given it, make a mixture of which all is known that is known of one predictor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..approximations.predictors.ep import nodes
from ..execution.progress import Bar
from ..models.likelihoods.predicted import Several
from .gp import Prediction, Share
from .mixture import Mixture, Stored, stored


def predict_several(
    mixture: Mixture, likelihood: Several, batch_size: int | None, bar: Bar | None, **context: Any
) -> Prediction:
    """The prediction of a mixture of Gaussians for P predictors at every point."""
    at = stored(mixture, batch_size, bar)
    shares = tuple(_shares(at, likelihood))
    mean, cov = at.mean[0].mean(axis=0), at.cov[:, 0, 0] + at.mean[0].var(axis=0)
    return Prediction(mean, cov, shares, batch_size=batch_size, **context)


def _shares(
    at: Stored, likelihood: Several, *, draws: int = 100, narrow: float = 1e-12
) -> Iterator[Share]:
    """One for every component and node.

    ``draws``: components at most; ``narrow``: relative variance of a further predictor that counts
    as none.
    """
    # of further predictors in every direction, by how many these are
    per_direction = {1: 12, 2: 5}
    chosen = np.linspace(0, at.count - 1, min(draws, at.count)).round().astype(int)
    own, across = at.cov[:, 1:, 1:], at.cov[:, 0, 1:]
    P = own.shape[1]
    moving = np.einsum("npp->np", own).max() > narrow
    z, log_w = nodes(P, per_direction.get(P, 1)) if moving else (np.zeros((1, P)), np.zeros(1))
    values, vectors = np.linalg.eigh(own)
    values = np.maximum(values, 0.0)
    root = vectors * np.sqrt(values)[:, None, :]
    safe = np.where(values > narrow, values, np.inf)
    gain = np.einsum("npk,nk,nqk,nq->np", vectors, 1.0 / safe, vectors, across)
    left = np.maximum(at.cov[:, 0, 0] - np.sum(gain * across, axis=1), 0.0)
    for s in chosen:
        for node, log_share in zip(z, log_w, strict=True):
            away = root @ node
            first = at.mean[0, s] + np.sum(gain * away, axis=1)
            further = (at.mean[1:, s].T + away).T
            one = Stored(first[None, None], left[:, None, None])
            share = float(np.exp(log_share)) / len(chosen)
            yield Share(share, one, likelihood.given(further))
