"""Every figure and table, one script after the other.

    python scripts/run_all.py --fast
    python scripts/run_all.py --out results --only figure2_logz_vs_time rivals

The fast mode takes minutes, needs no data and checks that all scripts run; the full mode takes
hours and the research data (EVIDENCE_DATA=folder). Each script writes into a folder of its own;
what it prints is there as log.txt.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import laboratory

SCRIPTS = (
    "explicit_rmhmc",  # the longest first
    "figure2_logz_vs_time",
    "figure1_trajectories",
    "agrad_tables",
    "calibration",
    "scaling",
    "kuss_rasmussen_grid",
    "agrad_figure4",
    "rivals",
    "tilting",
)
HERE = Path(__file__).parent


def run(name: str, fast: bool, out: Path) -> tuple[str, int, float]:
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(HERE / f"{name}.py"), "--out", str(folder)]
    started = time.perf_counter()
    with (folder / "log.txt").open("w") as log:
        # one thread each: scripts run side by side, and two threads of BLAS lose to one
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        code = subprocess.run(
            command + ["--fast"] * fast, stdout=log, stderr=subprocess.STDOUT,
            env=os.environ | threads, check=False,
        ).returncode  # fmt: skip
    return name, code, time.perf_counter() - started


def main() -> int:
    parser = laboratory.parser(__doc__, "")
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=SCRIPTS)
    parser.add_argument("--jobs", type=int, help="scripts at a time (fast: 2; full: 1)")
    options = parser.parse_args()
    jobs = options.jobs or (2 if options.fast else 1)  # full runs measure time: alone
    failed = []
    with ThreadPoolExecutor(jobs) as pool:
        tasks = [pool.submit(run, name, options.fast, options.out) for name in options.only]
        for task in tasks:
            name, code, seconds = task.result()
            print(f"{name:<24} {seconds:7.1f} s  {'ok' if code == 0 else 'FAILED'}", flush=True)
            if code:
                failed.append(name)
                print((options.out / name / "log.txt").read_text()[-3000:])
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
