r"""Which model? Log evidences side by side, Bayes factors and posterior probabilities.

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
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from ..execution.arguments import seed_sequence
from ..messages import InputError
from ..paths.families import family
from ..results.evidence import EvidenceResult
from .estimate import log_evidence

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_TELLS = 2.0  # standard errors between the two best, below which their order is open


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models side by side; made by :func:`compare`, where there is an example."""

    table: pd.DataFrame
    """One row per model, most probable first: ``logz``, ``logz_se``, ``log_bayes_factor``,
    ``probability`` and their errors, the approximations, ``method``, ``seconds``, ``warnings``."""
    results: dict[str, EvidenceResult]
    """What each row was made from."""
    warnings: tuple[str, ...] = ()
    """What to be careful about, in words."""

    @property
    def best(self) -> str:
        """Name of the most probable model."""
        return str(self.table.probability.idxmax())

    def summary(self) -> str:
        """The table and the warnings as text."""
        columns = ["logz", "logz_se", "log_bayes_factor", "log_bayes_factor_se", "probability"]
        lines = [self.table[[*columns, "method", "seconds"]].round(3).to_string()]
        return "\n".join(lines + [f"! {warning}" for warning in self.warnings])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Log evidences with error bars; EP and corrected EP beside them."""
        from .. import plots

        return plots.plot_comparison(self, ax)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return str(self.table.round(3).to_html())


def compare(
    models: Mapping[str, Any],
    *,
    prior: Mapping[str, float] | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    **words: Any,
) -> Comparison:
    """Compare models of the same data by their evidence.

    Parameters
    ----------
    models : mapping from name to model
    prior : mapping from name to number, optional
        Prior probabilities of the models, up to a factor; equal by default.
    random_seed : int or Generator, optional
        Same seed, same answer.
    progressbar : bool
        Show one line in a terminal or notebook.
    **words
        For every :func:`evidence.log_evidence`: ``method``, ``target_se``, ``executor``, …

    Returns
    -------
    Comparison
        ``comparison.table``: one row per model, most probable first, with ``logz``,
        ``logz_se``, ``log_bayes_factor`` against the first, ``probability``, their errors, the
        approximations, ``method``, ``seconds`` and ``warnings`` (a count). ^C leaves the models
        finished by then.

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> x = np.linspace(0, 3, 12)
    >>> y = np.where(np.sin(4 * x) > 0, 1, -1)
    >>> base = ev.GPModel(x, y, "4.0 * RBF(0.5)")
    >>> models = {"short": base, "long": base.at({"length_scale": 20.0})}
    >>> comparison = ev.compare(models, random_seed=0, progressbar=False)
    >>> comparison.best, bool(comparison.table.probability["short"] > 0.6)
    ('short', True)
    """
    import pandas as pd

    models = _check_models(models)
    weights = _check_prior(prior, models)
    if "checkpoint" in words:
        raise InputError("checkpoint= is for one run: call ev.log_evidence for each model")
    seeds = seed_sequence(random_seed).spawn(len(models))
    results: dict[str, EvidenceResult] = {}
    with tqdm(models.items(), unit="model", disable=None if progressbar else True) as bar:
        for (name, model), seed in zip(bar, seeds, strict=True):
            bar.set_description(name)
            result = log_evidence(
                model, random_seed=np.random.default_rng(seed), progressbar=False, **words
            )
            if result.settings.get("interrupted"):
                break
            results[name] = result
    if not results:
        raise RuntimeError("interrupted before the first model was finished")
    table = pd.DataFrame([_row(result) for result in results.values()], index=list(results))
    prior_weights = np.array([weights[name] for name in results])
    table = _with_probabilities(table, prior_weights)
    table = table.iloc[np.argsort(-table.probability.to_numpy(), kind="stable")]
    table.index.name = "model"
    return Comparison(table, results, tuple(_warnings(table, results, models)))


def _check_models(models: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(models, Mapping) or not models:
        raise InputError(
            f"models must map names to models, {{'rbf': m1, 'matern': m2}}, got {models!r}"
        )
    for model in models.values():
        family(model)
    observed = {name: model for name, model in models.items() if hasattr(model, "y")}
    first_name, first = next(iter(observed.items()), ("", None))
    for name, model in observed.items():  # a density keeps its data to itself
        if not np.array_equal(np.asarray(model.y), np.asarray(first.y)):
            raise InputError(
                f"models[{name!r}] is of other observations y than models[{first_name!r}]; "
                "evidences of different data cannot be compared"
            )
    return dict(models)


def _check_prior(prior: Mapping[str, float] | None, models: dict[str, Any]) -> dict[str, float]:
    if prior is None:
        return dict.fromkeys(models, 1.0)
    if not isinstance(prior, Mapping):
        raise InputError(f"prior must map names of models to numbers, got {prior!r}")
    if set(prior) != set(models):
        raise InputError(
            f"prior must give one number for each of {', '.join(models)}; got "
            + ", ".join(map(str, prior))
        )
    for name, value in prior.items():
        if not (isinstance(value, numbers.Real) and np.isfinite(value) and value > 0):
            raise InputError(f"prior[{name!r}] must be a positive number, got {value!r}")
    return {name: float(value) for name, value in prior.items()}


def _row(result: EvidenceResult) -> dict[str, Any]:
    others = {row.method: row.logz for row in result.rows[:-1]}
    return {
        "logz": result.logz,
        "logz_se": result.logz_se,
        **others,
        "method": result.method,
        "seconds": result.rows[-1].seconds,
        "warnings": len(result.warnings),
    }


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


def _with_probabilities(table: pd.DataFrame, prior: Array) -> pd.DataFrame:
    logz, se = table.logz.to_numpy(), table.logz_se.to_numpy()
    p, p_se = probabilities(logz, se, prior)
    best = int(np.argmax(p))
    factor_se = np.hypot(se, se[best])
    factor_se[best] = 0.0
    at = table.columns.get_loc("logz_se") + 1
    for i, (name, values) in enumerate(
        {
            "log_bayes_factor": logz - logz[best],
            "log_bayes_factor_se": factor_se,
            "probability": p,
            "probability_se": p_se,
        }.items()
    ):
        table.insert(at + i, name, values)
    return table


def _warnings(
    table: pd.DataFrame, results: dict[str, EvidenceResult], models: dict[str, Any]
) -> list[str]:
    found = [
        f"{name}: {warning}" for name, result in results.items() for warning in result.warnings
    ]
    if len(results) < len(models):
        missing = ", ".join(name for name in models if name not in results)
        found.append(f"interrupted: {missing} was not run")
    if len(table) > 1:
        gap, se = -table.log_bayes_factor.iloc[1], table.log_bayes_factor_se.iloc[1]
        if not math.isfinite(se):
            found.append("these approximations have no error bars")
        elif abs(gap) < _TELLS * se:
            found.append(
                f"the two best are {abs(gap):.2g} ± {se:.2g} nats apart: a smaller target_se "
                "would tell them apart"
            )
    return found
