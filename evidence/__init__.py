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
    from . import moves, plots
    from .approximations.gp.ep import fit_ep
    from .approximations.gp.laplace import fit_laplace
    from .estimators.classifier import GaussianProcessClassifier
    from .estimators.regressor import GaussianProcessRegressor
    from .messages import InputError
    from .models import datasets, examples, likelihoods
    from .models.adaptors.pymc import from_pymc
    from .models.adaptors.stan import from_stan
    from .models.classes import SoftmaxModel
    from .models.density.autodiff import from_jax
    from .models.density.metrics import Fisher, SoftAbs
    from .models.density.model import DensityModel
    from .models.density.priors import GaussianPrior
    from .models.gp import GPModel
    from .models.kernels.parse import parse_kernel
    from .paths.gp import Path
    from .prediction.classes import ClassPrediction
    from .prediction.gp import Prediction
    from .prediction.predict import predict
    from .proposals.tilting import log_orthant
    from .results.comparison import Comparison
    from .results.draws import Draws
    from .results.evidence import EvidenceResult
    from .results.hyper import HyperDraws
    from .results.simulated import Bidirectional, Simulated
    from .results.sweep import Sweep
    from .statistics import ladders
    from .verbs.bidirectional import bidirectional
    from .verbs.compare import compare
    from .verbs.estimate import log_evidence
    from .verbs.integrate import IntegratedEvidence, integrated_evidence
    from .verbs.optimise import optimise
    from .verbs.optimum import Optimum
    from .verbs.posterior_draws import posterior_draws
    from .verbs.sample import sample
    from .verbs.sample_hyperparameters import sample_hyperparameters
    from .verbs.shorthands import ais, parallel_tempering, resample_move
    from .verbs.simulate import simulate
    from .verbs.surface import Surface, evidence_surface
    from .verbs.sweep import sweep

__version__ = "0.1.0"

_HOME = {
    "Bidirectional": "results.simulated",
    "Simulated": "results.simulated",
    "ais": "verbs.shorthands",
    "bidirectional": "verbs.bidirectional",
    "ClassPrediction": "prediction.classes",
    "Comparison": "results.comparison",
    "DensityModel": "models.density.model",
    "Fisher": "models.density.metrics",
    "GaussianPrior": "models.density.priors",
    "SoftAbs": "models.density.metrics",
    "Draws": "results.draws",
    "EvidenceResult": "results.evidence",
    "GPModel": "models.gp",
    "GaussianProcessClassifier": "estimators.classifier",
    "GaussianProcessRegressor": "estimators.regressor",
    "InputError": "messages",
    "IntegratedEvidence": "verbs.integrate",
    "HyperDraws": "results.hyper",
    "Optimum": "verbs.optimum",
    "Path": "paths.gp",
    "Prediction": "prediction.gp",
    "SoftmaxModel": "models.classes",
    "Surface": "verbs.surface",
    "Sweep": "results.sweep",
    "compare": "verbs.compare",
    "evidence_surface": "verbs.surface",
    "fit_ep": "approximations.gp.ep",
    "fit_laplace": "approximations.gp.laplace",
    "from_jax": "models.density.autodiff",
    "from_pymc": "models.adaptors.pymc",
    "from_stan": "models.adaptors.stan",
    "integrated_evidence": "verbs.integrate",
    "log_evidence": "verbs.estimate",
    "log_orthant": "proposals.tilting",
    "optimise": "verbs.optimise",
    "parallel_tempering": "verbs.shorthands",
    "parse_kernel": "models.kernels.parse",
    "posterior_draws": "verbs.posterior_draws",
    "predict": "prediction.predict",
    "resample_move": "verbs.shorthands",
    "sample": "verbs.sample",
    "sample_hyperparameters": "verbs.sample_hyperparameters",
    "simulate": "verbs.simulate",
    "sweep": "verbs.sweep",
}
_ROOMS = {
    "datasets": "models.datasets",
    "examples": "models.examples",
    "ladders": "statistics.ladders",
    "likelihoods": "models.likelihoods",
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
    "InputError",
    "IntegratedEvidence",
    "Optimum",
    "Path",
    "Prediction",
    "Simulated",
    "SoftAbs",
    "SoftmaxModel",
    "Surface",
    "Sweep",
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
