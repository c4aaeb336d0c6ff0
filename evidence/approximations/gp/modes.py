r"""Where EP has several fixed points: a search from many starts, and the mixture of what it finds.

Of a likelihood that is not log-concave the posterior may have several modes, and EP as many fixed
points; which one it reaches is decided by where it starts, by the order of the rows even. Here
Newton climbs start from the prior mean, from the data taken together, from few data at a time
(a random handful, each at its own location, as in random sample consensus) and, later, from the
points of a scout (:mod:`evidence.drivers.scout`); EP starts from every different summit, and
different fixed points become components. EP may leave a summit for good, where its mode is narrow
beside another: draws in steps of a few latent values then have Laplace's Gaussian there, others
the prior's share.

Reference: M. A. Fischler and R. C. Bolles, Comm. ACM 24 (1981) 381 (random sample consensus).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import numpy as np

from ...gaussians.base import NotPositiveDefinite, Sites
from ...messages import Message
from ...models.latent import LatentModel
from ...models.likelihoods.quadrature import evaluate
from ...numerics.arrays import Array, Indices
from ..mixture import Mixture
from ..reference import GaussianReference, prior_reference
from .ep import fit_ep
from .laplace import Summit, climb, laplace_at

Start = tuple[Array, Array]
"""x and K⁻¹(x - m)."""

_NEGLIGIBLE = 12.0  # nats below the best fixed point
_GRID = 257  # points over which maxima are looked for


def fit_mixture(
    model: LatentModel, ep: GaussianReference | None = None, *, seed: int = 0
) -> GaussianReference | Mixture:
    """EP's Gaussian, or a mixture where there may be several modes and several are found.

    Parameters
    ----------
    model : GPModel or SparseModel
    ep : GaussianReference, optional
        :func:`.fit_ep` of the model, which is then not fitted again where it is one of them.
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

    >>> from evidence import GPModel
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
        return ep or fit_ep(model)
    ep = ep or fit_ep(model)
    found = _fixed_points(model, _starts(model, np.random.default_rng(seed)), [], ep)
    # where EP ended between the modes, what it promises of log Z must decide about no other
    found = found or [ep]
    unseen = _unseen(model)
    exact = model.prior.design is not None and model.n == 1  # draws integrate one latent value
    alone = len(found) == 1 and not unseen and (exact or not _prior_helps(found[0]))
    return found[0] if alone else mixture_of(found, unseen)


def fit_best(model: LatentModel) -> GaussianReference:
    """EP's fixed point of the largest log Z, whatever the order of rows."""
    fit = fit_mixture(model)
    return fit.heaviest()[0] if isinstance(fit, Mixture) else fit


def extend_mixture(mixture: Mixture, points: Array, *, probes: int = 8) -> Mixture:
    """The mixture with what EP finds from some of the points (rows), where that is new.

    ``points`` lie where no component has a claim, as a scout from the prior finds them.

    ``probes``: of a scout's points, those from which one climbs.
    """
    model, known = mixture.model, list(mixture.components[:-1])
    points = model.prior.predictors(points)
    starts = (_uphill(model, x) for x in points[:: max(1, len(points) // probes)])
    found = _fixed_points(model, starts, known, known[0])
    return mixture if len(found) == len(known) else mixture_of(found, mixture.warnings)


def mixture_of(
    references: list[GaussianReference], warnings: Sequence[str] = (), prior: bool = False, *,
    least: float = 0.05, few: int = 32,
) -> Mixture:  # fmt: skip
    """References weighted by their log Z, as far as that may be believed, and the prior.

    Draws in steps reach other modes of single latent values by themselves, and a scout would find
    no way there among many: where they are possible the prior claims nothing, unless latent values
    are so few that draws of the prior find all of them, or ``prior`` asks for it.

    ``least``: weight of any component, relative to the largest; ``few``: as for
    :func:`_prior_helps`.
    """
    model = references[0].model
    logz = np.array([reference.logz for reference in references])
    weights = np.maximum(np.exp(logz - logz.max()), least)
    if not (prior or _prior_helps(references[0], few)):
        return Mixture(references, weights, warnings)
    return Mixture([*references, prior_reference(model)], np.append(weights, least), warnings)


def _prior_helps(reference: GaussianReference, few: int = 32) -> bool:
    """Whether the prior is a component.

    ``few``: latent values that draws of the prior in steps reach wherever they are, as what groups
    share is drawn before them. (With 4, lifetimes of 4, 6 and 12 groups with a flat end, in which
    half of a wide prior is, had a log Z 2.8 too low, ± .02.)
    """
    return reference.model.prior.design is None or reference.mean.size <= few


def _unseen(model: LatentModel, *, numbers: int = 2**18) -> list[Message]:
    """A warning, where a datum's likelihood has maxima that no integral over it knows of.

    ``numbers``: values at once.
    """
    hints = np.vstack([model.prior.mean, model.likelihood.locations(model.y)])
    for some in np.array_split(np.arange(model.y.size), -(-_GRID * model.y.size // numbers)):
        for n, tops in _maxima(model, some, hints):
            text = (
                f"the likelihood of datum {n} has maxima near x = "
                f"{', '.join(f'{top:.3g}' for top in tops)}, of which integrals over it may "
                "miss some: give the likelihood a location= with a row for each"
            )
            return [Message("hidden-maxima", text)]
    return []


def _maxima(
    model: LatentModel, some: Indices, hints: Array, *, far: float = 8.0, thirds: int = 30
) -> Iterator[tuple[int, Array]]:
    """Those of some data, by number, with several of which some have no hint.

    ``far``: standard deviations of the prior that are searched; ``thirds``: steps that narrow a
    maximum.
    """
    kernel, theta, sd = model.likelihood.kernel, model.theta, np.sqrt(model.prior.variances)

    def height(x: Array, data: Indices) -> Array:
        z = (x - model.prior.mean[data]) / sd[data]
        return evaluate(kernel, np.ascontiguousarray(theta[:, data]), x)[0] - 0.5 * z * z

    x = model.prior.mean[some] + sd[some] * np.linspace(-far, far, _GRID)[:, None]
    g = height(x.ravel(), np.tile(some, _GRID)).reshape(x.shape)
    rows, columns = np.nonzero((g[1:-1] > g[:-2]) & (g[1:-1] >= g[2:]))
    several = np.bincount(columns, minlength=some.size)[columns] > 1
    rows, columns = rows[several], columns[several]
    left, right = x[rows, columns], x[rows + 2, columns]
    data = np.tile(some[columns], 2)
    for _ in range(thirds if data.size else 0):  # of what is between two points, the better ones
        one, two = left + (right - left) / 3.0, right - (right - left) / 3.0
        up = np.less(*np.split(height(np.append(one, two), data), 2))
        left, right = np.where(up, one, left), np.where(up, right, two)
    tops = 0.5 * (left + right)
    high = height(tops, some[columns])
    for k in np.unique(columns):
        own = (columns == k) & (high > high[columns == k].max() - _NEGLIGIBLE)
        valleys = x[1:-1][(g[1:-1, k] < g[:-2, k]) & (g[1:-1, k] <= g[2:, k]), k]
        basins = np.searchsorted(valleys, tops[own])
        if not set(basins) <= set(np.searchsorted(valleys, hints[:, some[k]])):
            yield int(some[k]), tops[own]


def _fixed_points(
    model: LatentModel, starts: Iterable[Start], known: Sequence[GaussianReference],
    first: GaussianReference, *, inside: float = 0.5, most: int = 3,
) -> list[GaussianReference]:  # fmt: skip
    """Different fixed points of EP, from summits, and Laplace's Gaussians at those that draws from
    them would not reach; those that count beside the best.

    The ``first`` one is not fitted again where a summit is in its middle.

    ``inside``: standard deviations of q; ``most``: fits in a row that do not converge, nor find
    anything (at θ far from the posterior 29 of 240 sweeps each ended at one point).
    """
    found, tops, vain = list(known), list[Summit](), 0
    for summit in _summits(model, starts):
        if vain >= most:
            break
        tops.append(summit)
        mean, var = first.predictors
        if first.converged and np.max(np.abs(summit.x - mean) / np.sqrt(var)) < inside:
            _add(found, first)
            continue
        tau = np.maximum(summit.tau, 0.0)
        sites = Sites(np.zeros(model.y.size), summit.slope + tau * summit.x, tau)
        with suppress(NotPositiveDefinite):
            new = fit_ep(model, start=sites)
            vain = 0 if _add(found, new) or new.converged else vain + 1
    ceiling = model.likelihood.ceiling(model.y)  # between modes EP may promise anything
    found = [reference for reference in found if reference.logz <= ceiling]
    if model.prior.design is not None and _prior_helps(first):
        # its share of a few latent values has wide tails, and a narrow mode among them is rare
        left = [top for top in tops if not any(_reaches(q, top) for q in found)]
        found += [laplace_at(model, top, np.maximum(top.tau, 0.0)) for top in left]
    best = max((reference.logz for reference in found), default=-np.inf)
    return [reference for reference in found if reference.logz > best - _NEGLIGIBLE]


def _reaches(q: GaussianReference, top: Summit, *, reach: float = 6.0) -> bool:
    """Whether the summit is as near to q's mean, in units of q, as draws from q are.

    There the likelihoods' slopes are K⁻¹(x - m), so that Σ⁻¹(x - μ) is their distance to q's.

    ``reach``: standard deviations of χ², the squared distance of draws.
    """
    away = top.x - q.predictors[0]
    squared = away @ (top.slope - q.sites.nu + q.sites.tau * top.x)
    size = min(q.mean.size, away.size)
    return bool(squared < size + reach * np.sqrt(2.0 * size))


def _summits(
    model: LatentModel, starts: Iterable[Start], *, patience: int = 12, each: int = 6,
    steps: int = 60, tolerance: float = 1e-3, same_summit: float = 0.2,
) -> Iterator[Summit]:  # fmt: skip
    """Different modes of the posterior, until many climbs in a row find nothing new.

    ``patience``: climbs in a row that find nothing new, or, of many modes, so many for ``each``
    and one more (of four alike one was missed by 1 of 12 seeds); ``steps``: of Newton's method;
    ``tolerance``: of a climb, in standard deviations of the prior; ``same_summit``: distance of
    one summit from itself, in standard deviations of Laplace's Gaussian there.
    """
    found, idle = list[tuple[Array, Array]](), 0

    def known(x: Array) -> bool:
        return any(bool((np.abs(x - top) < reach).all()) for top, reach in found)

    for start in starts:
        summit = climb(model, *start, max_iterations=steps, tol=tolerance, known=known)
        idle += 1
        if not known(summit.x) and (variances := _at_summit(model, summit)) is not None:
            found.append((summit.x, same_summit * np.sqrt(variances)))
            idle = 0
            yield summit
        if idle >= max(patience, each * (len(found) + 1)):
            return


def _at_summit(model: LatentModel, summit: Summit) -> Array | None:
    """Laplace's variances; None at a saddle point between summits, where symmetry may lead."""
    try:
        q = model.prior.with_sites(summit.slope + summit.tau * summit.x, summit.tau)
    except NotPositiveDefinite:
        return None
    return q.variances if q.variances.min() > 0.0 else None


def _uphill(model: LatentModel, x: Array) -> Start:
    """One of Newton's steps from any point: where to climb from."""
    _, slope, curvature, _ = evaluate(model.likelihood.kernel, model.theta, x)
    tau = np.maximum(-curvature, 0.0)
    q = model.prior.with_sites(slope + tau * x, tau)
    return q.mean, q.dual


def _starts(
    model: LatentModel, rng: np.random.Generator, *, starts: int = 128, large: int = 375
) -> Iterator[Start]:
    """The prior mean, what all data say, what few of them say.

    ``starts``: climbs at most; ``large``: N from which on there are fewer climbs.
    """
    handfuls = (1, 1, 2, 3, 5)  # data that start a climb
    prior = model.prior
    N = model.y.size
    n = min(starts, max(4, starts * large // N))
    locations = model.likelihood.locations(model.y)
    precision = _precision(model, locations[0])
    yield prior.mean.copy(), np.zeros(model.y.size)
    for k in range(n - 1):
        tau, location = precision, locations[0]
        if k:
            size = min(handfuls[k % len(handfuls)], model.y.size)
            few = rng.choice(model.y.size, size, replace=False)
            tau, location = np.zeros(model.y.size), rng.choice(locations, axis=0)
            tau[few] = precision[few]
        q = prior.with_sites(tau * location, tau)
        yield q.mean, q.dual


def _precision(model: LatentModel, location: Array) -> Array:
    """What a datum says at its own location: expected curvature, or the one there."""
    with suppress(NotImplementedError):
        return model.likelihood.fisher(model.y)
    curvature = -evaluate(model.likelihood.kernel, model.theta, location)[2]
    return np.fmax(curvature, 1.0 / model.prior.variances)


def _add(
    found: list[GaussianReference], new: GaussianReference, *, same_point: float = 0.1
) -> bool:
    """Unless it is there already; whether it is new.

    ``same_point``: distance of one fixed point from itself, in standard deviations of q.
    """
    mean = new.predictors[0]
    apart = (np.max(np.abs(at - mean) / np.sqrt(var)) for at, var in (q.predictors for q in found))
    if any(away < same_point for away in apart):
        return False
    found.append(new)
    return True
