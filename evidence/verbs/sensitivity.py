r"""How much of a log evidence is its priors.

With another prior :math:`p'` of one parameter φ, all else the same,

.. math:: \frac{Z'}{Z} = \mathrm{E}_{\varphi|y}\Bigl[\frac{p'(\varphi)}{p(\varphi)}\Bigr],

so one run tells of many priors. Over hyperparameters this is a mean over their posterior draws;
for a common effect, whose posterior is :math:`N(\mu, v)` in EP, it is a closed form:
:math:`\int N(x; \mu, v)\,N(x; m, s'^2)/N(x; m, s^2)\,dx`. Where the draws do not reach what the
other prior prefers, and where it would move an effect whose posterior is not quite normal, the
evidence is computed anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from ..drivers.stopping import ended_early
from ..execution.arguments import array, check_kind, seed_sequence, shown
from ..execution.clock import Clock, check_interrupt, interruptible
from ..execution.keywords import hinted
from ..execution.options import told
from ..messages import InputError, Message
from ..models.formulas.model import FormulaModel
from ..models.formulas.terms import Common
from ..models.precisions.base import selection
from ..models.priors import OnAnother
from ..numerics.arrays import Array
from ..numerics.threads import blas_for
from ..results.at_draws import check_same
from ..results.base import data_frame
from ..results.comparison import Comparison
from ..results.evidence import EvidenceResult
from ..results.hyper import IntegratedEvidence
from ..results.sensitivity import Sensitivity
from ..statistics.weights import Weights
from .integrate import integrated_evidence
from .savage_dickey import evidence_ratio, fits_of, log_mean, with_effects

_SE = 0.05


@dataclass(frozen=True)
class Rescaled(OnAnother):
    """A prior of a positive value, stretched by a factor."""

    factor: float

    @property
    def of(self) -> str:
        return f"{getattr(self.prior, 'of', '')}, times {self.factor:g}"

    def logpdf(self, value: ArrayLike) -> Array:
        return self.prior.logpdf(np.asarray(value, float) / self.factor) - math.log(self.factor)

    def ppf(self, q: ArrayLike) -> Array:
        return self.factor * self.prior.ppf(q)

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: object = None) -> Array:
        return self.factor * self.prior.rvs(size, random_state=random_state)

    def support(self) -> tuple[float, float]:
        low, high = self.prior.support()
        return self.factor * low, self.factor * high


@hinted
def prior_sensitivity(
    model: FormulaModel | Mapping[str, FormulaModel] | IntegratedEvidence | Comparison,
    result: EvidenceResult | Comparison | None = None,
    *,
    scale: Sequence[float] = (0.5, 2.0),
    random_seed: int | np.random.Generator | None = None,
) -> Sensitivity:
    """How log Z moves when each prior, one at a time, is made narrower or wider.

    Parameters
    ----------
    model : FormulaModel, or mapping from name to model
        With several models, what it does to their log Bayes factors. A result that knows its
        models may stand alone: an IntegratedEvidence or a Comparison.
    result : IntegratedEvidence or Comparison, optional
        What :func:`evidence.log_evidence`, or :func:`evidence.compare`, returned for them; by
        default computed here.
    scale : sequence of float
        Factors of the standard deviation of a common effect, and of the scale of a positive
        hyperparameter. (Priors of correlations stay as they are.)
    random_seed : int or Generator, optional
        Where something is computed anew.

    Returns
    -------
    Sensitivity
        ``.table``, ``.plot()``

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> rng = np.random.default_rng(0)
    >>> data = {"y": rng.poisson(3.0, 40), "x": rng.normal(size=40), "g": list("abcdefgh") * 5}
    >>> model = ev.from_formula("y ~ x + (1 | g)", data, likelihood="poisson")
    >>> table = ev.prior_sensitivity(model, random_seed=0).table
    >>> table[table.factor == 2.0].change.round(1).to_dict()["x"]  # about -log 2
    -0.7
    """
    factors = array("scale", scale, ("n",))
    if factors.min() <= 0.0:
        raise InputError(f"scale must hold positive factors, got {shown(scale)}")
    if isinstance(model, EvidenceResult | Comparison):
        result, given = model, _models_of(model)
    else:
        given = model
    several = isinstance(given, Mapping)
    models: dict[str, FormulaModel] = dict(given) if several else {"": given}
    if not models:
        raise InputError("model is an empty mapping; give one or more models of formulas")
    for name, each in models.items():
        check_kind(f"model[{shown(name)}]" if name else "model", each, FormulaModel)
    results = result.results if isinstance(result, Comparison) else {"": result}
    rng, rows = np.random.default_rng(seed_sequence(random_seed)), list[dict[str, Any]]()
    warnings, clock = list[Message](), Clock()
    with interruptible(clock), suppress(KeyboardInterrupt):
        for name, each in models.items():
            for row in _changes(each, results.get(name), factors, rng, warnings):
                rows.append({"model": name, **row})
                check_interrupt()
    if not rows:
        raise KeyboardInterrupt if clock.interrupted.is_set() else InputError("model has no prior")
    warnings += ended_early(clock, "priors")
    table = data_frame(rows).set_index("prior")
    if not several:
        table = table.drop(columns="model")
    widest = table.change.abs().max()
    about = f"log Z moves by up to {widest:.2g} nats when a prior's scale is changed"
    return told(Sensitivity(table, about, tuple(warnings)))


def _changes(
    model: FormulaModel, result: EvidenceResult | None, factors: Array, rng: np.random.Generator,
    warnings: list[Message],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Of one model, prior by prior."""
    if result is not None:
        check_same(model, result, "result")
    with blas_for(model.n):
        if model.priors is not None:
            if not isinstance(result, IntegratedEvidence):
                words: dict[str, Any] = {"random_seed": rng, "progressbar": False}
                result = integrated_evidence(model, target_se=_SE, **words)
            warnings += result.warnings
            yield from _of_hyperparameters(model, result, factors, rng)
        yield from _of_effects(model, result, factors)


def _models_of(result: EvidenceResult | Comparison) -> Any:
    models = result.models if isinstance(result, Comparison) else getattr(result, "source", None)
    if not models:
        raise InputError(
            "model: this result does not hold the model it was made with (files hold none, nor do "
            "results without priors of hyperparameters); pass it first: "
            "ev.prior_sensitivity(model, result)"
        )
    return models


def _of_hyperparameters(
    model: FormulaModel, result: IntegratedEvidence, factors: Array, rng: np.random.Generator, *,
    few: float = 0.1,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """``few``: relative effective sample size below which an integral is computed anew."""
    assert model.priors is not None
    for p, (name, prior) in enumerate(model.priors.items()):
        if not math.isnan(result.lows[p]):
            continue
        values = result.samples[:, p]
        for factor in factors:
            log_ratio = Rescaled(prior, factor).logpdf(values) - prior.logpdf(values)
            weights, row = Weights(log_ratio), {"prior": name, "factor": factor}
            if weights.ess > few:
                change = float(weights.log_mean)
                yield row | {"change": change, "se": weights.se, "how": "draws"}
                continue
            every = dict(model.priors.items()) | {name: Rescaled(prior, factor)}
            held = [n for n in model.hyperparameters.names if n not in every]
            words: dict[str, Any] = {"random_seed": rng, "progressbar": False, "fixed": held}
            other = integrated_evidence(model, every, target_se=_SE, **words)
            se = math.hypot(other.logz_se, result.logz_se)
            yield row | {"change": other.logz - result.logz, "se": se, "how": "anew"}


def _of_effects(
    model: FormulaModel, result: EvidenceResult | None, factors: Array,
    near: float = 0.05, most: int = 12,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """By EP, averaged over hyperparameters: in closed form where an effect's posterior is normal,
    or changes by less than so ``near`` its own sd; else by its evidence with the other prior, at
    so many settings of hyperparameters at the ``most``."""
    fits = fits_of(model, result)
    normal, few = model.likelihood.name == "gaussian", fits[:: -(-len(fits) // most)]
    for term in model.terms:
        if not isinstance(term, Common) or term.shown:
            continue
        where, W = model.slices[term.name], term.white
        rows = csr_array(W @ selection(range(where.start, where.stop), model.n))
        mean = np.array([W @ (q.mean[where] - term.mean) for q in fits])
        var = np.array([q.gaussian.row_variances(rows) for q in fits])  # type: ignore[union-attr]
        for j, (name, mu, v) in enumerate(zip(term.labels, mean.T, var.T, strict=True)):
            for factor in factors:
                row = {"prior": name, "factor": factor}
                if normal or _moved(mu, v, factor) < near:
                    change, se = log_mean(_log_ratios(mu, v, factor))
                    yield row | {"change": change, "se": se, "how": "EP"}
                    continue
                white = W.copy()
                white[j] /= factor
                change, se = evidence_ratio(with_effects(model, term, white, term.mean), few)
                yield row | {"change": change, "se": se, "how": "anew"}


def _moved(mu: Array, v: Array, factor: float) -> float:
    """By how much the other prior would change a posterior N(mu, v), in its own sd."""
    d = abs(1.0 / factor**2 - 1.0)  # added precision
    return float(np.max(d * (v + np.abs(mu) * np.sqrt(v))))


def _log_ratios(mu: Array, v: Array, factor: float) -> Array:
    """log of the means, over each of normals (mu, v), of N(z; 0, factor²)/N(z; 0, 1).

    >>> z = np.linspace(-9, 9, 20001)
    >>> f = lambda z, m, s: np.exp(-0.5 * ((z - m) / s) ** 2) / s
    >>> truth = np.sum(f(z, 0.5, 0.3) * f(z, 0, 2) / f(z, 0, 1)) / np.sum(f(z, 0.5, 0.3))
    >>> (change,) = _log_ratios(np.array([0.5]), np.array([0.09]), 2.0)
    >>> bool(abs(change - np.log(truth)) < 1e-9)
    True
    """
    d = 1.0 / factor**2 - 1.0  # added precision
    left = 1.0 + d * v
    with np.errstate(invalid="ignore", divide="ignore"):  # data that say less than the old prior
        return -math.log(factor) - 0.5 * np.log(left) - 0.5 * d * mu**2 / left
