"""Every wrong input is named, with what came and what would do."""

from __future__ import annotations

import copy
import math
import pickle
import re
import sys

import numpy as np
import pytest
from models.density.cases import PRIOR, banana, limited, logistic
from scipy import stats

import evidence as ev
from evidence import moves
from evidence.approximations.density.modes import fit_density_laplace
from evidence.models.density.batches import _values
from evidence.models.density.functions import MissingDerivative
from evidence.models.density.model import refuse_endless

pytestmark = pytest.mark.usefixtures("small_searches")


def bowl(x):
    return -0.5 * x @ x


def build(logdensity=bowl, dim=2, **words):
    return ev.DensityModel(logdensity, dim, **words)


def estimate(model, **words):
    return ev.log_evidence(model, random_seed=0, progressbar=False, **words)


@pytest.mark.parametrize("dim", [0, -1, 2.0, "2", None, (2,)])
def test_dim(dim):
    with pytest.raises(ValueError, match=r"dim must be a whole number, at least 1, got"):
        build(dim=dim)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"logdensity": 3.0}, "logdensity must be a function, got 3.0"),
        ({"logdensity": None}, "logdensity must be a function, got None"),
        ({"grad": 1}, "grad must be a function"),
        ({"value_and_grad": 1}, "value_and_grad must be a function"),
        ({"hessian": np.eye(2)}, "hessian must be a function"),
        ({"third": "no"}, "third must be a function"),
        ({"along": 1}, "along must be a function"),
        ({"sampler": np.zeros((3, 2))}, "sampler must be a function"),
        ({"metric": "riemann"}, "metric must be 'softabs', 'hessian'.* got 'riemann'"),
        ({"metric": None}, "metric must be"),
        ({"names": ["a"]}, "names must hold 2 different names"),
        ({"names": ["a", "a"]}, "names must hold 2 different names"),
        ({"bounds": [(0.0, 1.0)]}, "bounds must hold 2 pairs"),
        ({"bounds": [(0.0, 1.0), (1.0, 0.0)]}, r"bounds\[1\]"),
        ({"bounds": [None, None], "prior": PRIOR}, "give bounds or prior, not both"),
        ({"prior": ev.GaussianPrior(np.zeros(3))}, "prior has 3 dimensions .* dim=2"),
        ({"prior": [stats.norm()]}, "prior holds 1 distributions .* dim=2"),
        ({"prior": {"a": stats.norm()}}, "prior holds 1 distributions .* dim=2"),
        ({"prior": [stats.norm(), 3.0]}, r"prior\[1\] must be a continuous distribution .* 3.0"),
        ({"prior": [stats.norm(), stats.poisson(3)]}, r"prior\[1\] must be a continuous"),
        ({"prior": stats.poisson(3)}, "prior.* must be a continuous"),
        ({"prior": "gaussian"}, "prior must be ev.GaussianPrior"),
        ({"prior": 1.0}, "prior must be ev.GaussianPrior"),
        ({"prior": lambda rng, size: 0}, "sampler="),
    ],
)
def test_arguments(words, match):
    with pytest.raises(ValueError, match=match):
        build(**words)


@pytest.mark.parametrize(
    ("logdensity", "vectorized", "match"),
    [
        (lambda x: x, False, r"logdensity was called with one point .* got \(2,\); vectorized="),
        (lambda x: -x @ x.T, True, r"logdensity was called with a batch .* got \(8, 8\)"),
        (lambda x: -0.5 * (x * x).sum(), True, r"must return shape \(8,\), got \(\)"),
        (lambda x: None, False, "logdensity.* returned None"),
        (lambda x: None, True, "logdensity"),
        (lambda x: "high", False, "logdensity.* numbers"),
        (lambda x: [1.0] * (1 + (x[0] > 0.0)), False, "logdensity"),
        (lambda x: 1j, False, "logdensity.* numbers"),
    ],
)
def test_shapes_of_the_density(logdensity, vectorized, match):
    with pytest.raises(ValueError, match=match):
        build(logdensity, vectorized=vectorized)


def test_a_vectorized_function_that_is_not_said_to_be():
    def batch(x):
        return -0.5 * (x * x).sum(axis=1)

    with pytest.raises(ValueError, match="axis"):  # NumPy's own: x has one axis only
        build(batch)
    build(batch, vectorized=True)


def test_errors_of_the_users_function_are_its_own():
    def broken(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        build(broken)


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize(
    ("name", "wrong", "match"),
    [
        ("grad", lambda x: x[..., :1], r"grad was called .* must return shape"),
        ("grad", lambda x: None, "grad"),
        ("value_and_grad", lambda x: (x[..., 0], x[..., :1]), "value_and_grad must return"),
        ("value_and_grad", lambda x: x[..., 0], "value_and_grad must return"),
        ("value_and_grad", lambda x: (x, x, x), "value_and_grad must return"),
        ("value_and_grad", lambda x: None, "value_and_grad must return"),
        ("hessian", lambda x: x, "hessian was called .* must return shape"),
        ("third", lambda x, W: W, "third was called .* must return shape"),
        ("along", lambda x, w: w[..., :1], "along was called .* must return shape"),
        ("tensor", lambda x: x, "tensor was called .* must return shape"),
    ],
)
def test_shapes_of_derivatives(name, wrong, match, vectorized):
    given = banana().model.functions._asdict()

    def one(function):
        if vectorized or function is None:
            return function
        return lambda *point: function(*(part[None] for part in point))[0]

    words = {key: one(function) for key, function in given.items()} | {name: wrong}
    model = ev.DensityModel(dim=2, vectorized=vectorized, **words)
    with pytest.raises(ValueError, match=match):
        model.check_derivatives()


@pytest.mark.parametrize("name", ["matrix", "slope", "along"])
def test_shapes_of_a_metric(name):
    good = {
        "matrix": lambda x: np.broadcast_to(np.eye(2), (len(x), 2, 2)),
        "slope": lambda x, W: np.zeros_like(x),
        "along": lambda x, w: np.zeros_like(x),
    }
    model = banana(metric=ev.Fisher(**good | {name: lambda x, *_: x[:, 0]})).model
    with pytest.raises(ValueError, match=rf"Fisher\.{name} was called"):
        model.check_derivatives()


def test_infinite_density():
    with pytest.raises(ValueError, match=r"logdensity is \+inf at 8 of 8 points"):
        build(lambda x: np.inf)


def test_density_that_is_infinite_at_a_thousandth_of_the_prior():
    """Which none of the first points meets: without its points log Z was right, and certain."""
    model = ev.DensityModel(
        lambda x: np.where(x[:, 0] > 3.0, np.inf, -0.5 * np.sum(x**2, axis=1)), dim=2,
        prior=ev.GaussianPrior(np.zeros(2)), vectorized=True,
    )  # fmt: skip
    with pytest.raises(ev.InputError, match=r"\+inf at \d+ of \d+ points: such a density has no"):
        ev.log_evidence(model, random_seed=0, progressbar=False)


def test_parameters_outside_their_bounds():
    model = limited().model
    good = [1.0, 1.0, 0.5]
    for i, value in ((0, -1.0), (0, 0.0), (1, 3.0), (2, 1.0), (2, np.nan)):
        theta = np.array([good, good])
        theta[1, i] = value
        with pytest.raises(ValueError, match=r"parameters \[.*\] are outside their bounds"):
            model.unconstrain(theta)


def test_softabs_and_metrics():
    for alpha in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="alpha must be a positive"):
            ev.SoftAbs(alpha)


@pytest.mark.parametrize(
    ("missing", "move", "match"),
    [
        (
            ("grad", "hessian", "third", "along", "tensor"),
            "mgrad",
            "needs the density's gradient: pass grad=",
        ),
        pytest.param(
            ("grad", "hessian", "third", "along", "tensor"),
            "nuts",
            r"ev.from_jax.*move='elliptical'",
            marks=pytest.mark.slow,
        ),
        (("hessian", "third", "along", "tensor"), "rmhmc", "needs hessian= of DensityModel"),
        (("third", "tensor"), "rmhmc", "needs tensor= or third= of DensityModel"),
        (("third", "tensor"), "rmhmc-midpoint", "moves that do without are 'mgrad', 'hmc'"),
        (("third", "tensor"), "rmhmc-explicit", "needs tensor= or third="),
        (("grad",), "rmhmc", "grad"),
    ],
)
def test_missing_derivatives(missing, move, match):
    """Whatever it starts from: the default, whose search takes long, in one case only."""
    words = {k: f for k, f in banana().model.functions._asdict().items() if k not in missing}
    model = ev.DensityModel(dim=2, vectorized=True, **words)
    start = {"reference": None if move == "nuts" else "laplace", "move": move}
    with pytest.raises(MissingDerivative, match=match):
        ev.sample(model, draws=2, tune=2, random_seed=0, progressbar=False, **start)
    start["reference"] = "laplace"
    with pytest.raises(MissingDerivative, match=match):
        estimate(model, method="smc", n_particles=32, n_islands=2, **start)


def test_changed_coordinates_need_the_gradient_for_a_hessian():
    words = limited().model.functions._asdict() | {"grad": None}
    bounds = [(0.0, None), (None, 2.0), (0.0, 1.0)]
    model = ev.DensityModel(dim=3, vectorized=True, bounds=bounds, **words)
    with pytest.raises(MissingDerivative, match="a change of variables needs grad="):
        model.hessian(np.zeros((1, 3)))


@pytest.mark.parametrize("move", ["mmala", "simplified-mmala", "second-order", "gibbs"])
def test_moves_for_other_models(move):
    with pytest.raises(ValueError, match=r"Gaussian|probit"):
        ev.sample(
            logistic().model, move=move, draws=2, tune=2, reference="laplace", progressbar=False
        )


def test_coordinates_that_a_density_has_not():
    for move in (moves.pmala(), moves.HMC(coordinates="expected")):
        with pytest.raises(ValueError, match="need a Gaussian prior with a likelihood"):
            ev.sample(
                banana().model, move=move, draws=2, tune=2, reference="laplace", progressbar=False
            )


def test_binding():
    with pytest.raises(ValueError, match="binding"):
        ev.sample(
            banana().model,
            move=moves.ExplicitRMHMC(binding="none"),
            draws=2,
            tune=2,
            progressbar=False,
        )


def test_prior_reference_without_a_prior():
    with pytest.raises(ValueError, match=r"reference='prior' needs a prior .* pass prior="):
        estimate(banana().model, reference="prior")


def test_unknown_reference():
    known = r"unknown reference 'ep'.* fitted, gaussian, laplace, prior"
    with pytest.raises(ValueError, match=known):
        estimate(banana().model, reference="ep")


def test_reference_of_another_model():
    other = fit_density_laplace(limited().model)
    with pytest.raises(ValueError, match="reference was fitted to another model"):
        estimate(banana().model, reference=other)


@pytest.mark.parametrize(
    ("sampler", "match"),
    [
        (lambda rng, size: rng.standard_normal((2, size)), r"sampler\(rng, .*\) must"),
        (lambda rng, size: rng.standard_normal(2), r"sampler\(rng, .*\) must"),
        (lambda rng, size: None, r"sampler\(rng, .*\) must"),
        (lambda rng, size: np.full((size, 2), np.nan), r"sampler.* contains NaN or inf"),
    ],
)
def test_sampler(sampler, match):
    with pytest.raises(ValueError, match=match):
        estimate(build(sampler=sampler), method="smc", n_particles=32, n_islands=2)


def test_sampler_outside_the_bounds():
    with pytest.raises(ValueError, match=r"parameters \[.*\] are outside their bounds"):
        estimate(build(sampler=lambda rng, m: -np.ones((m, 2)), bounds=[(0, 1), (0, 1)]))


class TestJax:
    @pytest.mark.parametrize(
        "name", ["grad", "value_and_grad", "hessian", "third", "along", "tensor"]
    )
    def test_derivatives_are_its_own(self, name):
        with pytest.raises(ValueError, match=f"{name}: JAX derives these; leave them out"):
            ev.from_jax(bowl, 2, **{name: bowl})

    def test_vectorized_is_its_own(self):
        with pytest.raises(ValueError, match="vectorized: JAX derives these"):
            ev.from_jax(bowl, 2, vectorized=True)

    def test_not_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "jax", None)
        with pytest.raises(ImportError, match=r"pip install 'log-evidence\[jax\]'"):
            ev.from_jax(bowl, 2)

    def test_not_installed_where_the_model_is_sent(self, monkeypatch):
        model = pickle.loads(pickle.dumps(ev.from_jax(bowl, 2)))
        monkeypatch.setitem(sys.modules, "jax", None)
        with pytest.raises(ImportError, match="from_jax needs JAX"):
            model.log_prob(np.zeros((1, 2)))

    def test_not_a_function(self):
        with pytest.raises(ValueError, match="logdensity must be a function, got 3"):
            ev.from_jax(3, 2)

    def test_wrong_shape(self):
        with pytest.raises(ValueError, match="logdensity"):
            ev.from_jax(lambda x: -0.5 * x * x, 2)

    def test_wrong_dimension_and_name_of_metric(self):
        with pytest.raises(ValueError, match="dim must be"):
            ev.from_jax(bowl, 0)
        with pytest.raises(ValueError, match="metric must be"):
            ev.from_jax(bowl, 2, metric="none")


_ENDLESS = {  # log densities in two dimensions, bounds, and the coordinate along which they are
    "as 1/|x|": (lambda x: -np.log1p(np.abs(x[:, 0])) - x[:, 1] ** 2, None, r"x\[0\]"),
    "up to one": (lambda x: -np.logaddexp(0.0, -x[:, 1]) - x[:, 0] ** 2, None, r"x\[1\]"),
    "as 1/scale": (lambda x: -np.log(x[:, 1]) - x[:, 0] ** 2, [(None, None), (0, None)], "x"),
    "a floor": (lambda x: np.log(np.exp(-0.5 * np.sum(x**2, axis=1)) + 1e-300), None, ""),
    "as x^-1.5": (lambda x: -1.5 * np.log1p(np.abs(x[:, 0])) - x[:, 1] ** 2, None, ""),
    "as (log x)^-2 / x": (
        lambda x: -np.log(x[:, 1]) - 2.0 * np.log1p(np.abs(np.log(x[:, 1]))) - x[:, 0] ** 2,
        [(None, None), (0, None)],
        "",
    ),
    "a box": (lambda x: -(x[:, 0] ** 2), [(None, None), (0, 3)], ""),
}


@pytest.mark.parametrize("name", _ENDLESS)
def test_a_density_without_a_prior_has_to_end_somewhere(name):
    """log Z = infinity was a number, of 14 digits even, after half a minute of search."""
    log_p, bounds, which = _ENDLESS[name]
    model = ev.DensityModel(log_p, dim=2, bounds=bounds, vectorized=True)
    points = np.random.default_rng(0).standard_normal((64, 2))
    if not which:
        assert refuse_endless(model, points) is None
        return
    with pytest.raises(ev.InputError, match=f"no finite integral: along {which}"):
        ev.log_evidence(model, random_seed=0, progressbar=False)


def test_a_bad_place_to_begin_says_nothing():
    """A Cauchy density's end is higher than a place where the other coordinate is far off."""
    model = ev.DensityModel(
        lambda x: -np.log1p(x[:, 0] ** 2) - x[:, 1] ** 2, dim=2, vectorized=True,
        bounds=[(None, None), (0, 10)],
    )  # fmt: skip
    far = ev.DensityModel(lambda x: -np.log1p(x[:, 0] ** 2) - x[:, 1] ** 2, 2, vectorized=True)
    for one in (model, far):
        assert refuse_endless(one, np.array([[0.0, 300.0], [0.0, 200.0]])) is None


def test_rounding_at_the_end_of_the_world_is_no_density():
    """Of an inverse Wishart's trace 1e40 units out rounding left 1e40, of the wrong sign."""

    def falls(x):
        away = np.abs(x[:, 0])
        return np.where(away > 1e30, np.where(x[:, 0] > 0.0, -np.inf, 20.0), -(away**2))

    model = ev.DensityModel(falls, dim=1, vectorized=True)
    assert refuse_endless(model, np.zeros((1, 1))) is None


def test_a_density_may_raise_far_out():
    model = ev.DensityModel(lambda x: -math.exp(abs(x[0])) - 2.0 * math.log(1.0 + abs(x[1])), 2)
    assert refuse_endless(model, np.zeros((1, 2))) is None
    model = ev.DensityModel(lambda x: -math.exp(abs(x[0])) - math.log(1.0 + abs(x[1])), dim=2)
    with pytest.raises(ev.InputError, match=r"no finite integral: along x\[1\]"):
        refuse_endless(model, np.zeros((1, 2)))


def _raises(kind):
    """A normal density that fails where |x| > 5, of points or of batches, and its gradient."""

    def log_p(x):
        if np.any(np.abs(x) > 5.0):
            raise kind("far out")
        return -0.5 * np.sum(x * x, axis=-1)

    def both(x):
        return log_p(x), -x

    return log_p, both


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize(
    "kind", [np.linalg.LinAlgError, FloatingPointError, OverflowError, ZeroDivisionError]
)
def test_arithmetic_that_fails_far_out_is_zero_density(kind, vectorized):
    """np.linalg.inv of a matrix that underflows far out ended a climb, and the run."""
    log_p, both = _raises(kind)
    model = ev.DensityModel(log_p, 2, value_and_grad=both, vectorized=vectorized)
    x = np.array([[0.0, 1.0], [9.0, 0.0], [1.0, 1.0]])
    for one in (model, pickle.loads(pickle.dumps(ev.DensityModel(_fails, 2)))):
        assert one.log_prob(x).tolist() == [-0.5, -np.inf, -1.0]
    value, slope = model.log_prob_and_gradient(x)
    assert value.tolist() == [-0.5, -np.inf, -1.0]
    assert np.array_equal(slope, [[0.0, -1.0], [np.nan, np.nan], [-1.0, -1.0]], equal_nan=True)
    assert model.log_prob(x[1:2]).tolist() == [-np.inf]
    fresh = pickle.loads(pickle.dumps(ev.DensityModel(_fails, 2)))
    with pytest.raises(ZeroDivisionError):  # where it has not worked yet
        fresh.log_prob(x[1:2])
    with pytest.raises(kind, match="far out"):  # one that never worked is wrong
        ev.DensityModel(lambda x: log_p(x + 9.0), 2, vectorized=vectorized)
    model = ev.DensityModel(bowl, 1, grad=lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.log_prob_and_gradient(np.zeros((1, 1)))


def _fails(x):
    return -0.5 * float(x @ x) / bool(abs(x[0]) < 5.0)


def test_where_it_fails_in_a_prior_is_told():
    log_p, _ = _raises(ZeroDivisionError)
    prior = [stats.norm(), stats.norm(0.0, 4.0)]
    model = ev.DensityModel(log_p, prior=prior, vectorized=True)
    result = ev.log_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    assert "density-nan" in [w.code for w in result.warnings]


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize(
    "wrong", [lambda th: -th["mu"], lambda mu, sd: -mu, lambda x: math.log(-1.0)]
)
def test_an_error_of_the_users_own_says_what_it_was_called_with(wrong, vectorized):
    prior = {"mu": stats.norm(), "sd": stats.expon()}
    with pytest.raises((IndexError, TypeError, ValueError)) as caught:
        ev.DensityModel(wrong, prior=prior, vectorized=vectorized)
    note = caught.value.__notes__[0]
    how = "rows" if vectorized else "one array"
    told = rf"logdensity was called with {how} of 2 numbers, in the order of \('mu', 'sd'\), here"
    assert re.match(told, note)


def test_a_worker_may_be_given_points_that_fail_alone():
    """It has a copy that was never asked, of a function that worked where the search began."""

    def log_p(x):
        return -math.exp(x[0] ** 2)  # which overflows beyond 26.6

    model = ev.DensityModel(log_p, dim=1)
    call = copy.deepcopy(model.calls["logdensity"])
    assert not call.worked
    assert np.isnan(_values(call, np.array([[30.0], [40.0]]), lambda: False)).all()
