r"""The contract for a sparse precision Q of latent values, seen through a sparse design A.

.. math:: u \sim N(m, Q^{-1}),\quad \eta = A u + o,\quad P = Q + A^T T A,\quad
          \Sigma = A P^{-1} A^T ,

with P = L Lᵀ from :mod:`evidence.numerics.sparse`: a factorisation, and the entries of P⁻¹ on
the pattern of P, are all that EP needs; draws go through the columns of L backwards.

*Constraints* C u = r, and the null space of an intrinsic Q, are low-rank changes of a positive
definite B = P + ε E Eᵀ, where E picks one latent value for every null vector ("ground"):

.. math:: \Sigma_C = B^{-1} - V (C V)^{-1} V^T,\ V = B^{-1} C^T;\qquad
          P^{-1} = \Sigma_C + W (I/ε - E^T \Sigma_C E)^{-1} W^T,\ W = \Sigma_C E .

The density is that on the set C u = r: nothing depends on ε, nor on how C is scaled.

References: K. Takahashi, J. Fagan and M. S. Chin, PICA (1973); H. Rue and L. Held, Gaussian
Markov Random Fields (2005), chapters 2 and 3.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array

from ..execution.clock import check_interrupt
from ..messages import InputError
from ..numerics.arrays import Array, Indices
from ..numerics.jit import jit, light_jit, vector_loop
from ..numerics.sparse import Analysis, Factor, analyse
from .base import Conditionals, Constraint, Gaussian, NotPositiveDefinite, Prior, Root, Steps
from .blocks import combined

_BATCH = 64  # columns that are solved for at a time
_PAIRS = 4e9  # operations that sums over pairs may take
_SINGULAR = 1e-9  # of a covariance relative to its prior's, below which there is none
_HOLD = 1e-5  # of a latent value's precision, by which the ground holds it
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Pattern:
    """What is known of P before its numbers: order, places, and how sites enter.

    Numbers of P, of L and of P⁻¹ are all in the flat storage of the analysis.
    """

    analysis: Analysis
    touched: Indices
    """Places that sites change."""
    counts: Array
    """How often an entry of a symmetric matrix is at each of these: once on the diagonal, or
    twice."""
    pairs: csc_array
    """Of every row of A, a column, the products of its pairs of entries, each with those up to
    itself, at places that are touched: one triangle of a aᵀ."""

    @classmethod
    def of(
        cls, Q: csc_array, A: csr_array, null: Array | None = None, many: float = 16.0
    ) -> Pattern:
        """Symbolic work, once for all values that Q and τ may have.

        Latent values that hold a null vector are eliminated at the very end, after those that
        very many data see: ``many`` times as many as see the average one.
        """
        n = Q.shape[0]
        seen = csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)
        ones = csc_array((np.ones(Q.nnz), Q.indices, Q.indptr), shape=(n, n))
        counts = np.bincount(A.indices, minlength=n)
        shared = np.flatnonzero(counts > many * max(A.nnz / n, 2.0))
        held = _held(null)
        last = np.concatenate([np.setdiff1d(shared if shared.size < n else [], held), held])
        matrix = csc_array(ones + seen.T @ seen + eye_array(n, format="csc"))
        return cls.upon(analyse(matrix, last=last.astype(np.int64)), A)

    @classmethod
    def upon(cls, analysis: Analysis, A: csr_array) -> Pattern:
        """Where A's rows enter a matrix that was analysed."""
        ends = _pairs_until(A)
        first, second, products = _pairs(ends[-1], A.indptr, A.indices, A.data)
        places, touched = analysis.locate(first, second), np.zeros(analysis.size, bool)
        touched[places] = True
        columns = products, (np.cumsum(touched) - 1)[places], ends
        counts = np.full(analysis.size, 2.0)
        counts[analysis.diagonal] = 1.0
        pairs = csc_array(columns, shape=(touched.sum(), A.shape[0]))
        return cls(analysis, np.flatnonzero(touched), counts[touched], pairs)

    def turned(self, A: csr_array, J: int) -> Pattern:
        """Of another design with J rows for each of the first N, at the same places."""
        ends = _pairs_until(A)
        *_, products = _pairs(ends[-1], A.indptr, A.indices, A.data)
        columns = products, np.tile(self.pairs.indices[: ends[-1] // J], J), ends
        return replace(self, pairs=csc_array(columns, shape=(self.touched.size, A.shape[0])))

    @property
    def memory(self) -> float:
        """Bytes that EP needs at its largest, roughly."""
        each = 400.0  # bytes of vectors that EP makes on the way, for every latent value and datum
        data = self.pairs.shape[1]
        sites = 14.0 * 8.0 * 2.0 * data  # what Anderson's extrapolation remembers
        vectors = each * (self.analysis.n + data)
        return float(2.0 * self.analysis.memory + 16.0 * self.pairs.nnz + sites + vectors)

    def with_sites(self, prior: Array, tau: Array | None) -> Array:
        """The numbers of P from those of Q."""
        out = prior.copy()
        if tau is not None:
            out[self.touched] += self.pairs @ tau
        return out

    def quadratic(self, selected: Array) -> Array:
        """aᵢᵀ P⁻¹ aᵢ for every row of A, from the selected inverse."""
        return np.asarray((self.counts * selected[self.touched]) @ self.pairs)


class SparsePrior(Prior):
    """η = A u + o with u ~ N(m, Q⁻¹), given C u = r where there are constraints."""

    design: csr_array

    def __init__(
        self, latent_mean: Array, numbers: Array, design: csr_array, offset: Array,
        pattern: Pattern, constraints: tuple[Array, Array] | None = None,
        null: Array | None = None, factor: Factor | None = None,
    ) -> None:  # fmt: skip
        """``numbers`` are those of Q in the storage of ``pattern``; its factor may be known."""
        self.design, self.offset, self.pattern = design, offset, pattern
        self.C = np.zeros((0, latent_mean.size)) if constraints is None else constraints[0]
        held = _held(null)
        at = pattern.analysis.diagonal[held]
        strength = _HOLD * np.where(numbers[at] == 0.0, 1.0, numbers[at])
        self.ground = dict(zip(held.tolist(), strength.tolist(), strict=True))
        #: of B without sites
        self.numbers = numbers
        numbers[at] += strength
        self.base = Solved(self, None, factor)
        #: by which constraints move the mean
        self.forced = np.zeros(latent_mean.size)
        if constraints is not None:
            self.forced = self.base.kriged(constraints[1] - self.C @ latent_mean)
        self.latent_mean = latent_mean + self.forced
        self.mean = design @ self.latent_mean + offset

    @property
    def rounding(self) -> float:
        """About how many nats of log |Q| are rounding: a pivot is what subtraction leaves of a
        diagonal entry. None are told of where the ground holds null vectors."""
        whole = self.numbers[self.pattern.analysis.diagonal]
        lost = float(0.5 * _EPS * np.sum(whole / self.base.factor.roots**2))
        return 0.0 if self.ground else lost

    @property
    def work(self) -> float:
        analysis = self.pattern.analysis
        return 6.0 * analysis.flops + 100.0 * analysis.nnz + 200.0 * self.mean.size

    @property
    def memory(self) -> float:
        return self.pattern.memory

    @property
    def variances(self) -> Array:
        return self.base.variances

    def with_sites(self, nu: Array, tau: Array, reuse: Gaussian | None = None) -> SparseGaussian:
        return SparseGaussian(self, nu, tau)

    def turned(self, R: Array) -> SparsePrior:
        """Where all P rows of a datum have the same places (:func:`padded`), R (N, P, J)."""
        (N, P, J), A = R.shape, self.design
        first = A.indptr[: N + 1]
        rows = np.repeat(np.arange(N), np.diff(first))
        data = np.einsum("kpj,pk->jk", R[rows], A.data.reshape(P, -1)).ravel()
        ends = [first[1:] + j * rows.size for j in range(J)]
        indptr = np.concatenate([first[:1], *ends])
        out = copy.copy(self)
        shape = (J * N, A.shape[1])
        out.design = csr_array((data, np.tile(A.indices[: rows.size], J), indptr), shape=shape)
        out.offset = combined(R, self.offset - self.mean)
        out.mean = np.zeros(J * N)
        out.pattern = self.pattern.turned(out.design, J)
        out.base = Solved(out, None, self.base.factor)
        return out

    def times(self, v: Array) -> Array:
        return self.design @ self.base.solve(self.design.T @ v)

    def solve(self, v: Array) -> Array:
        raise NotImplementedError("predictors of a sparse prior may have a singular covariance")

    def log_density(self, x: Array) -> Array:
        raise NotImplementedError("predictors of a sparse prior may have no density")

    def log_latent(self, u: Array) -> Array:
        """log density of rows of latent values: on the set C u = r, if there is one."""
        log_2pi = float(np.log(2.0 * np.pi))
        free = u.shape[1] - len(self.C)
        volume = 0.5 * np.linalg.slogdet(self.C @ self.C.T)[1]
        square = self.latent_squares((u - self.latent_mean).T)
        return self.base.half_logdet - volume - 0.5 * (square + free * log_2pi)

    def latent_squares(self, away: Array) -> Array:
        """vᵀ Q v of columns v."""
        square = np.sum(self.base.factor.half_product(away) ** 2, axis=0)
        for k, strength in self.ground.items():
            square -= strength * away[k] ** 2
        return square

    def draw_latent(self, z: Array) -> Array:
        """Columns of latent values from columns of normals."""
        return self.latent_mean[:, None] + self.base.draw(z)

    def draw(self, rng: np.random.Generator) -> Array:
        u = self.draw_latent(rng.standard_normal((self.latent_mean.size, 1)))
        return self.design @ u[:, 0] + self.offset

    def explained(self, cross: Array) -> Array:
        raise NotImplementedError("new points of a sparse prior are rows of its design")


class SparseGaussian(Gaussian):
    """q for sites of any sign, as far as there is one."""

    prior: SparsePrior

    def __init__(self, prior: SparsePrior, nu: Array, tau: Array) -> None:
        self.prior, self.nu, self.tau = prior, nu, tau
        self.solved = Solved(prior, tau)

    @cached_property
    def latent_mean(self) -> Array:
        """E[u]."""
        prior = self.prior
        b = self.nu - self.tau * prior.mean
        return prior.latent_mean + self.solved.solve(prior.design.T @ b)

    @cached_property
    def mean(self) -> Array:
        return self.prior.design @ self.latent_mean + self.prior.offset

    @property
    def dual(self) -> Array:
        return self.nu - self.tau * self.mean

    @property
    def variances(self) -> Array:
        return self.solved.variances

    @property
    def latent(self) -> tuple[Array, Array]:
        return self.latent_mean, self.solved.latent_variances

    @property
    def half_logdet(self) -> float:
        return self.solved.half_logdet - self.prior.base.half_logdet

    def along(self, Q: csc_array) -> float:
        r"""½ tr[(E_p - E_q)(u - m)(u - m)ᵀ Q], p being the prior: how log Z at fixed sites changes
        with its precision, in the direction of Q, whose pattern is that precision's."""
        prior = self.prior
        numbers = 2.0 * prior.pattern.analysis.assemble(Q)[: prior.pattern.analysis.size]
        numbers[prior.pattern.analysis.diagonal] *= 0.5
        moved = prior.forced, self.latent_mean - prior.latent_mean + prior.forced
        of_prior, of_q = (
            solved.contracted(Q, numbers) + away @ (Q @ away)
            for solved, away in zip((prior.base, self.solved), moved, strict=True)
        )
        return 0.5 * float(of_prior - of_q)

    def squares(self, y: Array) -> float:
        """The least squares of data and prior, in which an error of their solution is squared."""
        away = (self.latent_mean - self.prior.latent_mean)[:, None]
        return float(self.tau @ (y - self.mean) ** 2 + self.prior.latent_squares(away)[0])

    @property
    def lost(self) -> float:
        """By a change of the entries of P in their last digits."""
        prior = self.prior
        numbers = prior.pattern.with_sites(prior.numbers, self.tau)
        diagonal = numbers[prior.pattern.analysis.diagonal]
        return 0.5 * _EPS * float(diagonal @ self.solved.latent_variances)

    def solve(self, v: Array) -> Array:
        return self.prior.design @ self.solved.solve(self.prior.design.T @ v)

    def inner_times(self, v: Array) -> Array:
        tau = self.tau if v.ndim == 1 else self.tau[:, None]
        return tau * (v - self.solve(tau * v))

    def draw_latent(self, z: Array) -> Array:
        """Columns of latent values from columns of normals."""
        return self.latent_mean[:, None] + self.solved.draw(z)

    def draw(self, rng: np.random.Generator) -> Array:
        u = self.draw_latent(rng.standard_normal((self.latent_mean.size, 1)))
        return self.prior.design @ u[:, 0] + self.prior.offset

    def root(self) -> Root:
        self.solved.mean = self.latent_mean
        return self.solved

    def row_variances(self, A: csr_array) -> Array:
        """Variances of A u for other rows."""
        out = np.empty(A.shape[0])
        for start in range(0, out.size, _BATCH):
            own = slice(start, start + _BATCH)
            out[own] = np.sum(self.solved.draw_transposed(A[own].toarray().T) ** 2, axis=0)
        return out

    def pair_sums(self, kappa: Array) -> Array:
        r"""Along the tree where the graph is one, or by columns of Σ, a batch at a time, where N
        solves are cheap; else by draws of q.

        With :math:`F_l = \sum_i \kappa_{li} He_l(u_i)/\sqrt{l!}` of standardised predictors,
        :math:`E_q F_l^2 = \sum_{ij} \kappa_{li} \kappa_{lj} \rho_{ij}^l`.
        """
        if self._is_tree:
            return self._pairs_of_tree(kappa)
        if not self._drawn_pairs:
            return self._all_pairs(kappa)
        return self._pairs_of_draws(kappa).mean(axis=1)

    def pair_errors(self, kappa: Array) -> Array:
        if self._is_tree or not self._drawn_pairs:
            return np.zeros(len(kappa))
        pairs = self._pairs_of_draws(kappa)
        return pairs.std(axis=1, ddof=1) / np.sqrt(pairs.shape[1])

    @property
    def _drawn_pairs(self) -> bool:
        N = float(self.tau.size)
        return N * (4.0 * self.prior.pattern.analysis.nnz + 12.0 * N) > _PAIRS

    @property
    def _is_tree(self) -> bool:
        """Whether every latent value is drawn from one other, and every datum sees one."""
        prior = self.prior
        n, seen = self.latent_mean.size, np.diff(prior.design.indptr)
        if self.solved.changes or prior.pattern.analysis.nnz >= 2 * n or seen.max() > 1:
            return False
        return bool(np.diff(self.solved.factor.columns()[0]).max() <= 2)

    def _pairs_of_tree(self, kappa: Array) -> Array:
        """Correlations are products of those of neighbours: from the leaves to the roots, O(n)."""
        steps, A = self.steps(), self.prior.design
        powers = np.arange(len(kappa))[:, None]
        signed = kappa * np.sign(A.data) ** powers
        pooled = np.array([np.bincount(A.indices, row, steps.order.size) for row in signed])
        out = 0.5 * (np.sum(pooled**2, axis=1) - np.sum(kappa**2, axis=1))  # of equal latents
        out[:3] = 0.0
        sd = np.sqrt(self.solved.latent_variances)[steps.order]
        child = np.repeat(np.arange(sd.size), np.diff(steps.indptr))
        rho = steps.weights * sd[steps.indices] / sd[child]
        _climb_tree(child, steps.indices, rho, pooled[:, steps.order].T.copy(), out)
        return out

    def _pairs_of_draws(self, kappa: Array, fewest: int = 64, most: int = 1024) -> Array:
        """Unbiased for the sums, shape (len(kappa), draws), from ``fewest`` to ``most`` draws, the
        same every time."""
        A, n = self.prior.design, self.latent_mean.size
        scale = 1.0 / np.sqrt(self.variances)
        cost = 4.0 * self.prior.pattern.analysis.nnz + 20.0 * A.nnz + 100.0 * scale.size
        M = int(np.clip(_PAIRS / cost, fewest, most)) // _BATCH * _BATCH
        rng, sums = np.random.default_rng(0), np.zeros((len(kappa), M))
        for start in range(0, M, _BATCH):
            check_interrupt(_BATCH * cost)
            u = self.solved.draw(rng.standard_normal((n, _BATCH)))
            part = np.zeros((len(kappa), _BATCH))
            _hermite_sums(A.indptr, A.indices, A.data, scale, kappa, u, part)
            sums[:, start : start + _BATCH] = part
        orders = np.array([math.factorial(l) for l in range(len(kappa))])
        own = np.sum(kappa**2, axis=1)
        return 0.5 * (sums**2 / orders[:, None] - own[:, None])

    def _all_pairs(self, kappa: Array) -> Array:
        A, scale = self.prior.design, 1.0 / np.sqrt(self.variances)
        out, N = np.zeros(len(kappa)), scale.size
        for start in range(0, N, _BATCH):
            check_interrupt()
            own = slice(start, min(start + _BATCH, N))
            columns = A @ self.solved.solve(np.asarray(A[own].T.todense()))
            rho = columns * scale[:, None] * scale[own]
            rho[np.arange(own.start, own.stop), np.arange(own.stop - own.start)] = 0.0
            power = rho * rho
            for l in range(3, len(kappa)):
                power *= rho
                out[l] += 0.5 * float(kappa[l] @ power @ kappa[l, own])
        return out

    def conditionals(self, order: Indices) -> Conditionals:
        raise NotPositiveDefinite("values of a sparse prior are drawn in steps")

    def steps(self) -> Steps:
        """The base of low-rank changes, in the order of elimination reversed."""
        solved, analysis = self.solved, self.prior.pattern.analysis
        indptr, indices, weights, sd = _reversed_rows(*solved.factor.columns())
        order, given = analysis.order[::-1].copy(), solved.constraint()
        return Steps(order, self.latent_mean[order], sd, indptr, indices, weights, given)

    @property
    def loosened(self) -> tuple[Array, float]:
        """ε of every latent value in :meth:`steps` that q does not have, and log E[exp(½ε d²)].

        Draws are of B, q is N(μ, P⁻¹) with P = B - ε E Eᵀ.
        """
        extra = np.zeros(self.latent_mean.size)
        extra[list(self.prior.ground)] = list(self.prior.ground.values())
        return extra, self.solved.log_loosening


class Solved(Root):
    """B factorised, and the low-rank changes that make it P given the constraints."""

    def __init__(
        self, prior: SparsePrior, tau: Array | None, factor: Factor | None = None
    ) -> None:
        self.prior, pattern = prior, prior.pattern
        try:
            self.factor = factor or Factor.of(
                pattern.analysis, pattern.with_sites(prior.numbers, tau)
            )
        except np.linalg.LinAlgError:
            raise NotPositiveDefinite("a pivot of P is not positive") from None
        self.half_logdet, self.log_loosening = self.factor.half_logdet, 0.0
        #: P⁻¹ = B⁻¹ + Σ U S Uᵀ
        self.changes: list[tuple[Array, Array]] = []
        if len(prior.C):
            self.V = self.factor.solve(np.ascontiguousarray(prior.C.T))
            inner = prior.C @ self.V
            self.inner = 0.5 * (inner + inner.T)
            self.changes.append((self.V, np.asarray(-np.linalg.inv(self.inner), float)))
            self.half_logdet += 0.5 * float(np.linalg.slogdet(self.inner)[1])
        if prior.ground:
            self._loosen(np.array(list(prior.ground)), np.array(list(prior.ground.values())))

    def _loosen(self, at: Indices, strength: Array) -> None:
        """Take the ground away again."""
        E = np.zeros((self.prior.pattern.analysis.n, at.size))
        E[at, np.arange(at.size)] = 1.0
        W = self.solve(E)
        rest = np.diag(1.0 / strength) - W[at]
        scaled = strength * rest
        values = np.linalg.eigvalsh(0.5 * (scaled + scaled.T) if at.size > 1 else scaled)
        if values[0] <= _SINGULAR:
            raise NotPositiveDefinite("constraints leave some direction without a prior")
        self.changes.append((W, np.asarray(np.linalg.inv(rest), float)))
        self.log_loosening = -0.5 * float(np.linalg.slogdet(scaled)[1])
        self.half_logdet -= self.log_loosening

    def solve(self, v: Array) -> Array:
        """P⁻¹ v."""
        out = self.factor.solve(v)
        for U, S in self.changes:
            out += U @ (S @ (U.T @ v))
        return out

    def draw(self, z: Array) -> Array:
        """Columns D z of N(0, P⁻¹) from columns of normals, D Dᵀ = P⁻¹."""
        out = self.factor.half_solve_transposed(z)
        if len(self.prior.C):
            out -= self.V @ np.linalg.solve(self.inner, self.prior.C @ out)
        if self.prior.ground:
            out += self.changes[-1][0] @ (self._stretch @ out[list(self.prior.ground)])
        return out

    def draw_transposed(self, v: Array) -> Array:
        """Dᵀ v for columns."""
        v = np.array(v, order="C")
        if self.prior.ground:
            np.add.at(v, list(self.prior.ground), self._stretch.T @ (self.changes[-1][0].T @ v))
        if len(self.prior.C):
            v -= self.prior.C.T @ np.linalg.solve(self.inner, self.V.T @ v)
        return self.factor.half_solve(v)

    def whiten(self, away: Array) -> Array:
        """Some z with D z = away, for columns."""
        if self.prior.ground:
            W, at = self.changes[-1][0], list(self.prior.ground)
            shorter = np.eye(len(at)) + W[at] @ self._stretch
            away = away - W @ (self._stretch @ np.linalg.solve(shorter, away[at]))
        return self.factor.half_product(away)

    @cached_property
    def _stretch(self) -> Array:
        """G, such that u + W G Eᵀu has the covariance Σ_C + W S Wᵀ for u ~ N(0, Σ_C).

        With e = Eᵀu ~ N(0, R Rᵀ) that is W K⁻¹ e and a rest, K = R Rᵀ: e becomes F R⁻¹ e, where
        F Fᵀ = K + K S K.
        """
        (W, S), at = self.changes[-1], list(self.prior.ground)
        K = W[at]
        root, more = np.linalg.cholesky(K), np.linalg.cholesky(K + K @ S @ K)
        stretch = np.linalg.solve(K, more @ np.linalg.inv(root) - np.eye(len(at)))
        return np.asarray(stretch, float)

    def kriged(self, wrong: Array) -> Array:
        """The change of the mean that mends C u by so much."""
        out = self.V @ np.linalg.solve(self.inner, wrong)
        if self.prior.ground:
            W, S = self.changes[-1]
            out += W @ (S @ out[list(self.prior.ground)])
        return out

    @cached_property
    def _selected(self) -> Array:
        return self.factor.selected()

    @cached_property
    def latent_variances(self) -> Array:
        """diag P⁻¹."""
        out = self._selected[self.prior.pattern.analysis.diagonal]
        for U, S in self.changes:
            out = out + np.einsum("nj,jk,nk->n", U, S, U)
        return out

    def contracted(self, Q: csc_array, numbers: Array) -> float:
        """tr P⁻¹Q, of which ``numbers`` has every entry of one triangle and the other."""
        changed = sum(np.sum((Q @ U) * (U @ S)) for U, S in self.changes)
        return float(self._selected @ numbers + changed)

    @cached_property
    def variances(self) -> Array:
        """diag A P⁻¹ Aᵀ."""
        return self.variances_of(self.prior)

    def variances_of(self, prior: SparsePrior) -> Array:
        """The same for the design of another prior of these latent values."""
        out = prior.pattern.quadratic(self._selected)
        for U, S in self.changes:
            AU = prior.design @ U
            out += np.einsum("nj,jk,nk->n", AU, S, AU)
        return out

    def constraint(self) -> Constraint | None:
        """C u = r in terms of ξ, in the order of draws."""
        C = self.prior.C
        if not len(C):
            return None
        g = self.factor.half_solve(np.ascontiguousarray(C.T))
        scale = 1.0 / np.sqrt(np.sum(g * g, axis=0))
        g *= scale
        h, sd = np.empty_like(g), np.empty(len(g))
        if g.shape[1] == 1:
            sums = np.cumsum(g * g, axis=0)
            h[:] = np.divide(g, sums, out=np.zeros_like(g), where=sums > 0.0)
            sd[:] = np.sqrt(np.maximum(1.0 - (g * h)[:, 0], 0.0))
        else:
            G = np.zeros((len(C), len(C)))
            for k, row in enumerate(g):
                G += np.outer(row, row)
                h[k] = np.linalg.pinv(G, rcond=1e-12, hermitian=True) @ row
                sd[k] = np.sqrt(max(1.0 - row @ h[k], 0.0))
        sd[sd < np.sqrt(_SINGULAR)] = 0.0
        g, h, sd = (np.ascontiguousarray(part[::-1]) for part in (g, h, sd))
        return Constraint(g, h, sd, np.zeros(len(C)))


def _held(null: Array | None) -> Indices:
    """Latent values that are held by the ground, one for each null vector."""
    from scipy.linalg import qr

    if null is None or not null.shape[1]:
        return np.empty(0, np.int64)
    return qr(null.T, mode="r", pivoting=True)[1][: null.shape[1]].astype(np.int64)


def check_constraints(C: Array, null: Array) -> None:
    """Refuse constraints that leave a null vector of Q without a prior."""
    basis = np.linalg.qr(null)[0]
    _, sizes, rows = np.linalg.svd(C @ basis)
    if len(C) >= basis.shape[1] and sizes[-1] > _SINGULAR * np.linalg.norm(C):
        return
    raise InputError(
        "constraints leave a null vector of Q without a prior, "
        f"{null_in_words(basis @ rows[-1])}; every part of a graph that hangs together needs as "
        "many constraints as it has null vectors, for example that its values sum to zero"
    )


def null_in_words(v: Array, told: int = 4, alike: float = 1e-6) -> str:
    """What a null vector looks like: constant, if its entries are this much ``alike``, or how it
    begins, by so many of them as are ``told``."""
    where = np.flatnonzero(np.abs(v) > _SINGULAR * np.abs(v).max())
    v = v[where] / v[where[np.argmax(np.abs(v[where]))]]
    first = ", ".join(f"{value:.3g}" for value in v[:told])
    how = "constant" if np.ptp(v) < alike else f"({first}{', …' * (v.size > told)})"
    return f"{how} on {where.size} latent values from number {where[0]} on"


@vector_loop
def _hermite_sums(indptr, indices, data, scale, kappa, u, sums):
    """Σ_i κ_li He_l(u_i) for l ≥ 3 and every column of latent values u, standardised."""
    columns = u.shape[1]
    one, before, here = np.empty(columns), np.empty(columns), np.empty(columns)
    for i in range(scale.size):
        one[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            row, weight = u[indices[p]], data[p] * scale[i]
            for m in range(columns):
                one[m] += weight * row[m]
        for m in range(columns):
            before[m], here[m] = one[m], one[m] * one[m] - 1.0
        for l in range(3, kappa.shape[0]):
            factor, less = kappa[l, i], l - 1.0
            for m in range(columns):
                next_one = one[m] * here[m] - less * before[m]
                before[m], here[m] = here[m], next_one
                sums[l, m] += factor * next_one


@jit
def _climb_tree(child, parent, rho, reached, out):
    """Σ_{i<j} κ_li κ_lj ρ_ij^l, with κ in ``reached``, (n, l), which is what comes from below."""
    for p in range(child.size - 1, -1, -1):
        below, above = reached[child[p]], reached[parent[p]]
        power = rho[p] * rho[p]
        for l in range(3, out.size):
            power *= rho[p]
            out[l] += power * below[l] * above[l]
            above[l] += power * below[l]


@light_jit
def _pairs(total, indptr, indices, data):
    """Of every row of A the pairs of its entries, each with those up to itself: latent values and
    products."""
    first, second = np.empty(total, np.int64), np.empty(total, np.int64)
    products, k = np.empty(total), 0
    for i in range(indptr.size - 1):
        for p in range(indptr[i], indptr[i + 1]):
            for r in range(indptr[i], p + 1):
                first[k], second[k] = indices[p], indices[r]
                products[k] = data[p] * data[r]
                k += 1
    return first, second, products


def padded(designs: list[csr_array]) -> csr_array:
    """Designs of the same data one after the other, with places for zeros where any of them has
    a latent value."""
    N, n = designs[0].shape
    each = [np.repeat(np.arange(N), np.diff(A.indptr)) * n + A.indices for A in designs]
    places = np.unique(np.concatenate(each))
    data = np.zeros((len(designs), places.size))
    for row, A, own in zip(data, designs, each, strict=True):
        row[np.searchsorted(places, own)] = A.data
    ends = np.searchsorted(places, n * np.arange(1, N + 1))
    indptr = np.concatenate([[0], *(ends + k * places.size for k in range(len(designs)))])
    columns = np.tile(places % n, len(designs))
    return csr_array((data.ravel(), columns, indptr), shape=(len(designs) * N, n))


def _pairs_until(A: csr_array) -> Indices:
    """How many pairs of entries all rows before each have, (rows + 1,)."""
    m = np.diff(A.indptr).astype(np.int64)
    return np.concatenate([[0], np.cumsum(m * (m + 1) // 2)])


def _reversed_rows(
    indptr: Indices, indices: Indices, data: Array
) -> tuple[Indices, Indices, Array, Array]:
    """Columns of L as regressions in the reversed order: (indptr, indices, weights, sd)."""
    n, below = indptr.size - 1, np.ones(indices.size, bool)
    pivot, counts = data[indptr[:-1]], np.diff(indptr) - 1
    below[indptr[:-1]] = False
    starts = np.concatenate([[0], np.cumsum(counts[::-1])])
    weights = -data[below] / np.repeat(pivot, counts)
    return starts, n - 1 - indices[below][::-1], weights[::-1].copy(), 1.0 / pivot[::-1]
