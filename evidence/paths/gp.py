r"""The tempered path from a Gaussian reference to the posterior.

.. math:: \log p_\beta(x) = \log N(x; m, K) + \sum_n \big[\beta\,\ell_n(x_n)
          + (1-\beta)\log t_n(x_n)\big] = \log Z_q + \log q(x) + \beta \sum_n h_n(x_n)

with the *tilt* :math:`h_n = \ell_n - \log t_n`. At β = 0 this is Z_q q, at β = 1 the joint
density p(y, x), and between two temperatures it changes by :math:`\Delta\beta\sum_n h_n`
alone: weights and swaps cost O(N). A batch of states has shape (M, N); β is a number or one
per row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..approximations.reference import GaussianReference
from ..messages import InputError
from ..numerics.jit import jit, reduction
from ..numerics.thin import add_rows, times_rows
from .base import TemperedPath
from .coordinates import Array, Coordinates, Frame

THIN = 4  # up to this many rows, products by hand beat the general ones


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
        total[m] = row_tilt(kernel, theta, c, nu, tau, point, out)
        for i in range(n):
            x[m, i] = out[1, i] - nu[i] + tau[i] * point[i]


@reduction
def thin_tilt_and_slope(kernel, theta, c, nu, tau, mean, T, a, x, total, slope):
    """x, tilt and slope of a few rows in one pass over T: x, h and h' block by block."""
    columns = 64
    n, rows = T.shape[0], a.shape[0]
    gradient, out = np.empty((rows, columns)), np.empty((4, columns))
    total[:] = 0.0
    slope[:, :] = 0.0
    for first in range(0, n, columns):
        last = min(first + columns, n)
        size = last - first
        times_rows(a, T, first, last, x[:, first:last])
        block = np.empty((4, size)) if size < columns else out
        for m in range(rows):
            s = 0.0
            for k in range(first, last):
                x[m, k] += mean[k]
            kernel(x[m, first:].ctypes, theta[0, first:].ctypes, size, n, 1, 1, block.ctypes)
            for i in range(size):
                k = first + i
                s += block[0, i] - c[k] - x[m, k] * (nu[k] - 0.5 * tau[k] * x[m, k])
            for i in range(size):
                k = first + i
                gradient[m, i] = block[1, i] - nu[k] + tau[k] * x[m, k]
            total[m] += s
        add_rows(gradient, T, first, last, slope)
    for m in range(rows):
        if np.isnan(total[m]):
            total[m] = -np.inf


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
    compiled = True
    reference: GaussianReference

    def __init__(self, reference: GaussianReference) -> None:
        if not isinstance(reference, GaussianReference):
            raise InputError(
                f"reference must be a fit such as ev.fit_ep(model), got {type(reference).__name__}"
            )
        super().__init__(reference)
        self._kernel = self.model.likelihood.kernel

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

    def tilt_and_slope(self, frame: Frame, a: Array) -> tuple[Array, Array]:
        if len(a) > THIN:
            tilt, gradient = self._in_place(frame.mean, frame.turn(a))
            return tilt, frame.slope(gradient)
        a, total = np.ascontiguousarray(a), np.empty(a.shape[0])
        x, slope = np.empty_like(a), np.empty_like(a)
        thin_tilt_and_slope(*self.thin_arguments(frame), a, x, total, slope)
        return total, slope

    def thin_arguments(self, frame: Frame) -> tuple[Any, ...]:
        """What :func:`thin_tilt_and_slope` needs to know of path and coordinates."""
        assert isinstance(frame, Coordinates)
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
