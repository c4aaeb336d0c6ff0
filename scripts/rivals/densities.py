r"""Any density: this package against nested samplers, in equal time.

    python3 -m venv rivals && . rivals/bin/activate
    pip install -e . blackjax==1.7.1 dynesty==3.1.0 nautilus-sampler==1.0.6 ultranest==4.6.3
    python -m scripts.rivals.densities --seeds 5 --seconds 120 --out results/rivals_densities

Some forty problems with known log Z (scripts/catalogue/hard.py): several modes, curved and narrow
ones, heavy tails, models of data, walls and plateaus, up to 500 dimensions.

- *evidence*: the default call on the NumPy function, without a gradient; *coarse*, with
  ``effort="frugal", target_se=0.2``, for functions that are dear; *gradient*, the default call
  on JAX's.
- *dynesty*, *UltraNest* (with its slice sampler beyond ten dimensions, as its manual has it) and
  *nautilus* with their defaults; *BlackJAX* with its nested slice sampler, 500 live points of
  which 50 are replaced at a time, as many slices as its documentation asks for, in double
  precision. Where the function is NaN, rivals get minus infinity.

A row for each problem, package and seed, on disk at once: a run that was stopped goes on where it
was. A package's runs share a process, which imports and compiles before the clock starts (for
BlackJAX a problem's functions, too); it is ended at ``--seconds``, which evidence and nautilus are
told. ``evaluations`` counts gradients as well; those of BlackJAX are counted by its slices.

*wrong*: an error beyond four standard errors; *silent*: without a warning. The last table is on
squared errors, averaged over seeds: *ahead* is the part of the problems on which squared error
times seconds, or times evaluations, is smaller than the rival's, which may also have no answer.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import multiprocessing
import os
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from scripts import laboratory
from scripts.catalogue.hard import PROBLEMS
from scripts.catalogue.problem import Problem

NAME = "rivals_densities"
MISSING = "not installed"
OWN = "evidence"
FEW = ["double well 1"]
GRACE = 10.0  # seconds to end a run that was told its limit, and to import packages
_ROUNDING = 1e-4
_WRONG = 4.0  # standard errors
_MANY = 10  # dimensions beyond which UltraNest's regions are of no use
_LOWEST = -1e100  # UltraNest wants finite numbers
_LIVE, _REPLACED = 500, 50  # of BlackJAX


class Answer(NamedTuple):
    logz: float
    se: float
    evaluations: int
    told: str = ""
    """What warned."""


Run = Callable[[int, float], Answer]
"""Of a seed and a limit in seconds."""

made = cache(lambda name: PROBLEMS[name]())


def ours(problem: Problem, gradient: bool = False, **words: Any) -> Run:
    import evidence as ev

    prior = [p.frozen() for p in problem.prior]
    if gradient:
        jnp = _double().numpy
        model = ev.from_jax(lambda t: problem.log_likelihood(jnp, t), problem.dim, prior=prior)
    else:
        model = ev.DensityModel(
            lambda t: problem.log_likelihood(np, t), problem.dim, prior=prior, vectorized=True
        )

    def run(seed: int, seconds: float) -> Answer:
        found = ev.log_evidence(
            model, max_seconds=seconds, random_seed=seed, progressbar=False, **words
        )
        codes = " ".join(warning.code for warning in found.warnings)
        return Answer(found.logz, found.logz_se, sum(found.evaluations.values()), codes)

    return run


def dynesty(problem: Problem) -> Run:
    from dynesty import NestedSampler

    log_likelihood, transform = finite(problem), cube(problem)

    def run(seed: int, seconds: float) -> Answer:
        sampler = NestedSampler(
            lambda t: float(log_likelihood(t)), transform, problem.dim,
            rstate=np.random.default_rng(seed),
        )  # fmt: skip
        sampler.run_nested(print_progress=False)
        found = sampler.results
        calls = int(np.sum(found.ncall))
        return Answer(float(found.logz[-1]), float(found.logzerr[-1]), calls)

    return run


def ultranest(problem: Problem) -> Run:
    from ultranest import ReactiveNestedSampler
    from ultranest.stepsampler import SliceSampler, generate_mixture_random_direction

    log_likelihood, transform = finite(problem, _LOWEST), cube(problem)
    names = [f"x{i}" for i in range(problem.dim)]

    def run(seed: int, seconds: float) -> Answer:
        np.random.seed(seed)  # noqa: NPY002, it draws from NumPy's global generator
        sampler = ReactiveNestedSampler(names, log_likelihood, transform, vectorized=True)
        if problem.dim > _MANY:
            sampler.stepsampler = SliceSampler(
                nsteps=2 * problem.dim, generate_direction=generate_mixture_random_direction
            )
        found = sampler.run(show_status=False, viz_callback=False)
        return Answer(float(found["logz"]), float(found["logzerr"]), int(found["ncall"]))

    return run


def nautilus(problem: Problem) -> Run:
    from nautilus import Sampler

    log_likelihood, transform = finite(problem), cube(problem)

    def run(seed: int, seconds: float) -> Answer:
        sampler = Sampler(transform, log_likelihood, n_dim=problem.dim, vectorized=True, seed=seed)
        done = sampler.run(timeout=seconds, verbose=False)
        se = 1.0 / math.sqrt(max(float(sampler.n_eff), 1e-12))
        return Answer(float(sampler.log_z), se, int(sampler.n_like), "" if done else "timeout")

    return run


def blackjax(problem: Problem) -> Run:
    jax = _double()
    from blackjax import nss
    from blackjax.ns.utils import finalise, log_weights

    jnp, groups = jax.numpy, problem.grouped()

    def log_prior(t: Any) -> Any:
        return sum(jnp.sum(prior.log(t[at], jnp)) for prior, at in groups)

    def log_likelihood(t: Any) -> Any:
        value = problem.log_likelihood(jnp, t)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    sampler = nss(
        log_prior, log_likelihood, num_delete=_REPLACED,
        num_inner_steps=max(5, 2 * problem.dim),
    )  # fmt: skip
    transform = cube(problem)
    start = jnp.array(transform(np.random.default_rng(0).random((_LIVE, problem.dim))))
    init = jax.jit(lambda x: sampler.init(x, jax.random.key(0))).lower(start).compile()
    step = jax.jit(sampler.step).lower(jax.random.key(0), init(start)).compile()

    def run(seed: int, seconds: float) -> Answer:
        key = jax.random.key(seed)
        state = init(jnp.array(transform(np.random.default_rng(seed).random(start.shape))))
        dead = []
        while not float(state.integrator.logZ_live - state.integrator.logZ) < -3.0:
            key, now = jax.random.split(key)
            state, info = step(now, state)
            dead.append(info)
        done = finalise(state, dead)
        logz = jax.scipy.special.logsumexp(log_weights(key, done), axis=0)
        told = done.update_info
        slices = np.asarray(told.num_expansions) + np.asarray(told.num_shrink) + 2
        return Answer(float(logz.mean()), float(logz.std()), _LIVE + int(slices.sum()))

    return run


def _double() -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax


def cube(problem: Problem) -> Callable[[Any], Any]:
    """From the unit cube to the prior."""
    groups = problem.grouped()
    if len(groups) == 1:
        return groups[0][0].quantile

    def transform(u: Any) -> Any:
        x = np.empty_like(u)
        for prior, at in groups:
            x[..., at] = prior.quantile(u[..., at])
        return x

    return transform


def finite(problem: Problem, lowest: float = -np.inf) -> Callable[[Any], Any]:
    """The log likelihood with a number in place of NaN and of minus infinity."""

    def log_likelihood(t: Any) -> Any:
        with np.errstate(all="ignore"):
            value = np.asarray(problem.log_likelihood(np, t))
        return np.where(value > -np.inf, value, lowest)

    return log_likelihood


#: package -> what it needs beside this one, how its runs are made
PACKAGES: dict[str, tuple[str, Callable[[Problem], Run]]] = {
    OWN: ("", ours),
    "evidence, coarse": ("", lambda problem: ours(problem, effort="frugal", target_se=0.2)),
    "evidence, gradient": ("jax", lambda problem: ours(problem, gradient=True)),
    "dynesty": ("dynesty", dynesty),
    "UltraNest": ("ultranest", ultranest),
    "nautilus": ("nautilus", nautilus),
    "BlackJAX": ("blackjax", blackjax),
}


# -- processes ------------------------------------------------------------------------------------


@cache
def _ready(problem: str, who: str) -> Run:
    """In a package's process: imported and compiled."""
    return PACKAGES[who][1](made(problem))


@cache
def _compiled(who: str) -> Answer:
    """This package's own code is compiled when it first runs, in two dimensions as in many."""
    return _ready(FEW[0], who)(0, GRACE)


def _prepared(problem: str, who: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        _ready(problem, who)
        if who.startswith(OWN):
            _compiled(who)


def _timed(problem: str, who: str, seed: int, seconds: float) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()):
        run, started = _ready(problem, who), time.perf_counter()
        answer = run(seed, seconds)
    return answer._asdict() | {"seconds": time.perf_counter() - started, "failure": ""}


class Processes:
    """One for each package, until it is ended for taking too long."""

    def __init__(self) -> None:
        self._pools: dict[str, Any] = {}

    def measure(self, problem: str, who: str, seed: int, seconds: float) -> dict[str, Any]:
        if who not in self._pools:
            self._pools[who] = multiprocessing.get_context("spawn").Pool(1)
        pool = self._pools[who]
        try:
            pool.apply_async(_prepared, (problem, who)).get(seconds + 6.0 * GRACE)
            return pool.apply_async(_timed, (problem, who, seed, seconds)).get(seconds + GRACE)
        except multiprocessing.TimeoutError:
            self._pools.pop(who).terminate()
            failure = f"no answer within {seconds:g} s"
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"[:200]
        blank = Answer(math.nan, math.nan, 0)
        return blank._asdict() | {"seconds": seconds, "failure": failure}

    def close(self) -> None:
        for pool in self._pools.values():
            pool.terminate()


# -- tables ---------------------------------------------------------------------------------------


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    """With columns that say whether there is an answer, and whether it is wrong and silent."""
    error = (rows.logz - rows.truth).abs()
    wrong = error > _WRONG * np.hypot(rows.se, rows.truth_se) + _ROUNDING
    answered = np.isfinite(rows.logz) & np.isfinite(rows.se)
    silent = wrong & answered & rows.told.isna()
    return rows.assign(answered=answered, wrong=wrong & answered, silent=silent)


def by_problem(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each problem and package; a problem with an unanswered seed has no error."""
    groups = judged(rows).groupby(["problem", "package"], sort=False)
    table = groups.agg(
        runs=("seed", "size"), answered=("answered", "all"), mean_error=("error", "mean"),
        square=("error", lambda error: np.mean(error**2)), se=("se", "mean"),
        seconds=("seconds", "mean"), evaluations=("evaluations", "mean"),
        wrong=("wrong", "sum"), silent=("silent", "sum"),
    ).reset_index()  # fmt: skip
    table["work"] = (table.square * table.seconds).where(table.answered, np.inf)
    table["calls"] = (table.square * table.evaluations).where(table.answered, np.inf)
    return table


def summary(table: pd.DataFrame, own: str) -> pd.DataFrame:
    """How often ``own`` is ahead of each rival, and by what factor in the median."""
    mine = table[table.package == own].set_index("problem")
    rows = []
    for who, theirs in table[~table.package.str.startswith(OWN)].groupby("package", sort=False):
        theirs = theirs.set_index("problem")
        common = mine.index.intersection(theirs.index)
        a, b = mine.loc[common], theirs.loc[common]
        with np.errstate(invalid="ignore"):  # neither has an answer
            factors = {key: (b[key] / a[key]).dropna() for key in ("work", "calls")}
        rows.append(
            {
                "package": own, "rival": who, "problems": common.size,
                "unanswered": int((~b.answered).sum()), "wrong": int(b.wrong.sum()),
                "own_unanswered": int((~a.answered).sum()), "own_silent": int(a.silent.sum()),
                "ahead_seconds": (factors["work"] > 1.0).mean(),
                "factor_seconds": factors["work"].median(),
                "ahead_evaluations": (factors["calls"] > 1.0).mean(),
                "factor_evaluations": factors["calls"].median(),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def installed(package: str) -> bool:
    return not package or importlib.util.find_spec(package) is not None


def parse(arguments: list[str] | None = None) -> Namespace:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=None)
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=120.0, help="for one run of one package")
    options = parser.parse_args(arguments)
    options.only = options.only or (FEW if options.fast else list(PROBLEMS))
    if options.fast:
        options.seeds = 1
    return options


def main() -> None:
    options = parse()
    there = [who for who in options.packages if installed(PACKAGES[who][0])]
    for who in options.packages:
        if who not in there:
            print(f"{who}: {MISSING}")
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # of processes
    processes = Processes()

    def run(problem: str, who: str, seed: int) -> list[dict[str, Any]]:
        case = made(problem)
        row = {"problem": problem, "package": who, "seed": seed, "dim": case.dim}
        row |= processes.measure(problem, who, seed, options.seconds)
        row |= {"truth": case.truth, "truth_se": case.truth_se, "error": row["logz"] - case.truth}
        print(
            "{problem:24s} {package:18s} {seed} {error:+9.4f} ± {se:<7.4f} {seconds:7.2f} s "
            "{evaluations:>9d} {told} {failure}".format(**row), flush=True,
        )  # fmt: skip
        return [row]

    cases = [(p, who, s) for s in range(options.seeds) for p in options.only for who in there]
    try:
        rows = laboratory.kept(
            options.out / "runs.csv", ["problem", "package", "seed"], cases, run
        )
    finally:
        processes.close()
    table = by_problem(rows)
    laboratory.save_table(table, options.out, NAME)
    owns = [who for who in table.package.unique() if who.startswith(OWN)]
    ahead = pd.concat([pd.DataFrame(), *(summary(table, own) for own in owns)])
    print(ahead.round(3).to_string(index=False))
    laboratory.save_table(ahead, options.out, f"{NAME}_summary")


if __name__ == "__main__":
    main()
