r"""The evidence of standardised effects, given their variances: mean and noise in closed form.

Where all effects have covariances in units of the noise, :math:`y \sim N(\mu, \sigma^2 V_g)` with
:math:`V_g = I + \sum_t g_t Z_t Z_t^T`, and a flat mean with Jeffreys' :math:`1/\sigma^2` leave

.. math:: Z(g) = \frac{\Gamma(\nu/2)}{(\pi S)^{\nu/2}}\,|V_g|^{-1/2}\,(1^T V_g^{-1} 1)^{-1/2},
          \qquad \nu = N - 1,

with S the weighted sum of squares about the weighted mean (of a known mean :math:`\nu = N`, and
no last factor), and :math:`\sigma^2 | g, y \sim \mathrm{InvGamma}(\nu/2, S/2)`. Both determinants
and S are those of a Gaussian mixed model whose mean has a very wide prior (:mod:`.grouped`).
"""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import gammaln

from ..messages import InputError
from ..models.density.model import DensityModel
from ..models.formulas.jzs import Ratios
from ..models.sparse import SparseModel
from ..numerics.arrays import Array
from .grouped import grouped_evidence
from .parts import parts_of


class StandardisedEvidence:
    """log Z for rows of ratios :math:`\\sqrt{g}`, which are the standard deviations of effects in
    units of the noise."""

    def __init__(self, model: SparseModel, priors: Ratios) -> None:
        parts = parts_of(model, priors)
        grouped = None if parts is None else grouped_evidence(model, parts)
        if grouped is None:
            raise InputError(
                "formula: with priors='jzs' its groups cross each other in too many ways for a "
                "closed form; use priors='scaled'"
            )
        self.grouped, self.n = grouped, len(priors) - 1
        self.scale = model.likelihood.value_of("noise_std")
        flat = priors.width > 0.0
        self.nu = float(model.y.size - flat)
        self.constant = gammaln(0.5 * self.nu) + 0.5 * self.nu * np.log(2.0)
        self.constant += np.log(priors.width) + 0.5 * np.log(2.0 * np.pi) if flat else 0.0

    def parted(self, ratios: Array) -> tuple[Array, Array]:
        """log Z, and S."""
        free = np.column_stack([ratios[:, : self.n], np.ones(len(ratios))]) * self.scale
        log_z, squares = self.grouped.parted(free)
        with np.errstate(all="ignore"):
            out = log_z + 0.5 * squares - 0.5 * self.nu * np.log(squares) + self.constant
        return out, squares * self.scale**2

    def __call__(self, ratios: Array) -> Array:
        return self.parted(ratios)[0]

    def drawn(self, ratios: Array) -> Array:
        """Standard deviations of effects, and of the noise, drawn given the ratios."""
        S = self.parted(ratios)[1]
        chi2 = np.random.default_rng(0).chisquare(self.nu, len(ratios))
        sigma = np.sqrt(S / chi2)[:, None]
        return np.hstack([ratios[:, : self.n] * sigma, sigma])

    def check_scatter(self, *, rise: float = 3.0) -> None:
        """No evidence where effects leave the data without scatter.

        ``rise``: nats from one ratio to the other that say no scatter is left.
        """
        ratios = (1e6, 1e9)  # ratios, and nats from one to the other that say no scatter is left
        for large in [*np.eye(self.n), np.ones(self.n)]:
            low, high = self(np.where(large, np.array(ratios)[:, None], 1.0))
            if not np.isfinite(high) or high > low + rise:
                raise InputError(
                    "y: the effects leave it without any scatter, and the evidence is infinite; "
                    "drop some of them"
                )


def standardised_density(model: SparseModel, priors: Ratios) -> DensityModel:
    """The density over ratios; of a model without any, over what does not matter."""
    evidence = StandardisedEvidence(model, priors)
    evidence.check_scatter()
    prior = priors.natural() or [stats.norm()]
    names = priors.names[:-1] or ("nothing",)
    return DensityModel(evidence, prior=prior, names=names, vectorized=True)
