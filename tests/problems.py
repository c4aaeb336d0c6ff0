"""Small models with known answers, shared by all tests."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
from scipy.special import logsumexp

from evidence import GPModel
from evidence.approximations.reference import GaussianReference
from evidence.paths import families
from evidence.results.base import fingerprint

#: one of each likelihood, with data that pull the latent values about
LIKELIHOODS = {
    "probit": [1.0, -1.0, 1.0],
    "logit": [1.0, 1.0, -1.0],
    "gaussian(noise_std=0.7)": [0.3, -1.2, 2.0],
    "student_t(df=4, scale=0.5)": [0.2, -3.0, 1.5],
    "poisson(exposure=1.5)": [0.0, 3.0, 7.0],
    "negative_binomial(dispersion=2.0)": [0.0, 5.0, 2.0],
}
#: these too, for tests that are quick
EVERY = LIKELIHOODS | {
    "cloglog": [1.0, -1.0, 1.0],
    "gamma(shape=3)": [0.4, 2.5, 1.0],
    "ordinal(gaps=(1, 0.5))": [1.0, 3.0, 0.0],
    "zero_inflated_poisson(zi=0.3)": [0.0, 5.0, 2.0],
    "hurdle_negative_binomial(shape=0.7, hu=0.3)": [0.0, 5.0, 1.0],
    "beta(phi=4)": [0.9, 0.1, 0.5],
    "weibull(shape=2)": [0.4, 2.5, 1.0],
}
MEAN = np.array([0.2, -0.1, 0.4])


def covariance(n: int, scale: float = 2.0, length: float = 1.5) -> np.ndarray:
    t = np.arange(n)
    return scale * np.exp(-0.5 * ((t[:, None] - t) / length) ** 2) + 0.05 * scale * np.eye(n)


def small_model(likelihood: str, n: int = 3) -> GPModel:
    y = np.resize(EVERY[likelihood], n)
    return GPModel(K=covariance(n), y=y, likelihood=likelihood, mean=np.resize(MEAN, n))


_truths: dict[tuple[int, str], float] = {}


def log_z_by_quadrature(model: GPModel, nodes: int = 80) -> float:
    """log Z for N ≤ 3 by Gauss–Hermite rules in the eigenbasis of the prior, once a process."""
    key = nodes, fingerprint(model)
    if key not in _truths:
        _truths[key] = _log_z_by_quadrature(model, nodes)
    return _truths[key]


def _log_z_by_quadrature(model: GPModel, nodes: int) -> float:
    grid, log_w = _rule(nodes, model.n)
    values, vectors = np.linalg.eigh(model.K)
    x = model.mean + (grid * np.sqrt(values)) @ vectors.T
    ell = np.zeros(len(x))
    for n in range(model.n):
        one = np.full(len(x), model.y[n])
        ell += model.likelihood.log_prob(x[:, n], one)
    return float(logsumexp(log_w + ell))


@cache
def _rule(nodes: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Hermite points (M, n), and the logs of their weights."""
    x1, w1 = np.polynomial.hermite_e.hermegauss(nodes)
    x1, log_w1 = x1[w1 > 0], np.log(w1[w1 > 0] / w1.sum())
    grid = np.stack(np.meshgrid(*[x1] * n, indexing="ij"), axis=-1).reshape(-1, n)
    log_w = sum(np.meshgrid(*[log_w1] * n, indexing="ij")).ravel()
    seen = log_w > -60.0  # what is beyond counts 1e-20, and is most of a cube
    return grid[seen], log_w[seen]


def exact_draws(
    rng: np.random.Generator, reference: GaussianReference, beta: float, m: int
) -> np.ndarray:
    """Exact draws from p_β ∝ N(x; m, K) Π t_n^(1-β) Π p(y_n|x_n)^β by rejection.

    The Gaussian part has sites (1-β)(ν, τ).
    """
    model = reference.model
    tau = (1.0 - beta) * reference.sites.tau
    nu = (1.0 - beta) * reference.sites.nu
    key = fingerprint(model), beta, nu.tobytes(), tau.tobytes()
    if key not in _envelopes:
        precision = np.linalg.inv(model.K)
        _envelopes[key] = _Envelope(
            model,
            beta,
            precision + np.diag(tau),
            precision @ model.mean + nu,
            np.sqrt(np.diag(model.K)),
        )
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < m:
        kept.append(_envelopes[key].draw(rng, max(m, 1000)))
    return np.concatenate(kept)[:m]


_envelopes: dict[tuple[str, float, bytes, bytes], _Envelope] = {}


class _Envelope:
    """A mixture above N(x; m, K) Π t_n^(1-β) Π p(y_n|x_n)^β, and draws below it.

    Each factor, over its maximum, is below ``b + exp(-(x-x̂)²/2w²)`` with the smallest such b on
    a grid, and a little more, as every draw checks (b = 1 and no bump where that is no help); the
    product of the factors is a mixture of 2^N Gaussians.
    """

    def __init__(self, model, beta, precision, pull, widths) -> None:
        self.model, self.beta = model, beta
        self.peak = np.array([_largest_log_prob(model, n) for n in range(model.n)])
        self.bumps = [self._bump(n, width) for n, width in enumerate(widths)]
        self.parts = []
        options = [(False, True) if bump[1] else (False,) for bump in self.bumps]
        for chosen in itertools.product(*options):
            A, r, log_weight = precision.copy(), pull.copy(), 0.0
            for n, (use, (mode, w, b)) in enumerate(zip(chosen, self.bumps, strict=True)):
                if use:
                    A[n, n] += 1.0 / w**2
                    r[n] += mode / w**2
                    log_weight -= 0.5 * mode**2 / w**2
                else:
                    log_weight += np.log(b)
            mean = np.linalg.solve(A, r)
            log_weight += 0.5 * r @ mean - 0.5 * np.linalg.slogdet(A)[1]
            self.parts.append((log_weight, mean, np.linalg.cholesky(np.linalg.inv(A))))

    def _relative(self, x, n):
        """(p(y_n|x) / its maximum)^β."""
        ell = self.model.likelihood.log_prob(x, np.full(len(x), self.model.y[n]))
        assert ell.max(initial=-np.inf) <= self.peak[n]
        return np.exp(self.beta * (ell - self.peak[n]))

    def _bump(self, n, width):
        x = np.linspace(-60.0, 60.0, 24_001)
        value = self._relative(x, n)
        mode = x[np.argmax(value)]
        best = (mode, 0.0, 1.0)  # no bump
        cost = 2.5 * width
        for w in width * np.geomspace(0.02, 1.0, 15):
            b = float(np.max(value - np.exp(-0.5 * ((x - mode) / w) ** 2))) + 1e-3
            if 2.5 * (w + b * width) < cost:
                best, cost = (mode, w, b), 2.5 * (w + b * width)
        return best

    def draw(self, rng, m):
        log_w, means, roots = zip(*self.parts, strict=True)
        w = np.exp(np.array(log_w) - max(log_w))
        which = rng.choice(len(w), m, p=w / w.sum())
        x = rng.standard_normal((m, self.model.n))
        for k, (mean, root) in enumerate(zip(means, roots, strict=True)):
            x[which == k] = mean + x[which == k] @ root.T
        for n, (mode, w, b) in enumerate(self.bumps):
            bound = b + (np.exp(-0.5 * ((x[:, n] - mode) / w) ** 2) if w else 0.0)
            value = self._relative(x[:, n], n)
            assert (value <= bound).all()
            x = x[rng.random(len(x)) * bound < value]
        return x


def _largest_log_prob(model: GPModel, n: int) -> float:
    top, reach = 0.0, 60.0
    for _ in range(2):  # coarsely, and about the largest of those
        x = np.linspace(top - reach, top + reach, 12_001)
        value = model.likelihood.log_prob(x, np.full(x.size, model.y[n]))
        top, reach = x[np.argmax(value)], x[1] - x[0]
    return float(value.max()) + 1e-6


def replace_fit(monkeypatch, name, fit) -> None:
    """Let GPModel's reference ``name`` be fitted by ``fit``."""
    kinds = families._FAMILIES
    entry = kinds[GPModel]
    monkeypatch.setitem(kinds, GPModel, entry._replace(fits={**entry.fits, name: fit}))
