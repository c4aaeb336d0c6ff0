"""log Z of densities against exact truths, by every method; the same numbers everywhere."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import cache

import numpy as np
import pytest
from covering import seldom
from models.density.cases import bell, bell_slope, independent, jax_banana, limited, logistic
from scipy import stats
from scipy.special import betaln, logsumexp

import evidence as ev
from evidence import moves
from evidence.approximations.density.fitted import fit_density
from evidence.approximations.density.policy import EFFORTS
from evidence.models.density.checking import central
from evidence.paths.density import own_path
from evidence.paths.families import make_path


def estimate(model, **words):
    return ev.log_evidence(model, **{"random_seed": 0, "progressbar": False} | words)


# -- truths -------------------------------------------------------------------------------------


def gaussian():
    """Correlated, in five dimensions, scaled by 10 from the first to the last."""
    scale = np.geomspace(0.3, 3.0, 5)
    cov = (0.6 * np.eye(5) + 0.4) * np.outer(scale, scale)
    P, mean = np.linalg.inv(cov), np.arange(5.0)
    model = ev.DensityModel(
        lambda x: -0.5 * np.einsum("mi,ij,mj->m", x - mean, P, x - mean),
        5,
        grad=lambda x: -(x - mean) @ P,
        hessian=lambda x: np.tile(-P, (len(x), 1, 1)),
        vectorized=True,
    )
    return model, 0.5 * np.linalg.slogdet(2.0 * np.pi * cov)[1]


def beta(**words):
    """Seven successes and three failures."""
    model = ev.DensityModel(
        lambda t: 7.0 * np.log(t[:, 0]) + 3.0 * np.log1p(-t[:, 0]),
        1,
        grad=lambda t: 7.0 / t - 3.0 / (1.0 - t),
        vectorized=True,
        **words,
    )
    return model, betaln(8.0, 4.0)


def heavy():
    """Twice Student's t with three degrees of freedom."""
    peak = stats.t(3.0).logpdf(0.0)
    model = ev.DensityModel(
        lambda x: (peak - 2.0 * np.log1p(x * x / 3.0)).sum(axis=1) + 2.5,
        2,
        grad=lambda x: -4.0 * x / (3.0 + x * x),
        vectorized=True,
    )
    return model, 2.5


def mixture(means, sds, weights):
    """Gaussians with diagonal covariances; exact Z = 1."""
    means, sds, log_w = np.asarray(means, float), np.asarray(sds, float), np.log(weights)
    log_w = log_w - np.log(sds).sum(axis=1) - 0.5 * means.shape[1] * np.log(2.0 * np.pi)

    def parts(x):
        z = (x[:, None, :] - means) / sds
        return z, log_w - 0.5 * (z * z).sum(axis=2)

    def slope(x):
        z, terms = parts(x)
        r = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))
        return -np.einsum("mk,mkd->md", r, z / sds)

    model = ev.DensityModel(
        lambda x: logsumexp(parts(x)[1], axis=1), means.shape[1], grad=slope, vectorized=True
    )
    return model, 0.0


def two_far():
    return mixture([[-3.0, 0.0], [3.0, 1.0]], [[1.0, 0.7], [0.6, 1.2]], [0.3, 0.7])


def one_in_the_other():
    return mixture(np.zeros((2, 3)), [[0.3] * 3, [1.5] * 3], [0.5, 0.5])


TRUTHS = {
    "gaussian": gaussian,
    "beta, bounds": lambda: beta(bounds=[(0.0, 1.0)]),
    "beta, prior": lambda: beta(prior=[stats.uniform()]),
    "heavy": heavy,
    "two far": two_far,
    "one in the other": one_in_the_other,
    "limited": lambda: limited()[:2],
    "logistic": lambda: logistic()[:2],
    "independent": lambda: independent()[:2],
}


@pytest.mark.parametrize("name", TRUTHS)
def test_gradients_of_the_truths(name):
    model, _ = TRUTHS[name]()
    x = np.random.default_rng(0).standard_normal((3, model.n))
    np.testing.assert_allclose(
        model.log_prob_and_gradient(x)[1], central(model.log_prob, x), atol=1e-6
    )


@cache
def prepared(name):
    """A truth, and what methods start from where they are told to search little."""
    model, truth = TRUTHS[name]()
    return model, truth, fit_density(model, policy=EFFORTS["frugal"])


_NAMES = ("gaussian", "beta, bounds", "heavy", "two far")
_CASES = [
    *((name, "auto") for name in _NAMES),
    *zip(_NAMES * 2, ["smc", "ais", "arm", "importance", "arm", "importance", "ais", "smc"],
         strict=True),
]  # fmt: skip
_LONG = [pytest.param(name, "pt", marks=pytest.mark.slow) for name in _NAMES]


@pytest.mark.parametrize(("name", "method"), [*_CASES, *_LONG])
def test_exact_truth(name, method):
    """Within 4.5 standard errors (1e-4 per case with 15 degrees of freedom)."""
    model, truth, fit = prepared(name)
    words = {"target_se": 0.05}
    if method == "pt":
        words = {"n_sweeps": 32, "n_particles": 16, "n_levels": 6}
    # auto looks for itself: with full effort in the test below
    words |= {"effort": "frugal"} if method == "auto" else {"reference": fit}
    result = estimate(model, method=method, **words)
    assert abs(result.logz - truth) < 4.5 * max(result.logz_se, 2e-3)
    assert 0.0 <= result.logz_se < (0.15 if method == "pt" else 0.08)
    assert result.samples.shape[1] == model.n


@pytest.mark.parametrize(
    "name",
    [
        "beta, prior",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("one in the other", "limited", "heavy")
        ),
    ],
)
def test_exact_truth_by_the_default(name):
    model, truth = TRUTHS[name]()
    result = estimate(model)
    assert abs(result.logz - truth) < 4.5 * max(result.logz_se, 2e-3)


@pytest.mark.parametrize("reference", ["fitted", "laplace", "prior"])
def test_every_reference(reference):
    case = logistic()
    words = {"method": "smc", "effort": "frugal", "target_se": 0.05}
    result = estimate(case.model, reference=reference, **words)
    assert abs(result.logz - case.logz) < 4.5 * result.logz_se
    assert result.settings["reference"] == reference


@pytest.mark.slow
def test_samples_are_parameters():
    """Of a model with bounds: inside them, with the moments of exact draws."""
    case = limited()
    exact = case.draws(np.random.default_rng(1), 100_000)
    fit = fit_density(case.model, policy=EFFORTS["frugal"])
    result = estimate(case.model, method="smc", reference=fit, n_particles=128, n_islands=8)
    draws = ev.sample(
        case.model, move="hmc", draws=300, tune=100, reference=fit, random_seed=0,
        progressbar=False,
    )  # fmt: skip
    for x in (result.samples, draws.x.reshape(-1, 3)):
        assert (x[:, 0] > 0.0).all()
        assert (x[:, 1] < 2.0).all()
        assert ((x[:, 2] > 0.0) & (x[:, 2] < 1.0)).all()
        error = (x.mean(axis=0) - exact.mean(axis=0)) / exact.std(axis=0)
        assert (np.abs(error) < 0.2).all()  # at least 500 effective draws: 4.5 sd


# -- calibration --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "smc", "pt", "ais"])
@pytest.mark.parametrize("name", ["gaussian", "beta, bounds", "heavy", "two far", "limited"])
def test_calibration(name, method):
    """RMS z over 48 seeds, unless the answer is exact to rounding.

    For t with 15 degrees of freedom it is 1.07 ± 0.12: outside of 0.6 to 1.6 by chance with
    probability 1e-4 at most.
    """
    z = []
    for seed in range(48):
        model, truth = TRUTHS[name]()
        words = {"n_sweeps": 64} if method == "pt" else {"target_se": 0.1}
        result = estimate(model, method=method, random_seed=seed, **words)
        z.append((result.logz - truth) / max(result.logz_se, 1e-5))
    assert 0.6 < np.sqrt(np.mean(np.square(z))) < 1.6 or result.logz_se < 1e-5


# -- the same numbers everywhere ----------------------------------------------------------------

SMALL = {"n_islands": 4, "n_particles": 64}


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["evidence"])
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        yield executor


def model_for_processes(**words):
    return ev.DensityModel(bell, 2, grad=bell_slope, vectorized=True, **words)


@pytest.mark.parametrize("method", seldom(["auto", "ais", "arm"], 0))
def test_same_seed_same_answer(method):
    """The search included, by which the default starts."""
    words = {"effort": "frugal"} if method == "auto" else {"reference": "laplace"}
    words |= SMALL | {"method": method}
    first, second = (estimate(model_for_processes(), **words) for _ in range(2))
    assert first.logz == second.logz
    np.testing.assert_array_equal(first.samples, second.samples)
    other = estimate(model_for_processes(), **words | {"random_seed": 1})
    assert other.logz != first.logz


@pytest.mark.slow
@pytest.mark.parametrize("method", ["smc", "pt"])
def test_processes_give_the_same_numbers(processes, method):
    words = SMALL | ({"n_sweeps": 8, "n_particles": 16} if method == "pt" else {})
    words |= {"method": method, "reference": "laplace"}
    here = estimate(model_for_processes(), **words)
    there = estimate(model_for_processes(), executor=processes, **words)
    assert here.logz == there.logz
    assert not there.warnings
    np.testing.assert_array_equal(here.samples, there.samples)


@pytest.mark.slow
def test_processes_with_jax(processes):
    words = SMALL | {"method": "smc", "reference": "laplace"}
    here = estimate(ev.from_jax(jax_banana, 2), **words)
    there = estimate(ev.from_jax(jax_banana, 2), executor=processes, **words)
    assert here.logz == there.logz
    np.testing.assert_array_equal(here.samples, there.samples)
    assert abs(here.logz - 1.5) < 4.5 * here.logz_se


def test_a_sampler_need_not_travel(processes):
    model = model_for_processes(sampler=lambda rng, m: rng.standard_normal((m, 2)) + 1.0)
    words = SMALL | {"method": "smc", "reference": "laplace"}
    here, there = (estimate(model, executor=executor, **words) for executor in (None, processes))
    assert here.logz == there.logz


def test_a_lambda_cannot_be_sent(processes):
    def bowl(x):
        return -0.5 * (x * x).sum(axis=1)

    model = ev.DensityModel(bowl, 2, grad=lambda x: -x, vectorized=True)
    with pytest.raises(ValueError, match=r"cannot be sent to other processes.*import"):
        estimate(model, method="smc", reference="laplace", executor=processes, **SMALL)


def test_a_checkpoint_of_another_density_is_refused(tmp_path):
    words = SMALL | {"method": "smc", "reference": "laplace", "checkpoint": tmp_path / "run.ckpt"}
    first = estimate(model_for_processes(), **words)
    again = estimate(model_for_processes(), **words)
    assert again.logz == first.logz
    others = [
        ev.DensityModel(lambda x: bell(x) + 1.0, 2, grad=bell_slope, vectorized=True),
        model_for_processes(bounds=[(0.0, None), None]),
        model_for_processes(sampler=lambda rng, m: 2.0 * rng.standard_normal((m, 2))),
        model_for_processes(metric=ev.SoftAbs(1.0)),
    ]
    for other in others:
        with pytest.raises(ValueError, match="model"):
            estimate(other, **words)


def test_ais_in_both_directions_with_draws_in_parameters():
    """Posterior draws of a model with bounds are its parameters, not its coordinates."""
    case = limited()
    draws = case.draws(np.random.default_rng(2), 400)
    result = ev.ais(
        case.model,
        direction="both",
        posterior=draws,
        reference="laplace",
        n_particles=400,
        random_seed=0,
        progressbar=False,
    )
    table = result.estimates
    for name in ("ais_forward", "ais_reverse", "ais"):
        assert abs(table.logz[name] - case.logz) < 4.5 * max(table.logz_se[name], 0.01)
    words = {"direction": "both", "reference": "laplace", "progressbar": False}
    with pytest.raises(ValueError, match="outside their bounds"):
        ev.ais(case.model, posterior=-draws, **words)


def test_a_run_without_gradients_goes_to_its_end(monkeypatch):
    """When moves mix slowly, those that need what the model has not are not tried."""
    monkeypatch.setattr("evidence.methods.auto.stuck", lambda plan: np.ones(1))
    model = ev.DensityModel(bell, 2, vectorized=True)
    result = estimate(model, betas=4, n_particles=64, n_islands=4, effort="frugal")
    assert abs(result.logz) < 4.5 * result.logz_se


@pytest.mark.slow
def test_a_density_without_mass_where_one_looks():
    """-inf beyond a wall: no warnings of NumPy, a right answer."""
    model = ev.DensityModel(
        lambda x: np.where(x[:, 0] > 0.5, -0.5 * (x * x).sum(axis=1), -np.inf),
        2,
        grad=lambda x: -x,
        vectorized=True,
    )
    truth = np.log(2.0 * np.pi) + stats.norm.logsf(0.5)
    fit = fit_density(model, policy=EFFORTS["frugal"])
    result = estimate(model, method="smc", reference=fit, n_particles=128, n_islands=8)
    assert abs(result.logz - truth) < 4.5 * max(result.logz_se, 2e-3)
    path = make_path(fit)
    y = path.mean + np.random.default_rng(3).standard_normal((200, 2)) @ path.reference.root.T
    for move in (ev.moves.HMC(0.3), ev.moves.PCN(1.0), ev.moves.EllipticalSlice()):
        state = move.init(path, y)
        assert np.isneginf(state.tilt).any()
        state, _ = move.step(np.random.default_rng(4), path, 0.5, state)
        assert np.isfinite(state.tilt).mean() > np.isfinite(path.tilt(y)).mean()


def test_a_density_with_kinks_has_an_evidence():
    """Its Hessian is singular or worse wherever one looks."""

    def kinked(x):
        return -np.abs(x[:, 0]) - np.abs(x[:, 1] - np.abs(x[:, 0]))

    model = ev.DensityModel(kinked, dim=2, vectorized=True)
    result = estimate(model, effort="frugal")
    assert abs(result.logz - np.log(4.0)) < 4.0 * result.logz_se


@pytest.mark.parametrize(
    "kind", [moves.HMC, moves.NUTS, moves.MGrad, moves.Langevin, moves.AGradZ]
)
def test_steps_that_are_too_long_are_rejected_without_a_warning(kind):
    """Each length overflows somewhere else."""
    path, rng = own_path(ev.examples.banana(0.1).model), np.random.default_rng(0)
    start = rng.standard_normal((20, 2))
    for power in (2, 20, 40, 50, 100, 101, 102, 103, 150, 155, 200, 300, 308):
        move = kind(10.0**power, coordinates="identity")
        state = move.init(path, start)
        for _ in range(3):
            state, _ = move.step(rng, path, 1.0, state)
        assert np.isfinite(state.tilt).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b", "effort"),
    [(0.2, 0.3, "normal"), (2.0, 0.2, "frugal")],
)
def test_poles_at_the_bounds(a, b, effort):
    """Beta functions whose density grows without limit at a bound; 0.3 nats would be seen."""
    model = ev.DensityModel(
        lambda x: (a - 1.0) * np.log(x[0]) + (b - 1.0) * np.log1p(-x[0]), dim=1, bounds=[(0, 1)]
    )
    result = estimate(model, effort=effort)
    assert abs(result.logz - betaln(a, b)) < 4.0 * result.logz_se < 0.3
    draws = ev.sample(model, draws=100, tune=100, random_seed=0, progressbar=False)
    assert np.isfinite(draws.logtilt).all()
    assert draws.failures == 0
