r"""Families of regressions: what their responses may be, their likelihoods, and default priors.

Default priors are proper and scaled to the data, as rstanarm and Bambi have them. With s the scale
of the linear predictor (the standard deviation of y where the link is the identity, 1 else) and
m its middle (the mean of y through the link):

* slopes N(0, (2.5 s/sd(x))²); the predictor at the means of their columns N(m, (2.5 s)²), less
  the mean of the offset, which is the prior of the intercept: where x has its zero says nothing;
* standard deviations of effects: exponential with mean s/sd(x), which for random intercepts is
  P(σ > 3 s) = .05, a penalised-complexity prior (Simpson et al. 2017, Statistical Science 32);
* correlations: LKJ(1), uniform for a pair;
* noise: exponential with mean s; shapes, dispersions and precisions: inverse gamma(.4, .3), above
  1 for the log-logistic; shares of zeros and quantiles: uniform; degrees of freedom: gamma(2,
  mean 20).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ...execution.arguments import shown
from ...messages import InputError, suggest
from ...numerics.arrays import Array
from .. import likelihoods
from ..likelihoods.base import Likelihood
from ..likelihoods.softmax import Softmax

Distributions = Mapping[str, Any]
_SHAPE, _SHARE = stats.invgamma(0.4, scale=0.3), stats.beta(1.0, 1.0)


class Observed(NamedTuple):
    """The response as a likelihood takes it."""

    y: Array
    likelihood: Likelihood
    location: float
    """Where linear predictors are a priori."""
    scale: float
    """How far they reach."""
    priors: Distributions
    """Of the likelihood's parameters, by their names."""
    notes: tuple[str, ...] = ()
    levels: NDArray[Any] | None = None
    """The response's categories in order, as the data have them."""


class Family(NamedTuple):
    """A family: its links, the first by default, and how it sees a response."""

    links: tuple[str, ...]
    observe: Callable[[NDArray[Any], Array | None, str], Observed]
    trials: bool = False


def observe(
    values: NDArray[Any], trials: Array | None, likelihood: str | Likelihood, link: str | None
) -> Observed:
    """What a likelihood sees of a response, by the name of its family or as an object."""
    if isinstance(likelihood, Likelihood):
        if link is not None or trials is not None:
            raise InputError("link and trials() are for families by name, not for an object")
        y = numbers(values)
        binary = hasattr(likelihood, "probability") and 0.0 in y
        levels = np.array([0, 1]) if binary else None
        return Observed(y, likelihood, 0.0, 1.0, {}, levels=levels)
    name, own = family_name(likelihood)
    link = own if link is None else link
    family = FAMILIES[name]
    link = family.links[0] if link is None else link
    if not isinstance(link, str) or link not in family.links:
        known = ", ".join(family.links)
        raise InputError(f"link of {name} must be one of {known}, got {shown(link)}")
    if family.trials and trials is None:
        raise InputError(f"formula: a {name} response needs its trials, as in 'y | trials(n) ~ x'")
    if trials is not None and not family.trials:
        raise InputError(
            f"formula: trials() is for likelihood='binomial' or 'beta_binomial', not for {name!r}"
        )
    if trials is not None and not (np.all(trials >= 1.0) and np.all(trials % 1.0 == 0.0)):
        raise InputError(
            f"trials must be whole numbers 1, 2, …, got {trials.min():g} to {trials.max():g}"
        )
    return family.observe(values, trials, link)


def family_name(likelihood: str) -> tuple[str, str | None]:
    """The family that a word means, and its link where that is what the word says.

    >>> family_name("Student-t"), family_name("probit")
    (('student_t', None), ('bernoulli', 'probit'))
    """
    if not isinstance(likelihood, str):
        raise InputError(f"likelihood must be a name or a Likelihood, got {shown(likelihood)}")
    name = likelihood.strip().lower().replace("-", "_").replace(" ", "_")
    if name in FAMILIES["bernoulli"].links:
        return "bernoulli", name
    name = _MEANT.get(name, name)
    if name not in FAMILIES:
        raise InputError(
            f"likelihood: unknown family {shown(likelihood)}{suggest(name, FAMILIES)} Known: "
            f"{', '.join(FAMILIES)}, or an object of ev.likelihoods"
        )
    return name, None


def numbers(values: NDArray[Any]) -> Array:
    """A numeric response, or an error."""
    if values.dtype.kind not in "biuf":
        labels = " (two labels: is it likelihood='bernoulli'?)" * (len(set(values.tolist())) == 2)
        raise InputError(f"the response must hold numbers, got {shown(values[0])}, …{labels}")
    out = np.asarray(values, float)
    if not np.isfinite(out).all():
        bad = int((~np.isfinite(out)).sum())
        raise InputError(f"the response is infinite or not a number in {bad} rows")
    return out


def _levels(values: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Categories in order, and which of them each value is."""
    if hasattr(values, "categories"):  # of pandas, in an order of their own
        levels, codes = np.asarray(values.categories), values.codes
    else:
        levels, codes = np.unique(values, return_inverse=True)
    if levels.dtype.kind not in "biuf":
        return levels.astype(str), codes
    whole = levels.dtype.kind == "f" and np.all(levels % 1.0 == 0.0)  # where others are missing
    return levels.astype(int) if whole else levels, codes


def _log_mean(y: Array) -> float:
    mean = float(np.mean(y))
    return math.log(mean) if mean > 0.0 else 0.0


def _logit_mean(y: Array) -> float:
    mean = float(np.mean(y))
    return math.log(mean / (1.0 - mean)) if 0.0 < mean < 1.0 else 0.0


def _sd(y: Array, *, constant: float = 1e-9) -> float:
    """``constant``: standard deviation of numbers, relative to them, that is rounding."""
    sd = float(np.std(y))
    return sd if sd > constant * float(np.abs(y).max()) else 1.0


def _gaussian(values: NDArray[Any], trials: Array | None, link: str) -> Observed:
    y, notes = numbers(values), tuple[str, ...]()
    s = _sd(y)
    lik = likelihoods.Gaussian(noise_std=s)
    found = set(np.unique(y).tolist())
    if found in ({0.0, 1.0}, {-1.0, 1.0}):
        low = f"{min(found):g}"
        notes = (
            f"the response is {low} or 1 in every row, here a number with normal noise; for the "
            "probability of 1 say likelihood='bernoulli'",
        )
    return Observed(y, lik, float(y.mean()), s, {"noise_std": stats.expon(scale=s)}, notes)


def _student(values: NDArray[Any], trials: Array | None, link: str) -> Observed:
    y = numbers(values)
    s = _sd(y)
    priors = {"df": stats.gamma(2, scale=10.0), "scale": stats.expon(scale=s)}
    lik = likelihoods.StudentT(df=10.0, scale=0.7 * s)
    return Observed(y, lik, float(np.median(y)), s, priors)


def _bernoulli(values: NDArray[Any], trials: Array | None, link: str) -> Observed:
    (levels, codes), notes = _levels(values), tuple[str, ...]()
    if levels.size == 1:
        one = levels[0] not in (0, -1)
        note = f"the response is {levels[0]} in every row, which counts as {int(one)}"
        y = np.full(codes.size, 1.0 if one else -1.0)
        known = levels.dtype.kind == "b" or levels[0] in (0, 1)
        both = [0, 1] if known else [-1, 1] if levels[0] == -1 else [f"not {levels[0]}", levels[0]]
        return Observed(y, likelihoods.get(link), 0.0, 1.0, {}, (note,), np.array(both))
    if levels.size != 2:
        found = ", ".join(map(str, levels[:5].tolist()))
        raise InputError(
            f"the response must have at most two different values for likelihood='bernoulli', got "
            f"{levels.size}: {found}"
        )
    if levels.dtype.kind not in "biuf" or (set(levels.tolist()) - {0, 1} and levels[0] != -1):
        notes = (f"the response is 1 where it is {levels[1]}, 0 where it is {levels[0]}",)
    y = np.where(codes == 1, 1.0, -1.0)
    return Observed(y, likelihoods.get(link), 0.0, 1.0, {}, notes, levels)


def _binomial(values: NDArray[Any], trials: Array | None, link: str) -> Observed:
    return Observed(numbers(values), likelihoods.Binomial(n=_each(trials)), 0.0, 1.0, {})


def _beta_binomial(values: NDArray[Any], trials: Array | None, link: str) -> Observed:
    lik = likelihoods.BetaBinomial(n=_each(trials), phi=2.0)
    return Observed(numbers(values), lik, 0.0, 1.0, {"phi": _SHAPE})


def _each(trials: Array | None) -> float | tuple[float, ...]:
    assert trials is not None
    n = trials.tolist()
    return n[0] if len(set(n)) == 1 else tuple(n)


def _lognormal(values: NDArray[Any], trials: Array | None, link: str) -> Observed:
    y = numbers(values)
    log_y = np.log(np.where(y > 0.0, y, 1.0))
    s = _sd(log_y)
    priors = {"sigma": stats.expon(scale=s)}
    return Observed(y, likelihoods.LogNormal(sigma=s), float(log_y.mean()), s, priors)


def _asymmetric_laplace(values: NDArray[Any], trials: Array | None, link: str) -> Observed:
    y = numbers(values)
    s = _sd(y)
    priors = {"quantile": _SHARE, "sigma": stats.expon(scale=s)}
    lik = likelihoods.AsymmetricLaplace(quantile=0.5, sigma=0.3 * s)
    return Observed(y, lik, float(np.median(y)), s, priors)


def _simple(
    spec: str, priors: Distributions | None = None, middle: Callable[[Array], float] = _log_mean
) -> Callable[[NDArray[Any], Array | None, str], Observed]:
    """Of a likelihood whose predictor has the scale 1, and where it is a priori."""

    def observed(values: NDArray[Any], trials: Array | None, link: str) -> Observed:
        y = numbers(values)
        return Observed(y, likelihoods.get(spec), middle(y), 1.0, priors or {})

    return observed


def _ordinal(values: NDArray[Any], trials: Array | None, link: str, *, shown: int = 6) -> Observed:
    """``shown``: labels in a message."""
    levels, codes = _levels(values)
    if not getattr(values, "ordered", False):
        if values.dtype.kind not in "biuf":
            found = ", ".join(levels[:shown].tolist()) + (", …" if levels.size > shown else "")
            raise InputError(
                f"the response has labels in no order ({found}); say which for "
                "likelihood='ordinal', the lowest first: pd.Categorical(y, categories=['none', "
                "'some', …], ordered=True), or in the shell --levels none,some,…"
            )
        numbers(values)
    if levels.size < 2:
        raise InputError("the response must have at least two categories, got one")
    gap = stats.gamma(2, scale=2.0 / (levels.size - 1))
    words = ", ".join(map(str, levels.tolist()))
    gaps = (float(gap.mean()),) * (levels.size - 2)
    lik = likelihoods.get(f"ordinal(gaps={gaps})")
    priors = {f"gap_{i}": gap for i in range(1, levels.size - 1)}
    notes = (f"categories in order: {words}",)
    return Observed(codes.astype(float), lik, 0.0, 1.0, priors, notes, levels)


def _softmax(values: NDArray[Any], trials: Array | None, link: str) -> Observed:
    levels, codes = _levels(values)
    if levels.size < 3:
        raise InputError(
            f"likelihood='softmax' is for three or more categories, got {levels.size}: for two "
            "say likelihood='bernoulli'"
        )
    words = [str(level) for level in levels.tolist()]
    lik = Softmax(tuple(words), baseline=True)
    notes = (f"effects are on the log odds of {', '.join(words[1:])} against {words[0]}",)
    return Observed(codes.astype(float), lik, 0.0, 1.0, {}, notes, levels)


FAMILIES: dict[str, Family] = {
    "gaussian": Family(("identity",), _gaussian),
    "student_t": Family(("identity",), _student),
    "bernoulli": Family(("logit", "probit", "cloglog"), _bernoulli),
    "binomial": Family(("logit",), _binomial, trials=True),
    "poisson": Family(("log",), _simple("poisson")),
    "negative_binomial": Family(
        ("log",), _simple("negative_binomial(dispersion=2.0)", {"dispersion": _SHAPE})
    ),
    "gamma": Family(("log",), _simple("gamma(shape=2.0)", {"shape": _SHAPE})),
    "ordinal": Family(("logit",), _ordinal),
    "softmax": Family(("logit",), _softmax),
    "geometric": Family(("log",), _simple("geometric")),
    "zero_inflated_poisson": Family(("log",), _simple("zero_inflated_poisson", {"zi": _SHARE})),
    "zero_inflated_negative_binomial": Family(
        ("log",), _simple("zero_inflated_negative_binomial", {"shape": _SHAPE, "zi": _SHARE})
    ),
    "hurdle_poisson": Family(("log",), _simple("hurdle_poisson", {"hu": _SHARE})),
    "hurdle_negative_binomial": Family(
        ("log",), _simple("hurdle_negative_binomial", {"shape": _SHAPE, "hu": _SHARE})
    ),
    "beta": Family(("logit",), _simple("beta(phi=2.0)", {"phi": _SHAPE}, _logit_mean)),
    "beta_binomial": Family(("logit",), _beta_binomial, trials=True),
    "exponential": Family(("log",), _simple("exponential")),
    "lognormal": Family(("identity",), _lognormal),
    "weibull": Family(("log",), _simple("weibull", {"shape": _SHAPE})),
    "log_logistic": Family(
        ("log",), _simple("log_logistic", {"shape": stats.invgamma(0.4, loc=1.0, scale=0.3)})
    ),
    "asymmetric_laplace": Family(("identity",), _asymmetric_laplace),
}
_MEANT = {
    "normal": "gaussian", "t": "student_t", "negbinomial": "negative_binomial",
    "cumulative": "ordinal", "categorical": "softmax", "multinomial": "softmax",
    "zero_inflated_negbinomial": "zero_inflated_negative_binomial",
    "hurdle_negbinomial": "hurdle_negative_binomial", "betabinomial": "beta_binomial",
    "log_normal": "lognormal", "loglogistic": "log_logistic",
    "asym_laplace": "asymmetric_laplace", "logistic": "bernoulli",
}  # fmt: skip
