r"""All submodels of a formula: which terms belong in it, over all of them.

The inclusion Bayes factor of a term is the change of its odds, posterior against prior,

.. math:: B_t = \frac{\sum_{k \ni t} \pi_k Z_k}{\sum_{k \not\ni t} \pi_k Z_k}
          \Big/ \frac{\sum_{k \ni t} \pi_k}{\sum_{k \not\ni t} \pi_k},

over all models, or over *matched* ones: those that stay models without the term, and what they
are then, so that an interaction does not speak for its main effects.

Hinne, Gronau, van den Bergh and Wagenmakers (2020), A conceptual introduction to Bayesian model
averaging, Advances in Methods and Practices in Psychological Science 3, 200–215.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from ..numerics.arrays import Array
from .base import DataFrame, data_frame
from .comparison import BayesFactor, Comparison, in_figures, in_percent, share_of


@dataclass(frozen=True, eq=False, repr=False)
class Submodels(Comparison):
    """A :class:`Comparison` of all submodels; made by :func:`evidence.all_submodels`.

    Attributes
    ----------
    inclusion : DataFrame
        One row per term: its ``prior`` and posterior ``probability``, ``log_bayes_factor`` of
        inclusion and its standard error, and both over ``matched`` models alone.
    effects : DataFrame
        Common effects and hyperparameters: ``probability`` of the models that have one, its
        ``mean`` and ``sd`` in these, and the mean ``averaged`` over all, with zero in the others.

    Examples
    --------
    >>> import evidence as ev
    >>> data = {"y": [1.2, 0.4, 2.2, 1.9, 0.3], "x": [0.0, 1.0, 2.0, 3.0, 4.0]}
    >>> found = ev.all_submodels("y ~ x", data, priors={"sigma": 1.0}, progressbar=False)
    >>> list(found.table.index), list(found.inclusion.index)
    (['y ~ 1', 'y ~ 1 + x'], ['x'])
    """

    _format = "evidence-submodels"

    inclusion: DataFrame = field(default_factory=lambda: data_frame({}))
    effects: DataFrame = field(default_factory=lambda: data_frame({}))

    def _tables(self) -> list[DataFrame]:
        rows = []
        for _, row in self.inclusion.iterrows():
            factor = BayesFactor(row.log_bayes_factor, row.log_bayes_factor_se)
            matched = BayesFactor(row.matched, row.matched_se)
            rows.append({
                "prior": f"{row.prior:.3f}", "P": share_of(row.probability, 2).removeprefix("= "),
                "inclusion BF": in_figures(factor.log), "error": in_percent(factor.error),
                "matched BF": in_figures(matched.log), "its error": in_percent(matched.error),
            })  # fmt: skip
        terms = data_frame(rows, index=list(self.inclusion.index)).rename_axis("term")
        return [*super()._tables(), *[terms] * bool(rows)]


def inclusion(
    table: DataFrame, prior: Mapping[str, float], terms: Mapping[str, frozenset[str]]
) -> DataFrame:
    """What all models say of every term; ``terms`` are those of every model."""
    names = list(table.index)
    own = [terms[name] for name in names]
    known, weights = set(own), np.log([prior[name] for name in names])
    rows = {}
    for term in dict.fromkeys(t for some in terms.values() for t in some):
        has = np.array([term in some for some in own])
        twin = np.array([some ^ {term} in known for some in own])
        odds = [_odds(table, weights, has & m, ~has & m) for m in (np.ones_like(has), twin)]
        rows[term] = {
            "prior": np.exp(logsumexp(weights[has]) - logsumexp(weights)),
            "probability": table.probability[has].sum(),
            "log_bayes_factor": odds[0][0], "log_bayes_factor_se": odds[0][1],
            "matched": odds[1][0], "matched_se": odds[1][1],
        }  # fmt: skip
    return data_frame(rows.values(), index=list(rows)).rename_axis("term")


def _odds(table: DataFrame, weights: Array, on: Array, off: Array) -> tuple[float, float]:
    """log of the change of odds, and its error to first order."""
    logs = weights + table.logz
    total = [(logsumexp(logs[s]), logsumexp(weights[s])) for s in (on, off)]
    shares = [np.exp(logs[s] - t) for s, (t, _) in zip((on, off), total, strict=True)]
    se = np.linalg.norm(np.concatenate(shares) * np.append(table.logz_se[on], table.logz_se[off]))
    return float(total[0][0] - total[0][1] - total[1][0] + total[1][1]), float(se)
