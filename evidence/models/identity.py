r"""What a model is, for checkpoints: the numbers that it computes, not the text it was written in.

A checkpoint goes on with a run only where the model has the same identity. Functions are known by
their values and derivatives at fixed points that belong to the model, so that a formula may be
rewritten, renamed or moved to another file, but not changed.

Numbers are rounded to eight digits, since other machines, and other versions of Python or of a
library, may differ in the last of sixteen. Two kinds of difference are therefore still seen that
are no change of the model: functions computed in single precision, or with random numbers, and
(seldom: of a number in 10⁷ or so) a last digit that turns the eighth. Unseen are changes that are
zero to eight digits at all of the points, such as those of a formula for a region far from them.
"""

from __future__ import annotations

import numpy as np

from ..gaussians.base import Prior
from ..numerics.arrays import Array

_POWERS = np.array([float(f"1e{k}") for k in range(300)])  # pow() differs between machines


def rounded(
    values: object, unit: float | None = None, *, digits: int = 8, small: float = 1e-3
) -> Array:
    """Numbers of which eight digits are left, the same where only later ones differ.

    Parameters
    ----------
    values : array (M, …)
    unit : float, optional
        Digits are counted from here where a number is smaller; by default from a thousandth of
        the largest number in its row.

    Examples
    --------
    >>> rounded([1.0, 0.1 + 0.2]).tolist() == rounded([1.0 - 1e-16, 0.3]).tolist()
    True
    >>> rounded([[1.0, 0.123456789, 1e-17]]).tolist()
    [[1.0, 0.12345679, 0.0]]

    ``digits``: that are kept; ``small``: share of the largest number in a row at which, and below,
    digits are lost to cancellation.
    """
    a = np.array(values, dtype=float, ndmin=1)
    size = np.where(np.isfinite(a), np.abs(a), 0.0)
    least = small * size.max(axis=tuple(range(1, a.ndim)), keepdims=True, initial=0.0)
    size = np.maximum(size, least if unit is None else unit)
    size[size == 0.0] = 1.0
    places = np.clip(digits - 1 - np.floor(np.log10(size)).astype(int), -299, 299)
    power = _POWERS[np.abs(places)]
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.where(places > 0, np.rint(a * power) / power, np.rint(a / power) * power)
    out = np.where(np.isinf(a), a, out)
    return np.where(np.isnan(out), np.nan, out + 0.0)  # one NaN, and one zero


def sketch_prior(prior: Prior) -> tuple[Array, Array]:
    """The same as :func:`sketch`, without K as a matrix."""
    columns = [prior.times(v) for v in _vectors(prior.mean.size).T]
    return rounded(prior.variances), rounded(np.column_stack(columns))


def _vectors(n: int) -> Array:
    return np.arange(1.0, n + 1.0)[:, None] * np.sqrt([2.0, 3.0, 5.0, 7.0]) % 1.0


def sketch(K: Array) -> tuple[Array, Array]:
    """Covariances (…, N, N) by their diagonals and their products with four fixed vectors.

    Not entry by entry: of a million, one would be rounded the other way on another machine.
    """
    products = (K @ _vectors(K.shape[-1])).reshape(-1, 4)
    return rounded(np.diagonal(K, axis1=-2, axis2=-1)), rounded(products)
