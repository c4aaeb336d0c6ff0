r"""mGrad: the marginal gradient sampler (Titsias and Papaspiliopoulos 2018).

The target is N(x; m, C) exp f(x). Here the Gaussian is the reference (the prior, or q),
f = β Σ h, and coordinates a are chosen in which C is diag(γ). An auxiliary u ~ N(a, δ/2 I)
turns a first-order expansion of f into a Gaussian proposal that knows C; integrating u out
gives, with g the gradient of f in a, for each coordinate

.. math:: a' \sim N\big(\lambda_1(\tfrac2\delta a + g),\ \lambda_2\big),\quad
          \lambda_1 = \frac{\gamma\delta}{\delta + 2\gamma},\quad
          \lambda_2 = \lambda_1\frac{\delta + 4\gamma}{\delta + 2\gamma},

accepted with log ratio :math:`f' - f + k(a, a', g') - k(a', a, g)`,

.. math:: k(a, a', g') = \big(a - \lambda_1(\tfrac2\delta a' + \tfrac12 g')\big)^T
          \frac{\delta + 2\gamma}{\delta + 4\gamma}\, g'.

No quadratic form of the prior appears. Two N × N products per step serve the whole batch.

δ is the same for all coordinates; which coordinates these are is the choice of the matrix Σ in
eq. (8) of the paper (u ~ N(x, δ/2 Σ)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...numerics import threads as parallel
from ...numerics.copies import copy
from ...numerics.jit import jit, reduction
from ...numerics.normal import standard_normal
from ...paths.base import TemperedPath
from ...paths.coordinates import Frame
from ...paths.gp import THIN, Path, thin_tilt_and_slope
from ..base import Array, Beta, GradientMove, Info, Proposed, Rng, Slope, per_row


class Coefficients(NamedTuple):
    """2λ₁/δ, λ₁, √λ₂ and (δ + 2γ)/(δ + 4γ) for every coordinate."""

    pull: Array
    push: Array
    spread: Array
    weigh: Array


def coefficients(gamma, delta):
    """What the proposal and its density are made of."""
    push = gamma * delta / (delta + 2.0 * gamma)
    weigh = (delta + 2.0 * gamma) / (delta + 4.0 * gamma)
    return Coefficients(2.0 * gamma / (delta + 2.0 * gamma), push, np.sqrt(push / weigh), weigh)


@jit
def _propose(a, slope, beta, pull, push, spread, out):
    """``out`` enters holding standard normals and leaves holding the proposal."""
    for m in range(a.shape[0]):
        for i in range(a.shape[1]):
            mean = pull[i] * a[m, i] + push[i] * beta[m] * slope[m, i]
            out[m, i] = mean + spread[i] * out[m, i]


@reduction
def _log_ratio(a, tilt, slope, a1, tilt1, slope1, beta, pull, push, weigh, out):
    for m in range(a.shape[0]):
        forward, backward = 0.0, 0.0
        b = beta[m]
        for i in range(a.shape[1]):
            g, g1 = b * slope[m, i], b * slope1[m, i]
            forward += (a[m, i] - pull[i] * a1[m, i] - 0.5 * push[i] * g1) * weigh[i] * g1
            backward += (a1[m, i] - pull[i] * a[m, i] - 0.5 * push[i] * g) * weigh[i] * g
        out[m] = b * (tilt1[m] - tilt[m]) + forward - backward


@jit
def _run(
    kernel, theta, c, nu, tau, mean, T, pull, push, spread, weigh, beta, z, u, every,
    a, x, tilt, slope, draws, tilts, acceptance,
):  # fmt: skip
    """As many steps as ``z`` has normals for, recording every so many; returns the failures."""
    rows = a.shape[0]
    x1, tilt1, slope1 = np.empty_like(x), np.empty(rows), np.empty_like(slope)
    log_ratio = np.empty(rows)
    failures = 0
    for k in range(z.shape[0]):
        new = z[k]
        _propose(a, slope, beta, pull, push, spread, new)
        thin_tilt_and_slope(kernel, theta, c, nu, tau, mean, T, new, x1, tilt1, slope1)
        _log_ratio(a, tilt, slope, new, tilt1, slope1, beta, pull, push, weigh, log_ratio)
        for m in range(rows):
            if np.isnan(log_ratio[m]):
                failures += 1
                continue
            probability = np.exp(min(log_ratio[m], 0.0))
            acceptance[m] += probability
            if u[k, m] < probability:
                tilt[m] = tilt1[m]
                copy(new[m], a[m])
                copy(x1[m], x[m])
                copy(slope1[m], slope[m])
        if (k + 1) % every == 0:
            for m in range(rows):
                copy(x[m], draws[m, k // every])
                tilts[m, k // every] = tilt[m]
    return failures


@dataclass
class MGrad(GradientMove):
    """Marginal gradient sampler with the reference as Gaussian base.

    Parameters
    ----------
    step_size : float
        δ in units of the mean variance of the base along its coordinates.
    coordinates : str, optional
        Where u is isotropic (:mod:`evidence.paths.coordinates`). ``"identity"`` is the paper's
        choice and suits a prior, whose wide directions the data constrain; ``"base"`` suits a
        base that already resembles the posterior. Default: ``"base"`` unless the reference is
        the prior. With a prior, ``"base"`` is pCNL.
    target : float or None
        Acceptance probability that drivers tune ``step_size`` towards; None: not tuned.
    name : str
        What results call the move.
    """

    step_size: float = 1.0
    target: float | None = 0.55
    name: str = "mgrad"
    stretches: ClassVar[bool] = True
    """Whether :meth:`run` takes the steps that :meth:`step` takes: a subclass with other steps
    says False."""

    def frame(self, path: TemperedPath) -> Frame:
        own = "identity" if path.reference.name == "prior" and path.matrix else "base"
        return path.coordinates(self.coordinates or own)

    def delta(self, frame: Frame) -> float:
        """δ in the units of the paper."""
        return self.step_size * float(frame.gamma.mean())

    log_ratio = staticmethod(_log_ratio)

    def propose(self, rng: Rng, frame: Frame, beta: Array, state: Slope) -> Proposed:
        pull, push, spread, weigh = coefficients(frame.gamma, self.delta(frame))
        a = standard_normal(rng, state.a.shape)
        _propose(state.a, state.slope, beta, pull, push, spread, a)
        return a, (pull, push, weigh)

    def stretch(self, path: TemperedPath, rows: int) -> int:
        # steps of a few rows in one compiled call
        return 64 if self.stretches and path.compiled and rows <= THIN else 1

    def run(
        self, rng: Rng, path: TemperedPath, beta: Beta, state: Slope, steps: int, every: int
    ) -> tuple[Slope, Array, Array, Info]:
        """Steps of a few rows in one compiled call, two rows to a thread.

        Two rows are what the thin products take at a time: the bits are the same on any number
        of threads.
        """
        frame, (m, n) = self.frame(path), state.a.shape
        a, tilt, slope = (part.copy() for part in state)
        x, kept = self.to_latent(path, a), steps // every
        draws, tilts = np.empty((m, kept, n)), np.empty((m, kept))
        acceptance, failures, beta = np.zeros(m), np.zeros(m, dtype=int), per_row(beta, m)
        z, u = standard_normal(rng, (steps, m, n)), rng.random((steps, m))
        assert isinstance(path, Path)
        known = *path.thin_arguments(frame), *coefficients(frame.gamma, self.delta(frame))

        def share(first: int, stride: int) -> None:
            wide = 2 if stride > 1 else m
            for start in range(wide * first, m, wide * stride):
                own = slice(start, min(start + wide, m))
                failures[start] = _run(
                    *known, beta[own], z[:, own].copy(), u[:, own].copy(), every,
                    a[own], x[own], tilt[own], slope[own], draws[own], tilts[own], acceptance[own],
                )  # fmt: skip

        parallel.run(share, (m + 1) // 2)
        info = Info(acceptance, int(failures.sum()), m * steps)
        return Slope(a, tilt, slope), draws, tilts, info


def pcnl(step_size: float = 0.1) -> MGrad:
    """Preconditioned Crank–Nicolson Langevin: :class:`MGrad` with Σ = C (eq. 2 of the paper).

    >>> pcnl().coordinates
    'base'
    """
    return MGrad(step_size, coordinates="base", name="pcnl")
