"""Marginal likelihoods of latent Gaussian models, with error bars.

>>> import evidence as ev
>>> model = ev.GPModel(K=[[1.0, 0.5], [0.5, 1.0]], y=[1, 1], likelihood="probit")
>>> result = ev.log_evidence(model, random_seed=0, progressbar=False)
>>> abs(result.logz - ev.log_evidence(model, method="orthant").logz) < 0.2
True

Words that the package uses in one sense only:

===========  ====================================================================================
sites        Gaussian factors :math:`t_n(x_n)`, one for each datum, in place of its likelihood
reference    a Gaussian near the posterior, prior times sites, and its own estimate of log Z
mixture      several references with weights, where a posterior may have several modes
share        the part of the posterior that a component of a mixture is responsible for
scout        a short tempered run from the prior to what no component has a claim to
base         the Gaussian at β = 0 of a path: the reference, or the prior
path         the densities :math:`p_β` from the base (β = 0) to the posterior (β = 1)
ladder       the inverse temperatures 0 = β₀ < β₁ < … < 1 at which a path is visited
tilt         log likelihood minus log sites, :math:`h(x)`: what of the posterior the base lacks
row          one state of a batch: chains and particles are rows of an array (M, N)
move         one random step of every row that leaves :math:`p_β` invariant
driver       a loop over a ladder that weights, resamples and moves rows
island       one independent, unbiased estimate of Z; the islands' spread is the error bar
wave         the islands run before the next decision whether to stop
guide        draws latent values one after the other, given the sites of those still to come
twist        a correction of the guide's Gaussian, learnt from its first weights
===========  ====================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the one list of public names and their homes; read again below
    from . import moves as moves
    from . import plots as plots
    from .approximations.gp.ep import fit_ep as fit_ep
    from .approximations.gp.laplace import fit_laplace as fit_laplace
    from .approximations.mixture import Mixture as Mixture
    from .estimators.classifier import GaussianProcessClassifier as GaussianProcessClassifier
    from .estimators.regressor import GaussianProcessRegressor as GaussianProcessRegressor
    from .execution.options import set_options as set_options
    from .messages import InputError as InputError
    from .models import datasets as datasets
    from .models import examples as examples
    from .models import likelihoods as likelihoods
    from .models import precisions as precisions
    from .models.adaptors.numpyro import from_numpyro as from_numpyro
    from .models.adaptors.pymc import from_pymc as from_pymc
    from .models.adaptors.stan import from_stan as from_stan
    from .models.classes import SoftmaxModel as SoftmaxModel
    from .models.density.autodiff import from_jax as from_jax
    from .models.density.linear import linear_density as linear_density
    from .models.density.metrics import Fisher as Fisher
    from .models.density.metrics import SoftAbs as SoftAbs
    from .models.density.model import DensityModel as DensityModel
    from .models.density.priors import GaussianPrior as GaussianPrior
    from .models.formulas.jzs import jzs as jzs
    from .models.formulas.model import FormulaModel as FormulaModel
    from .models.formulas.model import from_formula as from_formula
    from .models.gp import GPModel as GPModel
    from .models.kernels.parse import parse_kernel as parse_kernel
    from .models.predictors import PredictorsModel as PredictorsModel
    from .models.sparse import SparseModel as SparseModel
    from .paths.gp import Path as Path
    from .prediction.classes import ClassPrediction as ClassPrediction
    from .prediction.effects import plot_effects as plot_effects
    from .prediction.gp import Prediction as Prediction
    from .prediction.load import load as load
    from .prediction.predict import predict as predict
    from .proposals.tilting import log_orthant as log_orthant
    from .results.bridged import BridgeEvidence as BridgeEvidence
    from .results.calibration import Calibration as Calibration
    from .results.calibration import Design as Design
    from .results.comparison import Comparison as Comparison
    from .results.draws import Draws as Draws
    from .results.evidence import EvidenceResult as EvidenceResult
    from .results.hyper import HyperDraws as HyperDraws
    from .results.hyper import IntegratedEvidence as IntegratedEvidence
    from .results.loo import LooResult as LooResult
    from .results.optimum import Optimum as Optimum
    from .results.replicates import Replicates as Replicates
    from .results.sensitivity import Sensitivity as Sensitivity
    from .results.simulated import Bidirectional as Bidirectional
    from .results.simulated import Simulated as Simulated
    from .results.submodels import Submodels as Submodels
    from .results.summary import Summary as Summary
    from .results.surface import Surface as Surface
    from .results.sweep import Sweep as Sweep
    from .statistics import ladders as ladders
    from .verbs.all_submodels import all_submodels as all_submodels
    from .verbs.bidirectional import bidirectional as bidirectional
    from .verbs.calibrate import calibrate as calibrate
    from .verbs.calibrate import design as design
    from .verbs.compare import compare as compare
    from .verbs.estimate import log_evidence as log_evidence
    from .verbs.from_draws import evidence_from_draws as evidence_from_draws
    from .verbs.integrate import integrated_evidence as integrated_evidence
    from .verbs.loo import loo as loo
    from .verbs.optimise import optimise as optimise
    from .verbs.posterior_draws import posterior_draws as posterior_draws
    from .verbs.reference import fit_reference as fit_reference
    from .verbs.replicate import replicate as replicate
    from .verbs.sample import sample as sample
    from .verbs.sample_hyperparameters import sample_hyperparameters as sample_hyperparameters
    from .verbs.savage_dickey import savage_dickey as savage_dickey
    from .verbs.sensitivity import prior_sensitivity as prior_sensitivity
    from .verbs.shorthands import ais as ais
    from .verbs.shorthands import parallel_tempering as parallel_tempering
    from .verbs.shorthands import resample_move as resample_move
    from .verbs.simulate import simulate as simulate
    from .verbs.summarise import summarise as summarise
    from .verbs.surface import evidence_surface as evidence_surface
    from .verbs.sweep import sweep as sweep

__version__ = "0.1.0"

if not TYPE_CHECKING:  # with a module's __getattr__ every name would exist for a type checker
    from .execution.lazy import offered

    _HOME, __getattr__, __dir__ = offered(__spec__)
    __all__ = sorted(_HOME)
