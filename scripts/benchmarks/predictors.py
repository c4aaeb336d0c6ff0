"""Do error bars cover log Z where a datum sees several predictors?

    python -m scripts.benchmarks.predictors

Random models, each with a truth in which nothing is the package's. *Two*: a formula with an
intercept for each of two predictors, of a family of SciPy, within bounds, or a user's function;
log Z is an integral over both, on a grid about their mode, to 1e-6. *Fields*: normal noise with a
field of its own, K = v 11' + s² I for both: the inner integrals are sums over nodes. *Softmax*:
kernels of three classes, against annealed importance sampling from the prior by elliptical slices
in plain NumPy, with its own error from 16 independent runs. A row of the table is a kind of model:
RMS of z, the error in standard errors as a normal deviate, over models and seeds, the largest |z|,
misses (|z| > 4.5) and warnings. It goes on where it ended.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit, gamma, logsumexp

import evidence as ev
from scripts import laboratory
from scripts.benchmarks.likelihoods import summary
from scripts.benchmarks.random_densities import normal_z

NAME = "predictors"
Array = np.ndarray
Rng = np.random.Generator
_ACCURATE = 1e-6
_AGREE = 1e-3  # nats between a grid and one twice as fine, whose error is about the square of that
_NODES = 101  # of grids, in each of two directions, at first
_APART = 1_000  # seeds between models: posteriors alike that share draws share their error
_RUNS, _PARTICLES, _STEPS = 16, 256, 120  # of annealing from the prior


def _noisy(eta: tuple[float, ...], y: float) -> float:
    """Laplace's distribution, its scale predicted."""
    return -abs(y - eta[0]) * math.exp(-eta[1]) - eta[1] - math.log(2.0)


#: likelihood, the predicted parameter, SciPy's law given both predictors
LAWS: dict[str, tuple[str, str, Callable[[Array, Array], Any] | None]] = {
    "gaussian": ("gaussian", "sigma", lambda x, t: stats.norm(x, np.exp(t))),
    "student_t": ("student_t", "sigma", lambda x, t: stats.t(4.0, x, np.exp(t))),
    "lognormal": ("lognormal", "sigma", lambda x, t: stats.lognorm(np.exp(t), scale=np.exp(x))),
    "gamma": (
        "gamma", "shape", lambda x, t: stats.gamma(np.exp(t), scale=np.exp(x - t)),
    ),
    "weibull": (
        "weibull", "shape",
        lambda x, t: stats.weibull_min(np.exp(t), scale=np.exp(x) / gamma(1.0 + np.exp(-t))),
    ),
    "beta": (
        "beta", "phi", lambda x, t: stats.beta(np.exp(t) * expit(x), np.exp(t) * expit(-x)),
    ),
    "negative_binomial": (
        "negative_binomial", "dispersion",
        lambda x, t: stats.nbinom(np.exp(t), 1.0 / (1.0 + np.exp(x - t))),
    ),
    "zero_inflated_poisson": ("zero_inflated_poisson", "zi", None),
    "hurdle_negative_binomial": ("hurdle_negative_binomial", "hu", None),
    "truncated": ("gaussian", "sigma", lambda x, t: stats.norm(x, np.exp(t))),
    "censored": ("gaussian", "sigma", lambda x, t: stats.norm(x, np.exp(t))),
    "function": ("function", "s", lambda x, t: stats.laplace(x, np.exp(t))),
}  # fmt: skip
KINDS = (*LAWS, "fields", "softmax")


def _log_p(kind: str, row: pd.Series, x: Array, t: Array) -> Array:
    """Of one datum by SciPy."""
    law = LAWS[kind][2]
    if law is None:
        name, share = LAWS[kind][0], expit(t)
        mean, y = np.exp(x), row.y
        if name.startswith("zero"):
            own = np.log1p(-share) + stats.poisson(mean).logpmf(y)
            return np.asarray(np.logaddexp(own, np.log(share)) if y == 0 else own)
        counts = stats.nbinom(2.0, 2.0 / (2.0 + mean))
        some = np.log1p(-share) + counts.logpmf(y) - np.log(-np.expm1(counts.logpmf(0)))
        return np.asarray(np.log(share) if y == 0 else some)
    one = law(x, t)
    if kind == "censored" and row.c:
        return np.asarray(one.logsf(row.y))
    value = getattr(one, "logpdf", getattr(one, "logpmf", None))(row.y)
    if kind == "truncated":
        s = np.exp(t)
        low, high = (row.low - x) / s, (row.high - x) / s
        flip = low + high > 0.0  # the tail in which digits are
        low, high = np.where(flip, -high, low), np.where(flip, -low, high)
        top = stats.norm.logcdf(high)
        with np.errstate(divide="ignore"):
            value = value - top - np.log(-np.expm1(stats.norm.logcdf(low) - top))
    return np.asarray(value)


def _draw(kind: str, x: float, t: float, n: int, rng: Rng) -> pd.DataFrame:
    law = LAWS[kind][2]
    if law is None:
        mean, share = math.exp(x), expit(t)
        poisson = LAWS[kind][0].startswith("zero")
        y = np.asarray(
            (stats.poisson(mean) if poisson else stats.nbinom(2.0, 2.0 / (2.0 + mean))).rvs(
                n, random_state=rng
            ),
            float,
        )
        y = np.where(rng.random(n) < share, 0.0, y if poisson else np.maximum(y, 1.0))
        return pd.DataFrame({"y": y})
    y = np.asarray(law(np.float64(x), np.float64(t)).rvs(n, random_state=rng), float)
    if kind == "beta":
        y = np.clip(y, 1e-6, 1.0 - 1e-6)
    data = pd.DataFrame({"y": y, "c": 0, "low": y.min() - 0.3, "high": y.max() + 0.5})
    if kind == "censored":
        cut = np.median(y)
        data["c"], data["y"] = (y > cut).astype(int), np.minimum(y, cut)
    return data


def _two(kind: str, number: int) -> tuple[Any, float, float]:
    rng = np.random.default_rng([KINDS.index(kind), number, 2718])
    n, sds = int(rng.integers(3, 26)), 10.0 ** rng.uniform(-0.7, 0.4, 2)
    middle = rng.normal(0.3, 0.5, 2)
    x, t = middle + np.clip(sds * rng.normal(size=2), -2.5, 2.5)
    family, word, _ = LAWS[kind]
    data, formula = _draw(kind, x, t, n, rng), "y ~ 1"
    words: dict[str, Any] = {"likelihood": family}
    if family == "function":
        words["likelihood"] = ev.likelihoods.from_function(_noisy, predictors=["mu", "s"])
    if kind == "truncated":
        formula = "y | trunc(low, high) ~ 1"
    if kind == "censored":
        formula = "y | cens(c) ~ 1"
    held = {"student_t": {"df": 4.0}, "hurdle_negative_binomial": {"shape": 2.0}}.get(kind, {})
    priors = {
        "Intercept": stats.norm(middle[0], sds[0]),
        f"{word}:Intercept": stats.norm(middle[1], sds[1]),
    } | held
    model = ev.from_formula(formula, data, predictors={word: "1"}, priors=priors, **words)
    return model, _on_a_grid(partial(_log_p, kind), data, middle, sds), _ACCURATE


def _on_a_grid(
    log_p: Callable[..., Array], data: pd.DataFrame, m: Array, sd: Array, nodes: int = _NODES
) -> float:
    """log ∫ over both predictors, on grids twice as fine until they agree."""
    coarse = math.nan
    while not abs((fine := _on_one_grid(log_p, data, m, sd, nodes)) - coarse) < _AGREE:
        coarse, nodes = fine, 2 * nodes
    return fine


def _on_one_grid(
    log_p: Callable[..., Array], data: pd.DataFrame, m: Array, sd: Array, nodes: int
) -> float:
    """A grid over the prior, and three times one about what matters."""
    ends = np.array([m - 9.0 * sd, m + 9.0 * sd]).T
    rows, times = np.unique(data.to_numpy(), axis=0, return_counts=True)
    for _ in range(4):
        axes = [np.linspace(low, high, nodes) for low, high in ends]
        x, t = np.meshgrid(*axes, indexing="ij")
        g = stats.norm.logpdf(x, m[0], sd[0]) + stats.norm.logpdf(t, m[1], sd[1])
        with np.errstate(all="ignore"):
            for row, count in zip(rows, times, strict=True):
                g = g + count * log_p(pd.Series(row, data.columns), x, t)
        g = np.where(np.isnan(g), -np.inf, g)
        near = g > g.max() - 40.0
        steps = [axis[1] - axis[0] for axis in axes]
        where = [axis[near.any(axis=1 - k)] for k, axis in enumerate(axes)]
        ends = np.array([[w[0] - s, w[-1] + s] for w, s in zip(where, steps, strict=True)])
    return float(logsumexp(g) + np.log(steps).sum())


def _fields(kind: str, number: int) -> tuple[Any, float, float]:
    rng = np.random.default_rng([99, number, 2718])
    n, (v, s), (w, r) = (
        int(rng.integers(3, 10)),
        10 ** rng.uniform(-0.6, 0.3, 2),
        10 ** rng.uniform(-0.6, 0.1, 2),
    )
    mu = v * rng.normal() + s * rng.normal(size=n)
    y = mu + np.exp(-0.5 + w * rng.normal() + r * rng.normal(size=n)) * rng.normal(size=n)
    K = {"mu": v * v + s * s * np.eye(n), "sigma": w * w + r * r * np.eye(n)}
    model = ev.PredictorsModel(y=y, K=K, mean={"sigma": -0.5})
    z = np.linspace(-8.0, 8.0, 161)
    log_w = stats.norm.logpdf(z) + math.log(z[1] - z[0])

    def log_p(row: pd.Series, x: Array, t: Array) -> Array:
        variance = s * s + np.exp(2.0 * (t[..., None] + r * z))
        own = -0.5 * (row.y - x[..., None]) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
        return np.asarray(logsumexp(own + log_w, axis=-1))

    words = pd.DataFrame({"y": y}), np.array([0.0, -0.5]), np.array([v, w])
    return model, _on_a_grid(log_p, *words, nodes=41), 1e-4


def _softmax(kind: str, number: int, runs: int = _RUNS) -> tuple[Any, float, float]:
    rng = np.random.default_rng([number, 1618])
    n, C = int(rng.integers(6, 25)), 3
    X = rng.uniform(0.0, 4.0, (n, 1))
    amplitude, length = (
        round(10.0 ** rng.uniform(0.0, 2.5), 3),
        round(10.0 ** rng.uniform(-0.7, 0.5), 3),
    )
    y = rng.integers(0, C, n) if number % 2 else np.minimum((X[:, 0] / 1.34).astype(int), C - 1)
    model = ev.SoftmaxModel(X, y, f"{amplitude:.3f} * RBF({length:.3f})", classes=[0, 1, 2])
    K = amplitude * np.exp(-0.5 * ((X - X.T) / length) ** 2) + model.jitter * np.eye(n)
    L = np.linalg.cholesky(K)
    each = [_annealed(L, y, C, np.random.default_rng([number, k])) for k in range(runs)]
    top = max(each)
    ratio = np.exp(np.array(each) - top)
    se = float(ratio.std(ddof=1) / ratio.mean() / math.sqrt(runs))
    return model, top + math.log(ratio.mean()), se


def _annealed(L: Array, y: Array, C: int, rng: Rng) -> float:
    """log Ẑ of one run: particles from the prior to the posterior, resampled on the way."""
    n, B = len(L), _PARTICLES
    rows = np.arange(n)

    def log_p(f: Array) -> Array:
        own = f[:, y, rows] - logsumexp(f, axis=1)
        return own.sum(axis=1)

    f = rng.normal(size=(B, C, n)) @ L.T
    value, total = log_p(f), 0.0
    for step in range(1, _STEPS + 1):
        by = (step / _STEPS) ** 3 - ((step - 1) / _STEPS) ** 3
        w = by * value
        total += logsumexp(w) - math.log(B)
        p = np.exp(w - logsumexp(w))
        chosen = np.minimum(
            np.searchsorted(np.cumsum(p), (rng.random() + np.arange(B)) / B), B - 1
        )
        f, value = f[chosen], value[chosen]
        beta = (step / _STEPS) ** 3
        for _ in range(3):
            f, value = _slice(f, value, beta, L, log_p, rng)
    return total


def _slice(
    f: Array, value: Array, beta: float, L: Array, log_p: Any, rng: Rng
) -> tuple[Array, Array]:
    """Elliptical slices of all particles at once."""
    B = len(f)
    nu, level = rng.normal(size=f.shape) @ L.T, beta * value + np.log(rng.random(B))
    angle = rng.uniform(0.0, 2.0 * np.pi, B)
    low, high, out, new = angle - 2.0 * np.pi, angle.copy(), f.copy(), value.copy()
    open_ = np.ones(B, bool)
    while open_.any():
        i = np.flatnonzero(open_)
        trial = np.cos(angle[i])[:, None, None] * f[i] + np.sin(angle[i])[:, None, None] * nu[i]
        own = log_p(trial)
        ok = beta * own > level[i]
        out[i[ok]], new[i[ok]] = trial[ok], own[ok]
        open_[i[ok]] = False
        i = i[~ok]
        low[i] = np.where(angle[i] < 0.0, angle[i], low[i])
        high[i] = np.where(angle[i] >= 0.0, angle[i], high[i])
        angle[i] = rng.uniform(low[i], high[i])
    return out, new


def random_model(kind: str, number: int, runs: int = _RUNS) -> tuple[Any, float, float]:
    """The random model of a kind and a number, its log Z, and the error of that; of classes by so
    many runs of annealing."""
    make = {"fields": _fields, "softmax": partial(_softmax, runs=runs)}.get(kind, _two)
    return make(kind, number)


def run(kind: str, number: int, seeds: int, runs: int) -> list[dict[str, Any]]:
    """What some seeds say of one model."""
    model, truth, accurate = random_model(kind, number, runs)
    rows = []
    for seed in range(seeds):
        started = time.process_time()
        own = _APART * (len(KINDS) * number + KINDS.index(kind)) + seed
        with ThreadPoolExecutor(1) as one:
            result = ev.log_evidence(model, random_seed=own, executor=one, progressbar=False)
        se = math.hypot(result.logz_se, accurate)
        rows.append({
            "family": kind, "number": number, "seed": seed, "logz": result.logz, "truth": truth,
            "se": result.logz_se, "z": normal_z(result.logz - truth, se, result.islands.size),
            "method": result.method, "seconds": time.process_time() - started,
            "warnings": " ".join(sorted({w.code for w in result.warnings})),
        })  # fmt: skip
    return rows


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--models", type=int, default=20, help="of each kind")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    models, seeds, runs = (1, 1, 2) if options.fast else (options.models, options.seeds, _RUNS)
    kinds = options.kinds[-2:] if options.fast else options.kinds
    cases = [(kind, number) for number in range(models) for kind in kinds]
    rows = laboratory.kept(
        options.out / "runs.csv", ["family", "number"], cases, partial(run, seeds=seeds, runs=runs)
    )
    table = summary(rows)
    print(table.to_string(index=False, float_format="{:.3g}".format))
    laboratory.save_table(table, options.out, NAME)


if __name__ == "__main__":
    sys.exit(main())
