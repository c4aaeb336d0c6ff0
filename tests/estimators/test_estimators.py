"""Estimators: scikit-learn's own checks, its tools around them, and its numbers beside ours."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor as TheirRegressor
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import evidence as ev
from evidence import GaussianProcessClassifier, GaussianProcessRegressor

X, Y = make_moons(40, noise=0.3, random_state=0)
X_NEW, Y_NEW = make_moons(200, noise=0.3, random_state=1)
IRIS, SPECIES = (a[::5] for a in load_iris(return_X_y=True))
KERNEL = ConstantKernel(2.0) * RBF(1.0)
LINE = np.linspace(0.0, 6.0, 40)[:, None]
WAVE = np.sin(2.0 * LINE[:, 0]) + 0.2 * np.random.default_rng(0).standard_normal(40)

_LONG = {
    "check_classifiers_train",
    "check_regressors_train",
    "check_methods_subset_invariance",
    "check_methods_sample_order_invariance",
    "check_positive_only_tag_during_fit",
    "check_classifiers_classes",
    "check_supervised_y_2d",
    "check_dtype_object",
}


def _quick_checks():
    for estimator in (GaussianProcessClassifier(), GaussianProcessRegressor()):
        for one, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            if name not in _LONG and name != "check_array_api_input":
                yield pytest.param(one, check, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), list(_quick_checks()))
def test_scikit_learns_quick_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [
        GaussianProcessClassifier(),
        GaussianProcessClassifier(kernel=1.0 * RBF(1.0), multi_class="one_vs_one"),
        GaussianProcessClassifier(multi_class="softmax"),
        GaussianProcessRegressor(),
        GaussianProcessRegressor(kernel=1.0 * RBF(1.0), normalize_y=True),
    ],
)
def test_all_of_scikit_learns_checks(estimator):
    check_estimator(estimator, on_skip=None)


# -- classification ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moons() -> GaussianProcessClassifier:
    return GaussianProcessClassifier(KERNEL).fit(X, np.array(["no", "yes"])[Y])


def test_classifier_is_ep_at_its_optimum(moons):
    model = ev.GPModel(X, 2 * Y - 1, KERNEL, likelihood="logit")
    best = ev.optimise(model, progressbar=False)
    assert moons.log_marginal_likelihood_value_ == pytest.approx(best.logz, abs=1e-9)
    np.testing.assert_allclose(moons.kernel_.theta, best.model.kernel.theta)
    prediction = ev.predict(best.model, X_NEW)
    probabilities = moons.predict_proba(X_NEW)
    np.testing.assert_allclose(probabilities[:, 1], prediction.probability, rtol=1e-9)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    labels = np.where(prediction.mean > 0.0, "yes", "no")
    np.testing.assert_array_equal(moons.predict(X_NEW), labels)
    assert moons.score(X_NEW, np.array(["no", "yes"])[Y_NEW]) > 0.8
    mean, var = moons.latent_mean_and_variance(X_NEW[:3])
    np.testing.assert_allclose(mean, prediction.mean[:3])
    np.testing.assert_allclose(var, prediction.var[:3])


def test_log_marginal_likelihood_and_its_gradient(moons):
    value, gradient = moons.log_marginal_likelihood(moons.kernel_.theta, eval_gradient=True)
    assert value == pytest.approx(moons.log_marginal_likelihood(), abs=1e-6)
    assert np.abs(gradient).max() < 1e-2
    theta = moons.kernel_.theta + np.array([0.3, -0.2])
    slope = moons.log_marginal_likelihood(theta, eval_gradient=True)[1]
    h = 1e-4
    for p in range(2):
        ends = [moons.log_marginal_likelihood(theta + s * h * np.eye(2)[p]) for s in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(slope[p], rel=1e-5)
    with pytest.raises(ValueError, match="eval_gradient needs theta"):
        moons.log_marginal_likelihood(eval_gradient=True)


def test_laplace_is_scikit_learns():
    # the tolerance is scikit-learn's: its Newton iteration stops at 1e-10 in log Z, and it
    # approximates the logistic integral by five error functions
    from sklearn.gaussian_process import GaussianProcessClassifier as Their

    ours = GaussianProcessClassifier(KERNEL, optimizer=None, approximation="laplace").fit(X, Y)
    theirs = Their(KERNEL, optimizer=None).fit(X, Y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, abs=1e-4
    )
    np.testing.assert_allclose(ours.predict_proba(X_NEW), theirs.predict_proba(X_NEW), atol=2e-3)


def test_evidence_on_request(moons):
    assert not hasattr(moons, "log_evidence_")
    one = clone(moons).fit(X, Y)
    result = one.log_evidence(target_se=0.1, random_seed=0)
    assert one.log_evidence_ == result.logz
    # 5 standard errors and EP's own error, a few hundredths here
    assert abs(result.logz - one.log_marginal_likelihood_value_) < 5 * result.logz_se + 0.1


@pytest.mark.parametrize("scheme", ["one_vs_rest", "one_vs_one"])
def test_three_classes(scheme):
    names = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
    many = GaussianProcessClassifier(multi_class=scheme, likelihood="probit").fit(IRIS, names)
    assert many.score(IRIS, names) > 0.9
    assert isinstance(many.kernel_, CompoundKernel)
    parts = [one.log_marginal_likelihood_value_ for one in many.base_estimator_.estimators_]
    assert many.log_marginal_likelihood_value_ == pytest.approx(np.mean(parts))
    assert hasattr(many, "predict_proba") == (scheme == "one_vs_rest")
    if scheme == "one_vs_rest":
        np.testing.assert_allclose(many.predict_proba(IRIS[:4]).sum(axis=1), 1.0)
    with pytest.raises(ValueError, match="two classes only, this has 3"):
        many.log_evidence()
    with pytest.raises(ValueError, match="two classes only"):
        many.latent_mean_and_variance(IRIS)


def test_three_classes_at_other_hyperparameters():
    kernel = ConstantKernel(2.0) * RBF(2.0)
    many = GaussianProcessClassifier(kernel, optimizer=None).fit(IRIS, SPECIES)
    value = many.log_marginal_likelihood_value_
    assert many.log_marginal_likelihood(kernel.theta) == pytest.approx(value, abs=1e-6)
    both = np.tile(kernel.theta, 3)
    assert many.log_marginal_likelihood(both) == pytest.approx(value, abs=1e-6)
    with pytest.raises(ValueError, match=r"theta must be .* \(2,\) or \(6,\), got shape \(3,\)"):
        many.log_marginal_likelihood(np.zeros(3))
    with pytest.raises(ValueError, match="two classes only"):
        many.log_marginal_likelihood(kernel.theta, eval_gradient=True)


def test_softmax_is_one_model_of_all_classes():
    names = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
    kernel = ConstantKernel(2.0) * RBF(2.0)
    one = GaussianProcessClassifier(kernel, multi_class="softmax").fit(IRIS, names)
    assert one.score(IRIS, names) > 0.9
    probabilities = one.predict_proba(IRIS)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(one.classes_[probabilities.argmax(axis=1)], one.predict(IRIS))
    value = one.log_marginal_likelihood_value_
    assert value == pytest.approx(one.log_marginal_likelihood(one.kernel_.theta), abs=1e-6)
    assert value > one.log_marginal_likelihood(kernel.theta)
    for step in 0.05 * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]):
        assert value >= one.log_marginal_likelihood(one.kernel_.theta + step) - 1e-3
    model = ev.SoftmaxModel(IRIS, names, one.kernel_)
    assert value == pytest.approx(ev.fit_laplace(model).logz, abs=1e-6)


def test_tools_around_them():
    pipeline = make_pipeline(StandardScaler(), GaussianProcessClassifier(KERNEL, optimizer=None))
    assert cross_val_score(pipeline, X, Y, cv=2).shape == (2,)
    grid = {"kernel": [RBF(0.5), RBF(50.0)], "likelihood": ["logit", "probit"]}
    search = GridSearchCV(GaussianProcessClassifier(optimizer=None), grid, cv=2).fit(X, Y)
    assert search.best_params_["kernel"] == RBF(0.5)


def test_pickle_gives_the_same_predictions(moons):
    again = pickle.loads(pickle.dumps(moons))
    np.testing.assert_array_equal(again.predict_proba(X_NEW), moons.predict_proba(X_NEW))


def test_warm_start_begins_where_the_last_fit_ended():
    one = GaussianProcessClassifier(KERNEL, warm_start=True).fit(X, Y)
    ended = one.kernel_.theta
    one.set_params(optimizer=None).fit(X, Y)
    np.testing.assert_array_equal(one.kernel_.theta, ended)


def recorder(starts):
    """An optimizer in scikit-learn's form that stays where it is."""

    def optimizer(obj_func, initial_theta, bounds):
        value, gradient = obj_func(initial_theta, eval_gradient=True)
        assert value == pytest.approx(obj_func(initial_theta, eval_gradient=False), abs=1e-9)
        assert gradient.shape == initial_theta.shape == bounds[:, 0].shape
        assert ((bounds[:, 0] <= initial_theta) & (initial_theta <= bounds[:, 1])).all()
        starts.append(initial_theta)
        return initial_theta, value

    return optimizer


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("words", [{}, {"approximation": "laplace"}, {"multi_class": "softmax"}])
def test_a_callable_optimizer_hears_of_seed_and_restarts(words):
    inputs, labels = (IRIS, SPECIES) if "multi_class" in words else (X, Y)
    kept = []
    for seed in (3, 3, 4):
        starts = []
        one = GaussianProcessClassifier(
            KERNEL, optimizer=recorder(starts), n_restarts_optimizer=2, random_state=seed, **words
        ).fit(inputs, labels)
        kept.append(np.array(starts))
        values = [one.log_marginal_likelihood(start) for start in starts]
        assert one.log_marginal_likelihood_value_ == pytest.approx(max(values), abs=1e-9)
    assert kept[0].shape == (3, 2)
    np.testing.assert_array_equal(kept[0][0], KERNEL.theta)
    np.testing.assert_array_equal(kept[0], kept[1])
    assert (kept[0][1:] != kept[2][1:]).all()


@pytest.mark.slow
def test_a_callable_optimizer_finds_what_the_default_finds():
    from scipy.optimize import minimize

    def nelder_mead(obj_func, initial_theta, bounds):
        found = minimize(
            lambda theta: obj_func(theta, eval_gradient=False), initial_theta,
            bounds=bounds, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-4},
        )  # fmt: skip
        return found.x, found.fun

    y = WAVE[::2].copy()
    y[::4] += 1.0
    for words, seen in (({}, y), ({"likelihood": "gamma(shape=3)"}, np.exp(y))):
        one, other = (
            GaussianProcessRegressor(RBF(1.0), optimizer=optimizer, **words).fit(LINE[::2], seen)
            for optimizer in ("fmin_l_bfgs_b", nelder_mead)
        )
        assert other.log_marginal_likelihood_value_ == pytest.approx(
            one.log_marginal_likelihood_value_, abs=1e-3
        )
        np.testing.assert_allclose(other.kernel_.theta, one.kernel_.theta, atol=0.02)


def test_restarts_find_a_better_optimum():
    words = dict(likelihood="gaussian(noise_std=1.0)", random_state=0)
    kernel = RBF(30.0, (1e-2, 1e3))
    alone = GaussianProcessRegressor(kernel, **words).fit(LINE, WAVE)
    told = "only 1 of 4 starts: raise n_restarts_optimizer"
    with pytest.warns(ConvergenceWarning, match=told) as caught:
        helped = GaussianProcessRegressor(kernel, n_restarts_optimizer=3, **words).fit(LINE, WAVE)
    assert [warning.message.args[0].code for warning in caught] == ["found-once"]
    assert helped.log_marginal_likelihood_value_ > alone.log_marginal_likelihood_value_ + 5.0


def test_laplace_learns_by_its_own_evidence():
    # forward differences with steps of 1e-4 move the optimum by half a step; scikit-learn's own
    # search ends within 1e-3 of its optimum
    from sklearn.gaussian_process import GaussianProcessClassifier as Their

    ours = GaussianProcessClassifier(KERNEL, approximation="laplace").fit(X, Y)
    theirs = Their(KERNEL).fit(X, Y)
    np.testing.assert_allclose(ours.kernel_.theta, theirs.kernel_.theta, atol=0.02)
    by_ep = GaussianProcessClassifier(KERNEL).fit(X, Y)
    assert np.abs(ours.kernel_.theta - by_ep.kernel_.theta).max() > 0.05
    value, slope = ours.log_marginal_likelihood(ours.kernel_.theta, eval_gradient=True)
    assert value > ours.log_marginal_likelihood(by_ep.kernel_.theta)
    assert np.abs(slope).max() < 0.01


def test_bound_is_a_convergence_warning():
    kernel = ConstantKernel(2.0, (1.0, 2.5)) * RBF(1.0)
    for approximation in ("ep", "laplace"):
        one = GaussianProcessClassifier(kernel, approximation=approximation)
        with pytest.warns(ConvergenceWarning, match="constant_value is at its upper") as caught:
            one.fit(X, Y)
        assert [warning.message.args[0].code for warning in caught] == ["at-bound"]


def test_warnings_are_in_the_words_of_the_estimators():
    """A noiseless line: the noise goes to its bound, the length scale too, and EP's digits go."""
    others = (
        "fixed=",
        "a prior",
        "damping",
        "max_iterations",
        "n_restarts ",
        "optimise(",
        "jitter",
    )
    with pytest.warns(ConvergenceWarning) as caught:
        GaussianProcessRegressor(
            RBF(1.0, (1e-1, 3.0)), n_restarts_optimizer=2, random_state=1
        ).fit(LINE, LINE[:, 0])
    texts = [str(warning.message) for warning in caught]
    assert any("length_scale is at its upper bound 3" in text for text in texts)
    assert not [(text, word) for text in texts for word in others if word in text]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (dict(likelihood="gaussian"), "unknown likelihood 'gaussian'"),
        (dict(approximation="mcmc"), "unknown approximation 'mcmc'"),
        (dict(multi_class="all"), "unknown multi_class 'all'"),
        (dict(optimizer="adam"), "optimizer must be 'fmin_l_bfgs_b', a callable or None"),
        (dict(n_restarts_optimizer=-1), "n_restarts_optimizer must be a whole number"),
        (dict(kernel=CompoundKernel([RBF()])), "kernel cannot be a CompoundKernel"),
        (dict(kernel=np.dot), "kernel must be a scikit-learn kernel"),
    ],
)
def test_bad_words(words, match):
    with pytest.raises(ValueError, match=match):
        GaussianProcessClassifier(**words).fit(X, Y)


def test_one_class_and_no_fit():
    with pytest.raises(ValueError, match="requires 2 or more distinct classes; got 1 class"):
        GaussianProcessClassifier().fit(X, np.ones(40))
    for label, kind in ((None, "NoneType"), (1, "int")):
        with pytest.raises(
            ev.InputError, match=f"labels of one kind, none missing, got {kind}, str"
        ):
            GaussianProcessClassifier().fit(np.eye(3), np.array(["a", "b", label], dtype=object))
    with pytest.raises(NotFittedError):
        GaussianProcessClassifier().log_evidence()


# -- regression -------------------------------------------------------------------------------


def test_regressor_agrees_with_scikit_learn():
    # theirs has the noise in a WhiteKernel, ours in the likelihood; jitter is 1e-6 of the prior
    theirs = TheirRegressor(1.0 * RBF(1.0) + WhiteKernel(0.1), normalize_y=True).fit(LINE, WAVE)
    ours = GaussianProcessRegressor(1.0 * RBF(1.0), normalize_y=True).fit(LINE, WAVE)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, abs=1e-3
    )
    new = np.linspace(-1.0, 8.0, 30)[:, None]
    mean, std = ours.predict(new, return_std=True)
    expected, their_std = theirs.predict(new, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=2e-3)
    np.testing.assert_allclose(std, their_std, atol=2e-3)
    quantiles = ours.predict_quantiles(new, [0.5, 0.8413447])
    np.testing.assert_allclose(quantiles, np.column_stack([mean, mean + std]), atol=1e-6)
    assert ours.likelihood_.noise_std < 1.0
    assert ours.log_evidence(random_seed=0).logz == pytest.approx(
        ours.log_marginal_likelihood_value_, abs=1e-6
    )


def test_known_noise_is_scikit_learns_alpha():
    # the model's jitter, 1e-6 of the prior variance, is the difference
    alpha = np.linspace(0.02, 0.2, 40)
    kernel, new = 1.0 * RBF(1.0), np.linspace(-1.0, 8.0, 30)[:, None]
    for value in (0.04, alpha):
        ours = GaussianProcessRegressor(kernel, alpha=value, normalize_y=True).fit(LINE, WAVE)
        theirs = TheirRegressor(kernel, alpha=value, normalize_y=True).fit(LINE, WAVE)
        np.testing.assert_allclose(ours.kernel_.theta, theirs.kernel_.theta, atol=2e-3)
        for words in ({"return_std": True}, {"return_cov": True}):
            mean, spread = ours.predict(new, **words)
            their_mean, their_spread = theirs.predict(new, **words)
            np.testing.assert_allclose(mean, their_mean, atol=1e-3)
            np.testing.assert_allclose(spread, their_spread, atol=1e-3)
    for bad in (0.0, [0.1, 0.2], np.nan):
        with pytest.raises(ValueError, match=r"^alpha "):
            GaussianProcessRegressor(alpha=bad).fit(LINE, WAVE)
    with pytest.raises(ValueError, match="alpha is the variance of normal noise"):
        GaussianProcessRegressor(alpha=0.1, likelihood="poisson").fit(LINE, np.ones(40))


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t(df=6, scale=0.2)", "poisson"])
def test_draws_have_the_moments_of_predictions(likelihood):
    # 20,000 draws at 4 points: means within 5 standard errors (false alarm below 1e-5); of
    # covariances, whose terms have at most the kurtosis of t with 6 degrees, within 8 %
    y = np.random.default_rng(0).poisson(np.exp(1.0 + WAVE)) if likelihood == "poisson" else WAVE
    one = GaussianProcessRegressor(
        RBF(1.0), likelihood=likelihood, normalize_y=True, optimizer=None
    ).fit(LINE, y)
    new = np.array([[0.5], [0.8], [3.0], [9.0]])
    draws = one.sample_y(new, 20_000, random_state=2)
    assert draws.shape == (4, 20_000)
    np.testing.assert_array_equal(draws, one.sample_y(new, 20_000, random_state=2))
    mean, std = one.predict(new, return_std=True)
    assert (np.abs(draws.mean(axis=1) - mean) < 5.0 * std / np.sqrt(20_000)).all()
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.08)
    if likelihood == "poisson":
        with pytest.raises(ValueError, match="return_cov is for normal and Student-t noise"):
            one.predict(new, return_cov=True)
    else:
        again, cov = one.predict(new, return_cov=True)
        np.testing.assert_array_equal(again, mean)
        np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-12)
        np.testing.assert_allclose(np.cov(draws), cov, atol=0.08 * std.max() ** 2)
        assert abs(cov[0, 1]) > 1e-3 * std.max() ** 2
    with pytest.raises(ValueError, match="return_std and return_cov"):
        one.predict(new, return_std=True, return_cov=True)


def test_several_outputs_are_as_many_regressors():
    two, new = np.column_stack([WAVE, WAVE[::-1] + 1.0]), np.linspace(-1.0, 8.0, 7)[:, None]
    words = dict(kernel=1.0 * RBF(1.0), likelihood="gaussian(noise_std=0.3)", normalize_y=True)
    both = GaussianProcessRegressor(**words).fit(LINE, two)
    alone = [GaussianProcessRegressor(**words).fit(LINE, column) for column in two.T]
    logz = [one.log_marginal_likelihood_value_ for one in alone]
    assert both.log_marginal_likelihood_value_ == pytest.approx(sum(logz), rel=1e-12)
    mean, std = both.predict(new, return_std=True)
    _, cov = both.predict(new, return_cov=True)
    quantiles, draws = both.predict_quantiles(new), both.sample_y(new, 500, random_state=3)
    assert cov.shape == (7, 7, 2)
    assert draws.shape == (7, 2, 500)
    np.testing.assert_array_equal(both.predict(new), mean)
    for k, one in enumerate(alone):
        np.testing.assert_array_equal(mean[:, k], one.predict(new))
        np.testing.assert_array_equal(std[:, k], one.predict(new, return_std=True)[1])
        np.testing.assert_array_equal(cov[..., k], one.predict(new, return_cov=True)[1])
        np.testing.assert_array_equal(quantiles[:, k], one.predict_quantiles(new))
    assert abs(np.corrcoef(draws[3])[0, 1]) < 5.0 / np.sqrt(500)  # outputs are independent
    np.testing.assert_array_equal(draws, both.sample_y(new, 500, random_state=3))
    assert both.score(LINE, two) > 0.9
    with pytest.raises(ValueError, match=r"that of one output, this has 2: ask estimators_\[0\]"):
        both.log_evidence()
    assert both.estimators_[1].log_evidence(random_seed=0).logz == pytest.approx(logz[1], abs=1e-6)


def test_the_number_of_outputs_may_change():
    one = GaussianProcessRegressor(optimizer=None).fit(LINE, WAVE)
    expected = one.predict(LINE)
    one.fit(LINE, np.column_stack([WAVE, WAVE]))
    assert not hasattr(one, "reference_")
    np.testing.assert_array_equal(one.predict(LINE), np.column_stack([expected] * 2))
    np.testing.assert_array_equal(one.fit(LINE, WAVE).predict(LINE), expected)


def test_robust_regression_shrugs_off_outliers():
    y = WAVE.copy()
    y[::8] += 6.0
    robust = GaussianProcessRegressor(
        RBF(1.0), likelihood="student_t(df=3, scale=0.2)", optimizer=None
    ).fit(LINE, y)
    plain = GaussianProcessRegressor(
        RBF(1.0), likelihood="gaussian(noise_std=0.2)", optimizer=None
    ).fit(LINE, y)
    truth = np.sin(2.0 * LINE[:, 0])
    wrong = [np.abs(one.predict(LINE) - truth).mean() for one in (robust, plain)]
    assert wrong[0] < 0.25 * wrong[1]


def test_counts():
    y = np.random.default_rng(0).poisson(np.exp(4.0 + np.sin(LINE[:, 0])))
    one = GaussianProcessRegressor(RBF(1.0), likelihood="poisson", normalize_y=True).fit(LINE, y)
    np.testing.assert_allclose(one.reference_.model.mean, np.log(y.mean()))
    mean, std = one.predict(LINE, return_std=True)
    assert np.abs(np.log(mean) - 4.0 - np.sin(LINE[:, 0])).max() < 0.4
    assert (std > np.sqrt(mean)).all()
    low, high = one.predict_quantiles(LINE, [0.05, 0.95]).T
    assert np.mean((low <= y) & (y <= high)) > 0.8
    with pytest.raises(ValueError, match="wants counts"):
        one.fit(LINE, WAVE)


@pytest.mark.parametrize("likelihood", ["gamma", "ordinal"])
def test_positive_and_ordered_targets(likelihood):
    """``normalize_y`` sets the prior mean, and leaves the targets as they are."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 6.0, 120)[:, None]
    truth = ev.likelihoods.get(likelihood)
    latent = 0.5 + 2.0 * np.sin(x[:, 0])
    y = truth.simulate(latent, rng)
    regressor = GaussianProcessRegressor(
        1.0 * RBF(1.0), likelihood=likelihood, normalize_y=True
    ).fit(x, y)
    expected = truth.conditional_moments(latent)[0]
    assert np.corrcoef(regressor.predict(x), expected)[0, 1] > 0.9
    low, high = regressor.predict_quantiles(x, [0.02, 0.98]).T
    assert np.mean((low <= y) & (y <= high)) > 0.9


def test_labels_are_not_for_the_regressor():
    with pytest.raises(ValueError, match="use GaussianProcessClassifier"):
        GaussianProcessRegressor(likelihood="probit").fit(X, 2 * Y - 1)


@pytest.mark.parametrize("kind", [GaussianProcessClassifier, GaussianProcessRegressor])
def test_arguments_by_other_names_are_answered(kind):
    with pytest.raises(TypeError, match=r"has no argument 'family'; did you mean 'likelihood'\?"):
        kind(family="probit")
    with pytest.raises(TypeError, match=r"'kernle'; did you mean 'kernel'\?"):
        kind(kernle=3)
    assert "family" not in kind().get_params()


# -- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "X", "y"),
    [
        (GaussianProcessClassifier(KERNEL, optimizer=None), X, Y),
        pytest.param(GaussianProcessClassifier(KERNEL), X[:30], SPECIES, marks=pytest.mark.slow),
        (GaussianProcessRegressor(KERNEL), LINE, WAVE),
        (GaussianProcessRegressor(KERNEL, alpha=0.1), LINE, np.stack([WAVE, -WAVE], axis=1)),
    ],
)
def test_a_row_counts_as_often_as_its_weight_says(estimator, X, y):
    times = np.arange(len(X)) % 3
    weighted = clone(estimator).fit(X, y, sample_weight=times)
    repeated = clone(estimator).fit(np.repeat(X, times, axis=0), np.repeat(y, times, axis=0))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert weighted.log_marginal_likelihood_value_ == repeated.log_marginal_likelihood_value_


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.full(40, 0.5), "whole numbers"),
        (-np.ones(40), "whole numbers"),
        (np.zeros(40), "is zero in every row"),
        (np.ones(39), "sample_weight"),
    ],
)
def test_weights_that_count_nothing(weight, message):
    with pytest.raises(ev.InputError, match=message):
        GaussianProcessClassifier(KERNEL).fit(X, Y, sample_weight=weight)


def test_weights_beside_noise_of_every_row():
    with pytest.raises(ev.InputError, match="alpha"):
        GaussianProcessRegressor(KERNEL, alpha=np.full(40, 0.1)).fit(X, WAVE, np.ones(40))
