r"""Explicit Riemannian HMC (Cobb et al. 2019) again: the funnel, and trajectories of Figure 1.

    python -m scripts.papers.explicit_rmhmc --out results/explicit_rmhmc

The funnel in 10 + 1 dimensions by HMC, HMC tuned by hand for the known marginal of v, NUTS, and
Riemannian HMC with the implicit leapfrog, the implicit midpoint rule and the explicit integrator
(SoftAbs, α = 10⁶). Every chain is one repeat: KL(N(0, 9) ‖ q) with q's mean and variance from the
chain's v; also seconds per accepted and per effective draw of v, one thread. Then trajectories on
logistic regressions in two and ten dimensions from θ = 0. What Ω does is in
``explicit_binding.py``.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

import evidence as ev
from evidence import moves
from evidence.approximations.density.modes import fit_density_laplace
from evidence.numerics import threads as rows
from evidence.paths.density import own_path
from evidence.paths.families import make_path
from evidence.statistics import diagnostics
from evidence.statistics.adaptation import DualAveraging
from scripts import laboratory

NAME = "explicit_rmhmc"
SD = 3.0  # of v


class Scheme(NamedTuple):
    name: str
    move: Any
    draws: int
    """Per chain, relative to the others."""


def schemes() -> list[Scheme]:
    """ε and L of the implicit integrators as published with the paper's code; see ``tune``."""
    return [
        Scheme("HMC, adapted", moves.HMC(0.2, coordinates="identity", n_leapfrog=25), 1),
        Scheme("HMC, by hand", tuned_hmc(0.12, 60), 1),
        Scheme("HMC, by hand, 10x", tuned_hmc(0.12, 60), 10),
        Scheme("NUTS", moves.NUTS(coordinates="identity"), 1),
        Scheme("RMHMC implicit", fixed(moves.RMHMC(0.14, n_leapfrog=25)), 1),
        Scheme("RMHMC midpoint", fixed(moves.MidpointRMHMC(0.14, n_leapfrog=25)), 1),
        Scheme("RMHMC midpoint, ε=.35", fixed(moves.MidpointRMHMC(0.35, n_leapfrog=10)), 1),
        Scheme("RMHMC explicit", explicit(0.05, 70, 10.0, 0.03), 1),
    ]


def fixed(move: Any) -> Any:
    """The step size is given, not adapted."""
    return replace(move, target=None)


def tuned_hmc(eps: float, steps: int) -> Any:
    move = moves.HMC(eps, coordinates="identity", n_leapfrog=steps, length_jitter=0.5)
    return fixed(move)


def explicit(eps: float, steps: int, omega: float, sigma: float) -> Any:
    return fixed(
        moves.ExplicitRMHMC(
            eps, n_leapfrog=steps, omega=omega, sigma=sigma, binding="identity", jitter=0.05
        )
    )


# -- the funnel ---------------------------------------------------------------------------------


def kl(v: np.ndarray) -> np.ndarray:
    """KL(N(0, 9) ‖ N(m, s²)), m and s² of every chain."""
    m, s2 = v.mean(axis=1), v.var(axis=1)
    return 0.5 * (np.log(s2) - 2.0 * np.log(SD) + (SD**2 + m**2) / s2 - 1.0)


def sample(
    path: Any, move: Any, rng: np.random.Generator, chains: int, tune: int, draws: int, bar: Any
) -> dict[str, Any]:
    """Chains of v from v = 0 and z ~ N(0, 1)."""
    start = rng.standard_normal((chains, path.n))
    start[:, 0] = 0.0
    state = move.init(path, start)
    tuner = DualAveraging(move.step_size, move.target or 0.5)
    for i in range(tune):
        state, info = move.step(rng, path, 1.0, state)
        tuner.update(float(info.acceptance.mean()))
        if move.target is not None:
            move = replace(move, step_size=tuner.final if i == tune - 1 else tuner.step_size)
        bar.update(1)
    v, accepted, failed, work = np.empty((chains, draws)), 0.0, 0, 0
    started = time.perf_counter()
    cpu = time.thread_time()
    for i in range(draws):
        state, info = move.step(rng, path, 1.0, state)
        v[:, i] = move.latent(path, state)[:, 0]
        accepted += float(info.acceptance.sum())
        failed, work = failed + info.failures, work + info.gradients
        bar.update(1)
    return {
        "v": v,
        "eps": move.step_size,
        "seconds": time.perf_counter() - started,
        "cpu": time.thread_time() - cpu,
        "accepted": accepted,
        "failed": failed / v.size,
        "evaluations": work / v.size,
    }


def funnel(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row per scheme; all from the same number of chains."""
    path = own_path(ev.examples.funnel(10).model)
    table = []
    todo = schemes()
    total = sum(options.tune + options.draws * scheme.draws for scheme in todo)
    with tqdm(total=total, unit="step", leave=False, ncols=88, disable=None) as bar:
        for scheme in todo:
            bar.set_postfix_str(scheme.name)
            rng = np.random.default_rng(options.seed)
            draws = options.draws * scheme.draws
            run = sample(path, scheme.move, rng, options.chains, options.tune, draws, bar)
            v, divergence = run["v"], kl(run["v"])
            ess = float(diagnostics.ess(v[:, :, None])[0])
            pooled = float(kl(v.reshape(1, -1))[0])
            table.append(
                {
                    "scheme": scheme.name,
                    "eps": run["eps"],
                    "steps": getattr(scheme.move, "n_leapfrog", None) or "",
                    "draws": draws,
                    "acceptance": run["accepted"] / v.size,
                    "failed": run["failed"],
                    "evaluations": run["evaluations"],
                    "kl": float(np.median(divergence)),
                    "kl_low": float(np.quantile(divergence, 0.25)),
                    "kl_high": float(np.quantile(divergence, 0.75)),
                    "kl_pooled": pooled,
                    "mean_v": float(v.mean()),
                    "sd_v": float(v.std()),
                    "ess_per_draw": ess / v.size,
                    "ms": 1e3 * run["cpu"] / v.size,
                    "ms_wall": 1e3 * run["seconds"] / v.size,
                    "ms_accepted": 1e3 * run["cpu"] / max(run["accepted"], 1e-9),
                    "ms_effective": 1e3 * run["cpu"] / ess,
                    "v": v,
                    "divergence": divergence,
                }
            )
    return table


def show(table: list[dict[str, Any]], chains: int) -> None:
    print(f"funnel 10 + 1, {chains} chains as one batch, one thread, milliseconds of its CPU time")
    print(
        "scheme                     ε   L  draws accept failed  KL median (quartiles)      pooled"
        "  sd(v)  ESS/draw  ms/draw  /accepted  /effective"
    )
    for row in table:
        print(
            f"{row['scheme']:22} {row['eps']:5.3f} {row['steps']!s:>3} {row['draws']:6d} "
            f"{row['acceptance']:6.3f} {row['failed']:6.3f}  {row['kl']:.4f} "
            f"({row['kl_low']:.4f}-{row['kl_high']:.4f}) {row['kl_pooled']:10.5f} "
            f"{row['sd_v']:6.2f} {row['ess_per_draw']:9.4f} {row['ms']:8.3f} "
            f"{row['ms_accepted']:10.3f} {row['ms_effective']:11.2f}"
        )
    by = {row["scheme"]: row for row in table}
    implicit, nuts, tao = by["RMHMC implicit"], by["NUTS"], by["RMHMC explicit"]
    beats = np.mean(implicit["divergence"][:, None] < nuts["divergence"])
    print(
        f"\nRMHMC has the smaller KL than NUTS in {100 * beats:.1f} % of pairs of chains "
        f"(medians {implicit['kl']:.4f} and {nuts['kl']:.4f}); explicit against NUTS: "
        f"{100 * np.mean(tao['divergence'][:, None] < nuts['divergence']):.1f} %"
    )
    print(
        "implicit / explicit, time per accepted draw "
        f"{implicit['ms_accepted'] / tao['ms_accepted']:.2f}, per effective draw of v "
        f"{implicit['ms_effective'] / tao['ms_effective']:.2f}; implicit / midpoint at the same "
        f"ε, per effective draw "
        f"{implicit['ms_effective'] / by['RMHMC midpoint']['ms_effective']:.2f}"
    )


def tune(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Accepted draws and squared jumps of v per second for many settings, from exact draws."""
    example = ev.examples.funnel(10)
    assert example.draws is not None
    path = own_path(example.model)
    start = example.draws(np.random.default_rng(0), 16 if options.fast else 256)
    candidates: list[tuple[str, Any]] = [
        ("implicit", fixed(moves.RMHMC(eps, n_leapfrog=steps, jitter=0.05)))
        for eps, steps in ((0.14, 25), (0.25, 14), (0.35, 10))
    ]
    for eps in (0.05,) if options.fast else (0.1, 0.05, 0.025):
        for time_span in (0.5,) if options.fast else (0.5, 1.5, 3.5):
            for omega in (10.0,) if options.fast else (10.0, 30.0, 100.0):
                for sigma in (0.03, 0.1, 0.3):
                    steps = max(1, round(time_span / eps))
                    candidates.append(("explicit", explicit(eps, steps, omega, sigma)))
    found = []
    with tqdm(total=len(candidates), unit="setting", leave=False, ncols=88, disable=None) as bar:
        for name, move in candidates:
            rng = np.random.default_rng(1)
            state = move.init(path, start.copy())
            started = time.thread_time()
            new, info = move.step(rng, path, 1.0, state)
            seconds = time.thread_time() - started
            jump = float(np.sum((new.x[:, 0] - start[:, 0]) ** 2))
            found.append(
                {
                    "integrator": name,
                    "eps": move.step_size,
                    "steps": move.n_leapfrog,
                    "omega": getattr(move, "omega", ""),
                    "sigma": getattr(move, "sigma", ""),
                    "acceptance": float(info.acceptance.mean()),
                    "accepted_per_s": float(info.acceptance.sum()) / seconds,
                    "jump_per_s": jump / seconds,
                }
            )
            bar.update(1)
    best = sorted(found, key=lambda row: -row["jump_per_s"])
    shown = [row for row in best if row["integrator"] == "explicit"][:6]
    print("\nstationary start: squared jumps of v per second (CPU), the best explicit settings")
    for row in [r for r in best if r["integrator"] == "implicit"] + shown:
        print(
            f"  {row['integrator']}  ε = {row['eps']:<5g} L = {row['steps']:<3d} "
            f"Ω = {row['omega']!s:5} σ = {row['sigma']!s:4}  accept {row['acceptance']:.2f}  "
            f"accepted/s {row['accepted_per_s']:8.1f}  jump²/s {row['jump_per_s']:8.1f}"
        )
    return found


# -- trajectories on logistic regression --------------------------------------------------------


def walks(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Draws of each scheme from θ = 0, in two and ten dimensions."""
    found = []
    for dim, n in ((2, 100), (10, 500)):
        data = ev.examples.simulated_logistic(dim, n, 0)
        model = ev.examples.logistic_regression(data.X, data.y, 10.0).model
        path = make_path(fit_density_laplace(model))  # for the binding's units
        start = np.zeros((1, dim))
        runs = {
            "HMC": fixed(moves.HMC(0.02, coordinates="identity", n_leapfrog=10)),
            "RMHMC implicit": fixed(moves.RMHMC(0.15, n_leapfrog=10)),
            "RMHMC explicit": fixed(
                moves.ExplicitRMHMC(0.05, n_leapfrog=30, omega=10.0, sigma=0.03)
            ),
        }
        for name, move in runs.items():
            rng = np.random.default_rng(options.seed)
            state, way, accepted = move.init(path, start), [start[0].copy()], 0.0
            move.step(np.random.default_rng(0), path, 1.0, state)  # compile
            started = time.perf_counter()
            for _ in range(options.walk):
                state, info = move.step(rng, path, 1.0, state)
                way.append(move.latent(path, state)[0].copy())
                accepted += float(info.acceptance.sum())
            found.append(
                {
                    "dim": dim,
                    "scheme": name,
                    "draws": options.walk,
                    "seconds": time.perf_counter() - started,
                    "acceptance": accepted / options.walk,
                    "way": np.array(way),
                    "beta": data.beta,
                }
            )
    print("\nlogistic regression from θ = 0")
    for row in found:
        print(
            f"  {row['dim']:2d}-D {row['scheme']:15} {row['draws']} draws in "
            f"{row['seconds']:6.2f} s, acceptance {row['acceptance']:.2f}"
        )
    return found


# -- figures ------------------------------------------------------------------------------------


def figures(table: list[dict[str, Any]], ways: list[dict[str, Any]], out: Path) -> None:
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 4, figsize=(13, 6), sharex=True, sharey=True, layout="constrained")
    grid = np.linspace(-12, 12, 200)
    for ax, row in zip(axes.flat, table, strict=True):
        ax.hist(row["v"].ravel(), bins=60, range=(-12, 12), density=True, color="0.8",
                edgecolor="0.6", lw=0.4, label="draws")  # fmt: skip
        ax.plot(grid, np.exp(-0.5 * (grid / SD) ** 2) / (SD * np.sqrt(2 * np.pi)), color="#1b3a5c",
                label="N(0, 9)")  # fmt: skip
        ax.set_title(f"{row['scheme']}\nKL {row['kl']:.3f} ({row['kl_low']:.3f} to "
                     f"{row['kl_high']:.3f})", fontsize=9)  # fmt: skip
    for ax in axes[-1]:
        ax.set_xlabel("v")
    for ax in axes[:, 0]:
        ax.set_ylabel("density")
    axes[0, 0].legend(frameon=False, fontsize=8)
    laboratory.save_figure(fig, out, f"{NAME}_funnel")
    fig, axes = plt.subplots(2, 3, figsize=(11, 7), layout="constrained")
    for ax, row in zip(axes.flat, ways, strict=True):
        ax.plot(row["way"][:, 0], row["way"][:, 1], "o-", ms=2, lw=0.6, color="#1b3a5c")
        ax.plot(*row["beta"][:2], "x", color="#b5542a", ms=9, mew=2, label="simulated from")
        ax.set_title(f"{row['dim']}-D, {row['scheme']}, {row['seconds']:.2f} s", fontsize=9)
        ax.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$")
    axes[0, 0].legend(frameon=False, fontsize=8)
    laboratory.save_figure(fig, out, f"{NAME}_walks")


def numbers(table: list[dict[str, Any]]) -> pd.DataFrame:
    """What of a table is not an array."""
    return pd.DataFrame(
        [{k: v for k, v in row.items() if not isinstance(v, np.ndarray)} for row in table]
    )


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--tune", type=int, default=100)
    parser.add_argument("--walk", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.fast:
        options.chains, options.draws, options.tune, options.walk = 4, 6, 3, 3
    with threadpool_limits(1, user_api="blas"), rows.single():
        table = funnel(options)
        show(table, options.chains)
        settings = tune(options)
        ways = walks(options)
    print(f"\nload average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    for name, part in (("funnel", table), ("settings", settings), ("walks", ways)):
        laboratory.save_table(numbers(part), options.out, f"{NAME}_{name}")
    figures(table, ways, options.out)


if __name__ == "__main__":
    main()
