r"""Gibbs sampling of the probit model's latent utilities (Albert and Chib 1993).

With y_n = sign z_n and z_n ~ N(x_n, 1) the probit likelihood disappears, and with x integrated
out z is N(m, K + I) restricted to an orthant (Holmes and Held 2006). One step is

1. z | x, y: independent truncated normals;
2. ``sweeps`` sweeps over the coordinates of z: with P = (K + I)⁻¹

   .. math:: z_n \mid z_{-n} \sim N\big(z_n - [P(z - m)]_n / P_{nn},\ 1 / P_{nn}\big),
             \quad y_n z_n > 0;

3. x | z by Matheron's rule: with f ~ N(0, K), ε ~ N(0, I) and r = z - m - f - ε,

   .. math:: x = m + f + K P r = m + f + r - P r .

The state has passed through the augmented model at β = 1, and there is no such model in
between: of the temperatures only 1, and 0 where q is drawn from directly, are possible.

References: J. H. Albert and S. Chib, J. Am. Stat. Assoc. 88 (1993) 669; C. C. Holmes and
L. Held, Bayesian Anal. 1 (2006) 145; P. Damien and S. G. Walker (2001), see
:mod:`evidence.numerics.truncated` (slices).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from ...execution.arguments import check_choice, check_count, shown
from ...messages import InputError
from ...models import likelihoods
from ...models.gp import GPModel
from ...models.latent import LatentModel
from ...numerics.jit import jit
from ...numerics.truncated import slice_step, upper_tails
from ...paths.base import TemperedPath
from ..base import Array, Beta, Info, Latent, LatentMove, Rng, kept, per_row

_BLOCK = 32  # coordinates between two matrix products
_UNIFORMS = {"exact": 1, "slice": 2}  # update -> uniforms that a coordinate takes


class LatentGivenUtilities(NamedTuple):
    """x | z of a model with a dense prior."""

    mean: Array
    prior: Array  # lower factor of K
    joint: Array  # of K + I

    def draw(self, z: Array, rng: Rng) -> Array:
        """Rows of x given the columns of z, step 3."""
        f, noise = rng.standard_normal((2, *z.T.shape))
        f = dtrmm(1.0, self.prior, f.T, lower=1).T
        rest = z.T - self.mean - f - noise
        rest -= dpotrs(self.joint, rest.T, lower=1)[0].T
        return self.mean + f + rest


class Factors(NamedTuple):
    """What a model's sweeps need; all but ``latent`` for the oriented variables r = y (z - m)."""

    precision: Array  # y P y
    sd: Array  # P_nn^(-1/2)
    lower: Array  # -y m: r exceeds it
    latent: LatentGivenUtilities


@kept
def factors(model: GPModel) -> Factors:
    """Factors of ``model``, O(N³) when first asked for: they do not depend on the reference."""
    latent = latent_given_utilities(model)
    precision, _ = dpotri(latent.joint, lower=1)
    precision = np.tril(precision) + np.tril(precision, -1).T
    precision *= np.outer(model.y, model.y)
    sd = 1.0 / np.sqrt(np.diag(precision))
    return Factors(np.ascontiguousarray(precision), sd, -model.y * model.mean, latent)


def latent_given_utilities(model: LatentModel) -> LatentGivenUtilities:
    """What draws of x | z need, O(N³)."""
    K, chol = model.prior.covariance, model.prior.chol
    assert K is not None
    assert chol is not None
    joint = K.T.copy(order="F")
    joint.flat[:: model.n + 1] += 1.0
    joint, _ = dpotrf(joint, lower=1, clean=0, overwrite_a=1)
    return LatentGivenUtilities(model.mean, chol, joint)


@jit
def _augment(x, y, lower, u, r):
    """``r`` (N, M) for z_n ~ N(x_n, 1) given y_n z_n > 0."""
    bound, mass, z = np.empty_like(r[0]), np.empty_like(r[0]), np.empty_like(r[0])
    for n in range(y.size):
        row = r[n]
        for m in range(row.size):
            bound[m] = -y[n] * x[m, n]
        upper_tails(bound, u[n], mass, z)
        for m in range(row.size):
            row[m] = z[m] - bound[m] + lower[n]


@jit
def _sweep_block(pull, precision, sd, lower, u, r):
    """Update a block of coordinates ``r``; ``pull`` enters as the block's rows of P r.

    ``u`` holds one uniform per coordinate and row for an exact draw, two for a slice.
    """
    bound, old, new = np.empty_like(r[0]), np.empty_like(r[0]), np.empty_like(r[0])
    for n in range(sd.size):
        s, row, change = sd[n], r[n], pull[n]
        for m in range(row.size):
            old[m] = change[m] * s  # standardised by its conditional moments
            bound[m] = (lower[n] - row[m]) / s + old[m]
        if u.shape[2] == 1:
            upper_tails(bound, u[n, :, 0], change, new)
        else:
            for m in range(row.size):
                new[m] = slice_step(old[m], bound[m], 1.0 - u[n, m, 0], u[n, m, 1])
        for m in range(row.size):
            value = max(row[m] + s * (new[m] - old[m]), lower[n])
            change[m] = value - row[m]
            row[m] = value
        for k in range(n + 1, sd.size):
            onto, weight = pull[k], precision[k, n]
            for m in range(row.size):
                onto[m] += weight * change[m]


def sweep(precision: Array, sd: Array, lower: Array, u: Array, r: Array) -> None:
    """Update all coordinates ``r`` (N, M) in turn, with uniforms as for a block."""
    for start in range(0, len(r), _BLOCK):
        b = slice(start, start + _BLOCK)
        pull = precision[b] @ r
        _sweep_block(pull, precision[b, b].copy(), sd[b], lower[b], u[b], r[b])


@dataclass
class ProbitGibbs(LatentMove):
    """Gibbs sampler of the augmented probit model, for β = 1 (and β = 0, an exact draw).

    Parameters
    ----------
    sweeps : int
        Sweeps over z in a step. x is refreshed once, at their end.
    update : str
        ``"exact"`` draws every coordinate from its conditional; ``"slice"`` makes one
        transition from where it is, which needs no special function but mixes less.
    name : str
        What results call the move.
    """

    step_size: float = field(default=1.0, init=False, repr=False)
    target: float | None = field(default=None, init=False, repr=False)
    name: str = "gibbs"
    sweeps: int = 1
    update: str = "exact"

    def __post_init__(self) -> None:
        check_count("sweeps", self.sweeps, optional=False)
        check_choice("update", self.update, _UNIFORMS)

    def prepare(self, path: TemperedPath) -> None:
        _require_probit(path.model)
        super().prepare(path)
        factors(path.model)

    def init(self, path: TemperedPath, x: Array) -> Latent:
        """Cache the tilt of the batch ``x``."""
        _require_probit(path.model)
        return super().init(path, x)

    def step(self, rng: Rng, path: TemperedPath, beta: Beta, state: Latent) -> tuple[Latent, Info]:
        m = len(state.x)
        beta = per_row(beta, m)
        cold, warm = np.flatnonzero(beta == 0.0), np.flatnonzero(beta == 1.0)
        if cold.size + warm.size < m:
            other = beta[(beta != 0.0) & (beta != 1.0)][0]
            raise InputError(
                f"the move 'gibbs' exists at β = 0 and β = 1 only, got beta = {other:g}: the "
                "augmented probit model has no tempered form; use 'elliptical' or 'mgrad' there"
            )
        x = np.empty(state.x.shape)
        if cold.size:
            x[cold] = path.mean + self.draw(rng, path, cold.size)
        if warm.size:
            x[warm] = self._cycle(rng, path.model, state.x[warm])
        return Latent(x, path.tilt(x)), Info(np.ones(m), 0, self.sweeps * m)

    def _cycle(self, rng: Rng, model: GPModel, x: Array) -> Array:
        """x to z, sweeps over z, and back; rows of z are coordinates, so that BLAS and the
        inner loops run along the batch."""
        precision, sd, lower, latent = factors(model)
        shape = (model.n, len(x))
        r = np.empty(shape)
        _augment(x, model.y, lower, rng.random(shape), r)
        for _ in range(self.sweeps):
            u = rng.random((*shape, _UNIFORMS[self.update]))
            sweep(precision, sd, lower, u, r)
        z = model.mean[:, None] + model.y[:, None] * r
        return latent.draw(z, rng)


def _require_probit(model: object) -> None:
    probit = isinstance(getattr(model, "likelihood", None), likelihoods.Probit)
    if not probit or getattr(getattr(model, "prior", None), "covariance", None) is None:
        raise InputError(
            "the move 'gibbs' needs a GPModel with likelihood 'probit' and its covariance as a "
            f"matrix, got {shown(model)}; use 'mgrad' or 'elliptical'"
        )
