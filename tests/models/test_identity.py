"""Models are what they compute: a corrected formula is another model, a rewritten one is not."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from covering import seldom
from scipy import stats

import evidence as ev
from evidence.execution.checkpoint import digest
from evidence.models.identity import rounded, sketch

pytestmark = pytest.mark.usefixtures("small_searches")
X = np.linspace(0.0, 3.0, 6)
Y = np.array([0.3, 1.2, 0.4, 2.0, 0.7, 1.1])


def known(model):
    return digest(*model.identity())


def run(model, path):
    words = {"method": "smc", "n_particles": 16, "n_islands": 2, "random_seed": 1}
    return ev.log_evidence(model, checkpoint=path, progressbar=False, **words).logz


def refused(model, path):
    with pytest.raises(ev.InputError, match=r"run\.ckpt belongs to another run: model is"):
        run(model, path)


# -- likelihoods from functions -----------------------------------------------------------------


def waiting(x, y):
    r = y * math.exp(-x)
    return -x - r, r - 1.0, -r, r


def regression(function=waiting, **words):
    likelihood = ev.likelihoods.from_function(
        function, check=lambda y: y, log_concave=True, check_derivatives=False, **words
    )
    return ev.GPModel(X, Y, "2.0 * RBF(1.0)", likelihood=likelihood)


def test_a_corrected_likelihood_is_refused(tmp_path):
    def corrected(x, y):
        r = 1.001 * y * math.exp(-x)
        return -x - r, r - 1.0, -r, r

    first = run(regression(), tmp_path / "run.ckpt")
    refused(regression(corrected), tmp_path / "run.ckpt")
    assert run(regression(), tmp_path / "run.ckpt") == first


def test_a_rewritten_likelihood_is_resumed(tmp_path):
    def rewritten(latent, seen):
        rate = 1.0 / math.exp(latent)
        return -seen * rate - latent, seen * rate - 1.0, -rate * seen, rate * seen

    first = run(regression(), tmp_path / "run.ckpt")
    assert run(regression(rewritten, name="exponential"), tmp_path / "run.ckpt") == first
    nameless = lambda x, y: (  # noqa: E731
        -x - y * math.exp(-x),
        y * math.exp(-x) - 1.0,
        -y * math.exp(-x),
        y * math.exp(-x),
    )
    assert run(regression(nameless), tmp_path / "run.ckpt") == first


@pytest.mark.parametrize("row", seldom(range(4), 3))
def test_every_derivative_counts(row):
    def corrected(x, y):
        r = y * math.exp(-x)
        out = [-x - r, r - 1.0, -r, r]
        out[row] = out[row] * 1.00001
        return out[0], out[1], out[2], out[3]

    assert known(regression(corrected)) != known(regression())


def gaussian(x, y, s):
    z = (y - x) / s
    return -0.5 * z * z - math.log(s), z / s, -1.0 / (s * s), 0.0


def noisy(scale, **words):
    words = {"params": {"s": scale}, "check_derivatives": False} | words
    return ev.likelihoods.from_function(gaussian, **words)


def test_parameters_hints_and_curvatures_count():
    def model(**words):
        return ev.GPModel(X, Y, "RBF(1.0)", likelihood=noisy(words.pop("scale", 0.5), **words))

    same = [known(model()), known(model(name="other")), known(model(scale=[0.5] * 6))]
    assert len(set(same)) == 1
    others = [
        model(scale=0.50001),
        model(scale=[0.5] * 5 + [0.5001]),
        model(location=lambda y, s: y + 0.1),
        model(fisher=lambda y, s: np.full(y.shape, 1.0)),
        model(fisher=lambda y, s: np.full(y.shape, 1.001)),
        model(log_concave=True),
    ]
    assert len({known(other) for other in others} | set(same)) == 1 + len(others)


# -- Gaussian process models --------------------------------------------------------------------


def test_what_tells_gaussian_process_models_apart():
    base = {"X": X, "y": Y, "kernel": "2.0 * RBF(1.0)", "likelihood": "gaussian"}
    changes = [
        {},
        {"y": Y + 1e-12},
        {"mean": 1e-12},
        {"kernel": "2.00001 * RBF(1.0)"},
        {"kernel": "2.0 * RBF(1.00001)"},
        {"jitter": 2e-6},
        {"likelihood": "gaussian(noise_std=1.00001)"},
        {"likelihood": "student_t"},
    ]
    assert len({known(ev.GPModel(**base | change)) for change in changes}) == len(changes)
    matrix = ev.GPModel(**base)
    again = ev.GPModel(K=matrix.K * (1.0 + 2e-16), y=Y, likelihood="gaussian")
    parts = zip(matrix.identity(), again.identity(), strict=True)
    unlike = [i for i, (a, b) in enumerate(parts) if not np.array_equal(a, b)]
    assert unlike == [2]  # the jitter, which the other has not


def test_classes_are_told_apart():
    def model(kernel="RBF(1.0)", labels="abcabc", **words):
        return ev.SoftmaxModel(X, list(labels), kernel, **words)

    changes = [
        model(),
        model(["RBF(1.0)", "RBF(1.0)", "RBF(1.1)"]),
        model(labels="abcabb"),
        model(mean=0.1),
        model(classes=list("abcd")),
    ]
    assert len({known(each) for each in changes}) == len(changes)


# -- densities ----------------------------------------------------------------------------------


def bowl(x):
    return -0.5 * (x * x).sum(axis=1)


def density(function=bowl, **words):
    return ev.DensityModel(function, 2, vectorized=True, **words)


def test_a_corrected_density_is_refused_and_a_rewritten_one_resumed(tmp_path):
    first = run(density(), tmp_path / "run.ckpt")
    assert run(density(lambda x: -0.5 * (x**2).sum(axis=1)), tmp_path / "run.ckpt") == first
    one = ev.DensityModel(lambda point: -float(point @ point) / 2.0, 2)
    assert run(one, tmp_path / "run.ckpt") == first
    refused(density(lambda x: -0.5001 * (x * x).sum(axis=1)), tmp_path / "run.ckpt")
    refused(density(lambda x: bowl(x) + 1e-4), tmp_path / "run.ckpt")


def square(x):
    return np.tile(-np.eye(2), (len(x), 1, 1))


def nothing(x, W):
    return np.zeros_like(x)


def own(x):
    return np.tile(np.eye(2), (len(x), 1, 1))


WORDS = {
    "grad": lambda x: -x,
    "hessian": square,
    "third": nothing,
    "along": nothing,
    "tensor": lambda x: np.zeros((len(x), 2, 2, 2)),
}


@pytest.mark.parametrize("name", WORDS)
def test_every_derivative_of_a_density_counts(name):
    changed = WORDS | {name: lambda *args: WORDS[name](*args) + 1e-4}
    assert known(density(**changed)) != known(density(**WORDS))
    assert known(density(**WORDS)) == known(density(**WORDS))


def test_a_gradient_of_either_kind_is_the_same():
    both = density(value_and_grad=lambda x: (bowl(x), -x))
    assert known(both) == known(density(grad=lambda x: -1.0 * x)) != known(density())


def test_prior_bounds_metric_and_sampler_count():
    changes = [
        {},
        {"bounds": [(0.0, None), None]},
        {"bounds": [(0.0, 9.0), None]},
        {"prior": ev.GaussianPrior([0.0, 0.0])},
        {"prior": ev.GaussianPrior([0.0, 1e-5])},
        {"prior": [stats.gamma(2.0), stats.norm()]},
        {"prior": [stats.gamma(2.001), stats.norm()]},
        {"metric": ev.SoftAbs(10.0)},
        {"metric": "hessian"},
        {"metric": ev.Fisher(own, nothing)},
        {"metric": ev.Fisher(lambda x: 1.001 * own(x), nothing)},
        {"sampler": lambda rng, size: rng.standard_normal((size, 2))},
        {"sampler": lambda rng, size: 2.0 * rng.standard_normal((size, 2))},
    ]
    assert len({known(density(**words)) for words in changes}) == len(changes)
    assert known(density(names=["a", "b"])) == known(density())


@pytest.mark.slow
def test_a_density_in_jax():
    jnp = pytest.importorskip("jax.numpy")
    model = ev.from_jax(lambda x: -jnp.sum(jnp.cosh(x)), 2)
    same = ev.from_jax(lambda x: -0.5 * jnp.sum(jnp.exp(x) + jnp.exp(-x)), 2)
    other = ev.from_jax(lambda x: -jnp.sum(jnp.cosh(1.0001 * x)), 2)
    assert known(model) == known(same) != known(other)


PROGRAM = """
import math, sys
import numpy as np
import evidence as ev
from evidence.execution.checkpoint import digest
def written_elsewhere(x, y):
    r = y * math.exp(-x)
    return -x - r, r - 1.0, -r, r
likelihood = ev.likelihoods.from_function(
    written_elsewhere, check=lambda y: y, log_concave=True, check_derivatives=False)
Y = np.array([0.3, 1.2, 0.4, 2.0, 0.7, 1.1])
gp = ev.GPModel(np.linspace(0.0, 3.0, 6), Y, "2.0 * RBF(1.0)", likelihood=likelihood)
one = ev.DensityModel(lambda x: -0.5 * (x**2).sum(axis=1), 2, vectorized=True)
print(digest(*gp.identity()), digest(*one.identity()))
"""


@pytest.mark.slow
def test_another_process_finds_the_same():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [known(regression()), known(density())]


# -- rounding -----------------------------------------------------------------------------------


def test_the_last_digits_do_not_count():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((50, 20)) * 10.0 ** rng.integers(-12, 12, (50, 1))
    np.testing.assert_array_equal(rounded(a), rounded(a * (1.0 + 2e-16)))
    error = np.abs(rounded(a) - a) / np.abs(a).max(axis=1, keepdims=True)
    assert 1e-10 < error.max() < 1e-7
    assert not np.array_equal(rounded(a), rounded(a * (1.0 + 1e-6)))


@pytest.mark.parametrize("value", [1.0, 0.1, 1000.0, 1e-5, 123.0, 0.5, 1e300, 1e-300, 3e-320])
def test_round_numbers_are_in_the_middle(value):
    near = [value, np.nextafter(value, 0.0), np.nextafter(value, np.inf)]
    assert len({rounded(each, 0.0).tobytes() for each in near[: 1 if value < 1e-307 else 3]}) == 1


def test_what_is_no_number_is_itself():
    out = rounded([[np.inf, -np.inf, np.nan, -0.0, 1e-30, 1.0]])
    np.testing.assert_array_equal(out, [[np.inf, -np.inf, np.nan, 0.0, 0.0, 1.0]])
    assert not np.signbit(out[0, 3])
    assert rounded(-np.float64("nan")).tobytes() == rounded(np.nan).tobytes()


def test_any_entry_of_a_covariance_counts():
    K = np.eye(30) + 1.0
    other = K.copy()
    other[3, 17] = other[17, 3] = 1.00001
    assert not np.array_equal(sketch(K)[1], sketch(other)[1])
    np.testing.assert_array_equal(sketch(K)[1], sketch(K * (1.0 + 2e-16))[1])
