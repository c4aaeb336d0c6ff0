"""A soak: what must hold whatever happens to a run, for as long as one likes.

    python -m scripts.benchmarks.soak --minutes 60

Random models whose evidence is exact, random methods and executors; runs are repeated, killed,
cut short, interrupted, resumed, robbed of a worker, and given checkpoints with a flipped bit.
Whatever happens, a run ends, ends with the same bits, and is not wrong without a warning. The
table counts what did not: it is all zeros. A line for each says how to see it again.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import multivariate_normal

import evidence as ev
from scripts import laboratory

NAME = "soak"
LIMIT = 120.0  # seconds after which a run hangs,
SOON = 20.0  # and after ^C
FAR = 7.0  # standard errors: less than one false alarm in ten thousand, from twelve islands
COUNTS = ["hangs", "errors", "other bits", "silent"]
FORK = multiprocessing.get_context("fork")  # a child starts at once, with all that is compiled


class Case(NamedTuple):
    """A call whose answer is known."""

    about: str
    call: Callable[..., Any]
    truth: float | None


class Ended(NamedTuple):
    """How a run ended: done, refused, interrupted, killed, hangs or an error's text."""

    how: str
    bits: str = ""
    logz: float = np.nan
    se: float = np.nan
    interrupted: bool = False
    warned: bool = False


# -- models whose evidence is exact -----------------------------------------------------------


def random_case(rng: np.random.Generator) -> Case:
    kind = [orthant, coins, regression, density][rng.integers(4)]
    about, model, truth, methods = kind(rng)
    seed, method = int(rng.integers(2**31)), str(rng.choice([*methods, "sample"]))
    words: dict[str, Any] = {"random_seed": seed, "progressbar": False}
    if method == "sample":
        words |= {"draws": int(rng.integers(20, 400)), "tune": int(rng.integers(400))}
        return Case(f"{about}, sample, seed {seed}", partial(ev.sample, model, **words), None)
    words |= {"method": method, "n_particles": int(rng.integers(32, 128))}
    words |= {"n_islands": 12} if rng.random() < 0.7 else {"target_se": 0.1}
    call = partial(ev.log_evidence, model, **words)
    return Case(f"{about}, {method}, seed {seed}", call, truth)


ALL = ["auto", "guided", "smc", "ais", "pt", "arm", "importance"]


def orthant(rng: np.random.Generator) -> tuple[str, Any, float, list[str]]:
    """Utilities with correlations of one half: all orthants of one sign are as likely."""
    n, d = int(rng.integers(2, 25)), float(rng.uniform(0.1, 2.0))
    K, signs = (d + 1.0) * np.ones((n, n)) + d * np.eye(n), rng.choice([-1, 1], n)
    model = ev.GPModel(K=K * np.outer(signs, signs), y=signs)
    return f"orthant {n}", model, -np.log(n + 1.0), [*ALL, "orthant", "sequential"]


def coins(rng: np.random.Generator) -> tuple[str, Any, float, list[str]]:
    n = int(rng.integers(2, 25))
    model = ev.GPModel(
        K=rng.uniform(0.5, 4.0) * np.eye(n), y=rng.choice([-1, 1], n), likelihood="logit"
    )
    return f"coins {n}", model, -n * np.log(2.0), ALL


def regression(rng: np.random.Generator) -> tuple[str, Any, float, list[str]]:
    x = np.sort(rng.uniform(0.0, 6.0, int(rng.integers(5, 40))))
    K = 2.0 * np.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-6 * np.eye(x.size)
    total = multivariate_normal(np.zeros(x.size), K + 0.25 * np.eye(x.size))
    y = total.rvs(random_state=rng)
    model = ev.GPModel(K=K, y=y, likelihood="gaussian(noise_std=0.5)")
    return f"regression {x.size}", model, float(total.logpdf(y)), ALL


def density(rng: np.random.Generator) -> tuple[str, Any, float, list[str]]:
    dim = int(rng.integers(2, 6))
    example = ev.examples.gaussian(dim=dim) if rng.random() < 0.5 else ev.examples.banana()
    assert example.logz is not None
    methods = ["auto", "smc", "ais", "pt", "arm", "importance"]
    return example.about.splitlines()[0], example.model, example.logz, methods


# -- a run in a process of its own ------------------------------------------------------------


def run(
    case: Case,
    send: tuple[int, ...] = (),
    after: float = 0.0,
    limit: float = LIMIT,
    pool: str = "",
    **words: Any,
) -> Ended:
    """The case in a forked child, which is sent signals ``after`` some seconds."""
    ours, theirs = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_child, args=(case, pool, words, theirs))
    child.start()
    theirs.close()
    if send and not ours.poll(after):
        for number in send:
            os.kill(child.pid or 0, number)
            time.sleep(0.05)
    try:
        ended = ours.recv() if ours.poll(limit) else Ended("hangs")
    except EOFError:
        ended = Ended("killed")
    child.join(1.0)
    if child.is_alive():
        child.kill()
    child.join()
    return ended


def _child(case: Case, pool: str, words: dict[str, Any], answer: Any) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        answer.send(_summary(_call(case, pool, words)))
    except KeyboardInterrupt:
        answer.send(Ended("interrupted"))
    except ev.InputError as error:
        answer.send(Ended("refused", str(error)))
    except BaseException:
        answer.send(Ended(traceback.format_exc()))
    answer.close()
    os._exit(0)


def _call(case: Case, pool: str, words: dict[str, Any]) -> Any:
    if not pool:
        return case.call(**words)
    if pool == "threads":
        with ThreadPoolExecutor(3) as threads:
            return case.call(executor=threads, **words)
    with ProcessPoolExecutor(2, mp_context=FORK) as processes:
        if pool == "robbed":
            threading.Thread(target=_rob, daemon=True).start()
        return case.call(executor=processes, **words)


def _rob() -> None:
    """Kill a worker, once there is one."""
    while not (workers := multiprocessing.active_children()):
        time.sleep(0.01)
    workers[0].kill()


def _summary(result: Any) -> Ended:
    draws = isinstance(result, ev.Draws)
    arrays = [result.x, result.logtilt] if draws else [result.samples]
    numbers = [] if draws else [result.logz, result.logz_se]
    digest = hashlib.sha256(repr(numbers).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    interrupted = bool(result.settings["interrupted"])
    logz, se = numbers or (np.nan, np.nan)
    return Ended("done", digest.hexdigest(), logz, se, interrupted, bool(result.warnings))


# -- what may happen to it --------------------------------------------------------------------


def trials(case: Case, rng: np.random.Generator, folder: Path) -> list[tuple[str, str, str]]:
    """(what happened, what was wrong or nothing, more) for one case."""
    began = time.perf_counter()
    whole = run(case)
    seconds = time.perf_counter() - began
    found: list[tuple[str, str, str]] = []

    def note(
        what: str, ended: Ended, known: tuple[str, ...] = ("done",), same: bool = True
    ) -> None:
        """Judge a run that may end in these ways; with the same bits unless it was cut."""
        done, wrong = ended.how == "done" and not ended.interrupted, ""
        if ended.how == "hangs":
            wrong = "hangs"
        elif ended.how not in known:
            wrong = "errors"
        elif done and same and ended.bits != whole.bits:
            wrong = "silent" if what == "damaged" else "other bits"
        elif done and case.truth is not None and not ended.warned:
            error = abs(ended.logz - case.truth)
            wrong = "" if error < FAR * max(ended.se, 1e-6) else "silent"
        found.append((what, wrong, f"{ended.how} {ended.logz} ± {ended.se}, {case.truth}"))

    note("whole", whole)
    if whole.how != "done":
        return found
    moments = partial(rng.uniform, 0.0, seconds)
    broken = ("done", "interrupted")
    if case.truth is not None:
        for pool in ("threads", "processes", "robbed"):
            note(pool, run(case, pool=pool))
    file = folder / "run.ckpt"
    for _ in range(2):
        run(case, (signal.SIGKILL,), moments(), checkpoint=file)
    note("killed twice, resumed", run(case, checkpoint=file))
    content = bytearray(file.read_bytes())
    bit = int(rng.integers(8 * len(content)))
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    note("damaged", run(case, checkpoint=file), ("done", "refused"))
    file.unlink()
    cut = run(case, checkpoint=file, max_seconds=moments())
    if "RuntimeError" not in cut.how:  # chains without a draw
        note("cut", cut, same=False)
    note("cut, resumed", run(case, checkpoint=file))
    file.unlink()
    note("^C", run(case, (signal.SIGINT,), moments(), SOON, checkpoint=file), broken)
    note("^C ^C", run(case, (signal.SIGINT,) * 2, moments(), SOON, checkpoint=file), broken)
    note("^C, resumed", run(case, checkpoint=file))
    return found


def main() -> int:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the case to begin with")
    options = parser.parse_args()
    seconds = 20.0 if options.fast else 60.0 * options.minutes
    began, rows = time.perf_counter(), []
    number = options.first
    while time.perf_counter() - began < seconds or not rows:
        rng = np.random.default_rng([options.seed, number])
        case = random_case(rng)
        with tempfile.TemporaryDirectory() as folder:
            for what, wrong, more in trials(case, rng, Path(folder)):
                rows.append({"what": what, "runs": 1, **{name: wrong == name for name in COUNTS}})
                if wrong:
                    print(f"--seed {options.seed} --first {number}: {what}: {wrong}: {case.about}")
                    print(more, flush=True)
        number += 1
    table = pd.DataFrame(rows).groupby("what", sort=False).sum().reset_index()
    print(f"{number - options.first} cases, {len(rows)} runs")
    print(table.to_string(index=False))
    laboratory.save_table(table, options.out, NAME)
    return int(table[COUNTS].to_numpy().any())


if __name__ == "__main__":
    sys.exit(main())
