"""Leave-one-out against closed forms, quadrature and refits without the datum."""

from functools import cache

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp
from problems import LIKELIHOODS, log_z_by_quadrature, small_model
from scipy import stats
from scipy.special import logsumexp
from sparse_problems import twins

import evidence as ev
from evidence.approximations.gp.cavities import cavities, changes_of_others

mpl.use("Agg")
pytestmark = pytest.mark.usefixtures("small_searches", "no_layout")

X = np.linspace(0.0, 3.0, 12)
NOISE = 0.3


def smooth(noise=NOISE, seed=0, length=0.8):
    rng = np.random.default_rng(seed)
    y = np.sin(2.0 * X) + noise * rng.normal(size=X.size)
    return ev.GPModel(X, y, f"1.5 * RBF({length})", likelihood=f"gaussian(noise_std={noise})")


def closed_form(model):
    """Mean and variance of y_i given the others: Rasmussen and Williams, equation 5.12."""
    inverse = np.linalg.inv(model.K + model.likelihood.noise_std**2 * np.eye(model.n))
    var = 1.0 / np.diag(inverse)
    return model.y - var * (inverse @ (model.y - model.mean)), var


def without(model, i):
    rest = np.delete(np.arange(model.n), i)
    return ev.GPModel(
        K=model.K[np.ix_(rest, rest)], y=model.y[rest], mean=model.mean[rest],
        likelihood=model.likelihood.at(rest),
    )  # fmt: skip


def brute_force(model, log_z):
    return np.array([log_z(model) - log_z(without(model, i)) for i in range(model.n)])


def probit():
    y = np.where(np.sin(2.0 * X) + 0.4 * np.cos(9.0 * X) > 0, 1, -1)
    return ev.GPModel(X, y, "4.0 * RBF(0.7)", likelihood="probit")


@pytest.fixture(scope="module")
def exact_probit():
    return brute_force(probit(), lambda model: ev.fit_ep(model).logz_corrected)


@pytest.mark.parametrize("noise", [0.3, 1e-3])
def test_normal_noise_in_closed_form(noise):
    model = smooth(noise)
    mean, var = closed_form(model)
    result = ev.loo(model)
    exact = stats.norm.logpdf(model.y, mean, np.sqrt(var))
    np.testing.assert_allclose(result.pointwise, exact, atol=1e-5 if noise < 0.1 else 1e-9)
    np.testing.assert_allclose(result.pit, stats.norm.cdf(model.y, mean, np.sqrt(var)), atol=1e-5)
    assert result.elpd == pytest.approx(exact.sum())
    assert result.se == pytest.approx(np.sqrt(exact.size * exact.var(ddof=1)))
    trace = np.trace(np.linalg.solve(model.K + noise**2 * np.eye(12), model.K))
    assert 0.3 * trace < result.p_loo < 3.0 * trace
    assert result.method == "ep"
    assert not result.warnings
    assert result.logz == ev.fit_ep(model).logz


def test_probit_against_refits(exact_probit):
    result = ev.loo(probit())
    np.testing.assert_allclose(result.pointwise, exact_probit, atol=0.008)
    assert not result.notes
    assert result.pit.size == 0
    assert np.isnan(result.pareto_k).all()


@pytest.mark.parametrize("likelihood", [name for name in LIKELIHOODS if "student" not in name])
def test_against_quadrature(likelihood):
    model = small_model(likelihood)
    exact = brute_force(model, log_z_by_quadrature)
    np.testing.assert_allclose(ev.loo(model).pointwise, exact, atol=0.005)


@pytest.mark.slow
def test_heavy_tails_need_draws():
    model = small_model("student_t(df=4, scale=0.5)")
    exact = brute_force(model, log_z_by_quadrature)
    draws = ev.sample(model, draws=3000, tune=300, random_seed=0, progressbar=False)
    result = ev.loo(model, posterior=draws)
    np.testing.assert_allclose(result.pointwise, exact, atol=0.1)
    assert np.abs(result.by_method["ep"] - exact).max() > 0.2
    assert "not log-concave" in result.notes[0]


@cache
def counts():
    """Of a dense model, and EP's log Z without each of them."""
    y = np.random.default_rng(0).poisson(np.exp(np.sin(X)))
    model = ev.GPModel(X, y, "1.0 * Matern(length_scale=0.7, nu=1.5)", likelihood="poisson")
    return y, brute_force(model, lambda model: ev.fit_ep(model).logz)


@pytest.mark.parametrize("structure", ["dense", "markov", "vecchia(m=11)"])
def test_what_a_datum_changes_of_other_sites(structure):
    """EP's own log Z without the datum, up to second order in how far other sites move."""
    (y, exact), kernel = counts(), "1.0 * Matern(length_scale=0.7, nu=1.5)"
    model = ev.GPModel(X, y, kernel, likelihood="poisson", structure=structure)
    q = ev.fit_ep(model)
    cavity = cavities(q.gaussian.mean, q.gaussian.variances, q.sites.nu, q.sites.tau)
    plain = model.likelihood.tilted(model.y, cavity.mean, cavity.var)[0]
    corrected = plain - changes_of_others(model, q.gaussian, q.sites)
    assert np.abs(corrected - exact).max() < 0.2 * np.abs(plain - exact).max()
    np.testing.assert_allclose(ev.loo(model, max_refits=0).pointwise, corrected, rtol=1e-12)


@pytest.mark.slow
def test_two_modes():
    """Data that contradict each other, under heavy tails: no single Gaussian would do."""
    K = 25.0 * np.ones((3, 3)) + 0.5 * np.eye(3)
    model = ev.GPModel(K=K, y=[-4.0, 4.0, 4.3], likelihood="student_t(df=3, scale=0.4)")

    def log_z(model):
        """By the common level u: data are independent given it."""
        levels = np.linspace(-30.0, 30.0, 601)
        spread = np.full(model.n, 0.5)
        each = [
            model.likelihood.tilted(model.y, np.full(model.n, u), spread)[0].sum() for u in levels
        ]
        return logsumexp(each + stats.norm.logpdf(levels, scale=5.0)) + np.log(0.1)

    exact = brute_force(model, log_z)
    several = ev.loo(model, random_seed=0)
    np.testing.assert_allclose(several.pointwise, exact, atol=0.15)
    one = ev.loo(model, posterior=ev.fit_ep(model))
    assert np.nanmax(np.abs(one.pointwise - exact)) > 1.0
    assert any(w.code == "no-cavity" for w in one.warnings) == np.isnan(one.elpd)


@pytest.mark.parametrize("structure", ["design", "constrained"])
@pytest.mark.parametrize("likelihood", ["poisson", "gaussian(noise_std=0.5)", "logit"])
def test_sparse_as_dense(likelihood, structure):
    both = twins(likelihood, structure)
    sparse, dense = (ev.loo(model, random_seed=1, max_refits=0) for model in both)
    np.testing.assert_allclose(sparse.pointwise, dense.pointwise, atol=1e-5)
    np.testing.assert_allclose(sparse.fitted, dense.fitted, atol=1e-5)
    np.testing.assert_allclose(sparse.pit, dense.pit, atol=1e-5)


def test_psis_against_refits(exact_probit):
    """Errors of draws are about mcse; the limit is four of them for the sum."""
    model = probit()
    draws = ev.sample(model, draws=2000, random_seed=0, progressbar=False)
    result = ev.loo(model, posterior=draws)
    assert result.method == "psis"
    assert list(result.table.index) == ["ep", "psis"]
    assert abs(result.elpd - exact_probit.sum()) < 4.0 * result.mcse < 0.5
    np.testing.assert_allclose(result.pointwise, exact_probit, atol=0.1)
    flat = ev.loo(model, posterior=draws.x.reshape(-1, 12), method="psis")
    np.testing.assert_allclose(flat.pointwise, result.pointwise, atol=0.02)
    made = ev.loo(model, method="psis", random_seed=0, progressbar=False)
    assert abs(made.elpd - result.elpd) < 4.0 * np.hypot(result.mcse, made.mcse)


def test_monte_carlo_error_is_that_of_repetitions():
    """Of 40 repetitions with exact draws; the sd of an sd is 11 %."""
    model = smooth(0.5)
    q, rng = ev.fit_ep(model), np.random.default_rng(0)
    runs = [
        ev.loo(model, posterior=rng.multivariate_normal(q.mean, q.cov, 400), method="psis")
        for _ in range(40)
    ]
    spread, mcse = np.std([r.elpd for r in runs], ddof=1), np.mean([r.mcse for r in runs])
    assert 0.6 < mcse / spread < 1.6


@pytest.mark.slow
def test_samples_of_an_estimate():
    sparse, _ = twins("poisson")
    estimate = ev.log_evidence(sparse, random_seed=5, progressbar=False)
    draws, result = (
        ev.loo(sparse, posterior=estimate, max_refits=n, random_seed=5, progressbar=False)
        for n in (0, 36)
    )
    ep, anew = draws.by_method["ep"], result.pointwise != draws.pointwise
    assert 3 < anew.sum() < 20
    assert (draws.pareto_k[anew] > 0.7).any()
    np.testing.assert_allclose(result.pointwise[anew], ep[anew], atol=0.1)
    assert abs(draws.pointwise - ep)[anew].max() > 0.1
    assert abs(result.elpd - ep.sum()) < 2.0 * result.mcse < 2.0 * draws.mcse
    (note,) = (n for n in result.notes if "log Z less" in n)
    assert note.startswith(f"{anew.sum()} of 36 data")
    assert [w.code for w in draws.warnings] == ["pareto-k"]
    assert not result.warnings
    np.testing.assert_array_equal(result.by_method["psis"], result.pointwise)
    assert (result.logz, result.logz_se) == (estimate.logz, estimate.logz_se)
    assert 0.0 <= result.pit.min() < result.pit.max() <= 1.0


def test_influential_data_are_named():
    y = np.r_[np.zeros(10), 60.0]
    model = ev.GPModel(K=4.0 * np.eye(11) + 1.0, y=y, likelihood="poisson")
    draws = ev.sample(model, draws=300, tune=300, random_seed=0, progressbar=False)
    result = ev.loo(model, posterior=draws, max_refits=0)
    (warning,) = (w for w in result.warnings if w.code == "pareto-k")
    assert result.pareto_k[10] > 0.7
    assert "10" in warning.partition("number ")[2].partition(")")[0].split(", ")


# -- hyperparameters ------------------------------------------------------------------------

PRIORS = {"length_scale": stats.lognorm(0.5), "noise_std": stats.lognorm(0.3, scale=0.4)}


@pytest.fixture(scope="module")
def integrated():
    """A model with priors, and log p(y_i | y_-i) by quadrature over its hyperparameters."""
    base = smooth(0.4)
    names = base.hyperparameters.names
    priors = {name: p for name in names for end, p in PRIORS.items() if name.endswith(end)}
    model = base.with_priors(priors, fixed=[n for n in names if n not in priors])
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    total, rest = [], []
    for u, wu in zip(nodes, weights, strict=True):
        for v, wv in zip(nodes, weights, strict=True):
            there = base.at({"length_scale": np.exp(0.5 * u), "noise_std": 0.4 * np.exp(0.3 * v)})
            mean, var = closed_form(there)
            log_z = ev.fit_ep(there).logz + np.log(wu * wv)
            total.append(log_z)
            rest.append(log_z - stats.norm.logpdf(model.y, mean, np.sqrt(var)))
    return model, logsumexp(total) - logsumexp(rest, axis=0)


def test_hyperparameters_are_averaged_over(integrated):
    model, exact = integrated
    answer = ev.integrated_evidence(model, target_se=0.1, random_seed=0, progressbar=False)
    result = ev.loo(model, posterior=answer)
    np.testing.assert_allclose(result.pointwise, exact, atol=0.2)
    assert abs(result.elpd - exact.sum()) < 4.0 * result.mcse < 4.0
    assert result.logz == answer.logz


@pytest.mark.slow
def test_draws_of_hyperparameters(integrated):
    model, exact = integrated
    fixed = [n for n in model.hyperparameters.names if n not in model.priors.names]
    draws = ev.sample_hyperparameters(
        model, dict(model.priors.items()), fixed=fixed, scheme="whitened", draws=1000, tune=500,
        keep=500, random_seed=0, progressbar=False,
    )  # fmt: skip
    result = ev.loo(model, posterior=draws, random_seed=0)
    assert set(result.by_method) == {"ep", "psis"}
    for pointwise in result.by_method.values():
        assert abs(pointwise.sum() - exact.sum()) < 1.0
        np.testing.assert_allclose(pointwise, exact, atol=0.5)
    assert result.pit.shape == (12,)


def outlier():
    """Ten normal data, of which the first sets the noise, and their exact answers."""
    y, sigma = np.r_[8.0, np.random.default_rng(0).normal(size=9)], np.geomspace(1e-3, 50.0, 4001)

    def log_z(y):
        n, s2 = y.size, sigma**2
        half = n * np.log(2.0 * np.pi) + (n - 1) * np.log(s2) + np.log(s2 + 25.0 * n)
        half += (np.sum(y * y) - 25.0 * y.sum() ** 2 / (s2 + 25.0 * n)) / s2
        step = np.log(sigma[1] / sigma[0])
        return logsumexp(stats.halfnorm.logpdf(sigma, scale=5.0) - 0.5 * half, b=sigma * step)

    exact = np.array([log_z(y) - log_z(np.delete(y, i)) for i in range(10)])
    priors = {"Intercept": "norm(0, 5)", "sigma": "halfnorm(scale=5)"}
    return ev.from_formula("y ~ 1", {"y": y}, priors=priors), exact


def test_a_datum_that_sets_the_noise():
    model, exact = outlier()
    draws, result = (ev.loo(model, max_refits=n, random_seed=0, progressbar=False) for n in (0, 8))
    assert draws.pointwise[0] > exact[0] + 2.0
    assert [w.code for w in draws.warnings] == ["pareto-k"]
    assert result.pointwise[0] == pytest.approx(exact[0], abs=0.3)
    assert abs(result.elpd - exact.sum()) < 4.0 * result.mcse < 4.0
    assert not result.warnings
    assert "number 0" in result.notes[-1]


def test_where_draws_and_ep_are_apart_an_evidence_decides():
    """One of three survival times: draws said -4.2 at a Pareto k of .4, where by quadrature it is
    -6.429."""
    K = 2.47 + 5.76 * np.eye(3)
    model = ev.GPModel(K=K, y=[0.030, 0.044, 20.99], likelihood="weibull(shape=1.7)", mean=-0.1525)
    draws = ev.sample(model, random_seed=1, progressbar=False)
    result = ev.loo(model, draws, random_seed=1, progressbar=False)
    assert result.pointwise[2] == pytest.approx(-6.429, abs=0.02)


def test_data_that_are_all_the_same_without_an_outlier():
    """They have no evidence, and what is known stands, with a warning."""
    priors = {"Intercept": "norm(0, 5)", "sigma": "halfnorm(scale=5)"}
    model = ev.from_formula("y ~ 1", {"y": np.r_[np.ones(9), 5.0]}, priors=priors)
    result = ev.loo(model, random_seed=0, progressbar=False)
    assert [w.code for w in result.warnings] == ["pareto-k"]
    assert np.isfinite(result.pointwise).all()


@pytest.mark.slow
def test_evidences_of_other_priors_are_not_taken():
    """Hyperparameters that were integrated under priors that the model does not have."""
    y = outlier()[0].y
    bare = ev.GPModel(np.arange(10.0), y, "25.0 * RBF(1e4)", likelihood="gaussian")
    model = bare.with_priors({"sigma": "halfnorm(scale=5)"}, fixed=bare.hyperparameters.names[:2])
    integrated = ev.integrated_evidence(model, target_se=0.1, random_seed=0, progressbar=False)
    for one, codes in ((bare, ["pareto-k"]), (model, [])):
        result = ev.loo(one, posterior=integrated, random_seed=0, progressbar=False)
        assert [w.code for w in result.warnings] == codes


@pytest.mark.slow
@pytest.mark.parametrize("held", [{"sd(1|g)": 0.6}, {}])
def test_formulas(held):
    rng = np.random.default_rng(1)
    g = np.arange(48) % 8
    y = rng.poisson(np.exp(1.0 + 0.6 * rng.normal(size=8)[g]))
    data = {"y": y, "g": np.array(list("abcdefgh"))[g]}
    model = ev.from_formula("y ~ 1 + (1 | g)", data, likelihood="poisson", priors=held)
    ep, psis = (
        ev.loo(model, method=method, random_seed=0, progressbar=False) for method in ("ep", "psis")
    )
    errors = [view.mcse for view in (ep, psis)][bool(held) :]  # no draws: EP has none
    assert abs(ep.elpd - psis.elpd) < 4.0 * np.linalg.norm(errors) < 1.0
    np.testing.assert_allclose(ep.pointwise, psis.pointwise, atol=0.2)
    alone = ev.from_formula("y ~ 1", data, likelihood="poisson")
    without_groups = ev.loo(alone)
    difference = ep.difference(without_groups)
    assert difference.elpd > difference.se > 0.0
    assert difference.se < np.hypot(ep.se, without_groups.se)


# -- calibration ----------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["poisson", "gaussian(noise_std=0.5)", "student_t(df=4)"])
def test_pit_is_uniform_where_the_model_is_right(likelihood):
    """Kolmogorov's p value is below 0.001 once in a thousand seeds, were data independent."""
    n = 300
    Q = sp.diags_array([np.full(n - 1, -0.7), np.full(n, 1.6), np.full(n - 1, -0.7)],
                       offsets=[-1, 0, 1])  # fmt: skip
    model = ev.SparseModel(sp.csc_array(Q), np.zeros(n), likelihood=likelihood)
    model = ev.simulate(model, random_seed=3).model
    result = ev.loo(model, random_seed=0)
    assert stats.kstest(result.pit, "uniform").pvalue > 1e-3
    wrong = ev.SparseModel(sp.csc_array(Q), model.y + 2.0, likelihood=likelihood)
    assert stats.kstest(ev.loo(wrong, random_seed=0).pit, "uniform").pvalue < 1e-3


def test_pit_of_counts_by_quadrature():
    model = small_model("poisson(exposure=1.5)")
    results = [ev.loo(model, random_seed=seed) for seed in range(3)]
    for i, y in enumerate(model.y):
        parts = []
        for count in range(int(y) + 1):
            changed = model.y.copy()
            changed[i] = count
            other = ev.GPModel(K=model.K, y=changed, mean=model.mean, likelihood=model.likelihood)
            parts.append(np.exp(log_z_by_quadrature(other, 40)))  # log Z to 2e-5
        high = sum(parts) / np.exp(log_z_by_quadrature(without(model, i), 40))
        low = high * sum(parts[:-1]) / sum(parts)
        for result in results:
            assert low - 0.01 < result.pit[i] < high + 0.01


# -- results --------------------------------------------------------------------------------


def test_difference():
    right, long = ev.loo(smooth()), ev.loo(smooth(length=5.0))
    difference = right.difference(long)
    each = right.pointwise - long.pointwise
    assert difference.elpd == pytest.approx(right.elpd - long.elpd)
    assert difference.se == pytest.approx(np.sqrt(12 * each.var(ddof=1)))
    assert difference.se < np.hypot(right.se, long.se)
    assert right.difference(right) == (0.0, 0.0)
    with pytest.raises(ev.InputError, match="other is of other data"):
        right.difference(ev.loo(smooth(seed=1)))
    with pytest.raises(ev.InputError, match="other"):
        right.difference(3.0)


def test_copies_of_draws_are_not_draws():
    model = smooth(0.5)
    x = np.random.default_rng(0).multivariate_normal(*_moments(model), 300)
    once, thrice = (
        ev.loo(model, posterior=draws, method="psis") for draws in (x, np.repeat(x, 3, axis=0))
    )
    assert thrice.mcse == pytest.approx(once.mcse, rel=0.3)
    assert thrice.elpd == pytest.approx(once.elpd, abs=once.mcse)


def _moments(model):
    q = ev.fit_ep(model)
    return q.mean, q.cov


def test_result(tmp_path):
    sparse, _ = twins("poisson")
    draws = ev.sample(sparse, draws=100, tune=100, random_seed=0, progressbar=False)
    result = ev.loo(sparse, posterior=draws, max_refits=0, random_seed=0)
    frame = result.to_frame()
    assert list(frame) == ["y", "elpd", "p_loo", "pareto_k", "pit", "elpd_ep", "elpd_psis"]
    assert frame.elpd.sum() == pytest.approx(result.elpd)
    assert frame.p_loo.sum() == pytest.approx(result.p_loo)
    assert f"elpd = {result.elpd:.2f}" in result.summary()
    figure = result.plot(tmp_path / "loo.png")
    assert len(figure.axes) == 3
    assert len(figure.axes[0].lines) == 2
    result.save(tmp_path / "loo.npz")
    again = ev.LooResult.load(tmp_path / "loo.npz")
    np.testing.assert_array_equal(again.pointwise, result.pointwise)
    np.testing.assert_array_equal(again.by_method["ep"], result.by_method["ep"])
    assert again.summary() == result.summary()
    same = ev.loo(sparse, posterior=draws, max_refits=0, random_seed=0)
    np.testing.assert_array_equal(same.pit, result.pit)


def test_labels_have_no_pit():
    result = ev.loo(probit())
    assert len(result.plot().axes) == 1
    with pytest.raises(ev.InputError, match="no distribution function"):
        result.plot_pit()
    assert "pit" not in result.to_frame()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "waic"}, "unknown method 'waic'"),
        ({"posterior": "ep"}, "posterior must be Draws of ev.sample"),
        ({"posterior": np.zeros((4, 3)), "method": "ep"}, "posterior must be Draws of ev.sample"),
        ({"posterior": np.full((4, 12), np.nan)}, "draws contain NaN"),
        ({"max_draws": 1}, "max_draws"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ev.InputError, match=message):
        ev.loo(smooth(), **options)


def test_other_models_are_refused():
    with pytest.raises(ev.InputError, match="model must be"):
        ev.loo(ev.examples.banana())
    with pytest.raises(ev.InputError, match="posterior was fitted to another model"):
        ev.loo(smooth(), posterior=ev.fit_ep(smooth()))
    draws = ev.sample(smooth(length=2.0), draws=20, tune=20, random_seed=0, progressbar=False)
    with pytest.raises(ev.InputError, match="posterior was made for another model"):
        ev.loo(smooth(), posterior=draws)
    hot = ev.sample(smooth(), draws=20, tune=20, beta=0.5, random_seed=0, progressbar=False)
    with pytest.raises(ev.InputError, match="beta"):
        ev.loo(smooth(), posterior=hot)


@pytest.mark.slow
def test_a_result_where_data_see_several_predictors():
    """It has no draws of latent values: they are made, as if none were given."""
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=20), "g": np.arange(20) % 4}
    data["y"] = data["x"] + rng.normal(size=20)
    model = ev.from_formula("y ~ x + (1 | g)", data, predictors={"sigma": "1"})
    result = ev.log_evidence(model, target_se=0.5, random_seed=0, progressbar=False)
    assert isinstance(result, ev.IntegratedEvidence)
    words = {"random_seed": 0, "progressbar": False}
    assert ev.loo(model, result, **words).elpd == ev.loo(model, **words).elpd


def test_normal_noise_needs_no_draws():
    """Of twelve columns and twenty rows weights of draws were 1.5 too high, at ± .2, unwarned."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(20, 12)), rng.normal(size=20) + 2.0
    data = {f"x{j}": x[:, j] for j in range(12)} | {"y": y}
    formula = "y ~ 1 + " + " + ".join(f"x{j}" for j in range(12))
    model = ev.from_formula(formula, data, priors={"sigma": 0.7})
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    A = np.c_[np.ones(20), x - x.mean(axis=0)]
    sd = 2.5 * y.std() / np.r_[1.0, x.std(axis=0)]
    inverse = np.linalg.inv((A * sd**2) @ A.T + 0.49 * np.eye(20))
    var = 1.0 / np.diag(inverse)
    mean = y - var * (inverse @ (y - y.mean()))
    exact = stats.norm(mean, np.sqrt(var)).logpdf(y)
    found = ev.loo(model, result, random_seed=0)
    np.testing.assert_allclose(found.pointwise, exact, atol=1e-6)
    assert (found.method, list(found.by_method)) == ("ep", ["ep"])


@pytest.mark.slow
def test_tails_that_few_draws_do_not_show_widen_the_error():
    """Four columns and eight rows under Student-t noise: 1.8 too high at ± .2, unwarned."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(8, 4))
    y = x.sum(axis=1) + 0.5 * rng.standard_t(6, size=8)
    data = {f"x{j}": x[:, j] for j in range(4)} | {"y": y}
    priors = dict.fromkeys(["Intercept", "x0", "x1", "x2", "x3"], "norm(0, 3)")
    priors |= {"sigma": 0.5, "df": 6.0}
    words = {"likelihood": "student_t", "priors": priors}
    model = ev.from_formula("y ~ 1 + x0 + x1 + x2 + x3", data, **words)
    for seed in range(3):
        result = ev.log_evidence(model, random_seed=seed, progressbar=False)
        found = ev.loo(model, result, random_seed=seed, progressbar=False)
        assert abs(found.elpd + 17.338) < 4.0 * np.hypot(found.mcse, 0.023)


def test_of_few_data_with_two_predictors():
    """A datum that moves four coefficients by half a nat has an evidence without it: weights of
    draws were up to .4 nats too high, at a Pareto k of .4 and an error bar of a quarter of it."""
    data = {
        "x": [-2.17, -0.75, -0.24, -0.22, -0.78, 0.79, 0.63, -1.13],
        "z": [-0.73, 0.22, 0.25, -0.85, 0.57, -0.58, -0.33, -0.48],
        "y": [-0.686, 0.822, 1.031, 0.595, -1.966, 1.035, -0.436, -0.099],
    }
    priors = {
        "Intercept": stats.norm(0.2, 1.0), "x": stats.norm(0.1, 0.8),
        "sigma:Intercept": stats.norm(-0.3, 0.6), "sigma:z": stats.norm(0.1, 0.5),
    }  # fmt: skip
    model = ev.from_formula("y ~ x", data, priors=priors, predictors={"sigma": "z"})
    z = np.random.default_rng(0).standard_normal((1_000_000, 4))
    at = z * [1.0, 0.8, 0.6, 0.5] + [0.2, 0.1, -0.3, 0.1]
    x, w, y = (np.array(data[name])[:, None] for name in "xzy")
    log_p = stats.norm.logpdf(y, at[:, 0] + x * at[:, 1], np.exp(at[:, 2] + w * at[:, 3]))
    every = np.logaddexp.reduce(log_p.sum(axis=0))
    exact = every - np.logaddexp.reduce(log_p.sum(axis=0) - log_p, axis=1)
    for seed in range(3):
        result = ev.loo(model, random_seed=seed, progressbar=False)
        assert abs(result.elpd - exact.sum()) < 3.0 * result.mcse < 0.7
        np.testing.assert_allclose(result.pointwise, exact, atol=0.15)


def test_an_outlier_that_sets_the_posterior_is_left_out_by_an_evidence():
    """Fourteen counts, one of them 15: against quadrature. EP's cavity of it is half a nat off."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=14)
    y = rng.poisson(np.exp(0.4 + 0.5 * x))
    y[3] = 15
    grid = np.linspace(-8.0, 8.0, 401)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    each = [stats.poisson.logpmf(yi, np.exp(a + b * xi)) for xi, yi in zip(x, y, strict=True)]
    whole = stats.norm.logpdf(a) + stats.norm.logpdf(b) + sum(each)
    exact = [logsumexp(whole) - logsumexp(whole - one) for one in each]
    priors = {"Intercept": "norm(0, 1)", "x": "norm(0, 1)"}
    model = ev.from_formula("y ~ x", {"x": x, "y": y}, likelihood="poisson", priors=priors)
    found = ev.loo(model, random_seed=0, progressbar=False)
    np.testing.assert_allclose(found.pointwise, exact, atol=0.05)
    assert abs(ev.loo(model, max_refits=0, random_seed=0).elpd - sum(exact)) > 0.3
