"""Gaussian mixed models in closed form, and hyperparameters integrated without EP."""

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from covering import seldom
from scipy import stats
from scipy.stats import multivariate_normal

import evidence as ev
from evidence.hyper import direct as direct_room
from evidence.hyper.direct import density_over
from evidence.hyper.grouped import grouped_evidence
from evidence.hyper.parts import parts_of
from evidence.models.scales import natural
from scripts.catalogue.hyperparameters import KINDS, random_hyperparameters

RNG = np.random.default_rng(5)
N = 40
DATA = pd.DataFrame(
    {
        "y": 3.0 + 2.0 * RNG.standard_normal(N),
        "x": RNG.standard_normal(N),
        "g": RNG.integers(0, 6, N).astype(str),
        "h": RNG.integers(0, 4, N).astype(str),
        "k": RNG.integers(0, 3, N).astype(str),
        "t": np.arange(N) % 10,
    }
)
FORMULAS = [
    "y ~ 1 + (1|g)",
    "y ~ 0 + (1|g)",
    "y ~ x + offset(x) + (1 + x|g)",
    "y ~ x + (1 + x||g) + (1|h)",
    "y ~ x + (1|g/k)",
    "y ~ 1 + (1|g/k) + (0 + x|h)",
    "y ~ 1 + (1|h) + ar1(t)",
    "y ~ 1",
    "y ~ x + g + offset(x)",
]


def closed_form(model):
    return grouped_evidence(model, parts_of(model, model.priors))


def direct(model):
    A, Q = model.A.toarray(), model.Q.toarray()
    cov = A @ np.linalg.solve(Q, A.T) + np.diag(model.theta[1] ** 2)
    return multivariate_normal(model.prior.mean, cov).logpdf(model.y)


@pytest.mark.parametrize("formula", FORMULAS)
def test_closed_form_is_the_normal_density_of_the_data(formula):
    model = ev.from_formula(formula, DATA)
    theta = RNG.normal(size=(4, len(model.priors)))
    got = closed_form(model)(natural(theta, model.priors.lows))
    np.testing.assert_allclose(got, [direct(model.at(t)) for t in theta], rtol=1e-8)


def test_sparse_models_noise_that_is_held_and_noise_of_its_own():
    A = ev.precisions.blocks(
        fixed=ev.precisions.iid(1, 10.0, sigma_bounds="fixed"), group=ev.precisions.iid(3)
    )
    design = A.predictor(fixed=np.ones((9, 1)), group=np.repeat(np.eye(3), 3, axis=0))
    for noise in ("gaussian(noise_std=0.7)", ev.likelihoods.Gaussian(np.linspace(0.5, 2.0, 9))):
        model = ev.SparseModel(A, DATA.y[:9], likelihood=noise, A=design)
        held = [n for n in model.hyperparameters.names if n.startswith("likelihood")]
        model = model.with_priors({"group__sigma": stats.expon()}, fixed=held)
        got = closed_form(model)(np.array([[0.3], [4.0]]))
        want = [direct(model.at({"group__sigma": s})) for s in (0.3, 4.0)]
        np.testing.assert_allclose(got, want, rtol=1e-9)


@pytest.mark.parametrize("ratio", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_no_ratio_of_noise_to_prior_costs_digits(ratio, scale):
    """Against 60 digits; data that lie as near to their groups' means as the noise is large.

    Doubles hold such a distance to 1e-16 of the data.
    """
    g = np.repeat(np.arange(3), 2)
    y = scale * (np.array([1.0, -2.0, 0.5])[g] + min(ratio, 1.0) * np.array([1, -1, 2, 0, -1, 3]))
    data = {"y": y, "g": g.astype(str)}
    priors = {"Intercept": stats.norm(0.0, scale)}
    model = ev.from_formula("y ~ 1 + (1|g)", data, priors=priors)
    tau, s = scale, ratio * scale
    with mp.workdps(60):
        C = mp.matrix(6, 6)
        for i in range(6):
            for j in range(6):
                C[i, j] = mp.mpf(scale) ** 2 + (mp.mpf(tau) ** 2 if g[i] == g[j] else 0)
            C[i, i] += mp.mpf(s) ** 2
        r = mp.matrix(y.tolist())
        want = -(r.T * mp.lu_solve(C, r))[0] / 2 - mp.log(mp.det(C)) / 2 - 3 * mp.log(2 * mp.pi)
    got = closed_form(model)(np.array([[tau, s]]))[0]
    assert got == pytest.approx(float(want), rel=1e-9, abs=max(1e-7, 2e-15 / ratio))


@pytest.mark.slow
def test_a_mode_of_small_noise_and_large_sd_is_found():
    """By the optimum that a search finds from the data's scale log Z would be 20 nats too low."""
    means, sizes = np.array([10.3, -15.3, 10.9, 4.76, 11.4]), [3, 3, 2, 2, 2]
    g = np.repeat(np.arange(5), sizes)
    y = means[g] + 0.01 * np.random.default_rng(3).standard_normal(12)
    priors = {"Intercept": "norm(0, 1)", "sd(1|g)": "halfnorm()", "noise_std": "uniform(0, 100)"}
    model = ev.from_formula("y ~ 1 + (1|g)", {"y": y, "g": g.astype(str)}, priors=priors)
    t, s = np.meshgrid(np.linspace(-6.0, 4.0, 200), np.linspace(-9.0, 5.0, 400), indexing="ij")
    tau, noise = np.exp(t.ravel())[:, None], np.exp(s.ravel())[:, None]
    n, mean = np.array(sizes), np.bincount(g, y) / sizes
    within = np.sum((y - mean[g]) ** 2)
    c = n * tau**2 + noise**2  # of √n ȳ about √n b
    precise = 1.0 + np.sum(n / c, axis=1)
    b = np.sum(n * mean / c, axis=1) / precise
    squares = np.sum(n * (mean - b[:, None]) ** 2 / c, axis=1) + b**2 + within / noise[:, 0] ** 2
    log_z = -0.5 * (squares + np.log(c).sum(axis=1) + np.log(precise)) - 7.0 * np.log(noise[:, 0])
    log_p = stats.halfnorm().logpdf(tau[:, 0]) + stats.uniform(0, 100).logpdf(noise[:, 0])
    total = log_z - 6.0 * np.log(2.0 * np.pi) + log_p + t.ravel() + s.ravel()
    exact = np.logaddexp.reduce(total) + np.log(10.0 / 199 * 14.0 / 399)
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert abs(result.logz - exact) < 4.0 * result.logz_se + 1e-4
    assert result.logz_se < 0.01
    assert not result.warnings
    w = np.exp(total - total.max())
    assert result.table["mean"].iloc[0] == pytest.approx(w @ tau[:, 0] / w.sum(), abs=0.1)
    assert result.optimum.table.value["sigma"] < 0.1


FEW = {
    "student_t": 5.0 + stats.t(3).rvs(12, random_state=4),
    "negative_binomial": np.random.default_rng(2).negative_binomial(2, 0.3, 12),
    "gamma": np.random.default_rng(3).gamma(2.0, 3.0, 12),
    "ordinal": np.arange(12) % 3,
}


@pytest.mark.parametrize(
    "family",
    ["ordinal", *(pytest.param(name, marks=pytest.mark.slow) for name in list(FEW)[:3])],
)
def test_few_latent_values_stay_in_the_integral(family):
    """Its density is the likelihood of every datum; the sum over a box is the evidence."""
    model = ev.from_formula("y ~ 1", {"y": FEW[family]}, likelihood=family)
    density, prior = density_over(model, model.priors), model.priors
    fine, u = (np.arange(100) + 0.5) / 100.0, (np.arange(24) + 0.5) / 24.0
    axes = [stats.norm.ppf(fine), *[d.ppf(u) for d in prior.natural()]]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    rows = grid[RNG.integers(0, len(grid), 5)]
    for row, got in zip(rows, density.calls["logdensity"](rows), strict=True):
        here = model.at(dict(zip(prior.names, row[1:], strict=True)))
        x = here.mean + row[:1] / np.sqrt(here.Q.toarray()[0])
        assert got == pytest.approx(here.likelihood.log_prob(here.predictors(x), here.y).sum())
    words = {"effort": "frugal", "target_se": 0.02, "random_seed": 0, "progressbar": False}
    result = ev.integrated_evidence(model, **words)
    value = density.calls["logdensity"](grid)
    assert result.logz == pytest.approx(np.logaddexp.reduce(value) - np.log(len(grid)), abs=0.1)
    assert result.logz_se < 0.025
    assert not result.warnings


def test_what_has_no_closed_form_is_left_to_ep():
    poisson = ev.from_formula("k ~ 1 + (1|g)", DATA.astype({"k": int}), likelihood="poisson")
    assert density_over(poisson, poisson.priors) is None


class NoQuantiles:
    """A log-normal prior that a user wrote: a density and draws alone."""

    args, kwds, dist = (), {}, stats.lognorm
    own = stats.lognorm(1.0)

    def __init__(self):
        self.logpdf, self.rvs, self.support = self.own.logpdf, self.own.rvs, self.own.support


@pytest.mark.slow
def test_a_prior_without_quantiles_is_left_to_a_search():
    model = ev.from_formula("y ~ 1 + (1|g)", DATA)
    words = {"effort": "frugal", "random_seed": 1, "progressbar": False}
    results = [
        ev.integrated_evidence(model, dict.fromkeys(model.priors.names, prior), **words)
        for prior in (NoQuantiles(), NoQuantiles.own)
    ]
    error = np.hypot(*[result.logz_se for result in results])
    assert error < 0.05
    assert abs(results[0].logz - results[1].logz) < 4.0 * error


@pytest.mark.slow
def test_many_groups_are_looked_at_less_often(monkeypatch):
    """Islands over θ with a closed form, instead of draws by the thousand: the same number."""
    data = DATA.assign(g=DATA.g.astype(int) % 4)
    model = ev.from_formula("y ~ x + (1|g)", data)
    few = ev.integrated_evidence(model, effort="frugal", random_seed=1, progressbar=False)
    monkeypatch.setattr(direct_room._closed_form, "__defaults__", (0.0,))
    monkeypatch.setattr("evidence.hyper.direct._AT_ONCE", 1e-9)  # nor is there a matrix
    islands = ev.integrated_evidence(model, random_seed=1, progressbar=False)
    assert "was interpolated" in islands.notes[-1]
    assert not islands.warnings
    error = np.hypot(few.logz_se, islands.logz_se)
    assert error < 0.05
    assert abs(few.logz - islands.logz) < 4.0 * error
    np.testing.assert_allclose(few.theta.mean(axis=0), islands.theta.mean(axis=0), atol=0.15)


def test_summaries_agree_with_quadrature():
    """Of a factor with seven groups: mean, sd, 5 and 95 % of both hyperparameters."""
    model = ev.from_formula("y ~ 0 + (1|g)", DATA)
    t, s = np.meshgrid(np.linspace(-9.0, 4.0, 150), np.linspace(-0.5, 2.0, 150), indexing="ij")
    values = np.exp(np.column_stack([t.ravel(), s.ravel()]))
    log_p = closed_form(model)(values) + model.priors.log_density(np.log(values))
    w = np.exp(log_p - log_p.max())
    w /= w.sum()
    result = ev.integrated_evidence(model, random_seed=0, progressbar=False)
    exact = np.logaddexp.reduce(log_p) + np.log(13.0 * 2.5 / 149**2)
    assert abs(result.logz - exact) < 4.0 * result.logz_se + 1e-3
    assert result.logz_se < 0.02
    assert result.evaluations["scout"] < 2**17  # no draw of the prior has to fall on a peak
    for name, value in zip(result.names, values.T, strict=True):
        order = np.argsort(value)
        mean, sd = w @ value, np.sqrt(w @ value**2 - (w @ value) ** 2)
        row, n = result.table.loc[name], len(result.samples)
        below = np.interp([row["q5"], row["q95"]], value[order], np.cumsum(w[order]))
        noise = np.sqrt(0.05 * 0.95 / n)
        np.testing.assert_allclose(below, [0.05, 0.95], atol=4.0 * noise)
        assert row["mean"] == pytest.approx(mean, abs=4.0 * sd / np.sqrt(n))
        assert row["sd"] == pytest.approx(sd, rel=0.1)


@pytest.mark.parametrize("noise", seldom([1e-9, 1e-4, 1.0], 2))
def test_formulas_without_groups_may_have_little_noise(noise):
    """Against a sum over log s of the residuals' density and the fit's, by orthogonal factors."""
    y = 1.0 + 2.0 * DATA.x.to_numpy() + noise * np.random.default_rng(1).standard_normal(N)
    priors = {"Intercept": "norm(0, 3)", "x": "norm(0, 3)", "noise_std": "uniform(0, 100)"}
    model = ev.from_formula("y ~ x", DATA.assign(y=y), priors=priors)
    r = np.linalg.qr(np.column_stack([np.ones(N), DATA.x, y]), mode="r")
    t = np.linspace(np.log(noise) - 3.0, np.log(100.0), 1_000)
    terms = []
    for s in np.exp(t):
        u, within = r[:2, 2], r[2, 2] ** 2 / s**2
        cov = 9.0 * r[:2, :2] @ r[:2, :2].T + s**2 * np.eye(2)
        fit = -0.5 * (u @ np.linalg.solve(cov, u) + np.linalg.slogdet(cov)[1])
        terms.append(fit - 0.5 * within - (N - 2) * np.log(s) - 0.5 * N * np.log(2 * np.pi))
    exact = np.logaddexp.reduce(terms + t - np.log(100.0)) + np.log(t[1] - t[0])
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert abs(result.logz - exact) < 4.0 * result.logz_se + 1e-4
    assert result.logz_se < 0.02
    assert not result.warnings


EXACT = [
    ("y ~ x", 1.0 + 2.0 * DATA.x),
    ("y ~ 1 + (1|g)", 0.0 * DATA.x),
    ("y ~ 1 + (1|g)", 0.0 * DATA.x + 0.1),
]
EXACT += [("y ~ 1 + (1|g)", DATA.g.astype(float) / 3.0), ("y ~ x + (1|g)", 1.0 + 2.0 * DATA.x)]


@pytest.mark.parametrize(("formula", "y"), EXACT)
def test_data_without_any_noise_are_refused_unless_the_prior_prevents_it(formula, y):
    """log Z(θ) is -k log s for a small noise s: its integral has no end, or ends at rounding."""
    data, priors = DATA.assign(y=y), {"Intercept": "norm(0, 1)", "x": "norm(0, 1)"}
    priors |= {"sd(1|g)": "halfnorm()"}
    own = {name: prior for name, prior in priors.items() if name[-2:] in f"Intercept{formula}"}
    with pytest.raises(ev.InputError, match=r"without any noise.*prior that rules out values"):
        ev.log_evidence(ev.from_formula(formula, data, priors=own | {"noise_std": "halfnorm()"}))
    for noise in ("invgamma(2)", 0.3)[: 1 + ("g" in formula)]:
        model = ev.from_formula(formula, data, priors=own | {"noise_std": noise})
        assert density_over(model, model.priors) is not None
    small = data.assign(y=y + 1e-10 * RNG.standard_normal(N))
    model = ev.from_formula(formula, small, priors=own | {"noise_std": "halfnorm()"})
    assert density_over(model, model.priors) is not None


FAR_TRUTH = -102.952543


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_mode_far_outside_of_the_prior_is_climbed_to(seed):
    """A scale of six prior deviations holds nine tenths of Z: no climb from the prior ends there,
    and without it log Z is 2.37 too low. The truth is that of the catalogue's cubature."""
    model = KINDS["factors"](np.random.default_rng([110, 0, 1618])).model()
    result = ev.integrated_evidence(model, random_seed=seed, progressbar=False)
    assert abs(result.logz - FAR_TRUTH) < 4.0 * result.logz_se < 0.2


@pytest.mark.slow
def test_the_case_of_a_far_mode_is_the_catalogue_s():
    case = random_hyperparameters(110)
    model = KINDS["factors"](np.random.default_rng([110, 0, 1618])).model()
    assert case.truth == pytest.approx(FAR_TRUTH, abs=1e-4)
    np.testing.assert_array_equal(case.model.y, model.y)


@pytest.mark.slow
def test_rows_in_another_order_and_a_group_for_every_row():
    """Of the second log Z is finite however small the noise is: its effects explain all data."""
    turned = DATA.sample(frac=1.0, random_state=1)
    first, second = (
        closed_form(ev.from_formula("y ~ x + (1 + x|g) + (1|h)", data)) for data in (DATA, turned)
    )
    values = np.array([[0.7, 1.3, 0.2, 0.4, 1.5]])
    assert first(values)[0] == pytest.approx(second(values)[0], rel=1e-12)
    single = ev.from_formula("y ~ 1 + (1|r)", DATA.head(12).assign(r=range(12)))
    result = ev.integrated_evidence(single, random_seed=0, progressbar=False)
    values = np.exp(np.stack(np.meshgrid(*[np.linspace(-30, 4, 120)] * 2), -1).reshape(-1, 2))
    log_p = closed_form(single)(values) + single.priors.log_density(np.log(values))
    exact = np.logaddexp.reduce(log_p) + 2.0 * np.log(34.0 / 119)
    assert abs(result.logz - exact) < 4.0 * result.logz_se < 0.1


def test_likelihood_at_given_effects_and_its_maximum_are_those_of_statsmodels():
    """``mixedlm("y ~ x", groups="g", re_formula="~x").fit(reml=False)`` of statsmodels 0.15: where
    it ends, log L is its own, and that of a multivariate normal, and no parameter leads higher."""
    top, scale = -367.1767349073215, 0.3636455667312898
    cov = np.array([[1.5560510923258515, 0.3942347906222244], [0, 0.6942643523636961]])
    rng, g = np.random.default_rng(11), np.repeat(np.arange(30), 10)
    x = rng.standard_normal(300)
    b = rng.multivariate_normal([0, 0], [[1.0, 0.3], [0.3, 0.5]], 30)
    y = 2.0 + 0.7 * x + b[g, 0] + b[g, 1] * x + 0.6 * rng.standard_normal(300)
    sd = np.sqrt(np.diag(cov))
    best = np.array(
        [1.856995550010483, 0.7897641028452823, *sd, cov[0, 1] / sd.prod(), scale**0.5]
    )

    def log_likelihood(at):
        data = {"y": y, "x": x, "g": g, "o": at[0] + at[1] * x}
        model = ev.from_formula("y ~ 0 + offset(o) + (1 + x|g)", data)
        assert model.priors.names == ("sd(1|g)", "sd(x|g)", "cor(1,x|g)", "sigma")
        return float(closed_form(model)(at[None, 2:])[0])

    here = log_likelihood(best)
    own = best[4] * sd.prod()
    Z = np.equal.outer(g, g) * (
        sd[0] ** 2 + own * np.add.outer(x, x) + sd[1] ** 2 * np.outer(x, x)
    )
    normal = multivariate_normal(best[0] + best[1] * x, Z + best[5] ** 2 * np.eye(300)).logpdf(y)
    assert here == pytest.approx(normal, rel=1e-8)
    assert here == pytest.approx(top, rel=1e-8)
    for step in 1e-3 * np.eye(6):
        up, down = log_likelihood(best + step) - here, log_likelihood(best - step) - here
        assert up + down < 0.0
        assert (up - down) ** 2 / (-8.0 * (up + down)) < 1e-4


def test_columns_may_be_many():
    """Of 100 data a matrix is factorised soon, and no hyperparameter is the prior's."""
    X = RNG.standard_normal((100, 30))
    data = {f"x{i}": x for i, x in enumerate(X.T)} | {"y": X[:, 0] + RNG.standard_normal(100)}
    formula = "y ~ 0 + " + " + ".join(f"x{i}" for i in range(30))
    priors = {f"x{i}": "norm(0, 1)" for i in range(30)} | {"sigma": "expon(scale=1)"}
    sigma = np.exp(np.linspace(-2.0, 2.0, 400))
    square, U = np.linalg.eigh(X @ X.T)
    log_z = stats.norm.logpdf(data["y"] @ U, scale=np.sqrt(square + sigma[:, None] ** 2))
    exact = np.logaddexp.reduce(log_z.sum(axis=1) - sigma + np.log(sigma)) + np.log(4.0 / 399.0)
    result = ev.log_evidence(ev.from_formula(formula, data, priors=priors), random_seed=0)
    assert abs(result.logz - exact) < 4.0 * result.logz_se < 0.2
