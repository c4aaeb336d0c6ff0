r"""log Z_L - log Z_0 from samples at every level of a one-parameter family.

.. math:: p_\beta(x) \propto q(x)\, e^{\beta h(x)}, \qquad
          Z_\beta = \int q(x)\, e^{\beta h(x)}\, dx

Only the tilts h matter: ``tilt[c, s, l]`` is h of the state of chain c after sweep s at the
level β_l. The sweep is the unit. States of different levels may depend on each other within it
(they swap places in parallel tempering) and chains may depend on their past, so each estimator
says how much every sweep moved it, its *influence* ψ, summed over levels:

.. math:: \hat\Delta \approx \Delta + \frac{1}{CS} \sum_{c,s} \psi_{cs}, \qquad
          \mathrm{se} = \mathrm{sd}(\psi) / \sqrt{\mathrm{ess}(\psi)}

A tilt of -inf, outside the likelihood's support, has weight 0 at every β > 0.

References
----------
Bennett (1976), J. Comput. Phys. 22, 245–268.
Shirts, Chodera (2008), J. Chem. Phys. 129, 124105 (MBAR).
Xie, Lewis, Fan, Kuo, Chen (2011), Syst. Biol. 60, 150–160 (stepping stones).
Friel, Hurn, Wyse (2014), Stat. Comput. 24, 709–723 (the corrected trapezium rule).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from ...messages import InputError
from ...numerics.arrays import Array
from ...statistics import ladders
from ...statistics.diagnostics import FEWEST, ess

_BLOCK = 2**18  # numbers of a block of MBAR's weights


class Bridge(NamedTuple):
    """log Z_L - log Z_0, its standard error, and where both come from.

    Attributes
    ----------
    se : float
        NaN where the samples cannot tell: one chain of fewer than 4 sweeps, or no
        overlap.
    influence : array
        (chains, sweeps), mean zero: delta minus its limit is about the mean of noise like
        this.
    levels : array
        (L,) log Z at every level minus log Z_0.
    """

    delta: float
    se: float
    influence: Array
    levels: Array


def stepping_up(tilt: ArrayLike, betas: ArrayLike) -> Bridge:
    r"""Importance sampling from each level to the next, log ratios summed.

    .. math:: \sum_l \log \langle e^{\Delta_l h}\rangle_{l},\qquad
              \Delta_l = \beta_{l+1} - \beta_l

    With independent samples, exp of it is unbiased for the ratio of Z.
    """
    tilt, betas = _check(tilt, betas)
    with np.errstate(all="ignore"):  # -inf where a level has left the support
        ratio, influence = _log_mean_exp(np.diff(betas) * tilt[..., :-1])
        return _bridge(ratio, influence.sum(axis=2))


def stepping_down(tilt: ArrayLike, betas: ArrayLike) -> Bridge:
    r"""The same from each level to the one below: errs on the other side.

    .. math:: -\sum_l \log \langle e^{-\Delta_l h}\rangle_{l+1}

    exp(-·) of it is unbiased for the inverse of the ratio. Going down only sees where h > -inf;
    the share of β = 0 that lies there is counted at that level.
    """
    tilt, betas = _check(tilt, betas)
    with np.errstate(all="ignore"):
        ratio, influence = _log_mean_exp(-np.diff(betas) * tilt[..., 1:])
        share, inside = _inside(tilt)
        ratio = -ratio
        ratio[0] += share
        return _bridge(ratio, inside - influence.sum(axis=2))


def thermodynamic(tilt: ArrayLike, betas: ArrayLike) -> Bridge:
    r"""Thermodynamic integration: the corrected trapezium rule for ∫ ⟨h⟩_β dβ.

    .. math:: \hat\Delta = \sum_l \frac{\Delta_l}{2}\big(m_l + m_{l+1}\big)
              - \frac{\Delta_l^2}{12}\big(v_{l+1} - v_l\big)

    with mean m_l and variance v_l = dm/dβ of h at level l (Friel, Hurn and Wyse 2014). The
    error of the rule itself is not in ``se``: it falls as Δ⁴.
    """
    tilt, betas = _check(tilt, betas)
    step = np.diff(betas)
    with np.errstate(all="ignore"):
        share, influence = _inside(tilt)
        inside = np.isfinite(tilt)
        inside[..., 1:] = True  # there -inf is a broken chain, and shows
        count = inside.sum(axis=(0, 1))
        mean = np.where(inside, tilt, 0.0).sum(axis=(0, 1)) / count
        centred = np.where(inside, tilt - mean, 0.0)
        variance = np.square(centred).sum(axis=(0, 1)) / count
        steps = 0.5 * step * (mean[:-1] + mean[1:]) - step**2 / 12.0 * np.diff(variance)
        steps[0] += share
        above, below = np.append(step, 0.0), np.append(0.0, step)
        by_mean, by_variance = 0.5 * (above + below), (above**2 - below**2) / 12.0
        scale = inside[..., 0].size / count
        influence = influence + centred @ (by_mean * scale)
        spread = np.where(inside, np.square(centred) - variance, 0.0)
        return _bridge(steps, influence + spread @ (by_variance * scale))


def bennett(tilt: ArrayLike, betas: ArrayLike, *, no_overlap: float = 1e-12) -> Bridge:
    r"""Bennett's acceptance ratio between neighbours: the best use of two adjacent levels.

    Each ratio c of neighbours solves, over the samples of both,

    .. math:: \langle \sigma(\Delta_l h - c)\rangle_l
              = \langle \sigma(c - \Delta_l h)\rangle_{l+1},
              \qquad \sigma(u) = 1 / (1 + e^{-u}).

    ``no_overlap``: overlap below which there is none.
    """
    tilt, betas = _check(tilt, betas)
    ratios, influence = np.empty(betas.size - 1), np.zeros(tilt.shape[:2])
    for l, step in enumerate(np.diff(betas)):
        u = step * tilt[..., l : l + 2]
        ratios[l] = _balance(u.ravel())
        weight = expit(u - ratios[l])
        with np.errstate(all="ignore"):
            slope = np.mean(np.sum(weight * (1.0 - weight), axis=2))
            if slope < no_overlap:
                influence += np.nan  # neither level has been where the other one is
            else:
                influence += (weight.sum(axis=2) - 1.0) / slope
    return _bridge(ratios, influence)


def _balance(u: Array, *, max_bisections: int = 2500) -> float:
    """The c at which half of the weight, Σ σ(u - c), has gone.

    ``max_bisections``: enough, where tilts may span all exponents.
    """
    finite = u[np.isfinite(u)]
    if 2 * finite.size <= u.size:
        return -np.inf
    low, high = float(finite.min()) - 1.0, float(finite.max()) + 1.0
    reach = np.log(u.size) + 40.0  # beyond the extremes, where -inf has taken its share

    def excess(c: float) -> float:
        return float(expit(u - c).mean() - 0.5)

    return float(brentq(excess, low - reach, high + reach, xtol=1e-13, maxiter=max_bisections))


def mbar(
    tilt: ArrayLike, betas: ArrayLike, *, tolerance: float = 1e-10, max_newton: int = 100
) -> Bridge:
    r"""All samples for all levels at once (MBAR; Shirts and Chodera 2008).

    With f_l = log Z_l - log Z_0 and the weights of a sample for the levels,

    .. math:: W_{il} = \frac{e^{\beta_l h_i - f_l}}{\sum_k e^{\beta_k h_i - f_k}}, \qquad
              \sum_i W_{il} = CS \quad \text{for every } l.

    f minimises a convex function, Σ_i log Σ_l exp(β_l h_i - f_l) + CS Σ_l f_l, by Newton's
    method from :func:`bennett`'s answer. Its Hessian is also the Jacobian through which a
    sweep's Σ_l W moves f.

    ``tolerance``: of log Z; ``max_newton``: steps of Newton's method.
    """
    tilt, betas = _check(tilt, betas)
    f = bennett(tilt, betas).levels
    sweeps = tilt.reshape(-1, betas.size)
    if not np.isfinite(f).all():
        return _bridge(np.diff(f), np.full(tilt.shape[:2], np.nan))
    now = _mbar_objective(f, sweeps, betas)
    for _ in range(max_newton):
        before = f
        f, now = _descend(f, now, sweeps, betas)
        if np.abs(f - before).max() < tolerance:
            break
    influence = np.full(sweeps.shape[0], np.nan)
    through = _solve(now.hessian, np.eye(f.size)[-1])
    for rows, _, weight in _mbar_weights(f, sweeps, betas):
        influence[rows] = (through @ weight).reshape(-1, f.size).sum(axis=1) - through.sum()
    return _bridge(np.diff(f), influence.reshape(tilt.shape[:2]))


class _Objective(NamedTuple):
    """MBAR's convex function of f divided by CS, with its derivatives."""

    value: float
    gradient: Array
    hessian: Array


def _mbar_weights(f: Array, sweeps: Array, betas: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Blocks of sweeps: log Σ_l exp(β_l h - f_l) of their samples (n,), and W (levels, n)."""
    size = max(1, _BLOCK // betas.size**2)
    for first in range(0, len(sweeps), size):
        rows = slice(first, first + size)
        u = _exponents(sweeps[rows], betas) - f[:, None]
        peak = u.max(axis=0)
        weight = np.exp(np.subtract(u, peak, out=u), out=u)
        total = weight.sum(axis=0)
        weight /= total
        yield rows, peak + np.log(total), weight


def _mbar_objective(f: Array, sweeps: Array, betas: Array) -> _Objective:
    n, levels = sweeps.shape
    value, sums, products = 0.0, np.zeros(levels), np.zeros((levels, levels))
    for _, total, weight in _mbar_weights(f, sweeps, betas):
        value += total.sum()
        sums += weight.sum(axis=1)
        products += weight @ weight.T
    return _Objective(value / n + f.sum(), 1.0 - sums / n, (np.diag(sums) - products) / n)


def _descend(
    f: Array, now: _Objective, sweeps: Array, betas: Array, *, rounding: float = 1e-12
) -> tuple[Array, _Objective]:
    """Newton's step with f_0 = 0, shortened if need be; else one self-consistent iteration.

    ``rounding``: relative change that is rounding.
    """
    step = _solve(now.hessian, now.gradient)
    for scale in (1.0, 0.3, 0.1, 0.03) if np.isfinite(step).all() else ():
        new = _mbar_objective(f - scale * step, sweeps, betas)
        if new.value <= now.value + rounding * abs(now.value):
            return f - scale * step, new
    f = _self_consistent(f, sweeps, betas)
    return f, _mbar_objective(f, sweeps, betas)


def _self_consistent(f: Array, sweeps: Array, betas: Array) -> Array:
    """f_l ← log Σ_i exp(β_l h_i) / Σ_k exp(β_k h_i - f_k), up to a constant: never ascends."""
    parts = ((_exponents(sweeps[at], betas), t) for at, t, _ in _mbar_weights(f, sweeps, betas))
    new = logsumexp([logsumexp(u - total, axis=1) for u, total in parts], axis=0)
    return new - new[0]


def _exponents(sweeps: Array, betas: Array) -> Array:
    """β_l h_i, shape (levels, samples); at β = 0 even where h = -inf."""
    h = sweeps.ravel()
    u = np.multiply.outer(betas, np.where(np.isfinite(h), h, 0.0))
    u[1:, np.isneginf(h)] = -np.inf
    return u


def _solve(hessian: Array, right: Array) -> Array:
    """Solve with the first unknown fixed at zero; NaN where levels do not overlap at all."""
    out = np.zeros_like(right)
    try:
        out[1:] = np.linalg.solve(hessian[1:, 1:], right[1:])
    except np.linalg.LinAlgError:
        out[1:] = np.nan
    return out


def _check(tilt: ArrayLike, betas: ArrayLike) -> tuple[Array, Array]:
    tilt, betas = np.asarray(tilt, dtype=float), ladders.check(betas)
    if tilt.ndim != 3 or tilt.shape[2] != betas.size or tilt.size == 0:
        raise InputError(
            f"tilt must have shape (chains, sweeps, {betas.size}) for {betas.size} levels from "
            f"β = 0 to 1, got {tilt.shape}"
        )
    if np.isnan(tilt).any() or np.isposinf(tilt).any():
        raise InputError("tilt must hold numbers or -inf, got NaN or inf: drop such sweeps")
    return tilt, betas


def _log_mean_exp(u: Array) -> tuple[Array, Array]:
    """log of the mean of exp u over chains and sweeps, and its influence, per level."""
    peak = u.max(axis=(0, 1))
    w = np.exp(u - peak)
    mean = w.mean(axis=(0, 1))
    return peak + np.log(mean), w / mean - 1.0


def _inside(tilt: Array) -> tuple[float, Array]:
    """log of the share of β = 0 where h > -inf, and its influence (chains, sweeps)."""
    inside = np.isfinite(tilt[..., 0])
    share = inside.mean()
    return float(np.log(share)), inside / share - 1.0


def _bridge(steps: Array, influence: Array) -> Bridge:
    levels = np.concatenate([[0.0], np.cumsum(steps)])
    se = _standard_error(influence) if np.isfinite(levels[-1]) else np.nan
    return Bridge(float(levels[-1]), se, influence, levels)


def _standard_error(influence: Array, many: int = 16) -> float:
    """The larger of what autocorrelation says and, where they are ``many``, the spread of chains.

    Antithetic chains count as independent: a few sweeps cannot prove it.
    """
    chains, sweeps = influence.shape
    if not np.isfinite(influence).all():
        return np.nan
    along = across = np.nan
    with np.errstate(over="ignore"):  # of a tilt too low to be squared
        if np.ptp(influence) == 0.0:
            along = 0.0
        elif sweeps >= FEWEST:
            worth = np.minimum(ess(influence), influence.size)
            along = float(influence.std(ddof=1) / np.sqrt(worth))
        if chains >= (many if np.isfinite(along) else 2):
            across = float(influence.mean(axis=1).std(ddof=1) / np.sqrt(chains))
    return float(np.fmax(along, across))


ESTIMATORS: dict[str, Callable[[ArrayLike, ArrayLike], Bridge]] = {
    "mbar": mbar,
    "bennett": bennett,
    "thermodynamic": thermodynamic,
    "up": stepping_up,
    "down": stepping_down,
}
