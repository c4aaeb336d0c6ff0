"""The model in its own coordinates: every derivative by differences, the same Z in all of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from models.density.cases import CASES, PRIOR, A, given, limited, logistic
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaln, expit, log_expit

import evidence as ev
from evidence.approximations.density.reference import density_prior_reference
from evidence.models.density.checking import central
from evidence.paths.density import DensityPath

RNG = np.random.default_rng(5)


def points(case, m=4):
    return case.model.unconstrain(case.draws(np.random.default_rng(3), m))


def directions(x):
    rng = np.random.default_rng(4)
    w, W = rng.standard_normal(x.shape), rng.standard_normal((*x.shape, x.shape[1]))
    return w, W + np.swapaxes(W, 1, 2)


def inner(W, matrix):
    return lambda x: np.einsum("mij,mij->m", W, matrix(x))


def outer(w):
    return w[:, :, None] * w[:, None, :]


def close(found, wanted, tolerance=1e-7):
    np.testing.assert_allclose(found, wanted, atol=tolerance * max(1.0, np.abs(wanted).max()))


#: finite differences inside Quantiles limit what can be asked of independent priors
TOLERANCE = {"independent": 1e-4}


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    case = CASES[name]()
    model, x, tolerance = case.model, points(case), TOLERANCE.get(name, 1e-7)
    w, W = directions(x)
    value, slope = model.log_prob_and_gradient(x)
    np.testing.assert_allclose(value, model.log_prob(x), rtol=1e-12)
    close(slope, central(model.log_prob, x))
    close(model.hessian(x), central(lambda t: model.log_prob_and_gradient(t)[1], x), tolerance)
    close(model.hessian_slope(x, W), central(inner(W, model.hessian), x), tolerance)
    close(model.hessian_along(x, w), central(inner(outer(w), model.hessian), x), tolerance)
    close(model.curvature(x), -model.hessian(x))
    close(model.curvature_slope(x, W), -model.hessian_slope(x, W))
    close(model.curvature_along(x, w), -model.hessian_along(x, w))


@pytest.mark.parametrize("name", CASES)
def test_the_change_of_variables_is_in_the_density(name):
    """log density of x minus that of θ is log |∂θ/∂x|, by differences."""
    case = CASES[name]()
    model, x = case.model, points(case)
    J = central(model.constrain, x)
    extra = np.linalg.slogdet(J)[1]
    if name == "logistic":
        extra = PRIOR.log_prob(x)
    if name == "independent":
        theta = model.constrain(x)
        prior = stats.gamma(2.0).logpdf(theta[:, 0]) + stats.norm(1.0, 2.0).logpdf(theta[:, 1])
        extra = extra + prior
    np.testing.assert_allclose(
        model.log_prob(x), model.functions.logdensity(model.constrain(x)) + extra, atol=1e-8
    )


def information(theta):
    """A metric of one's own for three parameters, neither diagonal nor constant."""
    a, b, c = theta.T
    G = np.zeros((len(theta), 3, 3))
    G[:, 0, 0], G[:, 1, 1], G[:, 2, 2] = 2.0 + a * a, 1.0 + b * b * c, 2.0 + np.cos(a)
    G[:, 0, 1] = G[:, 1, 0] = 0.3 * np.sin(c)
    return G


def information_slope(theta, W):
    a, b, c = theta.T
    da = 2.0 * a * W[:, 0, 0] - np.sin(a) * W[:, 2, 2]
    db = 2.0 * b * c * W[:, 1, 1]
    dc = b * b * W[:, 1, 1] + 0.3 * np.cos(c) * (W[:, 0, 1] + W[:, 1, 0])
    return np.column_stack([da, db, dc])


@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize("kind", ["bounds", "none", "gaussian", "independent"])
def test_metric_of_ones_own(kind, along):
    """It changes as a tensor; a prior adds its precision."""
    words = {
        "bounds": {},
        "none": {"bounds": None},
        "gaussian": {"bounds": None, "prior": ev.GaussianPrior([1.0, 0.5, 0.5], 0.04)},
        "independent": {"bounds": None, "prior": [stats.gamma(3), stats.norm(), stats.beta(2, 3)]},
    }[kind]
    more = (lambda t, w: information_slope(t, outer(w)),) if along else ()
    metric = ev.Fisher(information, information_slope, *more)
    model = limited(metric=metric, **words).model
    assert model.tensorial
    x = model.unconstrain(np.array([[1.2, 0.3, 0.4], [0.4, -2.0, 0.7]]))
    w, W = directions(x)
    J = central(model.constrain, x)
    prior = 0.0 if model.prior is None else model.prior.precision
    F = np.swapaxes(J, 1, 2) @ information(model.constrain(x)) @ J + prior
    close(model.curvature(x), F, 1e-7)
    close(model.curvature_slope(x, W), central(inner(W, model.curvature), x), 1e-5)
    close(model.curvature_along(x, w), central(inner(outer(w), model.curvature), x), 1e-5)


@pytest.mark.parametrize("tails", [0.0, 0.3])
@pytest.mark.parametrize("name", ["banana", "limited", "independent", "limited, own metric"])
def test_path_derivatives(name, tails):
    """The tilt, the target and the curvature in latent coordinates, by differences."""
    name, _, own = name.partition(", ")
    case = CASES[name](**({"metric": ev.Fisher(information, information_slope)} if own else {}))
    path = DensityPath(given(case, tails))
    y, tolerance = path.latent(case.draws(np.random.default_rng(6), 4)), TOLERANCE.get(name, 2e-6)
    w, W = directions(y)
    q = path.reference
    tilt, slope = path.tilt_and_gradient(y)
    np.testing.assert_allclose(tilt, path.tilt(y), atol=1e-9)
    close(slope, central(path.tilt, y))
    value, force = path.target_and_gradient(y)
    close(force, central(lambda t: path.target_and_gradient(t)[0], y))
    base = stats.multivariate_normal(q.mean, q.cov).logpdf(y)
    np.testing.assert_allclose(tilt, value - base - q.logz, atol=1e-9)
    if not path.model.tensorial:
        wanted = -central(lambda t: path.target_and_gradient(t)[1], y)
        close(path.curvature(y), wanted, tolerance)
    else:
        J = central(q.to_model, y)
        wanted = np.swapaxes(J, 1, 2) @ path.model.curvature(q.to_model(y)) @ J
        close(path.curvature(y), wanted, tolerance)
    close(path.curvature_slope(y, W), central(inner(W, path.curvature), y), tolerance)
    close(path.curvature_along(y, w), central(inner(outer(w), path.curvature), y), tolerance)


@pytest.mark.parametrize("tails", [0.0, 0.3])
def test_latent_coordinates_there_and_back(tails):
    case = limited()
    path = DensityPath(given(case, tails))
    theta = case.draws(np.random.default_rng(7), 12).reshape(3, 4, 3)
    y = path.latent(theta)
    assert y.shape == theta.shape
    np.testing.assert_allclose(path.parameters(y), theta, rtol=1e-9)
    np.testing.assert_allclose(path.latent(path.parameters(y)), y, atol=1e-8)


def test_the_base_is_the_reference_whatever_its_tails():
    """∫ exp(log Z_q + log q + h) dy = Z on a grid, in latent coordinates."""
    case = CASES["banana"]()
    for tails in (0.0, 0.3):
        path = DensityPath(given(case, tails))
        t = np.linspace(-16.0, 16.0, 401)
        z = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
        y = path.mean + z @ path.reference.root.T
        log_p = path.log_z0 + path.reference.log_base(z) + path.tilt(y)
        root = np.sqrt(np.linalg.det(path.reference.cov))
        Z = np.exp(log_p).sum() * (t[1] - t[0]) ** 2 * root
        assert np.log(Z) == pytest.approx(case.logz, abs=1e-6)


ONE = {
    "gamma": (lambda t: 2.5 * np.log(t[:, 0]) - 1.3 * t[:, 0], (0.0, None)),
    "beta": (lambda t: 7.0 * np.log(t[:, 0]) + 3.0 * np.log1p(-t[:, 0]), (0.0, 1.0)),
    "above": (lambda t: t[:, 0] - 0.1 * t[:, 0] ** 2, (None, 0.5)),
    "between": (lambda t: np.cos(3.0 * t[:, 0]) - t[:, 0] ** 2, (-2.0, 1.0)),
    "free": (lambda t: -(t[:, 0] ** 4), (None, None)),
}


@pytest.mark.parametrize("name", ONE)
def test_bounds_leave_Z_as_it_is(name):
    f, (low, high) = ONE[name]
    model = ev.DensityModel(f, 1, bounds=[(low, high)], vectorized=True)
    ends = (-np.inf if low is None else low, np.inf if high is None else high)
    wanted = quad(lambda t: np.exp(f(np.array([[t]]))[0]), *ends)[0]
    found = quad(lambda x: np.exp(model.log_prob(np.array([[x]]))[0]), -60.0, 60.0, limit=500)[0]
    assert found == pytest.approx(wanted, rel=1e-7)
    if name == "beta":
        assert np.log(found) == pytest.approx(betaln(8.0, 4.0), abs=1e-7)


@pytest.mark.parametrize(
    "prior", [stats.uniform(), stats.beta(2.0, 3.0), stats.gamma(2.0), stats.t(3.0)]
)
def test_priors_leave_Z_as_it_is(prior):
    def f(t):
        return -3.0 * (t[:, 0] - 0.4) ** 2

    model = ev.DensityModel(f, 1, prior=prior, vectorized=True)
    wanted = quad(
        lambda t: np.exp(f(np.array([[t]]))[0]) * prior.pdf(t), *prior.support(), limit=200
    )[0]
    found = quad(lambda x: np.exp(model.log_prob(np.array([[x]]))[0]), -12.0, 12.0, limit=200)[0]
    assert found == pytest.approx(wanted, rel=1e-7)


def test_vectorized_or_not_is_the_same():
    """Functions of one point, of batches, and value_and_grad: the same model."""

    def value(x):
        return log_expit(A @ x).sum()

    def grad(x):
        return expit(-A @ x) @ A

    def hessian(x):
        s = expit(A @ x)
        return -(A.T * (s * (1.0 - s))) @ A

    def third(x, W):
        s = expit(A @ x)
        return -(s * (1.0 - s) * (1.0 - 2.0 * s) * np.einsum("ni,nj,ij->n", A, A, W)) @ A

    def tensor(x):
        s = expit(A @ x)
        third = s * (1.0 - s) * (1.0 - 2.0 * s)
        return -np.einsum("n,ni,nj,nk->ijk", third, A, A, A)

    batch = logistic().model
    one = ev.DensityModel(value, 2, grad=grad, hessian=hessian, third=third, prior=PRIOR)
    both = ev.DensityModel(value, 2, value_and_grad=lambda x: (value(x), grad(x)), prior=PRIOR)
    x = RNG.standard_normal((5, 2))
    w, W = directions(x)
    for model in (one, both):
        np.testing.assert_allclose(model.log_prob(x), batch.log_prob(x), rtol=1e-13)
        for a, b in zip(
            model.log_prob_and_gradient(x), batch.log_prob_and_gradient(x), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(one.hessian(x), batch.hessian(x), rtol=1e-12)
    np.testing.assert_allclose(one.hessian_slope(x, W), batch.hessian_slope(x, W), atol=1e-12)
    np.testing.assert_allclose(one.hessian_along(x, w), batch.hessian_along(x, w), atol=1e-12)
    whole = ev.DensityModel(value, 2, grad=grad, hessian=hessian, tensor=tensor, prior=PRIOR)
    assert whole.has_metric
    np.testing.assert_allclose(whole.hessian_slope(x, W), one.hessian_slope(x, W), atol=1e-12)
    np.testing.assert_allclose(whole.hessian_along(x, w), one.hessian_along(x, w), atol=1e-12)
    column = ev.DensityModel(lambda x: np.array([value(x)]), 2, prior=PRIOR)
    np.testing.assert_allclose(column.log_prob(x), batch.log_prob(x), rtol=1e-13)


@pytest.mark.parametrize("order", ["C", "F", "view"])
def test_a_hessian_may_come_in_any_layout(order):
    """A transposed or broadcast view is a Hessian like any other."""
    case = limited()
    plain = case.model.functions.hessian

    def hessian(t):
        H = plain(t)
        if order == "F":
            return np.asfortranarray(H)
        return np.moveaxis(np.moveaxis(H, 0, 1).copy(), 1, 0) if order == "view" else H

    model = limited().model
    words = model.functions._asdict() | {"hessian": hessian}
    other = ev.DensityModel(dim=3, **words, vectorized=True, bounds=[(0, None), (None, 2), (0, 1)])
    x = points(case)
    np.testing.assert_allclose(other.hessian(x), model.hessian(x), rtol=1e-14)


def test_far_out_is_a_value_not_a_warning():
    """Overflow, log 0 and NaN are -inf; no warning, no error."""

    def f(t):
        return np.log(t[:, 0]) - np.exp(t[:, 0]) + 0.0 * np.log(t[:, 1])

    model = ev.DensityModel(f, 2, vectorized=True)
    found = model.log_prob(np.array([[1.0, 1.0], [-1.0, 1.0], [1e9, 1.0], [1.0, -3.0]]))
    assert np.isfinite(found[0])
    np.testing.assert_array_equal(found[1:], -np.inf)
    case = limited()
    path = DensityPath(given(case, 0.3))
    far = np.full((2, 3), 1e3) * np.array([[1.0], [-1.0]])
    assert not (path.tilt(far) > 0.0).any()
    _, slope = path.tilt_and_gradient(far)
    assert np.isfinite(slope).all()


def test_coordinates_of_many_shapes():
    model = limited().model
    theta = limited().draws(np.random.default_rng(8), 6)
    for shape in ((3,), (6, 3), (2, 3, 3)):
        one = theta.ravel()[: np.prod(shape)].reshape(shape)
        x = model.unconstrain(one)
        assert x.shape == shape
        np.testing.assert_allclose(model.constrain(x), one, rtol=1e-12)


def test_what_a_model_says_of_itself():
    case = limited(names=["rate", "shift", "share"])
    assert case.model.names == ("rate", "shift", "share")
    assert case.model.describe()["bounds"] == "yes"
    assert "dim=3" in repr(case.model)
    named = ev.DensityModel(
        lambda t: 0.0 * t.sum(), 2, prior={"a": stats.norm(), "b": stats.gamma(2.0)}
    )
    assert named.names == ("a", "b")
    assert named.describe()["prior"] == "independent"
    assert logistic().model.describe()["prior"] == "Gaussian"
    assert logistic().model.names == ("x[0]", "x[1]")


def test_identity_tells_models_apart():
    def identity(**words):
        return np.concatenate([np.ravel(a) for a in limited(**words).model.identity()])

    np.testing.assert_array_equal(identity(), identity())
    other = identity(bounds=[(0.0, None), (None, 2.0), (0.0, 0.9)])
    assert not np.array_equal(identity(), other)


def linear(x):
    return -0.5 * (x * x).sum(axis=1)


def linear_gradient(x):
    return -x


def test_pickle_and_copies():
    model = ev.DensityModel(
        linear, 2, grad=linear_gradient, bounds=[None, (0.0, 1.0)], vectorized=True, names="ab"
    )
    x = RNG.standard_normal((3, 2))
    for other in (pickle.loads(pickle.dumps(model)), model.bare()):
        assert other.names == model.names
        for a, b in zip(
            other.log_prob_and_gradient(x), model.log_prob_and_gradient(x), strict=True
        ):
            np.testing.assert_array_equal(a, b)


def test_prior_reference_is_the_prior():
    model = logistic().model
    reference = density_prior_reference(model)
    np.testing.assert_array_equal(reference.mean, PRIOR.mean)
    np.testing.assert_array_equal(reference.cov, PRIOR.cov)
    assert reference.logz == 0.0
    path = DensityPath(reference)
    x = RNG.standard_normal((4, 2))
    np.testing.assert_allclose(path.tilt(x), model.functions.logdensity(x), atol=1e-12)
