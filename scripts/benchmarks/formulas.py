"""Mixed models from formulas, hyperparameters integrated out, against quadrature without them.

    python -m scripts.benchmarks.formulas --problems poisson ordinal --seeds 20

A line for each problem and seed: log Z and its standard error, the truth, z = (log Z - truth)/se,
and the seconds. Data are small and fixed; seeds are those of the estimates. At the end the root
mean square of z over all of them, near 1 where error bars are right.

Truths are computed here from data and densities of SciPy, not by the package. Hyperparameters:
Gauss-Legendre in the quantiles of their priors, over the part that matters. What groups share
(common effects, the levels of a second factor): Gauss-Hermite about its mode at these
hyperparameters. Effects of a group, given all that: the same about their own mode; for Student's
t, whose modes are several, a fine grid. Gaussian responses need only hyperparameters. Every truth
is computed with two orders, and ``error`` is their difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.legendre import leggauss
from scipy import stats
from scipy.special import gammaln, log_expit, logsumexp

import evidence as ev
from scripts import laboratory

NAME = "formulas"
GROUPS, ROWS = 5, 5
NEGLIGIBLE = 16.0  # log units below the largest
ORDERS = {1: (30, 40), 2: (16, 22), 3: (10, 13)}  # by number of hyperparameters
QUICK = ("gaussian", "student_t")
QUICK_ORDERS = {2: (40, 56), 3: (16, 20), 4: (16, 20)}
DIFFERENCE = 1e-3  # in predictors, for derivatives that only place the nodes


class Grouped(NamedTuple):
    """Effects of the levels of a factor, on columns of the data."""

    factor: str
    columns: tuple[str, ...] = ("1",)
    squares: bool = False
    """Whether its first priors are of variances."""


class Problem(NamedTuple):
    formula: str
    likelihood: str
    columns: tuple[str, ...]
    """Of the common effects, with priors N(0, SPREAD²)."""
    terms: tuple[Grouped, ...]
    """The first is the one whose groups are integrated one by one."""
    free: dict[str, Any]
    """Priors of hyperparameters: of the terms in order, then of the likelihood."""
    offset: bool = False
    link: str | None = None


SPREAD = 1.5
SD, NOISE = stats.expon(scale=0.8), stats.expon(scale=1.0)
COR, SHAPE = stats.uniform(-1.0, 2.0), stats.gamma(2.0, scale=1.5)

PROBLEMS = {
    "gaussian": Problem(
        "y ~ 1 + x + (1 | g)", "gaussian", ("1", "x"), (Grouped("g"),),
        {"sd(1|g)": SD, "noise_std": NOISE},
    ),
    "gaussian-slopes": Problem(
        "y ~ 1 + x + (1 + x | g)", "gaussian", ("1", "x"), (Grouped("g", ("1", "x")),),
        {"sd(1|g)": SD, "sd(x|g)": SD, "cor(g)": COR, "noise_std": NOISE},
    ),
    "gaussian-crossed": Problem(
        "y ~ 1 + (1 | g) + (1 | h)", "gaussian", ("1",), (Grouped("g"), Grouped("h")),
        {"sd(1|g)": SD, "sd(1|h)": SD, "noise_std": NOISE},
    ),
    "student": Problem(
        "y ~ 1 + (1 | g)", "student_t", ("1",), (Grouped("g"),),
        {"sd(1|g)": SD, "df": stats.gamma(2.0, scale=4.0), "scale": NOISE},
    ),
    "logit": Problem(
        "b ~ x + (1 | g)", "bernoulli", ("1", "x"), (Grouped("g"),), {"sd(1|g)": SD}
    ),
    "probit-slopes": Problem(
        "b ~ 1 + (1 + x | g)", "bernoulli", ("1",), (Grouped("g", ("1", "x")),),
        {"sd(1|g)": SD, "sd(x|g)": SD, "cor(g)": COR}, link="probit",
    ),
    "binomial": Problem(
        "s | trials(n) ~ x + (1 | g)", "binomial", ("1", "x"), (Grouped("g", squares=True),),
        {"var(1|g)": stats.betaprime(1.0, 1.0)},
    ),
    "poisson": Problem(
        "k ~ x + offset(log(e)) + (1 | g)", "poisson", ("1", "x"), (Grouped("g"),),
        {"sd(1|g)": SD}, offset=True,
    ),
    "poisson-crossed": Problem(
        "k ~ 1 + (1 | g) + (1 | h)", "poisson", ("1",), (Grouped("g"), Grouped("h")),
        {"sd(1|g)": SD, "sd(1|h)": SD},
    ),
    "no-common-effects": Problem(
        "k ~ 0 + (1 + x | g)", "poisson", (), (Grouped("g", ("1", "x")),),
        {"sd(1|g)": SD, "sd(x|g)": SD, "cor(g)": COR},
    ),
    "negative-binomial": Problem(
        "k ~ 1 + (1 | g)", "negative_binomial", ("1",), (Grouped("g"),),
        {"sd(1|g)": SD, "dispersion": SHAPE},
    ),
    "gamma": Problem(
        "e ~ x + (1 | g)", "gamma", ("1", "x"), (Grouped("g"),), {"sd(1|g)": SD, "shape": SHAPE}
    ),
    "ordinal": Problem(
        "o ~ x + (1 | g)", "ordinal", ("1", "x"), (Grouped("g"),),
        {"sd(1|g)": SD, "gap_1": stats.gamma(2.0, scale=0.7)},
    ),
}  # fmt: skip
CHEAP = ("gaussian", "logit", "binomial", "poisson")


def table() -> pd.DataFrame:
    """The data of all problems."""
    rng = np.random.default_rng(12)
    g, h = np.repeat(np.arange(GROUPS), ROWS), np.tile([0, 1], GROUPS * ROWS)[: GROUPS * ROWS]
    x, b, c = rng.normal(size=g.size), rng.normal(0.0, 0.7, GROUPS), rng.normal(0.0, 0.6, GROUPS)
    eta = 0.3 + 0.5 * x + b[g] + c[g] * x + np.array([-0.3, 0.4])[h]
    exposure = rng.gamma(3.0, 0.5 * np.exp(0.3 * eta))
    category = np.digitize(eta + rng.logistic(size=g.size), [0.0, 1.3])
    return pd.DataFrame(
        {
            "x": x,
            "g": np.array(list("abcde"))[g],
            "h": h,
            "y": eta + 0.6 * rng.standard_t(5, g.size),
            "b": (rng.random(g.size) < 1.0 / (1.0 + np.exp(-eta))).astype(int),
            "k": rng.poisson(np.exp(eta)),
            "n": rng.integers(1, 7, g.size),
            "e": exposure,
            "o": pd.Categorical(np.array(["low", "mid", "top"])[category],
                                categories=["low", "mid", "top"], ordered=True),
        }
    ).assign(s=lambda d: rng.binomial(d.n, 1.0 / (1.0 + np.exp(-eta))))  # fmt: skip


def model(problem: Problem, data: pd.DataFrame) -> ev.FormulaModel:
    common = {"Intercept" if c == "1" else c: stats.norm(0.0, SPREAD) for c in problem.columns}
    return ev.from_formula(
        problem.formula, data, likelihood=problem.likelihood, link=problem.link,
        priors=common | problem.free,
    )  # fmt: skip


# -- densities, by SciPy ------------------------------------------------------------------------

LogDensity = Callable[[Any], np.ndarray]


def log_density(problem: Problem, data: pd.DataFrame, own: list[Any]) -> LogDensity:
    """log p of all responses, as a function of their predictors; ``own`` parameters."""
    name = problem.link or problem.likelihood
    if name == "student_t":
        df, scale = own
        peak = gammaln((df + 1.0) / 2.0) - gammaln(df / 2.0) - np.log(scale * np.sqrt(np.pi * df))
        y = data.y.to_numpy()
        return lambda eta: peak - (df + 1.0) / 2.0 * np.log1p((y - eta) ** 2 / (df * scale**2))
    if name in ("bernoulli", "probit"):
        sign = 2.0 * data.b.to_numpy() - 1.0
        return lambda eta: (log_expit if name == "bernoulli" else stats.norm.logcdf)(sign * eta)
    if name == "binomial":
        n, s = data.n.to_numpy(), data.s.to_numpy()
        count = stats.binom.logpmf(s, n, 0.5) + n * np.log(2.0)
        return lambda eta: count + s * log_expit(eta) + (n - s) * log_expit(-eta)
    k = data.k.to_numpy()
    if name == "poisson":
        constant = stats.poisson.logpmf(k, 1.0) + 1.0
        return lambda eta: constant + k * eta - np.exp(eta)
    if name == "negative_binomial":
        return lambda eta: stats.nbinom.logpmf(k, own[0], own[0] / (own[0] + np.exp(eta)))
    if name == "gamma":
        e = data.e.to_numpy()
        return lambda eta: stats.gamma.logpdf(e, own[0], scale=np.exp(eta) / own[0])
    o = data.o.cat.codes.to_numpy()

    def ordered(eta: Any) -> np.ndarray:
        low, high = -eta, own[0] - eta
        inside = log_expit(high) + log_expit(-low) + np.log1p(-np.exp(low - high))
        return np.where(o == 0, log_expit(low), np.where(o == 1, inside, log_expit(-high)))

    return ordered


# -- nested quadrature --------------------------------------------------------------------------


def roots(term: Grouped, values: list[np.ndarray]) -> np.ndarray:
    """Lower roots of the covariance of a level's effects, (T, d, d)."""
    sd = [np.sqrt(v) if term.squares else v for v in values[: len(term.columns)]]
    L = np.zeros((sd[0].size, len(sd), len(sd)))
    L[:, 0, 0] = sd[0]
    if len(sd) == 2:
        L[:, 1, 0], L[:, 1, 1] = sd[1] * values[2], sd[1] * np.sqrt(1.0 - values[2] ** 2)
    return L


def columns(names: tuple[str, ...], data: pd.DataFrame) -> np.ndarray:
    every = [np.ones(len(data)) if name == "1" else data[name].to_numpy() for name in names]
    return np.stack(every, axis=-1) if every else np.zeros((len(data), 0))


def designs(
    problem: Problem, data: pd.DataFrame, theta: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What predictors see of standard normal effects: common ones, then levels of each term."""
    X, T = columns(problem.columns, data), theta[0].size
    common = np.broadcast_to(SPREAD * X, (T, *X.shape))
    seen, at = [], 0
    for term in problem.terms:
        d = len(term.columns)
        each = columns(term.columns, data) @ roots(term, theta[at:])
        levels, code = np.unique(data[term.factor], return_inverse=True)
        wide = np.zeros((T, len(data), levels.size, d))
        wide[:, np.arange(len(data)), code] = each
        seen.append(wide.reshape(T, len(data), -1))
        at += d * (d + 1) // 2
    return [common, *seen], theta[at:]


def mode(log_p: LogDensity, M: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of z with log p(eta + M z) - z²/2, by Newton's method, and its covariance there."""
    z = np.zeros((*np.broadcast_shapes(M.shape[:-2], eta.shape[:-1]), M.shape[-1]))
    unit = np.eye(M.shape[-1])
    for _ in range(12):
        at = eta + np.einsum("...nd,...d->...n", M, z)
        up, middle, down = (log_p(at + s * DIFFERENCE) for s in (1.0, 0.0, -1.0))
        slope, bend = (up - down) / (2.0 * DIFFERENCE), (up - 2.0 * middle + down) / DIFFERENCE**2
        H = unit + np.einsum("...nd,...n,...ne->...de", M, np.maximum(-bend, 0.0), M)
        g = np.einsum("...nd,...n->...d", M, slope) - z
        step = np.linalg.solve(H, g[..., None])[..., 0]
        z = z + step / np.maximum(1.0, np.abs(step).max(axis=-1, keepdims=True))
    return z, np.linalg.inv(H)


def hermite(d: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (S, d), and logs of weights over the standard normal density."""
    t, w = hermegauss(order)
    grid = np.stack(np.meshgrid(*[t] * d, indexing="ij"), axis=-1).reshape(-1, d)
    logs = np.stack(np.meshgrid(*[np.log(w / w.sum())] * d, indexing="ij"), axis=-1)
    return grid, logs.reshape(-1, d).sum(axis=1) + 0.5 * (grid**2).sum(axis=1)


def about(z: np.ndarray, cov: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (..., S, d) about a mode, and logs of their weights with the standard normal."""
    grid, logs = hermite(z.shape[-1], order)
    C = np.linalg.cholesky(cov)
    nodes = z[..., None, :] + np.einsum("...de,se->...sd", C, grid)
    size = np.log(np.diagonal(C, axis1=-2, axis2=-1)).sum(axis=-1)
    return nodes, logs + size[..., None] - 0.5 * (nodes**2).sum(axis=-1)


def at_theta(problem: Problem, data: pd.DataFrame, theta: list[np.ndarray], fine: int) -> Any:
    """log p(y | θ) for a batch of hyperparameters, each (T,)."""
    (common, groups, *others), own = designs(problem, data, theta)
    offset = np.log(data.e.to_numpy()) if problem.offset else np.zeros(len(data))
    if problem.likelihood == "gaussian":
        every = np.concatenate([common, groups, *others], axis=-1)
        K = every @ every.mT + (own[0] ** 2)[:, None, None] * np.eye(len(data))
        y = np.broadcast_to(data.y.to_numpy()[:, None], (len(K), len(data), 1))
        square = (y.mT @ np.linalg.solve(K, y))[:, 0, 0]
        return -0.5 * (square + np.linalg.slogdet(K)[1] + len(data) * np.log(2.0 * np.pi))
    if problem.likelihood == "student_t":
        return on_grid(problem, data, theta, fine)
    shared = np.concatenate([common, *others], axis=-1)
    order = {0: 1, 1: 11, 2: 9, 3: 7}[shared.shape[-1]] + 3 * fine
    log_p = log_density(problem, data, [o[:, None] for o in own])
    d = shared.shape[-1]
    if d:
        z, cov = mode(log_p, np.concatenate([shared, groups], axis=-1), offset)
        nodes, total = about(z[:, :d], cov[:, :d, :d], order)
    else:
        nodes, total = np.zeros((len(common), 1, 0)), np.zeros((len(common), 1))
    eta = offset + np.einsum("tnd,tsd->tsn", shared, nodes)
    k = len(problem.terms[0].columns)
    for i, level in enumerate(np.unique(data[problem.terms[0].factor])):
        rows = (data[problem.terms[0].factor] == level).to_numpy()
        log_p = log_density(problem, data[rows], [o[:, None, None] for o in own])
        M = groups[:, None, rows, k * i : k * (i + 1)]
        z, cov = mode(log_p, M, eta[..., rows])
        inner, logs = about(z, cov, {1: 15, 2: 9}[k] + 4 * fine)
        seen = eta[..., None, rows] + np.einsum("tund,tsjd->tsjn", M, inner)
        log_p = log_density(problem, data[rows], [o[:, None, None, None] for o in own])
        total = total + logsumexp(logs + log_p(seen).sum(axis=-1), axis=-1)
    return logsumexp(total, axis=-1)


def on_grid(problem: Problem, data: pd.DataFrame, theta: list[np.ndarray], fine: int) -> Any:
    """The same for one intercept and levels of groups, whatever the modes."""
    sd, *own = theta
    level = np.linspace(-5.0, 5.0, (61, 81)[fine])
    z = np.linspace(-6.5, 6.5, (81, 111)[fine])
    eta = SPREAD * level[:, None] + sd[:, None, None] * z
    total = np.broadcast_to(normal(level), (sd.size, level.size))
    for g in np.unique(data.g):
        rows = data[data.g == g]
        log_p = log_density(problem, rows, [o[:, None, None, None] for o in own])
        total = total + logsumexp(normal(z) + log_p(eta[..., None]).sum(axis=-1), axis=-1)
    return logsumexp(total, axis=-1)


def normal(z: np.ndarray) -> np.ndarray:
    """Logs of weights of equal steps under the standard normal density."""
    return stats.norm.logpdf(z) + np.log(z[1] - z[0])


def truth(problem: Problem, data: pd.DataFrame) -> tuple[float, float]:
    """log Z, and the difference between two orders of quadrature."""
    priors = list(problem.free.values())
    P = len(priors)
    scan = over_theta(problem, data, [(0.0, 1.0)] * P, 10, 0)
    nodes = (leggauss(10)[0] + 1.0) / 2.0
    ranges = []
    for p in range(P):
        profile = scan.max(axis=tuple(q for q in range(P) if q != p))
        inside = np.flatnonzero(profile > scan.max() - NEGLIGIBLE)
        low, high = max(inside[0] - 1, -1), inside[-1] + 1
        ranges.append((0.0 if low < 0 else nodes[low], 1.0 if high > 9 else nodes[high]))
    orders = (QUICK_ORDERS if problem.likelihood in QUICK else ORDERS)[P]
    both = [logsumexp(over_theta(problem, data, ranges, orders[i], i)) for i in (0, 1)]
    return float(both[1]), float(abs(both[1] - both[0]))


def over_theta(
    problem: Problem, data: pd.DataFrame, ranges: list[tuple[float, float]], order: int, fine: int
) -> np.ndarray:
    """log of weight times p(y | θ) on a grid over quantiles of priors, (order, …)."""
    t, w = leggauss(order)
    u = [low + (high - low) * (t + 1.0) / 2.0 for low, high in ranges]
    axes = [prior.ppf(q) for prior, q in zip(problem.free.values(), u, strict=True)]
    logs = [np.log((high - low) * w / 2.0) for low, high in ranges]
    grid = [v.ravel() for v in np.meshgrid(*axes, indexing="ij")]
    weight = sum(np.meshgrid(*logs, indexing="ij"))
    each = 4000 if problem.likelihood == "gaussian" else 40
    parts = [[v[i : i + each] for v in grid] for i in range(0, grid[0].size, each)]
    value = np.concatenate([at_theta(problem, data, part, fine) for part in parts])
    return weight + value.reshape(weight.shape)


def measure(name: str, seed: int, data: pd.DataFrame, exact: float) -> dict[str, Any]:
    started = time.perf_counter()
    result = ev.log_evidence(
        model(PROBLEMS[name], data), target_se=0.02, random_seed=seed, progressbar=False
    )
    return {
        "problem": name,
        "seed": seed,
        "logz": result.logz,
        "logz_se": result.logz_se,
        "truth": exact,
        "z": (result.logz - exact) / result.logz_se,
        "seconds": time.perf_counter() - started,
        "warnings": len(result.warnings),
    }


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=None)
    parser.add_argument("--seeds", type=int, default=20, help="how many, from 0 on")
    parser.add_argument("--first", type=int, default=0, help="the first of the seeds")
    options = parser.parse_args()
    names = options.problems or (CHEAP[:1] if options.fast else list(PROBLEMS))
    seeds = range(options.first, options.first + (1 if options.fast else options.seeds))
    data, rows = table(), []
    for name in names:
        exact, error = truth(PROBLEMS[name], data)
        print(f"{name:18s} truth {exact:11.6f}, error {error:.1e}", flush=True)
        for seed in seeds:
            row = measure(name, seed, data, exact)
            print(
                "{problem:18s} {seed:3d} {logz:11.4f} ± {logz_se:.4f}  z {z:6.2f} "
                "{seconds:6.1f} s".format(**row),
                flush=True,
            )
            rows.append(row)
    z = np.array([row["z"] for row in rows])
    if z.size:
        print(f"root mean square of z {np.sqrt(np.mean(z**2)):.3f}, largest {np.abs(z).max():.2f}")
    laboratory.save_table(pd.DataFrame(rows), options.out, NAME)


if __name__ == "__main__":
    main()
