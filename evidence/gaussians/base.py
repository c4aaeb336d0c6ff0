r"""The contract of a Gaussian prior times Gaussian sites.

A prior :math:`x \sim N(m, K)` times sites :math:`t_n(x_n) = \exp(c_n + \nu_n x_n - \tau_n
x_n^2/2)` is, up to its normaliser, :math:`q(x) = N(\mu, \Sigma)` with

.. math:: \Sigma^{-1} = K^{-1} + T,\quad T = \mathrm{diag}(\tau),\quad b = \nu - \tau m,\quad
          a = K^{-1}(\mu - m) = \nu - \tau\mu,\quad
          R = K^{-1} - K^{-1}\Sigma K^{-1} = (K + T^{-1})^{-1}.

A :class:`Prior` makes a :class:`Gaussian` from ν and τ; whoever fits, corrects, differentiates,
draws or predicts asks these two classes and does not know how K is stored: as a matrix
(:mod:`.dense`), by a sparse precision, or as a Markov chain.

Where K is no matrix, what the likelihoods see are predictors :math:`\eta = A u + o` of latent
values u with a sparse A; then x above is η, and :math:`K = A\,\mathrm{cov}(u)A^T` may be singular.

It does not know likelihoods, and it chooses no sites: :mod:`evidence.approximations` does.

Reference: C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning (2006),
section 3.6.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..numerics.arrays import Array, Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from .blocks import BlockGaussian, BlockSites


class Sites(NamedTuple):
    """Parameters of the N site functions exp(c + ν x - τ x²/2)."""

    c: Array
    nu: Array
    tau: Array


class NotPositiveDefinite(ArithmeticError):
    """K⁻¹ + diag(τ) is not positive definite (only negative τ can do this)."""


class Prior(ABC):
    """x ~ N(m, K)."""

    mean: Array
    """m, shape (N,)."""

    covariance: Array | None = None
    """K, where it exists as a matrix."""
    chol: Array | None = None
    """Its lower Cholesky factor."""

    design: csr_array | None = None
    """A, shape (N, n), where x = A u + o; None where x itself is drawn."""

    offset: Array
    """o, shape (N,), where there is such a design."""

    def predictors(self, u: Array) -> Array:
        """A u + o of rows of latent values; these themselves where there is no design."""
        if self.design is None:
            return u
        return np.ascontiguousarray((self.design @ np.asarray(u).T).T) + self.offset

    @property
    def work(self) -> float:
        """Operations of :meth:`with_sites` and of what EP asks of it, roughly."""
        return 2.5 * float(self.mean.size) ** 3

    @property
    def memory(self) -> float:
        """Bytes that EP needs at its largest, roughly."""
        return 80.0 * float(self.mean.size) ** 2

    @property
    @abstractmethod
    def variances(self) -> Array:
        """diag K, shape (N,)."""

    @abstractmethod
    def with_sites(self, nu: Array, tau: Array, reuse: Gaussian | None = None) -> Gaussian:
        """q for these sites; the memory of ``reuse``, of no use afterwards, is taken where it can.

        Raises :class:`~evidence.gaussians.base.NotPositiveDefinite` where there is no such q.
        """

    def with_blocks(self, sites: BlockSites) -> BlockGaussian:
        """The same for sites that see several values."""
        from .blocks import BlockGaussian

        return BlockGaussian(self, sites)

    def turned(self, R: Array) -> Prior:
        r"""The prior of :math:`R_n^T (x_n - m_n)`, for data of P values each: x is (P, N),
        R (N, P, P).

        With columns R_n that are orthonormal, a site of several values, of curvature
        :math:`R_n \mathrm{diag}(τ_n) R_n^T`, is P sites of one.
        """
        raise NotImplementedError(f"{type(self).__name__} has no data of several values")

    @abstractmethod
    def times(self, v: Array) -> Array:
        """K v, v of shape (N,)."""

    @abstractmethod
    def solve(self, v: Array) -> Array:
        """K⁻¹ v, v of shape (N,) or (N, J)."""

    @abstractmethod
    def log_density(self, x: Array) -> Array:
        """log N(x; m, K) of every row of ``x``, shape (M, N)."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Array:
        """One x ~ N(m, K)."""

    def explained(self, cross: Array) -> Array:
        """kᵀK⁻¹k of every row k of ``cross`` (B, N): prior variance that x itself takes away."""
        return np.einsum("bn,nb->b", cross, self.solve(cross.T))


class Gaussian(ABC):
    """q = N(μ, Σ), the normalised product of a prior and its sites."""

    prior: Prior
    nu: Array
    tau: Array

    @property
    @abstractmethod
    def mean(self) -> Array:
        """μ, shape (N,)."""

    @property
    @abstractmethod
    def dual(self) -> Array:
        """a = K⁻¹(μ - m), so that μ = m + K a, without cancellation where sites are strong."""

    @property
    @abstractmethod
    def variances(self) -> Array:
        """diag Σ, shape (N,)."""

    @property
    @abstractmethod
    def half_logdet(self) -> float:
        """½ log|I + K T|."""

    def squares(self, y: Array) -> float:
        """(y - m)ᵀ R (y - m) where sites are data y with noise, ν = τ y."""
        return float((y - self.prior.mean) @ self.dual)

    @property
    def lost(self) -> float:
        """About how many nats of :attr:`half_logdet` are rounding."""
        return 0.0

    @abstractmethod
    def inner_times(self, v: Array) -> Array:
        """R v, v of shape (N,) or (N, J)."""

    def explained(self, cross: Array) -> Array:
        """kᵀRk of every row k of ``cross`` (B, N): prior variance that the sites take away."""
        return np.einsum("bn,nb->b", cross, self.inner_times(cross.T))

    @abstractmethod
    def pair_sums(self, kappa: Array) -> Array:
        """Σ_{m<n} κ_lm κ_ln ρ_mn^l for rows l ≥ 3 of ``kappa`` (l, N), ρ the correlations."""

    def pair_errors(self, kappa: Array) -> Array:
        """Standard errors of :meth:`pair_sums`: zero where nothing is drawn or left out."""
        return np.zeros(len(kappa))

    @abstractmethod
    def conditionals(self, order: Indices) -> Conditionals:
        """x one value after the other, in this order or in one that suits the structure better."""

    def response(self, error: float) -> Response | None:
        """How mean and variances answer to other sites, where that costs O(N²) a time at most.

        Means are known up to ``error`` standard deviations.
        """
        return None

    @property
    def latent(self) -> tuple[Array, Array]:
        """Mean and variances of the latent values u, shapes (n,): of x where there is no other."""
        return self.mean, self.variances

    def steps(self) -> Steps:
        """u one value after the other, each a regression on a few before it."""
        raise NotImplementedError(f"{type(self).__name__} has no sparse order of draws")

    def root(self) -> Root:
        """White coordinates of u."""
        from .roots import StepRoot

        return StepRoot(self.steps())

    @property
    def covariance(self) -> Array:
        """Σ as a matrix: for small N, unless it is there anyway."""
        return np.column_stack([self.solve(unit) for unit in np.eye(self.tau.size)])

    def solve(self, v: Array) -> Array:
        """Σ v = K v - K R K v, v of shape (N,)."""
        Kv = self.prior.times(v)
        return Kv - self.prior.times(self.inner_times(Kv))

    def draw(self, rng: np.random.Generator) -> Array:
        """One x ~ q, for τ ≥ 0: a draw from the prior, corrected by its own noisy sites."""
        f = self.prior.draw(rng) - self.prior.mean
        root = np.sqrt(self.tau)
        shift = root * rng.standard_normal(f.size)
        return self.mean + f - self.solve(self.tau * f + shift)

    def log_normaliser(self, c: Array, mean: Array | None = None) -> float:
        r"""log ∫ N(x; m, K) Π t_n(x_n) dx; ``mean`` where μ is known better than from here.

        .. math:: \textstyle\sum_n (c_n + \nu_n m_n - \tau_n m_n^2/2) - \tfrac12 \log|I + K T|
                  + \tfrac12 b^T(\mu - m)
        """
        m = self.prior.mean
        b = self.nu - self.tau * m
        constant = np.sum(c + self.nu * m - 0.5 * self.tau * m * m)
        away = (self.mean if mean is None else mean) - m
        return float(constant - self.half_logdet + 0.5 * b @ away)


class Response(ABC):
    r"""How the moments of q answer to other sites: the mean exactly, variances to first order.

    .. math:: (Σ^{-1} + dT)(μ' - μ) = dν - μ\,dτ,\qquad
              \frac1{Σ'_{ii}} = \frac1{Σ_{ii}} + \frac{\sum_j Σ_{ij}^2\,dτ_j}{Σ_{ii}^2},

    which is exact, too, for a site that changes alone, and where values are nearly the same.
    """

    @abstractmethod
    def __call__(self, d_nu: Array, d_tau: Array) -> tuple[Array, Array]:
        """μ' and the diagonal of Σ', shapes (N,); dτ takes no site beyond its cavity."""


class Conditionals(ABC):
    r"""x in the order in which its values are drawn: :math:`x = \mu + L ε`, L lower triangular.

    Blocks of consecutive values are drawn together: what those before them say of their means,
    and L inside the block. All arrays are in that order, draws are columns.
    """

    order: Indices
    mean: Array

    @property
    @abstractmethod
    def sd(self) -> Array:
        """Diagonal of L, shape (N,); :class:`NotPositiveDefinite` where Σ has no such factor."""

    @abstractmethod
    def means(self, block: slice, eps: Array, values: Array) -> None:
        """Fill ``values[block]`` with E[x_block | x before]; ``eps`` and ``values`` are (N, M)."""

    @abstractmethod
    def inner(self, block: slice) -> Array:
        """L inside the block, shape (B, B), C-contiguous."""

    @abstractmethod
    def times(self, v: Array) -> Array:
        """Σ v for columns of v (N, J)."""

    @abstractmethod
    def colour(self, eps: Array) -> Array:
        """L ε for columns of ε (N, M)."""

    def less(self, shift: Array, onto: Array, drop: Array) -> Conditionals:
        """Mean μ + shift and covariance Σ - onto diag(drop) ontoᵀ, where that is offered."""
        raise NotPositiveDefinite(f"the covariance of {type(self).__name__} cannot be changed")

    def widened(self, scale: Array, noise: Array, shift: Array) -> Conditionals | None:
        """Of scale · x + shift + N(0, noise) instead of x; None where that is not offered."""
        return None


class Root(ABC):
    """u = mean + D z with D Dᵀ the covariance and z ~ N(0, I); arrays are columns."""

    mean: Array
    """Of u, shape (n,)."""

    @abstractmethod
    def draw(self, z: Array) -> Array:
        """D z."""

    @abstractmethod
    def draw_transposed(self, v: Array) -> Array:
        """Dᵀ v."""

    @abstractmethod
    def whiten(self, away: Array) -> Array:
        """A z with D z = away."""


@dataclass(frozen=True, eq=False)
class Steps:
    r"""Latent values in the order in which they are drawn, each a regression on a few before it.

    .. math:: u_k = \mu_k + \sum_{j<k} B_{kj} (u_j - \mu_j) + s_k \xi_k,\qquad \xi_k \sim N(0, 1)

    All arrays are in that order; B is stored by rows (``indptr``, ``indices``, ``weights``).
    """

    order: Indices
    """Which latent value is the k-th, shape (n,)."""
    mean: Array
    sd: Array
    indptr: Indices
    indices: Indices
    weights: Array
    constraint: Constraint | None = None


class Constraint(NamedTuple):
    r"""Linear constraints on u, as constraints on ξ: :math:`\sum_k g_k \xi_k = b`, J of them.

    Given the values before, :math:`\xi_k \sim N(h_k^T b, s_k^2)`, with b what is left of it:
    :math:`g_k \xi_k` is subtracted after every draw.
    """

    g: Array
    """Shape (n, J)."""
    h: Array
    """Shape (n, J)."""
    sd: Array
    """Shape (n,); zero where the constraints leave no freedom."""
    rest: Array
    """b before the first draw, shape (J,)."""
