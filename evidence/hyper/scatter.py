r"""Whether there is an evidence where a model can fit its data without any noise.

Where n data are fitted by r effects exactly, log Z(θ) is :math:`-k \log s`, k = n - r, for a
small noise s, and

.. math:: \int_0 s^{-k}\, p(s)\, ds = \infty \quad\text{if}\quad p(s) \ge c\, s^{k - 1},

for k = 1 already where p(0) > 0. Variances of effects may vanish with s. Where a prior prevents it
for noise that is far below the last digits of data, it may be made of rounding. Under other than
normal noise a datum's likelihood is about its peak :math:`\eta_i` as a Gaussian is,

.. math:: p(y_i|\eta) \approx p(y_i|\eta_i)\, e^{-(\eta - \eta_i)^2 / 2 w^2},

of a width w that free parameters may let vanish: the scale of a Student-t, large shapes of a
gamma distribution.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import qmc

from ..messages import InputError
from ..models.hyperparameters import scalars
from ..models.likelihoods.gaussian import Gaussian
from ..models.likelihoods.quadrature import evaluate
from ..models.priors import Priors
from ..models.scales import to_line
from ..models.sparse import SparseModel
from ..numerics.arrays import Array, Indices
from ..numerics.special import LOG_SQRT_2PI
from .grouped import grouped_evidence
from .parts import Parts

Cap = Callable[[float], float]

_DIGITS = 1e-15  # of the largest datum that are its last


def prior_net(priors: Priors, log2: int, *, inside: float = 1e-3) -> Array:
    """Natural values all over the prior.

    ``inside``: share of a prior's mass beyond a net of points all over it.
    """
    net = np.clip(qmc.Sobol(len(priors), rng=0).random_base2(log2), inside, 1.0 - inside)
    every = zip(priors.natural() or (), net.T, strict=True)
    return np.column_stack([prior.ppf(u) for prior, u in every])


def check_scatter(
    heights: Callable[[Array], Array], priors: Priors, noise: int, effects: Indices,
    largest: float, value: Callable[[float], float] = float, *, few_points: int = 5,
    shrunk: int = 4, above: float = 30.0, nothing: float = 1e-130, beyond: float = 1e-60,
    level: float = 0.01, deep: float = 1e3,
) -> None:  # fmt: skip
    """No evidence where noise, and any of the effects, may shrink to the digits of data: where
    density is higher there than anywhere else, or does not fall by a power of the noise, with the
    power that the prior has far below.

    ``heights`` are log densities over the line for rows of natural values; ``value`` is that of
    the parameter number ``noise`` at which the noise is as small.

    ``few_points``: log2 of points; ``shrunk``: effects that are tried small with the noise;
    ``above``: factor of a noise above the last digits; ``nothing``: the smallest noise where all
    data are zero, whose square is a number; ``beyond``: of a noise far below the last digits;
    ``level``: power of the noise that is rounding; ``deep``: nats below the best, where data are
    not fitted (of 40 data in groups the last digits made it 1e27 and more, up and down).
    """
    net, least = prior_net(priors, few_points), largest * _DIGITS or nothing
    best, effects = heights(net).max(), effects[:shrunk]
    for some in itertools.product((False, True), repeat=effects.size):
        near = partial(_near, noise, effects[list(some)], value)
        top = net[[(height := heights(near(net, least))).argmax()]]
        last = np.vstack([near(top, s * above * least) for s in (above, 1.0)])
        tail = np.vstack([near(top, s * above * least) for s in (above * beyond, beyond)])
        high, of_prior = heights(last), priors.log_density(to_line(last, priors.lows))
        with np.errstate(invalid="ignore"):
            rise = np.diff(high - of_prior + priors.log_density(to_line(tail, priors.lows)))
        open_ = rise[0] > -level * math.log(above) and high.min() > best - deep
        if open_ or height.max() > max(best, high[1]):
            name, much = priors.names[noise], value(least) > value(1.0)
            where = "values near zero, such as invgamma(2)"
            where = "large values, such as gamma(2)" if much else where
            raise InputError(
                "y: the model can fit it without any noise, and the evidence is infinite or "
                f"hangs on the last digits of y; give {name} a prior that rules out {where} or "
                "lognorm(1), or hold it at a value"
            )


def _near(noise: int, some: Indices, value: Callable[..., float], rows: Array, s: float) -> Array:
    """The same rows where noise and effects are as small as s."""
    rows = rows.copy()
    rows[:, some], rows[:, noise] = s, value(s)
    return rows


def check_peaks(
    model: SparseModel, priors: Priors, parts: Parts, accurate: float = 1e-6, rise: float = 0.5, *,
    wide: float = 1e6,
) -> None:  # fmt: skip
    """The same where every datum's likelihood is as a Gaussian about its peak, whose width
    vanishes by a power of a parameter that is free.

    At a width that is ``accurate`` log p at the peak is more than rounding. It rises by at least
    half of what the log of the width falls by: a peak gets no higher with a Student-t's df.

    ``wide``: a parameter that tells of widths.
    """
    likelihood = model.likelihood
    if model.n_predictors > 1 or not (likelihood.log_concave or likelihood.unimodal):
        return
    positive = np.isnan(priors.lows)
    effects = np.flatnonzero((parts.free < parts.n_kernel) & positive)
    for noise in np.flatnonzero(parts.free >= parts.n_kernel):
        name = scalars(model.likelihood)[parts.free[noise] - parts.n_kernel]
        for far in (1.0 / wide, wide):
            near, width = _width(model, {name: far}), _width(model, {name: far**1.5})
            if not 0.0 < width < 0.9 * near < math.inf:
                continue
            power = 2.0 * math.log(width / near) / math.log(far)
            value = partial(_value, far**1.5, width, power)
            at = np.asarray(likelihood.changed({name: value(_DIGITS)}).location(model.y), float)
            last, before = value(accurate), value(1e2 * accurate)
            higher = _top(model, at, {name: last}) - _top(model, at, {name: before})
            if not higher > rise * at.size * math.log(1e2):
                continue
            cap = partial(min if last > value(1.0) else max, last)
            if (heights := _heights(model, priors, parts, at, name, cap)) is not None:
                unit = 0.0 if np.array_equal(at, model.y) else 1.0  # of a log
                largest = max(unit, float(np.abs(at).max()))
                check_scatter(heights, priors, int(noise), effects, largest, value)


def _value(far: float, width: float, power: float, s: float) -> float:
    """Of a parameter, for a width."""
    return float(far * (s / width) ** (1.0 / power))


def _width(model: SparseModel, own: dict[str, float]) -> float:
    """The largest of all data's at their peaks; infinite where there are none."""
    try:
        likelihood = model.likelihood.changed(own)
    except InputError:  # beyond the ends of what a parameter may be
        return math.inf
    with np.errstate(all="ignore"):
        theta, at = likelihood.theta(model.y), likelihood.location(model.y)
        log_p, _, curved, _ = evaluate(likelihood.kernel, theta, np.asarray(at, float))
    if likelihood.kinks:  # that of a Gaussian as high
        return math.exp(-log_p.min() - LOG_SQRT_2PI)
    return 1.0 / math.sqrt(-curved.max()) if curved.max() < 0.0 else math.inf


def _top(model: SparseModel, at: Array, own: dict[str, float]) -> float:
    return float(model.likelihood.changed(own).log_prob(at, model.y).sum())


def _heights(
    model: SparseModel, priors: Priors, parts: Parts, at: Array, name: str, cap: Cap, *,
    dear: float = 1e4,
) -> Callable[[Array], Array] | None:  # fmt: skip
    """Log densities over the line where all likelihoods are Gaussian about these peaks, as high
    as the width that is left is small once it is below what the parameter called ``name`` has at
    its cap; None where a datum has none, without a closed form, or where a look takes long.

    ``dear``: multiplications of a thousand looks.
    """
    normal, n = copy.copy(model), parts.n_kernel
    normal.likelihood, normal.y, normal.theta = Gaussian(), at, Gaussian().theta(at)
    standing = np.append(parts.standing[:n], 1.0)
    all_of = parts._replace(standing=standing, free=np.arange(n + 1))
    evidence = grouped_evidence(normal, all_of) if np.isfinite(at).all() else None
    if evidence is None or evidence.cost > dear:
        return None

    def heights(rows: Array) -> Array:
        values, (width, top) = parts.values(rows), np.empty((2, len(rows)))
        for i, row in enumerate(values[:, n:].tolist()):
            own = dict(zip(scalars(model.likelihood), row, strict=True))
            width[i], capped = _width(model, own), own | {name: cap(own[name])}
            top[i] = _top(model, at, capped) + at.size * math.log(_width(model, capped) / width[i])
        with np.errstate(all="ignore"):
            out = evidence(np.column_stack([values[:, :n], width]))
            out += top + at.size * (np.log(width) + LOG_SQRT_2PI)
            out += priors.log_density(to_line(rows, priors.lows))
        return np.where(np.isnan(out), -np.inf, out)

    return heights
