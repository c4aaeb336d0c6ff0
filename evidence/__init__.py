"""Marginal likelihoods of latent Gaussian models, with error bars.

>>> import evidence as ev
>>> model = ev.GPModel(K=[[1.0, 0.5], [0.5, 1.0]], y=[1, 1], likelihood="probit")
>>> result = ev.log_evidence(model, random_seed=0, progressbar=False)
>>> abs(result.logz - ev.log_evidence(model, method="orthant").logz) < 0.2
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, examples, likelihoods, moves, plots
    from .adaptors.pymc import from_pymc
    from .adaptors.stan import from_stan
    from .approximations.ep import fit_ep
    from .approximations.laplace import fit_laplace
    from .class_predictive import ClassPrediction
    from .comparison import Comparison, compare
    from .density.autodiff import from_jax
    from .density.metrics import Fisher, SoftAbs
    from .density.model import DensityModel
    from .density.priors import GaussianPrior
    from .draws import Draws
    from .drivers import ladders
    from .estimate import ais, log_evidence, parallel_tempering, resample_move
    from .estimators.classifier import GaussianProcessClassifier
    from .estimators.regressor import GaussianProcessRegressor
    from .hyper_draws import HyperDraws
    from .hyper_sampling import sample_hyperparameters
    from .integration import IntegratedEvidence, integrated_evidence
    from .kernels import parse_kernel
    from .model import GPModel
    from .optimisation import optimise
    from .optimum import Optimum
    from .orthant import log_orthant
    from .path import Path
    from .prediction import predict
    from .predictive import Prediction
    from .result import EvidenceResult
    from .sampling import sample
    from .simulation import Bidirectional, Simulated, bidirectional, posterior_draws, simulate
    from .softmax import SoftmaxModel
    from .surfaces import Surface, evidence_surface
    from .sweeps import sweep

__version__ = "0.1.0"

_HOME = {
    "Bidirectional": "simulation",
    "Simulated": "simulation",
    "ais": "estimate",
    "bidirectional": "simulation",
    "ClassPrediction": "class_predictive",
    "Comparison": "comparison",
    "DensityModel": "density.model",
    "Fisher": "density.metrics",
    "GaussianPrior": "density.priors",
    "SoftAbs": "density.metrics",
    "Draws": "draws",
    "EvidenceResult": "result",
    "GPModel": "model",
    "GaussianProcessClassifier": "estimators.classifier",
    "GaussianProcessRegressor": "estimators.regressor",
    "IntegratedEvidence": "integration",
    "HyperDraws": "hyper_draws",
    "Optimum": "optimum",
    "Path": "path",
    "Prediction": "predictive",
    "SoftmaxModel": "softmax",
    "Surface": "surfaces",
    "compare": "comparison",
    "evidence_surface": "surfaces",
    "fit_ep": "approximations.ep",
    "fit_laplace": "approximations.laplace",
    "from_jax": "density.autodiff",
    "from_pymc": "adaptors.pymc",
    "from_stan": "adaptors.stan",
    "integrated_evidence": "integration",
    "log_evidence": "estimate",
    "log_orthant": "orthant",
    "optimise": "optimisation",
    "parallel_tempering": "estimate",
    "parse_kernel": "kernels",
    "posterior_draws": "simulation",
    "predict": "prediction",
    "resample_move": "estimate",
    "sample": "sampling",
    "sample_hyperparameters": "hyper_sampling",
    "simulate": "simulation",
    "sweep": "sweeps",
}
_ROOMS = {
    "datasets": "datasets",
    "examples": "examples",
    "ladders": "drivers.ladders",
    "likelihoods": "likelihoods",
    "moves": "moves",
    "plots": "plots",
}

__all__ = [
    "Bidirectional",
    "ClassPrediction",
    "Comparison",
    "DensityModel",
    "Draws",
    "EvidenceResult",
    "Fisher",
    "GPModel",
    "GaussianPrior",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "HyperDraws",
    "IntegratedEvidence",
    "Optimum",
    "Path",
    "Prediction",
    "Simulated",
    "SoftAbs",
    "SoftmaxModel",
    "Surface",
    "ais",
    "bidirectional",
    "compare",
    "datasets",
    "evidence_surface",
    "examples",
    "fit_ep",
    "fit_laplace",
    "from_jax",
    "from_pymc",
    "from_stan",
    "integrated_evidence",
    "ladders",
    "likelihoods",
    "log_evidence",
    "log_orthant",
    "moves",
    "optimise",
    "parallel_tempering",
    "parse_kernel",
    "plots",
    "posterior_draws",
    "predict",
    "resample_move",
    "sample",
    "sample_hyperparameters",
    "simulate",
    "sweep",
]


def __getattr__(name: str) -> Any:
    # Import on first use: `import evidence` stays as cheap as NumPy.
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    if name in _ROOMS:
        return importlib.import_module(f".{_ROOMS[name]}", __name__)
    raise AttributeError(f"module 'evidence' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
