"""Riemannian HMC: time per transition against the literal pseudo-code, and against each other.

    python -m scripts.benchmarks.rmhmc_speed --data heart usps-hard

First the implicit generalised leapfrog (ε = 0.1, L = 10, β = 1, one thread) from the same states
with the same momenta as the report's Algorithms 1-4 with five fixed-point iterations; then
accepted moves per second of the implicit, midpoint and explicit integrators.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import evidence as ev
from evidence import moves
from evidence.moves.riemannian import OK
from evidence.moves.riemannian.separable import leapfrog
from evidence.moves.riemannian.separable.system import Systems, momentum_at
from evidence.numerics import threads as rows
from scripts import laboratory
from scripts.laboratory import research_model
from scripts.papers.literal import report

NAME = "rmhmc_speed"
EPS, STEPS, LITERAL_F_MAX, CONVERGED_F_MAX = 0.1, 10, 5, 40


def against_the_report(path: ev.Path, repeats: int) -> list[dict[str, float]]:
    """Seconds per transition, this package and the literal pseudo-code, side by side."""
    t, n = Systems(path).make(), path.n
    fixed, rng = report.constants(path.reference, 1.0), np.random.default_rng(0)
    x = path.mean + rng.standard_normal(n) @ path.coordinates("base").T.T
    found: list[dict[str, float]] = []
    ratios, tolerances = [], (1e-9, 1e-6)
    leapfrog.trajectory(t, 1.0, EPS, 1, x.copy(), np.zeros(n), tolerances)  # compile
    print("   ours (s)  literal (s)  ratio   energy error: ours  literal  converged   |Δx|")
    for repeat in range(repeats):
        p = np.empty(n)
        momentum_at(t, 1.0, x, rng.standard_normal((2, n)), p)
        x_end, p_end = x.copy(), p.copy()
        started = time.perf_counter()
        before, after, code, _ = leapfrog.trajectory(t, 1.0, EPS, STEPS, x_end, p_end, tolerances)
        ours = time.perf_counter() - started
        started = time.perf_counter()
        _, _, H0, H1 = report.rmhmc_proposal(x, p, STEPS, EPS, LITERAL_F_MAX, fixed)
        literal = time.perf_counter() - started
        ratios.append(literal / ours)
        found.append({"ours": ours, "literal": literal, "ratio": ratios[-1]})
        line = f"{ours:10.3f} {literal:11.3f} {literal / ours:8.1f} {before - after:+18.5f} "
        line += f"{H1 - H0:+10.5f}"
        if repeat == 0:
            slow = report.rmhmc_proposal(x, p, STEPS, EPS, CONVERGED_F_MAX, fixed)
            line += f" {slow[3] - slow[2]:+10.5f} {np.abs(slow[0] - x_end).max():9.1e}"
        print(line, "" if code == OK else f"code {code}")
        if code == OK:
            x = x_end
    print(f"   median ratio {np.median(ratios):.1f}, smallest {min(ratios):.1f}")
    return found


def side_by_side(path: ev.Path, m: int, repeats: int) -> list[dict[str, object]]:
    """Accepted moves per second and distance travelled, for a few settings of each."""
    candidates = [
        moves.RMHMC(0.1, n_leapfrog=10),
        moves.RMHMC(0.3, n_leapfrog=5),
        moves.MidpointRMHMC(0.3, n_leapfrog=5),
        *(
            moves.ExplicitRMHMC(eps, n_leapfrog=round(1.0 / eps), omega=omega, sigma=sigma)
            for eps in (0.1, 0.05, 0.02)
            for omega, sigma in ((5.0, 0.03), (10.0, 0.01), (20.0, 0.01))
        ),
    ]
    print("   move                ε   L    Ω     σ  accept  failed  accepted/s  ESJD/s")
    found: list[dict[str, object]] = []
    for candidate in candidates:
        move = replace(candidate, jitter=0.0)
        rng = np.random.default_rng(1)
        state = move.init_reference(rng, path, m)
        move.step(rng, path, 1.0, moves.take(state, np.arange(1)))
        accepted, failed, jump, started = 0.0, 0, 0.0, time.perf_counter()
        for _ in range(repeats):
            new, info = move.step(rng, path, 1.0, state)
            scaled = (new.x - state.x) / np.sqrt(path.reference.var)
            jump += float(np.mean(scaled**2)) * m
            accepted += float(info.acceptance.sum())
            failed += info.failures
            state = new
        seconds = time.perf_counter() - started
        binding = f"{getattr(move, 'omega', np.nan):5.0f} {getattr(move, 'sigma', np.nan):5.2f}"
        print(
            f"   {move.name:16} {move.step_size:4.2f} {move.n_steps:3d} {binding} "
            f"{accepted / (m * repeats):7.2f} {failed:7d} {accepted / seconds:11.3f} "
            f"{jump / seconds:7.3f}"
        )
        found.append(
            {
                "move": move.name,
                "eps": move.step_size,
                "steps": move.n_steps,
                "omega": getattr(move, "omega", None),
                "sigma": getattr(move, "sigma", None),
                "acceptance": accepted / (m * repeats),
                "failed": failed,
                "accepted_per_s": accepted / seconds,
                "jump_per_s": jump / seconds,
            }
        )
    return found


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--data", nargs="+", default=["heart", "usps-hard"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=4)
    options = parser.parse_args()
    if options.fast:
        options.data, options.repeats, options.rows = ["simulated"], 1, 1
    first, second = [], []
    for name in options.data:
        model = laboratory.simulated_model() if options.fast else research_model(name)
        path = ev.Path(ev.fit_ep(model))
        path.coordinates("base")
        with threadpool_limits(1, user_api="blas"), rows.single():
            print(f"{name}: implicit leapfrog against the literal pseudo-code")
            first += [{"data": name} | row for row in against_the_report(path, options.repeats)]
            print(f"{name}: integrators, one thread, {options.rows} rows")
            moved = side_by_side(path, options.rows, options.repeats)
            second += [{"data": name} | row for row in moved]
    laboratory.save_table(pd.DataFrame(first), options.out, f"{NAME}_report")
    laboratory.save_table(pd.DataFrame(second), options.out, f"{NAME}_integrators")


if __name__ == "__main__":
    main()
