"""One call from a model and its posterior to predictions at new points.

New points become what the prior sees of them (:mod:`.points`), the posterior becomes a mixture
of Gaussians there (:mod:`.mixture`), and a prediction is what can be asked of that mixture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from ..approximations.predictors.averaged import normal_nodes
from ..execution.arguments import check_count, shown
from ..execution.clock import interruptible
from ..execution.keywords import hinted
from ..execution.progress import progress_line
from ..messages import InputError
from ..models.classes import SoftmaxModel
from ..models.formulas.model import FormulaModel
from ..models.likelihoods.base import Likelihood
from ..models.likelihoods.predicted import Several
from ..models.likelihoods.softmax import Softmax
from ..models.types import Described
from ..numerics.threads import blas_for
from ..results.comparison import Comparison
from ..results.hyper import HyperDraws, IntegratedEvidence
from ..verbs._options import Posterior
from .classes import NODES, ClassPrediction
from .gp import Prediction
from .mixture import mixture_at
from .points import new_points
from .posterior import known_at_data
from .predictors import predict_several


class _Options(TypedDict, total=False):
    posterior: Posterior | None
    K_new: ArrayLike | None
    k_diag: ArrayLike | None
    mean_new: float | ArrayLike | None
    likelihood: Likelihood | None
    new_groups: str
    max_draws: int | None
    batch_size: int | None
    progressbar: bool


@overload
def predict(  # type: ignore[overload-overlap]
    model: SoftmaxModel, X_new: ArrayLike | None = None, **options: Unpack[_Options]
) -> ClassPrediction: ...
@overload
def predict(
    model: Described, X_new: ArrayLike | None = None, **options: Unpack[_Options]
) -> Prediction: ...
@overload
def predict(
    model: Comparison, X_new: ArrayLike | None = None, **options: Unpack[_Options]
) -> Prediction | ClassPrediction: ...
@hinted
def predict(
    model: Described | SoftmaxModel | Comparison,
    X_new: ArrayLike | None = None,
    *,
    posterior: Posterior | None = None,
    K_new: ArrayLike | None = None,
    k_diag: ArrayLike | None = None,
    mean_new: float | ArrayLike | None = None,
    likelihood: Likelihood | None = None,
    new_groups: str = "error",
    max_draws: int | None = None,
    batch_size: int | None = None,
    progressbar: bool = False,
) -> Prediction | ClassPrediction:
    """Predict the latent value and a new observation at new points.

    Parameters
    ----------
    model : GPModel, SparseModel, PredictorsModel, SoftmaxModel or Comparison
        Of what :func:`evidence.compare` returned: all of its models, each as probable as it is.
    X_new : array (n, D), optional
        New inputs, for models with a kernel; new rows of A for a SparseModel, a table of data for
        a model from a formula. Without it (and
        without ``K_new``) the prediction is of what the data themselves see.
    posterior : str, reference, Draws, EvidenceResult, HyperDraws or array, optional
        What is known of the latent values at the data: a Gaussian, ``"ep"`` (the default),
        ``"laplace"`` (that of several classes) or ``"prior"``, or as fitted to this model; a
        ``"mixture"`` of them (the default where a likelihood is not log-concave); or
        posterior draws: those of :func:`evidence.sample`, those that came with a Monte Carlo
        estimate, or an array (..., N); or draws of hyperparameters and latent values together,
        of :func:`evidence.sample_hyperparameters`. For a model with priors of its
        hyperparameters what :func:`evidence.log_evidence` returned: an average over them (by
        default after a short run).
    K_new, k_diag : array (n, N) and (n,), optional
        For a model with a given K: covariances of the new latent values with those of the
        data, and their prior variances. Classes may have their own: (C, n, N) and (C, n).
    mean_new : float or array (n,), optional
        Prior mean at the new points. Needed where the model's mean is not one number. For
        several classes a number, (C,) or (C, n).
    likelihood : Likelihood, optional
        That of the new observations, where it is not the model's own: same kind, with for
        example other exposures.
    new_groups : {"error", "prior", "zero"}
        Of a model from a formula: rows of groups that it was not made with are refused, or
        their effects have the prior of groups, under the posterior of its hyperparameters, or
        are left out.
    max_draws : int, optional
        Of draws of hyperparameters at most so many are used, evenly spaced: each costs a
        Cholesky factorisation, and 16 bytes per point. By default 200, and 48 settings of those
        that were integrated out, each of which costs a fit by EP.
    batch_size : int, optional
        Points at a time. By default as many as keep the work space near 64 MB.
    progressbar : bool
        Show one line in a terminal or notebook.

    Returns
    -------
    Prediction or ClassPrediction
        ``mean`` and ``var`` of the latent value, ``y_mean``, ``y_var``, ``probability``,
        ``quantiles(q)``, ``log_density(y_new)``, ``to_frame()``, ``plot()``; of formulas on the
        scale and with the labels of their data. For several classes ``probability`` (n, C),
        ``label``, ``log_density(y_new)``, ``to_frame()``, ``plot()``.

    Notes
    -----
    Kernels are used as scikit-learn uses them: a WhiteKernel adds to the prior variance of a
    new point and to no cross-covariance. The jitter is part of the prior at the data and not
    at new points, so predictions at the data's inputs differ by its order from those of the
    data's own latent values.

    Examples
    --------
    >>> from evidence import GPModel, predict, sample
    >>> model = GPModel([[0.0], [1.0], [2.0]], [0.1, 0.9, 1.8], "4.0 * RBF(1.0)",
    ...                 likelihood="gaussian(noise_std=0.1)")
    >>> predict(model, [[1.5]]).quantiles([0.05, 0.95], of="y").round(2).ravel()
    array([0.99, 1.97])
    >>> draws = sample(model, draws=200, tune=200, random_seed=0, progressbar=False)
    >>> predict(model, [[1.5]], posterior=draws).mean.round(1)
    array([1.5])
    """
    check_count("batch_size", batch_size, 1)
    check_count("max_draws", max_draws, 1)
    if isinstance(model, Comparison):
        return _averaged(
            model, X_new, posterior, K_new=K_new, k_diag=k_diag, mean_new=mean_new,
            likelihood=likelihood, new_groups=new_groups, max_draws=max_draws,
            batch_size=batch_size, progressbar=progressbar,
        )  # fmt: skip
    if not isinstance(model, Described):
        raise InputError(
            "model must be a GPModel, a SparseModel, a PredictorsModel or a SoftmaxModel, got "
            f"{type(model).__name__}; what a DensityModel predicts is a function of its draws, "
            "ev.sample(model)"
        )
    points = new_points(model, X_new, K_new, k_diag, mean_new, new_groups)
    n = model.y.size if points is None else points.n
    trials = {} if X_new is None or likelihood is not None else model.new_words(X_new)
    likelihood = None if likelihood is None else model.likelihood.of_family(likelihood)
    _check_likelihood(model, likelihood, posterior, n, trials)
    with interruptible(), blas_for(model.y.size):
        parts = known_at_data(model, posterior, max_draws)
        counts = [len(p.posterior) if isinstance(p.posterior, np.ndarray) else 1 for p in parts]
        if model.likelihood.categories:
            nodes = normal_nodes(model.n_predictors, NODES, sum(counts))
        bar = progress_line(progressbar, total=n * len(parts), desc="predict", unit="point")
        X, made = model.X, list[Any]()
        rest: dict[str, Any] = {
            "batch_size": batch_size, "bar": bar, "X_new": X if points is None else points.X,
            "data": None if X is None else (X, model.y),
        }  # fmt: skip
        with bar:
            for there, known, _ in parts:
                mixture = mixture_at(there, known, points)
                here = likelihood or there.likelihood.new.changed(trials)
                if isinstance(there.likelihood, Softmax):
                    own, nodes = np.split(nodes, [mixture.count])
                    assert there.levels is not None
                    words = there.likelihood, there.levels, own
                    made += [ClassPrediction.of(mixture, *words, **rest)]
                elif isinstance(here, Several):
                    made += [predict_several(mixture, here, labels=there.levels, **rest)]
                else:
                    how = rest | {"keep": len(parts) > 1, "labels": there.levels}
                    made += [Prediction.of(mixture, here, **how)]
    return made[0] if len(made) == 1 else made[0].mixture(made, [part.weight for part in parts])


def _averaged(
    comparison: Comparison, X_new: ArrayLike | None, posterior: object, *,
    negligible: float = 1e-6, **words: Any,
) -> Prediction | ClassPrediction:  # fmt: skip
    """A mixture of what every model predicts, each as probable as it is.

    ``negligible``: probability of a model that predictions leave out.
    """
    if posterior is not None:
        raise InputError("posterior: a comparison has one for each of its models; leave it out")
    if not comparison.models:
        raise InputError(
            "model: this comparison was read from a file, which holds no models; predict with "
            "each of them"
        )
    share = comparison.table.probability
    likely = [name for name in comparison.results if share[name] > negligible]
    if len({isinstance(comparison.models[name], FormulaModel) for name in likely}) > 1:
        raise InputError(
            "model: formulas take tables and the other models arrays; predict with each of them, "
            "comparison.models[name]"
        )
    results = comparison.results
    known = {n: results[n] if isinstance(results[n], IntegratedEvidence) else None for n in likely}
    made = [predict(comparison.models[n], X_new, posterior=q, **words) for n, q in known.items()]
    weights = [share[name] for name in likely]
    return made[0] if len(made) == 1 else made[0].mixture(made, weights)


def _check_likelihood(
    model: Described, likelihood: Likelihood | None, posterior: object, n: int,
    trials: Mapping[str, Any],
) -> None:  # fmt: skip
    """That of the new observations; parameters that are one per datum must fit them."""
    if model.likelihood.categories:
        if likelihood is not None:
            raise InputError("likelihood is for a GPModel; several classes have one likelihood")
        return
    own = model.likelihood.new
    chosen = own if likelihood is None else likelihood
    if not isinstance(chosen, Likelihood) or chosen.name != own.name:
        raise InputError(
            f"likelihood must be a {own.name} likelihood like the model's, got {shown(chosen)}"
        )
    try:
        chosen = chosen.changed(trials)
        chosen.at(np.arange(n))
        chosen.theta(np.full(n, 0.5))  # a number that all of them take
    except (IndexError, ValueError):
        raise InputError(
            f"{chosen.name} has parameters with one value per datum, which do not fit {n} new "
            "points; pass likelihood= with one value per new point"
        ) from None
    names = posterior.names if isinstance(posterior, HyperDraws) else ()
    free = model.hyperparameters
    if likelihood is not None and {*names} & {*free.names[free.n_kernel :]}:
        raise InputError("likelihood: the draws hold parameters of the likelihood; leave it out")
