"""Do error bars cover log Z under every likelihood? Random models that share one latent direction.

    python -m scripts.benchmarks.likelihoods

Data of a family that SciPy has, of which all see a common latent value of known variance and each
its own besides: K = v 1 1' + s² I. log Z is an integral over the common one, on a grid around its
mode, of products of integrals over the others: closed forms for the asymmetric Laplace, else the
trapezoidal rule, to 1e-6. Nothing in it is the package's. A row of the table is a family: RMS of
z, the error in standard errors as a normal deviate, over models and seeds, the largest |z|, misses
(|z| > 4.5) and warnings. It goes on where it ended.
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
from scipy import special, stats
from scipy.special import expit, log_ndtr, logsumexp

import evidence as ev
from scripts import laboratory
from scripts.benchmarks.random_densities import normal_z

NAME = "likelihoods"
Array = np.ndarray
Rng = np.random.Generator
LogDensity = Callable[[float, Array], Array]
_ACCURATE, _KNOWN, _WRONG = 1e-6, 3.0, 4.5
_WIDE, _NODES = 8.0, 321  # standard deviations of a latent value that grids reach, and their nodes


def _frozen(law: Callable[..., Any]) -> tuple[LogDensity, Callable[[Array, Rng], Array]]:
    """log p(y|x) and draws, of a function of x to distributions of SciPy."""

    def log_p(y: float, x: Array) -> Array:
        frozen = law(x)
        return np.asarray(getattr(frozen, "logpdf", getattr(frozen, "logpmf", None))(y))

    return log_p, lambda x, rng: np.asarray(law(x).rvs(random_state=rng), float)


def _zeros(kind: str, share: float, size: float) -> tuple[LogDensity, Callable[..., Array]]:
    def counts(x: Array) -> Any:
        mean = np.exp(x)
        return stats.nbinom(size, size / (size + mean)) if size else stats.poisson(mean)

    def log_p(y: float, x: Array) -> Array:
        law = counts(x)
        if kind == "hurdle":
            some = np.log1p(-share) + law.logpmf(y) - np.log(-np.expm1(law.logpmf(0)))
            return np.full(x.shape, np.log(share)) if y == 0 else np.asarray(some)
        own = np.log1p(-share) + law.logpmf(y)
        return np.asarray(np.logaddexp(own, np.log(share)) if y == 0 else own)

    def draw(x: Array, rng: Rng) -> Array:
        y = counts(x).rvs(random_state=rng)
        while kind == "hurdle" and not y.all():
            y = np.where(y == 0, counts(x).rvs(random_state=rng), y)
        return np.where(rng.random(x.size) < share, 0.0, y)

    return log_p, draw


def _family(name: str, rng: Rng, n: int) -> tuple[str, LogDensity, Callable[..., Array]]:
    """A likelihood as text, and SciPy's log p(y|x) and draws of it, with random parameters."""
    share, shape = round(rng.uniform(0.1, 0.6), 2), round(10.0 ** rng.uniform(-0.2, 0.8), 2)
    phi, trials = round(10.0 ** rng.uniform(0.2, 1.3), 2), int(rng.integers(2, 15))
    kind = name.removesuffix("_poisson").removesuffix("_negative_binomial")
    if kind != name:
        size = 0.0 if name.endswith("_poisson") else shape
        words = {"hu" if kind == "hurdle" else "zi": share} | ({"shape": size} if size else {})
        return _text(name, **words), *_zeros(kind, share, size)
    if name == "asymmetric_laplace":
        tau, sigma = round(rng.uniform(0.1, 0.9), 2), round(rng.uniform(0.1, 0.6), 2)
        k, scale = math.sqrt(tau / (1.0 - tau)), sigma / math.sqrt(tau * (1.0 - tau))
        law = partial(stats.laplace_asymmetric, k, scale=scale)
        return _text(name, quantile=tau, sigma=sigma), *_frozen(lambda x: law(loc=x))
    laws: dict[str, tuple[dict[str, float], Callable[..., Any]]] = {
        "geometric": ({}, lambda x: stats.nbinom(1, expit(-x))),
        "beta": ({"phi": phi}, lambda x: stats.beta(phi * expit(x), phi * expit(-x))),
        "beta_binomial": (
            {"n": trials, "phi": phi},
            lambda x: stats.betabinom(trials, phi * expit(x), phi * expit(-x)),
        ),
        "exponential": ({}, lambda x: stats.expon(scale=np.exp(x))),
        "lognormal": ({"sigma": share}, lambda x: stats.lognorm(share, scale=np.exp(x))),
        "weibull": (
            {"shape": shape},
            lambda x: stats.weibull_min(shape, scale=np.exp(x) / special.gamma(1 + 1 / shape)),
        ),
        "log_logistic": (
            {"shape": 1.0 + shape},
            lambda x: stats.fisk(1.0 + shape, scale=np.exp(x) * np.sinc(1.0 / (1.0 + shape))),
        ),
    }
    words, law = laws[name]
    return _text(name, **words), *_frozen(law)


def _text(name: str, **words: float) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in words.items())})"


FAMILIES = (
    "geometric", "zero_inflated_poisson", "zero_inflated_negative_binomial", "hurdle_poisson",
    "hurdle_negative_binomial", "beta", "beta_binomial", "exponential", "lognormal", "weibull",
    "log_logistic", "asymmetric_laplace",
)  # fmt: skip


def random_model(family: str, number: int) -> tuple[ev.GPModel, float]:
    """The random model of a family and a number, and its log Z."""
    rng = np.random.default_rng([FAMILIES.index(family), number, 3141])
    n, v, own = int(rng.integers(4, 21)), 10.0 ** rng.uniform(-1, 0.5), 10.0 ** rng.uniform(-2, 0)
    mean = round(rng.normal(0.5, 0.5), 2)
    text, log_p, draw = _family(family, rng, n)
    x = mean + math.sqrt(v) * rng.normal() + math.sqrt(own) * rng.normal(size=n)
    y = draw(np.clip(x, -3.0, 5.0), rng)
    if family == "beta":
        y = np.clip(y, 1e-6, 1.0 - 1e-6)
    each = _tilted_laplace(text, own) if family == "asymmetric_laplace" else partial(
        _with_noise, log_p, math.sqrt(own)
    )  # fmt: skip
    K = v + own * np.eye(n)
    model = ev.GPModel(K=K, y=y, mean=np.full(n, mean), likelihood=text)
    return model, _truth(each, y, mean, math.sqrt(v))


def _with_noise(log_p: LogDensity, sd: float, y: float, u: Array) -> Array:
    """log ∫ p(y|u + e) N(e; 0, sd²) de for all u."""
    z = np.linspace(-_WIDE, _WIDE, _NODES)
    weights = stats.norm.pdf(z) * (z[1] - z[0])
    return logsumexp(log_p(y, u[:, None] + sd * z), axis=1, b=weights)


def _tilted_laplace(text: str, own: float) -> LogDensity:
    tau, s = (float(word.rpartition("=")[2]) for word in text[:-1].split(","))
    up, down, sd = tau / s, (1.0 - tau) / s, math.sqrt(own)

    def each(y: float, u: Array) -> Array:
        below = up * (u - y) + 0.5 * up * up * own + log_ndtr((y - u) / sd - up * sd)
        above = down * (y - u) + 0.5 * down * down * own + log_ndtr((u - y) / sd - down * sd)
        return math.log(tau * (1.0 - tau) / s) + np.logaddexp(below, above)

    return each


def _truth(each: LogDensity, y: Array, mean: float, sd: float) -> float:
    """The common value on a grid over its prior, and on one about what it says."""
    low, high = mean - _WIDE * sd, mean + _WIDE * sd
    values, counts = np.unique(y, return_counts=True)
    for _ in range(3):
        u = np.linspace(low, high, _NODES)
        g = stats.norm.logpdf(u, mean, sd)
        g = g + sum(c * each(one, u) for one, c in zip(values, counts, strict=True))
        near = u[g > g.max() - 40.0]
        step = u[1] - u[0]
        low, high = near[0] - step, near[-1] + step
    return float(logsumexp(g) + math.log(step))


def run(family: str, number: int, seeds: int) -> list[dict[str, Any]]:
    """What some seeds say of one model."""
    model, truth = random_model(family, number)
    rows = []
    for seed in range(seeds):
        started = time.process_time()
        with ThreadPoolExecutor(1) as one:
            result = ev.log_evidence(model, random_seed=seed, executor=one, progressbar=False)
        error, se = result.logz - truth, math.hypot(result.logz_se, _ACCURATE)
        rows.append({
            "family": family, "number": number, "seed": seed, "logz": result.logz, "truth": truth,
            "se": result.logz_se, "z": normal_z(error, se, result.islands.size),
            "method": result.method, "seconds": time.process_time() - started,
            "warnings": " ".join(sorted({w.code for w in result.warnings})),
        })  # fmt: skip
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each family, and one for all; RMS where standard errors are not the truth's."""
    table = []
    for family, own in [*rows.groupby("family", sort=False), ("all", rows)]:
        z = own.z[own.se > _KNOWN * _ACCURATE]
        table.append({
            "family": family, "runs": len(own), "with_error": z.size,
            "rms_z": np.sqrt(np.mean(z**2)), "largest": own.z.abs().max(),
            "misses": int((own.z.abs() > _WRONG).sum()),
            "warned": int((own.warnings.notna() & (own.warnings != "")).sum()),
            "median_se": own.se.median(), "seconds": own.seconds.mean(),
        })  # fmt: skip
    return pd.DataFrame(table)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--models", type=int, default=20, help="of each family")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    options = parser.parse_args()
    models, seeds = (1, 1) if options.fast else (options.models, options.seeds)
    cases = [(family, number) for number in range(models) for family in options.families]
    rows = laboratory.kept(
        options.out / "runs.csv", ["family", "number"], cases, partial(run, seeds=seeds)
    )
    table = summary(rows)
    print(table.to_string(index=False, float_format="{:.3g}".format))
    laboratory.save_table(table, options.out, NAME)


if __name__ == "__main__":
    sys.exit(main())
