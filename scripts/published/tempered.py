r"""log Z by a route that shares nothing with this package: what the table takes for known.

    EVIDENCE_DATA=folder python -m scripts.published.tempered "ier, 2 factors"
    EVIDENCE_DATA=folder python -m scripts.published.tempered --planets 2 --set 1

Particles from the prior are tempered towards the posterior, each step keeping ``--even`` of their
effective size, and moved by differences of two others (C. J. F. ter Braak, Statistics and
Computing 16 (2006) 239): all coordinates, or a planet's, or a random third of them. Then a
mixture of Student's t is fitted to them, and independent draws of it are weighed, which is
unbiased whatever the particles did, and whose largest weight and effective size are told. --jax
has JAX compute the likelihoods, on a GPU if there is one: two planets take 1e8 of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import logsumexp, ndtr
from sklearn.mixture import GaussianMixture

from scripts import laboratory
from scripts.catalogue.problem import Array, Problem
from scripts.published import densities, planets
from scripts.published.rows import research

_DEGREES = 6.0  # of the t's, for tails
_RATE, _JUMPS = 0.2, 0.1  # accepted moves that are aimed at; whole differences, between modes
_BATCH = 5000
_RIDGE = 1e-9  # of covariances: the wide prior's periods have peaks of 1e-4 of their range


class Target(NamedTuple):
    """Normal scores of the coordinates, but for angles, which are parts of a turn."""

    log_likelihood: Callable[[Array], Array]
    periodic: Array

    def log_prior(self, x: Array) -> Array:
        return np.where(self.periodic, 0.0, stats.norm.logpdf(x)).sum(axis=1)


def target(problem: Problem, periodic: Array, with_jax: bool) -> Target:
    def raw(theta: Array) -> Any:
        return problem.log_likelihood(np, theta)

    if with_jax:
        import jax

        jax.config.update("jax_enable_x64", True)
        raw = jax.jit(lambda theta: problem.log_likelihood(jax.numpy, theta))

    def log_likelihood(x: Array) -> Array:
        u = np.where(periodic, x, ndtr(x))
        theta = np.stack([p.quantile(one) for p, one in zip(problem.prior, u.T, strict=True)], -1)
        with np.errstate(all="ignore"):
            value = np.asarray(raw(theta))
        return np.where(np.isnan(value), -np.inf, value)

    return Target(log_likelihood, periodic)


def tempered(
    one: Target, n: int, moves: int, even: float, rng: np.random.Generator
) -> tuple[float, Array]:
    """The estimate on the way, and particles of the posterior."""
    x = np.where(one.periodic, rng.random((n, one.periodic.size)), 0.0)
    x = np.where(one.periodic, x, rng.normal(size=x.shape))
    value, beta, logz, scale = one.log_likelihood(x), 0.0, 0.0, 1.0
    while beta < 1.0:
        step = _step(value, 1.0 - beta, even)
        beta, log_w = beta + step, step * value
        logz += logsumexp(log_w) - np.log(n)
        w = np.cumsum(np.exp(log_w - log_w.max()))
        kept = rng.permutation(np.searchsorted(w, (np.arange(n) + rng.random()) / n * w[-1]))
        x, value = x[kept], value[kept]
        for _ in range(moves):
            half = n // 2
            for a, b in ((slice(half), slice(half, n)), (slice(half, n), slice(half))):
                accepted = _move(one, x, value, a, x[b], beta, scale, rng)
                scale *= np.exp(0.01 * np.sign(accepted - _RATE))
        print(f"  temperature {beta:.2e}, log Z {logz:.3f}, accepted {accepted:.2f}", flush=True)
    return float(logz), x


def _step(value: Array, left: float, even: float) -> float:
    def size(step: float) -> float:
        w = np.exp(step * (value - value.max()))
        return float(w.sum() ** 2 / (w @ w) / w.size)

    if size(left) > even:
        return left
    low, high = -30.0, np.log(left)
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if size(np.exp(middle)) > even else (low, middle)
    return float(np.exp(low))


def _move(
    one: Target, x: Array, value: Array, part: slice, others: Array, beta: float, scale: float,
    rng: np.random.Generator,
) -> float:  # fmt: skip
    at, old = x[part], value[part]
    m, d = at.shape
    away = others[rng.integers(len(others), size=m)] - others[rng.integers(len(others), size=m)]
    away = np.where(one.periodic, away - np.round(away), away)
    block = rng.integers(d // 5 + 2, size=(m, 1))  # of five, as planets have; 0: any; last: all
    moved = (block == (np.arange(d) + 4) // 5) | (block == d // 5 + 1)
    moved |= (block == 0) & (rng.random((m, d)) < 0.3)
    length = scale * 2.38 / np.sqrt(2.0 * np.maximum(moved.sum(axis=1), 1))
    length = np.where(rng.random(m) < _JUMPS, 1.0, length * np.exp(rng.uniform(-2.0, 0.3, m)))
    new = at + moved * length[:, None] * away * (1.0 + 1e-3 * rng.normal(size=(m, d)))
    new = np.where(one.periodic, np.mod(new, 1.0), new)
    its = one.log_likelihood(new)
    gain = beta * (its - old) + one.log_prior(new) - one.log_prior(at)
    yes = np.log(rng.random(m)) < gain
    x[part], value[part] = np.where(yes[:, None], new, at), np.where(yes, its, old)
    return float(yes.mean())


def weighed(
    one: Target, x: Array, components: int, draws: int, rng: np.random.Generator
) -> tuple[float, float, float, float]:
    """log Z by weights of a mixture's draws, its error, their evenness, the largest share."""
    cut = np.zeros(one.periodic.size)
    for j in np.flatnonzero(one.periodic):  # where a turn has least mass
        count, edges = np.histogram(x[:, j], 40, (0.0, 1.0))
        cut[j] = edges[np.argmin(count + np.roll(count, 1) + np.roll(count, -1))] + 0.0125
    x = np.where(one.periodic, np.mod(x - cut, 1.0), x)
    fit = GaussianMixture(components, random_state=0, reg_covar=_RIDGE).fit(x[:20_000])
    parts = [
        stats.multivariate_t(mean, cov, df=_DEGREES, seed=rng)
        for mean, cov in zip(fit.means_, fit.covariances_, strict=True)
    ]
    log_w = []
    for _ in range(draws // _BATCH):
        each = rng.multinomial(_BATCH, fit.weights_)
        y = np.concatenate(
            [np.atleast_2d(p.rvs(k)).reshape(k, -1) for p, k in zip(parts, each, strict=True) if k]
        )
        log_q = logsumexp(
            [np.log(w) + p.logpdf(y) for w, p in zip(fit.weights_, parts, strict=True)], axis=0
        )
        inside = np.all(~one.periodic | ((y >= 0.0) & (y < 1.0)), axis=1)
        back = np.where(one.periodic, np.mod(y + cut, 1.0), y)
        log_p = one.log_likelihood(back) + one.log_prior(back)
        log_w.append(np.where(inside, log_p, -np.inf) - log_q)
    every = np.concatenate(log_w)
    w = np.exp(every - every.max())
    return (
        float(logsumexp(every) - np.log(every.size)),
        float(w.std() / w.mean() / np.sqrt(w.size)),
        float(w.sum() ** 2 / (w @ w) / w.size),
        float(w.max() / w.sum()),
    )


def main() -> None:
    parser = laboratory.parser(__doc__, "tempered")
    parser.add_argument("names", nargs="*", help="rows of the table")
    parser.add_argument("--planets", type=int)
    parser.add_argument("--set", type=int, default=1)
    parser.add_argument("--wide", action="store_true", help="periods of 1.25 to 1e4 days")
    parser.add_argument("--particles", type=int, default=20_000)
    parser.add_argument("--moves", type=int, default=40)
    parser.add_argument("--even", type=float, default=0.8)
    parser.add_argument("--components", type=int, default=6)
    parser.add_argument("--draws", type=int, default=40_000)
    parser.add_argument("--jax", action="store_true")
    options = parser.parse_args()
    made = {name: densities.problems()[name][1]() for name in options.names}
    if options.fast:
        made = {"eggbox": densities.problems()["eggbox"][1]()}
        options.particles, options.moves, options.draws = 2000, 5, 10_000
    if options.planets:
        folder: Path = research("published/eprv3")
        name = f"EPRV3 set {options.set}, {options.planets} planets{', wide' * options.wide}"
        made[name] = planets.problem(folder, options.set, options.planets, wide=options.wide)
    for name, problem in made.items():
        periodic = np.zeros(problem.dim, bool)
        periodic[3::5] = name.startswith("EPRV3")
        rng, one = np.random.default_rng(0), target(problem, periodic, options.jax)
        rough, x = tempered(one, options.particles, options.moves, options.even, rng)
        logz, se, even, largest = weighed(one, x, options.components, options.draws, rng)
        print(
            f"{name}: {logz:.4f} ± {se:.4f} (effective {even:.0%}, largest {largest:.2%}); "
            f"on the way {rough:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
