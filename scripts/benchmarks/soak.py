"""A soak: what must hold whatever happens to a run, for as long as one likes.

    python -m scripts.benchmarks.soak --minutes 60
    python -m scripts.benchmarks.soak --again 17

Random models whose evidence is exact, random methods and executors; runs are repeated, killed,
cut short, interrupted, resumed, robbed of a worker, and files of results and checkpoints are read
with a flipped bit. Whatever happens, a run ends, ends with the same bits, and is not wrong without
a warning. The first table counts what did not: it is all zeros. The second counts what was done
to runs, beside what a release asks for. ``--out`` keeps the counts: the same command adds to them.
"""

from __future__ import annotations

import hashlib
import json
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
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import multivariate_normal

import evidence as ev
from evidence.execution import files
from scripts import laboratory

NAME = "soak"
LIMIT = 120.0  # seconds after which a run hangs,
SOON = 20.0  # and after ^C
SLOW = 10.0  # and after which a case is not repeated two dozen times
FAR = 7.0  # standard errors: less than one false alarm in ten thousand, from twelve islands
COUNTS = ["hangs", "errors", "other bits", "silent"]
GOALS = {"kills": 300, "interrupts": 300, "cuts": 100, "executors": 6, "flips": 20_000}
FLIPS = 150  # of each file
POOLS = ["threads", "fork", "robbed", "forkserver", "spawn", "dask"]
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
    struck: bool = False  # a signal found it running


# -- models whose evidence is exact -----------------------------------------------------------


def random_case(rng: np.random.Generator) -> Case:
    kind = [orthant, coins, regression, density][rng.integers(4)]
    about, model, truth, methods = kind(rng)
    seed, method = int(rng.integers(2**31)), str(rng.choice([*methods, "sample"]))
    words: dict[str, Any] = {"random_seed": seed, "progressbar": False}
    if method == "sample":
        words |= {"draws": int(rng.integers(20, 400)), "tune": int(rng.integers(400))}
        return Case(f"{about}, sample, seed {seed}", partial(ev.sample, model, **words), None)
    size = int(rng.integers(32, 128)) // (8 if method == "pt" else 1)  # of pt they are ensembles
    words |= {"method": method, "n_particles": size}
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
    struck = bool(send) and not ours.poll(after)
    if struck:
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
    return ended._replace(struck=struck)


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
    if pool == "dask":
        from distributed import Client

        with Client(processes=False, n_workers=2, dashboard_address=None) as client:
            return case.call(executor=client.get_executor(), **words)
    start = multiprocessing.get_context("fork" if pool == "robbed" else pool)
    with ProcessPoolExecutor(2, mp_context=start) as processes:
        if pool == "robbed":
            threading.Thread(target=_rob, daemon=True).start()
        return case.call(executor=processes, **words)


def _rob() -> None:
    """Kill a worker, once there is one."""
    while not (workers := multiprocessing.active_children()):
        time.sleep(0.01)
    workers[0].kill()


def _flipped(file: Path, read: Callable[[Path], str], seed: int, answer: Any) -> None:
    """Read the file with one bit flipped, many times: refused, or with the digest that it has."""
    content, whole, rng = file.read_bytes(), read(file), np.random.default_rng(seed)
    damaged, silent = file.with_suffix(".flip"), 0
    for bit in rng.integers(8 * len(content), size=FLIPS).tolist():
        bits = bytearray(content)
        bits[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(bits)
        with suppress(ev.InputError):
            silent += read(damaged) != whole
    answer.send(Ended("done", bits=str(silent)))


def flip(file: Path, read: Callable[[Path], str], seed: int) -> Ended:
    """:func:`_flipped` in a child: how many damaged files were taken for sound ones."""
    ours, theirs = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_flipped, args=(file, read, seed, theirs))
    child.start()
    theirs.close()
    try:
        ended = ours.recv() if ours.poll(LIMIT) else Ended("hangs")
    except EOFError:
        ended = Ended("an error, printed above")
    child.kill()
    child.join()
    return ended


def _of_checkpoint(file: Path) -> str:
    meta, arrays = files.read(file, "evidence-checkpoint", 1)
    digest = hashlib.sha256(json.dumps(meta).encode())
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _of_result(file: Path) -> str:
    result = ev.load(file)
    return _summary(result).bits + repr(result.settings) + repr(result.warnings)


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


class Row(NamedTuple):
    """What was done to a run, how often, what was wrong (or nothing), and more about it."""

    what: str
    wrong: str
    about: str
    runs: int = 1
    kills: int = 0
    interrupts: int = 0
    cuts: int = 0
    flips: int = 0
    executor: str = ""


def trials(case: Case, rng: np.random.Generator, folder: Path) -> list[Row]:
    """Everything that may happen to one case."""
    began = time.perf_counter()
    whole = run(case)
    seconds = time.perf_counter() - began
    rows: list[Row] = []

    def note(
        what: str,
        ended: Ended,
        known: tuple[str, ...] = ("done",),
        same: bool = True,
        **done_to_it: Any,
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
        about = f"{ended.how} {ended.logz} ± {ended.se}, {case.truth}"
        rows.append(Row(what, wrong, about, **done_to_it))

    note("whole", whole)
    if whole.how != "done" or seconds > SLOW:
        return rows
    moments = partial(rng.uniform, 0.0, seconds)
    broken, file = ("done", "interrupted"), folder / "run.ckpt"
    if case.truth is not None:
        for pool in [*POOLS[:3], str(rng.choice(POOLS[3:]))]:
            note(pool, run(case, pool=pool), executor=pool)
    for _ in range(2):
        file.unlink(missing_ok=True)
        struck = sum(
            run(case, (signal.SIGKILL,), moments(), checkpoint=file).struck for _ in range(2)
        )
        note("killed, resumed", run(case, checkpoint=file), kills=struck)
    archives = [("flips, result", save(case, folder), _of_result)]
    if file.exists():  # closed forms leave nothing to go on from
        archives.append(("flips, checkpoint", file, _of_checkpoint))
    for about, written, read in archives:
        ended = flip(written, read, int(rng.integers(2**31)))
        wrong = "silent" if ended.bits not in ("", "0") else ""
        wrong = wrong if ended.how == "done" else "hangs" if ended.how == "hangs" else "errors"
        rows.append(Row(about, wrong, f"{ended.how} {ended.bits}", flips=FLIPS))
    if file.exists():
        content = bytearray(file.read_bytes())
        bit = int(rng.integers(8 * len(content)))
        content[bit // 8] ^= 1 << bit % 8
        file.write_bytes(content)
        note("damaged", run(case, checkpoint=file), ("done", "refused"), flips=1)
    for _ in range(2):
        file.unlink(missing_ok=True)
        cut = run(case, checkpoint=file, max_seconds=moments())
        if "RuntimeError" not in cut.how:  # chains without a draw
            note("cut", cut, same=False, cuts=1)
        note("cut, resumed", run(case, checkpoint=file))
    for signals in [(signal.SIGINT,), (signal.SIGINT,) * 2] * 2:
        file.unlink(missing_ok=True)
        ended = run(case, signals, moments(), SOON, checkpoint=file)
        note("^C" * len(signals), ended, broken, interrupts=int(ended.struck))
        note("^C, resumed", run(case, checkpoint=file))
    return rows


def save(case: Case, folder: Path) -> Path:
    """A result's file, written by a child: compiled threads and forks do not mix."""
    file = folder / "result.npz"
    child = FORK.Process(target=lambda: case.call().save(file))
    child.start()
    child.join()
    return file


def main() -> int:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=int, help="this case alone, kept nowhere")
    options = parser.parse_args()
    seconds = 20.0 if options.fast else 60.0 * options.minutes
    kept, began = options.out / f"{NAME}_runs.csv", time.perf_counter()
    number = options.again if options.again is not None else _next(kept)
    while True:
        rng = np.random.default_rng([options.seed, number])
        case = random_case(rng)
        with tempfile.TemporaryDirectory() as folder:
            rows = pd.DataFrame(trials(case, rng, Path(folder)))
        for row in rows[rows["wrong"] != ""].itertuples():
            print(f"--seed {options.seed} --again {number}: {row.what}: {row.wrong}: {case.about}")
            print(row.about, flush=True)
        if options.again is not None:
            return int((rows["wrong"] != "").any())
        kept.parent.mkdir(parents=True, exist_ok=True)
        rows.drop(columns="about").assign(case=number).to_csv(
            kept, mode="a", header=not kept.exists(), index=False
        )
        number += 1
        if time.perf_counter() - began > seconds:
            break
    return report(pd.read_csv(kept, keep_default_na=False), options.out)


def _next(kept: Path) -> int:
    return 1 + int(pd.read_csv(kept)["case"].max()) if kept.exists() else 0


def report(rows: pd.DataFrame, out: Path) -> int:
    """The two tables; whether there was anything wrong."""
    wrong = pd.DataFrame({name: (rows["wrong"] == name).astype(int) for name in COUNTS})
    table = pd.concat([rows[["what", "runs"]], wrong], axis=1)
    table = table.groupby("what", sort=False).sum().reset_index()
    print(f"{rows['case'].nunique()} cases, {len(rows)} runs")
    print(table.to_string(index=False))
    seen = {name: int(rows[name].sum()) for name in ("kills", "interrupts", "cuts", "flips")}
    seen["executors"] = rows.loc[rows["executor"] != "", "executor"].nunique()
    print("\n" + "\n".join(f"{name:<12}{seen[name]:>8} of {GOALS[name]}" for name in GOALS))
    laboratory.save_table(table, out, NAME)
    return int(wrong.to_numpy().any())


if __name__ == "__main__":
    sys.exit(main())
