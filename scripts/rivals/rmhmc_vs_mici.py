r"""Riemannian HMC here against mici's: seconds per transition from the same starting points.

    pip install mici
    python -m scripts.rivals.rmhmc_vs_mici --out results/rmhmc_vs_mici

Both integrate with the implicit generalised leapfrog, the same step size, number of steps and
tolerance of the fixed points, and check that each step can be reversed. mici gets compiled
derivatives written by hand (no automatic differentiation), values shared between them, and
runs one chain in one thread; this package runs batches of chains. Timings of both alternate in
one run: processor time of one thread, which a loaded machine disturbs less, and the clock where
there are two threads. Every table begins by how well the ends of the same trajectories agree.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

import evidence as ev
from evidence import moves
from evidence.approximations.density.modes import fit_density_laplace
from evidence.moves.riemannian.dense.field import DensityField
from evidence.moves.riemannian.dense.integrators import Leapfrog
from evidence.numerics import threads as rows
from evidence.paths.density import own_path
from scripts import laboratory

try:
    import mici
    from mici.matrices import SoftAbsRegularizedPositiveDefiniteMatrix
except ImportError as error:
    raise SystemExit("this comparison needs mici: pip install mici") from error

NAME = "rmhmc_vs_mici"
TOLERANCE = 1e-9


class Problem(NamedTuple):
    """One target, for both packages."""

    name: str
    model: ev.DensityModel
    starts: np.ndarray
    eps: float
    steps: int
    system: Callable[[], Any]
    """mici's system."""


# -- mici's side: one point at a time, compiled ---------------------------------------------------


def funnel_system() -> Any:
    """The funnel with SoftAbs, α = 10⁶."""

    @numba.njit
    def value(q):  # type: ignore[no-untyped-def]
        v, s = q[0], (q[1:] * q[1:]).sum()
        return v * v / 18.0 + 0.5 * np.exp(-v) * s + 0.5 * (q.size - 1) * v

    @numba.njit
    def gradient(q):  # type: ignore[no-untyped-def]
        v, e, out = q[0], np.exp(-q[0]), np.empty_like(q)
        s = e * (q[1:] * q[1:]).sum()
        out[0] = v / 9.0 - 0.5 * s + 0.5 * (q.size - 1)
        out[1:] = e * q[1:]
        return out, v * v / 18.0 + 0.5 * s + 0.5 * (q.size - 1) * v

    @numba.njit
    def hessian(q):  # type: ignore[no-untyped-def]
        d, e = q.size, np.exp(-q[0])
        H = np.zeros((d, d))
        slope, f = gradient(q)
        H[0, 0] = 1.0 / 9.0 + 0.5 * e * (q[1:] * q[1:]).sum()
        for i in range(1, d):
            H[0, i] = H[i, 0] = -e * q[i]
            H[i, i] = e
        return H, slope, f

    @numba.njit
    def contraction(q, m):  # type: ignore[no-untyped-def]
        d, e, out = q.size, np.exp(-q[0]), np.empty(q.size)
        total = -0.5 * m[0, 0] * (q[1:] * q[1:]).sum()
        for i in range(1, d):
            total += (m[0, i] + m[i, 0]) * q[i] - m[i, i]
            out[i] = e * (m[0, 0] * q[i] - m[0, i] - m[i, 0])
        out[0] = e * total
        return out

    def mtp(q):  # type: ignore[no-untyped-def]
        H, slope, f = hessian(q)
        return (lambda m: contraction(q, m)), H, slope, f

    system = mici.systems.SoftAbsRiemannianMetricSystem(
        value,
        grad_neg_log_dens=gradient,
        hess_neg_log_dens=hessian,
        mtp_neg_log_dens=mtp,
        softabs_coeff=1e6,
    )
    system._metric_matrix_class = FiniteSoftAbs
    return system


class FiniteSoftAbs(SoftAbsRegularizedPositiveDefiniteMatrix):
    """mici's matrix, with the limit where two eigenvalues are equal (mici divides 0 by 0)."""

    def grad_softabs(self, x):  # type: ignore[no-untyped-def]
        with np.errstate(over="ignore"):
            return super().grad_softabs(x)

    def grad_quadratic_form_inv(self, vector):  # type: ignore[no-untyped-def]
        lam, slope = self.unreg_eigval, self.grad_softabs(self.unreg_eigval)
        gap = lam[:, None] - lam
        equal = gap == 0.0
        gap[equal] = 1.0
        J = np.where(equal, slope, (self.eigval[:, None] - self.eigval) / gap)
        e = (self.eigvec.T @ vector) / self.eigval
        return -((self.eigvec @ (np.outer(e, e) * J)) @ self.eigvec.T)


def logistic_system(X: np.ndarray, y: np.ndarray, precision: float) -> Any:
    """Logistic regression with the negative Hessian as metric."""
    F = np.ascontiguousarray(X * y[:, None])

    @numba.njit
    def value(q):  # type: ignore[no-untyped-def]
        f = F @ q
        return (
            np.log1p(np.exp(-np.abs(f))).sum()
            + np.maximum(-f, 0.0).sum()
            + (0.5 * precision * (q @ q))
        )

    @numba.njit
    def gradient(q):  # type: ignore[no-untyped-def]
        return precision * q - F.T @ (1.0 / (1.0 + np.exp(F @ q)))

    @numba.njit
    def metric(q):  # type: ignore[no-untyped-def]
        s = 1.0 / (1.0 + np.exp(F @ q))
        G = F.T @ (F * (s * (1.0 - s)).reshape(-1, 1))
        for i in range(q.size):
            G[i, i] += precision
        return G

    @numba.njit
    def vjp(q, m):  # type: ignore[no-untyped-def]
        s = 1.0 / (1.0 + np.exp(F @ q))
        weight = (s * (1.0 - s)) * (2.0 * s - 1.0) * ((F @ m) * F).sum(axis=1)
        return F.T @ weight

    def vjp_metric(q):  # type: ignore[no-untyped-def]
        return lambda m: vjp(q, np.ascontiguousarray(np.asarray(m)))

    return mici.systems.DenseRiemannianMetricSystem(
        value, metric, vjp_metric_func=vjp_metric, grad_neg_log_dens=gradient
    )


class Mici:
    """mici's static transition; a new state from an old one."""

    def __init__(self, problem: Problem) -> None:
        self.system = problem.system()
        self.integrator = mici.integrators.ImplicitLeapfrogIntegrator(
            self.system,
            0.5 * problem.eps,  # both of its half steps are as long as its step_size
            fixed_point_solver_kwargs={"convergence_tol": TOLERANCE},
        )
        self.transition = mici.transitions.MetropolisStaticIntegrationTransition(
            self.system, self.integrator, problem.steps
        )

    def state(self, x: np.ndarray, p: np.ndarray | None = None) -> Any:
        return mici.states.ChainState(pos=x.copy(), mom=p, dir=1)

    def step(self, rng: np.random.Generator, x: np.ndarray) -> tuple[np.ndarray, float, bool]:
        """End, acceptance probability and whether a step failed."""
        state = self.state(x)
        state.mom = self.system.sample_momentum(state, rng)
        new, told = self.transition.sample(state, rng)
        failed = told["convergence_error"] or told["non_reversible_step"]
        return new.pos, float(told["accept_stat"]), bool(failed)

    def end(self, x: np.ndarray, p: np.ndarray, steps: int) -> np.ndarray:
        """Where a trajectory ends."""
        state = self.state(x, p.copy())
        for _ in range(steps):
            state = self.integrator.step(state)
        return np.array(state.pos)


# -- this package's side --------------------------------------------------------------------------


def our_move(problem: Problem) -> moves.RMHMC:
    return moves.RMHMC(
        step_size=problem.eps, n_leapfrog=problem.steps, jitter=0.0, tolerance=TOLERANCE
    )


def agreement(problem: Problem, rng: np.random.Generator) -> float:
    """Largest distance between the ends of both packages, relative to the path's length."""
    path, move, rival = own_path(problem.model), our_move(problem), Mici(problem)
    x = problem.starts[:8]
    field = DensityField(path, np.ones(len(x)))
    start = field.point(x)
    p = start.metric.momentum(rng.standard_normal(x.shape))
    integrator = Leapfrog(move.tolerance, move.reverse_tolerance)
    end = integrator.follow(field, start, p, np.full(len(x), problem.eps), problem.steps)
    worst = 0.0
    for i in np.flatnonzero(end.code == 0):
        try:
            other = rival.end(x[i], p[i], problem.steps)
        except mici.errors.Error:
            continue
        worst = max(worst, float(np.abs(other - end.y[i]).max() / np.abs(other - x[i]).max()))
    return worst


def time_ours(
    problem: Problem, m: int, n: int, seed: int, threads: int
) -> tuple[float, float, float]:
    """Seconds per transition, acceptance and share of failures, with a batch of m chains."""
    clock = time.process_time if threads == 1 else time.perf_counter
    path, move = own_path(problem.model), our_move(problem)
    rng = np.random.default_rng(seed)
    x = problem.starts[rng.permutation(len(problem.starts))[:m]]
    state, accepted, failed = move.init(path, x), 0.0, 0
    move.step(rng, path, 1.0, state)  # compiled code is loaded
    started = clock()
    for _ in range(n):
        state, info = move.step(rng, path, 1.0, state)
        accepted += float(info.acceptance.mean())
        failed += info.failures
    return (clock() - started) / (n * m), accepted / n, failed / (n * m)


def time_mici(problem: Problem, rival: Mici, n: int, seed: int) -> tuple[float, float, ...]:
    """The same for mici; the last number is by the clock."""
    rng = np.random.default_rng(seed)
    starts = problem.starts[rng.permutation(len(problem.starts))]
    accepted, failed = 0.0, 0
    started, clock = time.process_time(), time.perf_counter()
    for i in range(n):
        _, accept, lost = rival.step(rng, starts[i % len(starts)])
        accepted += accept
        failed += lost
    seconds, clock = time.process_time() - started, time.perf_counter() - clock
    return seconds / n, accepted / n, failed / n, clock / n


# -- problems -------------------------------------------------------------------------------------


def problems(fast: bool) -> list[Problem]:
    funnel = ev.examples.funnel(10)
    assert funnel.draws is not None
    starts = funnel.draws(np.random.default_rng(0), 512)
    found = [Problem("funnel 10+1", funnel.model, starts, 0.14, 25, funnel_system)]
    for dim, n in ((2, 100), (10, 500)):
        data = ev.examples.simulated_logistic(dim, n, 0)
        found.append(logistic(f"logistic {dim}-D, N={n}", data.X, data.y, 0.2, 10))
    if not fast:
        for name in ("pima", "german"):
            data = ev.datasets.load(name)
            X = (data["X"] - data["X"].mean(axis=0)) / data["X"].std(axis=0)
            X = np.column_stack([np.ones(len(X)), X])
            label = f"{name} {X.shape[1]}-D, N={len(X)}"
            found.append(logistic(label, X, data["y"], 0.5, 6))
    return found


def logistic(name: str, X: np.ndarray, y: np.ndarray, eps: float, steps: int) -> Problem:
    """Logistic regression with prior N(0, 10²), from draws of Laplace's approximation."""
    y = np.where(y == np.max(y), 1.0, -1.0)
    X = np.ascontiguousarray(X, dtype=float)
    model = ev.examples.logistic_regression(X, y, prior_sd=10.0).model
    fit = fit_density_laplace(model)
    starts = fit.mean + np.random.default_rng(0).standard_normal((512, model.n)) @ fit.root.T
    return Problem(name, model, starts, eps, steps, lambda: logistic_system(X, y, 0.01))


def compare(problem: Problem, options: argparse.Namespace, bar: Any) -> list[dict[str, Any]]:
    """Rows of the table: both packages in turn, medians over repeats."""
    rival = Mici(problem)
    worst = agreement(problem, np.random.default_rng(1))
    time_mici(problem, rival, 1, 0)  # compiled before the clock runs
    settings = [(m, cores) for cores in options.threads for m in options.chains]
    found: dict[Any, list[Any]] = {"mici": [], **{s: [] for s in settings}}
    for repeat in range(options.repeats):
        for who, results in found.items():
            bar.set_postfix_str(f"{problem.name} {who}")
            if who == "mici":
                with one_thread():
                    results.append(time_mici(problem, rival, options.transitions, repeat))
            else:
                n = max(2, options.transitions * (1 if who[0] == 1 else 4) // who[0])
                with one_thread() if who[1] == 1 else nullcontext():
                    results.append(time_ours(problem, who[0], n, repeat, who[1]))
            bar.update()
    base = np.array(found["mici"])
    table = []
    for who, results in found.items():
        seconds, accept, failed = np.array(results).T[:3]
        ratios = base[:, 0 if who == "mici" or who[1] == 1 else 3] / seconds
        table.append(
            {
                "problem": problem.name,
                "eps": problem.eps,
                "steps": problem.steps,
                "package": "mici" if who == "mici" else "evidence",
                "chains": 1 if who == "mici" else who[0],
                "threads": 1 if who == "mici" else who[1],
                "ms": 1e3 * float(np.median(seconds)),
                "acceptance": float(accept.mean()),
                "failed": float(failed.mean()),
                "ratio": float(np.median(ratios)),
                "smallest": float(ratios.min()),
                "largest": float(ratios.max()),
                "ends_differ": worst,
            }
        )
    return table


@contextmanager
def one_thread() -> Iterator[None]:
    """Everything in this thread."""
    with rows.single(), threadpool_limits(1, user_api="blas"):
        yield


def show(table: list[dict[str, Any]]) -> None:
    name = ""
    for row in table:
        if row["problem"] != name:
            name = row["problem"]
            print(f"\n{name}: ε = {row['eps']}, L = {row['steps']}; same momenta end within "
                  f"{row['ends_differ']:.1e} of each other")  # fmt: skip
            print("  package  chains threads  ms/transition  accept  failed   ratio (range)")
        print(
            f"  {row['package']:9} {row['chains']:5d} {row['threads']:7d} {row['ms']:14.3f} "
            f"{row['acceptance']:7.3f} {row['failed']:7.3f} {row['ratio']:7.1f} "
            f"({row['smallest']:.1f}-{row['largest']:.1f})",
            flush=True,
        )


def draw(table: list[dict[str, Any]], out: Path) -> None:
    """Milliseconds per transition against the number of chains."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["problem"] for row in table))
    fig, axes = plt.subplots(1, len(names), figsize=(3.2 * len(names), 3.2), squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        own = [row for row in table if row["problem"] == name]
        ax.axhline(own[0]["ms"], color="tab:red", label="mici, one chain")
        for threads, style in ((1, "o-"), (2, "s--")):
            line = [r for r in own[1:] if r["threads"] == threads]
            ax.loglog(
                [r["chains"] for r in line],
                [r["ms"] for r in line],
                style,
                color="tab:blue",
                label=f"evidence, {threads} thread{'s' if threads > 1 else ''}",
            )
        ax.set(title=name, xlabel="chains in the batch", xscale="log", yscale="log")
    axes[0, 0].set_ylabel("ms per transition")
    axes[0, 0].legend(fontsize=7)
    fig.tight_layout()
    laboratory.save_figure(fig, out, NAME)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--transitions", type=int, default=40, help="of mici per repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[""], help="how the problems' names begin")
    parser.add_argument("--chains", type=int, nargs="+", default=[1, 16, 256])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], choices=(1, 2))
    options = parser.parse_args()
    if options.fast:
        options.transitions, options.repeats = min(options.transitions, 8), 2
    todo = [p for p in problems(options.fast) if p.name.startswith(tuple(options.only))]
    per_problem = options.repeats * (1 + len(options.chains) * len(options.threads))
    table: list[dict[str, Any]] = []
    with tqdm(total=per_problem * len(todo), ncols=88, leave=False) as bar:
        for problem in todo:
            table += compare(problem, options, bar)
            with tqdm.external_write_mode():
                show([row for row in table if row["problem"] == problem.name])
    print(f"\nload average at the end: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    laboratory.save_table(pd.DataFrame(table), options.out, NAME)
    draw(table, options.out)


if __name__ == "__main__":
    main()
