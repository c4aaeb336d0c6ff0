"""What a finished search over hyperparameters found, as tables and warnings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..approximations.reference import GaussianReference
from ..execution.lazy import pd
from ..messages import Message
from ..models.scales import natural
from ..numerics.arrays import Array, Indices
from .search import Search, SearchEnd


def tabulate(
    search: Search, names: list[str], errors: Array | None
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """What moved, every evaluation, and where every start ended."""
    assert search.best is not None
    theta, lows = search.best.theta[search.moving], search.lows
    lower, upper = (natural(ends, lows) for ends in search.bounds.T)
    columns = {
        "value": natural(theta, lows), "log_value": theta,
        "se": np.full(theta.size, np.nan) if errors is None else errors,
        "lower": lower, "upper": upper, "at_bound": search.at_bounds(search.best.theta),
    }  # fmt: skip
    ends = pd.DataFrame(search.ends).drop(columns="theta").set_index("restart")
    ends[names] = natural([end.theta[search.moving] for end in search.ends], lows)
    table = pd.DataFrame(columns, index=pd.Index(names, name="name"))
    return table, pd.DataFrame(search.history), ends


def doubts(
    search: Search, table: pd.DataFrame, reference: GaussianReference, early: str, *,
    fixed_point: float = 1e-4,
) -> Iterator[Message]:  # fmt: skip
    """What to be careful about; ``reference`` is EP at the best point, fitted from nothing.

    ``fixed_point``: nats.
    """
    assert search.best is not None
    near = np.abs(search.bounds - table.log_value.to_numpy()[:, None]).argmin(axis=1)
    for (name, row), end in zip(table.iterrows(), near, strict=True):
        if row.at_bound:
            side, bound = ("lower", row.lower) if end == 0 else ("upper", row.upper)
            remedy = "widen its bounds, give it a prior, or hold it in fixed="
            yield Message("at-bound", f"{name} is at its {side} bound {bound:g}: {remedy}")
    if early:
        yield Message(early, f"{early}: this is the best so far")
    elif not np.isfinite(table.se[~table.at_bound]).all():
        yield Message(
            "no-curvature",
            f"no standard errors: log Z does not curve downwards in every direction of "
            f"{', '.join(table.index)}; fix one the data do not determine, give it a prior, or "
            "bring inputs of very different sizes to one scale",
        )
    ends = search.ends
    best = max(ends, key=lambda end: -np.inf if np.isnan(end.objective) else end.objective)
    if not best.converged and not early:
        yield Message(
            "stopped-early",
            f"the search stopped early ({best.message}) after {best.iterations} iterations: "
            "raise max_iterations, or start from here with optimise(optimum.model)",
        )
    lost = [end for end in ends if np.isnan(end.objective) and end.message != "interrupted"]
    if lost:
        text = f"{len(lost)} of {len(ends)} starts failed, the last {lost[-1].message}"
        yield Message("starts-failed", text)
    yield from on_restarts(ends, search.moving, list(table.index))
    gap = reference.logz - search.best.reference.logz
    if abs(gap) > fixed_point:
        yield Message(
            "several-fixed-points",
            f"EP has several fixed points here: fitted from nothing its log Z is {gap:+.4g} from "
            "that of the search, which went from one neighbour to the next",
        )


def on_restarts(
    ends: list[SearchEnd], moving: Indices, names: list[str], *, same_place: float = 0.1,
    same_height: float = 0.01, close: float = 1.0,
) -> Iterator[Message]:  # fmt: skip
    """Several optima of about one height, or a best one that only one start found.

    ``same_place``: largest difference of logs between ends of one optimum; ``same_height``: nats
    between ends of one optimum; ``close``: nats below the best at which another optimum matters.
    """
    if len(ends) < 2:
        return
    finite = [end for end in ends if np.isfinite(end.objective)]
    best, *others = sorted(finite, key=lambda end: -end.objective)
    pairs = [
        (np.abs(end.theta - best.theta)[moving], best.objective - end.objective) for end in others
    ]
    rivals = [(a, b) for a, b in pairs if b < close and a.max() >= same_place]
    if rivals:
        a, b = rivals[0]
        yield Message(
            "restarts-disagree",
            f"restarts disagree: {len(rivals)} of {len(ends)} ended elsewhere less than a nat "
            f"below the best (the first {b:.2g} nats, with {names[int(a.argmax())]} a factor "
            f"{np.exp(a.max()):.3g} away); average over hyperparameters, or give them priors",
        )
    if not any(a.max() < same_place or b < same_height for a, b in pairs):
        yield Message(
            "found-once",
            f"the best optimum was found by only 1 of {len(ends)} starts; raise n_restarts to "
            "see whether there is a better one",
        )
