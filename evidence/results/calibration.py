r"""What data from known models say of evidences, and what Bayes factors a study will give.

Model I has made the data, and :math:`p_k` is what the evidences make of model k. Given the data, I
is a draw from p, so whatever is summed over data sets has a distribution that is known by drawing
I anew. All statistics are bounded; :math:`E_0[BF] = 1` is as true, with infinite variance.

.. math:: \frac{\sum (1_{I=k} - p_k)}{\sqrt{\sum p_k (1 - p_k)}},\qquad
   E_a\Bigl[\frac{BF}{1 + BF}\Bigr] = E_b\Bigl[\frac{1}{1 + BF}\Bigr],\qquad
   \sum \Bigl(\log p_I - \sum_k p_k \log p_k\Bigr)

The last one tells of probabilities that are too sure. Ranks of parameters are uniform: their mean
and spread by the first two Legendre polynomials, with Student's t where posteriors are averaged.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from scipy.stats import norm
from scipy.stats import t as student

from .. import plots
from ..messages import Message
from ..numerics.arrays import Array, Indices
from .base import DataFrame, Result, ResultOnAxes, data_frame

SIZE = 0.05  # of the verdict: how often what is right fails
FEW = 20  # data sets of a model below which its ranks are not judged


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """Whether evidences are right; made by :func:`evidence.calibrate`.

    :meth:`plot` draws how often models are true against how probable they were, and ranks.

    Attributes
    ----------
    table : DataFrame
        A row per statistic: ``z``, ``p`` (two-sided) and the ``limit`` that p is not below.
        Limits are Bonferroni's: 5 % in all, half for the evidences and half for the ranks, equal
        parts within each.
    names : tuple of str
        Of the models.
    index : array
        Which model has made each data set.
    probability : array (data sets, models)
        Of each model, from the evidences.
    ranks : dict of str to array
        Of every parameter, between 0 and 1.
    warnings : tuple of Message
        The statistics that are out of line.
    notes : tuple of str

    Examples
    --------
    >>> import evidence as ev
    >>> x = [0.0, 1.0, 2.0]
    >>> noise = "gaussian(noise_std=0.5)"
    >>> short = ev.GPModel(x, [0.0, 0.0, 0.0], "1.0 * RBF(0.5)", likelihood=noise)
    >>> models = {"short": short, "long": short.at({"length_scale": 2.0})}
    >>> found = ev.calibrate(models, 20, random_seed=0, progressbar=False)
    >>> found.names, found.probability.shape
    (('short', 'long'), (20, 2))
    """

    _format = "evidence-calibration"
    _figure = plots.plot_reliability

    table: DataFrame
    names: tuple[str, ...]
    index: Indices
    probability: Array
    ranks: dict[str, Array]
    warnings: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, names: tuple[str, ...], shares: Array, index: Indices, logz: Array,
        numbers: Mapping[str, Sequence[tuple[float, Array, Array]]],
    ) -> Calibration:  # fmt: skip
        """From log evidences (data sets, models), and the truth and draws of every parameter."""
        fine = np.isfinite(logz).all(axis=1) if len(logz) else np.zeros(0, bool)
        if fine.sum() < 2:
            raise RuntimeError("fewer than two data sets have evidences of all models")
        index, logz = index[fine], logz[fine]
        p = softmax(logz + np.log(shares), axis=1)
        rows = list(_of_evidences(names, index, logz, p)) if len(names) > 1 else []
        first, ranks = len(rows), {}
        for label, own in numbers.items():
            ranks[label], statistics = _of_ranks(own)
            if len(own) >= FEW:
                rows += [(f"{label}, {what}", *one) for what, one in statistics.items()]
        if not rows:
            raise RuntimeError(f"fewer than {FEW} data sets have posterior draws to be ranked")
        table = data_frame(rows, columns=["statistic", "z", "p"]).set_index("statistic")
        family = np.where(np.arange(len(rows)) < first, first, len(rows) - first)
        table["limit"] = SIZE / family / (2.0 if 0 < first < len(rows) else 1.0)
        bad = table.index[table.p < table.limit]
        text = f"out of line: {'; '.join(bad)}: a model does not make the data it is given"
        lost = int((~fine).sum())
        notes = (f"{lost} data sets without evidences of all models: left out",) if lost else ()
        warnings = (Message("not-calibrated", text),) if len(bad) else ()
        return cls(table, names, index, p, ranks, warnings, notes)

    @property
    def passed(self) -> bool:
        """Whether no statistic is out of line."""
        return not (self.table.p < self.table.limit).any()

    def _about(self) -> list[str]:
        word = "calibrated" if self.passed else "NOT calibrated"
        size = f"{len(self.table)} statistics of {self.index.size} data sets"
        return [f"{word}: {size}, {SIZE:.0%} in all by Bonferroni"]


def _of_evidences(
    names: tuple[str, ...], index: Indices, logz: Array, p: Array, anew: int = 4999,
    least: float = 1e-3,
) -> Iterator[tuple[str, float, float]]:  # fmt: skip
    """Statistics of who made the data, and how rare each is among who might have: that is drawn
    ``anew`` so many times. Logarithms are cut off at probabilities below ``least``."""
    u, below = np.random.default_rng(0).random((anew, index.size)), p.cumsum(axis=1)[:, :-1]
    every = np.concatenate([index[None], sum((u > edge).astype(int) for edge in below.T)])
    statistics = dict[str, Array]()
    for k in range(len(names) == 2, len(names)):
        sd = np.sqrt(np.sum(p[:, k] * (1.0 - p[:, k]))) + 1e-12
        statistics[f"how often {names[k]}"] = np.sum((every == k) - p[:, k], axis=1) / sd
    for a, b in itertools.combinations(range(len(names)), 2):
        q, ours, theirs = expit(logz[:, b] - logz[:, a]), every == a, every == b
        one = ours @ q / np.maximum(ours.sum(axis=1), 1)
        two = theirs @ (1.0 - q) / np.maximum(theirs.sum(axis=1), 1)
        statistics[f"BF/(1 + BF), {names[b]} against {names[a]}"] = one - two
    logs = np.log(np.maximum(p, least))
    score = np.sum(logs[np.arange(index.size), every], axis=1) - np.sum(p * logs)
    statistics["log probability of the truth"] = score
    for label, values in statistics.items():
        rare = [np.sum(side * values[1:] >= side * values[0] - 1e-9) for side in (-1.0, 1.0)]
        pvalue = min(1.0, 2.0 * (1.0 + min(rare)) / (1.0 + anew))
        yield label, float(norm.isf(pvalue / 2.0) * np.sign(rare[0] - rare[1])), pvalue


def _of_ranks(
    own: Sequence[tuple[float, Array, Array]],
) -> tuple[Array, dict[str, tuple[float, float]]]:
    """Ranks of what made the data among posterior draws, or where nobody knows it of the first
    of these in the prior; z and p of their mean and spread."""
    rng = np.random.default_rng(0)
    pool = np.sort(np.concatenate([prior for _, prior, _ in own]))
    ranks, rows = [], []
    for truth, *draws in own:
        if np.isnan(truth):  # posteriors, averaged over data, are the prior
            u = [np.searchsorted(pool, one) / pool.size for one in draws]
            rows.append(_legendre(u[1]).mean(axis=1) - _legendre(u[0]).mean(axis=1))
            ranks.append(u[1][0])
            continue
        low, high = np.sum(draws[1] < truth), np.sum(draws[1] <= truth)
        ranks.append((low + rng.random() * (1 + high - low)) / (1 + draws[1].size))
        rows.append(_legendre(np.array(ranks[-1])))
    n, v, known = len(rows), np.array(rows), not np.isnan(own[0][0])
    per_sd = n**0.5 if known else (n - 1) ** 0.5 / (v.std(axis=0) + 1e-12)
    df = np.inf if known else max(n - 1, 1)  # the spread of a uniform rank is known
    pairs = [(float(t), float(2.0 * student.sf(abs(t), df))) for t in v.mean(axis=0) * per_sd]
    return np.array(ranks), dict(zip(("mean of ranks", "spread of ranks"), pairs, strict=True))


def _legendre(u: Array) -> Array:
    """Of degrees 1 and 2 on (0, 1), with variance one."""
    return np.array([12.0**0.5 * (u - 0.5), 180.0**0.5 * ((u - 0.5) ** 2 - 1.0 / 12.0)])


@dataclass(frozen=True, eq=False, repr=False)
class Design(ResultOnAxes):
    """Bayes factors that a study will give; made by :func:`evidence.design`.

    Attributes
    ----------
    log_bayes_factor : dict of str to array
        Of ``m1`` against ``m0``, on data from each of them.
    warnings : tuple of Message
        Where it was interrupted.

    Examples
    --------
    >>> import evidence as ev
    >>> x = [0.0, 1.0, 2.0]
    >>> noise = "gaussian(noise_std=0.5)"
    >>> short = ev.GPModel(x, [0.0, 0.0, 0.0], "1.0 * RBF(0.5)", likelihood=noise)
    >>> long = short.at({"length_scale": 2.0})
    >>> study = ev.design(short, long, 20, random_seed=0, progressbar=False)
    >>> bool(study.log_bayes_factor["m1"].mean() > study.log_bayes_factor["m0"].mean())
    True
    """

    _format = "evidence-design"
    _digits = ".3f"
    _draw = plots.plot_design

    log_bayes_factor: dict[str, Array]
    warnings: tuple[Message, ...] = ()

    @property
    def table(self) -> DataFrame:
        """By the model that makes the data: quantiles of log BF, m1 against m0, and how often
        it is beyond 3, 10 and 30 for m1, and for m0."""
        factors = (3.0, 10.0, 30.0)  # Bayes factors that a study asks for
        rows = dict[str, Any]()
        for name, log in self.log_bayes_factor.items():
            low, middle, high = np.quantile(log, [0.05, 0.5, 0.95])
            rows[name] = {"log BF, 5 %": low, "median": middle, "95 %": high}
            rows[name] |= {f"P(BF > {b:g})": np.mean(log > np.log(b)) for b in factors}
            rows[name] |= {f"P(BF < 1/{b:g})": np.mean(log < -np.log(b)) for b in factors}
        return data_frame(rows).T.rename_axis("data from")

    def _about(self) -> list[str]:
        sizes = " and ".join(f"{log.size} from {m}" for m, log in self.log_bayes_factor.items())
        return [f"Bayes factors of m1 against m0 on data sets, {sizes}"]

    def _frame(self) -> DataFrame:
        return self.table.T
