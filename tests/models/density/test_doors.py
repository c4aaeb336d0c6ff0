"""What users' functions may return, no points at all, and maps that are infinite at the border."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import evidence as ev
from evidence.approximations.density.modes import starts
from evidence.models.density.checking import first_finite
from evidence.models.density.model import refuse_endless

pytestmark = pytest.mark.usefixtures("small_searches")
FORMS = {
    "float": float,
    "zero-d": np.asarray,
    "one": lambda v: np.array([v]),
    "list": lambda v: [float(v)],
    "integer or array": lambda v: np.array([v]) if v < -1.0 else float(v),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("m", [0, 1, 3])
def test_numbers_of_one_point_in_any_form(form, d, m):
    model = ev.DensityModel(
        lambda x: FORMS[form](-0.5 * float(x @ x)),
        d,
        value_and_grad=lambda x: (FORMS[form](-0.5 * float(x @ x)), list(-x)),
        prior_transform=lambda u: [4.0 * one for one in u],
    )
    x = np.random.default_rng(0).standard_normal((m, d))
    theta = 4.0 * stats.norm.cdf(x)
    assert np.allclose(model.log_likelihood(x), -0.5 * (theta**2).sum(axis=1))
    assert model.log_prob_and_gradient(x)[1].shape == (m, d)


@pytest.mark.parametrize("vectorized", [False, True])
def test_one_parameter_need_not_have_axes(vectorized):
    def flat(x):
        return -0.5 * x.reshape(-1) ** 2 if vectorized else -0.5 * x[0] ** 2

    model = ev.DensityModel(
        flat,
        1,
        grad=lambda x: -x.reshape(-1) if vectorized else -x[0],
        hessian=lambda x: -np.ones(len(x)) if vectorized else -1,
        prior_transform=lambda u: 2.0 * u.reshape(-1) if vectorized else 2.0 * float(u[0]),
        vectorized=vectorized,
    )
    for m in (0, 1, 5):
        x = np.linspace(-1.0, 1.0, m).reshape(m, 1)
        assert np.allclose(model.constrain(x), 2.0 * stats.norm.cdf(x))
        value, slope = model.log_prob_and_gradient(x)
        assert value.shape == (m,)
        assert slope.shape == (m, 1)
        assert model.calls["hessian"](x).shape == (m, 1, 1)


def test_nobody_is_asked_about_no_points():
    def some(x):
        assert len(x)
        return -0.5 * (x * x).sum(axis=1)

    priors = (
        {"prior_transform": lambda u: u if len(u) else None},
        {"prior": {"a": stats.halfnorm(), "b": lambda a: stats.norm(0.0, a)}},
        {"prior": [stats.gamma(2.0), (0.0, 1.0)]},
        {"bounds": [(0.0, None), (0.0, 1.0)]},
    )
    for words in priors:
        model = ev.DensityModel(some, 2, vectorized=True, **words)
        none = np.zeros((0, 2))
        assert model.log_prob(none).shape == (0,)
        assert model.constrain(none).shape == (0, 2)


BORDERS = {
    "half-normal": stats.halfnorm.ppf,
    "flipped": lambda u: stats.norm.ppf(1.0 - u),
    "nan": lambda u: np.where((u > 1e-12) & (u < 1.0 - 1e-12), u, np.nan),
    "infinite": lambda u: np.where(u < 1.0 - 1e-13, u / (u > 1e-13), np.inf),
    "few degrees": stats.t(0.2).ppf,
}


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("name", BORDERS)
def test_maps_that_are_infinite_at_the_border(name, vectorized):
    model = ev.DensityModel(
        lambda x: -0.5 * (x * x).sum(axis=-1),
        2,
        prior_transform=BORDERS[name],
        vectorized=vectorized,
    )
    x = np.array([[-40.0, 40.0], [9.0, -9.0], [8.25, 0.3], [-1.0, 1.0]])
    theta = model.constrain(x)
    assert np.isfinite(theta).all()
    assert np.array_equal(theta[3], BORDERS[name](stats.norm.cdf(x[3])))
    far = model.constrain(np.array([[-6.9, 6.9]]))[0]
    assert np.allclose(far, BORDERS[name](stats.norm.cdf([-6.9, 6.9])))


def test_a_map_that_is_infinite_inside_is_named():
    with pytest.raises(ev.InputError, match="within 1e-12 of 0 or 1 only"):
        ev.DensityModel(lambda x: 0.0, 2, prior_transform=lambda u: np.log(u - 0.5))


def test_a_half_normal_map_has_the_evidence_of_its_closed_form():
    model = ev.DensityModel(
        lambda x: stats.norm.logpdf(x[:, 0], 1.0, 0.5),
        1,
        prior_transform=stats.halfnorm.ppf,
        vectorized=True,
    )
    truth = np.log(2.0) + stats.norm.logpdf(1.0, 0.0, 1.25**0.5)
    truth += stats.norm.logcdf(0.8 / 0.2**0.5)
    result = ev.log_evidence(model, target_se=0.1, random_seed=0, progressbar=False)
    assert abs(result.logz - truth) < 4.5 * result.logz_se
    assert result.logz_se < 0.1


@pytest.mark.parametrize(("at", "codes"), [(5.0, []), (11.0, ["cube-ends"])])
def test_a_map_of_the_unit_cube_ends_at_eight_deviations(at, codes):
    """Φ(8.3) is 1: of data eleven deviations up log Z was 64 nats off at ± .003."""
    model = ev.DensityModel(
        lambda x: stats.norm.logpdf(x[:, 0], at, 0.5),
        1,
        prior_transform=lambda u: stats.norm.ppf(u),
        vectorized=True,
    )
    result = ev.log_evidence(model, target_se=0.1, random_seed=0, progressbar=False)
    assert [w.code for w in result.warnings] == codes
    truth = stats.norm.logpdf(at, 0.0, 1.25**0.5)
    assert (abs(result.logz - truth) < 4.5 * result.logz_se) == (not codes)


def test_dependent_priors_reach_as_far_as_independent_ones():
    model = ev.DensityModel(
        lambda x: np.zeros(len(x)),
        prior={"a": stats.norm(), "b": lambda a: stats.norm(a, 0.1)},
        vectorized=True,
    )
    assert np.allclose(model.constrain(np.array([[20.0, 1.0]])), [[20.0, 20.1]])


NOWHERE = [
    {"vectorized": True, "prior": stats.norm()},
    {"vectorized": True},
    {"vectorized": False, "prior_transform": lambda u: u},
]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *((value, words) for value in (-np.inf, np.nan) for words in NOWHERE[:2]),
        (-np.inf, NOWHERE[2]),
        pytest.param(np.nan, NOWHERE[2], marks=pytest.mark.slow),
    ],
)
def test_a_density_that_is_zero_everywhere_is_told(value, words):
    def nothing(x):
        return np.full(len(x), value) if words["vectorized"] else value

    model = ev.DensityModel(nothing, 2, **words)
    said = rf"logdensity is {'NaN' if np.isnan(value) else '-inf'} at all \d+ points tried"
    with pytest.raises(ev.InputError, match=said):
        ev.log_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    if np.isnan(value):
        with pytest.raises(ev.InputError, match=said):
            ev.sample(model, draws=2, tune=2, random_seed=0, progressbar=False)


def test_a_needle_is_found_and_infinity_is_told():
    def needle(x):
        return np.where(np.abs(x[:, 0] - 3.3) < 0.1, 0.0, -np.inf)

    rng = np.random.default_rng(0)
    model = ev.DensityModel(needle, 1, prior=stats.norm(), vectorized=True)  # a mass of 3e-4
    assert not model.alive
    assert abs(first_finite(model, rng)[0] - 3.3) < 0.1
    model = ev.DensityModel(
        lambda x: np.where(x[:, 0] > 2.0, np.inf, -np.inf), 1, prior=stats.norm(), vectorized=True
    )
    with pytest.raises(ev.InputError, match=r"logdensity is \+inf at"):
        first_finite(model, rng)


@pytest.mark.parametrize("inside", [True, False])
def test_the_inside_of_a_simplex_is_found(inside):
    """What was found first was at logits of 1e5, where a Dirichlet density looked infinite; where
    the middle of the simplex is cut off as well points are still no farther out than 40."""

    def dirichlet(x):
        parts = np.column_stack([x, 1.0 - x.sum(axis=1)])
        there = (parts[:, -1] > 0.0) & (inside | (parts[:, 0] > 0.3))
        with np.errstate(all="ignore"):
            return np.where(there, np.log(parts).sum(axis=1) + gammaln(20.0), -np.inf)

    model = ev.DensityModel(dirichlet, 9, bounds=[(0, 1)] * 9, vectorized=True)
    at = first_finite(model, np.random.default_rng(0))
    assert not model.alive
    assert np.abs(at).max() <= (np.log(9.0) + 1e-12 if inside else 40.0)
    assert refuse_endless(model, starts(model, np.random.default_rng(0), 64)) is None


@pytest.mark.parametrize("unit", [1e-4, pytest.param(1e4, marks=pytest.mark.slow)])
def test_a_bare_density_that_is_zero_about_the_origin_is_found_in_any_unit(unit):
    """A normal one beyond a wall: no point of a few about the origin lies there."""

    def walled(x):
        z = x / unit - 1.5
        return np.where(z.sum(axis=1) > 0.0, -0.5 * np.sum(z * z, axis=1), -np.inf)

    model = ev.DensityModel(walled, 3, vectorized=True)
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    truth = 1.5 * np.log(2.0 * np.pi) - np.log(2.0) + 3.0 * np.log(unit)
    assert abs(result.logz - truth) < 4.0 * result.logz_se < 0.1


class TestJaxHessians:
    """By differences of gradients: XLA is asked for none."""

    jnp = pytest.importorskip("jax.numpy")

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
    def test_they_are_as_good_as_exact_ones(self, scale):
        def f(x):
            return -2.5 * self.jnp.sum(
                self.jnp.log1p((x / scale - 1.0) ** 2 / 4.0)
            ) - self.jnp.prod(x / scale)

        x = scale * np.array([[1.1, 0.9], [0.2, 1.5]])
        z = x / scale - 1.0
        exact = np.zeros((2, 2, 2))
        exact[:, [0, 1], [0, 1]] = -5.0 * (4.0 - z**2) / (4.0 + z**2) ** 2
        exact[:, [0, 1], [1, 0]] = -1.0
        H = ev.from_jax(f, 2).hessian(x) * scale**2
        assert np.abs(H - exact).max() < 1e-7

    def test_the_compiler_is_not_asked(self, monkeypatch):
        import jax

        def forbidden(*_):
            raise AssertionError("a Hessian by JAX")

        monkeypatch.setattr(jax, "hessian", forbidden)
        model = ev.from_jax(lambda x: -0.5 * self.jnp.sum(x * x), 2)
        result = ev.log_evidence(model, method="laplace", progressbar=False)
        assert abs(result.logz - np.log(2.0 * np.pi)) < 1e-9


@pytest.mark.parametrize("dim", [1, 4])
def test_a_map_of_one_point_is_none_of_rows(dim):
    """With one parameter it changed the first of all rows, and log Z was three nats wrong."""

    def one_point(u):
        x = np.array(u)
        for i in range(dim):
            x[i] = 10.0 * u[i]
        return x

    words = {"prior_transform": one_point, "vectorized": True}
    with pytest.raises(ev.InputError, match="rows of points"):
        ev.DensityModel(lambda x: -0.5 * (x * x).sum(axis=1), dim, **words)


def test_bounds_tell_how_many_parameters_there_are():
    model = ev.DensityModel(lambda x: -0.5 * float(x @ x), bounds=[(0.0, 1.0), (None, None)])
    assert model.n == 2
