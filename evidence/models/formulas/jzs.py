r"""Default priors of standardised effects: Jeffreys, Zellner and Siow, as in BayesFactor.

With one variance g for every group of effects, in units of the noise,

.. math:: \beta \sim N(0, g \sigma^2 I),\qquad g \sim \mathrm{InvGamma}(1/2, r^2/2),\qquad
          p(\mu, \sigma^2) \propto 1/\sigma^2,

a Cauchy of scale r for a single standardised effect. Effects belong to orthonormal contrasts of a
factor that sum to zero, with a g for each term; to indicators of groups times these; or to
centred covariates, which share one g, as :math:`\beta \sim N(0, g \sigma^2 N (X^T X)^{-1})`.

A flat mean and Jeffreys' variance are in every model that is compared, and cancel. Other families
have no σ: the standard deviation that the information of one datum allows takes its place.

Rouder, Morey, Speckman and Province (2012), Default Bayes factors for ANOVA designs, Journal of
Mathematical Psychology 56, 356–374. Liang et al. (2008), Mixtures of g priors for Bayesian
variable selection, Journal of the American Statistical Association 103, 410–423.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import erfinv, ndtri

from ...execution.arguments import number, shown
from ...execution.lazy import pd
from ...messages import InputError, suggest
from ...numerics.arrays import Array
from ..likelihoods.quadrature import evaluate
from ..precisions import effects
from ..precisions.base import Precision
from ..priors import Priors
from .families import Observed
from .parse import Parts, compact, pieces
from .priors import OfSquare
from .structured import Term
from .terms import Common, Design, Groups, Source, check_independent

if TYPE_CHECKING:
    from .model import FormulaModel


@dataclass(frozen=True)
class Scales:
    """Scales r of the priors of standardised effects; made by :func:`jzs`."""

    fixed: float
    random: float
    covariates: float
    mean: float


def jzs(
    scale: str | float = "medium",
    *,
    fixed: str | float | None = None,
    random: str | float | None = None,
    covariates: str | float | None = None,
    mean: str | float | None = None,
) -> Scales:
    """Default priors of standardised effects, for ``priors=`` of formulas.

    They give the Bayes factors of R's BayesFactor. Those of ``priors="jzs"`` are medium. Formulas
    say which effects are random: ``(1 | g)``, and ``(a | g)`` for a factor's effects in every
    group besides, without correlations.

    Parameters
    ----------
    scale : {"medium", "wide", "ultrawide"} or float
        For all but random effects; a number is r itself.
    fixed : str or float, optional
        For factors: 1/2 is medium, wide √2 times and ultrawide twice as much.
    random : str or float, optional
        For effects of groups: 1 unless given.
    covariates : str or float, optional
        For regressions: √2/4 is medium.
    mean : str or float, optional
        For a mean that another formula of a comparison leaves out, ``"y ~ 1"`` against
        ``"y ~ 0"``, the t test of one sample or of differences: √2/2 is medium.

    Returns
    -------
    Scales
        The four numbers.

    Examples
    --------
    >>> import evidence as ev
    >>> ev.jzs("wide", random=0.5).fixed
    0.7071067811865476
    >>> data = {"y": [1.2, 0.8, 2.0, 2.9, 2.4, 3.5], "a": list("pppqqq")}
    >>> comparison = ev.compare(
    ...     ["y ~ a", "y ~ 1"], data, priors=ev.jzs("wide"), effort="frugal", random_seed=0,
    ...     progressbar=False,
    ... )
    >>> bool(2.0 < np.exp(-comparison.table.log_bayes_factor["y ~ 1"]) < 4.0)
    True
    """
    given = {"fixed": fixed, "random": 1.0 if random is None else random}
    given |= {"covariates": covariates, "mean": mean}
    return Scales(**{k: _scale(k, scale if v is None else v) for k, v in given.items()})


def _scale(kind: str, value: str | float) -> float:
    words = {"medium": 1.0, "wide": math.sqrt(2.0), "ultrawide": 2.0}
    medium = {"fixed": 0.5, "random": 0.5, "covariates": 0.125**0.5, "mean": 0.5**0.5}
    if isinstance(value, str):
        if value not in words:
            known = f"{', '.join(words)} or a number"
            raise InputError(f"{kind} must be {known}, got {shown(value)}{suggest(value, words)}")
        value = words[value] * medium[kind]
    return number(kind, value, above=0.0)


def scales_of(priors: object) -> Scales | None:
    """Those that a word, or :func:`jzs`, means; None for what is no such prior."""
    if isinstance(priors, str) and priors not in ("scaled", "jzs"):
        raise InputError(
            "priors must be 'scaled', 'jzs', ev.jzs(...) or map names to distributions, got "
            f"{shown(priors)}{suggest(priors, ('scaled', 'jzs'))}"
        )
    return priors if isinstance(priors, Scales) else jzs() if priors == "jzs" else None


class OfCauchy(OfSquare):
    """The prior of √g: r over the size of a standard normal number, whose quantiles are quick."""

    @property
    def of(self) -> str:
        r = math.sqrt(2.0 * self.kwds["scale"])
        return f"{super().of} (effects are Cauchy with r = {r:.3g})"

    def ppf(self, q: ArrayLike) -> Array:
        return math.sqrt(2.0 * self.kwds["scale"]) / -ndtri(0.5 * np.asarray(q))

    def isf(self, q: ArrayLike) -> Array:
        return math.sqrt(self.kwds["scale"]) / erfinv(q)


class InUnits(OfCauchy):
    """The same where effects are in units of the noise."""

    @property
    def of(self) -> str:
        return f"{super().of}, times sigma"


@dataclass(frozen=True, eq=False)
class Ratios(Priors):
    """Priors of standard deviations in units of the last hyperparameter, the noise, whose log is
    flat: they are not independent."""

    width: float = 0.0
    """Of the prior that stands for a flat mean, if there is one."""

    def _each(self, theta: Array) -> Iterator[Array]:
        scale = np.append(np.ones(len(self) - 1), 0.0) * theta[..., -1:]
        *ratios, flat = super()._each(theta - scale)
        yield from (*ratios, np.zeros_like(flat))

    def natural(self) -> list[Any] | None:
        """Of the ratios alone."""
        return list(self.distributions[:-1])

    def items(self) -> Iterator[tuple[str, Any]]:
        raise InputError(
            "priors='jzs' are of effects in units of sigma, all together: none of them can be "
            "changed, or held, by itself; choose other scales with ev.jzs(...)"
        )

    def describe(self) -> dict[str, str]:
        """Every prior in words."""
        return Priors(self.names, self.free, self.distributions, self.lows).describe()


@dataclass(frozen=True, eq=False)
class Coded:
    """Columns of standardised effects: those of a design, centred and turned."""

    owners = ()

    name: str
    design: Design
    covariate: bool
    middle: Array
    turn: Array

    @classmethod
    def of(cls, name: str, design: Design, covariate: bool, turn: Array) -> Coded:
        """Covariates become as those of N independent data of variance one."""
        middle = np.zeros(len(turn))
        if covariate:
            middle = design.columns().mean(axis=0)
            X = (design.columns() - middle) @ turn
            R = np.linalg.qr(X, mode="r")
            turn = turn @ np.linalg.inv(R) * np.sign(np.diag(R)) * math.sqrt(len(X))
        return cls(name, design, covariate, middle, turn)

    @property
    def names(self) -> list[str]:
        return [f"{self.name}[{i}]" for i in range(1, self.turn.shape[1] + 1)]

    def columns(self, data: pd.DataFrame | None = None) -> Array:
        """As :meth:`.Design.columns`."""
        return (self.design.columns(data) - self.middle) @ self.turn

    def check_alone(self) -> None:
        self.design.check_alone()


def _coded(text: str, source: Source) -> Iterator[Coded]:
    """Terms with factors one by one, then covariates together."""
    covariates = list[str]()
    for owner in dict.fromkeys(source.design(text).owners):
        if owner == "Intercept":
            continue
        spelt = pieces(owner, source.frame.columns)
        each = [(p, source.design(f"0 + {p}")) for p in spelt]
        factors = [own.categorical for _, own in each]
        if not any(factors):
            covariates.append(":".join(spelt))
            continue
        name = ":".join(p if own.categorical else f"center({p})" for p, own in each)
        turn: Array = np.eye(1)
        for _, own in each:
            k = len(own.names)
            # of categories contrasts, orthonormal, each of which sums to zero
            code = np.linalg.eigh(np.eye(k) - 1.0 / k)[1][:, 1:] if own.categorical else np.eye(k)
            turn = np.kron(turn, code).astype(float)
        design = source.design(f"0 + {name}")
        yield Coded.of(compact(owner), design, not all(factors), turn)
    if covariates:
        design = source.design(f"0 + {' + '.join(covariates)}")
        name = compact("+".join(covariates)).replace("`", "")
        yield Coded.of(name, design, True, np.eye(len(design.names)))


@dataclass(frozen=True, eq=False)
class Standardised(Common):
    """Effects that all data share, with one variance."""

    prior: OfSquare | None = None

    @classmethod
    def with_sd(cls, coded: Coded, start: float, prior: OfSquare) -> Standardised:
        """With a standard deviation that is free, about zero."""
        sd = np.full(len(coded.names), start)
        return cls(coded, np.zeros(sd.size), sd, f"norm(0, sd({coded.name}))", prior)  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        return self.design.name  # type: ignore[attr-defined]

    @property
    def precision(self) -> Precision:
        return effects(self.sd.size, (self.name,), self.sd[0])

    @property
    def slopes(self) -> tuple[list[str], Array]:
        """Names of effects of levels and of slopes, and what they are of the latent values."""
        assert isinstance(self.design, Coded)
        return [compact(name) for name in self.design.design.names], self.design.turn

    @property
    def priors(self) -> Mapping[str, Any]:
        return {f"sd({self.name})": self.prior}


@dataclass(frozen=True, eq=False)
class Alike(Groups):
    """Effects of groups with one variance."""

    effect: str
    prior: OfSquare

    @property
    def name(self) -> str:
        return f"{self.effect}|{self.factor}"

    @property
    def precision(self) -> Precision:
        return effects(len(self.levels) * len(self.correlated), (self.effect,), self.scales[0])

    @property
    def priors(self) -> Mapping[str, Any]:
        return {f"sd({self.effect})": self.prior}


def standardised(
    parts: Parts, design: Design, source: Source, observed: Observed, scales: Scales, flat: bool,
    *, flat_sd: float = 1e5, nowhere: float = 1e-6,
) -> list[Term]:  # fmt: skip
    """The terms of a formula; ``flat`` unless the mean is what is compared.

    ``flat_sd``: standard deviations of y that stand for a flat mean, by which log Z is off by
    1e-10; ``nowhere``: those that stand for a mean of zero.
    """
    gaussian = observed.likelihood.name == "gaussian"
    _check(parts, design, gaussian, flat)
    unit = observed.scale if gaussian else _unit_sd(observed, design.offset())

    def made(r: float) -> tuple[float, OfSquare]:
        """Where a standard deviation is searched from, and its prior."""
        own, kind = (r, InUnits) if gaussian else (r * unit, OfCauchy)
        return r * unit, kind(stats.invgamma(0.5, scale=0.5 * own**2))

    one, location = source.design("1"), observed.location - design.offset().mean()
    common = Common.of(one, location, observed.scale, {})
    if gaussian and flat:
        common = Common(one, common.mean, np.array([flat_sd * unit]), "flat")
    elif gaussian:
        common = Common(one, np.zeros(1), np.array([nowhere * unit]), "held at 0")
    terms: list[Term] = [common]
    if not flat and design.names:
        mean = Coded.of("Intercept", one, False, np.eye(1))
        return [Standardised.with_sd(mean, *made(scales.mean))]
    for coded in _coded(parts.common, source):
        r = scales.covariates if coded.covariate else scales.fixed
        terms.append(Standardised.with_sd(coded, *made(r)))
    sd, prior = made(scales.random)
    for bracket in parts.brackets:
        own = source.design(bracket.effects)
        every: list[tuple[str, Any]] = [("1", one)] * ("Intercept" in own.names)
        every += [(coded.name, coded) for coded in _coded(bracket.effects, source)]
        for name, factor, columns in [(n, f, c) for f in bracket.groups for n, c in every]:
            (g,) = Groups.of(bracket._replace(correlated=True), factor, columns, source.frame, 1.0)
            start = np.full(len(columns.names), sd)
            terms.append(Alike(columns, factor, g.levels, g.correlated, start, name, prior))
    return terms


def _unit_sd(observed: Observed, offset: Array, *, far: float = 8.0) -> float:
    """What the information of one datum about its linear predictor leaves, on average where all
    data have one mean.

    ``far``: scales of the predictor within which the mean of all data is.
    """
    kernel, theta = observed.likelihood.kernel, observed.likelihood.theta(observed.y)
    reach = far * observed.scale
    eta = minimize_scalar(
        lambda eta: -float(evaluate(kernel, theta, eta + offset, 1)[0].sum()),
        bounds=(observed.location - reach, observed.location + reach), method="bounded",
    ).x  # fmt: skip
    information = -float(evaluate(kernel, theta, eta + offset, 3)[2].mean())
    return max(information, math.exp(-far)) ** -0.5


def _check(parts: Parts, design: Design, gaussian: bool, flat: bool) -> None:
    """What has no standardised effects."""
    check_independent(design.columns(), design.names)
    alone = gaussian and not parts.brackets and not set(design.owners) - {"Intercept"}
    if not flat and not alone:
        raise InputError(
            "priors='jzs': effects are about a mean, which every formula needs; only y ~ 1 "
            f"against y ~ 0, the t test of one sample, goes without, got {parts.common!r}"
        )
    if parts.structured:
        call = parts.structured[0].call
        raise InputError(f"priors='jzs': {call} is not standardised; use priors='scaled'")


def standardise(model: FormulaModel) -> None:
    """Priors in units of the noise for a normal response, and notes."""
    own, note = model.priors, "priors='jzs': effects are in units of the sd of a datum, by its "
    note += "information about a mean that all data have"
    if model.likelihood.name == "gaussian":
        if own is None or len(own) < len(model.hyperparameters) or own.names[-1] != "sigma":
            raise InputError("priors='jzs': likelihood must be 'gaussian', its noise not given")
        each = (*own.distributions[:-1], "flat")
        width = sum(t.sd[0] for t in model.terms if isinstance(t, Common) and t.shown == "flat")
        model.priors = Ratios(own.names, own.free, each, own.lows, width)
        note = f"log Z is up to a constant ({model.measure}), and means something beside others"
    model.notes = (*model.notes, note)


def check_proper(name: str, model: object) -> None:
    """Nothing can be drawn from a prior without a finite mass."""
    if measure := getattr(model, "measure", ""):
        raise InputError(
            f"{name} has {measure}, priors of no finite mass, which nothing can be drawn from: "
            "make it with priors='scaled' or priors of your own"
        )


def check_measures(models: Mapping[str, Any]) -> None:
    """Evidences that are up to a constant are compared with those up to the same one alone."""
    kinds = {getattr(model, "measure", ""): name for name, model in models.items()}
    if len(kinds) > 1:
        told = "; ".join(f"{n} has {kind or 'proper priors'}" for kind, n in kinds.items())
        raise InputError(
            f"models have evidences up to different constants, which cannot be compared ({told}): "
            "give all of them priors of one kind, and formulas in one call, as in "
            "ev.compare(['y ~ 1', 'y ~ 0'], data, priors='jzs')"
        )
