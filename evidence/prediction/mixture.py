r"""Latent values at new points: mixtures of Gaussians, made a block of points at a time.

With cross-covariance :math:`k_*` and prior variance :math:`k_{**}`, a Gaussian posterior
:math:`N(\mu, \Sigma)` at the data says

.. math:: x_* \sim N\bigl(m_* + k_*^T a,\ k_{**} - k_*^T R k_*\bigr), \quad
          a = K^{-1}(\mu - m), \quad R = K^{-1} - K^{-1} \Sigma K^{-1},

and a posterior draw :math:`x_s` the same with :math:`a = K^{-1}(x_s - m)`, :math:`R = K^{-1}`:
draws make a mixture whose components differ in their means only. All of this is for C latent
fields, of which a GPModel has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..approximations.predictors.reference import BlockReference
from ..approximations.reference import GaussianReference
from ..execution.clock import check_interrupt
from ..execution.progress import Bar
from ..messages import InputError
from ..models.kernels.vecchia import VecchiaPrior
from ..models.types import Described
from ..numerics.arrays import Array
from .points import DesignPoints, Points

AtData = GaussianReference | BlockReference | Array


class Mixture(ABC):
    """S Gaussians of equal weight for the C latent values at each of n points."""

    n: int
    count: int
    """S."""
    work: int
    """Numbers that a point needs while it is worked on."""

    @abstractmethod
    def at(self, rows: slice) -> tuple[Array, Array]:
        """Means (C, S, b), and the covariance (b, C, C) that all S components have."""


class Stored(Mixture):
    """Means and covariances that are there already."""

    def __init__(self, mean: Array, cov: Array) -> None:
        self.mean, self.cov = mean, cov
        C, self.count, self.n = mean.shape
        self.work = C * self.count

    def at(self, rows: slice) -> tuple[Array, Array]:
        return self.mean[:, :, rows], self.cov[rows]


class Projected(Mixture):
    """Carried from the data to new points, by a (C, S, N) and k* ↦ k*ᵀRk*, (b, C, C)."""

    def __init__(
        self, points: Points, model: Described, a: Array, explained: Callable[[Array], Array]
    ) -> None:
        self.points, self.model, self.a, self.explained = points, model, a, explained
        C, self.count, N = a.shape
        self.n, self.work = points.n, C * (N + self.count)

    def at(self, rows: slice) -> tuple[Array, Array]:
        k, prior, mean = self.points.at(self.model, rows)
        cov = -self.explained(k)
        var = np.einsum("bcc->bc", cov)  # a view of the diagonals
        var += prior.T
        worst = float(np.min(var / np.where(prior > 0.0, prior, 1.0).T, initial=0.0))
        if worst < -1e-6:  # rounding may leave -1e-13
            raise InputError(
                f"a predictive variance is negative ({worst:.3g} of its prior variance): the "
                "covariances of the new points do not belong to the prior of the model"
            )
        np.maximum(var, 0.0, out=var)
        return mean[:, None] + self.a @ k.swapaxes(1, 2), cov


class Designed(Mixture):
    """Rows of a design, of a SparseModel: under its Gaussian, or one component for each draw."""

    def __init__(self, points: DesignPoints, known: AtData) -> None:
        self.points, self.known = points, known
        self.count = len(known) if isinstance(known, np.ndarray) else 1
        self.n, self.work = points.n, points.design.shape[1]

    def at(self, rows: slice) -> tuple[Array, Array]:
        if self.points.predictors > 1:
            return self._several(rows)
        A, offset = self.points.design[rows], self.points.offset[rows]
        if isinstance(self.known, np.ndarray):
            mean, var = (A @ self.known.T).T + offset, np.zeros(A.shape[0])
        elif self.points.design is self.known.model.prior.design:  # what EP has
            mean, var = (part[None, rows] for part in self.known.predictors)
            var = var[0]
        else:
            q: Any = self.known.gaussian
            mean, var = (A @ q.latent_mean + offset)[None], q.row_variances(A)
        if self.points.extra is not None:
            var = var + self.points.extra[rows]
        return mean[None], var[:, None, None]

    def _several(self, rows: slice) -> tuple[Array, Array]:
        """Of several predictors, each of which has a design."""
        P, n, points = self.points.predictors, self.n, self.points
        some = (np.arange(n)[rows] + n * np.arange(P)[:, None]).ravel()
        A, offset = points.design[some], points.offset[some]
        b = some.size // P
        cov = np.zeros((b, P, P))
        if isinstance(self.known, np.ndarray):
            mean = (A @ self.known.T).T + offset
        else:
            assert isinstance(self.known, BlockReference)
            q: Any = self.known.gaussian.turned
            mean = (A @ q.latent_mean + offset)[None]
            white = q.solved.draw_transposed(A.toarray().T).reshape(-1, P, b)
            cov = np.einsum("kpb,kqb->bpq", white, white)
        if points.extra is not None:
            np.einsum("bpp->bp", cov)[:] += points.extra[some].reshape(P, b).T
        return mean.reshape(-1, P, b).swapaxes(0, 1), cov


def blocks(
    mixtures: Sequence[Mixture], batch_size: int | None = None, work: int = 1,
    bar: Bar | None = None, *, budget: float = 64e6, copies: int = 6,
) -> Iterator[slice]:  # fmt: skip
    """The points a block at a time; each of them will need ``work`` numbers, too.

    ``budget``: bytes of work space that one block of points may take; ``copies``: arrays of a
    block's size alive at once, in kernels and in what is computed from it.
    """
    most = max(work, sum(mixture.count for mixture in mixtures), *(m.work for m in mixtures))
    size, n = batch_size or max(1, int(budget / (8 * copies * most))), mixtures[0].n
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
        check_interrupt()
        if bar is not None:
            bar.update(min(size, n - start))


def stored(mixture: Mixture, batch_size: int | None = None, bar: Bar | None = None) -> Stored:
    """What the mixture is at all of its points."""
    mean, cov = zip(*map(mixture.at, blocks([mixture], batch_size, bar=bar)), strict=True)
    return Stored(np.concatenate(mean, axis=2), np.concatenate(cov))


def mixture_at(model: Described, known: AtData, points: Points | DesignPoints | None) -> Mixture:
    """What a reference of the model, or draws (S, C·N), say of the points (None: the data)."""
    if isinstance(points, DesignPoints):
        if points.new is not None:
            points = replace(points, extra=points.new(model))
        return Designed(points, known)
    fields = model.field_priors
    means = np.array([prior.mean for prior in fields])
    C, N = means.shape
    if points is not None and isinstance(prior := fields[0], VecchiaPrior):
        if isinstance(known, np.ndarray):
            known = prior.latent_values(known)
        assert points.X is not None
        A, extra = prior.at(model.hyperparameters.kernels[0], points.X)
        return Designed(DesignPoints(A, points.mean[0], extra), known)
    if isinstance(known, BlockReference):
        if points is None:
            diag = np.diagonal(known.model.covariances, axis1=1, axis2=2)
            points = Points(means, None, known.model.covariances, diag)
        dual = known.gaussian.dual.reshape(C, 1, N)
        inner = known.gaussian.inner.reshape(C, N, C, N)
        return Projected(points, model, dual, partial(_across_fields, inner))
    if isinstance(known, GaussianReference):
        if points is None:
            return Stored(known.mean[None, None], known.var[:, None, None])
        q = known.gaussian
        return Projected(points, model, q.dual[None, None], partial(_by_field, [q.explained], C))
    x = known.reshape(-1, C, N).swapaxes(0, 1)
    if points is None:
        return Stored(x, np.zeros((N, C, C)))
    a = np.array([p.solve((own - m).T).T for p, own, m in zip(fields, x, means, strict=True)])
    different = fields[:1] if model.shared else fields
    explained = partial(_by_field, [prior.explained for prior in different], C)
    return Projected(points, model, a, explained)


def _across_fields(inner: Array, k: Array) -> Array:
    """k_iᵀR_ij k_j, (b, C, C), of fields that sites couple."""
    k = np.broadcast_to(k, (len(inner), *k.shape[1:]))
    half = np.einsum("injm,jbm->inbj", inner, k, optimize=True)
    return np.einsum("ibn,inbj->bij", k, half, optimize=True)


def _by_field(parts: Sequence[Callable[[Array], Array]], C: int, k: Array) -> Array:
    """kᵀRk, (b, C, C), of fields that know nothing of each other; k is (F, b, N)."""
    F = max(len(parts), len(k))
    each = [parts[i % len(parts)](k[i % len(k)]) for i in range(F)]
    return np.transpose(each)[:, :, None] * np.eye(C)
