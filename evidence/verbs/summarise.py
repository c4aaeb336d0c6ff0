"""What a regression found, as tables: see :class:`evidence.results.summary.Summary`."""

from __future__ import annotations

import numpy as np
from scipy.sparse import block_diag, csr_array, eye_array

from ..approximations.predictors.reference import BlockReference
from ..approximations.reference import GaussianReference
from ..execution.arguments import check_count, check_kind
from ..execution.keywords import hinted
from ..execution.options import told
from ..messages import InputError, messages
from ..models.formulas.jzs import Standardised
from ..models.formulas.model import FormulaModel
from ..models.formulas.terms import Common
from ..numerics.threads import blas_for
from ..paths.families import family, fit_reference
from ..results.base import data_frame, quantiles_of
from ..results.hyper import IntegratedEvidence
from ..results.summary import Summary, of_mixture
from ._call import ROUGH
from ._options import Posterior
from .integrate import fits_over_theta, integrated_evidence


@hinted
def summarise(
    model: FormulaModel, posterior: Posterior | None = None, *,
    level: float = 0.9, max_draws: int = 48,
) -> Summary:  # fmt: skip
    """The posterior of common effects, of hyperparameters and of the effects of every group.

    Of the latent values it has EP's Gaussians, averaged over hyperparameters.

    Parameters
    ----------
    model : FormulaModel
    posterior : EvidenceResult or GaussianReference, optional
        What :func:`evidence.log_evidence` returned for this model, or one approximation. By
        default a short run of its own.
    level : float
        Posterior mass of the intervals: 0.95 makes columns ``q2.5`` and ``q97.5``.
    max_draws : int
        Settings of the hyperparameters to average over.

    Returns
    -------
    Summary
        ``summary.common``, ``.hyperparameters``, ``.groups``, ``.plot()``, ``.plot_groups()``

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> rng = np.random.default_rng(0)
    >>> data = {"y": rng.poisson(3.0, 40), "x": rng.normal(size=40), "g": list("abcdefgh") * 5}
    >>> model = ev.from_formula("y ~ x + (1 | g)", data, likelihood="poisson")
    >>> summary = ev.summarise(model)
    >>> list(summary.table.index), len(summary.groups)
    (['Intercept', 'x', 'sd(1|g)'], 8)
    """
    check_kind("model", model, FormulaModel)
    check_count("max_draws", max_draws, 1, optional=False)
    quantiles_of(level)
    with blas_for(model.n):
        if posterior is None and model.priors is not None:
            posterior = integrated_evidence(
                model, target_se=ROUGH, random_seed=0, progressbar=False
            )
        if isinstance(posterior, IntegratedEvidence):
            fits = list(fits_over_theta(model, posterior, max_draws))
        elif posterior is None or getattr(posterior, "model", None) == model.describe():
            fits = [fit_reference(model, "ep" if "ep" in family(model).fits else "laplace")]
        elif (
            isinstance(posterior, GaussianReference | BlockReference) and posterior.model is model
        ):
            fits = [posterior]
        else:
            raise InputError(
                "posterior must be a result of this model or a reference fitted to it, got "
                f"{type(posterior).__name__}"
            )
    mean, var = np.array([q.mean for q in fits]), np.array([q.var for q in fits])
    known = [t.slopes if isinstance(t, Standardised) else (t.labels, None) for t in model.terms]
    if any(turn is not None for _, turn in known):
        parts = [eye_array(len(labels)) if turn is None else turn for labels, turn in known]
        turns = csr_array(block_diag(parts))
        mean, var = mean @ turns.T, np.array([q.gaussian.row_variances(turns) for q in fits])
    pairs = [(t, name) for t, (own, _) in zip(model.terms, known, strict=True) for name in own]
    frame = data_frame(of_mixture(mean, var, level), index=[name for _, name in pairs])
    frame = frame.rename_axis("name")
    terms = [t.name for t, _ in pairs]
    common = np.array([isinstance(t, Common) for t, _ in pairs])
    groups = frame[~common].assign(term=[n for n, c in zip(terms, common, strict=True) if not c])
    hyper = frame[:0]
    warnings = messages(fits[0].warnings)
    if isinstance(posterior, IntegratedEvidence):
        hyper, warnings = posterior.moments(level), posterior.warnings
    counts = {"row": model.y.size, "effect": model.n}
    sizes = ", ".join(f"{n} {word}{'s' * (n != 1)}" for word, n in counts.items())
    about = f"{model.formula}: {sizes}"
    return told(Summary(frame[common], hyper, groups, about, warnings))
