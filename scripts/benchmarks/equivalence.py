"""Whether two trees of this package give the same numbers, call by call.

    python scripts/benchmarks/equivalence.py --out before.npz
    python scripts/benchmarks/equivalence.py --against before.npz

Small calls with fixed seeds over methods, moves, models, likelihoods and verbs, by public names
only, so that any version of the package can run them (PYTHONPATH says which). Against a file each
call is one of: ``same bits``; ``1e-9``, every array within 1e-9 of its largest number;
``DIFFERENT``, with the part that differs most; ``FAILED``; ``new``. Times are not compared. The
exit code is the number of calls that differ or fail.

The last bits of compiled code may depend on what Numba's cache held while it was compiled: before
a difference is believed, both trees run once more with an empty NUMBA_CACHE_DIR. Where the order
of random numbers changes a call must differ: then say so, compare ``logz`` with
its standard error by eye (``--values``), and make a new file.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

import evidence as ev

CALLS: dict[str, Callable[[], Any]] = {}

QUIET: dict[str, Any] = {"random_seed": 1, "progressbar": False}
SHORT: dict[str, Any] = {"draws": 60, "tune": 80, "chains": 2, **QUIET}
T = np.linspace(0.0, 6.0, 16)[:, None]
WAVE = 1.5 * np.sin(T[:, 0]) + 0.3 * np.cos(5.0 * T[:, 0])
NEW = np.array([[0.1], [2.5], [7.0]])
OBSERVED = {
    "probit": np.where(WAVE > 0.0, 1.0, -1.0),
    "logit": np.where(np.roll(WAVE, 3) > 0.2, 1.0, -1.0),
    "gaussian(noise_std=0.3)": WAVE,
    "student_t(df=4, scale=0.5)": WAVE + 4.0 * (np.arange(16) == 7),
    "poisson(exposure=1.5)": np.round(np.exp(WAVE)),
    "negative_binomial(dispersion=2.0)": np.round(np.exp(1.0 + WAVE)),
}
PRIORS = {"length_scale": stats.lognorm(0.5, scale=1.2), "constant_value": stats.lognorm(0.5)}


def gp(likelihood: str = "probit", n: int = 16) -> ev.GPModel:
    return ev.GPModel(T[:n], OBSERVED[likelihood][:n], "1.5 * RBF(1.2)", likelihood=likelihood)


def softmax(n: int = 10) -> ev.SoftmaxModel:
    return ev.SoftmaxModel(T[:n], np.resize([0, 1, 2, 1], n), "1.5 * RBF(1.2)")


def density(name: str) -> Any:
    return {
        "banana": ev.examples.banana,
        "funnel": lambda: ev.examples.funnel(dim=2),
        "mixture": lambda: ev.examples.gaussian_mixture(),
        "regression": ev.examples.linear_regression,
        "logistic": lambda: ev.examples.logistic_regression(
            np.column_stack([np.ones(16), T[:, 0] - 3.0, WAVE**2]), OBSERVED["probit"]
        ),
    }[name]().model


def priors_density() -> ev.DensityModel:
    """Priors of SciPy, bounds, derivatives by hand."""
    return ev.DensityModel(
        lambda t: -0.5 * (t[0] - t[1]) ** 2 - 0.25 * t[0],
        2,
        grad=lambda t: np.array([t[1] - t[0] - 0.25, t[0] - t[1]]),
        hessian=lambda t: np.array([[-1.0, 1.0], [1.0, -1.0]]),
        prior={"a": stats.gamma(2.0), "b": stats.norm(1.0, 2.0)},
    )


def bare_density() -> ev.DensityModel:
    """No derivatives, bounded."""
    return ev.DensityModel(
        lambda t: 2.0 * np.log(t[0]) - t[0] - 0.5 * t[1] ** 2,
        2,
        bounds=[(0.0, None), (None, None)],
    )


def jax_density() -> ev.DensityModel:
    import jax.numpy as jnp

    return ev.from_jax(
        lambda p: -0.5 * jnp.sum((p - 0.3) ** 4), 2, prior=ev.GaussianPrior([0.0, 0.0], np.eye(2))
    )


def call(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def keep(function: Callable[[], Any]) -> Callable[[], Any]:
        CALLS[name] = function
        return function

    return keep


def each(kind: str, names: Any, run: Callable[[Any], Any]) -> None:
    """One call for every name."""
    for name in names:
        CALLS[f"{kind} {name}"] = lambda name=name: run(name)


def small_run(model: Any, method: str, **words: Any) -> Any:
    return ev.log_evidence(model, method=method, n_islands=4, **words, **QUIET)


# -- log_evidence ---------------------------------------------------------------------------------

METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "guided": {"n_particles": 32},
    "importance": {"n_particles": 64},
    "orthant": {"n_particles": 64},
    "sequential": {"n_particles": 64},
    "smc": {"n_particles": 32},
    "ais": {"n_particles": 32, "direction": "both"},
    "pt": {"n_sweeps": 100, "n_levels": 4},
    "arm": {"n_particles": 32},
    "ep": {},
    "laplace": {},
}
for _name, _words in METHODS.items():
    CALLS[f"method {_name}"] = lambda name=_name, words=_words: ev.log_evidence(
        gp(), method=name, **words, **({} if name in ("ep", "laplace") else QUIET)
    )
each("evidence", list(OBSERVED)[1:], lambda name: ev.log_evidence(gp(name), **QUIET))
each(
    "smc resampling",
    ("multinomial", "stratified", "residual"),
    lambda name: small_run(gp("logit"), "smc", n_particles=32, resampling=name, betas=4),
)
each(
    "smc reference",
    ("laplace", "prior"),
    lambda name: small_run(gp("logit"), "smc", n_particles=32, reference=name),
)
CALLS["smc waste-free"] = lambda: small_run(gp("logit"), "smc", n_particles=32, waste_free=8)
CALLS["smc target"] = lambda: ev.log_evidence(gp("logit"), method="smc", target_se=0.1, **QUIET)
CALLS["guided target"] = lambda: ev.log_evidence(
    gp("poisson(exposure=1.5)"), method="guided", target_se=0.05, **QUIET
)
each(
    "classes",
    ("auto", "smc", "laplace"),
    lambda name: ev.log_evidence(softmax(), method=name, **({} if name == "laplace" else QUIET)),
)
each(
    "density",
    ("banana", "funnel", "mixture", "regression", "logistic"),
    lambda name: ev.log_evidence(density(name), n_islands=4, n_particles=64, **QUIET),
)
CALLS["density priors"] = lambda: ev.log_evidence(priors_density(), n_islands=4, **QUIET)
CALLS["density bare"] = lambda: ev.log_evidence(bare_density(), n_islands=4, **QUIET)
CALLS["density jax"] = lambda: ev.log_evidence(jax_density(), n_islands=4, **QUIET)
each(
    "density reference",
    ("laplace", "prior"),
    lambda name: ev.log_evidence(density("logistic"), reference=name, n_islands=4, **QUIET),
)
CALLS["density pt"] = lambda: ev.log_evidence(
    density("banana"), method="pt", n_sweeps=40, n_levels=3, **QUIET
)

# -- sample ---------------------------------------------------------------------------------------

each(
    "move",
    ev.moves.names(),
    lambda name: ev.sample(gp("probit" if name == "gibbs" else "logit", 8), move=name, **SHORT),
)
each(
    "density move",
    (
        "mgrad",
        "hmc",
        "nuts",
        "elliptical",
        "splitting",
        "rmhmc",
        "rmhmc-midpoint",
        "rmhmc-explicit",
    ),
    lambda name: ev.sample(density("banana"), move=name, **SHORT | {"draws": 20, "tune": 20}),
)
CALLS["classes sample"] = lambda: ev.sample(softmax(), **SHORT)
CALLS["smc rmhmc"] = lambda: small_run(
    gp("student_t(df=4, scale=0.5)", 8), "smc", n_particles=16, move="rmhmc", betas=4
)
SCHEMES = (
    *("agrad-z-joint", "agrad-z-gibbs", "pcnl-gibbs", "elliptical-gibbs", "whitened"),
    "pseudo-marginal",
)
each(
    "scheme",
    SCHEMES,
    lambda name: ev.sample_hyperparameters(gp("logit", 8), PRIORS, scheme=name, **SHORT),
)
CALLS["scheme classes"] = lambda: ev.sample_hyperparameters(
    softmax(), {"constant_value": stats.lognorm(0.5)}, fixed=["length_scale"], **SHORT
)

# -- the other verbs ------------------------------------------------------------------------------


@call("sweep")
def _() -> Any:
    return ev.sweep(
        gp("logit"), ["smc", "ais"], ladders=[3, "adaptive"], moves=["mgrad", "hmc"], seeds=1,
        n_particles=16, n_islands=2, progressbar=False,
    )  # fmt: skip


@call("compare")
def _() -> Any:
    kernels = {"wide": "1.0 * RBF(2.0)", "narrow": "1.0 * RBF(0.3)"}
    y = OBSERVED["poisson(exposure=1.5)"]
    return ev.compare({k: ev.GPModel(T, y, v, likelihood="poisson") for k, v in kernels.items()},
                      **QUIET).table  # fmt: skip


@call("surface")
def _() -> Any:
    return ev.evidence_surface(gp(), {"length_scale": [0.8, 1.6]}, **QUIET).table


@call("integrated")
def _() -> Any:
    result = ev.integrated_evidence(gp("logit", 10), PRIORS, n_islands=4, n_particles=64, **QUIET)
    return {"logz": result.logz, "se": result.logz_se, "ep": result.logz_ep, "theta": result.theta}


@call("optimise")
def _() -> Any:
    best = ev.optimise(gp("logit"), n_restarts=1, **QUIET)
    return {"logz": best.logz, "table": best.table, "history": best.history}


@call("predict ep")
def _() -> Any:
    return [ev.predict(gp(name), NEW) for name in OBSERVED]


@call("predict draws")
def _() -> Any:
    model = gp("poisson(exposure=1.5)", 8)
    return ev.predict(model, NEW, posterior=ev.sample(model, **SHORT))


@call("predict hyper")
def _() -> Any:
    model = gp("logit", 8)
    return ev.predict(model, NEW, posterior=ev.sample_hyperparameters(model, PRIORS, **SHORT))


@call("predict evidence")
def _() -> Any:
    model = gp("logit", 8)
    return ev.predict(model, NEW, posterior=small_run(model, "smc", n_particles=32))


@call("predict classes")
def _() -> Any:
    model = softmax()
    return [ev.predict(model, NEW), ev.predict(model, NEW, posterior=ev.sample(model, **SHORT))]


@call("simulate")
def _() -> Any:
    made = ev.simulate(gp("poisson(exposure=1.5)"), random_seed=3)
    draws = ev.posterior_draws(made, 5, n_moves=20, random_seed=4)
    return {"x": made.x, "y": made.y, "draws": draws}


@call("bidirectional")
def _() -> Any:
    both = ev.bidirectional(ev.simulate(gp("logit", 8), random_seed=3), n_chains=16, random_seed=1)
    return {"logz": both.logz, "se": both.logz_se, "up": both.forward, "down": both.reverse}


@call("references")
def _() -> Any:
    fits = [fit(gp(name)) for name in OBSERVED for fit in (ev.fit_ep, ev.fit_laplace)]
    return [{"logz": f.logz, "mean": f.mean, "cov": f.cov, "tau": f.sites.tau} for f in fits]


@call("estimators")
def _() -> Any:
    kernel = 1.0 * RBF(1.0)
    classes = ev.GaussianProcessClassifier(kernel, random_state=0).fit(T, OBSERVED["probit"])
    reals = ev.GaussianProcessRegressor(kernel, random_state=0).fit(T, WAVE)
    return [classes.predict_proba(NEW), *reals.predict(NEW, return_std=True)]


@call("orthant probability")
def _() -> Any:
    result = ev.log_orthant(0.5 * np.eye(4) + 0.5, np.ones(4), n_draws=200, random_seed=0)
    return [result.logp, result.se, result.log_weight_sd]


def positive(y: np.ndarray) -> np.ndarray:
    if not (y > 0.0).all():
        raise ValueError("y: waiting times must be positive")
    return y


def waiting(x: float, y: float) -> tuple[float, float, float, float]:
    r = y * math.exp(-x)
    return -x - r, r - 1.0, -r, r


@call("likelihood of one's own")
def _() -> Any:
    mine = ev.likelihoods.from_function(
        waiting, name="waiting", location=np.log, log_concave=True, check=positive
    )
    K = np.exp(-0.5 * (T - T.T) ** 2)
    model = ev.GPModel(K=K, y=np.exp(WAVE), likelihood=mine, mean=np.resize([0.1, 0.3], 16))
    return [ev.log_evidence(model, **QUIET), ev.sample(model, move="hmc", **SHORT)]


@call("files")
def _() -> Any:
    model = gp("logit", 8)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "run.ckpt"
        words = dict(method="smc", n_particles=16, n_islands=2, checkpoint=kept, **QUIET)
        ev.log_evidence(model, **words).save(Path(folder) / "result.npz")
        again = ev.log_evidence(model, **words | {"n_islands": 4})
        ev.sample(model, **SHORT).save(Path(folder) / "draws.npz")
        result = ev.EvidenceResult.load(Path(folder) / "result.npz")
        return [result, again, ev.Draws.load(Path(folder) / "draws.npz")]


@call("threads")
def _() -> Any:
    with ThreadPoolExecutor(2) as pool:
        return small_run(gp("logit"), "smc", n_particles=32, executor=pool)


# -- numbers of what comes back -------------------------------------------------------------------

FIELDS = {
    "EvidenceResult": ("logz", "logz_se", "estimates", "trace", "samples", "correction_terms"),
    "Draws": ("x", "logtilt", "acceptance", "step_size"),
    "HyperDraws": ("theta", "x", "loglik", "acceptance", "step_sizes"),
    "Prediction": ("mean", "var", "y_mean", "y_var"),
    "ClassPrediction": ("mean", "var", "probability"),
}
UNTIMED = ("seconds", "tune_seconds")


def numbers(thing: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """All numbers in a result, by name; times left out."""
    if name.rpartition(".")[2] in UNTIMED:
        return
    kind = type(thing).__name__
    if kind in FIELDS:
        for field in FIELDS[kind]:
            yield from numbers(getattr(thing, field), f"{name}.{field}")
        if kind == "Prediction":
            yield from numbers(thing.quantiles([0.1, 0.5, 0.9]), f"{name}.quantiles")
        if hasattr(thing, "warnings"):
            yield f"{name}.n_warnings", np.array([len(thing.warnings)], dtype=float)
    elif isinstance(thing, pd.DataFrame):
        for column in thing.columns:
            if thing[column].dtype.kind in "fiub":
                yield from numbers(thing[column].to_numpy(), f"{name}.{column}")
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from numbers(value, f"{name}.{key}")
    elif isinstance(thing, list | tuple):
        for i, value in enumerate(thing):
            yield from numbers(value, f"{name}.{i}")
    else:
        yield name or ".", np.atleast_1d(np.asarray(thing, dtype=float))


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference over largest number; inf where shapes or what is finite differ."""
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    finite = np.isfinite(a)
    if a.shape != b.shape or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return math.inf
    top = np.max(np.abs(a[finite])) or 1.0
    return float(np.nan_to_num(np.max(np.abs(a - b)[finite]) / top, nan=math.inf))


def judge(new: dict[str, np.ndarray], old: dict[str, np.ndarray]) -> str:
    """One word, which part is furthest off, and by how much log Z is."""
    if missing := sorted(old.keys() ^ new.keys()):
        return f"DIFFERENT  parts: {', '.join(missing)[:60]}"
    gaps = {name: gap(old[name], new[name]) for name in old}
    worst = max(gaps, key=lambda name: gaps[name])
    if gaps[worst] == 0.0:
        return "same bits"
    told = [f"{name} {gaps[name]:.1e}" for name in dict.fromkeys((worst, ".logz")) if name in gaps]
    return f"{'1e-9' if gaps[worst] <= 1e-9 else 'DIFFERENT'}  {', '.join(told)}"


def load(file: Path) -> dict[str, dict[str, np.ndarray]]:
    calls: dict[str, dict[str, np.ndarray]] = {}
    with np.load(file) as data:
        for key in data.files:
            name, _, part = key.partition("::")
            calls.setdefault(name, {})[part] = data[key]
    return calls


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="write the numbers to this file (.npz)")
    parser.add_argument("--against", type=Path, help="compare with the numbers in this file")
    parser.add_argument("--only", default="", help="only calls whose name contains this")
    parser.add_argument("--values", action="store_true", help="print log Z and means as well")
    options = parser.parse_args()
    known = load(options.against) if options.against else {}
    print(f"{Path(ev.__file__).parent}, {len(CALLS)} calls")
    made: dict[str, np.ndarray] = {}
    bad = 0
    for name, function in CALLS.items():
        if options.only not in name:
            continue
        started = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                parts = dict(numbers(function()))
        except Exception as error:
            verdict, parts = f"FAILED  {type(error).__name__}: {str(error)[:60]}", {}
            traceback.print_exc()
        else:
            verdict = judge(parts, known[name]) if name in known else "new" if known else ""
        bad += verdict.startswith(("DIFFERENT", "FAILED"))
        made |= {f"{name}::{part}": value for part, value in parts.items()}
        print(f"{name:<34}{time.perf_counter() - started:6.1f} s  {verdict}", flush=True)
        if options.values:
            for label, table in (("was", known.get(name, {})), ("is", parts)):
                print(f"    {label:<4}", {k: round(float(v.mean()), 4) for k, v in table.items()})
    if options.out:
        np.savez_compressed(options.out, **made)
    print(f"{bad} of {len(CALLS)} differ or fail" if known else f"{bad} failed")
    return min(bad, 100)


if __name__ == "__main__":
    sys.exit(main())
