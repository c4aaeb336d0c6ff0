"""Every figure and table, one script after the other.

    python scripts/run_all.py --fast
    python scripts/run_all.py --out results --only figure2_logz_vs_time compare

The fast mode takes minutes, needs no data and checks that all scripts run; the full mode takes
hours and the research data (EVIDENCE_DATA=folder). Each script writes into a folder of its own;
what it prints is there as log.txt. Not run: what needs another package that is not installed.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a file, this is no part of a package
from scripts import laboratory  # noqa: E402

#: the longest first, and what a script needs beside this package
SCRIPTS = {
    "papers.explicit_rmhmc": "",
    "papers.figure2_logz_vs_time": "",
    "papers.figure1_trajectories": "",
    "papers.agrad_tables": "",
    "benchmarks.calibration": "",
    "benchmarks.scaling": "",
    "papers.kuss_rasmussen_grid": "",
    "papers.agrad_figure4": "",
    "rivals.compare": "",
    "rivals.densities": "",
    "benchmarks.tilting": "",
    "benchmarks.truths_at_dimension": "",
    "papers.explicit_binding": "",
    "papers.hyper_tables": "",
    "papers.mnist_traces": "",
    "benchmarks.bidirectional": "",
    "benchmarks.beyond_elbos": "",
    "benchmarks.bridge": "",
    "benchmarks.calibrated_models": "",
    "benchmarks.coverage": "",
    "benchmarks.density_truths": "",
    "benchmarks.first_calls": "",
    "benchmarks.formulas": "",
    "benchmarks.large_predictors": "",
    "benchmarks.likelihoods": "",
    "benchmarks.limits": "",
    "published.evidences": "",
    "published.limits": "",
    "published.samplers": "",
    "published.tempered": "",
    "benchmarks.necks": "",
    "benchmarks.neural_network_widths": "jax",
    "benchmarks.policy_fields": "",
    "benchmarks.predictors": "",
    "benchmarks.random_densities": "",
    "benchmarks.random_hyperparameters": "",
    "benchmarks.reference_table": "",
    "benchmarks.rmhmc_speed": "",
    "benchmarks.saplings": "",
    "benchmarks.sparse_scaling": "",
    "benchmarks.sparse_truths": "",
    "benchmarks.step_cost": "",
    "benchmarks.submodels": "",
    "benchmarks.work_normalised": "",
    "rivals.estimator_vs_sklearn": "",
    "rivals.mgrad_vs_blackjax": "blackjax",
    "rivals.rmhmc_vs_mici": "mici",
    "rivals.sparse": "",
    "rivals.formulas": "",
}
#: runs what the first argument names as ``python -m`` does
_FRUGAL = """import runpy, sys
from evidence.approximations.density.policy import EFFORTS
EFFORTS["normal"] = EFFORTS["frugal"]  # searches, which --fast only brings to their end
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)"""
_LAST = Counter(script.rpartition(".")[2] for script in SCRIPTS)
#: scripts by their last name, or by all of it where two share that
NAMES = {s if _LAST[last := s.rpartition(".")[2]] > 1 else last: s for s in SCRIPTS}


def run(name: str, fast: bool, out: Path) -> tuple[str, int, float]:
    folder = (out / name).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *(["-c", _FRUGAL] if fast else ["-m"])]
    command += [f"scripts.{NAMES[name]}", "--out", str(folder)]
    started = time.perf_counter()
    with (folder / "log.txt").open("w") as log:
        # one thread each: scripts run side by side, and two threads of BLAS lose to one
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        code = subprocess.run(
            command + ["--fast"] * fast, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT,
            env=os.environ | threads, check=False,
        ).returncode  # fmt: skip
    return name, code, time.perf_counter() - started


def installed(package: str) -> bool:
    return not package or importlib.util.find_spec(package) is not None


def main() -> int:
    parser = laboratory.parser(__doc__, "")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--jobs", type=int, help="scripts at a time (fast: 2; full: 1)")
    options = parser.parse_args()
    jobs = options.jobs or (2 if options.fast else 1)  # full runs measure time: alone
    needs = {name: SCRIPTS[NAMES[name]] for name in options.only}
    missing = {name: package for name, package in needs.items() if not installed(package)}
    todo = [name for name in options.only if name not in missing]
    failed = []
    with ThreadPoolExecutor(jobs) as pool:
        tasks = [pool.submit(run, name, options.fast, options.out) for name in todo]
        for task in tasks:
            name, code, seconds = task.result()
            print(f"{name:<24} {seconds:7.1f} s  {'ok' if code == 0 else 'FAILED'}", flush=True)
            if code:
                failed.append(name)
                print((options.out / name / "log.txt").read_text()[-3000:])
    for name, package in missing.items():
        print(f"{name:<24} not run: {package} is not installed")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
