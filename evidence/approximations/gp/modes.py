r"""Where EP has several fixed points: a search from many starts, and the mixture of what it finds.

Of a likelihood that is not log-concave the posterior may have several modes, and EP as many fixed
points; which one it reaches is decided by where it starts, by the order of the rows even. Here
Newton climbs start from the prior mean, from the data taken together, from few data at a time
(a random handful, each at its own location, as in random sample consensus) and from draws of the
prior; EP starts from every different summit, and different fixed points become components.

Reference: M. A. Fischler and R. C. Bolles, Comm. ACM 24 (1981) 381 (random sample consensus).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ...gaussians.base import NotPositiveDefinite, Sites
from ...models.gp import GPModel
from ..mixture import Mixture
from ..reference import GaussianReference, prior_reference
from .ep import fit_ep
from .laplace import Summit, climb

Array = NDArray[np.float64]

_STARTS, _IDLE = 48, 12  # climbs at most, and climbs in a row that find nothing new
_STEPS = 60  # of Newton's method
_HANDFULS = (1, 1, 2, 3, 5)  # data that start a climb
_LARGE = 1000  # from this N on there are fewer climbs
_SAME_SUMMIT = 1e-3  # in standard deviations of the prior
_SAME_POINT = 0.1  # of EP, in standard deviations of q
_NEGLIGIBLE = 20.0  # nats below the best fixed point
_LEAST = 0.05  # weight of any component, relative to the largest


def fit_mixture(model: GPModel, seed: int = 0) -> GaussianReference | Mixture:
    """EP's Gaussian, or a mixture where there may be several modes and several are found.

    Parameters
    ----------
    model : GPModel
    seed : int
        Of the starts that are drawn at random.

    Returns
    -------
    GaussianReference or Mixture
        One Gaussian for log-concave likelihoods, at no further cost. A mixture has the prior as
        its last component: what all others miss has a place there.

    Examples
    --------
    Two groups of data that contradict each other, under noise with heavy tails:

    >>> model = GPModel(
    ...     K=100.0 * np.ones((6, 6)) + 1e-3 * np.eye(6),
    ...     y=[-8.0, -8.0, -8.0, 8.0, 8.0, 8.0],
    ...     likelihood="student_t(df=3, scale=0.5)",
    ... )
    >>> mixture = fit_mixture(model)
    >>> sorted(round(float(c.mean[0])) for c in mixture.components)
    [-8, 0, 8]
    """
    if model.likelihood.log_concave:
        return fit_ep(model)
    return mixture_of(fixed_points(model, np.random.default_rng(seed)))


def fixed_points(model: GPModel, rng: np.random.Generator) -> list[GaussianReference]:
    """Different fixed points of EP, those that count: from summits, and from nothing."""
    found: list[GaussianReference] = []
    for summit in _summits(model, rng):
        tau = np.maximum(summit.tau, 0.0)
        start = Sites(np.zeros(model.n), summit.slope + tau * summit.x, tau)
        with suppress(NotPositiveDefinite):
            _add(found, fit_ep(model, start=start))
    # EP between the modes may promise any log Z: it decides about no other
    best = max((reference.logz for reference in found), default=-np.inf)
    with suppress(NotPositiveDefinite):
        _add(found, fit_ep(model))
    return [reference for reference in found if reference.logz > best - _NEGLIGIBLE]


def mixture_of(references: list[GaussianReference]) -> Mixture:
    """References weighted by their log Z, as far as that may be believed, and the prior."""
    prior = prior_reference(references[0].model)
    logz = np.array([reference.logz for reference in references])
    weights = np.maximum(np.exp(logz - logz.max()), _LEAST)
    return Mixture([*references, prior], np.append(weights, _LEAST))


def _summits(model: GPModel, rng: np.random.Generator) -> Iterator[Summit]:
    """Different modes of the posterior, as climbs find them."""
    width, found = np.sqrt(model.prior.variances), []
    starts, idle = _STARTS, 0
    if model.n > _LARGE:
        starts = max(4, _STARTS * _LARGE // model.n)
    for x, dual in _starts(model, rng, starts):
        summit = climb(model, x, dual, max_iterations=_STEPS, tol=_SAME_SUMMIT)
        idle += 1
        if _is_summit(model, summit) and all(
            np.max(np.abs(summit.x - other.x) / width) > 10.0 * _SAME_SUMMIT for other in found
        ):
            found.append(summit)
            idle = 0
            yield summit
        if idle == _IDLE:
            return


def _is_summit(model: GPModel, summit: Summit) -> bool:
    """Rather than a saddle point between summits, where symmetry may lead a climb."""
    try:
        q = model.prior.with_sites(summit.slope + summit.tau * summit.x, summit.tau)
    except NotPositiveDefinite:
        return False
    return bool(q.variances.min() > 0.0)


def _starts(model: GPModel, rng: np.random.Generator, n: int) -> Iterator[tuple[Array, Array]]:
    """x and K⁻¹(x - m) to climb from."""
    prior = model.prior
    location = np.asarray(model.likelihood.location(model.y), float)
    precision = model.likelihood.fisher(model.y)
    yield prior.mean.copy(), np.zeros(model.n)
    for k in range(n - 1):
        some = slice(None)
        if k:
            size = min(_HANDFULS[k % len(_HANDFULS)], model.n)
            some = rng.choice(model.n, size, replace=False)
        tau = np.zeros(model.n)
        tau[some] = precision[some]
        q = prior.with_sites(tau * location, tau)
        yield q.mean, q.dual


def _add(found: list[GaussianReference], new: GaussianReference) -> None:
    """Unless it is there already."""
    for other in found:
        if np.max(np.abs(other.mean - new.mean) / np.sqrt(other.var)) < _SAME_POINT:
            return
    found.append(new)
