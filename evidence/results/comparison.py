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
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from .. import plots
from ..execution.arguments import check_choice
from ..messages import Message
from ..numerics.arrays import Array
from .base import WIDTH, DataFrame, Page, ResultOnAxes, data_frame
from .evidence import EvidenceResult
from .hyper import IntegratedEvidence
from .loo import LooResult, stacking

_BARE = "not worth more than a bare mention"
#: in whose words, and from which Bayes factor on
STRENGTHS: dict[str, tuple[str, dict[float, str]]] = {
    "kass_raftery": (
        "Kass and Raftery, J. Am. Stat. Assoc. 90 (1995) 773",
        {1.0: _BARE, 3.0: "positive", 20.0: "strong", 150.0: "very strong"},
    ),
    "jeffreys": (
        "Jeffreys, Theory of Probability (1961)",
        {
            1.0: _BARE,
            10**0.5: "substantial",
            10.0: "strong",
            10**1.5: "very strong",
            1e2: "decisive",
        },
    ),
}


_HELD = (
    "hyperparameters of {} are held where they are, those of others are integrated out: what is "
    "held at an optimum looks better than it is (integrate all: model.with_priors({{…}}))"
)


class BayesFactor(NamedTuple):
    """How many times better one model predicted the data than another, and the error of that.

    >>> factor = BayesFactor(log=math.log(34.0), log_se=0.05)
    >>> print(factor, "or", round(factor.value, 1), "±", round(factor.se, 1))
    34 ± 5 % or 34.0 ± 1.7
    >>> factor.strength()
    'strong (Kass and Raftery, J. Am. Stat. Assoc. 90 (1995) 773)'
    """

    log: float
    log_se: float

    @property
    def value(self) -> float:
        """The factor itself; 0 or infinite where numbers end."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log))

    @property
    def error(self) -> float:
        """Relative standard error, that of a lognormal number."""
        with np.errstate(over="ignore"):
            return float(np.sqrt(np.expm1(self.log_se**2)))

    @property
    def se(self) -> float:
        """Standard error of ``value``."""
        return self.value * self.error

    def strength(self, scale: str = "kass_raftery") -> str:
        """The word for it, for or against, on the scale ``"kass_raftery"`` or ``"jeffreys"``."""
        check_choice("scale", scale, STRENGTHS)
        reference, words = STRENGTHS[scale]
        size = abs(self.log)
        word = next(w for b, w in reversed(words.items()) if size >= math.log(b) or b == 1.0)
        against = "against, " if self.log < 0.0 else ""
        return f"{against}{word} ({reference})"

    def __str__(self) -> str:
        error = "" if math.isnan(self.error) else f" ± {in_percent(self.error)}"
        return in_figures(self.log) + error


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ResultOnAxes):
    """Models side by side; made by :func:`evidence.compare`.

    Attributes
    ----------
    table : DataFrame
        One row per model, most probable first: ``logz``, ``logz_se``,
        ``log_bayes_factor`` against the baseline, ``probability`` and their errors, ``prior``
        (probabilities before the data), the approximations, ``method``, ``seconds``,
        ``warnings`` (a count); and with ``loo=True`` ``elpd``, ``elpd_se`` and ``stacking``
        (weights). Printed is what people report of it.
    results : dict[str, EvidenceResult]
        What each row was made from.
    warnings : tuple of Message
        What to be careful about: texts, each with a ``code``.
    models : dict
        The models themselves, for predictions; files do not hold them.
    notes : tuple of str
        What a careful reader should know about the data, of all models or by name.
    baseline : str
        Whom Bayes factors are against.
    loo : dict[str, LooResult]
        Of every model, where it was asked for.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> wide = ev.GPModel(K=[[4.0, 0.0], [0.0, 4.0]], y=[1, -1])
    >>> comparison = ev.compare({"near": model, "wide": wide}, random_seed=0, progressbar=False)
    >>> list(comparison.table.index), comparison.bayes_factor("wide", "near").log > 0
    (['wide', 'near'], True)
    """

    _format = "evidence-comparison"
    _draw = plots.plot_comparison

    table: DataFrame
    results: dict[str, EvidenceResult]
    warnings: tuple[Message, ...] = ()
    models: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    baseline: str = ""
    loo: dict[str, LooResult] = field(default_factory=dict)

    @classmethod
    def of(
        cls, results: Mapping[str, EvidenceResult], prior: Mapping[str, float],
        warnings: Sequence[Message] = (), models: Mapping[str, Any] | None = None,
        baseline: str | None = None, loo: Mapping[str, LooResult] | None = None,
    ) -> Comparison:  # fmt: skip
        """Compare runs that are finished, under prior probabilities up to a factor.

        Bayes factors are against ``baseline``, by default the most probable model.
        """
        logz = np.array([result.logz for result in results.values()])
        se = np.array([result.logz_se for result in results.values()])
        weights = np.array([prior[name] for name in results])
        p, p_se = probabilities(logz, se, weights)
        order = np.argsort(-p, kind="stable")
        base = order[0] if baseline is None else list(results).index(baseline)
        factor_se = np.hypot(se, se[base])
        factor_se[base] = 0.0
        columns = {
            "logz": logz, "logz_se": se,
            "log_bayes_factor": logz - logz[base], "log_bayes_factor_se": factor_se,
            "probability": p, "probability_se": p_se, "prior": weights / weights.sum(),
        }  # fmt: skip
        looks = dict(loo or {})
        if looks:
            columns["elpd"] = np.array([looks[name].elpd for name in results])
            columns["elpd_se"] = np.array([looks[name].se for name in results])
            columns["stacking"] = stacking([looks[name].pointwise for name in results])
        more = data_frame([_others(result) for result in results.values()])
        table = data_frame({**columns, **more}).set_axis(list(results)).rename_axis("model")
        table = table.iloc[order]
        owned = [(name, w) for name, r in [*results.items(), *looks.items()] for w in r.warnings]
        own = [Message(warning.code, f"{name}: {warning}") for name, warning in owned]
        warned = (*own, *warnings, *_close_race(table))
        models = dict(models or {})
        each = {name: getattr(model, "notes", ()) for name, model in models.items()}
        every = dict.fromkeys(note for some in each.values() for note in some)
        shared = [n for n in every if all(n in some for some in each.values())]
        others = [f"{name}: {n}" for name, some in each.items() for n in some if n not in shared]
        averaged = {name for name, r in results.items() if isinstance(r, IntegratedEvidence)}
        free = {name for name, m in models.items() if len(getattr(m, "hyperparameters", ()))}
        held = [name for name in models if name in free - averaged]
        if averaged and held:
            others.append(_HELD.format(", ".join(held)))
        names, told = list(results), (*shared, *others)
        return cls(table, dict(results), warned, models, told, names[base], looks)

    @property
    def best(self) -> str:
        """Name of the most probable model."""
        return str(self.table.probability.idxmax())

    def _state(self) -> dict[str, Any]:
        results = {name: _without_model(result) for name, result in self.results.items()}
        return super()._state() | {"models": {}, "results": results}

    def bayes_factor(self, a: str, b: str | None = None) -> BayesFactor:
        """That of one model against another, with its error.

        Parameters
        ----------
        a, b : str
            Names; ``b`` is the baseline unless given.

        Returns
        -------
        BayesFactor
            ``.value``, ``.se``, ``.error`` (relative), ``.log``, ``.log_se``, ``.strength()``.
        """
        b = self._baseline if b is None else b
        for name, value in {"a": a, "b": b}.items():
            if value not in self.table.index:
                check_choice(name, value, map(str, self.table.index))
        logz, se = self.table.logz, self.table.logz_se
        error = 0.0 if a == b else math.hypot(se[a], se[b])
        return BayesFactor(float(logz[a] - logz[b]), float(error))

    @property
    def _baseline(self) -> str:
        return self.baseline or self.best  # older files have none

    def _about(self) -> list[str]:
        share = share_of(self.table.probability.max(), len(self.table))
        return [
            f"{self.best} is the most probable of {len(self.table)} models, P {share}",
            f"BF: Bayes factor against {self._baseline}; P: probability of the model",
        ]

    def _frame(self) -> DataFrame:
        """What people report, as text."""
        rows = []
        for name, row in self.table.iterrows():
            factor, own = self.bayes_factor(name), name == self._baseline
            cells = {
                "log Z": _with_error(row.logz, row.logz_se),
                "BF": "1" if own else in_figures(factor.log),
                "error": "" if own else in_percent(factor.error),
                "P": share_of(row.probability, len(self.table)).removeprefix("= "),
            }
            if "elpd" in row:
                cells["elpd (loo)"] = f"{row.elpd:.2f} ± {row.elpd_se:.2f}"
                cells["stacking"] = share_of(row.stacking, 2).removeprefix("= ")
            rows.append(cells | {"warnings": str(row.warnings)})
        return data_frame(rows, index=list(self.table.index))

    def _tables(self) -> list[DataFrame]:
        """All that is printed, as text."""
        return [self._frame().rename_axis("model")]

    def summary(self) -> Page:
        """A page of text: what people report, with notes and warnings; ``table`` has the rest."""
        above = [part for line in self._about() for part in textwrap.wrap(line, WIDTH)]
        lines = [line for frame in self._tables() for line in ("", *_in_text(frame))]
        return Page("\n".join([*above, *lines, *self._remarks()]))

    def __repr__(self) -> str:
        return str(self.summary())  # a str as such, which R takes

    def to_markdown(self) -> Page:
        """What is printed, and its notes, for documents in Markdown."""
        lines = [line for frame in self._tables() for line in (*_in_markdown(frame), "")]
        remarks = [f"- {text}" for text in [*self._about()[1:], *self._remarks()]]
        return Page("\n".join([*lines, *remarks]))

    def to_latex(self) -> Page:
        """What is printed, as one ``tabular`` or several that need no package."""
        return Page("\n\n".join(map(_tabular, self._tables())))

    def report(self, scale: str | None = None) -> Page:
        """A paragraph for a paper: answers with errors, priors, and what became of the data.

        Parameters
        ----------
        scale : {"kass_raftery", "jeffreys"}, optional
            Words for the strength of every Bayes factor, on that scale.
        """
        table, base = self.table, self._baseline
        sizes = {f"{r.model['N']} observations" for r in self.results.values() if "N" in r.model}
        of = f" of {sizes.pop()}" if len(sizes) == 1 else ""
        text = [f"Marginal likelihoods of {len(table)} models{of} were computed."]
        text += [f"{note[:1].upper()}{note[1:]}." for note in self.notes]
        for name, row in table.iterrows():
            share = f"P {share_of(row.probability, len(table))}, {row.prior:.3g} before the data"
            answer = f"Of {name}, log Z = {_with_error(row.logz, row.logz_se)} ({share})"
            if name != base:
                factor = self.bayes_factor(name)
                words = f", {factor.strength(scale)}" if scale else ""
                answer += f"; its Bayes factor against {base} is {factor}{words}"
            text.append(f"{answer}.")
        text.append("Errors are standard errors of Monte Carlo.")
        for name, result in self.results.items():
            given = (result.settings.get("priors") or {}).items()
            priors = result.model.get("priors") or "; ".join(f"{n} ~ {p}" for n, p in given)
            about = result._about_model().removeprefix("model: ")
            text.append(f"Priors of {name}: {priors}." if priors else f"{name}: {about}.")
        text += [f"Warning: {warning}." for warning in self.warnings]
        return Page(" ".join(text))


def _in_text(frame: DataFrame, fewest: int = 12) -> list[str]:
    """Lines of cells; long names are broken, at the ``fewest`` characters or later."""
    widths = [max(len(name), *map(len, frame[name])) for name in frame]
    room = max(WIDTH - sum(widths) - 2 * len(widths), fewest)
    names = [textwrap.wrap(str(name), room) or [""] for name in frame.index]
    most = max(len(part) for name in names for part in name)
    lines = [" " * most + "".join(f"  {h:>{w}}" for h, w in zip(frame, widths, strict=True))]
    for (first, *more), (_, row) in zip(names, frame.iterrows(), strict=True):
        cells = "".join(f"  {cell:>{w}}" for cell, w in zip(row, widths, strict=True))
        lines += [f"{first:<{most}}{cells}".rstrip(), *more]
    return lines


def _in_markdown(frame: DataFrame) -> list[str]:
    code = ["`" + str(name).replace("|", "\\|") + "`" for name in frame.index]
    rows = [[str(frame.index.name), *frame], ["---", *["---:"] * frame.shape[1]]]
    rows += [[name, *cells] for name, cells in zip(code, frame.to_numpy(), strict=True)]
    return [f"| {' | '.join(row)} |" for row in rows]


def _tabular(frame: DataFrame) -> str:
    rows = [[frame.index.name, *frame], *([name, *row] for name, row in frame.T.items())]
    head, *body = [" & ".join(_in_latex(str(cell)) for cell in row) + r" \\" for row in rows]
    begin, end = rf"\begin{{tabular}}{{l{'r' * frame.shape[1]}}}", r"\end{tabular}"
    return "\n".join([begin, r"\hline", head, r"\hline", *body, r"\hline", end])


def in_figures(log: float) -> str:
    """exp(log) in figures that people read, however small or large.

    >>> [in_figures(log) for log in (0.0, 3.5, 7.0, -69.0, -7000.0)]
    ['1', '33.1', '1097', '1.1e-30', '8.7e-3041']
    """
    if not math.isfinite(log):
        return {math.inf: "inf", -math.inf: "0"}.get(log, "-")
    if -6.9 < log < 9.2:  # about 0.001 to 10,000
        value = math.exp(log)
        return f"{value:.0f}" if value >= 100.0 else f"{value:.3g}"
    power = math.floor(log / math.log(10.0))
    digits = round(10.0 ** (log / math.log(10.0) - power), 1)
    return f"{digits:.1f}e{power}" if digits < 10.0 else f"1.0e{power + 1}"


def in_percent(error: float, vague: float = 10.0) -> str:
    """A relative error; beyond ``vague`` its size means nothing, and is not told."""
    if not error <= vague:
        return "-" if math.isnan(error) else f"> {100.0 * vague:.0f} %"
    return f"{100.0 * error:.2g} %" if error >= 1e-3 else "< 0.1 %"


def share_of(p: float, models: int) -> str:
    """``= 0.713``, and never 0 or 1 where it is neither."""
    if 0.0005 <= p <= 0.9995 or math.isnan(p) or models == 1:
        return f"= {p:.3g}" if models == 1 else f"= {p:.3f}"
    return "< 0.001" if p < 0.5 else "> 0.999"


def _with_error(value: float, se: float) -> str:
    if not math.isfinite(se):
        return f"{value:.3f}"
    return f"{value:.3f} ± {se:.3f}" if se >= 0.0005 else f"{value:.3f} ± < 0.001"


def _in_latex(text: str) -> str:
    special = {c: rf"\{c}" for c in "&%$#_{}"} | {c: f"${c}$" for c in "|<>"}
    special |= {"±": r"$\pm$", "~": r"$\sim$", "^": r"\^{}", "\\": r"$\backslash$"}
    return "".join(special.get(c, c) for c in text)


def _without_model(result: EvidenceResult) -> EvidenceResult:
    """As files keep it, which hold no models: without an optimum, which is one."""
    return replace(result, optimum=None) if hasattr(result, "optimum") else result  # type: ignore[call-arg]


def probabilities(logz: Array, se: Array, prior: Array) -> tuple[Array, Array]:
    """Posterior probabilities of models and their standard errors, to first order.

    >>> p, se = probabilities(np.array([0.0, 0.0]), np.array([0.1, 0.1]), np.ones(2))
    >>> p.tolist(), se.round(4).tolist()
    ([0.5, 0.5], [0.0354, 0.0354])
    """
    p = softmax(logz + np.log(prior))
    jacobian = np.diag(p) - np.outer(p, p)
    return p, np.sqrt(jacobian**2 @ np.square(se))


def _others(result: EvidenceResult) -> dict[str, float | str | int]:
    *others, last = result.rows
    told: dict[str, float | str | int] = {row.method: row.logz for row in others}
    told |= {"method": result.method, "seconds": last.seconds}
    return told | {"warnings": len(result.warnings)}


def _close_race(table: DataFrame, clear: float = 2.0, notable: float = 3.0) -> list[Message]:
    """Whether the error bars tell which of the two best models is better: by ``clear`` standard
    errors, or that no Bayes factor between them is ``notable`` (3 for Kass and Raftery)."""
    if len(table) < 2:
        return []
    gap, se = table.logz.iloc[0] - table.logz.iloc[1], math.hypot(*table.logz_se.iloc[:2])
    if not math.isfinite(se):
        return [Message("no-error-bars", "these approximations have no error bars")]
    if abs(gap) >= clear * se or abs(gap) + clear * se < math.log(notable):
        return []
    text = (
        f"the two best are {abs(gap):.2g} ± {se:.2g} nats apart: a smaller target_se would tell "
        "them apart"
    )
    return [Message("close-race", text)]
