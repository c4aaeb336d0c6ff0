"""Small fields whose posteriors are known, and dense densities written down a second time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_expit, logsumexp
from scipy.stats import multivariate_normal

from evidence.hyper.fields import GPField
from evidence.hyper.states import Joint
from evidence.models.gp import GPModel
from evidence.models.priors import Priors

X = np.array([[0.0], [0.7], [2.0]])


class LogNormal:
    """scipy.stats.lognorm(s, scale=exp(mu)), as a frozen distribution but quick."""

    args, kwds = (), {}

    def __init__(self, mu=0.0, s=0.5):
        self.mu, self.s = mu, s

    def logpdf(self, value):
        log_value = np.log(value)
        z = (log_value - self.mu) / self.s
        return -0.5 * z * z - np.log(self.s * np.sqrt(2.0 * np.pi)) - log_value

    def rvs(self, size, random_state):
        return np.exp(self.mu + self.s * random_state.standard_normal(size))

    def support(self):
        return 0.0, np.inf


REGRESSION_PRIORS = {
    "constant_value": LogNormal(0.2, 0.6),
    "length_scale": LogNormal(0.0, 0.5),
    "noise_std": LogNormal(-0.7, 0.4),
}


def regression(y=(1.1, 0.2, -0.9)):
    """Three points, variance, length scale and noise all unknown."""
    lik = "gaussian(noise_std=0.5)"
    model = GPModel(X, list(y), "1.2 * RBF(1.0)", likelihood=lik, mean=[0.1, 0.2, -0.3])
    return model, Priors.of(model.hyperparameters, REGRESSION_PRIORS)


def classification():
    """Three points, variance and length scale unknown."""
    model = GPModel(X, [1, 1, -1], "2.0 * RBF(1.0)", likelihood="logit", mean=0.2)
    priors = {"constant_value": LogNormal(1.0, 0.6), "length_scale": LogNormal(0.0, 0.5)}
    return model, Priors.of(model.hyperparameters, priors)


@dataclass(eq=False)
class Names:
    names: tuple[str, ...]
    theta: np.ndarray

    @property
    def lows(self):
        return np.full(len(self.names), np.nan)

    def every(self, name):
        return [self.names.index(name)]


class Softmax:
    """Two classes on two inputs, each class with a variance of its own."""

    inputs = np.array([0.0, 1.0])
    labels = np.array([0, 1])

    def __init__(self):
        self.n = 2
        self.mean = np.zeros((2, 2))
        self.groups = (np.array([0]), np.array([1]))
        self.hyperparameters = Names(("variance0", "variance1"), np.log([2.0, 1.0]))
        self.correlation = np.exp(-0.5 * (self.inputs[:, None] - self.inputs) ** 2)

    def covariance(self, block, theta):
        return np.exp(theta[block]) * self.correlation

    def loglik(self, x, theta):
        chosen = x[self.labels, np.arange(2)]
        total = logsumexp(x, axis=0)
        gradient = -np.exp(x - total)
        gradient[self.labels, np.arange(2)] += 1.0
        return float(np.sum(chosen - total)), gradient


def softmax():
    field = Softmax()
    priors = {"variance0": LogNormal(0.7, 0.7), "variance1": LogNormal(0.0, 0.7)}
    return field, Priors.of(field.hyperparameters, priors)


def target_of(model, priors):
    return Joint.of(GPField(model) if isinstance(model, GPModel) else model, priors)


# -- the joint density, once more --------------------------------------------------------------


def log_joint(target, x, theta):
    """log p(y | x, θ) + log p(x | θ) + log p(θ)."""
    field = target.field
    value = field.loglik(x, theta)[0] + target.log_prior(theta)
    for block, mean in enumerate(field.mean):
        value += normal(x[block], mean, field.covariance(block, theta))
    return value


def normal(x, mean, cov):
    return multivariate_normal(mean, cov).logpdf(x)


# -- posteriors by quadrature ------------------------------------------------------------------


def prior_draw(priors, rng):
    """One θ from the priors."""
    return np.log([d.rvs(size=1, random_state=rng)[0] for d in priors.distributions])


def _grid(priors, points, reach=5.0):
    """Nodes over all logs (G, P) and the log of weight times prior."""
    axes = [d.mu + d.s * np.linspace(-reach, reach, points) for d in priors.distributions]
    theta = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    return theta, priors.log_density(theta)


def _moments(theta, log_weight, extra):
    weight = np.exp(log_weight - logsumexp(log_weight))
    columns = np.concatenate([theta, theta**2, extra], axis=1)
    return weight @ columns


def regression_moments(model, priors, points=33):
    """E θ, E θ², E x, E x² of the three-parameter regression, in closed form on a grid."""
    theta, log_weight = _grid(priors, points)
    squared = (X - X.T) ** 2
    v, l, s = (np.exp(theta[:, p])[:, None, None] for p in range(3))
    K = v * (np.exp(-0.5 * squared / l**2) + model.relative_jitter * np.eye(3))
    S = K + s**2 * np.eye(3)
    r = model.y - model.mean
    solved = np.linalg.solve(S, np.broadcast_to(r, (len(S), 3))[..., None])[..., 0]
    log_weight = log_weight - 0.5 * (solved @ r) - 0.5 * np.linalg.slogdet(S)[1]
    mean = model.mean + np.einsum("gij,gj->gi", K, solved)
    var = np.einsum("gii->gi", K - K @ np.linalg.solve(S, K))
    return _moments(theta, log_weight, np.concatenate([mean, var + mean**2], axis=1))


def _hermite(dimension, points):
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    weights = weights / weights.sum()
    grid = np.stack(np.meshgrid(*[nodes] * dimension, indexing="ij"), -1).reshape(-1, dimension)
    products = np.stack(np.meshgrid(*[weights] * dimension, indexing="ij"), -1)
    return grid, products.reshape(-1, dimension).prod(axis=1)


def classification_moments(model, priors, points=21, nodes=14):
    """E θ, E θ², E x, E x² of the classifier: Gauss-Hermite over x on a grid over θ."""
    theta, log_prior = _grid(priors, points)
    grid, weights = _hermite(3, nodes)
    log_z, rows = [], []
    for point in theta:
        x = model.mean + grid @ np.linalg.cholesky(model.at(point).K).T
        mass = weights * np.exp(log_expit(model.y * x).sum(axis=1))
        log_z.append(np.log(mass.sum()))
        rows.append(mass / mass.sum() @ np.concatenate([x, x**2], axis=1))
    return _moments(theta, log_prior + np.array(log_z), np.array(rows))


def softmax_moments(field, priors, points=31, nodes=24):
    """E θ, E θ², E d, E d² with d = x₀ - x₁, all that two classes let one see of x."""
    theta, log_prior = _grid(priors, points)
    grid, weights = _hermite(2, nodes)
    root = np.linalg.cholesky(field.correlation)
    log_z, rows = [], []
    sign = 1.0 - 2.0 * field.labels
    for point in theta:
        d = np.sqrt(np.exp(point).sum()) * grid @ root.T
        mass = weights * np.exp(log_expit(sign * d).sum(axis=1))
        log_z.append(np.log(mass.sum()))
        rows.append(mass / mass.sum() @ np.concatenate([d, d**2], axis=1))
    return _moments(theta, log_prior + np.array(log_z), np.array(rows))
