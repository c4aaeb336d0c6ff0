"""Predictions of several classes against brute force, closed forms and each other."""

from __future__ import annotations

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pytest
from covering import seldom
from scipy.special import expit, softmax
from softmax_problems import dense

import evidence as ev
from evidence import ClassPrediction, SoftmaxModel, predict
from evidence.results.hyper import HyperDraws

pytestmark = pytest.mark.usefixtures("no_layout")

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 6.0, 12))[:, None]
Y = np.array(["low", "mid", "top"])[np.clip(X[:, 0] / 2.0, 0, 2).astype(int)]
NEW = np.array([[0.5], [1.9], [2.5], [7.0], [60.0]])
OWN = ["1.0 * RBF(1.0)", "4.0 * RBF(2.0)", "2.0 * RBF(0.5) + WhiteKernel(0.3)"]
MEAN = [-0.5, 0.0, 1.0]


def of_three(shared: bool = False) -> SoftmaxModel:
    return SoftmaxModel(X, Y, OWN[1] if shared else OWN, mean=MEAN)


def cross(model: SoftmaxModel) -> tuple[np.ndarray, np.ndarray]:
    """Covariances (C, n, N) with the data, and variances (C, n)."""
    k = np.array([kernel(NEW, X) for kernel in model.kernels])
    return k, np.array([kernel.diag(NEW) for kernel in model.kernels])


def conditionals(model: SoftmaxModel, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (S, n, C) and variances (n, C) given draws (S, C·N), class by class."""
    k, diag = cross(model)
    means, variances = [], []
    for c, K in enumerate(model.K):
        gain = np.linalg.solve(K, k[c].T).T
        means.append(MEAN[c] + (x.reshape(len(x), 3, -1)[:, c] - MEAN[c]) @ gain.T)
        variances.append(diag[c] - np.sum(gain * k[c], axis=1))
    return np.stack(means, axis=-1), np.stack(variances, axis=-1)


@pytest.mark.parametrize(("count", "shared"), seldom(product([1, 3, 2000], [False, True]), 3, 4))
def test_draws_by_brute_force(shared, count):
    """400,000 latent values per point: an error of 0.001 at the most, as of the nodes; of many
    draws 40,000, for a wider bound."""
    model, rng = of_three(shared), np.random.default_rng(1)
    x = model.mean + rng.standard_normal((count, model.n)) @ np.linalg.cholesky(dense(model)).T
    found = predict(model, NEW, posterior=x)
    mean, var = conditionals(model, x)
    np.testing.assert_allclose(found.mean, mean.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(found.var, var + mean.var(axis=0), atol=1e-9)
    chosen = rng.integers(count, size=40_000 if count > 9 else 400_000)
    for i in range(len(NEW)):
        z = mean[chosen, i] + np.sqrt(var[i]) * rng.standard_normal((chosen.size, 3))
        wanted = softmax(z, axis=1).mean(axis=0)
        np.testing.assert_allclose(found.probability[i], wanted, atol=0.02 if count > 9 else 3e-3)
    np.testing.assert_allclose(found.probability.sum(axis=1), 1.0, atol=1e-12)


def test_a_gaussian_posterior_of_two_classes_by_quadrature():
    """Their difference is all that counts: one integral over a normal."""
    model = SoftmaxModel(X, Y == "mid", ["4.0 * RBF(1.0)", "1.0 * RBF(2.0)"], mean=[0.3, -0.2])
    fit = ev.fit_laplace(model)
    found = predict(model, NEW, posterior=fit)
    k = np.array([kernel(NEW, X) for kernel in model.kernels])
    prior = dense(model)
    carry = np.zeros((2 * len(NEW), model.n))
    for c in range(2):
        carry[c * len(NEW) : (c + 1) * len(NEW), c * 12 : (c + 1) * 12] = k[c]
    gain = np.linalg.solve(prior, carry.T).T
    mean = np.repeat([0.3, -0.2], len(NEW)) + gain @ (fit.mean - model.mean)
    start = np.concatenate([kernel.diag(NEW) for kernel in model.kernels])
    cov = np.diag(start) - gain @ (prior - fit.cov) @ gain.T
    t, w = np.polynomial.hermite_e.hermegauss(80)
    for i in range(len(NEW)):
        own = [i, len(NEW) + i]
        np.testing.assert_allclose(found.mean[i], mean[own], atol=1e-8)
        np.testing.assert_allclose(found.var[i], np.diag(cov)[own], atol=1e-8)
        m = mean[own[1]] - mean[own[0]]
        v = cov[own[0], own[0]] + cov[own[1], own[1]] - 2.0 * cov[own[0], own[1]]
        wanted = np.sum(w * expit(m + np.sqrt(v) * t)) / w.sum()
        assert abs(found.probability[i, 1] - wanted) < 5e-4


def test_far_away_is_the_prior_and_at_the_data_the_posterior():
    model = of_three()
    fit, rng = ev.fit_laplace(model), np.random.default_rng(2)
    at_data = predict(model, posterior=fit)
    np.testing.assert_allclose(at_data.mean.T.ravel(), fit.mean, atol=1e-7)
    np.testing.assert_allclose(at_data.var.T.ravel(), fit.var, atol=1e-7)
    x = fit.mean + rng.standard_normal((50, model.n))
    wanted = model.probabilities(x).mean(axis=0).T
    np.testing.assert_allclose(predict(model, posterior=x).probability, wanted, atol=1e-12)
    far, before = predict(model, [[1e3]]), predict(model, [[1e3]], posterior="prior")
    np.testing.assert_allclose(far.probability, before.probability, atol=1e-6)
    np.testing.assert_allclose(far.mean, [MEAN], atol=1e-9)


@pytest.mark.parametrize("posterior", ["laplace", "draws"])
@pytest.mark.parametrize("shared", [False, True])
def test_given_covariances_equal_the_kernel(posterior, shared):
    model = of_three(shared)
    given = SoftmaxModel(K=model.K[0] if shared else model.K, y=Y, mean=MEAN, jitter=0.0)
    draws = model.mean + RNG.standard_normal((20, model.n))
    k, diag = cross(model)
    old = predict(model, NEW, posterior=draws if posterior == "draws" else posterior)
    words = {"posterior": draws if posterior == "draws" else posterior, "mean_new": MEAN}
    new = predict(given, K_new=k, k_diag=diag, **words)
    np.testing.assert_allclose(old.probability, new.probability, atol=1e-9)
    if shared:
        once = predict(given, K_new=k[0], k_diag=diag[0], **words)
        np.testing.assert_allclose(old.probability, once.probability, atol=1e-9)
    moved = predict(given, K_new=k, k_diag=diag, **words | {"mean_new": np.ones((3, len(NEW)))})
    np.testing.assert_allclose(moved.mean, old.mean + 1.0 - np.array(MEAN), atol=1e-9)


def test_blocks_change_nothing():
    model, draws = of_three(), RNG.standard_normal((30, 36))
    for posterior in ("laplace", draws):
        whole = predict(model, NEW, posterior=posterior)
        parts = predict(model, NEW, posterior=posterior, batch_size=2, progressbar=True)
        np.testing.assert_allclose(whole.probability, parts.probability, atol=1e-12)
        np.testing.assert_allclose(whole.var, parts.var, atol=1e-12)


def test_draws_of_hyperparameters_are_averaged_over():
    """Two values of one length scale, three draws at the one and one at the other."""
    model = SoftmaxModel(X, Y, OWN[1])
    name = "class[mid]__k2__length_scale"
    theta = np.log([[[1.0], [1.0], [1.0], [3.0]]])
    x = RNG.standard_normal((1, 4, model.n))
    draws = HyperDraws(
        theta, x, np.zeros((1, 4)), (name,), "agrad-z-joint", np.zeros((1, 2)), np.zeros((1, 2)),
        1.0, 1.0, settings={"stride": 1}, model=model.describe(),
    )  # fmt: skip
    found = predict(model, NEW, posterior=draws)
    parts = [
        predict(model.at({name: scale}), NEW, posterior=x[0, own])
        for scale, own in ((1.0, slice(0, 3)), (3.0, slice(3, 4)))
    ]
    wanted = ClassPrediction.mixture(parts, [3.0, 1.0])
    np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-12)
    np.testing.assert_allclose(found.var, wanted.var, atol=1e-12)
    np.testing.assert_allclose(found.probability, wanted.probability, atol=2e-3)
    assert np.abs(found.probability - parts[0].probability).max() > 0.01


@pytest.mark.slow
def test_many_hyperparameters_share_the_nodes_out():
    """Far from the data every setting says the same, so all nodes must count, not a few again."""
    kernels = ["25.0 * RBF(1.0)", "16.0 * RBF(1.0)", "9.0 * RBF(1.0)"]
    model = SoftmaxModel(X, Y, kernels)
    rng = np.random.default_rng(5)
    theta, x = 0.1 * rng.standard_normal((1, 300, 1)), rng.standard_normal((1, 300, model.n))
    draws = HyperDraws(
        theta, x, np.zeros((1, 300)), ("class[mid]__k2__length_scale",), "agrad-z-joint",
        np.zeros((1, 2)), np.zeros((1, 2)), 1.0, 1.0, settings={"stride": 1},
        model=model.describe(),
    )  # fmt: skip
    wanted = softmax(rng.standard_normal((10**6, 3)) * [5.0, 4.0, 3.0], axis=1).mean(axis=0)
    for count in (50, 300):
        found = predict(model, [[1e3]], posterior=draws, max_draws=count).probability[0]
        np.testing.assert_allclose(found, wanted, atol=5e-3)


@pytest.mark.parametrize("posterior", ["laplace", "draws"])
def test_covariances_of_another_prior_are_refused(posterior):
    model = SoftmaxModel(K=of_three(shared=True).K[0], y=Y)
    k, diag = cross(of_three(shared=True))
    known = np.zeros((2, model.n)) if posterior == "draws" else posterior
    with pytest.raises(ValueError, match="do not belong to the prior of the model"):
        predict(model, K_new=10.0 * k[0], k_diag=diag[0], posterior=known)


def test_draws_and_results_are_taken():
    model = of_three(shared=True)
    draws = ev.sample(model, draws=400, tune=200, random_seed=0, progressbar=False)
    result = ev.log_evidence(model, method="smc", random_seed=0, progressbar=False)
    by_draws, by_result = (predict(model, NEW, posterior=p) for p in (draws, result))
    np.testing.assert_allclose(by_draws.probability, by_result.probability, atol=0.06)
    with pytest.raises(ValueError, match="another model"):
        predict(of_three(), NEW, posterior=draws)
    with pytest.raises(ValueError, match="fitted to another model"):
        predict(of_three(), NEW, posterior=ev.fit_laplace(model))


def test_questions_and_table():
    model = of_three()
    found = predict(model, NEW)
    assert found.label.tolist() == [model.classes[k] for k in found.probability.argmax(axis=1)]
    assert found.label[0] == "low"
    table = found.to_frame()
    assert list(table.columns) == ["label", "p[low]", "p[mid]", "p[top]"]
    np.testing.assert_array_equal(table["p[mid]"], found.probability[:, 1])
    new = np.array(["mid", "low", "mid", "top", "low"])
    np.testing.assert_allclose(
        found.log_density(new), np.log(found.probability[np.arange(5), [1, 0, 1, 2, 0]])
    )
    assert "5 points, 3 classes" in repr(found)
    for y, words in (
        (["mid"], "y_new must be a vector with one observation for each of 5"),
        (["mid"] * 4 + ["none"], "not one of"),
        (["mid"] * 4 + [None], "None, not one of"),
    ):
        with pytest.raises(ValueError, match=words):
            found.log_density(y)


def test_file_and_notebook(tmp_path):
    found = predict(of_three(), NEW)
    found.save(tmp_path / "classes.npz")
    again = ClassPrediction.load(tmp_path / "classes.npz")
    for name in ("classes", "probability", "mean", "var", "X_new", "label"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    np.testing.assert_array_equal(again.data[1], Y)
    assert "5 points, 3 classes" in found.summary()
    assert "p[mid]" in found._repr_html_()
    found.plot(path=tmp_path / "classes.png")
    assert (tmp_path / "classes.png").stat().st_size > 1000
    plt.close("all")


def test_mixture_checks_what_it_mixes():
    one, two = predict(of_three(), NEW), predict(of_three(), NEW[:2])
    np.testing.assert_allclose(ClassPrediction.mixture([one, one]).var, one.var, atol=1e-12)
    other = predict(SoftmaxModel(X, Y == "mid", OWN[0]), NEW)
    for parts, weights, words in (
        ([], None, "empty"),
        ([one, two], None, "numbers of points"),
        ([one, other], None, "different classes"),
        ([one, one], [1.0], "^weights "),
        ([one, one], [0.0, 0.0], "^weights "),
    ):
        with pytest.raises(ValueError, match=words):
            ClassPrediction.mixture(parts, weights)


def test_figures():
    line = predict(of_three(), np.linspace(0, 8, 40)[:, None]).plot()
    assert [text.get_text() for text in line.get_legend().get_texts()] == ["low", "mid", "top"]
    assert len(line.lines) == 6
    XX = RNG.standard_normal((30, 2))
    model = SoftmaxModel(XX, np.where(XX[:, 0] > 0, 1, 0) + (XX[:, 1] > 0), "4.0 * RBF(1.0)")
    grid = np.stack(np.meshgrid(np.linspace(-2, 2, 9), np.linspace(-2, 2, 7)), -1).reshape(-1, 2)
    shuffled = np.random.default_rng(3).permutation(grid)
    maps = [predict(model, points).plot() for points in (grid, shuffled, grid[:-1])]
    colours = [ax.collections[0].get_array() for ax in maps[:2]]
    np.testing.assert_allclose(*colours)
    assert len(maps[0].collections) > len(maps[2].collections)
    _, ax = plt.subplots()
    assert predict(model, grid).plot(ax) is ax
    with pytest.raises(ValueError, match="one or two inputs"):
        predict(model).__class__(np.arange(2), np.eye(2), np.eye(2), np.eye(2)).plot()
    plt.close("all")


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"X_new": [[1.0, 2.0]]}, "^X_new "),
        (
            {"X_new": NEW, "posterior": "wide"},
            "unknown posterior 'wide'. Known: ep, laplace, prior",
        ),
        ({"X_new": NEW, "posterior": np.zeros((2, 7))}, "array of draws of shape"),
        ({"X_new": NEW, "likelihood": ev.likelihoods.Probit()}, "likelihood is for a GPModel"),
        ({"X_new": NEW, "mean_new": [1.0, 2.0]}, "^mean_new "),
        ({"X_new": NEW, "mean_new": np.ones((3, 2))}, "^mean_new "),
        ({"K_new": np.ones((5, 12)), "k_diag": np.ones(5)}, "pass X_new"),
    ],
)
def test_bad_words(words, match):
    with pytest.raises(ValueError, match=match):
        predict(of_three(), **words)


def test_bad_words_with_a_given_covariance():
    model = SoftmaxModel(K=of_three().K, y=Y)
    with pytest.raises(ValueError, match=r"^K_new "):
        predict(model, K_new=np.ones((2, 5, 12)), k_diag=np.ones((3, 5)))
    with pytest.raises(ValueError, match=r"^k_diag "):
        predict(model, K_new=np.ones((3, 5, 12)), k_diag=np.ones((3, 4)))


def test_a_density_has_draws_instead():
    with pytest.raises(ValueError, match=r"ev\.sample\(model\)"):
        predict(ev.examples.funnel(2).model)
