"""Sparse models of up to a million latent values or data, against exact log Z where there is one.

    python -m scripts.benchmarks.sparse_truths --rows shared groups ar1 --seeds 3
    python -m scripts.benchmarks.sparse_truths --rows neuro cox --data folder
    python -m scripts.benchmarks.sparse_truths --rows icar bym2 rw2 --seeds 40

A line for each problem and seed: seconds to make the model (build), of EP, of EP and log Z
together, and those of all cores (cpu: which other work on the machine changes less), log Z and its
standard error, EP, the truth, z = (log Z - truth)/se, the largest memory since the row began (of
the process so far where the system does not tell), and how many processes shared the machine
(load). A small problem of every row is run first, for compilation. Several seeds end in the mean
and the root mean square of z.

Truths: a Beta function for labels that share one latent value; quadrature for independent groups;
a filter on a grid for binomial chains; elsewhere, for moderate sizes, the same model by its
covariance matrix, whose own standard error z takes into account (of ``plane`` that of the kernel
itself, without Vecchia's approximation). Larger ones have none. The folder of --data holds
neuro.npz and pines.csv; without it the former is left out and the Cox process has simulated
points. Poisson probabilities count the factorials and the exposure, which some published values
leave out.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.linalg import null_space
from scipy.special import betaln, gammaln, logsumexp

import evidence as ev
from evidence import precisions
from scripts import laboratory

NAME = "sparse_truths"
DENSE = 1000  # data up to which the twin with a covariance matrix is asked
RHO, NOISE, TRIALS = 0.99, 0.11, 50
NEURO = -3103.924045  # of the neuroscience series, by a filter on a grid
COX_VARIANCE, POINTS = 1.91, 126
ROUNDING = 1e-9  # relative; z of estimates that are exact means nothing below it


class Problem(NamedTuple):
    model: ev.SparseModel | ev.GPModel
    truth: float = np.nan
    truth_se: float = 0.0


#: row -> sizes in full, sizes with --fast
SIZES = {
    "shared": ([1000, 1_000_000], [1000]),
    "groups": ([100, 10_000, 100_000], [100]),
    "ar1": ([300, 3000, 30_000], [300]),
    "neuro": ([3000], []),
    "crossed": ([10, 300], [10]),
    "cox": ([30, 64, 128, 256, 512], [10]),
    "series": ([1_000_000], []),
    "series-poisson": ([1_000_000], []),
    "series-probit": ([1_000_000], []),
    "series-logit": ([1_000_000], []),
    "series-student": ([1_000_000], []),
    "irregular-poisson": ([100_000], [300]),
    "irregular-student": ([100_000], [300]),
    "plane": ([2000, 20_000, 100_000], []),
    "icar": ([60], [60]),
    "bym2": ([60], [60]),
    "rw2": ([80], [80]),
}
WARM = 100  # size of what is run before a row, at most
#: likelihood, standard deviation of a step of the chain
SERIES = {
    "series-poisson": ("poisson", 0.3),
    "series-probit": ("probit", 0.3),
    "series-logit": ("logit", 0.3),
    "series-student": ("student_t(df=4, scale=0.5)", 0.3),
}


def shared(N: int, seed: int, data: Path | None) -> Problem:
    """Probit labels that share one standard normal, three in ten of them ones."""
    ones = 3 * N // 10
    y = np.random.default_rng(seed).permutation(np.r_[np.ones(ones), -np.ones(N - ones)])
    model = ev.SparseModel(precisions.iid(1), y, likelihood="probit", A=np.ones((N, 1)))
    return Problem(model, betaln(ones + 1, N - ones + 1))


def groups(G: int, seed: int, data: Path | None) -> Problem:
    """Ten counts on average in each of G independent groups."""
    rng, sd = np.random.default_rng((seed, G)), 1.0
    group = np.r_[np.arange(G), rng.integers(0, G, 9 * G)]
    y = rng.poisson(np.exp(rng.normal(0.0, sd, G))[group])
    model = ev.SparseModel(precisions.iid(G, sd), y, likelihood="poisson", A=indicators(group, G))
    x = np.linspace(-10.0, 10.0, 1601) * sd
    prior = -0.5 * (x / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi)) + np.log(x[1] - x[0])
    sums, sizes = np.bincount(group, y, G), np.bincount(group, minlength=G)
    cases, counts = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    each = [logsumexp(prior + s * x - n * np.exp(x)) for s, n in cases.T]
    return Problem(model, counts @ np.array(each) - gammaln(y + 1.0).sum())


def ar1(T: int, seed: int, data: Path | None) -> Problem:
    """Binomial counts along a stationary chain, and a filter."""
    rng = np.random.default_rng((seed, T))
    sd = np.sqrt(NOISE / (1.0 - RHO**2))
    x = simulated_chain(T, sd, rng)
    y = rng.binomial(TRIALS, 1.0 / (1.0 + np.exp(-x)))
    model = chain_model(y, "stationary")
    return Problem(model, filtered(y, sd))


def series(row: str) -> Callable[[int, int, Path | None], Problem]:
    """A stationary chain under another likelihood."""
    likelihood, sd = SERIES[row]

    def made(T: int, seed: int, data: Path | None) -> Problem:
        prior = precisions.ar1(T, 0.98, sd)
        blank = ev.SparseModel(prior, np.ones(T), likelihood=likelihood)
        return Problem(ev.simulate(blank, random_seed=seed).model)

    return made


def irregular(likelihood: str) -> Callable[[int, int, Path | None], Problem]:
    """A Matérn 3/2 process at random times, as a Markov chain; small ones by their covariance."""

    def made(N: int, seed: int, data: Path | None) -> Problem:
        rng = np.random.default_rng((seed, N))
        t = np.sort(rng.uniform(0.0, N / 20.0, N))
        words = {"kernel": "1.0 * Matern(2.0, nu=1.5)", "likelihood": likelihood}
        blank = ev.GPModel(t, np.ones(N), structure="markov", **words)
        model = ev.simulate(blank, random_seed=seed).model
        if N > DENSE:
            return Problem(model)
        dense = ev.GPModel(t, model.y, structure="dense", **words)
        twin = ev.log_evidence(dense, target_se=0.005, random_seed=seed + 1, progressbar=False)
        return Problem(model, twin.logz, twin.logz_se)

    return made


def plane(N: int, seed: int, data: Path | None) -> Problem:
    """Logistic labels with a Matérn 3/2 kernel in the plane, by Vecchia's approximation."""
    rng = np.random.default_rng((seed, N))
    X = rng.uniform(0.0, np.sqrt(N) / 10.0, (N, 2))
    f = 1.5 * np.sin(2.0 * X[:, 0]) * np.cos(1.5 * X[:, 1])
    y = np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-f)), 1, -1)
    kernel = "1.0 * Matern(0.5, nu=1.5)"
    sparse = ev.GPModel(X, y, kernel, likelihood="logit", structure="vecchia(m=30)")
    if N > 2000:
        return Problem(sparse)
    dense = ev.GPModel(X, y, kernel, likelihood="logit", structure="dense")
    twin = ev.log_evidence(dense, target_se=0.02, random_seed=seed + 1, progressbar=False)
    return Problem(sparse, twin.logz, twin.logz_se)


def icar(n: int, seed: int, data: Path | None) -> Problem:
    """Counts on a map, a common level, effects of neighbours."""
    return mapped(precisions.icar(neighbours(n, seed), 0.8), n, seed)


def bym2(n: int, seed: int, data: Path | None) -> Problem:
    return mapped(precisions.bym2(neighbours(n, seed), 0.8, 0.6), n, seed)


def rw2(n: int, seed: int, data: Path | None) -> Problem:
    """Counts along a smooth curve, level and slope of their own."""
    rng = np.random.default_rng((seed, n))
    t = np.linspace(-1.0, 1.0, n)
    prior = precisions.blocks(line=precisions.iid(2, 1.0), curve=precisions.rw2(n, 0.8))
    A = prior.predictor(line=np.column_stack([np.ones(n), t]), curve=sp.eye_array(n))
    y = rng.poisson(np.exp(0.5 + 0.8 * np.sin(3.0 * t)))
    return with_twin(ev.SparseModel(prior, y, likelihood="poisson", A=A), seed)


def neighbours(n: int, seed: int) -> list[tuple[int, int]]:
    """The edges of the triangles between random places."""
    from scipy.spatial import Delaunay

    corners = Delaunay(np.random.default_rng((seed, n, 1)).uniform(size=(n, 2))).simplices
    edges = np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]]))
    return [(int(i), int(j)) for i, j in np.unique(edges, axis=0)]


def mapped(field: precisions.Precision, n: int, seed: int) -> Problem:
    rng = np.random.default_rng((seed, n))
    prior = precisions.blocks(level=precisions.iid(1, 1.0), field=field)
    A = prior.predictor(level=np.ones((n, 1)), field=sp.eye_array(n))
    y = rng.poisson(np.exp(0.4 + rng.normal(0.0, 0.6, n)))
    return with_twin(ev.SparseModel(prior, y, likelihood="poisson", A=A), seed)


def neuro(T: int, seed: int, data: Path | None) -> Problem:
    """Spikes in 50 trials, the standard series of controlled sequential Monte Carlo."""
    assert data is not None
    return Problem(chain_model(np.load(data / "neuro.npz")["y"], 1.0), NEURO)


def crossed(G: int, seed: int, data: Path | None) -> Problem:
    """Bernoulli data of G × G groups, about one for each pair."""
    rng = np.random.default_rng((seed, G))
    N = 100_000 if G >= 300 else 6 * G
    rows, columns = rng.integers(0, G, (2, N))
    eta = 0.5 + rng.normal(0.0, 0.8, G)[rows] + rng.normal(0.0, 0.5, G)[columns]
    y = np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-eta)), 1, -1)
    prior = precisions.blocks(
        level=precisions.iid(1, 2.0), row=precisions.iid(G, 0.8), column=precisions.iid(G, 0.5)
    )
    A = prior.predictor(
        level=np.ones((N, 1)), row=indicators(rows, G), column=indicators(columns, G)
    )
    return with_twin(ev.SparseModel(prior, y, likelihood="logit", A=A), seed)


def cox(side: int, seed: int, data: Path | None) -> Problem:
    """Points in the unit square, counted in side × side cells: saplings, or simulated."""
    mean = np.log(POINTS) - COX_VARIANCE / 2
    field = precisions.matern_grid((side, side), range=side / 11, sigma=COX_VARIANCE**0.5)
    likelihood = ev.likelihoods.Poisson(exposure=1.0 / side**2)
    if data is not None:
        points = pd.read_csv(data / "pines.csv")[["data_x", "data_y"]].to_numpy()
        y = np.histogram2d(*points.T, bins=side, range=[(0, 1), (0, 1)])[0].ravel()
    else:
        rng = np.random.default_rng((seed, side))
        blank = ev.SparseModel(field, np.zeros(side**2), likelihood=likelihood, mean=mean)
        y = likelihood.simulate(blank.prior.draw(rng), rng)
    model = ev.SparseModel(field, y, likelihood=likelihood, mean=mean)
    return with_twin(model, seed)


def chain_model(y: np.ndarray, initial: float | str) -> ev.SparseModel:
    prior = precisions.ar1(y.size, RHO, NOISE**0.5, initial)
    return ev.SparseModel(prior, y, likelihood=f"binomial(n={TRIALS})")


def simulated_chain(T: int, sd: float, rng: np.random.Generator) -> np.ndarray:
    from scipy.signal import lfilter

    steps = np.sqrt(NOISE) * rng.normal(size=T)
    steps[0] *= sd / np.sqrt(NOISE)
    return lfilter([1.0], [1.0, -RHO], steps)


def filtered(y: np.ndarray, sd: float, points: int = 401) -> float:
    """log Z of the stationary chain: densities on a grid that Gaussians of its steps see fine."""
    x = np.linspace(-9.0 * sd, 9.0 * sd, points)
    step, k = x[1] - x[0], np.arange(TRIALS + 1.0)
    count = gammaln(TRIALS + 1) - gammaln(k + 1) - gammaln(TRIALS - k + 1)
    likelihood = np.exp(count[:, None] + k[:, None] * x - TRIALS * np.logaddexp(0.0, x))
    move = np.exp(-0.5 * (x[:, None] - RHO * x) ** 2 / NOISE) * step / np.sqrt(2 * np.pi * NOISE)
    density = np.exp(-0.5 * (x / sd) ** 2) * step / (sd * np.sqrt(2 * np.pi))
    total = 0.0
    for t, one in enumerate(y):
        density = likelihood[one] * (move @ density if t else density)
        mass = density.sum()
        total += np.log(mass)
        density /= mass
    return total


def indicators(group: np.ndarray, G: int) -> sp.csr_array:
    N = group.size
    return sp.csr_array((np.ones(N), (np.arange(N), group)), shape=(N, G))


def with_twin(model: ev.SparseModel, seed: int) -> Problem:
    """Its truth from the dense code, where that is quick."""
    if model.y.size > DENSE:
        return Problem(model)
    A, Q = model.A.toarray(), model.Q.toarray()
    if model.constraints is not None:
        free = null_space(model.constraints[0])
        A, Q = A @ free, free.T @ Q @ free
    K = A @ np.linalg.solve(Q, A.T)
    K = (K + K.T) / 2
    K.flat[:: len(K) + 1] += 1e-9 * np.trace(K) / len(K)  # groups make it singular
    twin = ev.GPModel(K=K, y=model.y, likelihood=model.likelihood, mean=model.prior.mean)
    dense = ev.log_evidence(twin, target_se=0.005, random_seed=seed + 1, progressbar=False)
    return Problem(model, dense.logz, dense.logz_se)


ROWS: dict[str, Callable[[int, int, Path | None], Problem]] = {
    "shared": shared, "groups": groups, "ar1": ar1, "neuro": neuro,
    "crossed": crossed, "cox": cox, "series": ar1, **{row: series(row) for row in SERIES},
    "irregular-poisson": irregular("poisson"),
    "irregular-student": irregular("student_t(df=4, scale=0.3)"), "plane": plane, "icar": icar,
    "bym2": bym2, "rw2": rw2,
}  # fmt: skip


def peak_memory() -> float:
    """Megabytes: the largest since :func:`forget_peak`, where Linux tells."""
    try:
        status = Path("/proc/self/status").read_text()
        return float(status.split("VmHWM:")[1].split()[0]) / 1024.0
    except OSError:
        unit = 1024.0 if sys.platform != "darwin" else 1024.0**2
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def forget_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def measure(row: str, size: int, seed: int, data: Path | None, target_se: float) -> dict[str, Any]:
    forget_peak()
    started = time.perf_counter()
    model, truth, truth_se = ROWS[row](size, seed, data)
    build = time.perf_counter() - started
    started, of_cores = time.perf_counter(), time.process_time()
    ep = ev.fit_ep(model)
    of_ep = time.perf_counter() - started
    result = ev.log_evidence(
        model, reference=ep, target_se=target_se, random_seed=seed, progressbar=False
    )
    seconds = time.perf_counter() - started
    error = float(np.hypot(np.hypot(result.logz_se, truth_se), ROUNDING * abs(result.logz)))
    return {
        "problem": row,
        "size": size,
        "seed": seed,
        "N": model.y.size,
        "n": model.n,
        "build": build,
        "ep_seconds": of_ep,
        "seconds": seconds,
        "cpu": time.process_time() - of_cores,
        "logz": result.logz,
        "logz_se": result.logz_se,
        "ep": ep.logz,
        "truth": truth,
        "z": (result.logz - truth) / error,
        "peak_mb": peak_memory(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else np.nan,
        "warnings": len(result.warnings),
    }


def cases(
    rows: list[str], seeds: int, fast: bool, sizes: list[int] | None
) -> Iterator[tuple[str, int, int]]:
    for row in rows:
        for size in sizes or SIZES[row][fast]:
            yield from ((row, size, seed) for seed in range(seeds))


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--quick", dest="fast", action="store_true", help="the same as --fast")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--sizes", nargs="+", type=int, help="instead of the usual ones")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from 0 on")
    parser.add_argument("--data", type=Path, help="folder of neuro.npz and pines.csv")
    parser.add_argument("--target-se", type=float, default=0.05)
    options = parser.parse_args()
    print(f"{'problem':18s}   size seed        N  build   EP s      s    cpu", end="")
    print("           log Z      ± se", end="")
    print("             EP          truth      z  peak MB  load")
    table, warm = [], set()
    for row, size, seed in cases(options.rows, options.seeds, options.fast, options.sizes):
        if row == "neuro" and options.data is None:
            continue
        if row not in warm:
            small = min(size, 8 if row == "cox" else WARM)
            measure(row, small, seed, options.data, options.target_se)
            warm.add(row)
        found = measure(row, size, seed, options.data, options.target_se)
        print(
            "{problem:18s} {size:>7d} {seed:>3d} {N:>9d} {build:>6.1f} {ep_seconds:>6.1f} "
            "{seconds:>6.1f} {cpu:>6.1f} {logz:>15.4f} {logz_se:>9.4f} {ep:>14.4f} "
            "{truth:>14.4f} {z:>6.2f} {peak_mb:>8.0f} {load:>5.1f}".format(**found),
            flush=True,
        )
        table.append(found)
    whole = pd.DataFrame(table)
    for row, z in whole.groupby("problem").z:
        if z.size > 1 and z.notna().all():
            print(f"{row}: mean z {z.mean():+.2f}, root mean square {np.sqrt((z**2).mean()):.2f}")
    laboratory.save_table(whole, options.out, NAME)


if __name__ == "__main__":
    main()
