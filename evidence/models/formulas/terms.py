r"""The terms of a formula: latent values with a prior each, and what a row of data sees of them.

A predictor is :math:`\eta_i = \sum_t A^{(t)}_i x^{(t)} + o_i` over terms t: common effects,
effects of groups, and structured terms (:mod:`.structured`). A term knows its rows for other data
too, so that predictions need nothing else.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array

from ...execution.arguments import shown
from ...execution.lazy import pd
from ...messages import InputError, suggest
from ...numerics.arrays import Array
from ..expressions import quoted, readable
from ..precisions import effects
from ..precisions.base import Precision
from ..precisions.scaled import independent, whitened
from .calls import FUNCTIONS, check_function
from .parse import LONGEST, Bracket, compact
from .priors import is_number

_DEPENDENT = 3e-7  # of a column's length that others leave unexplained: its square is lost in
# rounding; an x of sd 1 about 1e6 moved log Z by 4e-4, about 1e7 by 0.014, about 1e8 by 0.67
_SHOWN = 5


def named_term(predictor: str, name: str) -> str:
    """A term's name among those of all predictors, of which the first is not named."""
    return f"{predictor} ~ {name}" if predictor else name


def named_effect(predictor: str, name: str) -> str:
    """The same of an effect, or of a hyperparameter."""
    return f"{predictor}:{name}" if predictor else name


class Source(NamedTuple):
    """What formulas speak of: columns of a table, and what other names mean."""

    frame: pd.DataFrame
    namespace: Mapping[str, Any]

    def design(self, text: str) -> Design:
        """Columns that a formula makes."""
        return Design(text, self.frame, self.namespace)

    def column(self, text: str) -> NDArray[Any]:
        """A column as it is, or a number or an expression."""
        if text in self.frame.columns:
            return np.asarray(self.frame[text].to_numpy())
        return self.evaluated(text)

    def evaluated(self, text: str) -> Array:
        """A number, or an expression of columns."""
        try:
            return np.full(len(self.frame), float(text))
        except ValueError:
            values = self.design(f"0 + I({text})").columns()
        if values.shape[1] != 1:
            raise InputError(f"formula: {text!r} must be one column, got {values.shape[1]}")
        return values[:, 0]


class Design:
    """Columns that :mod:`formulae` makes of data; the same for other data later."""

    def __init__(self, text: str, data: pd.DataFrame, namespace: Mapping[str, Any]) -> None:
        try:
            from formulae import design_matrices
            from formulae.environment import Environment
        except ImportError:
            raise InputError(
                "formulas need the package formulae: pip install 'log-evidence[formulas]'"
            ) from None
        _check_levels(text, data)
        every = {"np": np, **namespace, **FUNCTIONS}
        own = {word: every[word] for word in set(re.findall(r"[^\W\d]\w*", text)) & set(every)}
        self.names: list[str] = []
        self.owners: list[str] = []
        self._offsets, self._kept = list[int](), np.zeros(0, int)
        self._rows = len(data)
        try:
            with readable("formula", text, LONGEST), np.errstate(all="ignore"), _quietly():
                _check_text(text, own)
                self._common = design_matrices(text, data, "error", env=Environment([own])).common
                if self._common is not None:
                    self.names = self._columns()
        except InputError:
            raise
        except Exception as error:  # whatever a user's own functions raise
            what = f"unknown name {error}" if isinstance(error, KeyError) else error
            if "unrecognized type" in str(error):
                kinds = {c: data.dtypes[c].name for c in data if data.dtypes[c].kind in "mMO"}
                what = f"columns are numbers, text or categories, got {shown(kinds)}"
            raise InputError(f"formula: {quoted(text)} cannot be evaluated: {what}") from error
        #: some rows, and what is made of them among all: to see whether others matter
        self._some: tuple[pd.DataFrame, Array] | None = None
        if self._common is not None:
            matrix = self._matrix(None)
            _check_finite(matrix, self.names)
            rows = np.unique([matrix.argmin(axis=0), matrix.argmax(axis=0)])
            self._some = data.iloc[rows], matrix[rows]

    def check_alone(self, most: int = 16) -> None:
        """Refuse new rows where what is made of one depends on those that it comes with: each of
        up to ``most`` rows, the smallest and the largest of every column, must be made alone as
        it was among all."""
        frame, matrix = self._some or (pd.DataFrame(), np.zeros((0, 0)))
        for i in range(min(len(frame), most)):
            other = np.ones(matrix.shape[1], bool)
            with suppress(InputError):
                alone = self._matrix(frame.iloc[[i]])[0]
                other = ~np.isclose(alone, matrix[i], rtol=1e-6, atol=1e-9)
            names = [name for name in self._common.terms if other[self._places(name)].any()]
            if names:
                raise InputError(
                    f"X_new: what {', '.join(names)} makes of a row depends on the rows beside it"
                    ", so nothing can be said of new ones; write I(b == 'yes') for binary(b), "
                    "center(x) for x - np.mean(x), or make the column beforehand"
                )
        self._some = None

    def _columns(self) -> list[str]:
        kinds = self._common.terms.items()
        names = self._common.as_dataframe().columns.tolist()
        self._offsets = [i for n, t in kinds if t.kind == "offset" for i in self._places(n)]
        self._kept = np.setdiff1d(np.arange(len(names)), self._offsets)
        self.owners = [n for n, _ in kinds for i in self._places(n) if i not in self._offsets]
        return [names[i] for i in self._kept]

    @property
    def categorical(self) -> bool:
        """Whether a design of one term is of a factor's levels."""
        return any(term.kind == "categoric" for term in self._common.terms.values())

    def _places(self, term: str) -> range:
        found = self._common.slices[term]
        return range(found.start, found.stop)

    def _matrix(self, data: pd.DataFrame | None) -> Array:
        rows = self._rows if data is None else len(data)
        if self._common is None:
            return np.zeros((rows, 0))
        try:
            with _quietly():
                made = self._common if data is None else self._common.evaluate_new_data(data)
            matrix = np.asarray(made.design_matrix)
            real = matrix if np.iscomplexobj(matrix) else matrix.astype(float)
        except Exception as error:
            what = f"no column {error}" if isinstance(error, KeyError) else error
            raise InputError(f"X_new: new data do not fit the formula: {what}") from error
        if real.dtype != float:
            raise InputError(f"data: a column of {', '.join(made.slices)} is complex, not real")
        return real.reshape(rows, -1)

    def columns(self, data: pd.DataFrame | None = None) -> Array:
        """The matrix, (N, p), without offsets."""
        return self._matrix(data)[:, self._kept]

    def offset(self, data: pd.DataFrame | None = None) -> Array:
        """What ``offset()`` adds to every row."""
        if not self._offsets:
            return np.zeros(self._rows if data is None else len(data))
        return self._matrix(data)[:, self._offsets].sum(axis=1)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what is said of later versions of formulae and pandas."""
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        yield


def _check_text(text: str, namespace: Mapping[str, Any]) -> None:
    """Functions must be there, and :mod:`formulae` must read the text to its end."""
    from formulae.categorical import ENCODINGS
    from formulae.parser import Parser
    from formulae.scanner import Scanner
    from formulae.transforms import TRANSFORMS

    if "^" in re.sub("`[^`]*`|'[^']*'|\"[^\"]*\"", "", text):
        raise InputError("formula: ^ is no power, as in Python; a square is I(x**2)")
    tokens = Scanner(text).scan()
    called, arithmetic = False, list[bool]()  # of open brackets, whether they are of calls
    for token, after in pairwise(tokens):
        if token.kind in ("LEFT_PAREN", "LEFT_BRACE"):
            arithmetic.append(called or token.kind == "LEFT_BRACE")
        elif token.kind in ("RIGHT_PAREN", "RIGHT_BRACE"):
            del arithmetic[-1:]
        called = token.kind == "IDENTIFIER" and after.kind == "LEFT_PAREN"
        if called:
            check_function(token.lexeme, {**namespace, **FUNCTIONS, **TRANSFORMS, **ENCODINGS})
        elif token.kind == "IDENTIFIER" and after.kind == "STAR_STAR" and not any(arithmetic):
            raise InputError(
                f"formula: {token.lexeme}** is the same term, as powers of terms are their "
                f"interactions; a square is I({token.lexeme}**2)"
            )
    parser = Parser(tokens)
    parser.parse()
    if not parser.at_end():  # what follows would be left out
        raise InputError(
            f"formula: {quoted(text)} cannot be read beyond {quoted(parser.previous().lexeme)}; "
            f"{quoted(parser.peek().lexeme)}, which comes then, needs an operator before it"
        )


@dataclass(frozen=True, eq=False)
class Common:
    r"""Effects that all data share: normal values with fixed standard deviations.

    They are independent, but for an intercept :math:`\\alpha` that is given no prior: what has one
    is :math:`\\alpha + \\bar x^T\\beta`, the predictor at the means of the other columns. Where a
    covariate has its zero then matters as little as its unit.
    """

    design: Design
    mean: Array
    sd: Array
    """Of independent values: slopes, and the intercept or the predictor at means."""
    shown: str = ""
    """What a table says of the prior where it is not the normal one that computing takes."""
    means: Array | None = field(default=None, kw_only=True)
    """Of columns, in the row of an intercept whose prior is of the predictor there."""
    of_predictor: str = field(default="", kw_only=True)

    @classmethod
    def of(
        cls, design: Design, location: float, scale: float, given: Mapping[str, Any],
        predictor: str = "", *, slopes: float = 2.5,
    ) -> Common:  # fmt: skip
        """With default priors, or those ``given``.

        ``slopes``: prior standard deviations of slopes, of standardised covariates.
        """
        X = design.columns()
        check_independent(X, design.names)
        spread, middle = _spread(X), X.mean(axis=0)
        sd = slopes * scale / np.where(spread > 0.0, spread, np.abs(middle))
        mean = np.zeros(len(sd))
        pairs = zip(design.names, design.owners, strict=True)
        own = [_normal(name, owner, given) for name, owner in pairs]
        for j, pair in enumerate(own):
            if pair is not None:
                mean[j], sd[j] = pair
        if "Intercept" in design.names:
            j = design.names.index("Intercept")
            if own[j] is None:
                sd[j] = slopes * scale
                mean[j] = location - design.offset().mean()
                mean[j] -= np.delete(middle, j) @ np.delete(mean, j)
                return cls(design, mean, sd, means=middle, of_predictor=predictor)
        return cls(design, mean, sd, of_predictor=predictor)

    @property
    def white(self) -> Array:
        """W, of which W(x - m) is of independent standard normal values."""
        rows = np.diag(1.0 / self.sd)
        if self.means is not None:
            j = self.design.names.index("Intercept")
            rows[j] = self.means / self.sd[j]
        return rows

    @property
    def name(self) -> str:
        return named_term(self.of_predictor, "common")

    @property
    def precision(self) -> Precision:
        return independent(self.sd) if self.means is None else whitened(self.white)

    @property
    def labels(self) -> list[str]:
        return [named_effect(self.of_predictor, name) for name in self.design.names]

    @property
    def described(self) -> list[str]:
        """The prior of every effect, for a table."""
        if self.shown:
            return [self.shown] * len(self.sd)
        pairs = zip(self.mean, self.sd, strict=True)
        texts = [f"norm({m:.4g}, {s:.4g})" for m, s in pairs]
        if self.means is not None and len(texts) > 1:
            j = self.design.names.index("Intercept")
            texts[j] = f"norm({self.means @ self.mean:.4g}, {self.sd[j]:.4g}) at means of others"
        return texts

    @property
    def words(self) -> list[str]:
        """What priors may be given for: effects, and terms that have several."""
        owners = [named_effect(self.of_predictor, owner) for owner in self.design.owners]
        return [*self.labels, *owners]

    @property
    def priors(self) -> Mapping[str, Any]:
        return {}

    def rows(self, data: pd.DataFrame) -> csr_array:
        return csr_array(self.design.columns(data))


@dataclass(frozen=True, eq=False)
class Groups:
    """Effects that differ between groups: ``(1 + x | g)``."""

    design: Design
    factor: str
    levels: pd.Index
    correlated: tuple[int, ...]
    """Which columns of the design these are: all, or one of them."""
    scales: Array
    of_predictor: str = field(default="", kw_only=True)

    @classmethod
    def of(
        cls, bracket: Bracket, factor: str, design: Design, data: pd.DataFrame, scale: float,
        predictor: str = "",
    ) -> list[Groups]:  # fmt: skip
        """One term, or one for each effect where they are independent."""
        values = keys(factor, data)
        levels = values.unique().sort_values()
        if len(levels) < 2:
            raise InputError(f"formula: {factor} has one level, {levels[0]}; drop it")
        X = design.columns()
        _check_nonzero(X, design.names)
        spread = _spread(X)
        scales = scale / np.where(spread > 0.0, spread, np.abs(X).mean(axis=0))
        every = tuple(range(len(design.names)))
        parts = [every] if bracket.correlated else [(j,) for j in every]
        pairs = ((part, scales[list(part)]) for part in parts)
        return [cls(design, factor, levels, p, own, of_predictor=predictor) for p, own in pairs]

    @property
    def _effects(self) -> list[str]:
        names = [compact(self.design.names[j]) for j in self.correlated]
        return ["1" if name == "Intercept" else name for name in names]

    @property
    def name(self) -> str:
        return named_term(self.of_predictor, f"{'+'.join(self._effects)}|{self.factor}")

    @property
    def precision(self) -> Precision:
        return effects(len(self.levels), self._effects, 0.5 * self.scales)

    @property
    def labels(self) -> list[str]:
        levels = [":".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in self.levels]
        names = [named_effect(self.of_predictor, name) for name in self._effects]
        return [f"{name}|{self.factor}[{level}]" for level in levels for name in names]

    @property
    def priors(self) -> Mapping[str, Any]:
        pairs = zip(self._effects, self.scales, strict=True)
        return {f"sd({name})": stats.expon(scale=scale) for name, scale in pairs}

    def rows(self, data: pd.DataFrame) -> csr_array:
        return self._at(places(self.factor, keys(self.factor, data), self.levels), data)

    def split(self, data: pd.DataFrame) -> tuple[csr_array, csr_array]:
        """What rows see of these groups; what those of new groups see, each as of the first."""
        codes = self.levels.get_indexer(keys(self.factor, data))
        new = (codes < 0)[:, None]
        rows = self._at(np.maximum(codes, 0), data)
        return csr_array(rows.multiply(~new)), csr_array(rows.multiply(new))

    def _at(self, codes: NDArray[np.intp], data: pd.DataFrame) -> csr_array:
        X, k = self.design.columns(data)[:, list(self.correlated)], len(self.correlated)
        columns = k * codes[:, None] + np.arange(k)
        entries = X.ravel(), columns.ravel(), k * np.arange(len(X) + 1)
        return csr_array(entries, shape=(len(X), k * len(self.levels)))


def keys(factor: str, data: pd.DataFrame) -> pd.Index:
    """The group of every row; ``a:b`` is made of two columns."""
    names = [name.strip("`") for name in factor.split(":")]
    for name in names:
        if name not in data.columns:
            raise InputError(
                f"data have no column {quoted(name)}{suggest(name, map(str, data.columns))} It is "
                f"the group of ( … | {factor})"
            )
    if len(names) == 1:
        column = data[names[0]]
        return pd.Index(column.astype(object) if column.dtype.name == "category" else column)
    return pd.MultiIndex.from_frame(data[names]).to_flat_index()


def places(what: str, values: pd.Index, levels: pd.Index) -> NDArray[np.intp]:
    """The position of every value among the levels, or an error that names what is new."""
    found = levels.get_indexer(values)
    if (found < 0).any():
        new = values[found < 0].unique()
        shown = ", ".join(map(str, new[:_SHOWN]))
        raise InputError(
            f"{what} has {len(new)} level(s) that the model was not made with: {shown}; make the "
            "model with data that have them, leave these rows out, or, for effects of groups, "
            "predict with new_groups='prior'"
        )
    return found


def _check_levels(text: str, data: pd.DataFrame) -> None:
    """Factors among common effects need two levels."""
    from .parse import columns

    for name in columns(text, data.columns):
        values = data[name]
        if values.dtype.kind in "OUSb" or values.dtype.name in ("category", "string", "str"):
            levels = values.unique()
            if len(levels) < 2:
                raise InputError(f"formula: {name} has one level, {levels[0]}; drop it")


def _normal(name: str, owner: str, given: Mapping[str, Any]) -> tuple[float, float] | None:
    """Mean and standard deviation of the prior ``given`` for a column or its term."""
    key = next((k for k in (compact(name), compact(owner)) if k in given), None)
    if key is None:
        return None
    prior = given[key]
    if is_number(prior):
        raise InputError(
            f"priors[{shown(key)}] must be normal, such as scipy.stats.norm(0, 2), got "
            f"{shown(prior)}: numbers hold hyperparameters; a common effect is held by an offset "
            f"in its place, offset({shown(prior)} * x)"
        )
    if getattr(getattr(prior, "dist", None), "name", "") != "norm":
        raise InputError(
            f"priors[{shown(key)}] must be normal, such as scipy.stats.norm(0, 2), got "
            f"{shown(prior)}: "
            "common effects are latent values of a Gaussian model; a flat one has no evidence"
        )
    mean, sd = np.asarray(prior.mean(), float), np.asarray(prior.std(), float)
    if mean.shape or not (np.isfinite(mean) and 0.0 < sd < np.inf):
        raise InputError(
            f"priors[{shown(key)}] must have one finite mean and one positive standard "
            f"deviation, got norm{prior.args or prior.kwds}"
        )
    return float(mean), float(sd)


def _spread(X: Array) -> Array:
    """Standard deviations of columns; zero where these are constant but for rounding."""
    sd = X.std(axis=0)
    return np.where(sd > _DEPENDENT * np.abs(X).max(axis=0, initial=0.0), sd, 0.0)


def _check_finite(X: Array, names: list[str]) -> None:
    bad = ~np.isfinite(X)
    if bad.any():
        rows, j = int(bad.any(axis=1).sum()), int(bad.any(axis=0).argmax())
        name = names[j] if X.shape[1] == len(names) else "a term"
        raise InputError(f"formula: {name} is infinite or not a number in {rows} rows")


def _check_nonzero(X: Array, names: list[str]) -> None:
    zero = ~X.any(axis=0)
    if zero.any():
        raise InputError(f"formula: {names[int(zero.argmax())]} is zero in every row; drop it")


def check_independent(X: Array, names: list[str]) -> None:
    """Refuse columns that are linear combinations of those before them."""
    if not X.size:
        return
    _check_nonzero(X, names)
    size = np.linalg.norm(X, axis=0)
    r = np.abs(np.diag(np.linalg.qr(X / size, mode="r")))
    lost = [n for n, d in zip(names[: r.size], r, strict=True) if d < _DEPENDENT] + names[r.size :]
    if lost:
        n, p = X.shape
        why = f"{p} of them in {n} row{'s' * (n > 1)} of data" if n < p else "they are collinear"
        raise InputError(
            f"formula: {', '.join(lost[:_SHOWN])} can be written by the other columns ({why}): "
            "drop them, take center(x), or make them effects of groups, (1 | …)"
        )
