"""What one covariate does in a regression, all others held: a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..execution.arguments import check_count, check_kind, number, shown
from ..execution.keywords import hinted
from ..execution.lazy import Axes, pd
from ..messages import InputError, suggest
from ..models.formulas.model import FormulaModel, as_frame
from ..models.formulas.parse import columns, parse
from ..models.formulas.structured import TERMS
from ..numerics.arrays import Array
from ..plots.predictions import expected, plot_effect
from ..verbs._options import Posterior
from .predict import predict

_NOBODY = "(no group)"


@hinted
def plot_effects(
    model: FormulaModel,
    data: pd.DataFrame | Mapping[str, Any],
    name: str,
    posterior: Posterior | None = None,
    *,
    at: Mapping[str, Any] | None = None,
    points: int = 60,
    ax: Axes | None = None,
) -> Axes:
    """Draw the expected response against one covariate, with its 90 % interval, and the data.

    The other covariates stay where they are in the middle of the data: numbers at their median
    (the upper of two, so that it occurs), categories at the most frequent one. Effects of groups
    are left out, unless the covariate is the group.

    Parameters
    ----------
    model : FormulaModel
    data : DataFrame or mapping of columns
        That the model was made with.
    name : str
        A column on the right-hand side of the formula.
    posterior : IntegratedEvidence or reference, optional
        As in :func:`evidence.predict`.
    at : mapping of column to value, optional
        Where others are held instead.
    points : int
        Along a covariate that is a number.
    ax : Axes, optional

    Examples
    --------
    >>> import evidence as ev
    >>> rng = np.random.default_rng(0)
    >>> data = {"y": rng.poisson(3.0, 40), "x": rng.normal(size=40), "g": list("abcdefgh") * 5}
    >>> model = ev.from_formula("y ~ x + (1 | g)", data, likelihood="poisson")
    >>> ev.plot_effects(model, data, "x", "ep").get_xlabel()
    'x'
    """
    check_kind("model", model, FormulaModel)
    _check_expected(model)
    check_count("points", points, 2, optional=False)
    if not isinstance(name, str):
        raise InputError(f"name must be a column of the formula, as text, got {shown(name)}")
    if at is not None and not isinstance(at, Mapping):
        raise InputError(f"at must map columns to values, such as {{'x': 1.0}}, got {shown(at)}")
    frame, held = as_frame(data), dict(at or {})
    if lost := [column for column in model.columns if column not in frame]:
        raise InputError(f"data have no column {lost[0]!r}, which the model was made with")
    parts = parse(model.formula, TERMS)
    response = parts.response.strip("`")
    used = [*model.columns, *({response} & {*frame.columns})]
    frame = frame[used].dropna()
    if frame.empty:
        raise InputError(f"data have no row without missing values in {', '.join(used)}")
    trials = columns(model.trials, model.columns)
    known = [column for column in model.columns if column not in trials]
    for given in (name, *held):
        if not isinstance(given, str) or given not in known:
            raise InputError(
                f"name and at must be columns of the formula: {shown(given)} is none"
                f"{suggest(shown(given), known)} Known: {', '.join(known)}"
            )
    if name in held:
        raise InputError(f"at holds {name!r}, which is drawn along; leave it out of at")
    groups = {c for b in parts.brackets for g in b.groups for c in columns(g, model.columns)}
    shared = {c for s in parts.structured for a in s.arguments for c in columns(a, model.columns)}
    shared |= {*columns(parts.common, model.columns), name, *held}
    held = {c: _possible(c, value, frame[c], c in groups) for c, value in held.items()}
    values = frame[name]
    is_number = values.dtype.kind in "iuf" and name not in groups
    # a structured term has a value for each different one, and none between
    arguments = (argument for term in parts.structured for argument in term.arguments)
    in_series = any(name in columns(argument, model.columns) for argument in arguments)
    along = values.drop_duplicates().sort_values().to_numpy(None if is_number else object)
    if is_number and not in_series:
        along = _curve(along, points)
    rows = pd.DataFrame({name: along})
    for column in model.columns:
        if column != name:
            new = column in groups - shared
            rows[column] = _NOBODY if new else held.get(column, _middle(frame[column]))
    prediction = predict(
        model, rows, posterior=posterior, new_groups="zero",
        likelihood=model.likelihood.changed({"n": 1.0}) if model.trials else None,
    )  # fmt: skip
    x = along if is_number else along.astype(str)
    places = np.asarray(values if is_number else pd.Index(along).get_indexer(values), dtype=float)
    told, seen = _seen(model, response, places.size)
    return plot_effect(x, *expected(prediction), name, told, places, seen, ax)


def _check_expected(model: FormulaModel) -> None:
    if model.likelihood.categories:
        raise InputError(
            "model has categories, of which none is the expected one; ev.predict(model, table) "
            "has the probability of each"
        )


def _seen(model: FormulaModel, response: str, rows: int) -> tuple[str, Array | None]:
    """What is expected, and the data as that; None where they are bounds or categories, and where
    rows cannot be told because some were left out."""
    binary = hasattr(model.likelihood, "probability")
    level = "1" if model.levels is None else str(model.levels[-1])
    which = "" if level == "1" else f" = {level}"
    per = f" / {model.trials}" if model.trials else ""
    told = f"P({response}{which})" if binary else f"expected {response}{per}"
    ordered = model.levels is not None and not binary
    if rows != model.y.size or ordered or hasattr(model.likelihood, "censored"):
        return told, None
    if binary:
        return told, 0.5 * (model.y + 1.0)
    return told, model.y / getattr(model.likelihood, "n", 1.0) if model.trials else model.y


def _possible(column: str, value: ArrayLike, seen: pd.Series[Any], group: bool) -> Any:
    """What a column is held at: any number where it has numbers, else one of its values."""
    if seen.dtype.kind in "iuf" and not group:
        return number(f"at[{column!r}]", value)
    known = seen.drop_duplicates().tolist()
    if np.ndim(value) or value not in known:
        raise InputError(
            f"at[{column!r}] must be one of the values of the column, got {shown(value)}"
            f"{suggest(shown(value), map(str, known))} Known: {', '.join(map(str, known[:10]))}"
            f"{', …' if len(known) > 10 else ''}"
        )
    return value


def _curve(values: Array, points: int) -> Array:
    """Places along numbers, in order: of few whole ones, which may be levels, each of them."""
    if len(values) <= points and not (values % 1).any():
        return values
    return np.linspace(values[0], values[-1], points)


def _middle(values: pd.Series[Any]) -> Any:
    """The median, a value that occurs, or the most frequent one."""
    if values.dtype.kind in "iuf":
        return values.sort_values().iloc[len(values) // 2]
    return values.mode().iloc[0]
