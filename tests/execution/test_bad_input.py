"""Whatever is wrong with an argument: one line that names it, at once.

Each entry is the word that the message must hold and a call. Mistakes are InputErrors; a keyword
that there is not is a TypeError, as everywhere in Python.
"""

from __future__ import annotations

import datetime
import re
import resource
import signal
import sys
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats

import evidence as ev

X = np.linspace(0.0, 3.0, 4)[:, None]
Y = np.array([1.0, -1.0, 1.0, 1.0])
K = np.eye(4) + 0.5
NAN, INF = float("nan"), float("inf")
MASKED = np.ma.masked_equal(np.array([1.0, -999.0, 1.0, 1.0]), -999.0)
DATES = np.array(["2020-01-01"] * 4, dtype="M8[D]")


def gp(**words):
    return ev.GPModel(**({"X": X, "y": Y, "kernel": "RBF(1.0)"} | words))


def matrix(**words):
    return ev.GPModel(**({"K": K, "y": Y} | words))


def classes(**words):
    return ev.SoftmaxModel(**({"X": X, "y": list("abca"), "kernel": "RBF(1.0)"} | words))


def bowl(x):
    return -0.5 * float(np.sum(np.square(x)))


def density(*args, **words):
    return ev.DensityModel(*(args or (bowl, 2)), **words)


def log_evidence(model=None, **words):
    words = {"progressbar": False, "random_seed": 0} | words
    return ev.log_evidence(matrix() if model is None else model, **words)


def sample(model=None, **words):
    words = {"progressbar": False, "random_seed": 0, "draws": 2, "tune": 2} | words
    return ev.sample(matrix() if model is None else model, **words)


def custom(**words):
    def normal(x, y):
        return -0.5 * (x - y) ** 2, y - x, -1.0, 0.0

    return ev.likelihoods.from_function(**({"function": normal} | words))


def learnt(**words):
    words = {
        "priors": {"length_scale": "flat"},
        "draws": 2,
        "tune": 2,
        "progressbar": False,
    } | words
    return ev.sample_hyperparameters(gp(), **words)


def integrated(**words):
    words = {"priors": {"length_scale": stats.gamma(2)}, "progressbar": False} | words
    return ev.integrated_evidence(gp(), **words)


def surface(**words):
    words = {"grid": {"length_scale": [1.0]}, "method": "ep", "progressbar": False} | words
    return ev.evidence_surface(gp(), **words)


def orthant(**words):
    return ev.log_orthant(**({"cov": K, "signs": Y} | words))


def sensitivity(**words):
    data = {"y": [1, 2, 0, 3], "x": [0.0, 1.0, 2.0, 3.0]}
    return ev.prior_sensitivity(ev.from_formula("y ~ x", data, likelihood="poisson"), **words)


class Odd:
    """What says that it is an array, and is none."""

    def __array__(self, *args, **words):
        raise RuntimeError("no array")


RAGGED = [[1.0], [1.0, 2.0]]
TABLE = pd.DataFrame({"q": ["a", "b"]})

#: arrays that hold no numbers, or not all of them
NO_NUMBERS = {
    "masked": MASKED,
    "complex": Y + 1j,
    "dates": DATES,
    "datetimes": [datetime.datetime(2020, 1, 1)] * 4,
    "text": ["1", "2", "3", "4"],
    "words": ["a", "b", "c", "d"],
    "None": [1.0, None, 1.0, 1.0],
    "pandas NA": pd.Series([1, None, 1, 1], dtype="Int64"),
    "NaN": [1.0, NAN, 1.0, 1.0],
    "inf": [1.0, INF, 1.0, 1.0],
    "sparse": sp.csr_array(np.ones((4, 1))),
    "ragged": [[1.0], [1.0, 2.0], [1.0], [1.0]],
    "huge integer": [10**400, 1, 1, 1],
    "a dict": {"a": 1},
    "bytes": [b"1"] * 4,
    "a number": 3.0,
    "empty": [],
}

MODELS = {
    **{
        f"gp y {k}": ("y", lambda v=v: gp(y=v, likelihood="gaussian"))
        for k, v in NO_NUMBERS.items()
    },
    **{f"gp X {k}": ("X", lambda v=v: gp(X=v)) for k, v in NO_NUMBERS.items()},
    **{f"gp K {k}": ("K", lambda v=v: matrix(K=v)) for k, v in NO_NUMBERS.items()},
    **{
        f"gp mean {k}": ("mean", lambda v=v: gp(mean=v))
        for k, v in NO_NUMBERS.items()
        if k != "a number"
    },
    "y None": ("y", lambda: gp(y=None)),
    "y matrix": ("y", lambda: gp(y=X)),
    "y short": ("X", lambda: gp(y=[1, -1])),
    "y labels": ("y", lambda: gp(y=[1, 2, 3, 1])),
    "y 1e300": ("y", lambda: gp(y=[1, 1e300, 2, 3], likelihood="poisson")),
    "y 2**63": ("y", lambda: gp(y=[1, 2**63, 2, 3], likelihood="poisson")),
    "y 2**64": ("y", lambda: gp(y=[1, 2**64, 2, 3], likelihood="negative_binomial")),
    "y negative": ("y", lambda: gp(y=[1, -2, 2, 3], likelihood="poisson")),
    "y halves": ("y", lambda: gp(y=[1, 0.5, 2, 3], likelihood="poisson")),
    "X cube": ("X", lambda: gp(X=np.zeros((4, 1, 1)))),
    "X short": ("X", lambda: gp(X=X[:3])),
    "K oblong": ("K", lambda: matrix(K=K[:3])),
    "K small": ("K", lambda: matrix(K=K[:3, :3])),
    "K lopsided": ("K", lambda: matrix(K=np.triu(K))),
    "K indefinite": ("K", lambda: matrix(K=-K)),
    "both": ("kernel", lambda: gp(K=K)),
    "neither": ("kernel", lambda: gp(kernel=None)),
    "kernel number": ("kernel", lambda: gp(kernel=3)),
    "kernel typo": ("kernel", lambda: gp(kernel="RBG(1.0)")),
    "kernel code": ("kernel", lambda: gp(kernel="__import__('os')")),
    "kernel empty": ("kernel", lambda: gp(kernel="")),
    "kernel dimensions": ("kernel", lambda: gp(kernel="RBF([1.0, 2.0, 3.0])")),
    "kernel huge": ("kernel", lambda: gp(kernel="1e999 * RBF(1.0)")),
    "kernel shape": ("kernel", lambda: gp(kernel=lambda a, b: np.ones((2, 3)))),
    "kernel None": ("kernel", lambda: gp(kernel=lambda a, b: None)),
    "kernel deep": ("kernel", lambda: gp(kernel="(" * 900 + "RBF(1)" + ")" * 900)),
    "likelihood typo": ("likelihood", lambda: gp(likelihood="probti")),
    "likelihood number": ("likelihood", lambda: gp(likelihood=3)),
    "likelihood parameter": ("likelihood", lambda: gp(likelihood="student_t(nu=4)")),
    "jitter": ("jitter", lambda: gp(jitter=-1.0)),
    "jitter text": ("jitter", lambda: gp(jitter="a")),
    "jitter NaN": ("jitter", lambda: gp(jitter=NAN)),
    "mean text": ("mean", lambda: gp(mean="a")),
    **{
        f"mean {size:g}": ("mean", lambda v=size: gp(mean=v))
        for size in (1e12, 1e154, -1e300, 1e300)
    },
    "mean 1e300 markov": (
        "mean",
        lambda: gp(kernel="Matern(1.0, nu=0.5)", structure="markov", mean=1e300),
    ),
    "sparse mean 1e300": (
        "mean",
        lambda: ev.SparseModel(sp.eye_array(4).tocsc(), Y, mean=1e300),
    ),
    **{
        f"binomial {n}": ("n", lambda v=n: gp(likelihood=ev.likelihoods.Binomial(n=v)))
        for n in (1e20, 2**63, [1, 1, 1, 1e300])
    },
    "classes mean 1e300": ("mean", lambda: classes(mean=1e300)),
    "mean long": ("mean", lambda: gp(mean=[1.0, 2.0])),
    "at name": ("length", lambda: gp().at({"lengthscale": 1.0})),
    "at value": ("length_scale", lambda: gp().at({"length_scale": -1.0})),
    "at text": ("length_scale", lambda: gp().at({"length_scale": "a"})),
    "at shape": ("theta", lambda: gp().at([1.0, 2.0, 3.0])),
    "at NaN": ("theta", lambda: gp().at([NAN])),
    "log_prior": ("x", lambda: gp().log_prior(np.zeros(3))),
    "classes one": ("y", lambda: classes(y=[1, 1, 1, 1])),
    "classes mixed": ("y", lambda: classes(y=["a", 1, None, "b"])),
    "classes masked": ("y", lambda: classes(y=MASKED)),
    "classes halves": ("y", lambda: classes(y=[0.5, 1, 2, 3])),
    "classes NaN": ("y", lambda: classes(y=[0, 1, NAN, 2])),
    "classes sparse": ("y", lambda: classes(y=sp.eye_array(4))),
    "classes unknown": ("classes", lambda: classes(classes=["a", "b"])),
    "classes kernels": ("kernel", lambda: classes(kernel=["RBF(1.0)"] * 2)),
    "classes mean": ("mean", lambda: classes(mean="a")),
    "classes mean shape": ("mean", lambda: classes(mean=[1.0, 2.0])),
    "classes K": ("K", lambda: classes(X=None, kernel=None, K=np.ones((2, 4, 4)))),
    "classes X": ("X", lambda: classes(X=["a"] * 4)),
    "classes jitter": ("jitter", lambda: classes(jitter=INF)),
}

DENSITIES = {
    "dim 1e9": ("dim", lambda: density(bowl, 10**9)),
    "dim 0": ("dim", lambda: density(bowl, 0)),
    "dim float": ("dim", lambda: density(bowl, 2.0)),
    "dim text": ("dim", lambda: density(bowl, "2")),
    "dim bool": ("dim", lambda: density(bowl, True)),
    "logdensity": ("logdensity", lambda: density(3, 2)),
    "logdensity text": ("logdensity", lambda: density(lambda x: "a", 2)),
    "logdensity inf": ("logdensity", lambda: density(lambda x: INF, 2)),
    "logdensity shape": ("logdensity", lambda: density(lambda x: x, 2)),
    "grad": ("grad", lambda: density(grad=3)),
    "hessian": ("hessian", lambda: density(hessian="no")),
    "third alone": ("third", lambda: density(third=lambda x, W: x)),
    "sampler": ("sampler", lambda: density(sampler=np.zeros((3, 2)))),
    "sampler text": (
        "sampler",
        lambda: log_evidence(density(sampler=lambda rng, n: ["a"] * n), method="laplace"),
    ),
    "metric": ("metric", lambda: density(metric="riemann")),
    "names": ("names", lambda: density(names=["a"])),
    "names number": ("names", lambda: density(names=3)),
    "bounds": ("bounds", lambda: density(bounds=[(0.0, 1.0)])),
    "bounds order": ("bounds", lambda: density(bounds=[(0.0, 1.0), (1.0, 0.0)])),
    "bounds text": ("bounds", lambda: density(bounds=[("a", 1.0), None])),
    "bounds number": ("bounds", lambda: density(bounds=3)),
    "prior": ("prior", lambda: density(prior="normal")),
    "prior list": ("prior", lambda: density(prior=[stats.norm()])),
    "prior discrete": ("prior", lambda: density(prior=[stats.norm(), stats.poisson(2)])),
    "prior and bounds": ("bounds", lambda: density(prior=stats.norm(), bounds=[None, None])),
    "vectorized": ("vectorized", lambda: density(vectorized="no")),
    "check": ("check", lambda: density(check="yes")),
    "GaussianPrior mean": ("mean", lambda: ev.GaussianPrior("a")),
    "GaussianPrior NaN": ("mean", lambda: ev.GaussianPrior([0.0, NAN])),
    "GaussianPrior masked": ("mean", lambda: ev.GaussianPrior(MASKED)),
    "GaussianPrior cov": ("cov", lambda: ev.GaussianPrior([0.0, 0.0], -1.0)),
    "GaussianPrior cov text": ("cov", lambda: ev.GaussianPrior([0.0, 0.0], "a")),
    "GaussianPrior shape": ("cov", lambda: ev.GaussianPrior([0.0, 0.0], np.eye(3))),
    "SoftAbs": ("alpha", lambda: ev.SoftAbs(0.0)),
    "SoftAbs text": ("alpha", lambda: ev.SoftAbs("a")),
    "Fisher": ("matrix", lambda: ev.Fisher(3, bowl)),
    "Fisher slope": ("slope", lambda: ev.Fisher(bowl, None)),
    "from_jax": ("logdensity", lambda: ev.from_jax(3, 2)),
    "from_jax grad": ("grad", lambda: ev.from_jax(bowl, 2, grad=bowl)),
    "from_jax dim": ("dim", lambda: ev.from_jax(bowl, 10**9)),
    "unconstrain": (
        "parameters",
        lambda: density(bounds=[(0, 1), (0, 1)]).unconstrain([2.0, 0.5]),
    ),
    "check_derivatives": ("x", lambda: density(grad=bowl).check_derivatives("a")),
}

#: what a density's methods are called with, where points are due
NO_POINTS = {
    **{k: v for k, v in NO_NUMBERS.items() if k not in ("NaN", "inf")},
    "one point": np.zeros(1),
    "five columns": np.zeros((3, 5)),
    "no array": Odd(),
    "a table": TABLE,
}
FLAT = {  # a way from the unit cube, and distributions
    "map": lambda: density(prior_transform=lambda u: 2.0 * u),
    "prior": lambda: density(prior=[stats.norm(), stats.gamma(2.0)]),
}
POINTS = {
    **{
        f"{method} of a {kind}, {k}": ("x", lambda v=v, k=kind, m=method: getattr(FLAT[k](), m)(v))
        for method in ("log_prob", "log_likelihood", "log_prior", "constrain")
        for kind in FLAT
        for k, v in NO_POINTS.items()
    },
    **{
        f"unconstrain {k}": ("parameters", lambda v=v: FLAT["prior"]().unconstrain(v))
        for k, v in NO_POINTS.items()
    },
    **{
        f"log_prior of a matrix, {k}": ("x", lambda v=v: matrix().log_prior(v))
        for k, v in NO_POINTS.items()
        if k not in ("pandas NA",)  # as NaN, which has no density
    },
}

#: what a function that should return numbers returns: one value for each point, or one point
RETURNED = {
    "None": lambda u: None,
    "text": lambda u: "a",
    "words": lambda u: ["a", "b"],
    "a dict": lambda u: {"a": 1.0},
    "complex": lambda u: u + 1j,
    "dates": lambda u: DATES[:2],
    "ragged": lambda u: RAGGED,
    "sparse": lambda u: sp.csr_array(np.ones((1, 2))),
    "no array": lambda u: Odd(),
    "a table": lambda u: TABLE,
    "huge integer": lambda u: [10**400, 1],
    "bytes": lambda u: b"ab",
    "a generator": lambda u: (t for t in u),
    "one more axis": lambda u: u[None] + np.zeros((2, 1, 1)),
}
FUNCTIONS = {
    **{
        f"prior_transform returns {k}, vectorized={v}": (
            "prior_transform",
            lambda f=f, v=v: density(prior_transform=f, vectorized=v),
        )
        for k, f in RETURNED.items()
        for v in (False, True)
    },
    **{
        f"logdensity returns {k}, vectorized={v}": (
            "logdensity",
            lambda f=f, v=v: density(f, 2, prior_transform=lambda u: u, vectorized=v),
        )
        for k, f in RETURNED.items()
        for v in (False, True)
    },
    **{
        f"prior_transform returns {k}": (
            "prior_transform",
            lambda f=f: density(prior_transform=f),
        )
        for k, f in {
            "NaN": lambda u: u * NAN,
            "inf": lambda u: u / 0.0,
            "too few": lambda u: u[:1],
            "too many": lambda u: np.append(u, u),
            "masked": lambda u: np.ma.masked_equal(u * 0.0, 0.0),
            "a number": lambda u: 3.0,
        }.items()
    },
    **{
        f"prior_transform= {k}": ("prior_transform", lambda v=v: density(prior_transform=v))
        for k, v in {
            "number": 3,
            "text": "norm",
            "class": int,
            "table": TABLE,
            "array": K,
            "a list": [bowl],
            "distribution": stats.norm(),
            "module": np,
            "flag": True,
            "a dict": {"a": stats.norm()},
        }.items()
    },
    "prior_transform and prior": (
        "prior",
        lambda: density(prior_transform=lambda u: u, prior=[stats.norm()] * 2),
    ),
    "prior_transform and bounds": (
        "bounds",
        lambda: density(prior_transform=lambda u: u, bounds=[None, None]),
    ),
    "unconstrain of a map": ("prior", lambda: FLAT["map"]().unconstrain([0.5, 0.5])),
}

LIKELIHOODS = {
    "noise_std": ("noise_std", lambda: ev.likelihoods.Gaussian(-1.0)),
    "noise_std text": ("noise_std", lambda: ev.likelihoods.Gaussian("a")),
    "noise_std NaN": ("noise_std", lambda: ev.likelihoods.Gaussian([1.0, NAN])),
    "noise_std masked": ("noise_std", lambda: ev.likelihoods.Gaussian(MASKED)),
    "df": ("df", lambda: ev.likelihoods.StudentT(df=0)),
    "scale": ("scale", lambda: ev.likelihoods.StudentT(scale=None)),
    "exposure": ("exposure", lambda: ev.likelihoods.Poisson(exposure=[[1.0]])),
    "offset": ("offset", lambda: ev.likelihoods.Poisson(offset=INF)),
    "dispersion": ("dispersion", lambda: ev.likelihoods.NegativeBinomial(1j)),
    "exposures": (
        "exposure",
        lambda: gp(y=[1, 2, 3, 4], likelihood=ev.likelihoods.Poisson([1.0, 2.0])),
    ),
    "get": ("likelihood", lambda: ev.likelihoods.get("gauss(")),
    "function": ("function", lambda: custom(function=3)),
    "function shape": ("function", lambda: custom(function=lambda x, y: x)),
    "function check": ("check", lambda: custom(check=3)),
    "function location": ("location", lambda: custom(location=0.0)),
    "function fisher": ("fisher", lambda: custom(fisher=1.0)),
    "function params": ("s", lambda: custom(params={"s": "a"})),
    "function params list": ("params", lambda: custom(params=[1.0])),
    "function name": ("name", lambda: custom(name="probit")),
    "function log_concave": ("log_concave", lambda: custom(log_concave="yes")),
    "function example": ("y", lambda: custom(example_y=["a"])),
    "parse_kernel": ("kernel", lambda: ev.parse_kernel(3)),
    "parse_kernel text": ("kernel", lambda: ev.parse_kernel("RBF(1.0) - 2")),
}

RUNS = {
    "model": ("model", lambda: ev.log_evidence(3)),
    "model class": ("model", lambda: ev.log_evidence(ev.GPModel)),
    "method": ("method", lambda: log_evidence(method="scm")),
    "method None": ("method", lambda: log_evidence(method=None)),
    "reference": ("reference", lambda: log_evidence(reference="epp")),
    "reference array": ("reference", lambda: log_evidence(reference=K)),
    "reference other": ("reference", lambda: log_evidence(reference=ev.fit_ep(gp()))),
    "move": ("move", lambda: log_evidence(move="mgard")),
    "move number": ("move", lambda: log_evidence(method="smc", move=3)),
    "move class": ("move", lambda: log_evidence(method="smc", move=ev.moves.HMC)),
    "betas": ("betas", lambda: log_evidence(method="smc", betas="fast")),
    "betas order": ("betas", lambda: log_evidence(method="smc", betas=[0.5, 0.2, 1.0])),
    "betas text": ("betas", lambda: log_evidence(method="smc", betas=["a", "b"])),
    "betas count": ("betas", lambda: log_evidence(method="smc", betas=0)),
    "betas 1e9": ("betas", lambda: log_evidence(method="smc", betas=10**12)),
    "target_se 0": ("target_se", lambda: log_evidence(target_se=0.0)),
    "target_se tiny": ("target_se", lambda: log_evidence(target_se=1e-300)),
    "target_se NaN": ("target_se", lambda: log_evidence(target_se=NAN)),
    "target_se text": ("target_se", lambda: log_evidence(target_se="0.1")),
    "target_se array": ("target_se", lambda: log_evidence(target_se=np.array([0.1, 0.2]))),
    "n_particles 1": ("n_particles", lambda: log_evidence(n_particles=1)),
    "n_particles float": ("n_particles", lambda: log_evidence(n_particles=1e3)),
    "n_particles 1e12": ("n_particles", lambda: log_evidence(n_particles=10**12)),
    "n_particles 1e12 density": (
        "n_particles",
        lambda: log_evidence(density(), n_particles=10**12),
    ),
    "n_particles bool": ("n_particles", lambda: log_evidence(n_particles=True)),
    "n_islands 0": ("n_islands", lambda: log_evidence(n_islands=0)),
    "n_islands 1e9": ("n_islands", lambda: log_evidence(n_islands=10**9)),
    "n_islands text": ("n_islands", lambda: log_evidence(n_islands="4")),
    "max_seconds": ("max_seconds", lambda: log_evidence(max_seconds=0.0)),
    "max_seconds text": ("max_seconds", lambda: log_evidence(max_seconds="1")),
    "random_seed": ("random_seed", lambda: log_evidence(random_seed=-1)),
    "random_seed float": ("random_seed", lambda: log_evidence(random_seed=1.5)),
    "random_seed text": ("random_seed", lambda: log_evidence(random_seed="a")),
    "executor": ("executor", lambda: log_evidence(executor=4)),
    "checkpoint": ("checkpoint", lambda: log_evidence(checkpoint=3)),
    "resampling": ("resampling", lambda: log_evidence(method="smc", resampling="best")),
    "waste_free": ("waste_free", lambda: log_evidence(method="smc", waste_free=1)),
    "direction": ("direction", lambda: log_evidence(method="ais", direction="up")),
    "n_reverse": ("n_reverse", lambda: log_evidence(method="ais", n_reverse=0)),
    "posterior": (
        "posterior",
        lambda: log_evidence(method="ais", direction="both", posterior=np.zeros((3, 2))),
    ),
    "posterior NaN": (
        "posterior",
        lambda: log_evidence(method="ais", direction="both", posterior=np.full((9, 4), NAN)),
    ),
    "n_levels": ("n_levels", lambda: log_evidence(method="pt", n_levels=1)),
    "n_levels 1e9": ("n_levels", lambda: log_evidence(method="pt", n_levels=10**9)),
    "n_sweeps": ("n_sweeps", lambda: log_evidence(method="pt", n_sweeps=1)),
    "n_sweeps 1e12": ("n_sweeps", lambda: log_evidence(method="pt", n_sweeps=10**12)),
    "explore": ("explore", lambda: log_evidence(method="pt", explore=0)),
    "estimator": ("estimator", lambda: log_evidence(method="pt", estimator="best")),
    "threshold": ("threshold", lambda: log_evidence(method="arm", threshold=2.0)),
    "i_max": ("i_max", lambda: log_evidence(method="arm", i_max=-1)),
    "generate": ("generate", lambda: log_evidence(method="arm", generate="x")),
    "order": ("order", lambda: log_evidence(method="sequential", order=[0, 0, 1, 2])),
    "sweeps": ("sweeps", lambda: log_evidence(method="sequential", sweeps=0)),
    "orthant of logit": (
        "probit",
        lambda: log_evidence(matrix(likelihood="logit"), method="orthant"),
    ),
    "unused": ("move", lambda: log_evidence(method="importance", move="hmc")),
    "sample model": ("model", lambda: ev.sample("model")),
    "draws": ("draws", lambda: sample(draws=0)),
    "draws 1e12": ("draws", lambda: sample(draws=10**12)),
    "tune": ("tune", lambda: sample(tune=-1)),
    "chains": ("chains", lambda: sample(chains=0)),
    "chains 1e9": ("chains", lambda: sample(chains=10**9)),
    "thin": ("thin", lambda: sample(thin=0)),
    "beta": ("beta", lambda: sample(beta=1.5)),
    "beta text": ("beta", lambda: sample(beta="1")),
    "sample move": ("move", lambda: sample(move="mgard")),
    "sample seed": ("random_seed", lambda: sample(random_seed=[1])),
    "step_size": ("step_size", lambda: sample(move=ev.moves.HMC(step_size=-1.0))),
    "step_size NaN": ("step_size", lambda: sample(move=ev.moves.MGrad(step_size=NAN))),
    "n_leapfrog": ("n_leapfrog", lambda: sample(move=ev.moves.HMC(n_leapfrog=0))),
    "coordinates": ("coordinates", lambda: sample(move=ev.moves.HMC(coordinates="x"))),
    "target": ("target", lambda: sample(move=ev.moves.HMC(target=2.0))),
    "max_depth": ("max_depth", lambda: sample(move=ev.moves.NUTS(max_depth=0))),
    "gibbs update": ("update", lambda: sample(move=ev.moves.ProbitGibbs(update="x"))),
    "binding": (
        "binding",
        lambda: sample(matrix(), move=ev.moves.ExplicitRMHMC(binding="none")),
    ),
    "moves.get": ("move", lambda: ev.moves.get("nutz")),
    "trajectory": ("move", lambda: ev.moves.trajectory("mgrad", density(), [0.0, 0.0])),
    "trajectory x": ("x", lambda: ev.moves.trajectory(ev.moves.HMC(), density(), [0.0])),
}

OTHERS = {
    "fit_ep model": ("model", lambda: ev.fit_ep(3)),
    "fit_ep damping": ("damping", lambda: ev.fit_ep(matrix(), damping=0.0)),
    "fit_ep max_sweeps": ("max_sweeps", lambda: ev.fit_ep(matrix(), max_sweeps=0)),
    "fit_ep tol": ("tol", lambda: ev.fit_ep(matrix(), tol=-1.0)),
    "fit_laplace model": ("model", lambda: ev.fit_laplace("a")),
    "fit_laplace max_iterations": (
        "max_iterations",
        lambda: ev.fit_laplace(matrix(), max_iterations=0),
    ),
    "fit_laplace tol": ("tol", lambda: ev.fit_laplace(matrix(), tol=NAN)),
    "Path": ("reference", lambda: ev.Path(3)),
    "optimise model": ("model", lambda: ev.optimise(density())),
    "optimise fixed": ("nothing", lambda: ev.optimise(gp(), fixed=["nothing"], progressbar=False)),
    "optimise n_restarts": ("n_restarts", lambda: ev.optimise(gp(), n_restarts=-1)),
    "optimise tol": ("tol", lambda: ev.optimise(gp(), tol=0.0)),
    "optimise priors": ("priors", lambda: ev.optimise(gp(), priors=[1])),
    "optimise prior": ("prior", lambda: ev.optimise(gp(), priors={"length_scale": 3})),
    "learnt model": ("model", lambda: ev.sample_hyperparameters(3, {})),
    "learnt priors": ("priors", lambda: learnt(priors=3)),
    "learnt missing": ("prior", lambda: learnt(priors={})),
    "learnt name": ("length", lambda: learnt(priors={"lengthscale": "flat"})),
    "learnt word": ("prior", lambda: learnt(priors={"length_scale": "sharp"})),
    "learnt scheme": ("scheme", lambda: learnt(scheme="best")),
    "learnt draws": ("draws", lambda: learnt(draws=0)),
    "learnt draws 1e12": ("draws", lambda: learnt(draws=10**12)),
    "learnt keep": ("keep", lambda: learnt(keep=0)),
    "integrated model": ("model", lambda: ev.integrated_evidence(3, {})),
    "integrated n_draws": ("n_draws", lambda: integrated(n_draws=1)),
    "integrated n_particles": ("n_particles", lambda: integrated(n_particles=10**12)),
    "integrated n_islands": ("n_islands", lambda: integrated(n_islands=10**9)),
    "integrated target_se": ("target_se", lambda: integrated(target_se=1e-300)),
    "integrated checkpoint": ("checkpoint", lambda: integrated(checkpoint=3)),
    "integrated support": ("prior", lambda: integrated(priors={"length_scale": stats.norm()})),
    "surface grid": ("grid", lambda: surface(grid=[1.0])),
    "surface name": ("length", lambda: surface(grid={"lengthscale": [1.0]})),
    "surface values": ("length_scale", lambda: surface(grid={"length_scale": [-1.0]})),
    "surface text": ("length_scale", lambda: surface(grid={"length_scale": ["a"]})),
    "surface method": ("method", lambda: surface(method="x")),
    "surface target_se": ("target_se", lambda: surface(method="auto", target_se=1e-300)),
    "compare models": ("models", lambda: ev.compare(3)),
    "compare empty": ("models", lambda: ev.compare({})),
    "compare data": (
        "models",
        lambda: ev.compare({"a": matrix(), "b": matrix(y=-Y)}, progressbar=False),
    ),
    "compare prior": ("prior", lambda: ev.compare({"a": matrix()}, prior={"a": -1.0})),
    "compare prior names": ("prior", lambda: ev.compare({"a": matrix()}, prior={"b": 1.0})),
    "sweep model": ("model", lambda: ev.sweep(3)),
    "sweep method": ("method", lambda: ev.sweep(matrix(), "x", progressbar=False)),
    "sweep seeds": ("seeds", lambda: ev.sweep(matrix(), seeds=0, progressbar=False)),
    "sweep ladders": ("ladders", lambda: ev.sweep(matrix(), ladders=3, progressbar=False)),
    "sweep moves": ("moves", lambda: ev.sweep(matrix(), moves="hmc", progressbar=False)),
    "simulate model": ("model", lambda: ev.simulate(3)),
    "simulate seed": ("random_seed", lambda: ev.simulate(matrix(), random_seed="a")),
    "posterior_draws n": ("n", lambda: ev.posterior_draws(ev.simulate(matrix()), 0)),
    "posterior_draws simulated": ("simulated", lambda: ev.posterior_draws(matrix(), 3)),
    "bidirectional model": ("model", lambda: ev.bidirectional(density())),
    "bidirectional n_chains": ("n_chains", lambda: ev.bidirectional(matrix(), n_chains=1)),
    "predict model": ("model", lambda: ev.predict(3, X)),
    "predict X_new": ("X_new", lambda: ev.predict(gp(), [["a"]])),
    "predict NaN": ("X_new", lambda: ev.predict(gp(), [[NAN]])),
    "predict masked": ("X_new", lambda: ev.predict(gp(), MASKED[:, None])),
    "predict columns": ("X_new", lambda: ev.predict(gp(), np.zeros((2, 3)))),
    "predict sparse": ("X_new", lambda: ev.predict(gp(), sp.csr_array(X))),
    "predict K_new": (
        "K_new",
        lambda: ev.predict(matrix(), K_new=np.zeros((2, 3)), k_diag=[1, 1]),
    ),
    "predict k_diag": (
        "k_diag",
        lambda: ev.predict(matrix(), K_new=np.zeros((2, 4)), k_diag=[NAN, 1]),
    ),
    "predict mean_new": ("mean_new", lambda: ev.predict(gp(), X, mean_new="a")),
    "predict posterior": ("posterior", lambda: ev.predict(gp(), X, posterior="epp")),
    "predict max_draws": ("max_draws", lambda: ev.predict(gp(), X, max_draws=0)),
    "predict batch_size": ("batch_size", lambda: ev.predict(gp(), X, batch_size=0)),
    "quantile": ("q", lambda: ev.predict(gp(), X).quantiles([0.5, 1.5])),
    "quantile of": ("of", lambda: ev.predict(gp(), X).quantiles(0.5, of="x")),
    "orthant cov": ("cov", lambda: orthant(cov=K[:3])),
    "orthant cov text": ("cov", lambda: orthant(cov=[["a"]])),
    "orthant cov indefinite": ("cov", lambda: orthant(cov=-K)),
    "orthant signs": ("signs", lambda: orthant(signs=[1, 2, 3, 4])),
    "orthant signs short": ("signs", lambda: orthant(signs=[1.0])),
    "orthant masked": ("signs", lambda: orthant(signs=MASKED)),
    "orthant mean": ("mean", lambda: orthant(mean=[NAN] * 4)),
    "orthant n_draws": ("n_draws", lambda: orthant(n_draws=3)),
    "orthant n_draws 1e15": ("n_draws", lambda: orthant(n_draws=10**15)),
    "orthant target_se": ("target_se", lambda: orthant(target_se=-1.0)),
    "orthant target_se tiny": ("target_se", lambda: orthant(target_se=1e-300)),
    "ladder n": ("n", lambda: ev.ladders.geometric(1)),
    "ladder n text": ("n", lambda: ev.ladders.linear("3")),
    "ladder n 1e12": ("n", lambda: ev.ladders.linear(10**12)),
    "ladder first": ("first", lambda: ev.ladders.geometric(5, first=2.0)),
    "ladder exponent": ("exponent", lambda: ev.ladders.power(5, exponent=0.0)),
    "ladder sharpness": ("sharpness", lambda: ev.ladders.sigmoid(5, sharpness="a")),
    "ladder rates": ("rates", lambda: ev.ladders.equal_barrier([0.0, 1.0], [0.1, 0.2], 3)),
    "ladder rates text": ("rates", lambda: ev.ladders.equal_barrier([0.0, 1.0], ["a"], 3)),
    "ladder check": ("betas", lambda: ev.ladders.check([0.1, "a"])),
    "banana": ("curvature", lambda: ev.examples.banana(0.0)),
    "funnel": ("dim", lambda: ev.examples.funnel(10**9)),
    "gaussian": ("condition", lambda: ev.examples.gaussian(2, condition=-1.0)),
    "gaussian dim": ("dim", lambda: ev.examples.gaussian(10**9)),
    "mixture": ("n_modes", lambda: ev.examples.gaussian_mixture(2, n_modes=10**9)),
    "linear_regression": ("X", lambda: ev.examples.linear_regression([["a"]], [1.0])),
    "linear_regression y": ("y", lambda: ev.examples.linear_regression([[1.0]], [1.0, 2.0])),
    "logistic_regression": ("y", lambda: ev.examples.logistic_regression([[1.0]], [3])),
    "neural_network": ("width", lambda: ev.examples.neural_network(0, X, Y)),
    "neural_network 1e9": ("width", lambda: ev.examples.neural_network(10**9, X, Y)),
    "neural_network noise": ("noise", lambda: ev.examples.neural_network(2, X, Y, noise="a")),
    "simulated_logistic": ("n", lambda: ev.examples.simulated_logistic(2, 10**12)),
    "simulated seed": ("seed", lambda: ev.examples.simulated_logistic(2, 10, seed=-1)),
    "simulated_network": ("n", lambda: ev.examples.simulated_network(0)),
    "datasets.load": ("data set", lambda: ev.datasets.load("hart")),
    "datasets.load number": ("data set", lambda: ev.datasets.load(3)),
    "datasets.standardise": ("X", lambda: ev.datasets.standardise([["a"]])),
    "datasets.read_table": ("README.md", lambda: ev.datasets.read_table("README.md", "y")),
    "classifier kernel": (
        "kernel",
        lambda: ev.GaussianProcessClassifier(kernel="RBG(1)").fit(X, Y),
    ),
    "classifier likelihood": (
        "likelihood",
        lambda: ev.GaussianProcessClassifier(likelihood="x").fit(X, Y),
    ),
    "classifier approximation": (
        "approximation",
        lambda: ev.GaussianProcessClassifier(approximation="x").fit(X, Y),
    ),
    "classifier optimizer": (
        "optimizer",
        lambda: ev.GaussianProcessClassifier(optimizer="x").fit(X, Y),
    ),
    "classifier restarts": (
        "n_restarts_optimizer",
        lambda: ev.GaussianProcessClassifier(n_restarts_optimizer=-1).fit(X, Y),
    ),
    "classifier multi_class": (
        "multi_class",
        lambda: ev.GaussianProcessClassifier(multi_class="x").fit(X, [0, 1, 2, 0]),
    ),
    "regressor likelihood": (
        "likelihood",
        lambda: ev.GaussianProcessRegressor(likelihood="probit").fit(X, Y),
    ),
    "classifier one class": ("class", lambda: ev.GaussianProcessClassifier().fit(X, [1] * 4)),
    "classifier NaN": ("NaN", lambda: ev.GaussianProcessClassifier().fit(X * NAN, Y)),
    "regressor rows": ("samples", lambda: ev.GaussianProcessRegressor().fit(X[:2], Y)),
}

#: objects of a wrong kind, where Python or NumPy would have complained in words of their own
WRONG_KINDS = {
    "number ragged": ("tol", lambda: ev.fit_ep(matrix(), tol=RAGGED)),
    "damping ragged": ("damping", lambda: ev.fit_ep(matrix(), damping=RAGGED)),
    "jitter ragged": ("jitter", lambda: gp(jitter=RAGGED)),
    "target_se ragged": ("target_se", lambda: log_evidence(target_se=RAGGED)),
    "target_se 1e300": ("target_se", lambda: log_evidence(target_se=1e300)),
    "max_seconds ragged": ("max_seconds", lambda: log_evidence(max_seconds=RAGGED)),
    "checkpoint empty": ("checkpoint", lambda: log_evidence(checkpoint="")),
    "structure table": ("structure", lambda: gp(structure=TABLE)),
    "structure array": ("structure", lambda: gp(structure=K)),
    "kernel class": ("kernel", lambda: gp(kernel=int)),
    "logdensity class": ("logdensity", lambda: density(int, 2)),
    "function class": ("function", lambda: custom(function=int)),
    "function name table": ("name", lambda: custom(name=TABLE)),
    "check_derivatives": ("check_derivatives", lambda: custom(check_derivatives=TABLE)),
    "example_y empty": ("example_y", lambda: custom(example_y=[])),
    "example_y cube": ("example_y", lambda: custom(example_y=np.zeros((2, 2, 2)))),
    "start table": ("start", lambda: ev.fit_ep(matrix(), start=TABLE)),
    "predict likelihood": ("likelihood", lambda: ev.predict(gp(), X, likelihood=TABLE)),
    "predict huge": ("posterior", lambda: ev.predict(gp(), X, posterior=10**400)),
    "loo huge": ("posterior", lambda: ev.loo(matrix(), posterior=10**400)),
    "quantile words": ("q", lambda: ev.predict(gp(), X).quantiles(["a"])),
    "quantile huge": ("q", lambda: ev.predict(gp(), X).quantiles(10**400)),
    "plot path": ("path", lambda: ev.predict(gp(), X).plot(path=1)),
    "plot ax": ("ax", lambda: ev.predict(gp(), X).plot(ax="axes")),
    "load an open file": ("path", lambda: ev.load(0)),
    "load None": ("path", lambda: ev.load(None)),
    "load empty": ("path", lambda: ev.load("")),
    "save to an open file": ("path", lambda: ev.predict(gp(), X).save(1)),
    "mixture of words": ("references", lambda: ev.Mixture("zz", [1.0])),
    "mixture of numbers": ("references", lambda: ev.Mixture([1.0], [1.0])),
    "mixture weights": ("weights", lambda: ev.Mixture([ev.fit_ep(matrix())], ["a"])),
    "posterior_draws None": ("n", lambda: ev.posterior_draws(ev.simulate(matrix()), None)),
    "orthant progress": ("progress", lambda: orthant(progress="yes")),
    "checkpoint with a null": ("checkpoint", lambda: log_evidence(checkpoint="a\0b")),
    "checkpoint too long": ("checkpoint", lambda: sample(checkpoint="q" * 10**5)),
    "save with a null": ("path", lambda: ev.predict(gp(), X).save("a\0b")),
    "optimise tol None": ("tol", lambda: ev.optimise(gp(), tol=None)),
    "optimise n_restarts 1e12": ("n_restarts", lambda: ev.optimise(gp(), n_restarts=10**12)),
    "optimise fixed number": ("fixed", lambda: ev.optimise(gp(), fixed=1.5)),
    "optimise priors table": ("priors", lambda: ev.optimise(gp(), priors=TABLE)),
    "optimise priors number": ("priors", lambda: ev.optimise(gp(), priors=0)),
    "integrated fixed": ("fixed", lambda: integrated(fixed=np.float64(1.0))),
    "sample tune 1e12": ("tune", lambda: sample(tune=10**12)),
    "learnt tune 1e12": ("tune", lambda: learnt(tune=10**12)),
    "bridge n_proposal": (
        "n_proposal",
        lambda: ev.evidence_from_draws(
            np.random.default_rng(0).normal(size=(2, 60, 2)),
            bowl,
            vectorized=False,
            n_proposal=10**12,
            progressbar=False,
        ),
    ),
    "surface method table": ("method", lambda: surface(method=TABLE)),
    "surface grid long": ("grid", lambda: surface(grid="q" * 10**5)),
    "sweep method ragged": ("method", lambda: ev.sweep(matrix(), RAGGED)),
    "sweep moves table": ("move", lambda: ev.sweep(gp(), moves=TABLE)),
    "sweep seeds": ("seeds", lambda: ev.sweep(matrix(), seeds=1.5)),
    "sweep seeds 1e12": ("seeds", lambda: ev.sweep(matrix(), seeds=10**12)),
    "fit_reference": ("model", lambda: ev.fit_reference(3)),
    "sensitivity seed": ("random_seed", lambda: sensitivity(random_seed="a")),
    "sensitivity empty": ("model", lambda: ev.prior_sensitivity({})),
    "predict an odd array": ("posterior", lambda: ev.predict(gp(), X, posterior=Odd())),
    "loo an odd array": ("posterior", lambda: ev.loo(gp(), posterior=Odd())),
    "y an odd array": ("y", lambda: gp(y=Odd())),
    "tol an odd array": ("tol", lambda: ev.fit_ep(matrix(), tol=Odd())),
    **{
        f"regressor {name} {kind}": (
            name,
            lambda name=name, v=v: ev.GaussianProcessRegressor(**{name: v}).fit(X, Y),
        )
        for name in ("optimizer", "approximation", "n_restarts_optimizer", "likelihood", "alpha")
        for kind, v in {"class": int, "table": TABLE, "array": K}.items()
    },
    "compare missing": ("missing", lambda: ev.compare({"a": gp()}, missing=3)),
    "compare namespace": ("namespace", lambda: ev.compare({"a": gp()}, namespace=3)),
    "compare prior long": ("prior", lambda: ev.compare({"a": gp()}, prior="q" * 10**5)),
    "likelihood long": ("likelihood", lambda: gp(likelihood="q" * 10**5)),
    **{
        f"progressbar {name}": ("progressbar", call)
        for name, call in {
            "log_evidence": lambda: log_evidence(progressbar="no"),
            "sample": lambda: sample(progressbar=TABLE),
            "optimise": lambda: ev.optimise(gp(), progressbar=0),
            "predict": lambda: ev.predict(gp(), X, progressbar=TABLE),
            "compare": lambda: ev.compare({"a": gp()}, progressbar="no"),
            "surface": lambda: surface(progressbar=None),
            "sweep": lambda: ev.sweep(matrix(), progressbar="no"),
            "integrated": lambda: integrated(progressbar="no"),
            "learnt": lambda: learnt(progressbar="no"),
        }.items()
    },
    "ar1 initial": ("initial", lambda: ev.precisions.ar1(4, 0.5, 1.0, initial=TABLE)),
}

UNKNOWN = {
    "GPModel": lambda: gp(kernle="RBF(1.0)"),
    "SoftmaxModel": lambda: classes(likelihood="probit"),
    "DensityModel": lambda: density(gradient=bowl),
    "from_jax": lambda: ev.from_jax(bowl, 2, priors=None),
    "from_function": lambda: custom(parameters={}),
    "log_evidence": lambda: log_evidence(n_particle=3),
    "log_evidence of a method": lambda: log_evidence(method="ais", waste_free=4),
    "sample": lambda: sample(n_draws=3),
    "optimise": lambda: ev.optimise(gp(), restarts=1),
    "predict": lambda: ev.predict(gp(), X, draws=1),
    "compare": lambda: ev.compare({"a": matrix()}, targetse=0.1, progressbar=False),
    "HMC": lambda: ev.moves.HMC(stepsize=0.1),
}


@contextmanager
def soon_and_small():
    """A call that computes for a quarter of a minute, waits for two, or takes a gigabyte ends in
    an error. (On a machine that does other things, too, what is compiled for the first time may
    take longer than that by the clock.)"""

    def ring(*_):
        raise TimeoutError("this mistake was not noticed at once")

    clocks = {signal.ITIMER_PROF: (signal.SIGPROF, 15), signal.ITIMER_REAL: (signal.SIGALRM, 120)}
    before, kilobytes = {kind: signal.signal(kind, ring) for kind, _ in clocks.values()}, peak()
    for clock, (_, seconds) in clocks.items():
        signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        for clock, (kind, _) in clocks.items():
            signal.setitimer(clock, 0)
            signal.signal(kind, before[kind])
    assert peak() - kilobytes < 2**20


def peak():
    """The most memory that this process has had, in kilobytes (of macOS's in bytes)."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // 1024 if sys.platform == "darwin" else most


def answer(call):
    """The error, or what was made without one."""
    try:
        with soon_and_small():
            return call()
    except Exception as error:
        return error


def in_one_line(name, error):
    """Whether it names the argument."""
    text = str(error)
    short = text.strip().count("\n") == 0 and len(text) < 500
    return isinstance(error, ev.InputError) and name in text and short


@pytest.mark.parametrize(
    "cases",
    [MODELS, DENSITIES, POINTS, FUNCTIONS, LIKELIHOODS, RUNS, OTHERS, WRONG_KINDS],
    ids=["models", "densities", "points", "functions of densities", "likelihoods", "runs",
         "everything else", "wrong kinds of objects"],
)  # fmt: skip
def test_mistakes_are_told_in_one_line(cases):
    """All of them, since one is a thousandth of a second and a test of its own five of them."""
    wrong = {}
    for case, (name, call) in cases.items():
        error = answer(call)
        its_own = case in ("classifier NaN", "regressor rows")  # scikit-learn's
        if not (isinstance(error, ValueError) and name in str(error) if its_own else
                in_one_line(name, error)):  # fmt: skip
            wrong[case] = repr(error)
    assert wrong == {}


def test_unknown_keywords():
    told = re.compile("unexpected keyword|has no option|no keyword|has no argument")
    answers = {case: answer(call) for case, call in UNKNOWN.items()}
    wrong = {
        case: repr(error)
        for case, error in answers.items()
        if not (isinstance(error, TypeError) and told.search(str(error)))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    "y",
    [
        np.ma.masked_equal(np.array([1, -1, 1, 1]), -999),
        pd.Series([1, -1, 1, 1], index=list("abcd")),
        pd.Series([1, 0, 1, 1], dtype="Int64"),
        [1, -1, 1, 1],
        (True, False, True, True),
        np.array([1, -1, 1, 1], dtype=np.float32),
        np.array([1, -1, 1, 1], dtype=object),
    ],
)
def test_what_holds_numbers_is_taken(y):
    model = gp(y=y, X=pd.DataFrame({"a": [0, 1, 2, 3]}))
    np.testing.assert_array_equal(model.y, Y)
    assert model.X.shape == (4, 1)
