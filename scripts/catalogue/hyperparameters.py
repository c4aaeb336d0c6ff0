"""Random latent Gaussian models with free hyperparameters, by number, and their exact log Z.

Six kinds in turn: normal responses of groups, of groups with a slope, of two factors; Gaussian
processes of all structures, and autoregressive series; intercepts alone with free likelihoods;
intercepts of groups with other responses.
Scales span five orders of magnitude, priors match the data or do not. A truth is a cubature
(cubature.py) of closed forms and inner quadratures (marginals.py) over logs of hyperparameters;
its accuracy is what a finer one of all changes. A number whose first draw takes too many points,
or is not accurate, has its next one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

import evidence as ev

from . import marginals
from .cubature import log_integral

Array = np.ndarray
Rng = np.random.Generator

ACCURATE = 1e-3
"""The largest error of a truth."""
_STEPS, _TOLERANCES = (2.0, 1.4), (2e-4, 2e-5)  # cells of logs, and errors, of two cubatures
_WIDER = 1.5  # such cells in three dimensions
_BUDGETS = {2: 400_000, 3: 600_000}  # points of a cubature, by dimension
_TAIL = 1e-16  # of a prior, left out at both ends where data do not ask for it,
_REACH = 16.0  # which they do for logs as far as this from what suits them
_CHANGE = 5.0  # logs that a datum's density may change by within a cell
_COUNT = 400  # the largest count in data


@dataclass(frozen=True, eq=False)
class HyperCase:
    """A model whose hyperparameters have priors, and its log Z."""

    name: str
    kind: str
    model: Any
    truth: float
    accuracy: float
    rows: int
    priors: str
    """In words."""


class Problem(NamedTuple):
    """What a case is made of."""

    model: Callable[[], Any]
    priors: Mapping[str, Any]
    """Of free hyperparameters, in the order of the marginal's."""
    about: tuple[float, ...]
    """Where these would be if the data had their say."""
    marginal: Callable[[int], Callable[..., Array]]
    """log p(y | level, hyperparameters), without level where that is None; 1 is finer than 0."""
    rows: int
    level: tuple[float, float, float] | None = None
    """The prior's standard deviation of a level that is integrated numerically; where data are,
    and how well they know it."""
    common: str = ""
    """Priors of common effects, in words."""


def random_hyperparameters(number: int) -> HyperCase:
    """The case of a number, of the kind ``number % 6``."""
    kind = list(KINDS)[number % len(KINDS)]
    for attempt in itertools.count():
        rng = np.random.default_rng([number, attempt, 1618])
        problem = KINDS[kind](rng)
        if (found := truth(problem)) is None:
            continue
        words = [f"{name} {_in_words(prior)}" for name, prior in problem.priors.items()]
        words += [problem.common] * bool(problem.common)
        return HyperCase(
            f"{kind}, number {number}", kind, problem.model(), *found, problem.rows,
            "; ".join(words),
        )  # fmt: skip
    raise AssertionError


def truth(problem: Problem) -> tuple[float, float] | None:
    """log Z and its accuracy, or None where that is not good enough."""
    d = len(problem.priors) + (problem.level is not None)
    found = []
    for fine, (step, tolerance) in enumerate(zip(_STEPS, _TOLERANCES, strict=True)):
        wide = step * (_WIDER if d > 2 else 1.0)
        edges = [
            _logs(prior, about, wide)
            for prior, about in zip(problem.priors.values(), problem.about, strict=True)
        ]
        edges += [_levels(*problem.level, fine)] if problem.level is not None else []
        one = log_integral(
            joint(problem, fine),
            edges,
            _CHANGE * problem.rows,
            tolerance,
            _BUDGETS.get(d, 200_000),
        )
        if not one.error < ACCURATE:
            return None
        found.append(one.value)
    accuracy = abs(found[1] - found[0])
    return (found[1], max(accuracy, 1e-7)) if accuracy < ACCURATE else None


def joint(problem: Problem, fine: int) -> Callable[[Array], Array]:
    """log of prior times likelihood of logs of hyperparameters, and of a level if there is one."""
    marginal, priors = problem.marginal(fine), list(problem.priors.values())

    def log_density(x: Array) -> Array:
        logs = x[:, : len(priors)].T
        theta = np.exp(logs)
        total = sum(p.logpdf(v) + at for p, v, at in zip(priors, theta, logs, strict=True))
        if problem.level is None:
            return total + marginal(*theta)
        m, sd = x[:, -1], problem.level[0]
        total = total - 0.5 * (m / sd) ** 2 - np.log(sd) - 0.5 * marginals.LOG_2PI
        return total + marginal(m, *theta)

    return log_density


def _logs(prior: Any, about: float, step: float) -> Array:
    """Edges for the log of a hyperparameter."""
    low = min(np.log(prior.median() * _TAIL), np.log(about) - _REACH)
    high = max(np.log(prior.isf(_TAIL)), np.log(about) + _REACH)
    low, high = np.clip([low, high], *np.log(np.maximum(prior.support(), 1e-300)))
    return np.linspace(low, high, int(np.ceil((high - low) / step)) + 1)


def _levels(sd: float, at: float, width: float, fine: int) -> Array:
    """Edges that are dense about what data say, and about the prior's middle."""
    ratio = (3.0, 2.0)[fine]
    low, high = min(-12.0 * sd, at - 30.0 * width), max(12.0 * sd, at + 30.0 * width)
    reach = np.log((high - low) / width) / np.log(ratio)
    ladder = width * ratio ** np.arange(0.0, max(reach, 1.0))
    prior = sd * np.linspace(-12.0, 12.0, (13, 19)[fine])
    every = np.sort(np.concatenate([[low, high, at], at + ladder, at - ladder, prior]))
    every = every[(every >= low) & (every <= high)]
    return every[np.r_[True, np.diff(every) > 0.3 * width]]


# -- priors -------------------------------------------------------------------------------------


def _scale(rng: Rng, about: float) -> Any:
    """A prior of what is positive; half of those with a scale are where the data are."""
    scale = about * 10.0 ** (rng.uniform(-0.5, 0.5) if rng.random() < 0.5 else rng.uniform(-2, 2))
    scale = float(f"{scale:.3g}")
    return (
        stats.halfnorm(scale=scale), stats.expon(scale=scale), stats.halfcauchy(scale=25.0),
        stats.invgamma(0.4, scale=0.3), stats.uniform(0.0, 100.0), stats.lognorm(1.0),
        stats.gamma(2.0, scale=scale),
    )[rng.integers(7)]  # fmt: skip


def _sd(rng: Rng, matched: float) -> float:
    """The standard deviation of a common effect with a prior about zero."""
    return 1.0 if rng.random() < 0.5 else float(f"{matched * 10.0 ** rng.uniform(-0.3, 1.0):.3g}")


def _in_words(prior: Any) -> str:
    words = [f"{v:.3g}" for v in prior.args] + [f"{k}={v:.3g}" for k, v in prior.kwds.items()]
    return f"{prior.dist.name}({', '.join(words)})"


def _wide(rng: Rng, low: float = -3.0, high: float = 2.0) -> float:
    return float(10.0 ** rng.uniform(low, high))


def _formula(
    formula: str, data: dict[str, Any], priors: Mapping[str, Any], sds: Mapping[str, float],
    likelihood: Any = "gaussian", fixed: Mapping[str, float] | None = None,
) -> Callable[[], Any]:  # fmt: skip
    """A model of a formula; ``fixed`` hyperparameters are held at values."""
    common = {name: stats.norm(0.0, sd) for name, sd in sds.items()}

    def model() -> Any:
        made = ev.from_formula(
            formula, pd.DataFrame(data), likelihood=likelihood, priors=common | dict(priors)
        )
        if not fixed:
            return made
        return made.at(fixed).with_priors(priors, fixed=list(fixed))

    return model


def _norms(sds: Mapping[str, float]) -> str:
    return "; ".join(f"{name} norm(0, {sd:.3g})" for name, sd in sds.items())


# -- normal responses ---------------------------------------------------------------------------


def _effects(rng: Rng, g: Array, tau: float) -> Array:
    """Of groups; one of three models has a group that its prior does not expect."""
    b = tau * rng.standard_normal(g.max() + 1)
    if rng.random() < 1.0 / 3.0:
        b[rng.integers(b.size)] += tau * rng.choice([-1.0, 1.0]) * rng.uniform(6.0, 30.0)
    return b[g]


def _codes(rng: Rng, rows: int, groups: int) -> Array:
    """Every group has a row; sizes are even or not."""
    share = rng.dirichlet(np.full(groups, rng.choice([1.0, 100.0])))
    return np.concatenate([np.arange(groups), rng.choice(groups, rows - groups, p=share)])


def _groups(rng: Rng, slope: bool = False) -> Problem:
    rows = int(rng.integers(8, 61))
    g = _codes(rng, rows, int(rng.integers(3, min(12, rows // 2) + 1)))
    tau, s, unit = _wide(rng), _wide(rng), 10.0 ** rng.uniform(-2.0, 2.0)
    intercept = rng.standard_normal() * _wide(rng, -1.0, 1.0)
    y = intercept + _effects(rng, g, tau) + s * rng.standard_normal(rows)
    x = rng.standard_normal(rows) * _wide(rng, -1.0, 1.0)
    y = unit * (y + slope * x * rng.standard_normal() * _wide(rng, -1.0, 1.0))
    sds = {"Intercept": _sd(rng, unit * abs(intercept))}
    columns = np.ones((rows, 1))
    if slope:
        sds["x"] = _sd(rng, unit)
        columns = np.stack([columns[:, 0], x], axis=1)
    priors = {"sd(1|g)": _scale(rng, unit * tau), "likelihood__noise_std": _scale(rng, unit * s)}
    marginal = marginals.one_factor(y, columns, np.array(list(sds.values())), g)
    formula = "y ~ x + (1 | g)" if slope else "y ~ 1 + (1 | g)"
    model = _formula(formula, {"y": y, "x": x, "g": g}, priors, sds)
    return Problem(
        model, priors, (unit * tau, unit * s), lambda _: marginal, rows, common=_norms(sds)
    )


def _slopes(rng: Rng) -> Problem:
    return _groups(rng, slope=True)


def _factors(rng: Rng) -> Problem:
    rows, G = int(rng.integers(10, 26)), int(rng.integers(3, 5))
    g = _codes(rng, rows, G)
    if rng.random() < 0.5:
        h = _codes(rng, rows, int(rng.integers(2, 5)))[rng.permutation(rows)]
    else:  # one or two levels within each of the others
        h = np.unique(np.stack([g, rng.integers(0, 2, rows)]), axis=1, return_inverse=True)[
            1
        ].ravel()
    taus, s, unit = [_wide(rng), _wide(rng)], _wide(rng), 10.0 ** rng.uniform(-2.0, 2.0)
    intercept = rng.standard_normal() * _wide(rng, -1.0, 1.0)
    y = intercept + _effects(rng, g, taus[0]) + _effects(rng, h, taus[1])
    y = unit * (y + s * rng.standard_normal(rows))
    sds = {"Intercept": _sd(rng, unit * abs(intercept))}
    about = (unit * taus[0], unit * taus[1], unit * s)
    names = "sd(1|g)", "sd(1|h)", "likelihood__noise_std"
    priors = {name: _scale(rng, at) for name, at in zip(names, about, strict=True)}
    marginal = marginals.factors(y, sds["Intercept"], g, h)
    model = _formula("y ~ 1 + (1 | g) + (1 | h)", {"y": y, "g": g, "h": h}, priors, sds)
    return Problem(model, priors, about, lambda _: marginal, rows, common=_norms(sds))


def _series(rng: Rng) -> Problem:
    """A level and an autoregression, whose correlation is known, with noise."""
    rows, rho = int(rng.integers(8, 31)), float(rng.uniform(-0.9, 0.99))
    sigma, s, unit = _wide(rng, -2.0, 1.0), _wide(rng), 10.0 ** rng.uniform(-2.0, 2.0)
    intercept = rng.standard_normal() * _wide(rng, -1.0, 1.0)
    apart = np.abs(np.subtract.outer(np.arange(rows), np.arange(rows)))
    root = np.linalg.cholesky(rho**apart / (1.0 - rho**2))
    y = intercept + sigma * root @ rng.standard_normal(rows) + s * rng.standard_normal(rows)
    sds, about = {"Intercept": _sd(rng, unit * abs(intercept))}, (unit * sigma, unit * s)
    names = "ar1(t)__sigma", "likelihood__noise_std"
    priors = {name: _scale(rng, at) for name, at in zip(names, about, strict=True)}
    marginal = marginals.factors(unit * y, sds["Intercept"], root)
    data, fixed = {"y": unit * y, "t": np.arange(rows)}, {"ar1(t)__rho": rho}
    model = _formula("y ~ ar1(t)", data, priors, sds, fixed=fixed)
    common = f"{_norms(sds)}; rho = {rho:.3g}"
    return Problem(model, priors, about, lambda _: marginal, rows, common=common)


def _process(rng: Rng) -> Problem:
    if rng.random() < 0.25:
        return _series(rng)
    rows, nu = int(rng.integers(6, 41)), float(rng.choice([np.inf, 0.5, 1.5, 2.5]))
    x = np.sort(rng.uniform(0.0, 1.0, rows)) * _wide(rng, -1.0, 1.0)
    unit = 10.0 ** rng.uniform(-2.0, 2.0)
    names = ("k1__constant_value", "k2__length_scale", "likelihood__noise_std")
    values = np.array([unit**2, np.ptp(x) * _wide(rng, -1.5, 0.5), unit * _wide(rng, -2.5, 0.5)])
    apart = (x[:, None] - x) / values[1]
    K = values[0] * np.exp(-0.5 * apart**2) + (values[2] ** 2 + 1e-9 * values[0]) * np.eye(rows)
    y = np.linalg.cholesky(K) @ rng.standard_normal(rows)
    free = np.sort(rng.choice(3, int(rng.integers(1, 3)), replace=False))
    priors = {names[i]: _scale(rng, values[i]) for i in free}
    given = marginals.gaussian_process(x, y, nu)
    about = tuple(float(values[i]) for i in free)
    structure = str(rng.choice(["dense", "markov", "vecchia(m=40)"])) if nu < np.inf else "dense"

    def marginal(*theta: Array) -> Array:
        every: list[Any] = [np.full(theta[0].size, v) for v in values]
        for i, v in zip(free, theta, strict=True):
            every[i] = v
        return given(*every)

    def model() -> Any:
        start = values.copy()
        for i in free:
            if not np.isfinite(priors[names[i]].logpdf(start[i])):
                start[i] = priors[names[i]].median()
        base = RBF(start[1]) if nu == np.inf else Matern(start[1], nu=nu)
        noise = f"gaussian(noise_std={float(start[2])!r})"
        made = ev.GPModel(
            x, y, ConstantKernel(start[0]) * base, likelihood=noise,
            jitter=marginals.JITTER, structure=structure,
        )  # fmt: skip
        return made.with_priors(priors, fixed=[n for n in names if n not in priors])

    held = "; ".join(
        f"{n} = {v:.3g}" for n, v in zip(names, values, strict=True) if n not in priors
    )
    common = f"{held}; {structure}"
    return Problem(model, priors, about, lambda _: marginal, rows, common=common)


# -- other responses ----------------------------------------------------------------------------


def _intercept(rng: Rng) -> Problem:
    """``y ~ 1`` with free parameters of the likelihood."""
    rows, family = int(rng.integers(6, 41)), int(rng.integers(4))
    if family == 0:
        return _student(rng, rows)
    if family == 3:
        return _ordinal(rng, rows)
    b = rng.standard_normal() * _wide(rng, -1.0, 0.6)
    if family == 1:
        r = _wide(rng, -1.0, 2.0)
        y = np.minimum(rng.poisson(np.exp(min(b, 5.0)) * rng.gamma(r, 1.0 / r, rows)), _COUNT)
        name, own, likelihood = "dispersion", r, "negative_binomial"
        n, S = np.array([float(rows)]), np.array([float(y.sum())])

        def log_p(m: Array, r: Array) -> Array:
            counts = marginals.Counts("negative_binomial", n, S, r[:, None])
            return counts.value(m[:, None])[:, 0] + marginals.dispersed(y, r)

    else:
        shape = _wide(rng, -0.5, 3.0)
        y = np.exp(b) * rng.gamma(shape, 1.0 / shape, rows)
        name, own, likelihood = "shape", shape, "gamma"

        def log_p(m: Array, shape: Array) -> Array:
            return marginals.gamma(y, m, shape)

    mean = max(float(y.mean()), 0.5 / rows)
    width = np.sqrt((1.0 / own + (family == 1) / mean) / rows)
    sds = {"Intercept": _sd(rng, max(abs(b), 0.1))}
    priors = {f"likelihood__{name}": _scale(rng, own)}
    model = _formula("y ~ 1", {"y": y}, priors, sds, likelihood)
    level = (sds["Intercept"], float(np.log(mean)), float(width))
    return Problem(model, priors, (own,), lambda _: log_p, rows, level, _norms(sds))


def _student(rng: Rng, rows: int) -> Problem:
    df, unit = _wide(rng, 0.0, 2.0), _wide(rng, -2.0, 2.0)
    b = rng.standard_normal() * unit * _wide(rng, -1.0, 1.5)
    y = b + unit * rng.standard_t(df, rows)
    sds = {"Intercept": _sd(rng, abs(b))}
    priors = {"likelihood__df": _scale(rng, df), "likelihood__scale": _scale(rng, unit)}
    model = _formula("y ~ 1", {"y": y}, priors, sds, "student_t")
    level = (sds["Intercept"], float(np.median(y)), unit / np.sqrt(rows))
    return Problem(
        model, priors, (df, unit), lambda _: lambda m, df, s: marginals.student(y, m, df, s), rows,
        level, _norms(sds),
    )  # fmt: skip


def _ordinal(rng: Rng, rows: int) -> Problem:
    gaps = np.array([_wide(rng, -1.0, 0.7) for _ in range(rng.integers(1, 3))])
    b = rng.standard_normal() * _wide(rng, -1.0, 0.6) + gaps.sum() / 2.0
    y = np.digitize(b + rng.logistic(size=rows), np.r_[0.0, np.cumsum(gaps)])
    names = np.array(["a", "b", "c", "d"])[: gaps.size + 2]
    y[: gaps.size + 2] = np.arange(gaps.size + 2)  # no category without a datum
    sds = {"Intercept": _sd(rng, max(abs(b), 0.1))}
    priors = {f"likelihood__gap_{k + 1}": _scale(rng, gap) for k, gap in enumerate(gaps)}
    o = pd.Categorical(names[y], categories=names, ordered=True)
    model = _formula("o ~ 1", {"o": o}, priors, sds, "ordinal")
    level = (sds["Intercept"], float(b), 2.0 / np.sqrt(rows))
    return Problem(
        model, priors, tuple(gaps), lambda _: lambda m, *gaps: marginals.ordinal(y, m, *gaps),
        rows, level, _norms(sds),
    )  # fmt: skip


def _responses(rng: Rng) -> Problem:
    """Random intercepts of counts, of zeros and ones, or of numbers with outliers."""
    family = str(rng.choice(["poisson", "bernoulli", "negative_binomial", "student_t"]))
    if family == "student_t":
        return _outliers(rng)
    g = np.repeat(np.arange(n := rng.integers(5, 16)), rng.integers(2, 7, n))
    tau, b = _wide(rng, -2.0, 0.5), rng.standard_normal() * _wide(rng, -1.0, 0.4)
    eta = np.minimum(b + _effects(rng, g, tau), 5.0)
    sds = {"Intercept": _sd(rng, max(abs(b), 0.1))}
    priors, about = {"sd(1|g)": _scale(rng, tau)}, [tau]
    if family == "bernoulli":
        y = (rng.random(g.size) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
        at, known = b, 2.0 / np.sqrt(g.size)
    else:
        rate = np.exp(eta)
        if family == "negative_binomial":
            about.append(r := _wide(rng, -0.5, 2.0))
            priors["likelihood__dispersion"] = _scale(rng, r)
            rate = rate * rng.gamma(r, 1.0 / r, g.size)
        y = np.minimum(rng.poisson(rate), _COUNT)
        at, known = float(np.log(y.mean() + 0.5 / g.size)), 1.0 / np.sqrt(y.sum() + 1.0)
    model = _formula("y ~ 1 + (1 | g)", {"y": y, "g": g}, priors, sds, family)

    def marginal(fine: int) -> Callable[..., Array]:
        return marginals.count_groups(family, y, g, (20, 28)[fine])

    level = (sds["Intercept"], at, max(known, 0.1 * sds["Intercept"]))
    return Problem(model, priors, tuple(about), marginal, g.size, level, _norms(sds))


def _outliers(rng: Rng) -> Problem:
    """Student-t responses of a few small groups, with the degrees of freedom known."""
    g = np.repeat(np.arange(n := rng.integers(5, 8)), rng.integers(2, 5, n))
    df, tau, s = float(rng.choice([2.0, 3.0, 5.0])), _wide(rng, -2.0, 1.0), _wide(rng, -2.0, 1.0)
    unit = _wide(rng, -1.0, 1.0)
    b = rng.standard_normal() * _wide(rng, -1.0, 1.0)
    y = unit * (b + _effects(rng, g, tau) + s * rng.standard_t(df, g.size))
    about = (unit * tau, unit * s)
    sds = {"Intercept": _sd(rng, unit * abs(b))}
    priors = {"sd(1|g)": _scale(rng, about[0]), "likelihood__scale": _scale(rng, about[1])}
    model = _formula(
        "y ~ 1 + (1 | g)", {"y": y, "g": g}, priors, sds, "student_t", {"likelihood__df": df}
    )

    def marginal(fine: int) -> Callable[..., Array]:
        return marginals.student_groups(y, g, df, (4, 6)[fine])

    known = float(np.hypot(*about) / np.sqrt(n))
    level = (sds["Intercept"], float(np.median(y)), max(known, 0.02 * sds["Intercept"]))
    common = f"{_norms(sds)}; df = {df:g}"
    return Problem(model, priors, about, marginal, g.size, level, common)


KINDS: dict[str, Callable[[Rng], Problem]] = {
    "groups": _groups,
    "slopes": _slopes,
    "factors": _factors,
    "process": _process,
    "intercept": _intercept,
    "responses": _responses,
}
