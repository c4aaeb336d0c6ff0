r"""A probit GP as every rival sees it: :math:`Z = Z_0 \, E_{z \sim N(0, I)}[\exp h(z)]`.

The latent values are :math:`x = m + A z` with a base Gaussian :math:`N(m, A A^T)`. With the
prior as base :math:`h(z) = \sum_n \log \Phi(y_n x_n)` and :math:`Z_0 = 1`; with EP's Gaussian
its sites :math:`\exp(c_n + \nu_n x_n - \tau_n x_n^2 / 2)` are taken away and :math:`Z_0` is EP's
evidence. The root is :math:`A = U \Gamma^{1/2}`, so that directions which the data know well are
coordinates.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr

_SQRT_2_OVER_PI = np.sqrt(2.0 / np.pi)


@dataclass(frozen=True, eq=False)
class Base:
    """The Gaussian that a rival starts from."""

    name: str
    log_z0: float
    mean: np.ndarray
    gamma: np.ndarray
    U: np.ndarray
    nu: np.ndarray
    tau: np.ndarray
    constant: float
    seconds: float
    """What finding this Gaussian and its root took: part of every run that starts from it."""
    y: np.ndarray

    @property
    def n(self) -> int:
        return self.y.size

    @cached_property
    def root(self) -> np.ndarray:
        """A, whose transpose is contiguous: states are rows."""
        return np.asfortranarray(self.U * np.sqrt(self.gamma))

    @cached_property
    def cov(self) -> np.ndarray:
        return self.root @ self.root.T

    def latent(self, z: np.ndarray) -> np.ndarray:
        return self.mean + z @ self.root.T

    def loglik(self, z: np.ndarray) -> np.ndarray:
        """h, of one state (N,) or of many (M, N)."""
        x = self.latent(z)
        return (log_ndtr(self.y * x) - x * (self.nu - 0.5 * self.tau * x)).sum(-1) - self.constant

    def loglik_and_gradient(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = self.latent(z)
        s = self.y * x
        slope = self.y * _SQRT_2_OVER_PI / erfcx(-s / np.sqrt(2.0)) - self.nu + self.tau * x
        h = (log_ndtr(s) - x * (self.nu - 0.5 * self.tau * x)).sum(-1) - self.constant
        return h, slope @ self.root

    def curvature(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """-h'' along each latent value, and its derivative."""
        s = self.y * self.latent(z)
        r = _SQRT_2_OVER_PI / erfcx(-s / np.sqrt(2.0))  # the slope of log Φ
        bend = r * (r + s)
        slope = self.y * (r - bend * (2.0 * r + s))  # of the bend, along x
        return bend - self.tau, slope


@dataclass(frozen=True, eq=False)
class Problem:
    """One data set: covariance, labels ±1 and both bases."""

    name: str
    K: np.ndarray
    y: np.ndarray
    bases: dict[str, Base]


def load(file: str) -> Problem:
    """What :func:`save` wrote."""
    with np.load(file) as data:
        found = {key: data[key] for key in data.files}
    bases = {}
    for name in ("prior", "ep"):
        own = {k.split("_", 1)[1]: v for k, v in found.items() if k.startswith(name + "_")}
        scalars = {k: float(own.pop(k)) for k in ("log_z0", "constant", "seconds")}
        bases[name] = Base(name=name, y=found["y"], **own, **scalars)
    return Problem(str(found["name"]), found["K"], found["y"], bases)


def save(file: str, name: str, model: Any) -> None:
    """Write a GPModel with its prior and with EP's Gaussian; needs this package."""
    from evidence import fit_ep
    from evidence.approximations.reference import prior_reference

    arrays = {"name": np.array(name), "K": model.K, "y": model.y}
    fit_ep(model)  # compiled
    for base, fit in (("prior", prior_reference), ("ep", fit_ep)):
        started = time.process_time()
        q = fit(model)
        gamma, U = q.eigh
        seconds = time.process_time() - started
        c, nu, tau = q.sites
        fields = dict(
            log_z0=q.logz, mean=q.mean, gamma=gamma, U=U, nu=nu, tau=tau, constant=c.sum(),
            seconds=seconds,
        )  # fmt: skip
        arrays |= {f"{base}_{key}": np.asarray(value) for key, value in fields.items()}
    np.savez(file, **arrays)
