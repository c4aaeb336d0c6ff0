r"""A wider reference where the posterior's tails are heavier than EP's.

EP matches moments. Where data only say "not here" (all labels alike, all counts zero) the
posterior is a part of the prior, cut off on one side: beyond, it falls as the prior does, which
may be several times as wide as the matched Gaussian. Weights exp Σh from a Gaussian of 1/v of
the variance that its tail needs have a Pareto tail of shape k = 1 - 1/v, and from v = 2 on no
variance at all; moves between temperatures that mix well in the bulk hardly help, as the tail is
where nobody is. Along the widest directions v is what a fit of the log weights says
(:mod:`evidence.proposals.twist`); sites that hold such a direction together are weakened,

.. math:: t_n(x)^{1 - \rho_n}, \qquad
          \rho_n \propto g_n^2, \quad g = Σ D \text{ the way along } D ,

until the Gaussian is √v times as wide in variance, and its mean is pushed away from the wall as
far as it has grown: as wide as the tail it would lie half behind the wall, where moves get stuck.

A likelihood that is not log-concave has tails heavier than any fit of the bulk says, too thin to
be seen in few draws and thick enough to matter at a thousandth of Z. There all sites are taken
to a power (:func:`eased`) whatever the draws say.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..approximations.reference import GaussianReference
from ..gaussians.base import Sites
from ..models.gp import GPModel
from ..numerics.arrays import Array
from ..numerics.threads import blas_for
from ..proposals.twist import directions_of, fit, truncated
from .base import Problem


def wide_start(
    problem: Problem, draws: int = 512, least: float = 1.5, worth: float = 0.5
) -> Problem:
    """The problem from a wider reference, where it is ours to choose and its tails ask for it.

    They do where ``draws`` of it find a v of ``least`` or more (at 2 weights have no variance),
    if those of the wider one are worth more than the part ``worth`` of what these are.
    """
    if not (_ours(problem) and isinstance(problem.model, GPModel)):
        return problem
    model, q = problem.model, problem.reference
    if not model.likelihood.log_concave:
        return with_ease(problem)
    if q.share is not None or model.prior.covariance is None:
        return problem
    with blas_for(model.n):
        z = np.random.default_rng(problem.child(8)).standard_normal((draws, model.n))
        log_w = _log_weights(problem, z)
        w, effective = truncated(log_w)
        if not (size := directions_of(model.n, effective)):
            return problem
        slope, curvature = fit(z[:, ::-1][:, :size].T, log_w, w)
        gamma, U = q.eigh
        D = (U / np.sqrt(gamma))[:, ::-1][:, :size] * -np.sign(slope)  # into the tail
        v = np.minimum(1.0 / (1.0 + curvature), np.sum(D * (model.prior.covariance @ D), axis=0))
        heavy = v >= least
        if not heavy.any():
            return problem
        other = replace(problem, reference=widened(q, D[:, heavy], v[heavy]), _path=None)
        its = truncated(_log_weights(other, z))[1]
    return other if its > worth * effective else problem


def with_ease(problem: Problem) -> Problem:
    """The problem from a wider reference, where the likelihood is not log-concave."""
    if not _ours(problem) or problem.model.likelihood.log_concave:
        return problem
    return replace(problem, reference=eased(problem.reference), _path=None)


def _ours(problem: Problem) -> bool:
    q = problem.reference
    single = isinstance(q, GaussianReference)  # of one predictor
    return problem.free and single and q.name == "ep" and q.converged


def _log_weights(problem: Problem, z: Array) -> Array:
    """Of draws of the reference from standard normal ones along its principal axes."""
    gamma, U = problem.reference.eigh
    return problem.path.tilt(problem.reference.mean + (z * np.sqrt(gamma)) @ U.T)


def eased(q: GaussianReference) -> GaussianReference:
    """q with its sites to a power, around the same mean.

    The variance grows by the factor 1 + 1/√d in each of the d directions of which data speak:
    from q's own density the weights have a relative variance of 15 % for d = 1, 65 % for many.
    """
    (c, nu, tau), (mean, var) = q.sites, q.predictors
    directions = np.sum(np.maximum(tau, 0.0) * var)
    keep = 1.0 / (1.0 + 1.0 / math.sqrt(max(directions, 1.0)))
    gaussian = q.model.prior.with_sites(nu - (1.0 - keep) * tau * mean, keep * tau)
    sites = Sites(keep * c, gaussian.nu, gaussian.tau)
    logz = gaussian.log_normaliser(sites.c)
    return GaussianReference("wide ep", q.model, sites, *gaussian.latent, logz, share=q.share)


def widened(q: GaussianReference, D: Array, v: Array, push: float = 2.5) -> GaussianReference:
    """q with weaker sites, √v times its variance along the columns of D, and pushed along them by
    ``push`` times as much as its standard deviations grow."""
    prior, (c, nu, tau) = q.model.prior, q.sites
    g = np.column_stack([q.gaussian.solve(d) for d in D.T])
    share = g**2 / np.max(g**2, axis=0)
    held = np.sum(tau[:, None] * g**2 * share, axis=0)  # of the precision along g, which is one
    part = np.minimum(1.0, (1.0 - v**-0.5) / held)
    keep = np.prod(1.0 - part * share, axis=1)
    weaker = prior.with_sites(keep * nu, keep * tau)
    variance = np.array([d @ weaker.solve(d) for d in D.T])
    pushed = push * (np.sqrt(variance) - 1.0) / variance / np.sum(share * g**2, axis=0)
    gaussian = prior.with_sites(keep * nu + (share * g) @ pushed, keep * tau, reuse=weaker)
    sites = Sites(keep * c, gaussian.nu, gaussian.tau)
    mean, logz = gaussian.mean, gaussian.log_normaliser(sites.c)
    return GaussianReference("wide ep", q.model, sites, mean, gaussian.variances, logz)
