r"""The contract for predictors on a line that are seen through a Markov chain of small states.

Times :math:`t_1 < \dots < t_T` have states :math:`s_k \in R^d` (d at most ten or so),

.. math:: s_1 \sim N(0, P_1),\qquad s_{k+1} = F_k s_k + N(0, Q_k),\qquad
          x_n = m_n + e_1^T s_{k(n)},

the first coordinate of a state being what the data there see: :math:`k(n)` is the state of datum
n, and data at equal times share one. Everything is O(T d³). A Kalman filter runs forward, with
:math:`P_k` the covariance of a state given the data before it and :math:`g = P_k e_1`,

.. math:: w = \tau / (1 + \tau g_1),\qquad P_{k+1} = F (P_k - w\, g g^T) F^T + Q,\qquad
          \tfrac12\log|I + K T| = \tfrac12 \sum_k \log(1 + \tau_k g_1),

and variances are collected backward by the smoother's gains
:math:`G = (P_k - w\,g g^T) F^T P_{k+1}^{-1}`. Covariances are used and no precisions, since those
grow like :math:`dt^{-5}` where times nearly meet. τ may be negative while all pivots
:math:`1 + \tau_k g_1` are positive, which is when Σ exists.

Reference: S. Särkkä, Bayesian Filtering and Smoothing (2013), sections 4.3 and 8.2; J. Durbin and
S. J. Koopman, Time Series Analysis by State Space Methods (2012), section 4.5, for K⁻¹(μ - m).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ..messages import InputError
from ..numerics.arrays import Array, Indices
from ..numerics.copies import copy, copy_matrix
from ..numerics.jit import jit
from .base import Conditionals, Gaussian, NotPositiveDefinite, Prior, Steps

_SINGULAR = 1e-14  # of a variance: less than this is left of it where others determine it
_NO_STATES = np.empty((0, 0))


@dataclass(frozen=True, eq=False)
class Chain:
    """States of mean zero, in the order of their times."""

    start: Array
    """Covariance of the first one, shape (d, d)."""
    moves: Array
    """The different F, shape (U, d, d)."""
    noises: Array
    """Their Q."""
    which: Indices
    """Which of them lead to states 2 … T, shape (T - 1,)."""
    state: Indices
    """The state that each datum sees, shape (N,)."""

    @property
    def length(self) -> int:
        """Number of states, T."""
        return self.which.size + 1

    @cached_property
    def pool(self) -> csr_array:
        """Sums over the data of each state, shape (T, N)."""
        n = self.state.size
        return csr_array((np.ones(n), (self.state, np.arange(n))), shape=(self.length, n))

    @cached_property
    def share(self) -> Array:
        """One over the number of data of the state that a datum sees, shape (N,)."""
        return 1.0 / np.bincount(self.state, minlength=self.length)[self.state]

    def filtered(self, tau: Array) -> Array:
        """P_k for all k, shape (T, d, d); τ of every state, infinite where it is known exactly."""
        P = np.empty((self.length, *self.start.shape))
        if not _filter(self.start, self.moves, self.noises, self.which, tau, P):
            raise NotPositiveDefinite("a pivot of the filter is not positive")
        return P

    def predicted(self, P: Array, w: Array, terms: Array) -> tuple[Array, Array]:
        """Innovations (T,) of linear terms that are scaled already, and predictions (T, d)."""
        u, a = terms.copy(), np.empty(P.shape[:2])
        _predict(self.moves, self.which, P, w, u, a)
        return u, a


class MarkovPrior(Prior):
    """Predictors of a chain: x = m + first coordinates."""

    def __init__(self, mean: Array, chain: Chain) -> None:
        self.mean = self.offset = mean
        self.chain = chain

    @cached_property
    def free(self) -> MarkovGaussian:
        """The prior as a q without sites."""
        zero = np.zeros_like(self.mean)
        return MarkovGaussian(self, zero, zero)

    @cached_property
    def design(self) -> csr_array:  # type: ignore[override]
        """Selects the first coordinates among all, state by state."""
        n, d = self.mean.size, len(self.chain.start)
        columns = self.chain.state * d
        return csr_array((np.ones(n), columns, np.arange(n + 1)), shape=(n, self.chain.length * d))

    @property
    def work(self) -> float:
        return 40.0 * self.chain.length * float(len(self.chain.start)) ** 3

    @property
    def memory(self) -> float:
        vectors = 450.0  # bytes of vectors that EP makes on the way, for every datum
        d = len(self.chain.start)
        return vectors * self.mean.size + 8.0 * 5.0 * d * (d + 1) * self.chain.length

    @cached_property
    def variances(self) -> Array:
        return self.chain.filtered(np.zeros(self.chain.length))[self.chain.state, 0, 0]

    def with_sites(self, nu: Array, tau: Array, reuse: Gaussian | None = None) -> MarkovGaussian:
        return MarkovGaussian(self, nu, tau)

    def times(self, v: Array) -> Array:
        return self.free.solve(v)

    @cached_property
    def _exact(self) -> Array:
        """P_k where all predictors before are known exactly."""
        return self.chain.filtered(np.full(self.chain.length, np.inf))

    def solve(self, v: Array) -> Array:
        """K⁻¹ v; where data share states an a with K a = v, for v the same for these data."""
        P, chain = self._exact, self.chain
        w = 1.0 / P[:, 0, 0]

        def solve(v: Array) -> Array:
            u, _ = chain.predicted(P, w, w * (chain.pool @ (chain.share * v)))
            _adjoint(chain.moves, chain.which, P, w, u, _NO_STATES)
            return chain.share * u[chain.state]

        return _by_columns(solve, v)

    def log_density(self, x: Array) -> Array:
        P, chain = self._exact, self.chain
        if chain.length < self.mean.size:
            raise InputError(
                "X has repeated inputs, which share one latent value: without jitter the prior "
                "covariance is singular and has no density; pass jitter=1e-6, for example"
            )
        w = 1.0 / P[:, 0, 0]
        u = [chain.predicted(P, w, w * (chain.pool @ row))[0] for row in x - self.mean]
        return -0.5 * (np.square(u) @ P[:, 0, 0] + np.log(2 * np.pi * P[:, 0, 0]).sum())

    def draw(self, rng: np.random.Generator) -> Array:
        return self.free.draw(rng)


class MarkovGaussian(Gaussian):
    """q for τ of any sign, as far as there is one."""

    prior: MarkovPrior

    def __init__(self, prior: MarkovPrior, nu: Array, tau: Array) -> None:
        self.prior, self.nu, self.tau = prior, nu, tau
        self.chain = prior.chain
        self._tau = self.chain.pool @ tau
        self.filtered = self.chain.filtered(self._tau)
        self._pivots = 1.0 + self._tau * self.filtered[:, 0, 0]
        self._w = self._tau / self._pivots

    def _predicted(self, s: Array) -> tuple[Array, Array]:
        """Innovations and predictions for linear terms s of the data."""
        return self.chain.predicted(self.filtered, self._w, self.chain.pool @ s / self._pivots)

    def _smoothed(self, s: Array) -> Array:
        """How states respond to linear terms s of the data, shape (T, d)."""
        u, states = self._predicted(s)
        _adjoint(self.chain.moves, self.chain.which, self.filtered, self._w, u, states)
        return states

    def _left(self, s: Array) -> Array:
        """s - T Σ s, where digits are not lost unless data share a state."""
        chain = self.chain
        u, _ = self._predicted(s)
        _adjoint(chain.moves, chain.which, self.filtered, self._w, u, _NO_STATES)
        if chain.length == s.size:
            return u[chain.state]
        return np.where(chain.share == 1.0, u[chain.state], s - self.tau * self.solve(s))

    @cached_property
    def _states(self) -> Array:
        """Means of states, less those of the prior."""
        return self._smoothed(self.nu - self.tau * self.prior.mean)

    @cached_property
    def mean(self) -> Array:
        return self.prior.mean + self._states[self.chain.state, 0]

    @cached_property
    def dual(self) -> Array:
        return self._left(self.nu - self.tau * self.prior.mean)

    def squares(self, y: Array) -> float:
        """Of data about their mean at equal times, and of innovations."""
        r = y - self.prior.mean
        apart = r - (self.chain.pool @ (self.tau * r) / self._tau)[self.chain.state]
        u = self._predicted(self.tau * r)[0]
        return float(self.tau @ apart**2 + np.sum(u * u * self._pivots / self._tau))

    @cached_property
    def half_logdet(self) -> float:
        return 0.5 * float(np.log1p(self._tau * self.filtered[:, 0, 0]).sum())

    @cached_property
    def backward(self) -> Backward:
        """Gains and covariances of states given later ones, and given all data."""
        chain, P = self.chain, self.filtered
        out = Backward(np.zeros_like(P), np.empty_like(P), np.empty_like(P))
        _backward(chain.moves, chain.noises, chain.which, self._tau, P, *out)
        return out

    @property
    def variances(self) -> Array:
        return self.backward.V[self.chain.state, 0, 0]

    def solve(self, v: Array) -> Array:
        """Σ v."""
        return self._smoothed(v)[self.chain.state, 0]

    def inner_times(self, v: Array) -> Array:
        return _by_columns(lambda v: self._left(self.tau * v), v)

    def pair_sums(self, kappa: Array, always: int = 2000, pairs: float = 3e8) -> Array:
        """Pairs of data at most ``max(always, pairs / T)`` states apart, nearer where q forgets.

        With :math:`V = L L^T` and :math:`z_j = L_j^{-1} cov(s_j, x_k)/sd(x_k)` one has
        :math:`z_j = (L_j^{-1} G_j L_{j+1}) z_{j+1}`: its first entry is the correlation, its
        norm bounds all correlations of k with j and what is before it.
        """
        pooled = np.ascontiguousarray((self.chain.pool @ kappa.T).T)
        out = 0.5 * ((pooled**2).sum(axis=1) - (kappa**2).sum(axis=1))  # equal times
        out[:3] = 0.0
        M = np.empty_like(self.filtered)
        _normalised(self.backward.G, self.backward.V, M)
        length = self.chain.length
        reach = length if M.shape[1] == 1 else max(always, int(pairs / length))
        _pair_sums(M, pooled, reach, out)
        return out

    def conditionals(self, order: Indices) -> Conditionals:
        raise NotPositiveDefinite("a Markov chain is drawn by its steps")

    def steps(self) -> Steps:
        """From the last time to the first; in a state the predictor comes first.

        Where times nearly meet, the next state tells a predictor but for 1e-8 of its standard
        deviation, or less: that much is left to it.
        """
        G, C, V = self.backward
        length, d = V.shape[:2]
        own = np.tile(np.arange(d), length)
        size = own + d * (np.arange(length * d) >= d)
        indptr = np.concatenate([[0], np.cumsum(size)])
        indices, weights = np.empty(indptr[-1], np.intp), np.empty(indptr[-1])
        sd = np.empty((length, d))
        _regressions(G, C, V, indices, weights, sd)
        order = np.arange(length * d).reshape(length, d)[::-1].ravel()
        mean = self._states.ravel()[order]
        return Steps(order, mean, sd.ravel(), indptr, indices, weights)

    def draw(self, rng: np.random.Generator) -> Array:
        length, d = self.filtered.shape[:2]
        away = self.root().draw(rng.standard_normal((length * d, 1)))
        return self.mean + away[self.chain.state * d, 0]


class Backward(NamedTuple):
    """Of every state: its gain on the next, its covariance given that one, and given the data."""

    G: Array
    C: Array
    V: Array


def _by_columns(function: Callable[[Array], Array], v: Array) -> Array:
    """A function of one vector, for v of shape (N,) or (N, J)."""
    return function(v) if v.ndim == 1 else np.column_stack([function(c) for c in v.T])


# -- compiled: loops over states --------------------------------------------------------------


@jit
def _congruence(A, S, AS, out):
    """``out += A S Aᵀ`` for symmetric S; ``AS`` is filled on the way."""
    d = A.shape[0]
    for i in range(d):
        for j in range(d):
            total = 0.0
            for k in range(d):
                total += A[i, k] * S[k, j]
            AS[i, j] = total
    for i in range(d):
        for j in range(i + 1):
            total = out[i, j]
            for k in range(d):
                total += AS[i, k] * A[j, k]
            out[i, j] = total
            out[j, i] = total


@jit
def _update(P, tau, out):
    """Covariance after a site of its first coordinate; whether there is one."""
    d, p = P.shape[0], P[0, 0]
    pivot = 1.0 + tau * p
    if not (pivot > 0.0 and (p > 0.0 or tau < np.inf)):
        return False
    w = tau / pivot if tau < np.inf else 1.0 / p
    for i in range(d):
        for j in range(1, d):
            out[i, j] = P[i, j] - w * P[i, 0] * P[0, j]
    for i in range(d):
        out[i, 0] = P[i, 0] / pivot
        out[0, i] = out[i, 0]
    return True


@jit
def _filter(start, F, Q, which, tau, P):
    """P_k for all k; False where a pivot is not positive."""
    if start.size == 1:
        return _filter_line(start[0, 0], F[:, 0, 0], Q[:, 0, 0], which, tau, P[:, 0, 0])
    after, scratch = np.empty_like(start), np.empty_like(start)
    for k in range(tau.size):
        if k == 0:
            copy_matrix(start, P[0])
        else:
            copy_matrix(Q[which[k - 1]], P[k])
            _congruence(F[which[k - 1]], after, scratch, P[k])
        if not _update(P[k], tau[k], after):
            return False
    return True


@jit
def _filter_line(start, F, Q, which, tau, P):
    """As :func:`_filter`, of states that are numbers."""
    p = start
    for k in range(tau.size):
        if k > 0:
            move = F[which[k - 1]]
            p = move * move * p + Q[which[k - 1]]
        P[k] = p
        pivot = 1.0 + tau[k] * p
        if not (pivot > 0.0 and (p > 0.0 or tau[k] < np.inf)):
            return False
        p /= pivot
    return True


@jit
def _predict(F, which, P, w, u, a):
    """Forward: predicted states a, and innovations u - w a in place of scaled linear terms u."""
    T, d = a.shape
    after = np.empty(d)
    for k in range(T):
        for i in range(d):
            a[k, i] = 0.0
            if k > 0:
                for j in range(d):
                    a[k, i] += F[which[k - 1], i, j] * after[j]
        u[k] -= w[k] * a[k, 0]
        for i in range(d):
            after[i] = a[k, i] + P[k, i, 0] * u[k]


@jit
def _adjoint(F, which, P, w, u, a):
    """Backward: (I - T Σ) s in place of innovations, by their adjoints r; in place of predicted
    states, where there are any, smoothed ones, a + P r."""
    T, d = P.shape[:2]
    r, old = np.zeros(d), np.empty(d)
    for k in range(T - 1, -1, -1):
        if k < T - 1:
            copy(r, old)
            for i in range(d):
                r[i] = 0.0
                for j in range(d):
                    r[i] += F[which[k], j, i] * old[j]
        later = 0.0
        for i in range(d):
            later += P[k, i, 0] * r[i]
        u[k] -= w[k] * later
        r[0] += u[k]
        for i in range(d if a.size else 0):
            for j in range(d):
                a[k, i] += P[k, i, j] * r[j]


@jit
def _cholesky(A, L, least):
    """Lower factor of A; columns are zero where pivots are not above ``least`` diagonals."""
    d = A.shape[0]
    L[:] = 0.0
    for j in range(d):
        for i in range(j, d):
            total = A[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                if not total > least * A[j, j]:
                    break
                L[j, j] = np.sqrt(total)
            else:
                L[i, j] = total / L[j, j]


@jit
def _solve_lower(L, b):
    """``b = L⁻¹ b`` for columns of b; zero where L has a zero column."""
    d, m = b.shape
    for i in range(d):
        for c in range(m):
            total = b[i, c]
            for k in range(i):
                total -= L[i, k] * b[k, c]
            b[i, c] = total / L[i, i] if L[i, i] > 0.0 else 0.0


@jit
def _backward(F, Q, which, tau, P, G, C, V):
    """Gains, C = (I - G F) P_f (I - G F)ᵀ + G Q Gᵀ and V = C + G V' Gᵀ, which keep their sign."""
    T, d = P.shape[:2]
    if d == 1:
        line = P[:, 0, 0], G[:, 0, 0], C[:, 0, 0], V[:, 0, 0]
        _backward_line(F[:, 0, 0], Q[:, 0, 0], which, tau, *line)
        return
    after, L, B, E = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    for k in range(T - 1, -1, -1):
        _update(P[k], tau[k], after)
        if k == T - 1:
            copy_matrix(after, C[k])
            copy_matrix(after, V[k])
            continue
        move = F[which[k]]
        _cholesky(P[k + 1], L, _SINGULAR)
        for i in range(d):
            for j in range(d):
                B[i, j] = 0.0
                for l in range(d):
                    B[i, j] += move[i, l] * after[l, j]
        _solve_lower(L, B)
        for c in range(d):  # G = (L⁻ᵀ L⁻¹ F P_f)ᵀ
            for i in range(d - 1, -1, -1):
                total = B[i, c]
                for l in range(i + 1, d):
                    total -= L[l, i] * G[k, c, l]
                G[k, c, i] = total / L[i, i] if L[i, i] > 0.0 else 0.0
        for i in range(d):
            for j in range(d):
                E[i, j] = 1.0 if i == j else 0.0
                for l in range(d):
                    E[i, j] -= G[k, i, l] * move[l, j]
        C[k] = 0.0
        _congruence(E, after, B, C[k])
        _congruence(G[k], Q[which[k]], B, C[k])
        copy_matrix(C[k], V[k])
        _congruence(G[k], V[k + 1], B, V[k])


@jit
def _backward_line(F, Q, which, tau, P, G, C, V):
    """As :func:`_backward`, of states that are numbers."""
    last = P.size - 1
    for k in range(last, -1, -1):
        after = P[k] / (1.0 + tau[k] * P[k])
        if k == last:
            C[k] = V[k] = after
            continue
        move = F[which[k]]
        gain = after * move / P[k + 1] if P[k + 1] > 0.0 else 0.0
        left = 1.0 - gain * move
        G[k] = gain
        C[k] = left * left * after + gain * gain * Q[which[k]]
        V[k] = C[k] + gain * gain * V[k + 1]


@jit
def _normalised(G, V, M):
    """M_j = L_j⁻¹ G_j L_{j+1}, V = L Lᵀ."""
    T, d = V.shape[:2]
    L, later = np.empty((d, d)), np.empty((d, d))
    for k in range(T - 1, -1, -1):
        _cholesky(V[k], L, _SINGULAR)
        if k < T - 1:
            for i in range(d):
                for j in range(d):
                    M[k, i, j] = 0.0
                    for l in range(j, d):
                        M[k, i, j] += G[k, i, l] * later[l, j]
            _solve_lower(L, M[k])
        copy_matrix(L, later)


@jit
def _pair_sums(M, kappa, reach, out):
    forgotten = 1e-4  # correlation of a predictor with a whole state whose cube counts as zero
    T, d = M.shape[:2]
    if d == 1:  # correlations are products of those of neighbours
        for l in range(3, kappa.shape[0]):
            reached = 0.0
            for k in range(T - 2, -1, -1):
                reached = M[k, 0, 0] ** l * (kappa[l, k + 1] + reached)
                out[l] += kappa[l, k] * reached
        return
    z, new = np.empty(d), np.empty(d)
    for k in range(T):
        z[:] = 0.0
        z[0] = 1.0
        for j in range(k - 1, max(k - reach, 0) - 1, -1):
            square = 0.0
            for i in range(d):
                new[i] = 0.0
                for l in range(d):
                    new[i] += M[j, i, l] * z[l]
                square += new[i] * new[i]
            copy(new, z)
            if square < forgotten * forgotten:
                break
            power = z[0] * z[0]
            for l in range(3, kappa.shape[0]):
                power *= z[0]
                out[l] += kappa[l, k] * kappa[l, j] * power


@jit
def _regressions(G, C, V, indices, weights, sd):
    """Each coordinate on the next state and on those of its own before it: C = U diag(sd²) Uᵀ.

    With U⁻¹ = I - W the weights on its own are W, those on the next state U⁻¹ G.
    """
    least_variance = 1e-16  # of a predictor given what was drawn before it, of its variance
    static = 1e-20  # the same for other coordinates: below, they are not drawn at all
    T, d = sd.shape
    U, var, row = np.zeros((d, d)), np.empty(d), np.empty((d, 2 * d))
    at = 0
    for step in range(T):
        k = T - 1 - step
        for j in range(d):
            for i in range(j, d):
                U[i, j] = C[k, i, j]
                for l in range(j):
                    U[i, j] -= U[i, l] * U[j, l] * var[l]
            var[j] = U[j, j] if U[j, j] > static * V[k, j, j] else 0.0
            if j == 0:
                var[j] = max(U[j, j], least_variance * V[k, j, j])
            for i in range(j, d):
                U[i, j] = U[i, j] / var[j] if i > j and var[j] > 0.0 else 0.0
            sd[step, j] = np.sqrt(var[j])
        for i in range(d):
            copy(G[k, i], row[i])
            copy(U[i], row[i, d:])
            for j in range(i):
                for l in range(2 * d):
                    row[i, l] -= U[i, j] * row[j, l]
            for l in range(0 if step > 0 else d, d + i):
                indices[at], weights[at] = (step - 1) * d + l, row[i, l]
                at += 1
