r"""Gaussians beside the prior that a density is drawn from, and how they learn from points.

In coordinates z in which the prior is N(0, I) the proposal is

.. math:: q(z) = \epsilon\, N(z; 0, I)
                 + (1-\epsilon) \sum_k \pi_k \sum_j s_j N(z; m_k, v_j \Sigma_k),

every Gaussian with wider copies of itself, which guard its tails. Where points z with weights W
stand for a density p with integral Z, the Gaussians leave unexplained

.. math:: U = \sum_i W_i \max\Big(0,\, 1 - 3 Z \frac{q(z_i)}{p(z_i)}\Big),

and one fitted to that is the next component, a narrow one at the centre of a broad one too. Then
all of them are moved by expectation maximisation.

Reference: O. Cappé et al., Statistics and Computing 18 (2008) 447.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from ...execution.clock import check_interrupt
from ...messages import Message
from ...models.density.model import DensityModel
from ...models.density.symmetry import Chart
from ...numerics.arrays import Array
from ...numerics.mixtures import log_sums, squares
from ...numerics.special import LOG_SQRT_2PI
from ...statistics.resampling import systematic
from .policy import NORMAL, Copies, Policy
from .reference import Mode
from .verdict import Rough, Verdict, all_usable, moments, usable

_SHAPED = 2.0  # effective draws that tell a place, and per dimension a covariance


@dataclass(frozen=True, eq=False)
class Blend:
    """Weights, means and covariances of Gaussians in coordinates in which the prior is N(0, I)."""

    model: DensityModel
    weights: Array
    means: Array
    covs: Array
    policy: Policy = NORMAL
    chart: Chart = field(default_factory=Chart)
    """Of the model's symmetries: means and covariances are in it."""

    @property
    def size(self) -> int:
        return self.weights.size

    @cached_property
    def _eigh(self) -> tuple[Array, Array, Array]:
        """Standard deviations, and eigenvalues and eigenvectors of correlations: definite to
        rounding, whatever the units."""
        least = 1e-13  # least eigenvalue of a correlation, relative to the largest
        sd = np.sqrt(np.einsum("kii->ki", self.covs))
        s, V = np.linalg.eigh(self.covs / sd[:, :, None] / sd[:, None, :])
        return sd, np.maximum(s, least * s[:, -1:]), V

    @cached_property
    def roots(self) -> Array:
        """R with R Rᵀ = Σ, (K, d, d)."""
        sd, s, V = self._eigh
        return np.asarray(sd[:, :, None] * V * np.sqrt(s)[:, None, :], dtype=float)

    @cached_property
    def _inverse_roots(self) -> Array:
        """Upper triangles R with Rᵀ R = Σ⁻¹, (K, d, d)."""
        sd, s, V = self._eigh
        whole = np.swapaxes(V, 1, 2) / np.sqrt(s)[:, :, None] / sd[:, None, :]
        return np.ascontiguousarray(np.linalg.qr(whole, mode="r"), dtype=float)

    @cached_property
    def _at_means(self) -> Array:
        """log πₖ N(mₖ; mₖ, Σₖ), (K,)."""
        sd, s, _ = self._eigh
        half = np.log(sd).sum(axis=1) + 0.5 * np.log(s).sum(axis=1)
        return np.log(self.weights) - half - self.means.shape[1] * LOG_SQRT_2PI

    def squares(self, z: Array) -> Array:
        """Squared distances of rows of the chart from the means, in sds; (M, K)."""
        out, at = np.empty((self.size, len(z))), np.ascontiguousarray(self.means)
        squares(np.ascontiguousarray(z), at, self._inverse_roots, out)
        return out.T

    def log_shares(self, z: Array) -> Array:
        """log πₖ N(z; mₖ, Σₖ) in the chart, without copies; (M, K)."""
        return self._at_means - 0.5 * self.squares(z)

    def log_parts(self, z: Array) -> Array:
        """log of what is every Gaussian's at rows of the chart; (M, K)."""
        log_shares = self.log_shares(z)
        return log_shares - log_sum(log_shares)[:, None]

    def log_own(self, z: Array, copies: Copies = ((1.0, 1.0),)) -> Array:
        """log of the Gaussians' sum, with no copies but those given, without the prior; (M,)."""
        return self._relative(z, copies) + log_normal(z)

    def log_ratio(self, z: Array) -> Array:
        """log q(z)/N(z; 0, I), (M,)."""
        rest = self.policy.defence
        log_q = self._relative(z, self.policy.copies)
        return np.logaddexp(np.log(rest), np.log1p(-rest) + log_q)

    def _relative(self, z: Array, copies: Copies) -> Array:
        """log of the Gaussians' sum over the prior, whose images are alike: a mean over all of a
        row's."""
        parts = [self._log_sum(y, copies) - log_normal(y) for y in self.chart.images(z)]
        if len(parts) == 1:
            return parts[0]
        return np.asarray(logsumexp(parts, axis=0) - np.log(len(parts)), dtype=float)

    def _log_sum(self, z: Array, copies: Copies, together: int = 2**16) -> Array:
        """log of the sum of so many copies of every Gaussian, in the chart; ^C is looked for
        between so many rows."""
        variances, shares = np.array(copies).T
        heights = self._at_means[:, None] + np.log(shares) - 0.5 * z.shape[1] * np.log(variances)
        out, z, at = np.empty(len(z)), np.ascontiguousarray(z), np.ascontiguousarray(self.means)
        for first in range(0, len(z), together):
            check_interrupt()
            some = slice(first, first + together)
            log_sums(z[some], at, self._inverse_roots, heights, 1.0 / variances, out[some])
        return out

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Rows z, of which every part has its share on average, however few they are."""
        copies = np.array(self.policy.copies)
        own = (1.0 - self.policy.defence) * np.outer(self.weights, copies[:, 1]).ravel()
        each = np.append(own, self.policy.defence)
        label = systematic(each / each.sum(), rng, n)
        z = rng.standard_normal((n, self.means.shape[1]))
        for k in range(self.size):
            some = label // len(copies) == k
            wide = np.sqrt(copies[label[some] % len(copies), 0])
            z[some] = self.means[k] + wide[:, None] * (z[some] @ self.roots[k].T)
        return self.chart.outward(z, rng)

    def weighted(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Draws in the model's coordinates (n, d), and their log weights."""
        z = self.draw(rng, n)
        x = placed(self.model, z)
        with np.errstate(invalid="ignore"):
            log_w = self.model.log_likelihood(x) - self.log_ratio(z)
        return x, np.where(np.isnan(log_w), -np.inf, log_w)

    def log(self, x: Array) -> Array:
        """log q in the model's coordinates."""
        assert self.model.prior is not None
        return self.log_ratio(whitened(self.model, x)) + self.model.prior.log_prob(x)

    def with_more(self, weights: Array, means: Array, covs: Array) -> Blend:
        """With further components in the chart, which take so much of all."""
        rest = max(1.0 - float(np.sum(weights)), 0.0)
        weights = np.append(rest * self.weights, weights)
        means, covs = np.concatenate([self.means, means]), np.concatenate([self.covs, covs])
        return replace(self, weights=weights, means=means, covs=covs)


@dataclass(frozen=True, eq=False)
class Blended:
    """A blend as a reference, for importance sampling alone."""

    model: DensityModel
    blend: Blend
    verdict: Verdict
    lost: float = 0.0
    """The part of the posterior that may be out of reach."""
    warnings: tuple[Message, ...] = ()
    scouted: Rough | None = None
    """What a search saw that ended before it had reached the top."""
    modes: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Those that count, in coordinates in which the prior is N(0, I)."""
    converged: bool = True
    """Whether draws that were judged were even enough."""
    name = "mixture"
    logz = property(lambda self: self.verdict.logz)

    def mode_of(self, x: Array) -> Array:
        """Which mode the Gaussians that claim each of some points are nearest to."""
        blend, chart = self.blend, self.blend.chart
        to = blend.squares(chart.inward(self.modes))  # (modes, K)
        shares = blend.log_shares(chart.inward(whitened(self.model, x)))
        return np.asarray(to.argmin(axis=0)[shares.argmax(axis=1)])


def placed(model: DensityModel, z: Array) -> Array:
    """Whitened rows in the model's coordinates: these are the same without a prior."""
    return z if model.prior is None else model.prior.placed(z)


def whitened(model: DensityModel, x: Array) -> Array:
    """Rows in coordinates in which the prior is N(0, I)."""
    assert model.prior is not None
    return np.asarray(np.linalg.solve(model.prior.chol, (x - model.prior.mean).T).T, dtype=float)


def at_modes(
    model: DensityModel, weights: Array, modes: Sequence[Mode], policy: Policy,
    chart: Chart | None = None,
) -> Blend:  # fmt: skip
    """Gaussians at modes, which are in the model's coordinates."""
    assert model.prior is not None
    inverse, chart = np.linalg.inv(model.prior.chol), chart or model.chart
    covs = inverse @ np.array([mode.cov for mode in modes]) @ inverse.T
    z = whitened(model, np.array([mode.x for mode in modes]))
    inner = [chart.placed(*one) for one in zip(z, covs, strict=True)]
    z, covs = (np.array(part) for part in zip(*inner, strict=True))
    return Blend(model, weights / weights.sum(), z, covs, policy, chart)


def half_square(z: Array) -> Array:
    """-log N(z; 0, I), up to a constant."""
    return 0.5 * np.einsum("mi,mi->m", z, z)


def log_normal(z: Array) -> Array:
    """log N(z; 0, I)."""
    return -half_square(z) - z.shape[1] * LOG_SQRT_2PI


def log_sum(parts: Array) -> Array:
    """log Σ exp of every row of finite numbers."""
    top = parts.max(axis=1)
    return top + np.log(np.exp(parts - top[:, None]).sum(axis=1))


def unexplained(log_q: Array, log_p: Array, logz: float) -> Array:
    """The part of every point that q has no mass for, between 0 and 1; of three times as much as
    q has there all is explained."""
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(np.minimum(logz + log_q - log_p, 700.0))
        return np.maximum(0.0, 1.0 - 3.0 * np.nan_to_num(ratio))


def learnt(
    blend: Blend | None, model: DensityModel, points: tuple[Array, Array, Array], logz: float,
    rng: np.random.Generator, policy: Policy, steps: int = 5, between: int = 3, added: int = 4,
) -> Blend:  # fmt: skip
    """The blend moved to points z with log p and log weights; of None, one that begins with the
    mean and covariance of them all, or with a ball of volume exp(``logz`` - max log p).

    It grows by components, ``added`` at most, until what is unexplained of the points' weight is
    not worth one. Expectation maximisation takes ``steps`` at last, ``between`` after every one.
    """
    z, log_p, log_w = _thinned(points, rng)
    w = np.exp(log_w - logsumexp(log_w))
    chart = (blend.chart if blend else model.chart).recut(z, w)
    blend = blend if blend and blend.chart is chart else None
    y = chart.inward(z)
    z, log_p = y, log_p + np.log(chart.folds) + half_square(z) - half_square(y)
    if blend is None:
        mean, cov = moments(z, w, 1.0 / float(np.sum(w * w)))
        if not usable(cov):  # of one point, say
            wide = 2.0 * (logz - float(log_p.max())) / z.shape[1] - 2.0 * LOG_SQRT_2PI
            cov = np.exp(wide) * np.eye(z.shape[1])
        blend = Blend(model, np.ones(1), mean[None], cov[None], policy, chart)
    else:
        blend = _moved(blend, z, w, between)
    for _ in range(min(added, policy.components - blend.size)):
        rest = w * unexplained(log_sum(blend.log_shares(z)), log_p, logz)
        if rest.sum() < policy.unexplained:
            break
        new = _local(blend, z, rest / rest.sum(), logz + np.log(rest.sum()) - log_p, rng)
        if new is None:
            break
        share = min(float(rest.sum()), 0.9)
        blend = blend.with_more(np.array([share]), new[0][None], new[1][None])
        blend = _moved(blend, z, w, between)
    return _moved(blend, z, w, steps)


def _thinned(
    points: tuple[Array, Array, Array], rng: np.random.Generator, most: int = 2**12
) -> tuple[Array, Array, Array]:
    """Points of some weight; for the same weights ``most`` of them where they are more."""
    z, log_p, log_w = points
    some = np.flatnonzero(log_w >= log_w.max() - 25.0)
    if some.size > most:
        w = np.exp(log_w[some] - logsumexp(log_w[some]))
        chosen, times = np.unique(systematic(w, rng, most), return_counts=True)
        return z[some[chosen]], log_p[some[chosen]], np.log(times)
    return z[some], log_p[some], log_w[some]


def _moved(blend: Blend, z: Array, w: Array, steps: int, nothing: float = 1e-4) -> Blend:
    """Steps of expectation maximisation; components with next to ``nothing`` of the points are
    left out, and those that few points tell of keep their shape. (With 1e-3 a lattice of hundreds
    of modes lost those that climbs had found, and its weights were never even.)"""
    rounding = 1e-15  # of a component's points: what has less is nothing to it
    d = z.shape[1]
    for _ in range(steps):
        shares = np.exp(blend.log_parts(z)) * w[:, None]
        total = shares.sum(axis=0)
        worth = total**2 / np.maximum((shares * shares).sum(axis=0), 1e-300)
        kept = np.flatnonzero(total > nothing)
        if not kept.size:
            return blend
        told = np.flatnonzero(worth[kept] > _SHAPED * d)
        means, covs = blend.means[kept], blend.covs[kept]
        new, shapes = means[told], covs[told]
        for i, k in enumerate(kept[told]):
            own = np.flatnonzero(shares[:, k] > rounding * total[k])
            new[i], shapes[i] = moments(z[own], shares[own, k] / total[k], worth[k])
        fine = all_usable(shapes)
        means[told[fine]], covs[told[fine]] = new[fine], shapes[fine]
        blend = replace(blend, weights=total[kept] / total[kept].sum(), means=means, covs=covs)
    return blend


def _local(
    blend: Blend, z: Array, w: Array, log_volume: Array, rng: np.random.Generator,
    part: float = 0.3, steps: int = 5,
) -> tuple[Array, Array] | None:  # fmt: skip
    """Mean and covariance of one lump of weighted points: it competes with one for all of them,
    and begins as the ``part`` of them that is nearest to one.

    Few points tell where it is, and not its shape: it has that of the nearest Gaussian, and at
    most its part of the volume that they would all fill at the height of this one.
    """
    worth, lone = 1.0 / float(np.sum(w * w)), int(rng.choice(len(z), p=w))
    seed, d = z[lone], z.shape[1]
    if worth < _SHAPED * d:
        cov = blend.covs[blend.log_shares(seed[None])[0].argmax()]
        wide = d * LOG_SQRT_2PI + 0.5 * float(np.linalg.slogdet(cov)[1])
        smaller = float(log_volume[lone]) - np.log(worth) - wide
        return seed, np.exp(min(2.0 * smaller / d, 0.0)) * cov
    whole = found = moments(z, w, worth)
    if not usable(whole[1]):
        return None
    root = np.linalg.inv(np.linalg.cholesky(whole[1]))
    away = ((z - seed) @ root.T) ** 2
    order = np.argsort(away.sum(axis=1))
    near = np.zeros(len(z))
    first = order[: max(int(np.searchsorted(np.cumsum(w[order]), part)) + 1, 2)]
    near[first] = w[first]
    for _ in range(steps):
        share = near.sum()
        worth = share**2 / np.sum(near * near)
        mean, cov = moments(z, near / share, worth)
        if worth < _SHAPED or not usable(cov):
            break
        found = mean, cov
        weights = np.array([1.0 - min(share, 0.99), share])
        means, covs = (np.stack(pair) for pair in zip(whole, found, strict=True))
        log_shares = replace(blend, weights=weights, means=means, covs=covs).log_shares(z)
        near = w * np.exp(log_shares[:, 1] - np.logaddexp(*log_shares.T))
        if not near.sum() > 1e-6:
            return whole
    return found
