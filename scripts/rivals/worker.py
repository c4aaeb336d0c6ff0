"""Runs one rival in its own Python: seeds come in, a line of JSON goes out for each.

    echo 0 | python worker.py blackjax_smc problem.npz '{"kernel": "hmc", "base": "ep", …}'

Times are those of whole runs, with the time to find the Gaussian that they start from; the first
of a process holds compilation too.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import sys
import time
import warnings
from pathlib import Path

from problem import load


def main() -> None:
    module, file, settings = sys.argv[1:]
    lines, words = sys.stdout, json.loads(settings)
    with contextlib.redirect_stdout(sys.stderr):  # what rivals print is not ours
        warnings.simplefilter("ignore")
        problem = load(file)
        sys.path.append(str(Path(__file__).parent / "packages"))
        rival = importlib.import_module(module)
        before = problem.bases[words["base"]].seconds if "base" in words else 0.0
        print(json.dumps({"version": rival.VERSION}), file=lines, flush=True)
        for seed in map(int, sys.stdin):
            clock, cpu = time.perf_counter(), time.process_time()
            logz, se = rival.run(problem, words, seed)
            told = {
                "seed": seed,
                "logz": float(logz),
                "stated_se": None if math.isnan(se) else float(se),
                "seconds": before + time.perf_counter() - clock,
                "cpu_seconds": before + time.process_time() - cpu,
            }
            print(json.dumps(told), file=lines, flush=True)


if __name__ == "__main__":
    main()
