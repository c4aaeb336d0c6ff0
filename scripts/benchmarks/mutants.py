"""Whether tests notice what is wrong: one mistake at a time, in a copy of the tree.

    python -m scripts.benchmarks.mutants
    python -m scripts.benchmarks.mutants --only swap psis --out results

A *mutant* is one exact replacement in one file of the package, a mistake that a tired person could
make: a term dropped from an acceptance ratio, a weight taken after the move, a quantile shifted
by half a place. The tests named with it are the narrowest that ought to notice. It is *killed*
when one of them fails and *survives* when all pass. A replacement whose text does not occur
exactly once is an error: code has moved on, and the list has to.

The tree itself is never touched: mutants live one after the other in one copy of it, in the
folder for temporary files, under a name that is the same every time. Compiled code is kept by
place and by what it computes, so that only what a mutant changes is compiled anew.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("evidence", "tests", "scripts", "pyproject.toml", "README.md")
COPY = Path(tempfile.gettempdir()) / f"evidence-mutants-{os.getuid()}"
FAILED = 1  # what pytest ends with where a test has failed


class Mutant(NamedTuple):
    """A mistake."""

    what: str
    file: str
    """In the folder ``evidence``"""
    old: str
    new: str
    tests: str
    """Files in the folder ``tests``, and pytest's -k"""


INVARIANCE = "moves/test_invariance.py"
MUTANTS = {
    # -- orders and tables
    "star": Mutant(
        "few groups are eliminated as they come, and what they share is drawn last",
        "numerics/sparse/ordering.py",
        "else long * width <= n",
        "else True",
        "proposals/test_steps.py -k share",
    ),
    "eight-bytes": Mutant(
        "columns of small integers stay as they are",
        "models/formulas/model.py",
        "data[c].astype(float if real else np.int64)",
        "data[c]",
        "models/formulas/test_bad_input.py -k small_numbers",
    ),
    # -- moves
    "pcn-spread": Mutant(
        "the noise of pCN has the variance 1 - ρ",
        "moves/gradient/crank_nicolson.py",
        "np.sqrt(1.0 - rho * rho)",
        "np.sqrt(1.0 - rho)",
        INVARIANCE + " -k 'pcn and not pcnl'",
    ),
    "langevin-base": Mutant(
        "the base is left out of Langevin's acceptance ratio",
        "moves/gradient/langevin.py",
        "(x * x - y * y) / gamma[i] + (there * there - back * back) / delta",
        "(there * there - back * back) / delta",
        INVARIANCE + " -k 'mala and not pmala and not mmala'",
    ),
    "mgrad-weigh": Mutant(
        "a factor is missing on the way there, in mGrad's acceptance ratio",
        "moves/gradient/mgrad.py",
        "- 0.5 * push[i] * g1) * weigh[i] * g1",
        "- 0.5 * push[i] * g1) * g1",
        INVARIANCE + " -k 'mgrad'",
    ),
    "agrad-half": Mutant(
        "δ/2 in the place of δ/4 in aGrad-u's acceptance ratio",
        "moves/gradient/agrad.py",
        "(u[m, i] + 0.25 * delta * g1)",
        "(u[m, i] + 0.5 * delta * g1)",
        INVARIANCE + " -k 'agrad-u'",
    ),
    "slice-temperature": Mutant(
        "slices forget the temperature where they accept",
        "moves/gradient/elliptical.py",
        "if s.beta[m] * tilt > s.level[m]:",
        "if tilt > s.level[m]:",
        INVARIANCE + " -k 'elliptical'",
    ),
    "gibbs-noise": Mutant(
        "latent values given utilities lack a part of their noise",
        "moves/gradient/gibbs.py",
        "rest = z.T - self.mean - f - noise",
        "rest = z.T - self.mean - f",
        "moves/gradient/test_gibbs.py -k invariance",
    ),
    "momentum-kept": Mutant(
        "momentum is not refreshed",
        "moves/hamiltonian/hmc.py",
        "p = standard_normal(rng, state.a.shape)",
        "p = np.ones_like(state.a)",
        INVARIANCE + " -k 'hmc and not rmhmc'",
    ),
    "last-kick": Mutant(
        "the last kick of a trajectory is a whole one",
        "moves/hamiltonian/hmc.py",
        "0.5 if last else 1.0",
        "1.0",
        INVARIANCE + " -k 'hmc and not rmhmc'",
    ),
    "nuts-merge": Mutant(
        "NUTS takes the new half whatever it weighs",
        "moves/hamiltonian/nuts.py",
        "if u[m] < np.exp(min(0.0, new - old)):",
        "if u[m] < 1.0:",
        "moves/hamiltonian/test_nuts.py -k invariance",
    ),
    "mmala-determinant": Mutant(
        "half a log determinant is missing in manifold MALA's acceptance ratio",
        "moves/riemannian/mmala.py",
        "ratio = -value - half + 0.5",
        "ratio = -value + 0.5",
        INVARIANCE + " -k 'mmala'",
    ),
    "second-order-determinant": Mutant(
        "one of two log determinants is halved in the second-order sampler",
        "moves/riemannian/second_order.py",
        "return 2.0 * half - wide",
        "return half - wide",
        INVARIANCE + " -k 'second-order'",
    ),
    "leapfrog-trace": Mutant(
        "the generalised leapfrog's force forgets how the log determinant changes",
        "moves/riemannian/separable/leapfrog.py",
        "p[i] += 0.5 * eps * (there[FORCE, i] - there[TRACE, i])\n        p[i] += 0.25",
        "p[i] += 0.5 * eps * there[FORCE, i]\n        p[i] += 0.25",
        "moves/riemannian/test_separable.py",
    ),
    "one-sided-reverse": Mutant(
        "a step counts as reversible when its first half is found again",
        "moves/riemannian/dense/integrators.py",
        "return first & second",
        "return first",
        "moves/riemannian/test_dense.py -k 'way_back or crossed'",
    ),
    "copies": Mutant(
        "the copies of doubled phase space are left out of the acceptance ratio",
        "moves/riemannian/dense/integrators.py",
        "return point.minus_energy(p) - 0.5 * total / bind.sigma**2",
        "return point.minus_energy(p)",
        "moves/riemannian/test_dense.py -k 'copies or explicit'",
    ),
    "fixed-point": Mutant(
        "fixed points are stopped early",
        "numerics/anderson.py",
        "limit = tolerance * tolerance * scale",
        "limit = tolerance * scale",
        "moves/riemannian/test_separable.py",
    ),
    # -- drivers
    "weight-after-move": Mutant(
        "on the way down weights are taken after the move",
        "drivers/annealing.py",
        """            log_u = log_u - (beta - stage.beta) * state.tilt
            moves = strided(self.move, stage.step_size, int(end) - n, n)[::-1]
            state, infos, mixing = run_moves(rng, self.path, stage.beta, state, moves)
""",
        """            moves = strided(self.move, stage.step_size, int(end) - n, n)[::-1]
            state, infos, mixing = run_moves(rng, self.path, stage.beta, state, moves)
            log_u = log_u - (beta - stage.beta) * state.tilt
""",
        "drivers/test_annealing.py",
    ),
    "temperature-before": Mutant(
        "particles move at the temperature before",
        "drivers/smc.py",
        """        population.stage = stage
        population.state, mixing = self.moved(population, population.state)
""",
        """        population.state, mixing = self.moved(population, population.state)
        population.stage = stage
""",
        "drivers/test_smc.py",
    ),
    "carried-weights": Mutant(
        "weights that are carried on are not normalised",
        "drivers/smc.py",
        "np.where(poor[:, None], 0.0, weights.normalised)",
        "np.where(poor[:, None], 0.0, weights.log)",
        "drivers/test_smc.py",
    ),
    "anticipated": Mutant(
        "what was anticipated is not divided out",
        "drivers/smc.py",
        "log_w = following.log_mean[:, None] - increment.ravel()[chosen]",
        "log_w = np.zeros(chosen.shape)",
        "drivers/test_smc_adaptive.py",
    ),
    "resampled-on-the-way": Mutant(
        "guided draws that are resampled on the way lose their normaliser so far",
        "drivers/weighted.py",
        "self.log_z, each[which] = np.where(which, log_z, self.log_z), 0.0",
        "each[which] = 0.0",
        "drivers/test_weighted.py",
    ),
    "swap": Mutant(
        "swaps are accepted without the difference of temperatures",
        "drivers/tempering/ensemble.py",
        "log_ratio = np.diff(betas)[:, None] * (tilt[:-1] - tilt[1:])",
        "log_ratio = tilt[:-1] - tilt[1:]",
        "drivers/tempering/test_tempering.py",
    ),
    "jump": Mutant(
        "jumps forget the component whose path chains are on",
        "drivers/jumps.py",
        "beta * state.tilt + log_parts[:, self.best]",
        "beta * state.tilt",
        "drivers/test_jumps.py",
    ),
    "bennett": Mutant(
        "Bennett's two sides change places",
        "drivers/crooks.py",
        "Bennett(c + left.value - right.value,",
        "Bennett(c + right.value - left.value,",
        "drivers/test_annealing.py -k bennett",
    ),
    # -- statistics
    "systematic": Mutant(
        "systematic resampling is off by one",
        "statistics/resampling.py",
        "np.arange(m) + rng.random(1), m)",
        "np.arange(1, m + 1) + rng.random(1), m)",
        "statistics/test_resampling.py",
    ),
    "residual": Mutant(
        "the missing ones are drawn from the weights, not from what is left of them",
        "statistics/resampling.py",
        "np.bincount(multinomial(expected - counts, rng, missing)",
        "np.bincount(multinomial(expected, rng, missing)",
        "statistics/test_resampling.py",
    ),
    "threshold": Mutant(
        "the threshold of Pareto's k is the larger of two",
        "statistics/weights.py",
        "if shape > min(1.0 - 1.0 / math.log10(n), limit):",
        "if shape > max(1.0 - 1.0 / math.log10(n), limit):",
        "statistics/test_weights.py",
    ),
    "pareto-quantile": Mutant(
        "smoothed weights are quantiles shifted by half a place",
        "statistics/psis.py",
        "(np.arange(tail.size) + 0.5) / tail.size",
        "np.arange(tail.size) / tail.size",
        "statistics/test_psis.py",
    ),
    "freedom": Mutant(
        "an error bar divides by n where it should by n - 1",
        "statistics/diagnostics.py",
        "float(z.std(ddof=1) / mean)",
        "float(z.std() / mean)",
        "statistics/test_diagnostics.py",
    ),
    "bridge-autocorrelation": Mutant(
        "a bridge takes its draws to be independent",
        "statistics/bridge.py",
        "f_draws.var() / n_effective",
        "f_draws.var() / f_draws.size",
        "statistics/test_bridge.py",
    ),
    # -- gaussians
    "dense-determinant": Mutant(
        "log|K| is half of what it is",
        "gaussians/dense.py",
        "return 2.0 * float(np.log(np.diag(self.chol)).sum())",
        "return float(np.log(np.diag(self.chol)).sum())",
        "gaussians/test_contract.py -k 'priors or gaussians'",
    ),
    "symmetry": Mutant(
        "a covariance is not made symmetric",
        "gaussians/dense.py",
        "        triangles.mirror(full)\n",
        "",
        "gaussians/test_contract.py -k 'gaussians or covariance'",
    ),
    "chain-noise": Mutant(
        "the smoother forgets the noise between states",
        "gaussians/markov.py",
        "left * left * after + gain * gain * Q[which[k]]",
        "left * left * after",
        "gaussians/test_contract.py -k 'priors or gaussians'",
    ),
    # -- approximations
    "cavity": Mutant(
        "sites are not divided out of the cavity's mean",
        "approximations/gp/cavities.py",
        "v * (mu / var - nu)",
        "v * (mu / var)",
        "approximations/gp/test_ep.py",
    ),
    "ep-early": Mutant(
        "EP stops a thousand times too early",
        "approximations/gp/ep.py",
        "if mismatch < tol:",
        "if mismatch < 1e3 * tol:",
        "approximations/gp/test_ep.py",
    ),
    "correction-sign": Mutant(
        "the second-order correction has the wrong sign",
        "approximations/gp/correction.py",
        "weights = np.array([1.0 /",
        "weights = np.array([-1.0 /",
        "approximations/gp/test_correction.py",
    ),
    # -- proposals
    "twist-mean": Mutant(
        "what a guide has learnt of the mean is missing in its normaliser",
        "proposals/twist.py",
        "np.sum(np.log(v) + v * b**2)",
        "np.sum(np.log(v))",
        "proposals/test_twist.py",
    ),
    "tilting": Mutant(
        "half of the tilt's square is missing in the weight",
        "proposals/tilting.py",
        "tilt * (0.5 * tilt - new[m])",
        "tilt * (tilt - new[m])",
        "proposals/test_tilting.py",
    ),
    "guide-site": Mutant(
        "sites are not divided out of the weights of probit's utilities",
        "proposals/guide.py",
        "log_weight[m] -= constant + cavity * (linear - square * cavity)",
        "log_weight[m] -= constant",
        "proposals/test_guide.py",
    ),
    "halves": Mutant(
        "what both halves of a cross-fit share is counted as independent",
        "proposals/crossfit.py",
        "one + two + 2.0 * correlation * math.sqrt(one * two)",
        "one + two",
        "proposals/test_crossfit.py",
    ),
    # -- paths
    "thin-slope": Mutant(
        "the gradient of a few rows forgets the precision of sites",
        "paths/gp.py",
        "block[1, i] - nu[k] + tau[k] * x[m, k]",
        "block[1, i] - nu[k]",
        "paths/test_gp.py",
    ),
    "stepped-slope": Mutant(
        "the gradient along a sparse order has a wrong sign",
        "paths/stepped.py",
        "- nu + tau * rows",
        "- nu - tau * rows",
        "paths/test_stepped.py",
    ),
    "jacobian": Mutant(
        "a Jacobian is missing",
        "paths/density.py",
        "no_nan(value + q.change.log_slope(z).total)",
        "no_nan(value)",
        "moves/riemannian/test_dense.py -k 'field or invariance'",
    ),
    "stretch-volume": Mutant(
        "what volumes grow by is missing where walks stretch a difference",
        "approximations/density/walks.py",
        "np.where(near, u * (z.shape[1] if whole else 1), -np.inf)",
        "np.where(near, 0.0 * u, -np.inf)",
        "approximations/density/test_search.py -k leave_their_target",
    ),
    # -- prediction
    "mixture-variance": Mutant(
        "the variance of a mixture forgets that means differ",
        "prediction/gp.py",
        "cov[:, 0, 0] + m[0].var(axis=0)",
        "cov[:, 0, 0]",
        "prediction/test_predict.py -k 'mixture or moments or draws'",
    ),
    "count-quantile": Mutant(
        "quantiles of counts are one too small",
        "prediction/quantiles.py",
        "np.where(enough, middle, high)\n    return high",
        "np.where(enough, middle, high)\n    return low",
        "prediction/test_predict.py -k quantiles",
    ),
    # -- hyper
    "pcnl-ratio": Mutant(
        "a factor is missing in pCNL's acceptance ratio",
        "hyper/pcnl.py",
        "return float((push - 0.5 * (1.0 - rho) * drift) / (1.0 + rho))",
        "return float(push - 0.5 * (1.0 - rho) * drift)",
        "hyper/test_schemes.py -k ratio",
    ),
    "joint-normaliser": Mutant(
        "a joint move forgets how well the old hyperparameters explain the auxiliary variable",
        "hyper/agrad.py",
        "    smoothed -= old.shifted(0.5 * delta).log_density(z - mean)\n",
        "",
        "hyper/test_schemes.py -k ratio",
    ),
    "theta-walk": Mutant(
        "hyperparameters walk as if the start had no density",
        "hyper/integral.py",
        "ratio = beta * (new.target - cloud.target) + (1.0 - beta) * (new.start - cloud.start)",
        "ratio = beta * (new.target - cloud.target)",
        "verbs/test_integrate.py -k 'unbiased or pilot'",
    ),
    "theta-weights": Mutant(
        "weights of hyperparameters count the temperatures before twice",
        "hyper/integral.py",
        "return Weights((stage[1] - stage[0]) * tilt)",
        "return Weights(stage[1] * tilt)",
        "verbs/test_integrate.py -k 'unbiased or pilot'",
    ),
    "pseudo-prior": Mutant(
        "a pseudo-marginal walk forgets the prior",
        "hyper/pseudo_marginal.py",
        "ratio = then.log_z - now.log_z + log_prior - state.log_prior",
        "ratio = then.log_z - now.log_z",
        "hyper/test_schemes.py -k 'posterior or pseudo'",
    ),
    "graded": Mutant(
        "nodes that are dense about a narrow likelihood weigh alike",
        "proposals/integrals/lattice.py",
        "g[j] = log(slope, slope - 1.0) - half * (x[j] - mean) * (x[j] - mean)",
        "g[j] = -half * (x[j] - mean) * (x[j] - mean)",
        "proposals/test_integrals.py -k narrow",
    ),
    "rising": Mutant(
        "the rising factorial of a beta-binomial overflows again",
        "models/likelihoods/beta.py",
        "product *= 1.0 + k / a",
        "product *= a + k",
        "models/likelihoods/test_precise.py -k binomial",
    ),
    "tails": Mutant(
        "draws with tails are weighted by a t of other degrees of freedom",
        "drivers/weighted.py",
        "0.5 * (df + 1.0) * np.log1p(z**2 / df)",
        "0.5 * df * np.log1p(z**2 / df)",
        "hyper/test_plain_draws.py",
    ),
    "evenly": Mutant(
        "settings of hyperparameters come from one end of their posterior",
        "statistics/resampling.py",
        "return order[((np.arange(parts) + 0.5) * len(draws) / parts).astype(int)]",
        "return order[((np.arange(parts) + 0.5) * len(draws) / (2 * parts)).astype(int)]",
        "prediction/test_formulas.py -k few_settings",
    ),
    # -- models
    "third-derivative": Mutant(
        "a third derivative of the negative binomial has the wrong sign",
        "models/likelihoods/negative_binomial.py",
        "-curvature, curvature * np.tanh",
        "-curvature, -curvature * np.tanh",
        "models/likelihoods/test_derivatives.py -k negative",
    ),
    "student-scale": Mutant(
        "Student's normaliser forgets the scale",
        "models/likelihoods/student_t.py",
        "_log_normaliser(df) - np.log(scale)",
        "_log_normaliser(df)",
        "models/likelihoods/test_observations.py -k student",
    ),
    # -- what users do wrong
    "masked": Mutant(
        "masked entries count as numbers",
        "execution/arguments.py",
        "    if masked:\n",
        "    if False:\n",
        "execution/test_bad_input.py",
    ),
    "complex": Mutant(
        "complex numbers pass for real ones",
        "execution/arguments.py",
        'if kind in "biuf" or',
        'if kind in "biufcM" or',
        "execution/test_bad_input.py",
    ),
    "figure-table": Mutant(
        "figures take tables without looking at their numbers",
        "plots/_given.py",
        "    for column in numbers:\n",
        "    for column in ():\n",
        "plots/test_bad_input.py",
    ),
}


def check(mutants: dict[str, Mutant]) -> None:
    """Every replacement occurs once, and its tests are there."""
    for name, mutant in mutants.items():
        times = (ROOT / "evidence" / mutant.file).read_text(encoding="utf-8").count(mutant.old)
        if times != 1:
            raise SystemExit(f"{name}: its text occurs {times} times in evidence/{mutant.file}")
        for test in files_and_words(mutant)[0]:
            if not (ROOT / test).exists():
                raise SystemExit(f"{name}: there is no {test}")


def files_and_words(mutant: Mutant) -> tuple[list[str], list[str]]:
    """Files of tests, and which of them."""
    files, _, chosen = mutant.tests.partition(" -k ")
    return [f"tests/{file}" for file in files.split()], ["-k", chosen.strip("'")] if chosen else []


def copy() -> None:
    """The tree, for mutants to live in; two runs at a time would be in each other's way."""
    try:
        COPY.mkdir()
    except FileExistsError:
        raise SystemExit(f"another run is in {COPY}; if there is none, remove it") from None
    for part in COPIED:
        place = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
        place(ROOT / part, COPY / part)


def run(mutant: Mutant) -> tuple[str, str, float]:
    """What came of it, the test that noticed, and seconds."""
    file = COPY / "evidence" / mutant.file
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-n", "0"]
    files, words = files_and_words(mutant)
    command += ["-p", "no:cacheprovider", "--tb=no", *files, *words]
    environment = os.environ | {"PYTHONPATH": str(COPY)}
    started = time.perf_counter()
    ended = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    file.write_text(text, encoding="utf-8")
    failed = [line for line in ended.stdout.splitlines() if line.startswith("FAILED")]
    if ended.returncode == 0:
        return "survived", "", seconds
    if ended.returncode != FAILED or not failed:  # no test said so: it could not even begin
        return "broken", ended.stdout[-500:] + ended.stderr[-500:], seconds
    return "killed", failed[0].removeprefix("FAILED ").split(" - ")[0], seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=MUTANTS, help="names of mutants")
    parser.add_argument("--out", type=Path, help="a folder for the table, mutants.csv")
    given = parser.parse_args()
    check(MUTANTS)
    copy()
    rows = []
    try:
        for name in given.only or MUTANTS:
            end, by, seconds = run(MUTANTS[name])
            rows.append(
                {"mutant": name, "what": MUTANTS[name].what, "end": end, "by": by,
                 "seconds": round(seconds, 1)}
            )  # fmt: skip
            print(f"{name:26s} {end:9s} {seconds:6.1f} s  {by}", flush=True)
    finally:
        shutil.rmtree(COPY)
    table = pd.DataFrame(rows)
    print(f"\n{(table.end == 'killed').sum()} of {len(table)} killed")
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        table.to_csv(given.out / "mutants.csv", index=False)


if __name__ == "__main__":
    main()
