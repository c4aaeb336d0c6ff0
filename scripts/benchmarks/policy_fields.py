"""What every threshold of a search of densities is worth: each moved by 0.7 and 1.4, alone.

    python -m scripts.benchmarks.policy_fields --jobs 2
    python -m scripts.benchmarks.policy_fields --fields screened least --seeds 3
    python -m scripts.benchmarks.policy_fields --fields fruitless last --cases 96 508 539

A row is a field and a factor: of twenty random densities (scripts/catalogue) how many are right
without a warning, the root mean square of z, how many answers are other numbers than those of the
policy as it is, and evaluations and CPU seconds relative to it. A field of which no answer knows
could go. It goes on where it ended.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd

import evidence as ev
from evidence.approximations.density import policy
from scripts import laboratory
from scripts.benchmarks.random_densities import normal_z, verdict
from scripts.catalogue import random_density

NAME = "policy_fields"
FIELDS = tuple(f.name for f in fields(policy.Policy))
_FACTORS = (0.7, 1.4)
#: of fourteen kinds in five dresses, in 1 to 7 dimensions: a second or two each
CASES = (
    96, 97, 99, 106, 109, 112, 115, 118, 121, 124,
    131, 137, 502, 508, 514, 515, 530, 533, 534, 539,
)  # fmt: skip


def moved(field: str, factor: float) -> policy.Policy:
    """The policy with one field moved; of copies their width, of tuples every number."""
    value = getattr(policy.NORMAL, field)
    if field == "copies":
        value = tuple((v if v == 1.0 else factor * v, share) for v, share in value)
    else:
        value = _scaled(value, factor)
    return replace(policy.NORMAL, **{field: value})


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_scaled(one, factor) for one in value)
    return max(round(factor * value), 1) if isinstance(value, int) else factor * value


def run(field: str, factor: float, case: int, seed: int) -> dict[str, Any]:
    """One density under one policy."""
    policy.EFFORTS["normal"] = moved(field, factor) if field else policy.NORMAL
    row = {"field": field, "factor": factor, "case": case, "seed": seed}
    problem, started = random_density(case), time.process_time()
    with ThreadPoolExecutor(1) as one:  # jobs have a core each
        result = ev.log_evidence(problem.model, random_seed=seed, executor=one, progressbar=False)
    error = result.logz - problem.truth
    se = float(np.hypot(result.logz_se, problem.truth_se))
    row |= {
        "failure": "", "error": error, "truth_se": problem.truth_se, "se": result.logz_se,
        "z": normal_z(error, se, result.islands.size), "warnings": len(result.warnings),
    }  # fmt: skip
    evaluations = sum(result.evaluations.values())
    return row | {"evaluations": evaluations, "seconds": time.process_time() - started}


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each field and factor; the first one is the policy as it is."""
    rows = rows.assign(
        right=[verdict(row) == "right" for row in rows.to_dict("records")],
        key=list(zip(rows.case, rows.seed, strict=True)),
    )
    usual = rows[rows.field == ""].set_index("key")
    table = []
    for (field, factor), own in rows.groupby(["field", "factor"], sort=False):
        own = own.set_index("key")
        before = usual.loc[own.index]
        quiet = own.z[own.warnings == 0]
        table.append({
            "field": field or "as it is", "factor": factor, "runs": len(own),
            "right": int(own.right.sum()), "rms_z": np.sqrt(np.mean(quiet**2)),
            "other_answers": int((own.error != before.error).sum()),
            "evaluations": own.evaluations.sum() / before.evaluations.sum(),
            "seconds": own.seconds.sum() / before.seconds.sum(),
        })  # fmt: skip
    return pd.DataFrame(table)


def wanted(options: Namespace) -> list[tuple[str, float, int, int]]:
    variants = [("", 1.0), *((field, f) for field in options.fields for f in _FACTORS)]
    cases = options.cases[:1] if options.fast else options.cases
    return [(*v, case, seed) for v in variants for case in cases for seed in range(options.seeds)]


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--fields", nargs="+", choices=FIELDS, default=list(FIELDS))
    parser.add_argument("--cases", type=int, nargs="+", default=CASES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.fast:
        options.fields = ["judged"]
    file, keys = options.out / "runs.csv", ["field", "factor", "case", "seed"]
    options.out.mkdir(parents=True, exist_ok=True)
    rows = pd.read_csv(file, keep_default_na=False).to_dict("records") if file.exists() else []
    done = {tuple(row[key] for key in keys) for row in rows}
    todo = [task for task in wanted(options) if task not in done]
    with ProcessPoolExecutor(options.jobs) as pool:
        tasks = [pool.submit(run, *task) for task in todo]
        for task in laboratory.progress(as_completed(tasks), len(tasks)):
            rows.append(task.result())
            pd.DataFrame(rows).to_csv(file, index=False)
    order = {task: k for k, task in enumerate(wanted(options))}
    rows.sort(key=lambda row: order.get(tuple(row[key] for key in keys), len(order)))
    table = summary(pd.DataFrame(rows))
    print(table.to_string(index=False, float_format="{:.3g}".format))
    laboratory.save_table(table, options.out, NAME)


if __name__ == "__main__":
    sys.exit(main())
