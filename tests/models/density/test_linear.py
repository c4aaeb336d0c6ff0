"""Linear coefficients that are integrated out, against a multivariate normal and quadrature."""

import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import simpson

import evidence as ev

T = np.linspace(0.0, 6.0, 12)
Y = 1.3 * np.cos(2.0 * T) - 0.4 * np.sin(2.0 * T) + 3.0 + 0.3 * np.sin(7.0 * T**2)
K = 0.2 * np.exp(-0.5 * np.subtract.outer(T, T) ** 2) + 0.1 * np.eye(T.size)
NORMALS = {"a": stats.norm(0.5, 2.0), "b": stats.norm(-1.0, 0.7)}


def design(theta):
    return np.column_stack([np.cos(theta[0] * T), np.sin(theta[0] * T)])


def many(theta):
    phase = theta[:, :1] * T
    return np.stack([np.cos(phase), np.sin(phase)], axis=2)


def with_offset(theta):
    return np.column_stack([np.cos(theta[0] * T), np.ones_like(T), np.sin(theta[0] * T)])


def covariance(theta):
    return K + theta[1] ** 2 * np.eye(T.size)


def mean(theta):
    return theta[1] * T


def linear(y=Y, design=design, noise=K, linear=NORMALS, **words):
    prior = {"w": stats.uniform(1.0, 3.0), "s": stats.halfnorm()}
    return ev.linear_density(y, design, noise, linear, prior=prior, **words)


def log_likelihood(model, *points):
    return model.calls["logdensity"](np.array(points, dtype=float))


@pytest.mark.parametrize("noise", [np.sqrt(np.diag(K)), K, covariance])
def test_normal_coefficients_are_a_multivariate_normal(noise):
    model = linear(noise=noise, mean=mean)
    for theta in ([2.0, 0.3], [1.1, 2.0]):
        A, centre = design(theta), np.array([0.5, -1.0])
        cov = noise(theta) if callable(noise) else noise
        cov = np.diag(cov**2) if np.ndim(cov) == 1 else cov
        cov = cov + A @ np.diag([4.0, 0.49]) @ A.T
        exact = stats.multivariate_normal(mean(theta) + A @ centre, cov).logpdf(Y)
        assert log_likelihood(model, theta)[0] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("limits", [(-10.0, 10.0), (2.9, 3.1), (3.5, 9.0), (-90.0, -80.0)])
def test_a_uniform_coefficient_beside_a_normal_one_is_their_integral(limits):
    priors = {"a": NORMALS["a"], "c": limits, "b": stats.norm(0.0, 1e-9)}
    model, theta = linear(design=with_offset, linear=priors), np.array([2.0, 0.3])
    middle = np.clip(3.0, *limits)
    c = np.linspace(max(middle - 2.0, limits[0]), min(middle + 2.0, limits[1]), 100_001)
    a = design(theta)[:, 0]
    given = stats.multivariate_normal(0.5 * a, K + 4.0 * np.outer(a, a))
    log_p = given.logpdf(Y - c[:, None])  # of y given c, the normal one integrated out
    exact = np.log(simpson(np.exp(log_p - log_p.max()), x=c)) + log_p.max()
    exact -= np.log(limits[1] - limits[0])
    assert log_likelihood(model, theta)[0] == pytest.approx(exact, abs=1e-6)


def test_a_uniform_coefficient_that_the_data_do_not_see():
    seen = {"a": NORMALS["a"], "b": NORMALS["b"]}
    unseen = linear(
        design=lambda theta: np.column_stack([design(theta), np.zeros_like(T)]),
        linear=seen | {"c": (0.0, 5.0)},
    )
    theta = [2.0, 0.3]
    assert log_likelihood(unseen, theta) == pytest.approx(log_likelihood(linear(), theta))
    x = unseen.unconstrain(np.tile([*theta, 0.0, 0.0, 1.0], (400, 1)))
    drawn = unseen.constrain(x + 1e-9 * np.arange(400)[:, None])[:, 4]
    assert stats.kstest(drawn, stats.uniform(0.0, 5.0).cdf).pvalue > 0.001


def test_nothing_cancels_where_offsets_are_large_and_priors_wide():
    priors = {"a": stats.norm(0.0, 1e7), "b": stats.norm(0.0, 1e7)}
    theta, sd, far = np.array([2.0, 0.3]), np.full(T.size, 1e-3), design([2.0])
    y = far @ [1.3, -0.4] + 1e-3 * np.sin(7.0 * T**2)
    near = log_likelihood(linear(y, noise=sd, linear=priors), theta)
    moved = log_likelihood(linear(y + 3e5 * far[:, 0], noise=sd, linear=priors), theta)
    cost = 0.5 * (3e5 + 1.3) ** 2 / 1e14  # of the prior
    assert moved - near == pytest.approx(-cost, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("limits", [None, (2.95, 3.05), (3.3, 9.0)])
def test_coefficients_are_drawn_from_their_distribution_given_the_rest(limits):
    priors = {"a": NORMALS["a"], "c": limits or stats.norm(1.0, 3.0), "b": NORMALS["b"]}
    model = linear(design=with_offset, linear=priors)
    x = model.unconstrain(np.array([2.0, 0.3, 0.0, 3.35, 0.0]))
    n = 4000
    drawn = model.constrain(x + 1e-10 * np.arange(n)[:, None])[:, 2:]
    A, inverse = with_offset([2.0]), np.linalg.inv(K)
    flat = limits is not None
    precision = np.diag([1 / 4.0, 0.0 if flat else 1 / 9.0, 1 / 0.49])
    cov = np.linalg.inv(A.T @ inverse @ A + precision)
    middle = cov @ (A.T @ inverse @ Y + precision @ [0.5, 1.0, -1.0])
    c = stats.norm(middle[1], np.sqrt(cov[1, 1]))
    low, high = c.cdf(limits) if flat else (0.0, 1.0)
    exact = stats.uniform(low, high - low)
    assert stats.kstest(c.cdf(drawn[:, 1]), exact.cdf).pvalue > 0.001
    slope = cov[:, 1] / cov[1, 1]
    rest = drawn - middle - np.outer(drawn[:, 1] - middle[1], slope)
    given = cov - np.outer(slope, cov[1])  # of a and b, given c
    for i in (0, 2):
        z = rest[:, i] / np.sqrt(given[i, i])
        assert stats.kstest(z, stats.norm.cdf).pvalue > 0.001


def test_the_same_evidence_and_draws_as_with_the_coefficients_as_parameters():
    model = linear(design=many, vectorized=True)
    prior = {"w": stats.uniform(1.0, 3.0), "s": stats.halfnorm(), **NORMALS}
    normal = stats.multivariate_normal(np.zeros(T.size), K)
    whole = ev.DensityModel(
        lambda p: normal.logpdf(Y - np.einsum("mni,mi->mn", many(p), p[:, 2:])),
        prior=prior,
        vectorized=True,
    )

    w = np.linspace(1.0, 4.0, 3001)
    log_p = log_likelihood(model, *np.column_stack([w, np.ones_like(w)]))
    exact = np.log(simpson(np.exp(log_p - log_p.max()), x=w) / 3.0) + log_p.max()
    one, two = (
        ev.log_evidence(m, effort="frugal", random_seed=1, progressbar=False)
        for m in (model, whole)
    )
    assert one.logz == pytest.approx(exact, abs=4 * one.logz_se)
    assert two.logz == pytest.approx(exact, abs=4 * two.logz_se)
    assert one.names == two.names == ("w", "s", "a", "b")
    assert one.samples.mean(axis=0) == pytest.approx(two.samples.mean(axis=0), abs=0.05)
    assert one.samples.std(axis=0) == pytest.approx(two.samples.std(axis=0), rel=0.2)
    draws = ev.sample(
        model, reference="prior", draws=100, tune=20, random_seed=0, progressbar=False
    )
    assert draws.names == one.names
    assert draws.x.shape == (4, 100, 4)
    assert draws.mean[2:] == pytest.approx(one.samples.mean(axis=0)[2:], abs=0.3)


def test_batches_are_points_and_a_copy_is_the_same():
    def noise(theta):
        return np.array([covariance(point) for point in theta])

    points = np.array([[2.0, 0.3], [1.1, 2.0], [3.0, 0.1]])
    one = linear(noise=covariance)
    batches = linear(design=many, noise=noise, vectorized=True)
    assert log_likelihood(batches, *points) == pytest.approx(log_likelihood(one, *points))
    copy = pickle.loads(pickle.dumps(linear()))
    assert copy.names == one.names
    assert np.array_equal(copy.constrain([[0.1, 0.2]]), linear().constrain([[0.1, 0.2]]))


def test_draws_of_the_prior_know_nothing_of_the_data():
    priors = {"a": NORMALS["a"], "c": (40.0, 50.0), "b": NORMALS["b"]}
    model, rng = linear(design=with_offset, linear=priors), np.random.default_rng(3)
    drawn = np.array([model.from_prior(rng) for _ in range(1000)])
    of = [
        stats.uniform(1.0, 3.0),
        stats.halfnorm(),
        priors["a"],
        stats.uniform(40, 10),
        priors["b"],
    ]
    for column, prior in zip(drawn.T, of, strict=True):
        assert stats.kstest(column, prior.cdf).pvalue > 0.001


@pytest.mark.parametrize("vectorized", [True, False])
def test_where_there_is_no_noise_there_is_no_likelihood(vectorized):
    points = np.array([[2.0, 0.0], [2.0, 1.0], [2.0, -1.0]])
    for made in (lambda s: np.full(T.size, s), lambda s: s * np.eye(T.size)):
        words = {"design": many if vectorized else design, "vectorized": vectorized}

        def noise(theta, made=made):
            return np.array([made(s) for s in theta[:, 1]]) if vectorized else made(theta[1])

        model = linear(noise=noise, **words)
        assert np.isnan(log_likelihood(model, *points)).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"linear": {"a": (0, 1), "b": (0, 1)}}, "two uniform"),
        ({"linear": {"a": stats.norm(), "b": stats.cauchy()}}, r"linear\['b'\] must be normal"),
        ({"linear": {}}, "must name a coefficient"),
        ({"linear": {"a": stats.norm()}}, "design must return shape"),
        ({"linear": {"w": stats.norm(), "b": stats.norm()}}, "w is a parameter"),
        ({"noise": -np.ones(T.size)}, "above zero"),
        ({"noise": -K}, "positive definite"),
        ({"grad": np.ones_like}, "grad: .* no use"),
    ],
)
def test_mistakes_are_named(words, told):
    with pytest.raises(ev.InputError, match=told):
        linear(**words)


def test_a_prior_is_needed():
    with pytest.raises(ev.InputError, match="prior of the other parameters is missing"):
        ev.linear_density(Y, design, K, NORMALS, names=["w", "s"])
