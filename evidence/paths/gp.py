r"""The tempered path from a Gaussian reference to the posterior.

.. math:: \log p_\beta(x) = \log N(x; m, K) + \sum_n \big[\beta\,\ell_n(x_n)
          + (1-\beta)\log t_n(x_n)\big] = \log Z_q + \log q(x) + \beta \sum_n h_n(x_n)

with the *tilt* :math:`h_n = \ell_n - \log t_n`. At β = 0 this is Z_q q, at β = 1 the joint
density p(y, x), and between two temperatures it changes by :math:`\Delta\beta\sum_n h_n`
alone: weights and swaps cost O(N). A batch of states has shape (M, N); β is a number or one
per row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..approximations.reference import GaussianReference
from ..messages import InputError
from ..numerics.jit import jit, reduction
from ..numerics.thin import add_rows, times_rows
from .coordinates import Coordinates, coordinates
from .metric import Metric

Array = NDArray[np.float64]

THIN = 4  # up to this many rows, products by hand beat the general ones
_BLOCK = 64
_COORDINATES = "coordinates "


@reduction
def row_tilt(kernel, theta, c, nu, tau, x, out):
    """Tilt of one row; ``out`` is the kernel's."""
    kernel(x.ctypes, theta.ctypes, x.size, x.size, 1, 1, out.ctypes)
    s = 0.0
    for i in range(x.size):
        s += out[0, i] - c[i] - x[i] * (nu[i] - 0.5 * tau[i] * x[i])
    return s if not np.isnan(s) else -np.inf


@jit
def _tilt(kernel, theta, c, nu, tau, x, total):
    out = np.empty((4, x.shape[1]))
    for m in range(x.shape[0]):
        total[m] = row_tilt(kernel, theta, c, nu, tau, x[m], out)


@reduction
def _tilt_and_gradient(kernel, theta, c, nu, tau, mean, x, total):
    """Rows of x enter without their mean and leave as gradients."""
    n = x.shape[1]
    point, out = np.empty(n), np.empty((4, n))
    for m in range(x.shape[0]):
        for i in range(n):
            point[i] = x[m, i] + mean[i]
        kernel(point.ctypes, theta.ctypes, n, n, 1, 1, out.ctypes)
        s = 0.0
        for i in range(n):
            xi = point[i]
            s += out[0, i] - c[i] - xi * (nu[i] - 0.5 * tau[i] * xi)
            x[m, i] = out[1, i] - nu[i] + tau[i] * xi
        total[m] = s if not np.isnan(s) else -np.inf


@reduction
def thin_tilt_and_slope(kernel, theta, c, nu, tau, mean, T, a, x, total, slope):
    """x, tilt and slope of a few rows in one pass over T: x, h and h' block by block."""
    n, rows = T.shape[0], a.shape[0]
    gradient, out = np.empty((rows, _BLOCK)), np.empty((4, _BLOCK))
    total[:] = 0.0
    slope[:, :] = 0.0
    for first in range(0, n, _BLOCK):
        last = min(first + _BLOCK, n)
        size = last - first
        times_rows(a, T, first, last, x[:, first:last])
        block = np.empty((4, size)) if size < _BLOCK else out
        for m in range(rows):
            s = 0.0
            for k in range(first, last):
                x[m, k] += mean[k]
            kernel(x[m, first:].ctypes, theta[0, first:].ctypes, size, n, 1, 1, block.ctypes)
            for i in range(size):
                k = first + i
                s += block[0, i] - c[k] - x[m, k] * (nu[k] - 0.5 * tau[k] * x[m, k])
                gradient[m, i] = block[1, i] - nu[k] + tau[k] * x[m, k]
            total[m] += s
        add_rows(gradient, T, first, last, slope)
    for m in range(rows):
        if np.isnan(total[m]):
            total[m] = -np.inf


@jit
def _third_order(kernel, theta, x, out):
    kernel(x.ctypes, theta.ctypes, x.size, x.size, 1, 3, out.ctypes)


class TemperedPath:
    r"""What every path offers to moves and drivers, whatever the model.

    A subclass has a Gaussian base with ``reference.mean`` and an estimate ``reference.logz`` of
    its normaliser, and gives :meth:`build_coordinates`, :meth:`tilt` and
    :meth:`tilt_and_gradient`: any density ``p`` is :math:`Z_q q(x) e^{\beta h(x)}` with
    :math:`h = \log p - \log Z_q q`.
    """

    separable: ClassVar[bool] = False
    """Whether the tilt is a sum over coordinates of x, as metrics with one Cholesky need."""

    dense: ClassVar[bool] = False
    """Whether the path has a curvature of its own, a full matrix at every point."""

    @property
    def riemannian(self) -> bool:
        """Whether Riemannian moves find what they need."""
        return self.separable

    def __init__(self, reference: Any) -> None:
        self.reference = reference
        self.model = reference.model
        self.log_z0: float = reference.logz
        self._cache: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: matrices as they are, so that it computes the same."""
        kept = {k: v for k, v in self._cache.items() if k.startswith(_COORDINATES)}
        return {"reference": replace(self.reference, model=self.model.bare()), "cache": kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["reference"])  # type: ignore[misc]
        self._cache = state["cache"]

    @property
    def n(self) -> int:
        """Dimension of a state."""
        return self.model.n

    @property
    def mean(self) -> Array:
        """Mean of the base q."""
        return self.reference.mean

    def coordinates(self, mass: str) -> Any:
        """Coordinates with a diagonal base and unit mass, see :mod:`.coordinates`."""
        return self.cached(_COORDINATES + mass, lambda path: path.build_coordinates(mass))

    def parameters(self, x: Array) -> Array:
        """What users call the parameters, from states (…, N); the states themselves here."""
        return x

    def latent(self, parameters: Array) -> Array:
        """States from parameters (…, N)."""
        return parameters

    def cached(self, key: str, build: Callable[[Any], Any]) -> Any:
        """What ``build(path)`` returns, computed once: for moves that prepare something."""
        if key not in self._cache:
            self._cache[key] = build(self)
        return self._cache[key]

    def build_coordinates(self, mass: str) -> Any:
        """What :meth:`coordinates` keeps."""
        raise NotImplementedError

    def tilt(self, x: Array) -> Array:
        """h of every row, shape (M,)."""
        raise NotImplementedError

    def tilt_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """h and its gradient, shapes (M,) and (M, N)."""
        raise NotImplementedError

    def tilt_and_slope(self, frame: Any, a: Array) -> tuple[Array, Array]:
        """h and its gradient in the coordinates a, shapes (M,) and (M, N)."""
        tilt, gradient = self.tilt_and_gradient(frame.to_latent(a))
        return tilt, frame.slope(gradient)


class Path(TemperedPath):
    """The tempered path p_β of a :class:`~evidence.models.gp.GPModel`, from one reference.

    Parameters
    ----------
    reference : GaussianReference
        Where it starts: ``ev.fit_ep(model)`` or ``ev.fit_laplace(model)``.

    Examples
    --------
    Plain importance sampling, log Z = log Z_q + log E_q[exp Σ h]; the truth is -1.630:

    >>> import numpy as np
    >>> import evidence as ev
    >>> ep = ev.fit_ep(ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1]))
    >>> path = ev.Path(ep)
    >>> x = np.random.default_rng(0).multivariate_normal(ep.mean, ep.cov, size=20000)
    >>> round(float(path.log_z0 + np.log(np.mean(np.exp(path.tilt(x))))), 2)
    -1.63
    """

    separable = True
    reference: GaussianReference

    def __init__(self, reference: GaussianReference) -> None:
        if not isinstance(reference, GaussianReference):
            raise InputError(
                f"reference must be a fit such as ev.fit_ep(model), got {type(reference).__name__}"
            )
        super().__init__(reference)
        self._kernel: Any = self.model.likelihood.kernel

    def build_coordinates(self, mass: str) -> Coordinates:
        return coordinates(self.reference, mass)

    # -- the tilt ---------------------------------------------------------------------------

    def tilt(self, x: Array) -> Array:
        """Σ_n h_n(x_n), shape (M,)."""
        x, total = np.ascontiguousarray(x), np.empty(x.shape[0])
        _tilt(*self.tilt_arguments, x, total)
        return total

    @property
    def tilt_arguments(self) -> tuple[Any, ...]:
        """What :func:`row_tilt` needs to know of the path."""
        return self._kernel, self.model.theta, *self.reference.sites

    def tilt_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """Σ_n h_n and its gradient, shapes (M,) and (M, N)."""
        return self._in_place(np.zeros(self.n), np.array(x, order="C"))

    def _in_place(self, mean: Array, x: Array) -> tuple[Array, Array]:
        """Tilt and gradient at mean + x; the gradient takes the place of x."""
        total = np.empty(len(x))
        _tilt_and_gradient(*self.tilt_arguments, mean, x, total)
        return total, x

    def tilt_and_slope(self, frame: Coordinates, a: Array) -> tuple[Array, Array]:
        if len(a) > THIN:
            tilt, gradient = self._in_place(frame.mean, frame.turn(a))
            return tilt, frame.slope(gradient)
        a, total = np.ascontiguousarray(a), np.empty(a.shape[0])
        x, slope = np.empty_like(a), np.empty_like(a)
        thin_tilt_and_slope(*self.thin_arguments(frame), a, x, total, slope)
        return total, slope

    def thin_arguments(self, frame: Coordinates) -> tuple[Any, ...]:
        """What :func:`thin_tilt_and_slope` needs to know of path and coordinates."""
        return *self.tilt_arguments, frame.mean, frame.T

    # -- the density ------------------------------------------------------------------------

    def log_density(self, x: ArrayLike, beta: float | Array) -> Array:
        """log p_β up to nothing: its integral over x is Z_q at β = 0 and Z at β = 1."""
        x = np.ascontiguousarray(np.atleast_2d(x), dtype=float)
        c, nu, tau = self.reference.sites
        sites = np.sum(c + nu * x - 0.5 * tau * x * x, axis=1)
        return self.model.log_prior(x) + sites + beta * self.tilt(x)

    def gradient(self, x: ArrayLike, beta: float | Array) -> Array:
        """β ℓ' + (1 - β)(ν - τ x) - K⁻¹(x - m), shape (M, N)."""
        x = np.ascontiguousarray(np.atleast_2d(x), dtype=float)
        _, nu, tau = self.reference.sites
        prior = self.model.prior.solve((x - self.model.mean).T).T
        _, tilt = self.tilt_and_gradient(x)
        return nu - tau * x - prior + np.reshape(beta, (-1, 1)) * tilt

    def metric(self, x: ArrayLike, beta: float) -> Metric:
        r"""The metric :math:`G = K^{-1} + \mathrm{diag}(d)` at one point.

        :math:`d = (1-\beta)\tau - \beta\ell''`, the negative Hessian of log p_β, for
        log-concave likelihoods. Others use their expected curvature and max(τ, 0), which keeps
        G positive definite; it is then constant in x.
        """
        x = np.ascontiguousarray(x, dtype=float)
        tau = self.reference.sites.tau
        lik = self.model.likelihood
        if lik.log_concave:
            out = np.empty((4, x.size))
            _third_order(self._kernel, self.model.theta, x, out)
            d = (1.0 - beta) * tau - beta * out[2]
            return Metric(self.model, d, -beta * out[3])
        d = (1.0 - beta) * np.maximum(tau, 0.0) + beta * lik.fisher(self.model.y)
        return Metric(self.model, d, np.zeros_like(d))
