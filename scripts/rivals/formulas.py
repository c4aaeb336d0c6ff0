r"""Mixed models, hyperparameters integrated out, against packages of Python and R.

    pip install pymc bambi statsmodels gpboost
    apt install r-cran-lme4 r-cran-glmmtmb r-cran-rstanarm r-cran-bridgesampling r-cran-bh
    EVIDENCE_DATA=folder python -m scripts.rivals.formulas --out results/rivals_formulas

- *turtles*: survival of 244 turtles in 31 clutches, probit, without and with an effect of the
  clutch: Sinharay and Stern (2005), exact by quadrature. Needs the research data.
- *labels*: 2000 labels in 200 groups, logit, y ~ x + (1 | g). Truth: Gauss-Hermite quadrature
  about the mode, of each group's effect and then of the intercept, slope and σ; two orders.
- *crossed*: 25 counts in two crossed factors, k ~ 1 + (1 | g) + (1 | h); the truth is that of
  `scripts.benchmarks.formulas`.

Data and priors are the same for all that compute log Z. The others say what they compute:
statsmodels has a lower bound of log Z, and a lognormal prior for σ; GPBoost, lme4 and glmmTMB
have Laplace's approximation of the likelihood with effects of groups integrated out, and no
priors: the row is -BIC/2 at its maximum, a crude stand-in for an evidence. R's bridgesampling
(`mixed.R`) gets draws of rstanarm; of the turtles in clutches, whose prior rstanarm does not
have, those of a Stan program.

A row for each package, problem and seed: log Z, its own standard error, its distance from the
truth, and seconds. Rivals run in a process of their own that is ended after ``LIMIT`` seconds.
Seconds are rough: they contain the start of R and the compilation of models by PyMC and Stan;
this package's second call is timed.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.polynomial.hermite_e import hermegauss
from scipy import optimize, stats
from scipy.special import expit, gammaln, log_expit, logsumexp

import evidence as ev
from scripts import laboratory
from scripts.benchmarks import formulas

NAME = "rivals_formulas"
MISSING = "not installed"
CROSSED = (
    -47.56146,
    2e-5,
)  # of `python -m scripts.benchmarks.formulas --problems poisson-crossed`
TURTLES = {"turtles, no clutches": -156.47859, "turtles, clutches": -156.71973}
LIMIT = 240.0  # seconds for one rival
SD_SCALE = 0.8  # of the exponential prior of a standard deviation


class Problem(NamedTuple):
    formula: str
    likelihood: str
    data: pd.DataFrame
    response: str
    columns: tuple[str, ...]
    """Of the common effects, "1" for the intercept, with priors N(0, spread²)."""
    factors: tuple[str, ...]
    """Of the effects of groups."""
    spread: float
    variances: bool
    """Whether variances of effects of groups have a beta prime prior, not σ an exponential one."""
    truth: tuple[float, float]
    """log Z and how far off it may be."""

    @property
    def y(self) -> np.ndarray:
        return self.data[self.response].to_numpy()

    @property
    def X(self) -> np.ndarray:
        return formulas.columns(self.columns, self.data)

    def codes(self, factor: str) -> tuple[int, np.ndarray]:
        levels, code = np.unique(self.data[factor], return_inverse=True)
        return levels.size, code


class Answer(NamedTuple):
    logz: float
    se: float = np.nan
    remark: str = ""


# -- problems -----------------------------------------------------------------------------------


def turtles(clutches: bool, name: str) -> Problem:
    with np.load(Path(os.environ["EVIDENCE_DATA"]) / "turtles.npz") as stored:
        data = pd.DataFrame({key: stored[key] for key in ("y", "x", "clutch")})
    formula = "y ~ x + (1 | clutch)" if clutches else "y ~ x"
    factors = ("clutch",) if clutches else ()
    spread, truth = 10.0**0.5, (TURTLES[name], 1e-5)
    return Problem(formula, "probit", data, "y", ("1", "x"), factors, spread, True, truth)


def labels(rows: int, groups: int, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=rows), np.arange(rows) % groups
    eta = -0.3 + 0.6 * x + rng.normal(0.0, 0.8, groups)[g]
    y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    data = pd.DataFrame({"y": y, "x": x, "g": g})
    blank = Problem(
        "y ~ x + (1 | g)", "bernoulli", data, "y", ("1", "x"), ("g",), 1.5, False, (0.0, 0.0)
    )
    return blank._replace(truth=quadrature(blank))


def crossed() -> Problem:
    kind, data = formulas.PROBLEMS["poisson-crossed"], formulas.table()
    spread = formulas.SPREAD
    return Problem(
        kind.formula, "poisson", data, "k", kind.columns, ("g", "h"), spread, False, CROSSED
    )


PROBLEMS: dict[str, Callable[[bool], Problem]] = {
    "turtles, no clutches": lambda fast: turtles(False, "turtles, no clutches"),
    "turtles, clutches": lambda fast: turtles(True, "turtles, clutches"),
    "labels": lambda fast: labels(60, 6) if fast else labels(2000, 200),
    "crossed": lambda fast: crossed(),
}


def quadrature(problem: Problem) -> tuple[float, float]:
    """log Z of labels in groups, and the difference between two orders."""
    groups, code = problem.codes(problem.factors[0])
    X, sign = problem.X, 2.0 * problem.y - 1.0

    def log_joint(theta: np.ndarray, order: int = 15) -> float:
        """Of θ = (intercept, slope, normal score of σ) and labels: groups by Gauss-Hermite."""
        sd = -SD_SCALE * stats.norm.logsf(theta[2])
        eta, z = X @ theta[:2], np.zeros(groups)
        for _ in range(8):
            p = expit(eta + sd * z[code])
            slope = np.bincount(code, (sign + 1.0) / 2.0 - p, groups)
            H = 1.0 + sd**2 * np.bincount(code, p * (1.0 - p), groups)
            z += (sd * slope - z) / H
        t, w = hermegauss(order)
        nodes = z + t[:, None] / np.sqrt(H)
        each = log_expit(sign * (eta + sd * nodes[:, code]))
        inner = np.stack([np.bincount(code, row, groups) for row in each])
        logs = np.log(w / w.sum())[:, None] + 0.5 * (t[:, None] ** 2 - nodes**2)
        prior = stats.norm.logpdf(theta, 0.0, [problem.spread, problem.spread, 1.0]).sum()
        return float(prior + (logsumexp(inner + logs, axis=0) - 0.5 * np.log(H)).sum())

    def lost(theta: np.ndarray) -> float:
        return -log_joint(theta)

    peak = optimize.minimize(lost, np.zeros(3), method="BFGS")
    root = np.linalg.cholesky(peak.hess_inv)
    logz = []
    for order in (9, 11):
        t, logs = formulas.hermite(3, order)
        values = [log_joint(peak.x + root @ node) for node in t]
        logz.append(logsumexp(logs + values) + 1.5 * np.log(2.0 * np.pi))
    size = np.log(np.diagonal(root)).sum()
    return float(logz[1] + size), float(abs(logz[1] - logz[0]))


# -- packages -----------------------------------------------------------------------------------


def ours(problem: Problem, seed: int, fast: bool) -> Answer:
    given: dict[str, Any] = {
        "Intercept" if c == "1" else c: stats.norm(0.0, problem.spread) for c in problem.columns
    }
    for factor in problem.factors:
        if problem.variances:
            given[f"var(1|{factor})"] = stats.betaprime(1.0, 1.0)
        else:
            given[f"sd(1|{factor})"] = stats.expon(scale=SD_SCALE)
    model = ev.from_formula(
        problem.formula, problem.data, likelihood=problem.likelihood, priors=given
    )
    result = ev.log_evidence(model, random_seed=seed, progressbar=False)
    return Answer(result.logz, result.logz_se, "; ".join(map(str, result.warnings)))


def pymc_model(problem: Problem) -> Any:
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, problem.spread, shape=len(problem.columns))
        eta = pm.math.dot(problem.X, beta)
        for factor in problem.factors:
            size, code = problem.codes(factor)
            if problem.variances:  # odds of a uniform number are beta prime
                u = pm.Uniform(f"u_{factor}", 0.0, 1.0)
                sd = pm.math.sqrt(u / (1.0 - u))
            else:
                sd = pm.Exponential(f"sd_{factor}", scale=SD_SCALE)
            eta = eta + (sd * pm.Normal(f"z_{factor}", shape=size))[code]
        if problem.likelihood == "poisson":
            pm.Poisson("y", pm.math.exp(eta), observed=problem.y)
        elif problem.likelihood == "probit":
            pm.Bernoulli("y", p=pm.math.invprobit(eta), observed=problem.y)
        else:
            pm.Bernoulli("y", logit_p=eta, observed=problem.y)
    return model


def bambi_model(problem: Problem) -> Any:
    import bambi

    if problem.variances and problem.factors:
        raise NotImplementedError("no beta prime prior of a variance")
    normal = bambi.Prior("Normal", mu=0.0, sigma=problem.spread)
    given = {"Intercept" if c == "1" else c: normal for c in problem.columns}
    for factor in problem.factors:
        sd = bambi.Prior("Exponential", lam=1.0 / SD_SCALE)
        given[f"1|{factor}"] = bambi.Prior("Normal", mu=0.0, sigma=sd)
    counts = problem.likelihood == "poisson"
    model = bambi.Model(
        problem.formula, problem.data, family="poisson" if counts else "bernoulli", priors=given,
        link="probit" if problem.likelihood == "probit" else None, center_predictors=False,
    )  # fmt: skip
    model.build()
    return model.backend.model


def by_smc(make: Callable[[Problem], Any], problem: Problem, seed: int, fast: bool) -> Answer:
    """PyMC's sample_smc: four runs; their scatter is the error."""
    import pymc as pm

    with make(problem):
        found = pm.sample_smc(
            100 if fast else 2000, chains=4, cores=1, random_seed=seed, progressbar=False,
            compute_convergence_checks=False, return_inferencedata=False,
        )  # fmt: skip
    stages = found.report.log_marginal_likelihood
    runs = np.array([float(np.asarray(run).ravel()[-1]) for run in stages])
    scatter = runs.std(ddof=1) / 2.0
    return Answer(float(logsumexp(runs) - np.log(runs.size)), scatter, "error: scatter of 4 runs")


def by_bridge(problem: Problem, seed: int, fast: bool) -> Answer:
    """Draws of PyMC's NUTS, bridged by this package."""
    import pymc as pm

    model = pymc_model(problem)
    with model:
        draws = pm.sample(
            100 if fast else 1000, tune=100 if fast else 1000, chains=4, cores=1,
            random_seed=seed, progressbar=False,
        )  # fmt: skip
    result = ev.evidence_from_draws(
        draws, ev.from_pymc(model), random_seed=seed, progressbar=False
    )
    return Answer(result.logz, result.logz_se, "; ".join(map(str, result.warnings)))


def statsmodels(problem: Problem, seed: int, fast: bool) -> Answer:
    import scipy.sparse as sp
    from statsmodels.genmod import bayes_mixed_glm as mixed

    if problem.likelihood == "probit" or not problem.factors:
        raise NotImplementedError("mixed models with a logit or Poisson likelihood only")
    counts = problem.likelihood == "poisson"
    kind = mixed.PoissonBayesMixedGLM if counts else mixed.BinomialBayesMixedGLM
    parts = [np.eye(size)[code] for size, code in map(problem.codes, problem.factors)]
    which = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    Z = sp.csr_matrix(np.hstack(parts))
    model = kind(problem.y, problem.X, Z, which, vcp_p=1.0, fe_p=problem.spread)
    start = model.fit_map().params
    fit = model.fit_vb(mean=start, sd=np.full(start.size, 0.1))
    sd = np.concatenate([fit.fe_sd, fit.vcp_sd, fit.vc_sd])
    mean = np.concatenate([fit.fe_mean, fit.vcp_mean, fit.vc_mean])
    # what it leaves out: entropies of unit normals, priors' constants, factorials
    constant = 0.5 * sd.size - len(problem.columns) * np.log(problem.spread)
    constant -= gammaln(problem.y + 1.0).sum() if counts else 0.0
    bound = float(model.vb_elbo(mean, sd) + constant)
    return Answer(bound, remark="another prior: log σ ~ N(0, 1)")


def gpboost(problem: Problem, seed: int, fast: bool) -> Answer:
    import gpboost

    if not problem.factors:
        raise NotImplementedError("needs effects of groups")
    known = {"probit": "bernoulli_probit", "bernoulli": "bernoulli_logit", "poisson": "poisson"}
    group = np.column_stack([problem.codes(factor)[1] for factor in problem.factors])
    model = gpboost.GPModel(group_data=group, likelihood=known[problem.likelihood], seed=seed)
    model.fit(y=problem.y.astype(float), X=problem.X)
    best = -float(model.get_current_neg_log_likelihood())
    count = len(problem.columns) + len(problem.factors)
    bic = best - 0.5 * count * np.log(problem.y.size)
    return Answer(bic, remark=f"no priors; its own maximum of log p(y | θ) is {best:.3f}")


def by_r(package: str, problem: Problem, seed: int, fast: bool) -> Answer:
    if package in ("lme4", "glmmTMB") and not problem.factors:
        raise NotImplementedError("needs effects of groups")
    family = ("poisson", "log") if problem.likelihood == "poisson" else ("binomial", "logit")
    family = ("binomial", "probit") if problem.likelihood == "probit" else family
    data = pd.DataFrame({"y": problem.y})
    data[[f"x{k}" for k in range(len(problem.columns))]] = problem.X
    data[list(problem.factors)] = problem.data[list(problem.factors)]
    scale = 0.0 if problem.variances else SD_SCALE
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "data.csv"
        data.to_csv(table, index=False)
        numbers = map(str, (problem.spread, scale, seed + 1, 100 if fast else 1000))
        done = subprocess.run(
            ["Rscript", str(Path(__file__).with_name("mixed.R")), package, str(table),
             ",".join(problem.factors), *family, *numbers],
            capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(" ".join(done.stderr.split())[-150:])
    logz, se, remark = done.stdout.strip().splitlines()[-1].split("\t")
    return Answer(float(logz), float(se), remark)


#: package -> what it needs beside this one, what it computes, how
PACKAGES: dict[str, tuple[str, str, Callable[[Problem, int, bool], Answer]]] = {
    "evidence": ("", "log Z", ours),
    "PyMC, sample_smc": ("pymc", "log Z", partial(by_smc, pymc_model)),
    "Bambi, sample_smc": ("bambi", "log Z", partial(by_smc, bambi_model)),
    "PyMC NUTS, our bridge": ("pymc", "log Z", by_bridge),
    "statsmodels, VB": ("statsmodels", "lower bound of log Z", statsmodels),
    "GPBoost, Laplace": ("gpboost", "-BIC/2", gpboost),
    "lme4, Laplace": ("R lme4", "-BIC/2", partial(by_r, "lme4")),
    "glmmTMB, Laplace": ("R glmmTMB", "-BIC/2", partial(by_r, "glmmTMB")),
    "rstanarm, bridgesampling": ("R bridgesampling", "log Z", partial(by_r, "bridgesampling")),
}


def installed(package: str) -> bool:
    """Of Python, or "R name"."""
    if not package.startswith("R "):
        return importlib.util.find_spec(package) is not None
    ask = f"quit(status = !requireNamespace('{package[2:]}'))"
    return (
        bool(shutil.which("Rscript"))
        and not subprocess.run(["Rscript", "-e", ask], capture_output=True, check=False).returncode
    )


def run(who: str, problem: Problem, seed: int, fast: bool) -> tuple[Answer, float]:
    started = time.perf_counter()
    answer = PACKAGES[who][2](problem, seed, fast)
    return answer, time.perf_counter() - started


def measure(who: str, problem: Problem, seed: int, fast: bool) -> tuple[Answer, float]:
    package, case = PACKAGES[who][0], (who, problem, seed, fast)
    if not package:
        run(*case)
        return run(*case)
    if not installed(package):
        return Answer(np.nan, remark=MISSING), np.nan
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # ended with the block
        try:
            return pool.apply_async(run, case).get(LIMIT + 10.0)
        except (multiprocessing.TimeoutError, subprocess.TimeoutExpired):
            return Answer(np.nan, remark=f"stopped after {LIMIT:g} s"), np.nan
        except Exception as error:
            return Answer(np.nan, remark=f"{type(error).__name__}: {error}"[:200]), np.nan


def parse(arguments: list[str] | None = None) -> Namespace:
    parser = laboratory.parser(__doc__, f"rivals_{NAME}")
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--seeds", type=int, default=1, help="of what is random")
    return parser.parse_args(arguments)


def main() -> None:
    options, rows = parse(), []
    for name in options.only:
        if "turtles" in name and (options.fast or not os.environ.get("EVIDENCE_DATA")):
            print(f"{name}: left out, needs EVIDENCE_DATA and no --fast")
            continue
        problem = PROBLEMS[name](options.fast)
        exact, error = problem.truth
        print(f"{name}: truth {exact:.5f}, error {error:.1e}", flush=True)
        random = [who for who in options.packages if PACKAGES[who][1] == "log Z"]
        cases = [(who, 0) for who in options.packages]
        cases += [(who, seed) for seed in range(1, options.seeds) for who in random]
        for who, seed in cases:
            answer, seconds = measure(who, problem, seed, options.fast)
            rows.append(
                {
                    "problem": name, "package": who, "computes": PACKAGES[who][1], "seed": seed,
                    "logz": answer.logz, "logz_se": answer.se, "truth": exact,
                    "error": answer.logz - exact, "seconds": seconds, "remark": answer.remark,
                }
            )  # fmt: skip
            print(
                "  {package:24s} {computes:21s} {seed} {logz:>11.4f} ± {logz_se:<7.4f} error "
                "{error:>8.4f} {seconds:>7.1f} s  {remark}".format(**rows[-1]),
                flush=True,
            )
            laboratory.save_table(pd.DataFrame(rows), options.out, NAME)


if __name__ == "__main__":
    main()
