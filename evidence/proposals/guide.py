r"""Draws from a posterior, one latent value after the other, guided by EP's sites.

A Gaussian reference replaces every :math:`p(y_n|x_n)` by a site :math:`t_n(x_n)`. Take the data
in some order. Given the values before it, :math:`x_k` is drawn from

.. math:: r_k(x_k) \propto p(y_k|x_k)\, \frac{q(x_k \mid x_{<k})}{t_k(x_k)} ,

its own likelihood exactly, the likelihoods to come as their sites; what is left over is the
one-dimensional integral

.. math:: w_k(x_{<k}) = \int \frac{p(y_k|x)}{t_k(x)}\, q(x \mid x_{<k})\, dx ,
          \qquad Z = Z_q\, E\Big[\prod_k w_k\Big] ,

exactly, whatever the sites. With :math:`Σ = L L^T` in that order and :math:`x = μ + L ε`,
:math:`q(x_k|x_{<k})` has mean :math:`μ_k + \sum_{j<k} L_{kj} ε_j` and standard deviation
:math:`L_{kk}`. Sites equal to one give the GHK simulator of econometrics; in the language of
sequential Monte Carlo the sites are twisting functions.

For probit the same is done for the utilities :math:`z_k = x_k + N(0,1)`, whose likelihood is
the indicator of :math:`y_k z_k > 0`: the integrals are normal tails, the draws truncated
normals, and conditioning on z rather than on x leaves weights several times less variable.

Draws are made from uniforms by inversion, and uniforms may come from a scrambled
Sobol' net: digits that all islands share, shifted anew by each, so that every draw is what it
was, and the islands are independent, while an island's draws fill the cube more evenly.

Other likelihoods are integrated by :mod:`.integrals`.

References: V. Hajivassiliou, D. McFadden and P. Ruud, J. Econometrics 72 (1996) 85 (GHK);
P. Guarniero, A. M. Johansen and A. Lee, J. Am. Stat. Assoc. 112 (2017) 1636 (twisting).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..approximations.mixture import Share
from ..approximations.reference import GaussianReference
from ..execution.clock import check_interrupt
from ..gaussians.base import Conditionals, NotPositiveDefinite, Sites
from ..messages import InputError
from ..models.likelihoods.base import Likelihood
from ..numerics.arrays import Array, Indices
from ..numerics.jit import jit, vector_loop
from ..numerics.normal import lanes_of
from ..numerics.special import LOG_SQRT_2PI
from ..numerics.truncated import multiply_tails, upper_tails
from .integrals import Draws, Integrand, data_of, draw_with_one, workspace

#: from log weights, which it may change, to the draws to go on with, if to others
Between = Callable[[Array], Indices | None]
_BITS = 30  # digits of a net
_BLOCK = 32  # coordinates between two matrix products


def never(log_weight: Array) -> None:
    """Resamples nothing between values."""


class CannotGuide(InputError):
    """The reference's sites do not leave a distribution behind when one is taken away."""


def check_weighed(log_weight: Array) -> None:
    """An error where an integral over one value could not be found."""
    if np.isnan(log_weight).any():
        raise CannotGuide(
            "modes of the likelihood are too narrow for the distance between them; use "
            "method='smc'"
        )


class Twist(NamedTuple):
    """A factor ``exp Σ (b s - a s²/2)`` of the guide's Gaussian in ``s = Dᵀ(x - origin)``."""

    directions: Array
    origin: Array
    slope: Array
    curvature: Array

    @property
    def heavy(self) -> bool:
        """Whether weights have no variance without it."""
        return bool(self.curvature.min() < -0.5)

    def log(self, values: Array) -> Array:
        """Its logarithm at columns."""
        s = self.directions.T @ (values - self.origin[:, None])
        return self.slope @ s - 0.5 * self.curvature @ s**2


@dataclass(frozen=True)
class Guide:
    """What draws need; arrays are in the order in which values are drawn."""

    gaussian: Conditionals
    """q, one value after the other."""
    sites: Sites
    theta: Array
    """Parameters of the likelihood, shape (P, N)."""
    hints: Array
    """Where the likelihood of each is largest, more or less, shape (K, N)."""
    likelihood: Likelihood
    log_z0: float
    utilities: bool
    """Whether what is drawn are probit's utilities rather than the latent values."""
    share: Share | None = None
    """Of the posterior, where the reference is one component of a mixture."""
    twist: Twist | None = None
    """Part of the Gaussian that is neither prior nor site (:mod:`evidence.proposals.twist`)."""

    def draw(
        self, n: int, rng: np.random.Generator, between: Between = never,
        net: NDArray[np.uint32] | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """``n`` draws as columns (N, n), in the model's order, and their log weights.

        A guide that has learnt does not ask ``between``.

        With a ``net`` (:func:`make_net`) they are made from its points, shifted. After every
        block of coordinates ``between(log_weight)`` may resample: it gives the columns to go on
        with, having changed ``log_weight`` in place, or None. Draws of one call are not quite
        independent: those of latent values may share lattices (:mod:`.integrals`).
        """
        q, size = self.gaussian, self.gaussian.order.size
        eps, values = np.empty((size, n)), np.empty((size, n))
        log_weight, work = np.zeros(n), np.empty((4, n))
        how = (self.likelihood.kernel, self.likelihood.log_concave)
        lanes = None if self.utilities else lanes_of(rng)
        for start in range(0, size, _BLOCK):
            check_interrupt()
            block = slice(start, min(start + _BLOCK, size))
            q.means(block, eps, values)
            theta = np.ascontiguousarray(self.theta[:, block].T)
            _uniforms(rng, None if net is None else net[block, :n], eps[block])
            if self.utilities:
                sites = (s[block] for s in self.sites)
                given = (values[block], q.inner(block), *sites, theta, eps[block])
                _draw_utilities(*given, log_weight, work)
            else:
                hints = np.ascontiguousarray(self.hints[:, block].T)
                data = data_of(np.ones(len(theta)), Sites(*(s[block] for s in self.sites)))
                inner = q.inner(block)
                with np.errstate(over="ignore"):  # of lanes, where nothing is compiled
                    _draw_latent(
                        rng, *how, values[block], inner, data, theta, hints, eps[block],
                        log_weight, lanes,
                    )  # fmt: skip
            check_weighed(log_weight)
            chosen = None if self.twist else between(log_weight)
            if chosen is not None:
                done = slice(block.stop)
                eps[done], values[done] = eps[done, chosen], values[done, chosen]
        if self.twist is not None:
            log_weight -= self.twist.log(values)
        drawn = np.empty_like(values)
        drawn[q.order] = values
        if self.share is not None:
            log_weight += self.share.log(drawn.T)
        return drawn, log_weight


def make_net(
    guide: Guide, n: int, rng: np.random.Generator, *, most: int = 1024
) -> NDArray[np.uint32]:
    """``n`` points of a scrambled Sobol' net as integers (coordinates, n).

    Coordinates beyond the first thousand, which matter least, do without.

    ``most``: coordinates that a net is for.
    """
    from scipy.stats import qmc

    net = qmc.Sobol(min(guide.gaussian.order.size, most), scramble=True, bits=_BITS, rng=rng)
    points = net.random_base2(math.ceil(math.log2(n)))[:n]
    return np.ascontiguousarray((points.T * 2.0**_BITS).astype(np.uint32))


def _uniforms(rng: np.random.Generator, digits: NDArray[np.uint32] | None, out: Array) -> None:
    """Fill rows of ``out``, as far as there are ``digits`` with these, shifted."""
    rng.random(out=out)
    if digits is None or not digits.size:
        return
    rows = out[: len(digits)]
    shift = rng.integers(2**_BITS, size=(len(digits), 1), dtype=np.uint32)
    rows *= 1.0 - 2.0**-22  # the sum must not round up
    rows += digits ^ shift
    rows *= 2.0**-_BITS


def make_guide(reference: GaussianReference) -> Guide:
    """The guide of a fitted reference, O(N³); data whose sites matter most come first.

    Before them come those whose sites have negative precision: what is left without one of its
    sites is then a distribution for all.
    """
    model, likelihood = reference.model, reference.model.likelihood
    matters = reference.sites.tau * reference.var
    wish = np.argsort(np.where(matters < 0.0, -np.inf, -matters), kind="stable")
    q = reference.gaussian.conditionals(wish)
    sites = Sites(*(s[q.order] for s in reference.sites))
    utilities = _of_utilities(sites, q) if likelihood.name == "probit" else None
    if utilities is not None:
        sites, q = utilities
    try:
        sd = q.sd
    except NotPositiveDefinite:
        raise CannotGuide(
            f"the covariance of the {reference.name} reference is numerically singular, so "
            "values cannot be drawn one after the other; pass a larger jitter to the model"
        ) from None
    if np.min(1.0 - sites.tau * sd**2) <= 0.0:
        raise CannotGuide(
            f"without one of its sites the {reference.name} reference is not a distribution; "
            "use method='smc'"
        )
    if utilities is None:
        _check_rounding(reference, q)
    theta = np.ascontiguousarray(likelihood.theta(model.y)[:, q.order])
    hints = likelihood.locations(model.y)[:, q.order]
    what = (likelihood, reference.logz, utilities is not None, reference.share)
    return Guide(q, sites, theta, hints, *what)


def _check_rounding(
    reference: GaussianReference, q: Conditionals, draws: int = 4, most: float = 0.1
) -> None:
    """Z_q N(x; μ, L Lᵀ) is the prior times all sites: the two must agree where q has its mass, at
    a few ``draws`` to within ``most`` nats.

    (Utilities have noise, which keeps their covariance well away from singular.)
    """
    sites, order = reference.sites, q.order
    eps = np.random.default_rng(0).standard_normal((order.size, draws))
    x = np.empty_like(eps)
    x[order] = q.mean[:, None] + q.colour(eps)
    target = reference.model.prior.log_density(x.T) + sites.c.sum() + sites.nu @ x
    target -= 0.5 * sites.tau @ x**2
    found = reference.logz - 0.5 * np.sum(eps**2, axis=0) - np.log(q.sd).sum()
    found -= order.size * LOG_SQRT_2PI
    if not np.abs(target - found).max() < most:
        raise CannotGuide(
            f"the covariance of the {reference.name} reference is singular to within rounding, so "
            "values cannot be drawn one after the other; pass a larger jitter to the model"
        )


def _of_utilities(sites: Sites, q: Conditionals) -> tuple[Sites, Conditionals] | None:
    """Sites and q of z = x + N(0, 1), where t(x) = ∫ s(z) N(z; x, 1) dz, if q offers that."""
    rest = 1.0 - sites.tau  # variance of z given x, s included
    if np.min(rest) <= 0.0:
        raise CannotGuide("a site is narrower than probit's noise, which no probit site can be")
    s = Sites(
        sites.c - 0.5 * np.log(rest) - 0.5 * sites.nu**2 / rest, sites.nu / rest, sites.tau / rest
    )
    widened = q.widened(rest, rest, sites.nu)
    return None if widened is None else (s, widened)


@vector_loop
def _pull(value, factor, eps):
    """Add what the values before it in the block say of a value's mean."""
    for j in range(factor.size):
        pull, before = factor[j], eps[j]
        for m in range(value.size):
            value[m] += pull * before[m]


@vector_loop
def _draw_utilities(values, factor, c, nu, tau, theta, eps, log_weight, work):
    """A block of utilities given those before it, whose pull is in ``values`` already.

    ``eps`` comes in as uniforms. With ``a = 1 - τ v`` the cavity is ``N((m - ν v)/a, v/a)``.
    Tails that are not small are multiplied: one log for the block.
    """
    product, bound, mass, z = work[0], work[1], work[2], work[3]
    product[:] = 1.0
    for k in range(nu.size):
        value, noise = values[k], eps[k]
        _pull(value, factor[k, :k], eps)
        root = factor[k, k]
        v = root * root
        a = 1.0 - tau[k] * v
        y_sd, less, over = theta[k, 0] * root / math.sqrt(a), nu[k] * v / a, 1.0 / a
        constant = c[k] + 0.5 * (nu[k] * nu[k] * v + math.log(a))
        linear, square, to_bound, to_eps = a * nu[k], 0.5 * a * tau[k], -1.0 / y_sd, 1.0 / root
        for m in range(value.size):
            cavity = value[m] * over - less
            bound[m] = cavity * to_bound
            log_weight[m] -= constant + cavity * (linear - square * cavity)
        upper_tails(bound, noise, mass, z)
        for m in range(value.size):
            new = y_sd * (z[m] - bound[m])
            noise[m] = (new - value[m]) * to_eps
            value[m] = new
        multiply_tails(bound, mass, product, log_weight)
    for m in range(product.size):
        log_weight[m] += math.log(product[m])


@jit
def _draw_latent(
    rng, kernel, concave, values, factor, data, theta, hints, eps, log_weight, lanes
):  # fmt: skip
    """As :func:`_draw_utilities`, of latent values under any likelihood."""
    work, nothing = workspace(log_weight.size, lanes), np.empty(0)
    for k in range(data.size):
        _pull(values[k], factor[k, :k], eps)
        own = slice(k, k + 1)
        f = Integrand(kernel, concave, data[own], theta[own], hints[own], factor[k, k], nothing)
        draw_with_one(rng, f, Draws(values[k], nothing, eps[k], log_weight), work, True)
