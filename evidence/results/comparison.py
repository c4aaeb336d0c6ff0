r"""Models side by side: Bayes factors and posterior probabilities from their log evidences.

.. math:: \log B_{k} = \log Z_k - \log Z_{best},\qquad
          P(M_k|y) = \frac{\pi_k Z_k}{\sum_j \pi_j Z_j}

The estimates are independent, each with an error bar of its own, and the errors are carried
through: to first order, :math:`\mathrm{se}(\log B)^2 = s_k^2 + s_{best}^2` and
:math:`\mathrm{se}(P_k)^2 = P_k^2 [(1-P_k)^2 s_k^2 + \sum_{j \ne k} P_j^2 s_j^2]`. (Common
random numbers do not help: with the same seed the errors of two length scales, 6 % apart, have
a correlation of 0.1 to 0.3.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .. import plots
from ..messages import Message
from ..numerics.arrays import Array
from .base import DataFrame, Result, ResultOnAxes, data_frame
from .evidence import EvidenceResult

_CLEAR = 2.0  # standard errors between the two best, below which their order is open


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ResultOnAxes):
    """Models side by side; made by :func:`evidence.compare`, where there is an example.

    Attributes
    ----------
    table : DataFrame
        One row per model, most probable first: ``logz``, ``logz_se``,
        ``log_bayes_factor``, ``probability`` and their errors, the approximations,
        ``method``, ``seconds``, ``warnings``.
    results : dict[str, EvidenceResult]
        What each row was made from.
    warnings : tuple of Message
        What to be careful about: texts, each with a ``code``.
    models : dict
        The models themselves, for predictions; files do not hold them.
    notes : tuple of str
        What a careful reader should know about the data, of all models.
    """

    _format = "evidence-comparison"
    _digits = ".3f"
    _draw = plots.plot_comparison

    table: DataFrame
    results: dict[str, EvidenceResult]
    warnings: tuple[Message, ...] = ()
    models: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    __repr__ = Result.summary

    @classmethod
    def of(
        cls,
        results: Mapping[str, EvidenceResult],
        prior: Mapping[str, float],
        warnings: Sequence[Message] = (),
        models: Mapping[str, Any] | None = None,
    ) -> Comparison:
        """Compare runs that are finished, under prior probabilities up to a factor."""
        logz = np.array([result.logz for result in results.values()])
        se = np.array([result.logz_se for result in results.values()])
        p, p_se = probabilities(logz, se, np.array([prior[name] for name in results]))
        order = np.argsort(-p, kind="stable")
        factor_se = np.hypot(se, se[order[0]])
        factor_se[order[0]] = 0.0
        columns = {
            "logz": logz,
            "logz_se": se,
            "log_bayes_factor": logz - logz[order[0]],
            "log_bayes_factor_se": factor_se,
            "probability": p,
            "probability_se": p_se,
        }
        others = data_frame([_others(result) for result in results.values()])
        table = data_frame({**columns, **others}).set_axis(list(results)).rename_axis("model")
        table = table.iloc[order]
        own = [
            Message(warning.code, f"{name}: {warning}")
            for name, result in results.items()
            for warning in result.warnings
        ]
        warned = (*own, *warnings, *_close_race(table))
        each = [getattr(model, "notes", ()) for model in (models or {}).values()]
        notes = tuple(n for n in each[0] if all(n in more for more in each)) if each else ()
        return cls(table, dict(results), warned, dict(models or {}), notes)

    @property
    def best(self) -> str:
        """Name of the most probable model."""
        return str(self.table.probability.idxmax())

    def _state(self) -> dict[str, Any]:
        results = {name: _without_model(result) for name, result in self.results.items()}
        return super()._state() | {"models": {}, "results": results}

    def _about(self) -> list[str]:
        share = self.table.probability.max()
        return [f"{self.best} is the most probable of {len(self.table)} models, P = {share:.3f}"]


def _without_model(result: EvidenceResult) -> EvidenceResult:
    """As files keep it, which hold no models: without an optimum, which is one."""
    return replace(result, optimum=None) if hasattr(result, "optimum") else result  # type: ignore[call-arg]


def probabilities(logz: Array, se: Array, prior: Array) -> tuple[Array, Array]:
    """Posterior probabilities of models and their standard errors, to first order.

    >>> p, se = probabilities(np.array([0.0, 0.0]), np.array([0.1, 0.1]), np.ones(2))
    >>> p.tolist(), se.round(4).tolist()
    ([0.5, 0.5], [0.0354, 0.0354])
    """
    weight = logz + np.log(prior)
    p = np.exp(weight - weight.max())
    p /= p.sum()
    jacobian = np.diag(p) - np.outer(p, p)
    return p, np.sqrt(jacobian**2 @ np.square(se))


def _others(result: EvidenceResult) -> dict[str, float | str | int]:
    return {
        **{row.method: row.logz for row in result.rows[:-1]},
        "method": result.method,
        "seconds": result.rows[-1].seconds,
        "warnings": len(result.warnings),
    }


def _close_race(table: DataFrame) -> list[Message]:
    """Whether the error bars tell which of the two best models is better."""
    if len(table) < 2:
        return []
    gap, se = -table.log_bayes_factor.iloc[1], table.log_bayes_factor_se.iloc[1]
    if not math.isfinite(se):
        return [Message("no-error-bars", "these approximations have no error bars")]
    if abs(gap) >= _CLEAR * se:
        return []
    text = (
        f"the two best are {abs(gap):.2g} ± {se:.2g} nats apart: a smaller target_se would tell "
        "them apart"
    )
    return [Message("close-race", text)]
