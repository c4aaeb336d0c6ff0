"""Predictions averaged over hyperparameters: one mixture of Gaussians for every kept draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from ..messages import InputError
from ..models.classes import SoftmaxModel
from ..models.gp import GPModel
from ..models.likelihoods.base import Likelihood
from ..results.hyper import HyperDraws
from .components import Components, KernelPoints, Points, Stored, from_draws
from .predictive import Share

Array = NDArray[np.float64]


def hyper_shares(
    model: GPModel,
    draws: HyperDraws,
    points: Points | None,
    likelihood: Likelihood | None,
    max_draws: int,
    progressbar: bool,
) -> list[Share]:
    """Components at the new points for every different θ among the kept draws.

    Their means and variances are stored: a factor per θ would not fit into memory.
    """
    groups = list(distinct(model, draws, max_draws))
    total = sum(len(x) for _, x in groups)
    bar = tqdm(
        groups,
        desc="predict",
        unit="θ",
        leave=False,
        disable=None if progressbar else True,
    )
    shares = []
    for theta, x in bar:
        there = model.at(theta)
        components = _stored(there, x, points)
        observed = there.likelihood if likelihood is None else likelihood
        shares.append(Share(len(x) / total, components, observed))
    return shares


def distinct(
    model: GPModel | SoftmaxModel, draws: HyperDraws, max_draws: int
) -> Iterator[tuple[Array, Array]]:
    """Every different θ among the kept draws, evenly spaced, with its draws of x."""
    theta, x = _thinned(model, draws, max_draws)
    starts = np.flatnonzero(np.r_[True, (theta[1:] != theta[:-1]).any(axis=1)])
    for first, end in zip(starts, [*starts[1:], len(theta)], strict=True):
        yield theta[first], x[first:end]


def _thinned(
    model: GPModel | SoftmaxModel, draws: HyperDraws, max_draws: int
) -> tuple[Array, Array]:
    """θ (all that is free in the model) and x of the kept draws, evenly spaced."""
    if draws.model and draws.model != model.describe():
        raise InputError(
            f"posterior was made for another model, {draws.model}, not {model.describe()}"
        )
    stride = draws.settings.get("stride", 1)
    kept = draws.theta[:, ::stride][:, : draws.x.shape[1]]
    x = draws.x.reshape(-1, model.n)
    theta = np.tile(model.hyperparameters.theta, (len(x), 1))
    where = [model.hyperparameters.index(name) for name in draws.names]
    theta[:, where] = kept.reshape(len(x), -1)
    chosen = np.linspace(0, len(x) - 1, min(max_draws, len(x))).round().astype(int)
    return theta[chosen], x[chosen]


def _stored(model: GPModel, x: Array, points: Points | None) -> Components:
    if points is None:
        return Stored(x, np.zeros((1, model.n)))
    if isinstance(points, KernelPoints):
        points = replace(points, kernel=model.kernel)
    lazy = from_draws(model, x, points)
    mean, var = np.empty((len(x), points.n)), np.empty((1, points.n))
    for rows in _rows(lazy):
        mean[:, rows], var[:, rows] = lazy.at(rows)
    return Stored(mean, var)


def _rows(components: Any) -> Iterator[slice]:
    size = components.block()
    for first in range(0, components.n, size):
        yield slice(first, first + size)
