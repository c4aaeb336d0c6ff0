r"""Sparse and Markov models against GPBoost, statsmodels, celerite2 and tinygp.

    pip install gpboost statsmodels celerite2 tinygp
    python -m scripts.rivals.sparse --out results/rivals_sparse

- *chain*: the Gaussian log likelihood of a series with an exponential kernel, which celerite2,
  tinygp and this package compute exactly: they agree to 1e-8.
- *plane*: logistic labels with a Matérn 3/2 kernel. GPBoost: Vecchia's and Laplace's
  approximation of log Z; this package: Vecchia's, completed, with an error bar for the rest.
- *groups*: counts, and labels, in groups with a common level; the standard deviation of the groups
  is lognormal. statsmodels maximises a lower bound of log Z; this package integrates over that
  standard deviation by quadrature, and over the rest with an error bar.

A row for each package and problem: log Z, its distance from this package's, and seconds, the best
of some repeats taken in turn; a package that is missing is "not installed". Compilation is not
counted. tinygp's seconds are those of JAX on this machine's processor.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp

import evidence as ev
from evidence import precisions
from scripts import laboratory

NAME = "sparse"
MISSING = "not installed"
LEVEL_SD, LOG_SD = 2.0, 1.0  # of the common level, and of the logarithm of the groups'
HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)

Logz = Callable[[], float]  # what is timed
Rival = Callable[[], Logz]  # imports its package and prepares what every user does once


def chain(size: int, seed: int) -> dict[str, Rival]:
    """Irregular times, kernel 1.5 exp(-d/2), noise of standard deviation ½."""
    rng = np.random.default_rng((seed, size))
    t = np.sort(rng.uniform(0.0, size / 5.0, size))
    y, noise = rng.normal(size=size), np.full(size, 0.25)

    def ours() -> Logz:
        words = {"likelihood": "gaussian(noise_std=0.5)", "structure": "markov", "jitter": 0.0}
        return lambda: (
            ev.fit_ep(ev.GPModel(t[:, None], y, "1.5*Matern(2.0, nu=0.5)", **words)).logz
        )

    def celerite2() -> Logz:
        from celerite2 import GaussianProcess, terms

        def logz() -> float:
            process = GaussianProcess(terms.RealTerm(a=1.5, c=0.5))
            process.compute(t, diag=noise)
            return float(process.log_likelihood(y))

        return logz

    def tinygp() -> Logz:
        import jax
        from tinygp import GaussianProcess, kernels

        jax.config.update("jax_enable_x64", True)
        kernel = kernels.quasisep.Exp(scale=2.0, sigma=1.5**0.5)
        compiled = jax.jit(lambda y: GaussianProcess(kernel, t, diag=noise).log_probability(y))
        return lambda: float(compiled(y))

    return {"evidence": ours, "celerite2": celerite2, "tinygp": tinygp}


def plane(size: int, seed: int) -> dict[str, Rival]:
    """Labels on the unit square, kernel 4 Matérn 3/2 of length 0.3."""
    rng = np.random.default_rng((seed, size))
    X, kernel = rng.uniform(size=(size, 2)), "4.0*Matern(0.3, nu=1.5)"
    f = 3.0 * np.sin(6.0 * X[:, 0]) * np.cos(5.0 * X[:, 1])
    y = np.where(rng.uniform(size=size) < 1.0 / (1.0 + np.exp(-f)), 1, -1)

    def ours(fit: Callable[[ev.GPModel], float]) -> Rival:
        words = {"likelihood": "logit", "structure": "vecchia"}
        return lambda: lambda: fit(ev.GPModel(X, y, kernel, **words))

    def gpboost() -> Logz:
        import gpboost

        def logz() -> float:
            model = gpboost.GPModel(
                gp_coords=X, cov_function="matern", cov_fct_shape=1.5, num_neighbors=30,
                likelihood="bernoulli_logit", gp_approx="vecchia", seed=seed,
            )  # fmt: skip
            pars = np.array([4.0, 0.3])
            return -float(model.neg_log_likelihood(cov_pars=pars, y=0.5 * (y + 1.0)))

        return logz

    return {
        "evidence": ours(lambda m: estimate(m, seed)),
        "evidence, Laplace": ours(lambda m: ev.fit_laplace(m).logz),
        "evidence, EP": ours(lambda m: ev.fit_ep(m).logz),
        "GPBoost, Laplace": gpboost,
    }


def estimate(model: ev.GPModel | ev.SparseModel, seed: int) -> float:
    return ev.log_evidence(model, random_seed=seed, progressbar=False).logz


def groups(size: int, seed: int, likelihood: str) -> dict[str, Rival]:
    """Ten data on average in each of ``size`` groups; log sd ~ N(0, 1)."""
    rng = np.random.default_rng((seed, size))
    group = np.r_[np.arange(size), rng.integers(0, size, 9 * size)]
    eta = 0.5 + rng.normal(0.0, 0.8, size)[group]
    if likelihood == "poisson":
        y = rng.poisson(np.exp(eta))
    else:
        y = np.where(rng.uniform(size=eta.size) < 1.0 / (1.0 + np.exp(-eta)), 1, -1)
    N, one = y.size, np.ones((y.size, 1))
    Z = sp.csr_array((np.ones(N), (np.arange(N), group)), shape=(N, size))

    def given(log_sd: float) -> float:
        prior = precisions.blocks(
            level=precisions.iid(1, LEVEL_SD), group=precisions.iid(size, float(np.exp(log_sd)))
        )
        A = prior.predictor(level=one, group=Z)
        return estimate(ev.SparseModel(prior, y, likelihood=likelihood, A=A), seed)

    def integrated() -> float:
        reach = 10.0 / np.sqrt(size)  # some ten of its posterior's standard deviations
        nodes = np.log(0.8) + np.linspace(-reach, reach, 19)
        logs = np.array([given(x) for x in nodes]) - 0.5 * (nodes / LOG_SD) ** 2
        return float(logsumexp(logs) + np.log((nodes[1] - nodes[0]) / LOG_SD) - HALF_LOG_2PI)

    def statsmodels() -> Logz:
        from statsmodels.genmod import bayes_mixed_glm as mixed

        known = {"vcp_p": LOG_SD, "fe_p": LEVEL_SD}
        counts = likelihood == "poisson"
        kind = mixed.PoissonBayesMixedGLM if counts else mixed.BinomialBayesMixedGLM
        labels = y if counts else (y + 1) // 2

        def bound() -> float:
            model = kind(labels, one, sp.csr_matrix(Z), np.zeros(size, int), **known)
            start = model.fit_map().params
            fit = model.fit_vb(mean=start, sd=np.full(start.size, 0.1))
            sd = np.concatenate([fit.fe_sd, fit.vcp_sd, fit.vc_sd])
            mean = np.concatenate([fit.fe_mean, fit.vcp_mean, fit.vc_mean])
            # what it leaves out: entropies of unit normals, priors' constants, factorials
            factorials = gammaln(y + 1.0).sum() if counts else 0.0
            constant = 0.5 * sd.size - np.log(LEVEL_SD) - np.log(LOG_SD) - factorials
            return float(model.vb_elbo(mean, sd) + constant)

        return bound

    return {"evidence": lambda: integrated, "statsmodels, bound": statsmodels}


#: problem -> rivals of a size, sizes in full, sizes with --fast, repeats
PROBLEMS = {
    "chain": (chain, [10_000, 1_000_000], [500], 5),
    "plane": (plane, [500, 2000, 10_000], [60], 1),
    "groups, counts": (lambda n, s: groups(n, s, "poisson"), [100, 1000], [12], 1),
    "groups, labels": (lambda n, s: groups(n, s, "logit"), [100, 1000], [12], 1),
}


def measure(rivals: dict[str, Rival], repeats: int) -> list[dict[str, object]]:
    """log Z of each and its best seconds, in turn, after one call that compiles."""
    ready: dict[str, Logz] = {}
    for who, rival in rivals.items():
        try:
            ready[who] = rival()
        except ImportError:
            print(f"  {who}: {MISSING}")
    values = {who: logz() for who, logz in ready.items()}
    best = dict.fromkeys(ready, np.inf)
    for _ in range(repeats):
        for who, logz in ready.items():
            started = time.perf_counter()
            logz()
            best[who] = min(best[who], time.perf_counter() - started)
    own = values["evidence"]
    return [
        {
            "package": who,
            "logz": values.get(who, np.nan),
            "distance": values.get(who, np.nan) - own,
            "seconds": best.get(who, np.nan),
            "relative_seconds": best.get(who, np.nan) / best["evidence"],
            "status": "" if who in ready else MISSING,
        }
        for who in rivals
    ]


def parse(arguments: list[str] | None = None) -> Namespace:
    parser = laboratory.parser(__doc__, f"rivals_{NAME}")
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    rows = []
    for name in options.only:
        problem, sizes, small, repeats = PROBLEMS[name]
        for size in small if options.fast else sizes:
            print(f"{name}, {size}", flush=True)
            for row in measure(problem(size, options.seed), repeats):
                rows.append({"problem": name, "size": size, **row})
                print(
                    "  {package:20s} log Z {logz:>15.6f} distance {distance:>11.3g} "
                    "{seconds:>9.4f} s = {relative_seconds:.3g} × ours {status}".format(**row),
                    flush=True,
                )
    laboratory.save_table(pd.DataFrame(rows), options.out, NAME)


if __name__ == "__main__":
    main()
