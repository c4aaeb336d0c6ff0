"""Weighted draws where data see several predictors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from covering import seldom
from scipy.stats import norm

import evidence as ev
from evidence.drivers.weighted import Stepped
from evidence.methods.base import Outcome
from evidence.methods.referee import refuse
from evidence.models.likelihoods import Predicted
from evidence.paths.families import family
from evidence.proposals.data import LATTICE, draw_tilted, make_datum_guide
from evidence.proposals.predictors import BlockGuide

FAMILIES = {"gaussian": "sigma", "zero_inflated_poisson": "zi", "weibull": "shape"}


def test_weights_and_draws_of_a_tilted_normal():
    """E[φ/g f] = ∫ φ f for any tilt; weights do not vary where it is what was asked for."""
    rng, n = np.random.default_rng(0), 40_000
    tilt = np.log(1.0 + np.exp(1.5 * LATTICE)) - 0.1 * np.abs(LATTICE)
    z, log_ratio = draw_tilted(np.repeat(tilt[:, None], n, axis=1), LATTICE, rng.random((2, n)))
    weights = np.exp(log_ratio)
    for f, truth in ((np.ones_like, 1.0), (np.square, 1.0), (np.abs, np.sqrt(2 / np.pi))):
        values = weights * f(z)
        assert np.mean(values) == pytest.approx(truth, abs=5 * np.std(values) / np.sqrt(n))
    fine = np.linspace(-7.0, 7.0, 20_001)
    total = np.sum(norm.pdf(fine) * np.exp(np.interp(fine, LATTICE, tilt))) * (fine[1] - fine[0])
    inside = np.abs(z) < 7
    flat = np.interp(z[inside], LATTICE, tilt) + log_ratio[inside]
    np.testing.assert_allclose(flat, np.log(total), atol=1e-6)


def one_direction_each(kind, seed):
    """A model whose fields are two numbers, and its log Z by quadrature."""
    rng, name = np.random.default_rng(seed), FAMILIES[kind]
    N, ones = 3, np.ones((3, 3))
    a, b = rng.uniform(0.3, 1.5), rng.uniform(0.2, 0.8)
    K = {"mu": a * ones + 1e-7 * np.eye(N), name: b * ones + 1e-7 * np.eye(N)}
    mean = {"mu": 0.3, name: -0.2}
    model = ev.PredictorsModel(y=np.ones(N), K=K, likelihood=kind, mean=mean)
    y = model.likelihood.simulate(model.prior.draw(rng), rng)
    lik = model.likelihood
    z = np.linspace(-9.0, 9.0, 601)
    first, second = np.meshgrid(0.3 + np.sqrt(a) * z, -0.2 + np.sqrt(b) * z, indexing="ij")
    eta = np.stack([first.ravel(), second.ravel()], axis=1)[:, :, None]
    total = sum(lik.log_probs(y[[n]], eta)[:, 0] for n in range(N)).reshape(first.shape)
    total += norm.logpdf(z)[:, None] + norm.logpdf(z)
    truth = np.logaddexp.reduce(total.ravel()) + 2 * np.log(z[1] - z[0])
    return y, K, mean, (a, b), truth


@pytest.mark.parametrize(
    "kind",
    ["gaussian", *seldom(["zero_inflated_poisson", "weibull"])],
)
def test_dense_against_quadrature(kind):
    """|z| > 4 by chance: 1 in 10,000."""
    y, K, mean, _, truth = one_direction_each(kind, 5)
    model = ev.PredictorsModel(y=y, K=K, likelihood=kind, mean=mean)
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert result.method == "guided"
    assert result.logz_se < 0.02
    assert abs(result.logz - truth) < 4 * result.logz_se + 1e-4


def test_tilts_along_lattices_are_those_of_the_likelihood():
    """What a datum's draws are tilted with: sums over sites, and mu integrated out."""
    y, K, mean, _, _ = one_direction_each("gaussian", 5)
    noisy = ev.PredictorsModel(y=y, K=K, mean=mean)
    four = ev.SoftmaxModel(K=np.eye(3) + 0.5, y=[0, 1, 3], classes=range(4))
    rng = np.random.default_rng(4)
    for model in (noisy, four):
        guide = Stepped.of(ev.fit_reference(model)).guide
        P = model.n_predictors
        known, step, at = rng.normal(size=(P, 700)), rng.normal(size=P), np.array([-1.0, 0.5, 3.0])
        to_come, log_w = rng.normal(size=(P, 6)), rng.normal(size=6)
        eta = step[:, None, None] * at[:, None] + to_come[:, None]
        each = guide._tilt(1, known[:, None, None] + eta[..., None]) + log_w[:, None]
        found = guide._averaged(1, known, step, at, to_come, log_w)
        np.testing.assert_allclose(found, np.logaddexp.reduce(each, axis=1), atol=1e-10)
        own = guide.factor[:P, :P]
        assert (np.ptp(own[:, -1]) < 1e-12) == (model is four)  # what its data do not see
    guide, sd = Stepped.of(ev.fit_reference(noisy)).guide, 0.4
    known, z = rng.normal(size=(2, 3)), np.linspace(-9.0, 9.0, 4001)
    mu = np.stack([np.broadcast_to(known[0], (z.size, 3)), known[1] + sd * z[:, None]])
    tilt = guide._tilt(2, mu) + norm.logpdf(z)[:, None]
    whole = np.logaddexp.reduce(tilt, axis=0) + np.log(z[1] - z[0])
    np.testing.assert_allclose(guide._integrated(2, known, sd)[0], whole, atol=1e-6)


@pytest.mark.parametrize("kind", seldom(FAMILIES, [*FAMILIES].index("zero_inflated_poisson")))
def test_sparse_against_quadrature(kind):
    y, _, mean, (a, b), truth = one_direction_each(kind, 6)
    one, none = np.ones((3, 1)), np.zeros((3, 1))
    base = ev.likelihoods.get(kind)
    names = ("noise_std",) if kind == "gaussian" else (FAMILIES[kind],)
    model = ev.SparseModel(
        sp.diags_array([1 / a, 1 / b], format="csc"), y, likelihood=Predicted(base, names),
        A=[np.hstack([one, none]), np.hstack([none, one])],
        offset=np.array([[mean["mu"]], [mean[FAMILIES[kind]]]]) * np.ones((2, 3)),
    )  # fmt: skip
    assert isinstance(Stepped.of(ev.fit_reference(model)).guide, BlockGuide)
    for method in ("auto", "smc"):
        result = ev.log_evidence(model, method=method, random_seed=1, progressbar=False)
        assert result.logz_se < 0.06
        assert abs(result.logz - truth) < 4 * result.logz_se + 1e-4


def of_few(y, mu, sigma):
    """A model of data whose noise is free to fall far below mu's prior, and its log Z by
    quadrature: mu integrates out."""
    y, mu, sigma = (np.array(part) for part in (y, mu, sigma))
    z = np.linspace(-9.0, 9.0, 501 if y.size > 1 else 40_001)
    L = np.linalg.cholesky(sigma)
    grid = np.stack(np.meshgrid(*[z] * y.size, indexing="ij"), axis=-1).reshape(-1, y.size)
    C = mu + np.exp(2.0 * grid @ L.T)[:, :, None] * np.eye(y.size)
    square = np.einsum(
        "gi,gi->g", np.linalg.solve(C, np.broadcast_to(y, grid.shape)[..., None])[..., 0], [y]
    )
    total = -0.5 * (square + np.linalg.slogdet(2.0 * np.pi * C)[1]) + norm.logpdf(grid).sum(axis=1)
    truth = np.logaddexp.reduce(total) + y.size * np.log(z[1] - z[0])
    return ev.PredictorsModel(y=y, K={"mu": mu, "sigma": sigma}), truth


FEW = [
    (44, [3.0], [[1e4]], [[9.0]]),
    (45, [50.0], [[1e4]], [[9.0]]),
    (47, [3.0], [[1e4]], [[25.0]]),
    (0, [0.0, 1.0], [[100.0, 90.0], [90.0, 100.0]], [[9.0, 4.5], [4.5, 9.0]]),
]


@pytest.mark.parametrize(("seed", "y", "mu", "sigma"), FEW)
def test_a_mode_where_noise_is_next_to_zero(seed, y, mu, sigma):
    """Its sites are 10¹¹ and more times as precise as the prior: nothing was left of what stands
    beside them, and log Z was 1872 of a prior's density of at most -5.5. |z| > 4 by chance: 1 in
    4,000."""
    model, truth = of_few(y, mu, sigma)
    result = ev.log_evidence(model, random_seed=seed, progressbar=False)
    assert result.logz_se < 0.01
    assert abs(result.logz - truth) < 4 * result.logz_se
    assert truth < family(model).ceiling(model)


def test_sites_too_sharp_to_be_taken_away_guide_nothing():
    model, truth = of_few(*FEW[1][1:])
    for reference in ("laplace", "ep", "prior"):
        result = ev.log_evidence(
            model, method="guided", reference=reference, random_seed=2, progressbar=False
        )
        assert abs(result.logz - truth) < 4 * result.logz_se < 0.04
    gentle = ev.fit_reference(of_few([3.0], [[1.0]], [[1.0]])[0])
    assert gentle.blunt is gentle


def test_log_z_is_at_most_what_the_prior_of_mu_has():
    """Whatever the noise is; more is refused."""
    model, _ = of_few(*FEW[0][1:])
    highest = -0.5 * np.log(2.0 * np.pi * 1e4)
    assert family(model).ceiling(model) == pytest.approx(highest, abs=1e-6)
    outcome = Outcome("guided", 1872.0, 0.1)
    refuse(outcome, highest, model)
    assert np.isnan(outcome.logz)
    counts = ev.PredictorsModel(
        y=[1.0], K={"mu": [[1e4]], "zi": [[1.0]]}, likelihood="zero_inflated_poisson"
    )
    assert family(counts).ceiling(counts) == 0.0


def test_resampling_leaves_it_unbiased():
    """Many latent values, of groups: blocks are weighted and resampled one after the other."""
    rng = np.random.default_rng(2)
    G, each = 40, 3
    g = np.repeat(np.arange(G), each)
    effects = sp.csr_array((np.ones(G * each), (np.arange(G * each), g)), shape=(G * each, G))
    y = rng.poisson(np.exp(0.5 + 0.5 * rng.normal(size=G))[g]) * (rng.random(G * each) < 0.7)
    lik = Predicted(ev.likelihoods.get("zero_inflated_poisson"), ("zi",))
    none = sp.csr_array((G * each, G))
    A = [sp.hstack([effects, none]), sp.hstack([none, effects])]
    Q = sp.diags_array(np.repeat([4.0, 4.0], G), format="csc")
    model = ev.SparseModel(
        Q, y, likelihood=lik, A=A, offset=np.array([[0.5], [-1.0]]) * np.ones((2, y.size))
    )
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    z = np.linspace(-7.0, 7.0, 161)
    eta = np.stack(np.meshgrid(0.5 + 0.5 * z, -1.0 + 0.5 * z, indexing="ij")).reshape(2, -1).T
    weight = (norm.logpdf(z)[:, None] + norm.logpdf(z)).ravel() + 2 * np.log(z[1] - z[0])
    each_datum = lik.log_probs(y.astype(float), np.repeat(eta[:, :, None], y.size, axis=2))
    truth = sum(np.logaddexp.reduce(each_datum[:, g == k].sum(axis=1) + weight) for k in range(G))
    assert result.method == "guided"
    assert result.logz_se < 0.06
    assert abs(result.logz - truth) < 4 * result.logz_se


@pytest.mark.slow
def test_groups_whose_noise_differs():
    """Tails are heavy where few data tell a group's noise: values are drawn with a tilt."""
    rng = np.random.default_rng(2)
    G, each = 20, 3
    N, g = G * each, np.repeat(np.arange(G), each)
    effects = sp.csr_array((np.ones(N), (np.arange(N), g)), shape=(N, G))
    none = sp.csr_array((N, G))
    lik = Predicted(ev.likelihoods.get("gaussian"), ("noise_std",))
    y = rng.normal(size=G)[g] + np.exp(-0.3 + 0.7 * rng.normal(size=G))[g] * rng.normal(size=N)
    model = ev.SparseModel(
        sp.diags_array(np.repeat([1.0, 0.7**-2], G), format="csc"), y, likelihood=lik,
        A=[sp.hstack([effects, none]), sp.hstack([none, effects])],
        offset=np.array([[0.0], [-0.3]]) * np.ones((2, N)),
    )  # fmt: skip
    z = np.linspace(-8.0, 8.0, 301)
    eta = np.stack(np.meshgrid(z, -0.3 + 0.7 * z, indexing="ij")).reshape(2, -1).T
    weight = (norm.logpdf(z)[:, None] + norm.logpdf(z)).ravel() + 2 * np.log(z[1] - z[0])
    each_datum = lik.log_probs(y, np.repeat(eta[:, :, None], N, axis=2))
    truth = sum(np.logaddexp.reduce(each_datum[:, g == k].sum(axis=1) + weight) for k in range(G))
    guide = Stepped.of(ev.fit_reference(model)).guide
    assert guide.block == 1
    w = np.exp(guide.draw(2000, np.random.default_rng(3))[1])  # and without resampling
    se = w.std() / w.mean() / np.sqrt(w.size)
    assert se < 0.05
    assert abs(guide.log_z0 + np.log(w.mean()) - truth) < 4 * se
    result = ev.log_evidence(model, n_particles=32, n_islands=16, random_seed=0, progressbar=False)
    assert result.logz_se < 0.08
    assert abs(result.logz - truth) < 4 * result.logz_se


@pytest.mark.slow
def test_no_draw_weighs_thousands_of_times_the_mean():
    """Sites of full precision guide draws away from where data to come are flat: of 32,768 draws
    one was worth a fifth of all, with nothing before it that told."""
    rng = np.random.default_rng(8)
    X, labels = rng.uniform(0.0, 4.0, (20, 1)), np.empty(20, int)
    labels[:] = X[:, 0] // 1.34
    model = ev.SoftmaxModel(X, labels, "189.8 * RBF(0.302)")
    guide, rng = make_datum_guide(ev.fit_ep(model)), np.random.default_rng(5)
    log_weight = np.concatenate([guide.draw(4096, rng)[1] for _ in range(8)])
    w = np.exp(log_weight - log_weight.max())
    assert w.var() < 50.0 * w.mean() ** 2  # at full precision 1,430
    assert abs(guide.log_z0 + log_weight.max() + np.log(w.mean()) + 9.387) < 0.1  # annealing's
