r"""How well a model predicts each datum from all others, beside its evidence.

.. math:: \mathrm{elpd} = \sum_i \log p(y_i | y_{-i}),\qquad
          \mathrm{se}^2 = N \operatorname{var}_i \log p(y_i | y_{-i})

The evidence is a sum as well, :math:`\log Z = \sum_i \log p(y_i | y_1, \dots, y_{i-1})`: it asks
how well the data are predicted from the prior on, and depends on priors where this sum does not.

Reference: A. Vehtari, A. Gelman and J. Gabry, Stat. Comput. 27 (2017) 1413.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from .. import plots
from ..execution.arguments import check_kind
from ..messages import InputError, Message
from ..numerics.arrays import Array
from .base import Axes, DataFrame, Result, data_frame


class Difference(NamedTuple):
    """Of two expected log predictive densities, and its standard error over the data."""

    elpd: float
    se: float

    def __repr__(self) -> str:
        return f"Difference({self.elpd:.2f} ± {self.se:.2f})"


@dataclass(frozen=True, eq=False, repr=False)
class LooResult(Result):
    """Leave-one-out predictive densities; made by :func:`evidence.loo`.

    :meth:`plot` draws log predictive densities, Pareto's k̂ and the histogram of PIT values.

    Attributes
    ----------
    method : str
        ``"psis"`` where there are posterior draws, else that of the Gaussian, ``"ep"``.
    y : array (N,)
        The data.
    pointwise : array (N,)
        Log density of every datum given all others, by ``method``; of some that draws do not tell
        a difference of log evidences (a note says of which).
    fitted : array (N,)
        The same given all data.
    pareto_k : array (N,)
        Shape k̂ of the weights that take a datum out of the draws, of hyperparameters where the
        method is ``"ep"``; NaN where there are no draws.
    pit : array (N,)
        P(Y ≤ y) given all other data, uniform where the model is right, for counts at random
        between P(Y < y) and P(Y ≤ y); empty for labels.
    by_method : dict of str to array (N,)
        ``pointwise`` of each method.
    mcse : float
        Monte Carlo standard error of ``elpd``, from draws; NaN without. What EP answers otherwise
        than draws widens it: where draws do not tell, and everywhere where EP is corrected.
    logz, logz_se : float
        The log evidence that came with the posterior, or EP's; NaN where there is none.
    warnings : tuple of Message
        What to be careful about: texts, each with a ``code``.
    notes : tuple of str
        How good EP is here, where it is not good.
    settings, model : dict
        How the run was made, and of what.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel([0.0, 1.0, 2.0], [1, 1, -1], "1.0 * RBF(1.0)")
    >>> scores = ev.loo(model)
    >>> scores.pointwise.shape, bool((scores.pointwise < scores.fitted).all())
    ((3,), True)
    """

    _format = "evidence-loo"
    _digits = ".2f"
    _figure = plots.plot_loo

    method: str
    y: Array
    pointwise: Array
    fitted: Array
    pareto_k: Array
    pit: Array
    by_method: dict[str, Array]
    mcse: float = math.nan
    logz: float = math.nan
    logz_se: float = math.nan
    warnings: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)

    @property
    def elpd(self) -> float:
        """The sum of ``pointwise``."""
        return float(self.pointwise.sum())

    @property
    def se(self) -> float:
        """Standard error of ``elpd``, as if the data were drawn anew."""
        return _se(self.pointwise)

    @property
    def p_loo(self) -> float:
        """Effective number of parameters: by how much data help to predict themselves."""
        return float(np.sum(self.fitted - self.pointwise))

    @property
    def table(self) -> DataFrame:
        """One row per method: ``elpd``, ``se``."""
        rows = {name: (float(p.sum()), _se(p)) for name, p in self.by_method.items()}
        return data_frame(rows.values(), index=list(rows), columns=["elpd", "se"])

    def to_frame(self) -> DataFrame:
        """One row per datum: ``y``, ``elpd``, ``p_loo``, ``pareto_k``, ``pit``, every method's."""
        columns = {"y": self.y, "elpd": self.pointwise, "p_loo": self.fitted - self.pointwise}
        columns["pareto_k"] = self.pareto_k
        columns |= {"pit": self.pit} if self.pit.size else {}
        others = {f"elpd_{name}": p for name, p in self.by_method.items()}
        return data_frame(columns | (others if len(others) > 1 else {})).rename_axis("obs_id")

    def difference(self, other: LooResult) -> Difference:
        """This elpd minus the ``other``'s, and its standard error from the paired differences.

        Parameters
        ----------
        other : LooResult
            Of another model of the same data.
        """
        check_kind("other", other, LooResult)
        if not np.array_equal(self.y, other.y):
            raise InputError(
                f"other is of other data ({other.y.size} of them, here {self.y.size}): only "
                "predictions of the same data can be compared"
            )
        each = self.pointwise - other.pointwise
        return Difference(float(each.sum()), _se(each))

    def plot_pit(self, ax: Axes | None = None) -> Axes:
        """The histogram of PIT values, flat where predictive distributions are right.

        Parameters
        ----------
        ax : Axes, optional
        """
        return plots.plot_pit(self, ax)

    def _about(self) -> list[str]:
        lines = [f"elpd = {self.elpd:.2f} ± {self.se:.2f}   (leave one out, {self.method})"]
        lines += [self._about_model()] if self.model else []
        lines.append(f"effective number of parameters {self.p_loo:.2f}")
        if math.isfinite(self.mcse):
            lines[-1] += f"; Monte Carlo error of elpd {self.mcse:.2g}"
        if math.isfinite(self.logz):
            se = f" ± {self.logz_se:.4f}" if math.isfinite(self.logz_se) else " (approximation)"
            lines.append(f"beside it the evidence: log Z = {self.logz:.4f}{se}")
        return lines

    def _label(self) -> str:
        rough = f", mcse={self.mcse:.2g}" if math.isfinite(self.mcse) else ""
        return f"elpd={self.elpd:.2f} ± {self.se:.2f}{rough}, {self.method}"


def _se(pointwise: Array) -> float:
    n = pointwise.size
    return float(np.sqrt(n * pointwise.var(ddof=1))) if n > 1 else math.nan


def stacking(pointwise: Sequence[Array]) -> Array:
    r"""Weights of models whose mixture predicts best what it has not seen.

    .. math:: \max_w \sum_i \log \sum_k w_k\, p_k(y_i | y_{-i})

    over the simplex (Y. Yao, A. Vehtari, D. Simpson and A. Gelman, Bayesian Anal. 13 (2018) 917),
    from log densities of every datum by each model. NaN where one has none.

    >>> p = np.log([[0.9, 0.9, 0.1], [0.1, 0.1, 0.9]])
    >>> stacking(p).round(3).tolist()  # maximises 2 log(1 + 8w) + log(9 - 8w)
    [0.708, 0.292]
    """
    logs = np.array(pointwise)
    if not np.isfinite(logs).all():
        return np.full(len(logs), np.nan)
    p = np.exp(logs - logs.max(axis=0))
    K = len(p)
    best = minimize(
        lambda w: (-np.log(w @ p).mean(), -(p / (w @ p)).mean(axis=1)), np.full(K, 1.0 / K),
        jac=True, method="SLSQP", bounds=[(1e-12, 1.0)] * K, tol=1e-10, options={"maxiter": 1000},
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones(K)},
    )  # fmt: skip
    return np.asarray(best.x / best.x.sum())
