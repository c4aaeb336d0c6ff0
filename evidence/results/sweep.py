"""The table of many runs side by side: a data frame that can be saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from .base import Result


class Sweep(pd.DataFrame, Result):
    """The runs of :func:`evidence.sweep`, one per row: a pandas DataFrame with its settings.

    ``sweep.attrs["words"]`` is what was asked for and ``sweep.attrs["interrupted"]`` whether
    runs are missing. What pandas makes of it (``sweep[columns]``, ``sweep.groupby``, …) are
    frames like any other.

    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> sweep = ev.sweep(model, moves=["mgrad", "pcn"], seeds=1, n_particles=32, progressbar=False)
    >>> sweep.move.tolist(), sweep.attrs["interrupted"]
    (['mgrad', 'pcn'], False)
    """

    _format = "evidence-sweep"
    _digits = ".6g"

    def _about(self) -> list[str]:
        return [f"{len(self)} runs"]

    def _frame(self) -> pd.DataFrame:
        return self

    def _remarks(self) -> list[str]:
        return ["WARNING: interrupted, runs are missing"] * self.attrs.get("interrupted", False)

    def _state(self) -> dict[str, Any]:
        return {"table": pd.DataFrame(self), "attrs": self.attrs}

    @classmethod
    def _restore(cls, state: dict[str, Any], models: Mapping[str, Any]) -> Sweep:
        sweep = cls(state["table"])
        sweep.attrs |= state["attrs"]
        return sweep
