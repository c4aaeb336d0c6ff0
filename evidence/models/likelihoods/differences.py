"""Are the derivatives of a likelihood the derivatives of its log density?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...messages import InputError
from . import quadrature
from .base import PLACES, Array, Likelihood

_NAMES = ("log p", "the first derivative", "the second derivative", "the third derivative")


def check_derivatives(likelihood: Likelihood, y: ArrayLike | None = None) -> None:
    """Raise ``ValueError`` where row k+1 of the kernel is not the slope of row k.

    Fourth-order central differences at six points around ``location(y)``. An entry is wrong
    when no step size between 1e-2 and 1e-5 agrees with it to 1e-4.
    """
    steps = (1e-2, 1e-3, 1e-4, 1e-5)
    observed = examples(likelihood) if y is None else np.atleast_1d(likelihood.check(y).y)
    theta, location = likelihood.theta(observed), likelihood.location(observed)
    for n, value in enumerate(observed):
        datum = np.repeat(theta[:, n : n + 1], len(PLACES), axis=1)
        x = location[n] + np.array(PLACES)
        rows = quadrature.evaluate(likelihood.kernel, datum, x)
        if not np.isfinite(rows).any(axis=1).all():
            raise InputError(
                f"function: not finite between x = {x[0]:g} and {x[-1]:g} at y = {value:g}; "
                "check its formula, or pass location="
            )
        if likelihood.log_concave and (rows[2] > 0.0).any():
            raise InputError(
                f"log_concave=True, but the second derivative is {np.max(rows[2]):g} > 0 "
                f"at y = {value:g}"
            )
        slopes = np.array([_slope(likelihood, datum, x, h) for h in steps])
        for k in (1, 2, 3):
            _compare(k, rows[k], slopes[:, k - 1], x, value)


def examples(likelihood: Likelihood) -> Array:
    """Values of y that the likelihood accepts, as many as its parameters ask for."""
    candidates = (-1.0, 0.0, 1.0, 2.0, -0.7, 0.4)
    accepted = []
    for candidate in candidates:
        try:
            accepted.append(float(likelihood.check(np.array([candidate])).y[0]))
        except ValueError:
            continue
    if not accepted:
        raise InputError(
            "example_y: none of -1, 0, 1, 2, -0.7, 0.4 passes check, so the derivatives cannot "
            "be tried; give a few valid observations as example_y="
        )
    params = getattr(likelihood, "params", ())
    sizes = [len(value) for _, value in params if isinstance(value, tuple)]
    return np.resize(np.unique(accepted), sizes[0] if sizes else len(set(accepted)))


def _slope(likelihood: Likelihood, datum: Array, x: Array, h: float) -> Array:
    """d/dx of the four rows, shape (4, points)."""
    left2, left, right, right2 = (
        quadrature.evaluate(likelihood.kernel, datum, x + k * h) for k in (-2, -1, 1, 2)
    )
    with np.errstate(invalid="ignore"):
        return (left2 - 8.0 * left + 8.0 * right - right2) / (12.0 * h)


def _compare(k: int, claimed: Array, slopes: Array, x: Array, y: float) -> None:
    usable = np.isfinite(claimed) & np.isfinite(slopes).any(axis=0)
    scale = np.max(np.abs(claimed[usable]), initial=0.0)
    with np.errstate(invalid="ignore"):
        error = np.abs(slopes - claimed)
    error = np.where(np.isfinite(error), error, np.inf)
    best = error.min(axis=0)
    wrong = usable & (best > 1e-4 * np.abs(claimed) + 1e-6 * scale + 1e-8)
    if wrong.any():
        i = int(np.argmax(np.where(wrong, best, -1.0)))
        found = slopes[error[:, i].argmin(), i]
        raise InputError(
            f"function: {_NAMES[k]} is wrong at x = {x[i]:g}, y = {y:g}: it returns "
            f"{claimed[i]:g}, finite differences of {_NAMES[k - 1]} give {found:g}"
        )
