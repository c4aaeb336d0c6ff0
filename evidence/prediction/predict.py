"""One call from a model and its posterior to predictions at new points."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..approximations.reference import GaussianReference
from ..execution.arguments import check_choice, check_count
from ..execution.tasks import factorising
from ..messages import InputError
from ..models.classes import SoftmaxModel
from ..models.gp import GPModel
from ..models.likelihoods.base import Likelihood
from ..paths.families import family, fit_reference
from ..results.draws import Draws
from ..results.evidence import EvidenceResult
from ..results.hyper import HyperDraws
from .class_predictive import ClassPrediction
from .classes import NewPoints, predict_classes
from .components import Components, Points, Stored, from_draws, from_reference
from .hyper import hyper_shares
from .new_points import new_points
from .predictive import Prediction, Share

Array = NDArray[np.float64]


@overload
def predict(model: GPModel, X_new: ArrayLike | None = None, **options: Any) -> Prediction: ...
@overload
def predict(
    model: SoftmaxModel, X_new: ArrayLike | None = None, **options: Any
) -> ClassPrediction: ...
def predict(
    model: GPModel | SoftmaxModel,
    X_new: ArrayLike | None = None,
    *,
    posterior: Any = None,
    K_new: ArrayLike | None = None,
    k_diag: ArrayLike | None = None,
    mean_new: float | ArrayLike | None = None,
    likelihood: Likelihood | None = None,
    max_draws: int = 200,
    batch_size: int | None = None,
    progressbar: bool = False,
) -> Prediction | ClassPrediction:
    """Predict the latent value and a new observation at new points.

    Parameters
    ----------
    model : GPModel or SoftmaxModel
    X_new : array (n, D), optional
        New inputs, for models with a kernel. Without it (and without ``K_new``) the prediction
        is of the latent values of the data themselves.
    posterior : str, reference, Draws, EvidenceResult, HyperDraws or array, optional
        What is known of the latent values at the data: a Gaussian, ``"ep"`` (the default),
        ``"laplace"`` (that of several classes) or ``"prior"``, or as fitted to this model; or
        posterior draws: those of :func:`evidence.sample`, those that came with a Monte Carlo
        estimate, or an array (..., N); or draws of hyperparameters and latent values together,
        of :func:`evidence.sample_hyperparameters`.
    K_new, k_diag : array (n, N) and (n,), optional
        For a model with a given K: covariances of the new latent values with those of the
        data, and their prior variances. Classes may have their own: (C, n, N) and (C, n).
    mean_new : float or array (n,), optional
        Prior mean at the new points. Needed where the model's mean is not one number. For
        several classes a number, (C,) or (C, n).
    likelihood : Likelihood, optional
        That of the new observations, where it is not the model's own: same kind, with for
        example other exposures.
    max_draws : int
        Of draws of hyperparameters at most so many are used, evenly spaced: each costs a
        Cholesky factorisation, and 16 bytes per point.
    batch_size : int, optional
        Points at a time. By default as many as keep the work space near 64 MB.
    progressbar : bool
        Show one line in a terminal or notebook.

    Returns
    -------
    Prediction or ClassPrediction
        ``mean`` and ``var`` of the latent value, ``y_mean``, ``y_var``, ``probability``,
        ``quantiles(q)``, ``log_density(y_new)``, ``to_frame()``, ``plot()``. For several
        classes ``probability`` (n, C), ``label``, ``log_density(y_new)``, ``to_frame()``,
        ``plot()``.

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
    check_count("max_draws", max_draws, 1, optional=False)
    if isinstance(model, SoftmaxModel):
        if likelihood is not None:
            raise InputError("likelihood is for a GPModel; several classes have one likelihood")
        with factorising(model.n_data):
            return predict_classes(
                model,
                posterior if isinstance(posterior, HyperDraws) else _known(model, posterior),
                NewPoints(X_new, K_new, k_diag, mean_new),
                max_draws=max_draws,
                batch_size=batch_size,
                progressbar=progressbar,
            )
    if not isinstance(model, GPModel):
        raise InputError(
            f"model must be a GPModel or a SoftmaxModel, got {type(model).__name__}; what a "
            "DensityModel predicts is a function of its draws, ev.sample(model)"
        )
    points = new_points(model, X_new, K_new, k_diag, mean_new)
    n = model.n if points is None else points.n
    observed = _likelihood(model, likelihood, n)
    with factorising(model.n):
        if isinstance(posterior, HyperDraws):
            if likelihood is not None and any("likelihood__" in name for name in posterior.names):
                raise InputError(
                    "likelihood: the draws hold parameters of the likelihood; leave it out"
                )
            shares = hyper_shares(model, posterior, points, likelihood, max_draws, progressbar)
        else:
            shares = [Share(1.0, _components(model, posterior, points), observed)]
        return Prediction.of(
            shares,
            X_new=getattr(points, "X_new", model.X if points is None else None),
            data=None if model.X is None else (model.X, model.y),
            batch_size=batch_size,
            progressbar=progressbar,
        )


def _components(model: GPModel, posterior: Any, points: Points | None) -> Components:
    known = _known(model, posterior)
    if isinstance(known, GaussianReference):
        if points is None:
            return Stored(known.mean[None], known.var[None])
        return from_reference(known, points)
    if points is None:
        return Stored(known, np.zeros((1, model.n)))
    return from_draws(model, known, points)


def _known(model: Any, posterior: Any) -> Any:
    """A reference of this model, or posterior draws of it, (S, N)."""
    entry = family(model)
    if posterior is None:
        posterior = "ep" if "ep" in entry.fits else "laplace"
    if isinstance(posterior, str):
        check_choice("posterior", posterior, tuple(entry.fits))
        posterior = fit_reference(model, posterior)
    if isinstance(posterior, entry.reference):
        if posterior.model is not model:
            raise InputError("posterior was fitted to another model; fit it to this one")
        return posterior
    return _draws(model, posterior)


def _draws(model: Any, posterior: Any) -> Array:
    """Posterior draws, shape (S, N)."""
    if isinstance(posterior, Draws | EvidenceResult):
        if posterior.model and posterior.model != model.describe():
            raise InputError(
                f"posterior was made for another model, {posterior.model}, not {model.describe()}"
            )
        if (beta := posterior.settings.get("beta", 1.0)) != 1.0:
            raise InputError(
                f"posterior holds draws at beta={beta}, not from the posterior; sample at beta=1"
            )
        x = posterior.x if isinstance(posterior, Draws) else posterior.samples
        if not x.size:
            raise InputError(
                "posterior: the method of this result leaves no draws; use method='smc', "
                "or ev.sample"
            )
    else:
        try:
            x = np.asarray(posterior, dtype=float)
        except (TypeError, ValueError):
            x = np.empty(0)
    if x.ndim < 2 or x.shape[-1] != model.n or not x.size:
        names = ", ".join(map(repr, family(model).fits))
        raise InputError(
            f"posterior must be {names}, a fitted reference, Draws of ev.sample, a HyperDraws, "
            f"an EvidenceResult with samples, or an array of draws of shape (..., {model.n}); got "
            f"{_shown(posterior)}"
        )
    if not np.isfinite(x).all():
        raise InputError("posterior: the draws contain NaN or inf")
    return x.reshape(-1, model.n)


def _shown(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"an array of shape {shape}"


def _likelihood(model: GPModel, likelihood: Likelihood | None, n: int) -> Likelihood:
    """That of the new observations; parameters that are one per datum must fit them."""
    chosen = model.likelihood if likelihood is None else likelihood
    if not isinstance(chosen, Likelihood) or chosen.name != model.likelihood.name:
        raise InputError(
            f"likelihood must be a {model.likelihood.name} likelihood like the model's, "
            f"got {chosen!r}"
        )
    try:
        chosen.at(np.arange(n))
        chosen.theta(chosen.location(np.zeros(n)) * 0.0)
    except (IndexError, ValueError):
        raise InputError(
            f"{chosen.name} has parameters with one value per datum, which do not fit {n} new "
            "points; pass likelihood= with one value per new point"
        ) from None
    return chosen
