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

Truncated normals are made from uniforms by inversion, and uniforms may come from a scrambled
Sobol' net: digits that all islands share, shifted anew by each, so that every draw is what it
was, and the islands are independent, while an island's draws fill the cube more evenly.

For other likelihoods two draws from a Gaussian near the integrand, mirror images of each other,
are weighed, and :math:`x_k` is one of them: unbiased whatever the Gaussian. Its mode and width are
functions of the mean alone, found at a few means and interpolated for all draws. Where the
integrand is far from a Gaussian the integral is a sum over a lattice with a random shift, and
:math:`x_k` one of its nodes: for a shift that is uniform both are unbiased whatever the spacing,
and for a smooth integrand the sum hardly depends on the shift.

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
from ..models.likelihoods.quadrature import local_maximum
from ..numerics.arrays import Array, Indices
from ..numerics.jit import jit, vector_loop
from ..numerics.normal import standard_normal
from ..numerics.special import exp, log
from ..numerics.truncated import multiply_tails, upper_tails

_BITS, _NET = 30, 1024  # digits of a net, and coordinates it is for
_CHECKED, _ROUNDING = 4, 0.1  # draws, and nats by which they may be off
_BLOCK = 32  # coordinates between two matrix products
_SKEW, _BENT = 0.03, 0.3  # third derivative and curvature up to which two draws are enough
_CELLS = 16  # between means at which modes are found
_NOTHING = -1e300  # the logarithm of zero
_NEWTON = 6  # steps of Newton's method before one that is safe
_SPACING = 0.75  # of the lattice, in widths: the sum over a Gaussian is good to 1e-15
_NODES = 20  # of the lattice at first; it grows where the integrand has not fallen
_FAR, _OFF = 4.0, 0.5  # widths at which the integrand's logarithm may be off by so much
_CLIFF = 0.3  # spacing relative to that of smooth integrands
_MORE = 4  # nodes it grows by
_CAPACITY = 1536  # nodes, at most; then the spacing doubles
_DROP = 25.0  # logarithm by which it must have fallen
_REACH = 7.0  # standard deviations of the cavity searched for a second mode
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


class CannotGuide(InputError):
    """The reference's sites do not leave a distribution behind when one is taken away."""


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
        self,
        n: int,
        rng: np.random.Generator,
        between: Callable[[Array], Indices | None] = lambda log_weight: None,
        net: NDArray[np.uint32] | None = None,
    ) -> tuple[Array, Array]:
        """``n`` draws as columns (N, n), in the model's order, and their log weights.

        A guide that has learnt does not ask ``between``.

        With a ``net`` (:func:`make_net`) utilities are made from its points, shifted. After every
        block of coordinates ``between(log_weight)`` may resample: it gives the columns to go on
        with, having changed ``log_weight`` in place, or None.
        """
        q, size = self.gaussian, self.gaussian.order.size
        eps, values = np.empty((size, n)), np.empty((size, n))
        log_weight, work = np.zeros(n), np.empty((4, n))
        for start in range(0, size, _BLOCK):
            check_interrupt()
            block = slice(start, min(start + _BLOCK, size))
            q.means(block, eps, values)
            given = (values[block], q.inner(block), *(s[block] for s in self.sites))
            theta = np.ascontiguousarray(self.theta[:, block].T)
            if self.utilities:
                _uniforms(rng, None if net is None else net[block, :n], eps[block])
                _draw_utilities(*given, theta, eps[block], log_weight, work)
            else:
                how = (self.likelihood.kernel, self.likelihood.log_concave)
                normals = standard_normal(rng, eps[block].shape)
                rng.random(out=eps[block])
                given = (*given, theta, self.hints[:, block], normals, eps[block])
                _draw_latent(rng, *how, *given, log_weight)
            if np.isnan(log_weight).any():
                raise CannotGuide(
                    "modes of the likelihood are too narrow for the distance between them; use "
                    "method='smc'"
                )
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


def make_net(guide: Guide, n: int, rng: np.random.Generator) -> NDArray[np.uint32] | None:
    """``n`` points of a scrambled Sobol' net as integers (coordinates, n); None: no use for it.

    Coordinates beyond the first thousand, which matter least, do without.
    """
    if not guide.utilities:
        return None
    from scipy.stats import qmc

    net = qmc.Sobol(min(guide.gaussian.order.size, _NET), scramble=True, bits=_BITS, rng=rng)
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


def _check_rounding(reference: GaussianReference, q: Conditionals) -> None:
    """Z_q N(x; μ, L Lᵀ) is the prior times all sites: the two must agree where q has its mass.

    (Utilities have noise, which keeps their covariance well away from singular.)
    """
    sites, order = reference.sites, q.order
    eps = np.random.default_rng(0).standard_normal((order.size, _CHECKED))
    x = np.empty_like(eps)
    x[order] = q.mean[:, None] + q.colour(eps)
    target = reference.model.prior.log_density(x.T) + sites.c.sum() + sites.nu @ x
    target -= 0.5 * sites.tau @ x**2
    found = reference.logz - 0.5 * np.sum(eps**2, axis=0) - np.log(q.sd).sum()
    found -= order.size * _LOG_SQRT_2PI
    if not np.abs(target - found).max() < _ROUNDING:
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
    rng, kernel, concave, values, factor, c, nu, tau, theta, hints, normals, eps, log_weight
):  # fmt: skip
    """As :func:`_draw_utilities`, of latent values under any likelihood.

    Where the integrand is smooth, its mode and width are interpolated in its mean, and two draws
    of that Gaussian are weighed: as good for any mode and width, best for the right ones.
    """
    n = log_weight.size
    x, g, out = np.empty(_CAPACITY), np.empty(_CAPACITY), np.empty(4 * max(2 * n, _CAPACITY))
    rows, draws, cells = np.empty(n, np.intp), np.empty((6, n)), min(_CELLS, 1 + n // _CELLS)
    points, table, smooth = (
        np.empty(2 * n),
        np.empty((3, cells + 1)),
        np.empty(cells + 1, np.bool_),
    )
    for k in range(nu.size):
        value = values[k]
        _pull(value, factor[k, :k], eps)
        root = factor[k, k]
        site = (c[k] + math.log(root) + _LOG_SQRT_2PI, nu[k], tau[k])
        low, high = _range(value)
        step = max(high - low, 1e-9 * root) / cells
        for i in range(cells + 1):
            mean = low + i * step
            smooth[i], table[0, i], table[1, i], spacing = _shape(
                kernel, concave, theta[k], site, mean, root, hints[:, k], x, g, out
            )
            table[2, i] = step * (table[1, i] / root) ** 2  # the mode's derivative in the mean
        used = 0
        for m in range(n):
            mean = value[m]
            place = (mean - low) / step
            i = min(int(place), cells - 1) if place >= 0.0 else 0
            if smooth[i] and smooth[i + 1] and place <= cells + 1e-9:
                t = place - i
                rows[used], draws[0, used] = m, mean
                draws[1, used] = _hermite(table[:, i], table[:, i + 1], t)
                draws[2, used] = table[1, i] + t * (table[1, i + 1] - table[1, i])
                draws[3, used], draws[4, used] = normals[k, m], eps[k, m]
                used += 1
                continue
            _, mode, _, spacing = _shape(
                kernel, concave, theta[k], site, mean, root, hints[:, k], x, g, out
            )
            value[m], log_w = _draw_node(
                rng, kernel, concave, theta[k], site, mean, root, mode, spacing, x, g, out
            )  # fmt: skip
            log_weight[m] += log_w
            eps[k, m] = (value[m] - mean) / root
        if used:
            both = points[: 2 * used]
            _mirror(draws[:, :used], both)
            kernel(both.ctypes, theta[k].ctypes, 2 * used, 1, 0, 1, out.ctypes)
            _draw_of_two(draws[:, :used], both, out, site, 0.5 / (root * root))
            for i in range(used):
                m = rows[i]
                log_weight[m] += draws[5, i]
                eps[k, m] = (draws[4, i] - value[m]) / root
                value[m] = draws[4, i]


@jit
def _range(value):
    """The smallest and the largest of numbers that are finite."""
    low, high = math.inf, -math.inf
    for one in value:
        if abs(one) < math.inf:
            low, high = min(low, one), max(high, one)
    return (low, high) if low <= high else (0.0, 0.0)


@jit
def _shape(kernel, concave, theta, site, mean, root, hints, x, g, out):
    """Whether the integrand is smooth; its mode and width, and the spacing of a lattice for it."""
    mode, width, skew, bent = _mode(kernel, theta, site, mean, root, mean, x, out)
    smooth, narrow = skew < _SKEW and bent < _BENT, width
    if not concave:  # there may be other modes, and narrower ones
        for hint in hints:
            other = _mode(kernel, theta, site, mean, root, hint, x, out)
            narrow = min(narrow, other[1])
            smooth = smooth and abs(other[0] - mode) < width
    if smooth and _falls(kernel, theta, site, mean, root, mode, width, x, g, out):
        return True, mode, width, _SPACING * narrow
    spacing = _SPACING * width * (_CLIFF if smooth else 1.0 / math.sqrt(max(1.0, skew)))
    return False, mode, width, min(spacing, _SPACING * narrow)


@jit
def _hermite(left, right, t):
    """The cubic through two values (0) with their derivatives (2), at 0 ≤ t ≤ 1 between them."""
    rise = right[0] - left[0]
    bow, bend = left[2] - rise, rise - right[2]
    return left[0] + t * rise + t * (1.0 - t) * ((1.0 - t) * bow + t * bend)


@vector_loop
def _mirror(draws, both):
    """Two draws of every Gaussian, mirror images of each other."""
    n = both.size // 2
    for m in range(n):
        away = draws[2, m] * draws[3, m]
        both[m], both[n + m] = draws[1, m] - away, draws[1, m] + away


@vector_loop
def _draw_of_two(draws, both, loglik, site, half):
    """One of two draws, by weight, in row 4 of ``draws``, and log of their mean weight in row 5.

    Rows: mean, mode, width, normal, uniform; none of the two where both have no weight at all.
    """
    constant, nu, tau = site
    n = both.size // 2
    for m in range(n):
        mean, one, two = draws[0, m], both[m], both[n + m]
        first = loglik[m] - one * (nu - 0.5 * tau * one) - half * (one - mean) * (one - mean)
        second = loglik[n + m] - two * (nu - 0.5 * tau * two) - half * (two - mean) * (two - mean)
        first = first if first > _NOTHING else _NOTHING
        second = second if second > _NOTHING else _NOTHING
        top = first if first > second else second
        ratio = exp((second if first > second else first) - top)
        share = 1.0 if first > second else ratio  # of the first, relative to the larger one
        normal, width = draws[3, m], draws[2, m]
        some = top > _NOTHING
        chosen = one if draws[4, m] * (1.0 + ratio) < share else two
        draws[4, m] = chosen if some else mean
        weight = top + log(0.5 + 0.5 * ratio, 0.5 * ratio - 0.5) + log(width, width - 1.0)
        weight += 0.5 * normal * normal + _LOG_SQRT_2PI - constant
        draws[5, m] = weight if some else -math.inf


@jit
def _mode(kernel, theta, site, mean, root, start, x, out):
    """Near the integrand's maximum, its width there, its skewness, and what bends it.

    Any of them will do, good ones do best; the last is the likelihood's part in the curvature.
    """
    _, nu, tau = site
    precision = 1.0 / (root * root)
    mode = start
    for i in range(_NEWTON + 2):
        if i == _NEWTON:  # Newton's method jumps to and fro between a cliff and a plain
            v = 1.0 / (precision - tau)
            mode = local_maximum(kernel, theta, start, v * (mean * precision - nu), v, x, out)
        x[0] = mode
        kernel(x.ctypes, theta.ctypes, 1, 1, 0, 3, out.ctypes)
        slope = out[1] - nu + tau * mode - (mode - mean) * precision
        curvature = out[2] + tau - precision
        if not (curvature < 0.0 and abs(slope) < math.inf):
            mode = start
        elif slope * slope < -0.04 * curvature or i > _NEWTON:
            width = 1.0 / math.sqrt(-curvature)
            bent = abs(1.0 - width * width * (precision - tau))
            skew = abs(out[3]) * width * width * width
            return mode - slope / curvature, width, skew, bent
        else:
            mode -= slope / curvature
    return start, root, 1.0, 1.0


@jit
def _falls(kernel, theta, site, mean, root, mode, width, x, g, out):
    """Whether the integrand falls on both sides as its Gaussian does: there is no cliff."""
    x[0], x[1], x[2] = mode, mode - _FAR * width, mode + _FAR * width
    _integrand(kernel, theta, site, mean, 0.5 / (root * root), 0, 3, x, g, out)
    fall = g[0] - 0.5 * _FAR * _FAR
    return abs(g[1] - fall) < _OFF and abs(g[2] - fall) < _OFF


@jit
def _draw_node(
    rng, kernel, concave, theta, site, mean, root, mode, spacing, x, g, out
):  # fmt: skip
    """A node of a shifted lattice in proportion to the integrand there, and log of its sum."""
    _, nu, tau = site
    v = root * root
    a = 1.0 - tau * v
    cavity, reach = (mean - nu * v) / a, _REACH * root / math.sqrt(a)
    lowest = mode if concave else min(mode, cavity - reach)
    highest = mode if concave else max(mode, cavity + reach)
    shift, half, middle = rng.random(), 0.5 / v, _CAPACITY // 2
    narrow = spacing
    while True:
        lattice = (mode + (shift - middle) * spacing, spacing)
        first, last = middle - _NODES // 2, middle + _NODES // 2
        top = _nodes(kernel, theta, site, mean, half, lattice, first, last, x, g, out)
        while first >= _MORE and (x[first] > lowest or g[first] > top - _DROP):
            new = first - _MORE
            more = _nodes(kernel, theta, site, mean, half, lattice, new, first, x, g, out)
            first, top = new, max(top, more)
        while last <= _CAPACITY - _MORE and (x[last - 1] < highest or g[last - 1] > top - _DROP):
            new = last + _MORE
            more = _nodes(kernel, theta, site, mean, half, lattice, last, new, x, g, out)
            last, top = new, max(top, more)
        if (first >= _MORE and last <= _CAPACITY - _MORE) or not spacing < 1e100:
            break
        spacing *= 2.0
    if not concave and spacing > narrow:  # nodes may pass by a mode
        return mean, math.nan
    if not abs(top) < math.inf:
        return mean, -math.inf
    total = 0.0
    for i in range(first, last):
        total += math.exp(g[i] - top)
        g[i] = total
    chosen, pick = first, rng.random() * total
    while g[chosen] < pick and chosen < last - 1:
        chosen += 1
    return x[chosen], top + math.log(total * spacing)


@jit
def _nodes(kernel, theta, site, mean, half, lattice, first, last, x, g, out):
    """The integrand at nodes ``first`` to ``last`` of a lattice."""
    origin, spacing = lattice
    for i in range(first, last):
        x[i] = origin + i * spacing
    return _integrand(kernel, theta, site, mean, half, first, last, x, g, out)


@jit
def _integrand(kernel, theta, site, mean, half, first, last, x, g, out):
    """Log of the integrand at nodes ``first`` to ``last``, and its maximum."""
    constant, nu, tau = site
    kernel(x[first:].ctypes, theta.ctypes, last - first, 1, 0, 1, out.ctypes)
    top = -math.inf
    for i in range(first, last):
        away = x[i] - mean
        value = out[i - first] - constant - x[i] * (nu - 0.5 * tau * x[i]) - half * away * away
        g[i] = value if value == value else -math.inf
        top = max(top, g[i])
    return top
