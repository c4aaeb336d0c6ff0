r"""Models from formulas: ``"y ~ 1 + age + (1 + age | clinic)"`` and a table of data.

.. math:: y_i \sim p(y_i|\eta_i),\qquad \eta = X\beta + Z b + o,\qquad
          \beta \sim N(m, D^2),\qquad b \sim N(0, Q_\theta^{-1})

with a proper prior for everything: without one a model has no evidence. Defaults are in
:mod:`.families`.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from ...execution.arguments import check_choice, shown
from ...execution.keywords import also, hinted
from ...execution.lazy import pd
from ...messages import InputError, suggest
from ...numerics.arrays import Array
from ..distributions import from_text
from ..expressions import check_length
from ..hyperparameters import Hyperparameters, scalars
from ..likelihoods.base import Likelihood
from ..likelihoods.censored import Censored
from ..likelihoods.predicted import Predicted, Several, predicted
from ..likelihoods.softmax import Softmax
from ..likelihoods.truncated import Truncated
from ..precisions.joint import Blocks
from ..priors import Priors
from ..sparse import SparseModel
from .calls import FUNCTIONS
from .families import FAMILIES, Observed, family_name, observe
from .jzs import Ratios, Scales, scales_of, standardise, standardised
from .parse import Parts, check_names, columns, compact_names, parse, split
from .priors import for_hyperparameters, starts, with_bounds
from .structured import TERMS, Term, structured
from .terms import Common, Design, Groups, Source, keys, named_effect

_BOUNDS = ("cens", "trunc")


class Terms(Blocks):
    """The priors of a formula's terms, side by side; names as people write them."""

    @staticmethod
    def spelled(block: str, parameter: str) -> str:
        """``sd(x)`` of the effects ``1+x|g`` is ``sd(x|g)``."""
        predictor, _, term = block.rpartition(" ~ ")
        factor = term.partition("|")[2]
        if factor:
            name = f"{parameter[:-1]}|{factor})"
        else:
            name = parameter if parameter == f"sd({term})" else f"{term}__{parameter}"
        return named_effect(predictor, name)


def parameters_of(term: Term) -> list[str]:
    """Names of a term's hyperparameters."""
    return [Terms.spelled(term.name, each.name) for each in term.precision.hyperparameters]


class FormulaModel(SparseModel):
    """A regression with effects of groups; made by :func:`evidence.from_formula`.

    Attributes
    ----------
    formula : str
    table : DataFrame
        One row per term or hyperparameter, and the prior of each.
    names : tuple of str
        Of the latent values: effects, in the order of ``terms``.
    slices : dict of str to slice
        Where the latent values of every term are.
    columns : tuple of str
        Of the data, without the response.
    further : dict of str to str
        What explains parameters of the likelihood, by their names.
    levels : array or None
        Categories of a Bernoulli, ordinal or softmax response in order, as the data have them.

    Examples
    --------
    >>> import evidence as ev
    >>> data = {"y": [1.2, 0.4, 2.2, 1.9], "x": [0.0, 1.0, 2.0, 3.0], "g": list("aabb")}
    >>> model = ev.from_formula("y ~ x + (1 | g)", data)
    >>> model.names
    ('Intercept', 'x', '1|g[a]', '1|g[b]')
    """

    precision: Terms
    columns: tuple[str, ...] = ()
    trials: str = ""
    """What the formula says of them."""
    offsets: tuple[Design, ...] = ()
    """Of all predictors."""
    further: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, formula: str, terms: Sequence[Term], observed: Observed, data: pd.DataFrame,
        offset: Array, further: Mapping[str, str] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        precision = Terms({term.name: term.precision for term in terms})
        self.formula, self.terms, self.further = formula, tuple(terms), further
        self.likelihood = observed.likelihood
        means = [getattr(term, "mean", np.zeros(term.precision.n)) for term in terms]
        mean, lik = np.concatenate(means), observed.likelihood
        A = self.designs(data) if further else self.design(data)
        super().__init__(precision, observed.y, likelihood=lik, A=A, mean=mean, offset=offset)
        self.notes, self.levels = (*self.notes, *observed.notes), observed.levels

    @property
    def slices(self) -> dict[str, slice]:
        """Where the latent values of every term are."""
        return self.precision.slices

    @property
    def names(self) -> tuple[str, ...]:
        """Of the latent values: effects, term after term."""
        return tuple(label for term in self.terms for label in term.labels)

    @property
    def measure(self) -> str:
        """What of its prior has no finite mass, and makes log Z one of ratios."""
        flat = any(isinstance(t, Common) and t.shown == "flat" for t in self.terms)
        jeffreys = isinstance(self.priors, Ratios)
        return " and ".join(["a flat mean"] * flat + ["Jeffreys' variance"] * jeffreys)

    def design(self, data: pd.DataFrame) -> csr_array:
        """What rows of data see of the latent values, (rows, n), predictor by predictor."""
        return csr_array(vstack(self.designs(data), format="csr"))

    def designs(self, data: pd.DataFrame) -> list[csr_array]:
        """The same, of each predictor."""
        return self._side_by_side([_seen(term, data) for term in self.terms])

    def _side_by_side(self, parts: Sequence[csr_array]) -> list[csr_array]:
        """Parts of all terms, of each predictor those of its own."""
        pairs = list(zip(self.terms, parts, strict=True))
        return [
            csr_array(hstack([A if t.of_predictor == p else csr_array(A.shape) for t, A in pairs]))
            for p in ("", *self.further)[-self.n_predictors :]  # a softmax has no other
        ]

    def bare(self) -> FormulaModel:
        """The same model without its terms, which computing does not need."""
        model = copy.copy(self)
        model.terms, model.offsets = (), ()
        return model

    without_matrices = bare

    def rows_of(
        self, data: object, new_groups: str = "error"
    ) -> tuple[csr_array, Array, csr_array | None]:
        """What rows of a table see of the latent values, what offsets add, and what rows of new
        groups would see if these were the first ones."""
        check_choice("new_groups", new_groups, ("error", "prior", "zero"))
        frame = as_frame(data, "X_new")
        gone = frame[[name for name in self.columns if name in frame]].isna().any(axis=1)
        if gone.any():
            raise InputError(f"X_new has missing values in {int(gone.sum())} rows; leave them out")
        if not gone.size:
            raise InputError("X_new has no rows: there is nothing to predict")
        for design in (
            *self.offsets,
            *(t.design for t in self.terms if isinstance(t, Common | Groups)),
        ):
            design.check_alone()
        offset = self.new_offset(frame)
        if new_groups == "error":
            return self.design(frame), offset, None
        each = map(self._side_by_side, zip(*(_split(t, frame) for t in self.terms), strict=True))
        known, new = (csr_array(vstack(part, format="csr")) for part in each)
        return known, offset, new if new_groups == "prior" else None

    def variances_as_first(self, rows: csr_array) -> Array:
        """Prior variances of what rows of new groups see, from :meth:`rows_of`."""
        total = np.zeros(rows.shape[0])
        for name, where in self.slices.items():
            own = rows[:, where]
            if own.nnz:
                k = int(own.indices.max()) + 1  # groups are independent: the first stands alone
                cov = np.linalg.inv(self.precision.parts[name].matrix()[:k, :k].toarray())
                X = own[:, :k].toarray()
                total += np.sum((X @ cov) * X, axis=1)
        return total

    def new_words(self, data: object) -> dict[str, Any]:
        return {"n": self.new_trials(data)} if self.trials else {}

    def new_trials(self, data: object) -> float | tuple[float, ...]:
        """Those of rows of a table."""
        try:
            return float(self.trials)
        except ValueError:
            pass
        frame = as_frame(data, "X_new")
        known = list(map(str, frame.columns))
        if lost := [c for c in columns(self.trials, self.columns) if c not in known]:
            kind = type(self.likelihood).__name__
            raise InputError(
                f"X_new has no column {lost[0]!r}, the trials of new observations; pass "
                f"likelihood=ev.likelihoods.{kind}(n=1) for proportions"
            )
        return tuple(Source(frame, {}).column(self.trials).astype(float))

    def new_offset(self, data: pd.DataFrame) -> Array:
        """What ``offset()`` adds to rows of data, predictor by predictor."""
        return np.concatenate([design.offset(data) for design in self.offsets])

    @property
    def table(self) -> pd.DataFrame:
        """One row per common effect or hyperparameter, and the prior of each."""
        rows = []
        for term in self.terms:
            if isinstance(term, Common):
                for name, prior in zip(term.labels, term.described, strict=True):
                    rows.append((name, "common effect", prior))
        words = {} if self.priors is None else self.priors.describe()
        values = self.hyperparameters.values
        for name, value in zip(self.hyperparameters.names, values, strict=True):
            rows.append((name, "hyperparameter", words.get(name, f"held at {value:.4g}")))
        return pd.DataFrame(rows, columns=["name", "kind", "prior"]).set_index("name")

    def describe(self) -> dict[str, Any]:
        """What a result tells of its model; the prior of everything."""
        table = self.table
        return {
            "formula": self.formula,
            **{f"formula of {name}": text for name, text in self.further.items()},
            **(words := super().describe()),
            "likelihood": self._without_starts(words["likelihood"]),
            "precision": ", ".join(f"{t.name} ({t.precision.n})" for t in self.terms),
            "priors": "; ".join(f"{name} ~ {p}" for name, p in table.prior.items()),
        }

    def _without_starts(self, likelihood: str) -> str:
        """Its parameters without the values at which a search starts, where they have priors."""
        free = self.hyperparameters
        for name, own in zip(free.names[free.n_kernel :], scalars(free.likelihood), strict=True):
            if self.priors is not None and name in self.priors.names:
                likelihood = re.sub(rf"\b{own}=[^,()]+", own, likelihood)
        return likelihood

    def __repr__(self) -> str:
        further = "".join(f", {name} ~ {text}" for name, text in self.further.items())
        sizes = f"rows={self.y.size}, latent values={self.n}"
        return f"FormulaModel({self.formula!r}{further}, {sizes})"


def _seen(term: Term, data: pd.DataFrame) -> csr_array:
    """What rows of data see of the latent values of one term."""
    rows, seen = term.rows(data), term.precision.design
    return rows if seen is None else csr_array(rows @ seen)


def _split(term: Term, data: pd.DataFrame) -> tuple[csr_array, csr_array]:
    """The same of groups that are there, and of new ones; other terms have only the former."""
    if isinstance(term, Groups):
        return term.split(data)
    return _seen(term, data), csr_array((len(data), term.precision.n))


@also(family="likelihood")
@hinted
def from_formula(
    formula: str,
    data: object,
    *,
    likelihood: str | Likelihood = "gaussian",
    link: str | None = None,
    predictors: Mapping[str, str] | None = None,
    priors: Mapping[str, Any] | str | Scales | None = None,
    missing: str = "drop",
    namespace: Mapping[str, Any] | None = None,
) -> FormulaModel:
    r"""Make a model from a formula and a table, with a proper prior for everything in it.

    Parameters
    ----------
    formula : str
        ``"y ~ 1 + age + (1 + age | clinic)"``. A formula is code: what it calls is run. Take none
        from somebody whose code you would not run; the command ``evidence`` allows fixed
        functions only. Names are columns of the data, then functions of the formula language
        and ``log``, ``exp``, ``sqrt``, ``abs``, … of NumPy, then what ``namespace`` has. Common
        terms are those of
        `formulae <https://bambinos.github.io/formulae/>`_: ``a*b``, ``a:b``, ``bs(x, df=5)``,
        ``C(a)``, ``scale(x)``, ``log(x)``, ``offset(x)``, ``0 +``. Effects of groups are
        ``(1 + x | g)``, correlated; ``(1 + x || g)``, independent; ``(1 | a:b)``, ``(1 | a/b)``.
        Structured terms are ``ar1(time)``, ``rw1(x)``, ``rw2(x)``, which step on the full grid
        of a numeric column, from its least value to its largest by the smallest step that occurs
        or divides all (1, 2, 4 passes 3 too), each for groups with a second argument,
        ``icar(area, graph)`` and ``bym2(area, graph)``. The response may have
        ``y | trials(n)`` or ``p(y, n)`` for successes, ``y | weights(w)`` for rows that count w
        times, ``y | cens(c)`` or ``y | cens(c, y2)`` for bounds (:class:`.Censored`), and
        ``y | trunc(lower, upper)``, numbers or columns, one of them perhaps left out, for data
        that are there only within these (:class:`.Truncated`).
    data : DataFrame or mapping of columns
    likelihood : str or Likelihood
        ``"gaussian"``, ``"student_t"``, ``"bernoulli"``, ``"binomial"``, ``"poisson"``,
        ``"negative_binomial"``, ``"gamma"``, ``"geometric"``, ``"zero_inflated_poisson"``,
        ``"zero_inflated_negative_binomial"``, ``"hurdle_poisson"``,
        ``"hurdle_negative_binomial"``, ``"beta"``, ``"beta_binomial"``, ``"exponential"``,
        ``"lognormal"``, ``"weibull"``, ``"log_logistic"``, ``"asymmetric_laplace"``,
        ``"ordinal"``, whose response is numbers or ordered categories,
        ``pd.Categorical(y, categories=[...], ordered=True)``, or ``"softmax"``, of categories of
        which the first is the baseline: all others have effects of their own, ``"mild:x"``, on
        the log odds against it; a prior of ``"x"`` is for each of them. ``family=`` is the same.
    link : str, optional
        ``"logit"``, ``"probit"`` or ``"cloglog"`` for ``"bernoulli"``.
    predictors : mapping of str to str, optional
        What explains parameters of the likelihood, as ``{"sigma": "x + (1 | g)"}`` (or a category
        of a softmax, where it is not what explains the others): positive
        numbers by their logarithm, shares by their log-odds. Their effects are ``"sigma:x"``,
        their hyperparameters ``"sigma:sd(1|g)"``; a slope's default is ``norm(0, 2.5/sd(x))``.
    priors : mapping of str to frozen scipy.stats distribution, text or number, or str, optional
        Such as ``norm(0, 2)`` or ``"norm(0, 2)"``, instead of the defaults (``model.table`` shows
        all): normal ones for ``"Intercept"`` and other common effects; any for ``"sd(1|g)"`` (or
        the variance, ``"var(1|g)"``) and other hyperparameters; ``"lkj(2)"`` for ``"cor(g)"``.
        Parameters of likelihoods are ``"sigma"`` (the noise, of Student's t the scale), ``"df"``,
        ``"shape"``, ``"dispersion"``, ``"phi"``, ``"zi"``, ``"gap_1"``, …; where a term has one
        too, or a column is called so, by full names, ``"likelihood__sigma"`` and
        ``"rw1(t)__sigma"``. A number holds a hyperparameter: ``{"sigma": 0.3}``. Or a word
        for all of them: ``"scaled"``, the defaults, or ``"jzs"``, Cauchy priors of standardised
        effects as in R's BayesFactor, with other scales :func:`evidence.jzs`.
    missing : {"drop", "error"}
        What becomes of rows with missing values: left out, with a note, or refused.
    namespace : mapping, optional
        Other functions, modules and graphs that the formula mentions; by default the caller's
        variables.

    Returns
    -------
    FormulaModel
        :func:`evidence.log_evidence` integrates its hyperparameters out; ``model.at({...})``
        holds them at values.

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> rng = np.random.default_rng(0)
    >>> data = {"y": rng.poisson(3.0, 40), "x": rng.normal(size=40), "g": list("abcdefgh") * 5}
    >>> model = ev.from_formula("y ~ x + (1 | g)", data, likelihood="poisson")
    >>> model
    FormulaModel('y ~ x + (1 | g)', rows=40, latent values=10)
    >>> model.table.prior["sd(1|g)"]
    'expon(scale=1)'
    """
    if namespace is None:
        namespace = callers(4)  # beyond what looks at keywords
    if not isinstance(namespace, Mapping):
        raise InputError(f"namespace must map names to values, got {shown(namespace)}")
    return from_formulas(
        {"": formula}, data, namespace=namespace, likelihood=likelihood, link=link, priors=priors,
        missing=missing, predictors=predictors,
    )[""]  # fmt: skip


def callers(depth: int) -> dict[str, Any]:
    """The variables that a function's caller sees, and NumPy's; ``depth`` is 1 for its own."""
    try:
        frame = sys._getframe(depth)
    except ValueError:  # called from another language, which has no frames of Python's
        return {"np": np}
    return {**frame.f_globals, **frame.f_locals, "np": np}


def from_formulas(
    formulas: Mapping[str, str], data: object, *, namespace: Mapping[str, Any],
    likelihood: str | Likelihood = "gaussian", link: str | None = None,
    priors: Mapping[str, Any] | str | Scales | None = None, missing: str = "drop",
    predictors: Mapping[str, str] | None = None,
) -> dict[str, FormulaModel]:  # fmt: skip
    """Models of the same rows: those in which no formula misses a value.

    A prior is for every model that has what it names, and one of them must.
    """
    check_choice("missing", missing, ("drop", "error"))
    parts = {name: parse(formula, TERMS) for name, formula in formulas.items()}
    scales = scales_of(priors)
    extra = further_parts(next(iter(formulas.values())), predictors, scales)
    source, used, notes = _source([*parts.values(), *extra.values()], data, missing, namespace)
    others = {name: source.design(own.common) for name, own in extra.items()}
    asked = {} if scales or isinstance(priors, str) else _given(priors)
    designs = {name: source.design(own.common) for name, own in parts.items()}
    flat = all("Intercept" in design.names for design in designs.values())
    models, unknown, known = dict[str, FormulaModel](), list[set[str]](), list[str]()
    for name, formula in formulas.items():
        own, design = parts[name], designs[name]
        observed = _observed(own, source, likelihood, link)
        classes, texts = _classes(observed), {word: (predictors or {})[word] for word in extra}
        more, given = _in_order(observed.likelihood, extra), asked
        if classes:
            texts, more, given = _of_classes(formula, own, extra, texts, classes, asked, scales)
        middles, observed = _predicted(observed, tuple(more))
        if own.response in design.owners:
            raise InputError(f"formula: the response {own.response} explains itself; drop it")
        words = (own, design, source, observed)
        terms = standardised(*words, scales, flat) if scales else []
        terms += [] if scales or classes else _make_terms(*words, given)
        for word, part in more.items():
            there = observed._replace(location=middles[word], scale=1.0)
            own_given = _of_predictor(word, given)
            its = others.get(word, design)
            terms += _make_terms(part, its, source, there, own_given, word)
        every = (*[design][len(classes) :], *(others.get(word, design) for word in more))
        texts = {word: texts[word] for word in more}
        model = _assembled(formula, terms, observed, source.frame, every, texts)
        model.trials = own.extras.get("trials", "")
        model.columns = _predicting(own, more.values(), used)
        defaults = {Terms.spelled(t.name, at): d for t in terms for at, d in t.priors.items()}
        defaults |= {f"likelihood__{at}": d for at, d in observed.priors.items()}
        effects = [name for t in terms if isinstance(t, Common) for name in t.words]
        model.hyperparameters, defaults = _in_plain_names(model.hyperparameters, effects, defaults)
        chosen = for_hyperparameters(model.hyperparameters, defaults, given, effects)
        model = _with_start(model, chosen.priors, chosen.values)
        model.notes += (*notes, *_shadowed(formula, namespace))
        model.notes += (*_remarks(own, terms, observed, source.frame),)
        if scales:
            standardise(model)
        models[name] = model
        unknown.append(_unheard_of(chosen.strange, asked, classes))
        known += [*effects, *model.hyperparameters.names]
    _check_heard_of(set.intersection(*unknown), list(dict.fromkeys(known)))
    return models


def _check_heard_of(strange: set[str], known: Sequence[str]) -> None:
    if strange:
        key = min(strange)
        raise InputError(
            f"priors: there is no {shown(key)}{suggest(key, known)} Known: {', '.join(known)}"
        )


def _classes(observed: Observed) -> tuple[str, ...]:
    """Of a softmax, but the baseline; of others there are none."""
    lik = observed.likelihood
    return lik.predictors if isinstance(lik, Softmax) else ()


def _in_order(likelihood: Likelihood, extra: dict[str, Parts]) -> dict[str, Parts]:
    """Further predictors; of a likelihood that has its own all must be explained."""
    if not isinstance(likelihood, Several) or isinstance(likelihood, Softmax):
        return extra
    own = likelihood.predictors[1:]
    if odd := [*({*own} - {*extra}), *({*extra} - {*own})]:
        raise InputError(
            f"predictors: {likelihood} sees {', '.join(likelihood.predictors)}; the formula is of "
            f"the first, and predictors= must say what explains {', '.join(own)}, '1' where it is "
            f"the same for all; {shown(odd[0])} is {'missing' if odd[0] in own else 'no such one'}"
        )
    return {word: extra[word] for word in own}


def _assembled(
    formula: str, terms: Sequence[Term], observed: Observed, frame: pd.DataFrame,
    designs: tuple[Design, ...], further: Mapping[str, str],
) -> FormulaModel:  # fmt: skip
    """A model of terms, no two of which are the same."""
    if not terms or len({term.name for term in terms}) < len(terms):
        what = "a term twice" if terms else "no terms at all"
        raise InputError(f"formula: {formula!r} has {what}")
    offset = np.array([design.offset() for design in designs])
    offset = offset if further else offset[0]
    model = FormulaModel(formula, terms, observed, frame, offset, dict(further))
    model.offsets = designs
    model.hyperparameters = with_bounds(model.hyperparameters)
    _check_different(model.hyperparameters.names)
    if further:  # an interaction may be called as an effect of a parameter
        _check_different(model.names)
    return model


def _observed(
    own: Parts, source: Source, likelihood: str | Likelihood, link: str | None
) -> Observed:
    """The response, with its trials and bounds."""
    response = _response(own, source)
    trials = _extra(own, "trials", source)
    if not isinstance(likelihood, Likelihood):
        family_name(likelihood)  # an error of its own, not of the response
    try:
        observed = observe(response, trials, likelihood, link)
    except InputError as error:
        raise InputError(f"{own.response}: {error}") from None
    if "cens" in own.extras:
        observed = _censored(observed, own.extras["cens"], source)
    if "trunc" in own.extras:
        observed = _truncated(observed, own.extras["trunc"], source)
    return observed


def _with_start(
    model: FormulaModel, chosen: Mapping[str, Any], values: Mapping[str, float]
) -> FormulaModel:
    """With these priors, and hyperparameters that they allow; others held at these values."""
    free = model.hyperparameters
    held = [name for name in free.names if name not in chosen]
    priors = Priors.of(free, chosen, held) if chosen else None
    if start := {**values, **(starts(priors, free) if priors else {})}:
        try:
            model = model.at(start)  # type: ignore[assignment]
        except InputError as error:  # extremes, such as 1e-300
            told = ", ".join(f"{name} at {value:.4g}" for name, value in start.items())
            raise InputError(f"priors: with {told} there is no model: {error}") from None
    model.priors = priors
    return model


def _in_plain_names(
    free: Hyperparameters, effects: Sequence[str], priors: Mapping[str, Any]
) -> tuple[Hyperparameters, dict[str, Any]]:
    """The likelihood's by the names that people use, such as sigma, where nothing else may be
    meant by these; with priors whose keys follow.
    """
    taken = {*effects, *(name.rpartition("__")[2] for name in free.names[: free.n_kernel])}
    plain = dict[str, str]()
    for name in free.names[free.n_kernel :]:
        own = name.removeprefix("likelihood__")
        word = "sigma" if own == "noise_std" else own  # others have the names of textbooks
        plain[name] = name if word in taken else word
    names = tuple(plain.get(name, name) for name in free.names)
    return replace(free, names=names), {plain.get(n, n): prior for n, prior in priors.items()}


def _check_different(names: Sequence[str]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(
            f"formula: {twice[0]} occurs twice; join the brackets of a group, or write 0 + in one"
        )


def _make_terms(
    parts: Parts, design: Design, source: Source, observed: Observed, given: Mapping[str, Any],
    predictor: str = "",
) -> list[Term]:  # fmt: skip
    """The terms of a formula, or of a further predictor."""
    terms, scale = list[Term](), observed.scale
    if design.names:
        terms.append(Common.of(design, observed.location, scale, given, predictor))
    for bracket in parts.brackets:
        own = source.design(bracket.effects)
        for factor in bracket.groups:
            terms += Groups.of(bracket, factor, own, source.frame, scale, predictor)
    for written in parts.structured:
        made = structured(written, source, scale)
        terms.append(replace(made, of_predictor=predictor))
    return terms


def further_parts(
    formula: str, predictors: Mapping[str, str] | None, scales: object
) -> dict[str, Parts]:
    """What explains parameters of the likelihood, cut into parts."""
    if predictors is None:
        return {}
    if not isinstance(predictors, Mapping) or not all(
        isinstance(word, str) and isinstance(text, str) and "~" not in text
        for word, text in predictors.items()
    ):
        raise InputError(
            "predictors must map parameters of the likelihood to what explains them, such as "
            f"{{'sigma': 'x + (1 | g)'}}, got {shown(predictors)}"
        )
    if scales and predictors:
        raise InputError("predictors: priors='jzs' are for one predictor; give others")
    left = formula.partition("~")[0]
    return {word: parse(f"{left}~ {text}", TERMS) for word, text in predictors.items()}


def _of_classes(
    formula: str, own: Parts, extra: Mapping[str, Parts], texts: Mapping[str, str],
    classes: Sequence[str], given: Mapping[str, Any], scales: object,
) -> tuple[dict[str, str], dict[str, Parts], dict[str, Any]]:  # fmt: skip
    """What explains every class of a softmax but the baseline: texts, and these in parts; and
    priors, those without a class for all of them."""
    if scales:
        raise InputError("priors='jzs' are for one predictor, and a softmax has several")
    if strange := [word for word in extra if word not in classes]:
        raise InputError(
            f"predictors: there is no {shown(strange[0])}{suggest(strange[0], classes)} "
            f"Categories beside the baseline: {', '.join(classes)}"
        )
    right = formula.partition("~")[2].strip()
    each = dict[str, Any]()
    for name, prior in given.items():
        alone = name.partition(":")[0] not in classes
        each |= {f"{word}:{name}": prior for word in classes} if alone else {name: prior}
    written = {word: texts.get(word, right) for word in classes}
    return written, {word: extra.get(word, own) for word in classes}, each


def _unheard_of(strange: set[str], asked: Mapping[str, Any], classes: Sequence[str]) -> set[str]:
    """Priors of nothing; one that is for all classes may be of some only."""
    own = {name: name.partition(":")[2] for name in strange - {*asked}}
    for_all = {name for name, end in own.items() if all(f"{w}:{end}" in strange for w in classes)}
    return strange - {*own} | for_all


def _predicted(observed: Observed, words: tuple[str, ...]) -> tuple[dict[str, float], Observed]:
    """Where parameters are a priori, by their words, and the response with predictors of them."""
    if not words:
        return {}, observed
    lik = predicted(observed.likelihood, words)
    if not isinstance(lik, Predicted) or lik is observed.likelihood:
        return dict.fromkeys(words, observed.location), observed
    pairs = zip(words, lik.names, strict=True)
    middles = {word: float(lik.to_line(name, lik.value_of(name))) for word, name in pairs}
    priors = {name: own for name, own in observed.priors.items() if name not in lik.names}
    return middles, observed._replace(likelihood=lik, priors=priors)


def _of_predictor(word: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Priors that are given of a predictor's effects, by the names of these."""
    head = f"{word}:"
    return {n.removeprefix(head): prior for n, prior in given.items() if n.startswith(head)}


def _given(priors: object) -> dict[str, Any]:
    if priors is None:
        return {}
    if not isinstance(priors, Mapping):
        raise InputError(f"priors must map names to distributions, got {type(priors).__name__}")
    given = dict[str, Any]()
    for name, prior in priors.items():
        if isinstance(prior, str):
            check_length(f"priors[{name!r}]", prior)
            with suppress(ValueError):
                prior = float(prior)
        if prior is None or (isinstance(prior, str) and not prior.startswith("lkj")):
            prior = from_text(name, str(prior))
        given[compact_names(str(name))] = prior
    return given


def as_frame(data: Any, name: str = "data") -> pd.DataFrame:
    """A table as a frame of pandas, in which numbers are NumPy's, of eight bytes (x * z of columns
    of one byte would overflow), and not any objects."""
    if isinstance(data, pd.DataFrame):
        data = data.copy(deep=False)
        for c in data:
            kind = data.dtypes[c]
            if getattr(kind, "na_value", None) is pd.NA:
                data[c] = data[c].astype(object).where(data[c].notna(), np.nan)
            elif isinstance(kind, np.dtype) and kind.kind in "iuf":
                real = kind.kind == "f" or data[c].max() >= 2**63
                data[c] = data[c].astype(float if real else np.int64)
        return data.infer_objects()
    if not isinstance(data, Mapping) and not hasattr(data, "to_pandas"):
        raise InputError(
            f"{name} must be a pandas DataFrame or a mapping of columns, got {type(data).__name__}"
        )
    try:
        frame = data.to_pandas() if hasattr(data, "to_pandas") else pd.DataFrame(dict(data))
    except ValueError as error:
        sizes = {key: len(value) for key, value in dict(data).items() if np.ndim(value)}
        raise InputError(f"{name}: {error} {shown(sizes)}") from None
    return as_frame(frame)


def _source(
    every: Sequence[Parts], data: object, missing: str, namespace: Mapping[str, Any]
) -> tuple[Source, list[str], list[str]]:
    """The rows in use, the columns that formulas mention, and notes."""
    table = as_frame(data)
    known = list(map(str, table.columns))
    texts = [t for p in every for t in (p.response, *p.extras.values(), p.common)]
    texts += [t for p in every for b in p.brackets for t in (b.effects, *b.groups)]
    series = [argument for p in every for s in p.structured for argument in s.arguments]
    for text in texts:
        check_names(text, known, namespace)
    used = [name for text in [*texts, *series] for name in columns(text, known)]
    used = list(dict.fromkeys(used))
    if "Intercept" in used:
        raise InputError("formula: data have a column 'Intercept', as the constant is called")
    if twice := [name for name in used if known.count(name) > 1]:
        raise InputError(f"data have {known.count(twice[0])} columns called {twice[0]!r}")
    # the second arguments of cens(), which only intervals have
    ends = {p.extras.get("cens", "").partition(",")[2].strip() for p in every}
    ends = {columns(end, known)[0] for end in ends if end in known}
    gone = table[[name for name in used if name not in ends]].isna().any(axis=1).to_numpy()
    notes = []
    if gone.any():
        lost, where = int(gone.sum()), ", ".join(n for n in used if table[n].isna().any())
        if missing == "error":
            raise InputError(f"data: {lost} rows have missing values in {where}")
        notes.append(f"{lost} of {len(table)} rows have missing values ({where}): left out")
    frame = table.loc[~gone, used].reset_index(drop=True).infer_objects()
    for name in used:
        if frame[name].dtype.name == "category":
            frame[name] = frame[name].cat.remove_unused_categories()
        elif name in columns(_outside_categories([p.common for p in every], name), known):
            _check_numbers(frame[name])
    if not len(frame):
        raise InputError("data: no row without missing values is left")
    weights = {p.extras.get("weights") for p in every}
    if len(weights) > 1:
        raise InputError(
            "weights must be the same in all formulas; evidences are of the same data"
        )
    times = _extra(every[0], "weights", Source(frame, namespace))
    if times is not None:
        if (times < 0.0).any() or (times % 1.0).any():
            raise InputError(
                "weights must be whole numbers, how often a row counts; with others the "
                "likelihood is not normalised and has no evidence"
            )
        frame = frame.loc[np.repeat(np.arange(len(frame)), times.astype(int))]
        frame = frame.reset_index(drop=True)
        if not len(frame):
            raise InputError("weights are zero in every row")
    return Source(frame, namespace), used, notes


def _outside_categories(texts: Iterable[str], name: str) -> str:
    """Where C() does not say that a column holds categories."""
    return " ".join(texts).replace(f"C({name}", "").replace(f"C(`{name}`", "")


def _check_numbers(column: pd.Series, few: int = 10) -> None:
    """A covariate with a value that is no number would be categories; of a ``few`` it may be."""
    if column.dtype.kind not in "OU" or column.nunique() <= few:
        return
    text = column[pd.to_numeric(column, errors="coerce").isna()]
    if 0 < len(text) < 0.5 * len(column):
        raise InputError(
            f"data: {len(column) - len(text)} of {len(column)} values of {column.name!r} are "
            f"numbers, but {shown(text.iloc[0])} is not: correct it, or leave it empty where it "
            f"is missing; categories are C({column.name})"
        )


def _extra(parts: Parts, name: str, source: Source) -> Array | None:
    """Trials or weights, a number or an expression for every row."""
    if name not in parts.extras:
        return None
    text = parts.extras[name]
    if text not in source.frame.columns:
        return source.evaluated(text)
    try:
        return source.frame[text].to_numpy(float)
    except (TypeError, ValueError):
        raise InputError(f"{name}({text}) must be numbers, one for every row") from None


def _explaining(parts: Parts, known: Sequence[str]) -> Iterator[str]:
    """Columns of the right side, and of trials."""
    texts = [parts.common, parts.extras.get("trials", "")]
    texts += [t for b in parts.brackets for t in (b.effects, *b.groups)]
    texts += [argument for s in parts.structured for argument in s.arguments]
    for text in texts:
        yield from columns(text, known)


def _predicting(own: Parts, further: Iterable[Parts], used: Sequence[str]) -> tuple[str, ...]:
    """Columns that predictions need: not the response, nor its bounds."""
    explaining = {c for part in (own, *further) for c in _explaining(part, used)}
    bounds = {c for word in _BOUNDS for c in columns(own.extras.get(word, ""), used)}
    return tuple(name for name in used if name not in {own.response, *(bounds - explaining)})


def _censored(observed: Observed, written: str, source: Source) -> Observed:
    """The response as bounds: ``cens(c)``, or ``cens(c, y2)`` where intervals end."""
    words = [word for _, word in split(written, ",") if word]
    if not 0 < len(words) < 3:
        raise InputError(f"formula: cens() takes c, or c and y2, got {written!r}")
    given = [source.column(word) for word in words]
    return observed._replace(likelihood=Censored(observed.likelihood, *given))


def _truncated(observed: Observed, written: str, source: Source) -> Observed:
    """The response as there only within bounds: ``trunc(lower, upper)``, ``trunc(ub=upper)``."""
    ends, places = dict[str, Array](), ["lb", "ub"]
    words = split(f"-inf{written}" if written.startswith(",") else written, ",")
    for i, (_, word) in enumerate(words):
        name, equal, value = (part.strip() for part in word.rpartition("="))
        name = name if equal else (*places, "")[min(i, 2)]
        if value and (name not in places or name in ends):
            raise InputError(f"formula: trunc() takes lower and upper (lb=, ub=), got {written!r}")
        if value:
            ends[name] = np.asarray(source.column(value))
            if ends[name].dtype.kind not in "biuf":
                raise InputError(f"trunc({written}): {value} must hold numbers")
    if all(np.isinf(end).all() for end in ends.values()):
        raise InputError("formula: trunc() needs a bound, as in 'y | trunc(lb=0) ~ x'")
    low, high = ends.get("lb", -np.inf), ends.get("ub", np.inf)
    return observed._replace(likelihood=Truncated(observed.likelihood, low, high))


def _response(parts: Parts, source: Source) -> Any:
    """Values of the response, an array; categories in order as they are."""
    text = parts.response.strip("`")
    if text not in source.frame.columns:
        return source.evaluated(parts.response)
    values = source.frame[text]
    if values.dtype.name == "category":
        if values.cat.ordered or values.cat.categories.dtype.kind in "OUT":
            return values.array
        values = values.astype(object)
    array = np.asarray(values.infer_objects())
    return array.astype(str) if array.dtype.kind in "OUT" else array


def _shadowed(formula: str, namespace: Mapping[str, Any]) -> list[str]:
    """Functions of NumPy that hide others, which who wrote the formula may have meant."""
    return [
        f"{name}() is NumPy's; another function of that name is not used"
        for name, function in FUNCTIONS.items()
        if callable(own := namespace.get(name)) and own is not function
        if re.search(rf"(?<![\w.]){name}\s*\(", formula)
    ]


def _remarks(
    parts: Parts, terms: Sequence[Term], observed: Observed, frame: pd.DataFrame, *,
    separable: int = 100_000,
) -> Iterator[str]:  # fmt: skip
    """What a user should know of the data.

    ``separable``: entries of a design that is searched for perfect separation.
    """
    for written in parts.structured:
        along = written.arguments[0]
        if written.name == "rw2" and along not in columns(parts.common, frame.columns):
            yield (
                f"{written.call} bends but has no slope of its own: write + {along} too, unless "
                "there is none"
            )
    for factor in dict.fromkeys(term.factor for term in terms if isinstance(term, Groups)):
        sizes = keys(factor, frame).value_counts()
        if single := int((sizes == 1).sum()):
            yield f"{single} of {len(sizes)} groups of {factor} have one row of data"
    labels = observed.likelihood.name in FAMILIES["bernoulli"].links
    common = [term.design.columns() for term in terms if isinstance(term, Common)]
    X = common[0] if common else np.zeros((0, 0))
    if labels and 0 < X.size <= separable and _separable(observed.y[:, None] * X):
        yield (
            "the common effects separate the outcomes perfectly: their sizes are what the priors "
            "allow, and the evidence depends on these"
        )


def _separable(signed: Array) -> bool:
    """Whether one combination of columns has the sign of the outcome in every row."""
    p = signed.shape[1]
    ones = np.ones(len(signed))
    words = {"A_ub": -signed, "b_ub": -ones, "bounds": [(None, None)] * p, "method": "highs"}
    return bool(linprog(np.zeros(p), **words).status == 0)
