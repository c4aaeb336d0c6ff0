"""Predictions of several classes: from a Gaussian, posterior draws, draws of hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from ..approximations.classes.probabilities import expected_softmax, normal_nodes
from ..approximations.classes.reference import SoftmaxReference
from ..messages import InputError
from ..models.classes import SoftmaxModel
from ..results.hyper import HyperDraws
from .class_predictive import ClassPrediction
from .components import GivenPoints, KernelPoints, block_size, check_variances, from_draws
from .hyper import distinct
from .new_points import new_points

Array = NDArray[np.float64]

_NODES = 1024  # quasi-random latent values behind every probability, at least


class Block(NamedTuple):
    """Mixtures of Gaussians for the latent values of C classes at b points."""

    mean: Array  # (S, b, C)
    cov: Array  # (b, C, C), of every component


class Field(NamedTuple):
    """One class, with what is asked of a model with a single latent field."""

    kernel: Callable[..., Any] | None
    X: Array | None
    n: int
    mean: Array
    chol: Array


class NewPoints(NamedTuple):
    """The same new points for every class, as the user gave them."""

    X_new: Any = None
    K_new: Any = None
    k_diag: Any = None
    mean_new: Any = None

    def of(self, model: SoftmaxModel) -> list[Any] | None:
        """One for each class; None stands for the data themselves."""
        parts = [
            self._each(name, axes, model.n_classes)
            for name, axes in (("K_new", 3), ("k_diag", 2), ("mean_new", 1))
        ]
        points = [
            new_points(field, self.X_new, *own)
            for field, *own in zip(_fields(model), *parts, strict=True)
        ]
        return None if points[0] is None else points

    def _each(self, name: str, axes: int, C: int) -> list[Any]:
        """What a class has of its own, or all have together."""
        value = getattr(self, name)
        if value is None or np.ndim(value) < axes:
            return [value] * C
        if len(value) != C:
            raise InputError(
                f"{name} has {len(value)} parts along its first axis and the model {C} classes; "
                "pass one for all classes or one for each"
            )
        return list(value)


def _fields(model: SoftmaxModel) -> list[Field]:
    kernels = model.kernels or (None,) * model.n_classes
    means = model.mean.reshape(model.n_classes, -1)
    return [
        Field(kernel, model.X, model.n_data, mean, L)
        for kernel, mean, L in zip(kernels, means, model.chol, strict=True)
    ]


def predict_classes(
    model: SoftmaxModel,
    posterior: SoftmaxReference | HyperDraws | Array,
    new: NewPoints,
    *,
    max_draws: int,
    batch_size: int | None,
    progressbar: bool,
) -> ClassPrediction:
    """What ``posterior``, already checked, says of the new points."""
    if not isinstance(posterior, HyperDraws):
        count = 1 if isinstance(posterior, SoftmaxReference) else len(posterior)
        z = normal_nodes(model.n_classes, _NODES, count)
        return _predict(model, posterior, new, z, batch_size, progressbar)
    groups = list(distinct(model, posterior, max_draws))
    sizes = [len(x) for _, x in groups]
    z = normal_nodes(model.n_classes, _NODES, sum(sizes))  # a share of them for every θ
    shares = np.split(z, np.cumsum(sizes)[:-1])
    bar = tqdm(
        groups, desc="predict", unit="θ", leave=False, disable=None if progressbar else True
    )
    return ClassPrediction.mixture(
        [
            _predict(model.at(theta), x, new, own, batch_size, False)
            for (theta, x), own in zip(bar, shares, strict=True)
        ],
        sizes,
    )


def _predict(
    model: SoftmaxModel,
    posterior: SoftmaxReference | Array,
    new: NewPoints,
    z: Array,
    batch_size: int | None,
    progressbar: bool,
) -> ClassPrediction:
    C, points = model.n_classes, new.of(model)
    n = model.n_data if points is None else points[0].n
    if isinstance(posterior, SoftmaxReference):
        at = _from_reference(posterior, points)
    else:
        at = _from_draws(model, posterior.reshape(len(z), C, -1), points)
    size = batch_size or block_size(z.size + C * (model.n_data + len(z)))
    out = np.empty((3, n, C))
    with tqdm(
        total=n, desc="predict", unit="point", leave=False, disable=None if progressbar else True
    ) as bar:
        for first in range(0, n, size):
            rows = slice(first, min(first + size, n))
            mean, cov = at(rows)
            out[0, rows] = expected_softmax(mean, cov, z)
            out[1, rows] = mean.mean(axis=0)
            out[2, rows] = np.diagonal(cov, axis1=1, axis2=2) + mean.var(axis=0)
            bar.update(rows.stop - first)
    return ClassPrediction(
        model.classes,
        *out,
        X_new=model.X if points is None else getattr(points[0], "X_new", None),
        data=None if model.X is None else (model.X, model.y),
    )


def _from_reference(
    reference: SoftmaxReference, points: list[Any] | None
) -> Callable[[slice], Block]:
    model = reference.model
    if points is None:
        means = model.mean.reshape(model.n_classes, -1)
        points = [GivenPoints(K, np.diag(K), m) for K, m in zip(model.K, means, strict=True)]

    different = points[:1] if _alike(model, points) else points

    def at(rows: slice) -> Block:
        seen = [p.at(rows) for p in different]
        K, diag = (np.stack(part) for part in list(zip(*seen, strict=True))[:2])
        if len(seen) == 1:
            K, diag = K[0], diag[0]
        latent = reference.predict(K, diag, np.stack([p.mean[rows] for p in points]))
        check_variances(
            np.diagonal(latent.cov, axis1=1, axis2=2), diag.T.reshape(len(latent.cov), -1)
        )
        return Block(latent.mean.T[None], latent.cov)

    return at


def _from_draws(
    model: SoftmaxModel, x: Array, points: list[Any] | None
) -> Callable[[slice], Block]:
    """``x`` is (S, C, N)."""
    S, C, N = x.shape
    if points is None:
        still = np.zeros((N, C, C))
        return lambda rows: Block(x[:, :, rows].transpose(0, 2, 1), still[rows])
    fields, centred = _fields(model), x - model.mean.reshape(C, N)
    groups = [list(range(C))] if _alike(model, points) else [[k] for k in range(C)]
    made = [
        from_draws(
            fields[own[0]]._replace(mean=np.zeros(N)),
            centred[:, own].reshape(-1, N),
            replace(points[own[0]], mean=np.zeros(points[0].n)),
        )
        for own in groups
    ]

    def at(rows: slice) -> Block:
        mean = np.tile(np.stack([p.mean[rows] for p in points], axis=-1), (S, 1, 1))
        var = np.empty(mean.shape[1:])
        for own, components in zip(groups, made, strict=True):
            m, v = components.at(rows)
            mean[:, :, own] += m.reshape(S, len(own), -1).transpose(0, 2, 1)
            var[:, own] = v[0][:, None]
        return Block(mean, var[:, :, None] * np.eye(C))

    return at


def _alike(model: SoftmaxModel, points: list[Any]) -> bool:
    """Whether all classes have one prior and see the new points alike, but for the mean."""
    if not model.shared:
        return False
    first = points[0]
    return isinstance(first, KernelPoints) or all(
        np.array_equal(p.K_new, first.K_new) and np.array_equal(p.k_diag, first.k_diag)
        for p in points[1:]
    )
