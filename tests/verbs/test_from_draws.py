"""The evidence from draws that somebody has: exact truths, honest errors, mistakes in words."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import beta

import evidence as ev
from scripts.catalogue import drawn as problems

LOG_2PI = np.log(2.0 * np.pi)


def estimate(draws, log_density, **words):
    words = {"random_seed": 0, "progressbar": False, **words}
    return ev.evidence_from_draws(draws, log_density, **words)


def standard(x):
    return -0.5 * np.sum(x * x, axis=-1)


def codes(result):
    return {warning.code for warning in result.warnings}


@pytest.fixture(scope="module")
def gaussian():
    return np.random.default_rng(1).standard_normal((4, 500, 3))


@pytest.fixture(scope="module")
def plain(gaussian):
    """What they say."""
    return estimate(gaussian, standard)


PROBLEMS = {
    "gaussian": lambda: problems.gaussian(5),
    "bounded": problems.bounded,
    "skewed": problems.skewed,
    "banana": problems.banana,
    "student": problems.student,
    "bimodal": problems.bimodal,
    "schools": lambda: problems.schools(True),
    "schools_nc": lambda: problems.schools(False),
    "timber": lambda: problems.regression(0),
}


@pytest.mark.parametrize(
    ("name", "rho"), [*((name, 0.7) for name in PROBLEMS), (next(iter(PROBLEMS)), 0.0)]
)
def test_exact_truths(name, rho):
    """A z beyond 5 once in 10⁶."""
    problem = PROBLEMS[name]()
    rng = np.random.default_rng(3)
    draws = problem.draw(problems.chains(rng, (4, 600, problem.k), rho))
    result = estimate(draws, problem.log_density, bounds=problem.bounds)
    assert abs(result.logz - problem.logz) < 5.0 * result.logz_se
    assert result.logz_se < 0.06
    assert "other-density" not in codes(result)
    assert "heavy-tail" not in codes(result)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_honest_error_bars(name):
    """RMS z of 50 replications is within .65 and 1.4: 4 of its standard errors, 0.1, about 1."""
    problem, z = PROBLEMS[name](), []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        draws = problem.draw(problems.chains(rng, (4, 1000, problem.k), 0.9))
        result = estimate(draws, problem.log_density, bounds=problem.bounds, random_seed=seed)
        z.append((result.logz - problem.logz) / result.logz_se)
    assert 0.65 < np.sqrt(np.mean(np.square(z))) < 1.4


def test_quadrature_of_groups():
    """The truth of eight schools against a second quadrature, over μ and τ."""
    from scipy.integrate import dblquad

    y, sigma = np.array([1.0, -0.5, 2.0]), np.array([1.0, 0.5, 1.5])
    problem = problems.groups(y, sigma, 2.0, True)

    def normal(x, variance):
        return np.exp(-0.5 * x * x / variance) / np.sqrt(2 * np.pi * variance)

    def density(mu, tau):
        likelihood = np.prod(normal(y - mu, sigma**2 + tau**2))
        return likelihood * normal(mu, 4.0) * 2 / np.pi / 2 / (1 + (tau / 2) ** 2)

    value = dblquad(lambda m, t: density(m, t / (1 - t)) / (1 - t) ** 2, 0, 1, -15, 15,
                    epsabs=0.0, epsrel=1e-6)[0]  # fmt: skip
    assert problem.logz == pytest.approx(np.log(value), abs=1e-5)


@pytest.mark.slow
def test_named_draws_bounds_and_one_point_at_a_time():
    rng = np.random.default_rng(0)
    draws = {"rate": rng.gamma(2.5, size=(4, 400)), "p": rng.beta(2.0, 3.0, (4, 400, 2))}

    def many(p):
        inside = np.sum(np.log(p["p"]) + 2 * np.log1p(-p["p"]), axis=-1)
        return 1.5 * np.log(p["rate"]) - p["rate"] + inside

    bounds = {"rate": (0, None), "p": (0, 1)}
    result = estimate(draws, many, bounds=bounds)
    assert abs(result.logz - gammaln(2.5) - 2 * betaln(2, 3)) < 5 * result.logz_se
    assert result.settings["evaluations"] == 3200
    seen = []

    def one(p):
        seen.append((np.shape(p["rate"]), np.shape(p["p"])))
        return many(p)

    again = estimate(draws, one, bounds=bounds, vectorized=False)
    assert again.logz == pytest.approx(result.logz, abs=1e-12)
    assert set(seen) == {((), (2,))}
    by_column = [(0, None), (0, 1), (0, 1)]
    assert estimate(draws, many, bounds=by_column).logz == result.logz


def test_density_model_with_prior_and_names(gaussian):
    """Its own prior, limits and names; draws by name in any order, with others among them."""
    rng = np.random.default_rng(0)
    k, n = 7, 20
    draws = {"extra": np.zeros((4, 500)), "p": rng.beta(1 + k, 1 + n - k, (4, 500))}
    model = ev.DensityModel(
        lambda p: k * np.log(p[:, 0]) + (n - k) * np.log1p(-p[:, 0]), 1,
        prior={"p": beta(1, 1)}, vectorized=True,
    )  # fmt: skip
    result = estimate(draws, model)
    assert abs(result.logz - betaln(1 + k, 1 + n - k)) < 5 * result.logz_se
    with pytest.raises(ev.InputError, match="bounds"):
        estimate(draws, model, bounds=[(0, 1)])
    with pytest.raises(ev.InputError, match="draws"):
        estimate({"q": draws["p"]}, model)


def test_draws_of_our_own_sampler():
    model = ev.DensityModel(standard, 2, grad=lambda x: -x, vectorized=True)
    draws = ev.sample(
        model, draws=400, tune=300, chains=2, reference="laplace", random_seed=0, progressbar=False
    )
    result = estimate(draws.to_arviz(), model)
    assert abs(result.logz - LOG_2PI) < 5 * result.logz_se


def test_same_seed_same_answer_on_any_executor(gaussian, plain):
    with ThreadPoolExecutor(2) as executor:
        there = estimate(gaussian, standard, executor=executor)
    assert (there.logz, there.logz_se) == (plain.logz, plain.logz_se)
    assert plain.to_frame().empty  # it has no draws of its own
    assert estimate(gaussian, standard, random_seed=1).logz != plain.logz


def test_seed_of_the_draws_is_no_seed_of_the_proposal():
    """The same numbers for both would make them dependent."""
    draws = np.random.default_rng(0).standard_normal((1, 200, 1))
    result = estimate(draws, standard, proposal="normal", n_proposal=200)
    assert not np.isclose(*map(np.median, result.log_weights.values()), rtol=1e-9)


def test_notes_predict_what_more_of_either_does():
    """Within a quarter; predictions leave out that more draws fit better proposals."""
    problem = problems.skewed()
    z = problems.chains(np.random.default_rng(0), (4, 2000, problem.k), 0.0)
    draws = problem.draw(z)

    def run(draws, n):
        return estimate(draws, problem.log_density, proposal="normal", n_proposal=n)

    few = run(draws[:, :500], 1000)
    assert few.logz_se == pytest.approx(np.hypot(few.se_draws, few.se_proposal))
    pattern = r"4 times n_proposal logz_se would be about (\S+), with 4 times the draws (\S+)"
    proposals, more = map(float, re.search(pattern, few.notes[0]).groups())
    assert run(draws[:, :500], 4000).logz_se == pytest.approx(proposals, rel=0.25)
    assert run(draws, 1000).logz_se == pytest.approx(more, rel=0.25)


def test_result_is_saved_shown_drawn_and_compared(gaussian, plain, tmp_path):
    import matplotlib as mpl

    mpl.use("Agg")
    result = plain
    result.save(tmp_path / "bridge.npz")
    again = ev.BridgeEvidence.load(tmp_path / "bridge.npz")
    assert again.summary() == result.summary()
    assert again.halves.equals(result.halves)
    assert list(result.halves.columns[:2]) == ["logz", "logz_se"]
    assert "bridge" in repr(result)
    assert "overlap" in result._repr_html_()
    assert len(result.plot().axes[0].patches) == 2
    less = estimate(gaussian, lambda x: standard(x) - 2.0)
    table = ev.Comparison.of({"a": result, "b": less}, {"a": 1.0, "b": 1.0}).table
    assert table.log_bayes_factor["b"] == pytest.approx(-2.0, abs=1e-6)


def test_a_function_that_writes_into_its_rows(gaussian, plain):
    def greedy(x):
        value = standard(x)
        x[:] = 0.0
        return value

    kept = gaussian.copy()
    assert estimate(gaussian, greedy).logz == plain.logz
    np.testing.assert_array_equal(gaussian, kept)


# -- what could be wrong ----------------------------------------------------------------------


def test_forgotten_jacobian_and_other_data():
    rng = np.random.default_rng(0)
    draws = {"tau": rng.gamma(5.0, 0.2, (4, 800)), "mu": rng.standard_normal((4, 800))}

    def right(p):
        return 4 * np.log(p["tau"]) - 5 * p["tau"] - 0.5 * p["mu"] ** 2

    bounds = {"tau": (0, None)}
    assert "other-density" not in codes(estimate(draws, right, bounds=bounds))
    for wrong in (
        lambda p: right(p) + np.log(p["tau"]),
        lambda p: right(p) - 0.5 * (p["mu"] - 0.6) ** 2,
        lambda p: 0.7 * right(p),
    ):
        assert "other-density" in codes(estimate(draws, wrong, bounds=bounds))


def test_chains_that_disagree_and_few_draws(gaussian, plain):
    apart = gaussian + np.array([0.0, 0.0, 0.0, 1.0])[:, None, None]
    assert "chains-disagree" in codes(estimate(apart, standard))
    assert "few-draws" in codes(estimate(gaussian[:2, :20], standard))
    assert "axes-swapped" in codes(estimate(gaussian.reshape(100, 20, 3), standard))
    assert not codes(plain) & {"few-draws", "axes-swapped"}


def test_a_proposal_that_seldom_meets_the_posterior():
    """A Cauchy in ten dimensions and the normal with its draws' covariance."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 500, 10)) / np.abs(rng.standard_normal((4, 500, 1)))

    def cauchy(x):
        return -5.5 * np.log1p(np.sum(x * x, axis=1))

    assert "heavy-tail" in codes(estimate(x, cauchy, proposal="normal"))
    assert "heavy-tail" not in codes(estimate(x, cauchy))


def test_limits_that_nobody_told():
    rng = np.random.default_rng(0)
    x = np.stack([rng.exponential(size=(4, 500)), rng.standard_normal((4, 500))], axis=-1)

    def density(x):
        return np.where(x[:, 0] > 0.0, -x[:, 0], -np.inf) - 0.5 * x[:, 1] ** 2

    result = estimate(x, density)
    assert "bounds-missing" in codes(result)
    warning = next(w for w in result.warnings if w.code == "bounds-missing")
    assert "x[0] > 0" in warning
    assert "x[1]" not in warning
    better = estimate(x, density, bounds=[(0, None), None])
    assert better.logz_se < result.logz_se
    assert not codes(better)
    truth = 0.5 * LOG_2PI
    assert abs(result.logz - truth) < 5 * result.logz_se
    assert abs(better.logz - truth) < 5 * better.logz_se


def test_nan_counts_as_density_zero():
    x = np.random.default_rng(0).exponential(size=(4, 500, 1))

    def density(x):
        with np.errstate(invalid="ignore"):
            return 0.0 * np.sqrt(x[:, 0]) - x[:, 0]

    result = estimate(x, density)
    assert "density-nan" in codes(result)
    assert abs(result.logz) < 5 * result.logz_se


@pytest.mark.parametrize(
    ("draws", "density", "words", "match"),
    [
        ("good", lambda x: np.where(x[:, 0] > 1, -np.inf, 0.0), {}, "density 0"),
        ("good", lambda x: np.where(x[:, 0] > 1, np.inf, 0.0), {}, "log_density"),
        ("good", lambda x: np.sum(x), {"vectorized": True}, "vectorized"),
        ("good", "density", {}, "log_density"),
        ("good", standard, {"bounds": [(0, None)] * 3}, "bounds"),
        ("good", standard, {"bounds": [(0, None)] * 2}, "bounds"),
        ("good", standard, {"bounds": {"y": (0, 1)}}, "bounds"),
        ("good", standard, {"proposal": "norml"}, "proposal"),
        ("good", standard, {"proposal": "scaled"}, "proposal"),
        ("good", standard, {"n_proposal": 0}, "n_proposal"),
        ("good", standard, {"random_seed": -1}, "random_seed"),
        ("good", standard, {"executor": 2}, "executor"),
        ("constant", standard, {}, r"x\[1\] never"),
        ("twice", standard, {}, r"x\[0\], x\[1\]"),
        ("short", standard, {}, "few"),
    ],
)  # fmt: skip
def test_mistakes(gaussian, draws, density, words, match):
    x = gaussian.copy()
    if draws == "constant":
        x[..., 1] = 2.0
    elif draws == "twice":
        x[..., 1] = 3.0 * x[..., 0] - 1.0
    elif draws == "short":
        x = x[:1, :7]
    with pytest.raises(ev.InputError, match=match):
        estimate(x, density, **words)


@pytest.mark.parametrize(
    "density",
    [
        lambda x: -0.5 * x @ x,
        lambda x: -0.5 * float(x[0] ** 2 + x[1] ** 2 + x[2] ** 2),
        lambda x: -0.5 * np.sum(x**2),
        lambda x: -0.5 * (x[0] * x[0] + x[1:] @ x[1:]),
        lambda x: -0.5 * sum(v * v for v in x),
        lambda x: -0.5 * np.sum(x**2, axis=-1),
        lambda x: -0.5 * (x**2).sum(axis=1),
    ],
)
def test_functions_of_points_and_of_rows_are_told_apart(density):
    draws = np.random.default_rng(0).normal(size=(2, 200, 3))
    result = ev.evidence_from_draws(draws, density, random_seed=0, progressbar=False)
    assert abs(result.logz - 1.5 * np.log(2 * np.pi)) < 0.05


def test_named_functions_of_a_point():
    rng = np.random.default_rng(0)
    draws = {"a": rng.normal(size=(2, 200)), "b": rng.normal(size=(2, 200, 2))}
    result = ev.evidence_from_draws(
        draws, lambda p: -0.5 * p["a"] ** 2 - 0.5 * np.sum(p["b"] ** 2),
        random_seed=0, progressbar=False,
    )  # fmt: skip
    assert abs(result.logz - 1.5 * np.log(2 * np.pi)) < 0.05


def test_a_pymc_model_is_translated(monkeypatch):
    """By the adaptor, as in a comparison."""
    from evidence.verbs import compare as module

    class Program:
        """As a model of PyMC looks from outside."""

    Program.__module__ = "pymc.model.core"
    model = ev.DensityModel(lambda x: -0.5 * x @ x, dim=1, names=["a"])
    monkeypatch.setattr(module, "from_pymc", lambda program: model)
    draws = {"a": np.random.default_rng(0).normal(size=(2, 200))}
    words = {"random_seed": 0, "progressbar": False}
    result = ev.evidence_from_draws(draws, Program(), **words)
    assert result.logz == ev.evidence_from_draws(draws, model, **words).logz


@pytest.mark.parametrize(
    "one",
    [
        lambda x: np.array([-0.5 * np.sum(x * x)]),
        lambda x: [-0.5 * float(x @ x)],
        lambda x: np.array([[-0.5 * (x[0] ** 2 + x[1] ** 2 + x[2] ** 2)]]),
    ],
)
def test_one_point_may_have_its_number_in_an_array_of_one(gaussian, one):
    few = gaussian[:, :60]
    result = estimate(few, one)
    assert result.logz == pytest.approx(estimate(few, standard).logz, abs=1e-9)
    named = estimate({"x": few}, lambda p: one(p["x"]))
    assert named.logz == pytest.approx(result.logz, abs=1e-9)
