r"""Walks from weighted draws, which tell what lies beyond the reach of a proposal.

Weights of draws say nothing of where there are none, such as the far end of a banana. Steps are
differences between such draws.

Reference: C. J. F. ter Braak, Statistics and Computing 16 (2006) 239 (differential evolution).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...execution.clock import check_interrupt
from ...numerics.arrays import Array, Indices


def walk(
    log_prob: Callable[[Array], Array], start: tuple[Array, Array], archive: Array,
    rng: np.random.Generator, steps: int, kinds: Indices | None = None, jumps: int = 5,
) -> tuple[Array, Array, float]:  # fmt: skip
    """Walkers from points of some log p, by differences between points of an archive.

    One in so many steps as ``jumps`` says is a whole difference, between modes. Where there are
    several, most differences lead from one to nowhere: with ``kinds``, one
    number for each point of the archive, every second step is between two points of one kind.
    Points (steps, M, d) and their log p after every step, and the rate of acceptance: the
    second's, where there are two.
    """
    (at, value), gamma, accepted = start, 2.38 / np.sqrt(2.0 * start[0].shape[1]), 0.0
    seen, values = [], []
    order = None if kinds is None else np.argsort(kinds, kind="stable")
    for k in range(steps):
        check_interrupt()
        a = rng.integers(len(archive), size=len(at))
        b = rng.integers(len(archive), size=len(at))
        alike = order is not None and k % 2 == 1
        if alike:
            b = _of_kind(kinds, order, a, rng)
        whole = (k + 1) % jumps == 0 and not alike
        new = at + (1.0 if whole else gamma) * (archive[a] - archive[b])
        new_value = log_prob(new)
        with np.errstate(invalid="ignore"):
            go = np.log(rng.random(len(at))) < new_value - value
        at, value = np.where(go[:, None], new, at), np.where(go, new_value, value)
        if alike or order is None:
            accepted += float(go.mean()) / (steps if order is None else max(steps // 2, 1))
        seen.append(at)
        values.append(value)
    return np.array(seen), np.array(values), accepted


def _of_kind(kinds: Any, order: Any, a: Indices, rng: np.random.Generator) -> Indices:
    """For every point of the archive another one of its kind."""
    first = np.searchsorted(kinds[order], kinds[a], "left")
    last = np.searchsorted(kinds[order], kinds[a], "right")
    return np.asarray(order[rng.integers(first, last)])
