"""Results for ArviZ: draws with names, and what a model adds to them.

With the model there are also its data, how well every draw fits each datum (what ``arviz.loo`` and
``arviz.compare`` need), and replicated data for posterior predictive checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..approximations.gp.ep import fit_ep
from ..execution import files
from ..execution.arguments import check_kind, seed_sequence
from ..gaussians.base import Gaussian
from ..gaussians.blocks import BlockGaussian
from ..models.gp import GPModel
from ..models.sparse import SparseModel
from ..models.types import Described
from ..numerics.arrays import Array
from .at_draws import AtDraws, Drawn, check_same, full_theta
from .base import beside_axes

_LATENT, _DATUM = "latent", "obs_id"  # what axes are called

Group = Mapping[str, Array]


def to_arviz(
    result: Drawn, model: GPModel | SparseModel | None,
    random_seed: int | np.random.Generator | None, posterior: Group | None = None,
    theta: Array | None = None, **groups: Group,
) -> Any:  # fmt: skip
    """A container with the warnings, and the evidence, among the posterior's attributes.

    Parameters
    ----------
    posterior : mapping of str to array (chains, draws, ...), optional
        By default the latent values or parameters of the result.
    theta : array (chains, draws, P), optional
        Hyperparameters at which latent values are still to be drawn.
    """
    names = result.names if posterior is None else getattr(model, "names", ())
    if posterior is None:
        x = result.latent_draws
        latent = not names or "likelihood" in result.model
        posterior = {"x": x} if latent else {n: x[..., i] for i, n in enumerate(names)}
    posterior = {beside_axes(name): x for name, x in posterior.items()}
    groups = {"posterior": posterior, **groups}
    dims, coords = dict[str, list[str]](), dict[str, Any]()
    if model is not None:
        dims["y"] = [_DATUM]
    if "x" in posterior and posterior["x"].ndim > 2:
        dims["x"] = [_LATENT]
        n = posterior["x"].shape[-1]
        coords[_LATENT] = list(names) if len(names) == n else np.arange(n)
    if model is not None:
        check_kind("model", model, GPModel, SparseModel)
        rng = np.random.default_rng(seed_sequence(random_seed))
        at = AtDraws.of(model, result) if theta is None else at_theta(model, result, theta, rng)
        coords[_DATUM] = np.arange(model.y.size)
        groups["log_likelihood"] = {"y": at.log_likelihood()}
        groups["posterior_predictive"] = {"y": at.simulate(rng)}
        groups["observed_data"] = {"y": model.y}
    data = files.to_arviz(groups, dims, coords)
    about = dict[str, Any]()
    if hasattr(result, "logz") and hasattr(result, "logz_se"):
        about = {"log_evidence": result.logz, "log_evidence_se": result.logz_se}
    if result.warnings:
        about["warnings"] = [str(warning) for warning in result.warnings]
        about["warning_codes"] = [warning.code for warning in result.warnings]
    data["posterior"].attrs |= about
    return data


def at_theta(model: Described, result: Drawn, theta: Array, rng: np.random.Generator) -> AtDraws:
    """At one draw from EP's Gaussian for each θ, of which neighbours may be equal."""
    check_same(model, result)
    whole = full_theta(model, result, theta)
    q = fit_ep(model.at(whole[0, 0]), tol=1e-6)
    seen, likelihoods = list[Array](), []
    for own, before in zip(whole[0], [whole[0, 0], *whole[0]], strict=False):
        if not np.array_equal(own, before):
            start = q.sites if model.likelihood.log_concave else None
            q = fit_ep(model.at(own), start=start, tol=1e-6)
        seen.append(draw_seen(q.gaussian, rng))
        likelihoods.append(q.model.likelihood)
    return AtDraws(model.observed, np.array(seen)[None], tuple(likelihoods))


def draw_seen(q: Gaussian | BlockGaussian, rng: np.random.Generator) -> Array:
    """One draw of what the likelihoods see, for τ of any sign."""
    if not isinstance(q, BlockGaussian) and q.tau.min() >= 0.0:
        return q.draw(rng)
    if q.prior.design is None:
        return q.mean + np.linalg.cholesky(q.covariance) @ rng.standard_normal(q.mean.size)
    root = q.root()
    u = root.mean + root.draw(rng.standard_normal((root.mean.size, 1)))[:, 0]
    return q.prior.predictors(u[None])[0]
