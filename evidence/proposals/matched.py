r"""Draws of a prior, one latent value after the other, that need no compiled integrals.

Given the values before it, :math:`x_k` is drawn from Student's t with the mean and variance of
:math:`p(y_k|x_k)\, p(x_k \mid x_{<k})`, which EP's quadrature knows, and weighed by what the two
differ by. Less even than what :mod:`.guide` draws, and enough to see whether anything is there.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from ..approximations.reference import GaussianReference
from ..execution.clock import check_interrupt
from ..numerics.arrays import Array
from ..numerics.special import LOG_SQRT_2PI


def matched(
    prior: GaussianReference, n: int, rng: np.random.Generator, df: float = 5.0, places: int = 64
) -> tuple[Array, Array]:
    """``n`` draws of a reference without sites, as rows, by t of ``df`` degrees of freedom, and
    their log weights: p(y|x) and the reference's share, relative to what they were drawn from.
    Moments are interpolated between so many ``places``, quantiles of E[x_k | x before].

    Examples
    --------
    >>> import evidence as ev
    >>> from evidence.approximations.reference import prior_reference
    >>> model = ev.GPModel([0.0, 1.0], [0.3, 0.5], "RBF(1.0)", likelihood="gaussian(noise_std=1)")
    >>> log_w = matched(prior_reference(model), 4000, np.random.default_rng(0))[1]
    >>> exact = ev.log_evidence(model, progressbar=False).logz
    >>> bool(abs(np.log(np.exp(log_w).mean()) - exact) < 0.02)
    True
    """
    model = prior.model
    q = prior.gaussian.conditionals(np.arange(model.n))
    eps, values = np.empty((2, model.n, n))
    log_weight = np.zeros(n)
    constant = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi)
    constant += LOG_SQRT_2PI
    for k, row in enumerate(q.order):
        check_interrupt()
        q.means(slice(k, k + 1), eps, values)
        likelihood, y, m, sd = model.likelihood.at([row]), model.y[[row]], values[k], q.sd[k]
        at = np.quantile(m, np.linspace(0.0, 1.0, places))
        _, mean, var = likelihood.tilted(np.repeat(y, places), at, np.full(places, sd * sd))
        wide = np.sqrt(np.interp(m, at, var))
        t = rng.standard_t(df, n)
        x = np.interp(m, at, mean) + wide * t
        log_weight += likelihood.log_prob(x, np.repeat(y, n)) - 0.5 * ((x - m) / sd) ** 2
        log_weight += 0.5 * (df + 1.0) * np.log1p(t * t / df) + np.log(wide / sd) - constant
        eps[k], values[k] = (x - m) / sd, x
    drawn = np.empty_like(values)
    drawn[q.order] = values
    return drawn.T, log_weight + (0.0 if prior.share is None else prior.share.log(drawn.T))
