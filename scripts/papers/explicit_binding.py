r"""What the binding Ω, the precision and the rotation do to the explicit Riemannian integrator.

    python -m scripts.papers.explicit_binding --out results/explicit_binding

A loop of its own, so that everything can be varied: trajectories of Tao's splitting start with
equal copies at points near the posterior of a logistic regression (metric: negative Hessian) and
are accepted with H(x, p) alone, as published. It tabulates the distance between the copies, the
energy error and the acceptance against ε and Ω, in float64 and float32, with the rotation of
the differences done right and done in place (later lines read what earlier ones wrote: volume
is not preserved), with distances measured in plain coordinates (M = I) and in those of the
posterior's curvature at its mode.

Then one long trajectory (the paper's Figure 7): the funnel in 1 + 1 dimensions with SoftAbs
(α = 1; with α = 10⁶ the metric has kinks, and no integrator follows it for long), each Ω against
the implicit leapfrog with an eighth of the step.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

import evidence as ev
from evidence.approximations.density.modes import fit_density_laplace
from evidence.moves.riemannian.dense.field import DensityField
from evidence.moves.riemannian.dense.integrators import Doubled, Leapfrog, binding
from evidence.paths.density import own_path
from scripts import laboratory

NAME = "explicit_binding"
STEPS = 10
STARTS = 32
PRIOR_SD = 10.0


class Logistic:
    """Minus log posterior and metric of a batch, in any floating-point type."""

    def __init__(self, X: np.ndarray, y: np.ndarray, kind: type) -> None:
        self.F = (X * y[:, None]).astype(kind)
        self.precision = kind(PRIOR_SD**-2)
        self.eye = np.eye(X.shape[1], dtype=kind)

    def parts(self, x: np.ndarray) -> tuple[Any, ...]:
        """log density, its gradient, G, G⁻¹, ½ log|G| and weights of dG."""
        margin = x @ self.F.T
        e = np.exp(-np.abs(margin))
        wrong = np.where(margin > 0, e, 1) / (1 + e)
        value = (np.minimum(margin, 0) - np.log1p(e)).sum(1)
        value -= 0.5 * self.precision * (x * x).sum(1)
        slope = wrong @ self.F - self.precision * x
        s = e / (1 + e) ** 2
        G = np.matmul(self.F.T * s[:, None, :], self.F) + self.precision * self.eye
        L = np.linalg.cholesky(G)
        half = np.log(np.einsum("mii->mi", L)).sum(1)
        return value, slope, G, np.linalg.inv(G), half, -s * (1 - 2 * wrong)

    def hamiltonian(self, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        value, _, _, inverse, half, _ = self.parts(x)
        return -value + half + 0.5 * np.einsum("mi,mij,mj->m", p, inverse, p)

    def flow(self, x: np.ndarray, q: np.ndarray, eps: Any) -> tuple[np.ndarray, np.ndarray]:
        """-ε ∂H/∂x and ε ∂H/∂p at (x, q)."""
        _, slope, _, inverse, _, third = self.parts(x)
        w = np.einsum("mij,mj->mi", inverse, q)
        spread = np.einsum("ni,mij,nj->mn", self.F, inverse, self.F, optimize=True)
        force = slope - (0.5 * third * (spread - (w @ self.F.T) ** 2)) @ self.F
        return eps * force, eps * w


class Setting(NamedTuple):
    eps: float
    omega: float
    kind: str
    """float64 or float32"""
    rotation: str
    """right or in place"""
    metric: str
    """identity or mode"""


def rotate(z: list[np.ndarray], angle: Any, M: np.ndarray, right: bool) -> None:
    """Turn x - x̃ and p - p̃ by an angle, distances being |dx|²_M and |dp|²_{M⁻¹}."""
    x, p, y, q = z
    c, s = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    inverse = np.linalg.inv(M)
    if right:
        dx, dp = c * (x - y) + s * (p - q) @ inverse, c * (p - q) - s * (x - y) @ M
        mx, mp = x + y, p + q
        z[:] = [(mx + dx) / 2, (mp + dp) / 2, (mx - dx) / 2, (mp - dp) / 2]
        return
    x = (x + y + c * (x - y) + s * (p - q) @ inverse) / 2
    p = (p + q + c * (p - q) - s * (x - y) @ M) / 2
    y = (x + y - c * (x - y) - s * (p - q) @ inverse) / 2
    q = (p + q - c * (p - q) + s * (x - y) @ M) / 2
    z[:] = [x, p, y, q]


def determinant(angle: float, right: bool) -> float:
    """Of the rotation as a map of one coordinate's (x, p, x̃, p̃)."""
    columns = []
    for unit in np.eye(4):
        z = [np.array([[value]]) for value in unit]
        rotate(z, np.array(angle), np.eye(1), right)
        columns.append([float(part[0, 0]) for part in z])
    return float(np.linalg.det(np.array(columns)))


def run(target: Logistic, x: np.ndarray, p: np.ndarray, M: np.ndarray, s: Setting) -> list[float]:
    """Copies' distance, energy error (medians over starts), acceptance, share that broke down."""
    kind = x.dtype.type
    z = [x.copy(), p.copy(), x.copy(), p.copy()]
    eps, angle = kind(s.eps), np.array(2.0 * s.omega * s.eps)
    before = target.hamiltonian(x, p)
    alive = np.ones(len(x), dtype=bool)
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            for position, other in ((0, 3), (2, 1), (None, None), (2, 1), (0, 3)):
                if position is None:
                    rotate(z, angle, M, s.rotation == "right")
                else:
                    kick, drift = target.flow(z[position], z[other], eps / 2)
                    z[(position + 1) % 4] = z[position + 1] + kick
                    z[other - 1] = z[other - 1] + drift
                sane = np.all([np.isfinite(part).all(1) for part in z], axis=0)
                sane &= np.all([np.abs(part).max(1) < 50 * scale(x, p) for part in z], axis=0)
                alive &= sane
                for part, start in zip(z, (x, p, x, p), strict=True):
                    part[~alive] = start[~alive]
        after = target.hamiltonian(z[0], z[1])
        dx, dp = z[0] - z[2], z[1] - z[3]
        apart = np.einsum("mi,ij,mj->m", dx, M, dx) + np.einsum(
            "mi,ij,mj->m", dp, np.linalg.inv(M), dp
        )
    error = np.where(alive, np.abs(after - before), np.inf)
    accept = np.where(alive, np.exp(np.minimum(before - after, 0.0)), 0.0)
    distance = np.where(alive, np.sqrt(apart), np.inf)
    return [
        float(np.median(distance)),
        float(np.median(error)),
        float(accept.mean()),
        float(1.0 - alive.mean()),
    ]


def scale(x: np.ndarray, p: np.ndarray) -> float:
    """Beyond 50 times this a trajectory counts as lost."""
    return float(max(np.abs(x).max(), np.abs(p).max()))


def experiment(dim: int, n: int, settings: list[Setting], bar: Any) -> list[dict[str, Any]]:
    """One row per setting."""
    data = ev.examples.simulated_logistic(dim, n, 0)
    fit = fit_density_laplace(ev.examples.logistic_regression(data.X, data.y, PRIOR_SD).model)
    rng = np.random.default_rng(1)
    x = fit.mean + rng.standard_normal((STARTS, dim)) @ fit.root.T
    G = Logistic(data.X, data.y, np.float64).parts(x)[2]
    p = np.einsum("mij,mj->mi", np.linalg.cholesky(G), rng.standard_normal(x.shape))
    table = []
    for setting in settings:
        kind = np.dtype(setting.kind).type
        M = np.eye(dim) if setting.metric == "identity" else fit.precision
        target = Logistic(data.X, data.y, kind)
        found = run(target, x.astype(kind), p.astype(kind), M.astype(kind), setting)
        names = ("apart", "energy_error", "acceptance", "lost")
        table.append(
            {"dim": dim, "n": n, **setting._asdict(), **dict(zip(names, found, strict=True))}
        )
        bar.update()
    return table


def grid(fast: bool) -> list[Setting]:
    steps = (0.2, 0.05) if fast else (0.2, 0.1, 0.05, 0.02, 0.01, 0.002)
    strengths = (0.0, 10.0) if fast else (0.0, 3.0, 10.0, 30.0, 100.0, 300.0)
    arithmetic = [(kind, how) for how in ("right", "in place") for kind in ("float64", "float32")]
    return [
        Setting(eps, omega, kind, rotation, metric)
        for metric in ("identity", "mode")
        for kind, rotation in arithmetic
        for omega in strengths
        for eps in steps
    ]


def turns() -> list[Setting]:
    """One ε, angles 2Ωε all the way round."""
    angles = np.pi * np.arange(0, 9) / 4.0
    return [
        Setting(0.1, float(angle) / 0.2, "float64", "right", metric)
        for metric in ("identity", "mode")
        for angle in angles
    ]


def show_turns(table: list[dict[str, Any]]) -> None:
    for metric in ("identity", "mode"):
        rows = [row for row in table if row["metric"] == metric]
        told = " ".join(f"{row['acceptance']:.2f}" for row in rows)
        print(
            f"{rows[0]['dim']}-D, M = {metric:8}, ε = 0.1, accepted at 2Ωε = 0, π/4, … 2π: {told}"
        )


def show(table: list[dict[str, Any]]) -> None:
    """Acceptance for every ε and Ω."""
    steps = list(dict.fromkeys(row["eps"] for row in table))
    blocks: dict[tuple[Any, ...], dict[float, dict[float, float]]] = {}
    for row in table:
        key = (row["dim"], row["metric"], row["kind"], row["rotation"])
        block = blocks.setdefault(key, {}).setdefault(row["omega"], {})
        block[row["eps"]] = row["acceptance"]
    for (dim, metric, kind, rotation), block in blocks.items():
        print(f"\n{dim}-D, M = {metric}, {kind}, rotation {rotation}: acceptance, L = {STEPS}")
        print("     Ω   ε =" + "".join(f"{eps:8g}" for eps in steps))
        for omega, values in block.items():
            print(f"{omega:6g}      " + "".join(f"{values[eps]:8.3f}" for eps in steps))
    angles = (0.1, 0.2, 1.0, 40.0)
    told = ", ".join(f"{determinant(a, False):.3f} at {a:g}" for a in angles)
    print(f"\ndeterminant of the rotation done in place, per coordinate: {told}; done right: 1")


def figure(table: list[dict[str, Any]], out: Path) -> None:
    """Energy error and distance against ε, a line for each Ω."""
    import matplotlib.pyplot as plt

    dims = list(dict.fromkeys(row["dim"] for row in table))
    kinds = [
        ("float64", "right", "identity"),
        ("float32", "right", "identity"),
        ("float64", "in place", "identity"),
        ("float64", "right", "mode"),
    ]
    strengths = list(dict.fromkeys(row["omega"] for row in table))
    fig, axes = plt.subplots(2 * len(dims), 4, figsize=(13, 5.0 * len(dims)), sharex=True)
    for i, (dim, what) in enumerate((d, w) for d in dims for w in ("energy_error", "apart")):
        for ax, (kind, rotation, metric) in zip(axes[i], kinds, strict=True):
            for k, omega in enumerate(strengths):
                rows = [
                    r
                    for r in table
                    if (r["dim"], r["kind"], r["rotation"], r["metric"], r["omega"])
                    == (dim, kind, rotation, metric, omega)
                ]
                ax.loglog(
                    [r["eps"] for r in rows],
                    [r[what] for r in rows],
                    "o-",
                    ms=3,
                    color=plt.get_cmap("viridis")(k / len(strengths)),
                    label=f"Ω = {omega:g}",
                )
            ax.set_title(f"{dim}-D, {kind}, rotation {rotation}, M = {metric}", fontsize=8)
            if what == "energy_error":
                ax.axhline(1.0, color="0.6", lw=0.8)
            ax.set_ylim(*((1e-8, 1e3) if what == "energy_error" else (1e-7, 1e2)))
        axes[i, 0].set_ylabel("|ΔH|" if what == "energy_error" else "distance of copies")
    for ax in axes[-1]:
        ax.set_xlabel("ε")
    axes[0, 0].legend(fontsize=6)
    fig.tight_layout()
    laboratory.save_figure(fig, out, NAME)


# -- a long trajectory ----------------------------------------------------------------------------

LONG_EPS, LONG_STEPS, FINER = 0.05, 1000, 8
LONG_OMEGAS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class Way(NamedTuple):
    """Points of a trajectory, NaN from where it broke down, and H there minus H at the start."""

    name: str
    x: np.ndarray
    drift: np.ndarray


def long_ways(steps: int) -> tuple[Way, list[Way]]:
    """The reference, and the implicit leapfrog and every Ω at :data:`LONG_EPS`."""
    given = ev.examples.funnel(1).model.functions._asdict()
    model = ev.DensityModel(dim=2, metric=ev.SoftAbs(1.0), vectorized=True, **given)
    path = own_path(model)
    field = DensityField(path, np.ones(1))
    start = field.point(np.array([[0.0, 1.0]]))
    p = start.metric.momentum(np.random.default_rng(3).standard_normal((1, 2)))

    def way(name: str, ends: list[Any], every: int = 1) -> Way:
        x, drift = np.full((steps + 1, 2), np.nan), np.full(steps + 1, np.nan)
        x[0], drift[0] = start.y[0], 0.0
        for k, end in enumerate(ends[every - 1 :: every]):
            if end.code[0] == 0:
                x[k + 1], drift[k + 1] = end.y[0], -end.log_ratio[0]
        return Way(name, x, drift)

    def implicit(finer: int) -> list[Any]:
        ends: list[Any] = []
        eps = np.full(1, LONG_EPS / finer)
        Leapfrog(1e-11, 1e-6).follow(field, start, p, eps, finer * steps, ends)
        return ends

    found = [way("implicit", implicit(1))]
    for omega in LONG_OMEGAS:
        ends: list[Any] = []
        bind = binding(path, "identity", omega, 1e8)  # only H(x, p) counts
        copies, eps = np.zeros((1, 2, 2)), np.full(1, LONG_EPS)
        Doubled(bind, copies).follow(field, start, p, eps, steps, ends)
        found.append(way(f"Ω = {omega:g}", ends))
    return way("reference", implicit(FINER), FINER), found


def show_long(reference: Way, found: list[Way]) -> None:
    steps = len(reference.x) - 1
    marks = [steps // 10, steps // 4, steps // 2, steps]
    print(f"\nfunnel 1 + 1, one trajectory, ε = {LONG_EPS}: largest distance from the reference | "
          "largest |ΔH|, up to step")  # fmt: skip
    print(
        " " * 10 + "".join(f"{k:10d}" for k in marks) + "  |" + "".join(f"{k:10d}" for k in marks)
    )
    for way in found:
        apart, drift = distance(way, reference), np.abs(way.drift)
        cells = [f"{np.nanmax(part[: k + 1]):10.2g}" for part in (apart, drift) for k in marks]
        lost = np.isnan(apart).sum()
        told = f"  lost at step {steps + 1 - lost}" if lost else ""
        print(f"{way.name:10}" + "".join(cells[:4]) + "  |" + "".join(cells[4:]) + told)


def distance(way: Way, reference: Way) -> np.ndarray:
    return np.asarray(np.linalg.norm(way.x - reference.x, axis=1))


def long_figure(reference: Way, found: list[Way], out: Path) -> None:
    """The way itself, and distance and energy against time."""
    import matplotlib.pyplot as plt

    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    left.plot(*reference.x.T, color="0.2", lw=0.8)
    left.plot(*reference.x[0], "o", color="tab:red", ms=4)
    left.set(xlabel="v", ylabel="z", title=f"implicit, ε = {LONG_EPS / FINER:g}")
    t = LONG_EPS * np.arange(len(reference.x))
    for k, way in enumerate(found):
        style = {"color": plt.get_cmap("viridis")((k - 1) / len(LONG_OMEGAS)), "lw": 1.2}
        if k == 0:
            style = {"color": "tab:red", "lw": 1.6, "ls": "--", "zorder": 3}
        middle.semilogy(t, np.maximum(distance(way, reference), 1e-6), label=way.name, **style)
        right.semilogy(t, np.maximum(np.abs(way.drift), 1e-6), **style)
    middle.set(xlabel="time", ylabel="distance from the reference", ylim=(1e-5, 1e2))
    right.set(xlabel="time", ylabel="|ΔH|", ylim=(1e-5, 1e4))
    middle.legend(fontsize=7, frameon=False, ncols=2)
    laboratory.save_figure(fig, out, f"{NAME}_long")


def main() -> None:
    options = laboratory.parser(__doc__, NAME).parse_args()
    settings = grid(options.fast)
    table: list[dict[str, Any]] = []
    round_about = []
    sizes = ((2, 12),) if options.fast else ((2, 100), (10, 500))
    total = len(sizes) * (len(settings) + len(turns()))
    with tqdm(total=total, unit="setting", leave=False, ncols=88) as bar:
        for dim, n in sizes:
            table += experiment(dim, n, settings, bar)
            round_about.append(experiment(dim, n, turns(), bar))
    show(table)
    for found in round_about:
        show_turns(found)
    with np.errstate(all="ignore"):
        reference, ways = long_ways(20 if options.fast else LONG_STEPS)
    show_long(reference, ways)
    laboratory.save_table(pd.DataFrame(table), options.out, NAME)
    figure(table, options.out)
    long_figure(reference, ways, options.out)


if __name__ == "__main__":
    sys.exit(main())
