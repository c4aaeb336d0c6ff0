r"""dynesty and nautilus on the densities of the published table.

    pip install dynesty==3.1.0 nautilus-sampler==1.0.6
    EVIDENCE_DATA=folder python -m scripts.published.samplers --seconds 300

*dynesty*: its defaults (500 live points, bounds and moves of its choice). *nautilus*: 2,000
live points, 10,000 effective draws, the exploration discarded, without which it is not unbiased.
Both take the unit cube, nautilus in batches; one process of one thread, which is ended at
--seconds. Seconds are the processor's. Every run is on disk at once, in samplers.csv: one that is
there is not repeated.
"""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from scripts import laboratory
from scripts.catalogue.problem import Problem
from scripts.published import densities, planets
from scripts.published.evidences import MORE_PLANETS, PLANETS
from scripts.published.rows import had, research
from scripts.rivals.densities import cube, dynesty, finite

NAME = "samplers"
_LIVE, _EFFECTIVE = 2000, 10_000
_SETTINGS = {
    "dynesty": "500 live points, defaults",
    "nautilus": f"{_LIVE} live points, {_EFFECTIVE} effective draws, exploration discarded",
}
_GRACE = 20.0  # seconds to import packages


@cache
def problem(name: str) -> tuple[Problem, float, float]:
    """With what is known of log Z."""
    if name.startswith("EPRV3"):
        number, n = int(name.split()[2][0]), int(name.split()[3])
        value, se = MORE_PLANETS.get((number, n), (PLANETS[number][min(n, 1)], 0.006))
        return planets.problem(research("published/eprv3"), number, n), value, se
    made = densities.problems()[name][1]()
    return made, made.truth, made.truth_se


def nautilus(one: Problem, seed: int, seconds: float) -> tuple[float, float, int, str]:
    from nautilus import Sampler

    sampler = Sampler(
        cube(one), finite(one), n_dim=one.dim, n_live=_LIVE, vectorized=True, seed=seed
    )
    done = sampler.run(n_eff=_EFFECTIVE, discard_exploration=True, timeout=seconds, verbose=False)
    se = 1.0 / math.sqrt(max(float(sampler.n_eff), 1e-12))
    return float(sampler.log_z), se, int(sampler.n_like), "" if done else "unfinished"


def _dynesty(one: Problem, seed: int, seconds: float) -> tuple[float, float, int, str]:
    return dynesty(one)(seed, seconds)[:4]


RUNS: dict[str, Callable[[Problem, int, float], tuple[float, float, int, str]]] = {
    "dynesty": _dynesty, "nautilus": nautilus,
}  # fmt: skip


def _work(end: Connection, name: str, who: str, seed: int, seconds: float) -> None:
    warnings.simplefilter("ignore")
    one, *_ = problem(name)
    with open(os.devnull, "w") as nothing:
        sys.stdout = nothing
        started = time.process_time()
        found = RUNS[who](one, seed, seconds)
        end.send((*found, time.process_time() - started))


def measured(name: str, who: str, seed: int, seconds: float) -> dict[str, Any]:
    near, far = multiprocessing.Pipe()
    worker = multiprocessing.get_context("spawn").Process(
        target=_work, args=(far, name, who, seed, seconds)
    )
    worker.start()
    far.close()
    found: tuple[Any, ...] = (np.nan, np.nan, 0, "no answer", np.nan)
    try:
        if near.poll(1.2 * seconds + _GRACE):
            found = near.recv()
    except EOFError:
        found = (np.nan, np.nan, 0, "failed", np.nan)
    worker.kill()
    worker.join()
    logz, se, evaluations, told, spent = found
    _, known, known_se = problem(name)
    row = {
        "problem": name, "sampler": who, "seed": seed, "settings": _SETTINGS[who],
        "known": round(known, 3), "logz": round(logz, 3), "se": round(se, 3),
        "z": round((logz - known) / np.hypot(max(se, 1e-4), known_se), 1),
        "seconds": round(spent, 1), "evaluations": evaluations, "told": told,
    }  # fmt: skip
    print(
        "{problem:30s} {sampler:10s} {known:10.3f} {logz:10.3f} ± {se:.3f} ({z:+.1f}) "
        "{seconds:7.1f} s {evaluations:>8d} {told}".format(**row),
        flush=True,
    )
    return row


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--only", nargs="+", help="rows whose names begin so")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    narrow = [f"EPRV3 set {k}, {n} planets" for k in PLANETS for n in (0, 1)]
    names = ["eggbox"] if options.fast else [*densities.problems(), *narrow]
    names += [] if options.fast else [f"EPRV3 set {k}, {n} planets" for k, n in MORE_PLANETS]
    if options.only:
        names = [name for name in names if name.startswith(tuple(options.only))]
    there = [who for who in RUNS if importlib.util.find_spec(who)]
    for who in set(RUNS) - set(there):
        print(f"{who}: not installed")

    def run(name: str, who: str, seed: int) -> list[dict[str, Any]]:
        return [measured(name, who, seed, options.seconds)]

    names = had(names, problem)
    cases = [(name, who, seed) for seed in range(options.seeds) for name in names for who in there]
    if cases:
        laboratory.kept(options.out / f"{NAME}.csv", ["problem", "sampler", "seed"], cases, run)


if __name__ == "__main__":
    sys.exit(main())
