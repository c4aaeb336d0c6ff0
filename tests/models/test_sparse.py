"""Sparse models against their dense twins, exact truths, and what they refuse."""

from __future__ import annotations

import tracemalloc
from functools import cache

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.special import betaln, gammaln
from scipy.stats import t as student_t
from sparse_problems import chain, data_for, filtered_log_z, random_precision, ring, twins

import evidence as ev
from evidence.approximations.gp.correction import second_order_terms
from evidence.drivers.weighted import Stepped
from evidence.execution.clock import Stopped, within
from evidence.models.differences import numerical_gradient
from evidence.results.base import fingerprint

LIKELIHOODS = (
    "probit",
    "logit",
    "poisson",
    "binomial(n=5)",
    "negative_binomial",
    "student_t(df=4, scale=0.5)",
    "cloglog",
    "gamma(shape=3)",
    "ordinal(gaps=(1.0, 0.7))",
    "gaussian(noise_std=0.7)",
)


@pytest.mark.parametrize("structure", ["design", "ring", "constrained"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_approximations_equal_the_dense_ones(likelihood, structure):
    sparse, dense = twins(likelihood, structure)
    one, two = ev.fit_ep(sparse), ev.fit_ep(dense)
    assert one.converged
    assert one.logz == pytest.approx(two.logz, abs=2e-6)
    assert one.logz_corrected == pytest.approx(two.logz_corrected, abs=2e-6)
    np.testing.assert_allclose(one.predictors[0], two.mean, atol=1e-5)
    np.testing.assert_allclose(one.predictors[1], two.var, rtol=1e-4)
    assert ev.fit_laplace(sparse).logz == pytest.approx(ev.fit_laplace(dense).logz, abs=2e-6)


@pytest.mark.parametrize(
    ("likelihood", "structure"),
    list(zip(LIKELIHOODS[1:9], ["design", "ring", "constrained"] * 3, strict=False)),
)
def test_log_evidence_equals_the_dense_one(likelihood, structure):
    """Within four combined standard errors: 8 seeded tests, one in 4000 would fail."""
    sparse, dense = twins(likelihood, structure)
    words = {"target_se": 0.02, "random_seed": 4, "progressbar": False}
    one, two = (ev.log_evidence(model, **words) for model in (sparse, dense))
    assert abs(one.logz - two.logz) < 4.0 * np.hypot(one.logz_se, two.logz_se) + 1e-6
    assert one.samples.shape == (1000, sparse.n)


@cache
def ring_of_counts():
    """A sparse model, and the evidence of its dense twin."""
    sparse, dense = twins("poisson", "ring")
    return sparse, ev.log_evidence(dense, target_se=0.01, random_seed=0, progressbar=False)


@pytest.mark.parametrize(
    "method", ["importance", "smc", "ais", pytest.param("pt", marks=pytest.mark.slow)]
)
def test_every_method_runs_on_sparse_factors(method):
    sparse, truth = ring_of_counts()
    words = {"n_sweeps": 16, "n_particles": 8} if method == "pt" else {"target_se": 0.05}
    result = ev.log_evidence(sparse, method=method, random_seed=1, progressbar=False, **words)
    assert result.logz_se < 0.2
    assert abs(result.logz - truth.logz) < 4.0 * np.hypot(result.logz_se, truth.logz_se)
    np.testing.assert_allclose(result.samples.sum(axis=1), 0.0, atol=1e-9)


@pytest.fixture(scope="module")
def constrained():
    """A sparse model and draws of its dense twin."""
    sparse, dense = twins("poisson", "constrained")
    return sparse, ev.sample(dense, draws=2000, random_seed=0, progressbar=False)


@pytest.mark.parametrize(
    "move",
    [
        "mgrad",
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("elliptical", "hmc", "pcn", "mala")),
    ],
)
def test_moves_sample_the_posterior(constrained, move):
    """Means of a constrained posterior, within five standard errors."""
    sparse, truth = constrained
    draws = ev.sample(sparse, move=move, draws=500, tune=150, random_seed=1, progressbar=False)
    eta = sparse.predictors(draws.x.reshape(-1, sparse.n))
    exact = truth.x.reshape(-1, sparse.y.size)
    error = np.sqrt(exact.var(axis=0) * (1.0 / draws.ess.min + 1.0 / truth.ess.min))
    assert np.all(np.abs(eta.mean(axis=0) - exact.mean(axis=0)) < 5.0 * error)
    np.testing.assert_allclose(sparse.constraints[0] @ draws.x[0, -1], 0.0, atol=1e-9)


@pytest.mark.parametrize(("N", "k"), [(100, 30), (400, 400), (20_000, 6000)])
def test_one_shared_latent_value(N, k):
    """Probit labels that share one standard normal: a Beta function."""
    y = np.r_[np.ones(k), -np.ones(N - k)]
    model = ev.SparseModel(sp.eye_array(1), y, likelihood="probit", A=np.ones((N, 1)))
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert abs(result.logz - betaln(k + 1, N - k + 1)) < 1e-6 * N**0.5
    assert result.settings["variance_of_a_draw"] == 0.0  # no pilot: every draw weighs the same
    assert result.logz_se < 1e-6 * N**0.5


def test_long_intrinsic_walks_have_no_bias():
    """What holds its null vectors is drawn first: as a later step it cost 1.5 nats, 30 errors."""
    n = 80
    rng, walk = np.random.default_rng(0), ev.precisions.rw2(n, 0.8)
    y = rng.poisson(np.exp(0.5 + 0.8 * np.sin(np.linspace(-3.0, 3.0, n))))
    sparse = ev.SparseModel(walk, y, likelihood="poisson")
    free = scipy.linalg.null_space(sparse.constraints[0])
    K = free @ np.linalg.solve(free.T @ sparse.Q.toarray() @ free, free.T)
    dense = ev.GPModel(K=K + 1e-9 * np.eye(n), y=y, likelihood="poisson")
    truth = ev.log_evidence(dense, target_se=0.005, random_seed=0, progressbar=False)
    found = ev.log_evidence(
        sparse, method="guided", target_se=0.02, random_seed=1, progressbar=False
    )
    assert set(sparse.prior.ground) == set(sparse.prior.pattern.analysis.order[-2:])
    assert found.logz_se < 0.02
    assert abs(found.logz - truth.logz) < 4.0 * np.hypot(found.logz_se, truth.logz_se)


def test_independent_groups():
    """Random intercepts without anything shared: a sum of one-dimensional integrals."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), rng.integers(1, 9, 30))
    y, sd = rng.poisson(np.exp(rng.normal(size=30))[groups]), 1.3
    A = sp.csr_array((np.ones(groups.size), (np.arange(groups.size), groups)))
    model = ev.SparseModel(sp.eye_array(30) / sd**2, y, likelihood="poisson", A=A)
    x = np.linspace(-9.0, 9.0, 4001) * sd
    truth = 0.0
    for g in range(30):
        own = y[groups == g]
        log_l = own.sum() * x - own.size * np.exp(x) - gammaln(own + 1).sum()
        log_l -= 0.5 * (x / sd) ** 2 + np.log(sd * np.sqrt(2 * np.pi))
        truth += np.logaddexp.reduce(log_l) + np.log(x[1] - x[0])
    result = ev.log_evidence(model, target_se=0.01, random_seed=0, progressbar=False)
    assert abs(result.logz - truth) < 4.0 * result.logz_se + 1e-6
    assert result.logz_se < 0.02


def test_a_markov_chain():
    """Counts along an AR(1): a filter on a grid."""
    rng = np.random.default_rng(1)
    y = rng.poisson(1.5, 80)
    truth = filtered_log_z(
        lambda one, x: one * x - np.exp(x) - gammaln(one + 1.0), y, 0.9, 0.3, 1.0
    )
    model = ev.SparseModel(chain(80, 0.9, 0.3), y, likelihood="poisson")
    result = ev.log_evidence(model, target_se=0.01, random_seed=0, progressbar=False)
    assert abs(result.logz - truth) < 4.0 * result.logz_se + 1e-4


def test_scale_and_choice_of_constraints_do_not_matter():
    n, rng = 16, np.random.default_rng(0)
    y, fits = rng.poisson(2.0, n), []
    for C in (np.ones(n), -7.0 * np.ones((1, n))):
        fits.append(
            ev.fit_ep(ev.SparseModel(ring(n), y, likelihood="poisson", constraints=C)).logz
        )
    assert fits[0] == pytest.approx(fits[1], abs=1e-9)


def test_right_hand_sides_move_the_mean():
    n = 12
    C = np.ones(n)
    model = ev.SparseModel(ring(n), np.ones(n), likelihood="poisson", constraints=(C[None], [6.0]))
    shifted = ev.SparseModel(ring(n), np.ones(n), likelihood="poisson", constraints=C, offset=0.5)
    assert ev.fit_ep(model).logz == pytest.approx(ev.fit_ep(shifted).logz, abs=1e-9)
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    np.testing.assert_allclose(result.samples.sum(axis=1), 6.0, atol=1e-9)


def test_predictions_at_new_rows():
    sparse, dense = twins("poisson", "constrained")
    at_data, same = ev.predict(sparse), ev.predict(dense)
    np.testing.assert_allclose(at_data.mean, same.mean, atol=1e-5)
    np.testing.assert_allclose(at_data.var, same.var, rtol=1e-4)
    again = ev.predict(sparse, sparse.A, mean_new=sparse.offset)
    np.testing.assert_allclose(again.y_mean, at_data.y_mean)
    result = ev.log_evidence(sparse, random_seed=0, progressbar=False)
    drawn = ev.predict(sparse, posterior=result, max_draws=1000)
    assert np.all(np.abs(drawn.mean - at_data.mean) < 0.25)


def bad(**words):
    n = 6
    given = {"Q": chain(n, 0.5, 1.0), "y": np.ones(n), "likelihood": "poisson"} | words
    return ev.SparseModel(given.pop("Q"), given.pop("y"), **given)


Q6 = chain(6, 0.5, 1.0).toarray()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({"Q": Q6}, "Q must be a SciPy sparse"),
        ({"Q": sp.csc_array(np.ones((6, 5)))}, "Q must be square"),
        ({"Q": sp.csc_array(np.triu(Q6))}, "Q must be symmetric"),
        ({"Q": sp.csc_array(-Q6)}, "Q has"),
        ({"Q": sp.csc_array(Q6 - 1.2 * np.eye(6))}, "Q"),
        ({"Q": sp.csc_array(Q6 * np.nan)}, "Q contains NaN"),
        ({"Q": sp.csc_array(Q6 * 1e200)}, "Q has an entry of size"),
        ({"A": np.eye(6) * 1e200}, "A has an entry of size"),
        ({"Q": ring(6)}, "Q is singular"),
        ({"Q": ring(6), "constraints": [1, -1, 1, -1, 1, -1]}, "constraints"),
        ({"constraints": np.zeros(6)}, "constraints"),
        ({"constraints": np.ones((2, 6))}, "constraints"),
        ({"constraints": np.ones(5)}, "constraints"),
        ({"constraints": (np.ones(6), 0.0, 1.0)}, "constraints"),
        ({"constraints": np.eye(6)[:5]}, "constraints determine"),
        ({"A": np.ones((6, 5))}, "A must have shape"),
        ({"A": np.eye(6)[:, ::-1] * 0.0}, "A has"),
        ({"y": np.ones(5)}, "y has 5"),
        ({"y": [1, 2, np.nan, 0, 1, 1]}, "y"),
        ({"y": [1, 2, -1, 0, 1, 1]}, "y"),
        ({"mean": np.ones(5)}, "mean"),
        ({"offset": np.ones(5)}, "offset"),
    ],
)
def test_mistakes_name_the_argument(words, name):
    with pytest.raises(ev.InputError, match=name):
        bad(**words)


@pytest.mark.parametrize("words", [{"offset": 1e5}, {"mean": 1e300}])
def test_a_likelihood_that_overflows_at_the_prior_mean_is_a_mistake(words):
    with pytest.raises(ev.InputError, match="mean= or offset="):
        ev.fit_ep(bad(**words))


def test_two_islands_need_two_constraints():
    Q = sp.block_diag([ring(4), ring(5)], format="csc")
    with pytest.raises(ev.InputError, match="constraints"):
        ev.SparseModel(Q, np.ones(9), likelihood="poisson", constraints=np.ones(9))
    C = np.zeros((2, 9))
    C[0, :4] = C[1, 4:] = 1.0
    model = ev.SparseModel(Q, np.ones(9), likelihood="poisson", constraints=C)
    assert np.isfinite(ev.log_evidence(model, random_seed=0, progressbar=False).logz)


def second_differences(n):
    D = sp.diags_array([[1.0], [-2.0], [1.0]], offsets=(0, 1, 2), shape=(n - 2, n))
    return sp.csc_array(D.T @ D)


@pytest.mark.parametrize("n", [20, 3000])
def test_a_null_vector_without_a_constraint_is_described(n):
    """However many latent values there are, and whatever the null vector is."""
    Q, y = second_differences(n), np.ones(n)
    with pytest.raises(ev.InputError, match=r"dimension 2; a null vector"):
        ev.SparseModel(Q, y)
    with pytest.raises(ev.InputError, match=rf"\(-?(1|0\.99\d*), .*, …\) on {n} latent values"):
        ev.SparseModel(Q, y, constraints=np.ones(n))


@pytest.mark.parametrize("seed", range(4))
def test_a_large_singular_precision_does_not_pass_for_a_proper_one(seed):
    """Its last pivot is rounding, and positive for some."""
    n = 500
    scale = sp.diags_array(np.random.default_rng(seed).gamma(2.0, size=n) + 0.1)
    Q = scale @ ring(n) @ scale
    Q = 0.5 * (Q + Q.T)
    with pytest.raises(ev.InputError, match="Q is singular"):
        ev.SparseModel(Q, np.ones(n))


def test_constraints_of_a_large_precision_need_not_be_its_null_vectors():
    """Any that hold them will do: the same generalised determinant as by a basis."""
    n = 450
    Q, y = second_differences(n), np.ones(n)
    C = np.vstack([np.ones(n), np.random.default_rng(0).normal(size=n)])
    model = ev.SparseModel(Q, y, constraints=C)
    free = scipy.linalg.null_space(C)
    truth = 0.5 * np.linalg.slogdet(free.T @ Q.toarray() @ free)[1]
    at_mean = model.log_prior(model.mean) + 0.5 * (n - 2) * np.log(2.0 * np.pi)
    assert at_mean == pytest.approx(truth, abs=1e-3)


@pytest.mark.parametrize(("n", "off"), [(80, 1e-9), (1000, 1e-5), (6000, 1e-2)])
def test_long_walks_of_second_order(n, off):
    """Their non-zero eigenvalues multiply to n²(n² - 1)/12, and rounding grows like n⁴."""
    walk = ev.precisions.rw2(n)
    model = ev.SparseModel(walk, np.ones(n))
    truth = 0.5 * (n - 2) * np.log(walk.structure[0, 0]) + 0.5 * np.log(n**2 * (n**2 - 1) / 12)
    assert model.prior.base.half_logdet == pytest.approx(truth, abs=off)
    assert np.log(model.prior.variances).mean() == pytest.approx(0.0, abs=off)


@pytest.mark.parametrize("method", ["orthant", "sequential"])
def test_methods_that_need_a_covariance_say_so(method):
    model = ev.SparseModel(chain(4, 0.5, 1.0), [1, -1, 1, 1], likelihood="probit")
    with pytest.raises(ev.InputError, match="needs the covariance as a matrix"):
        ev.log_evidence(model, method=method, progressbar=False)


def test_data_that_see_too_many_latent_values(monkeypatch):
    """The error comes before their pairs are made."""
    monkeypatch.setattr("evidence.models.sparse.machine_memory", lambda: 1e8)
    tracemalloc.start()
    with pytest.raises(ev.InputError, match="A has rows that see up to 2,000 latent values"):
        ev.SparseModel(sp.eye_array(2000), np.ones(2), A=np.ones((2, 2000)))
    assert tracemalloc.get_traced_memory()[1] < 3e7  # pairs take 1e8
    tracemalloc.stop()


@pytest.mark.parametrize("gap", [1e-5, 1e-6, 1e-7])
def test_times_that_are_too_close_for_a_precision(gap):
    """In whatever order they are eliminated: pivots may be positive by rounding alone, and log Z
    half a nat off."""
    series = ev.precisions.matern_series([0.0, gap, 1.0], 1.5, 1.0)
    with pytest.raises(ev.InputError, match="times too close"):
        ev.log_evidence(ev.SparseModel(series, [1, 1, 1]), progressbar=False)


@pytest.mark.parametrize("structure", ["sparse", "markov"])
def test_moves_that_need_a_covariance_say_so(structure):
    y = [1, -1, 1, 1]
    model = ev.SparseModel(chain(4, 0.5, 1.0), y)
    if structure == "markov":
        model = ev.GPModel(np.arange(4.0), y, "1.0 * Matern(nu=0.5)", structure="markov")
    with pytest.raises(ev.InputError, match="its covariance as a matrix"):
        ev.sample(model, move="gibbs", progressbar=False)


def test_a_model_is_known_by_its_numbers():
    rng = np.random.default_rng(0)
    Q, y = random_precision(8, rng), data_for("poisson", 8, rng)
    one, two = (ev.SparseModel(Q, y, likelihood="poisson") for _ in range(2))
    other = ev.SparseModel(1.01 * Q, y, likelihood="poisson")
    assert fingerprint(one) == fingerprint(two) != fingerprint(other)
    assert "nonzeros of its Cholesky factor" in one.describe()


def test_pairs_of_a_forest_are_summed_along_its_branches():
    """A forest, latent values with several data of either sign or none; against all pairs."""
    n, N, rng = 40, 70, np.random.default_rng(4)
    parent = np.array([rng.integers(0, k) for k in range(1, n)])
    B = sp.eye_array(n, format="lil")
    for k in (k for k in range(1, n) if k % 9):
        B[k, parent[k - 1]] = rng.normal()
    Q = sp.csc_array(B.T @ B)
    places = (np.arange(N), rng.integers(0, n, N))
    A = sp.csr_array((rng.normal(size=N), places), shape=(N, n))
    y = rng.poisson(1.0, N)
    q = ev.fit_ep(ev.SparseModel(Q, y, A=A, likelihood="poisson")).gaussian
    assert q._is_tree
    kappa = rng.normal(size=(7, N))
    np.testing.assert_allclose(q.pair_sums(kappa)[3:], q._all_pairs(kappa)[3:], rtol=1e-9)
    joined = sp.csr_array(A + sp.csr_array((np.ones(2), ([0, 0], [0, 1])), shape=(N, n)))
    assert not ev.fit_ep(ev.SparseModel(Q, y, A=joined, likelihood="poisson")).gaussian._is_tree


def test_the_correction_by_draws_agrees_with_all_pairs(monkeypatch):
    sparse, _ = twins("poisson", "ring")
    ep = ev.fit_ep(sparse)
    exact = ep.correction.sum()
    monkeypatch.setattr("evidence.gaussians.sparse._PAIRS", 0.0)
    again = ev.fit_ep(sparse)
    assert 0.0 < again.correction_se < 0.1
    assert abs(again.correction.sum() - exact) < 4.0 * again.correction_se


def test_the_time_is_heard_before_what_takes_long(monkeypatch):
    sparse, _ = twins("poisson", "ring")
    fit = ev.fit_ep(sparse)
    q, kappa = fit.gaussian, np.ones((5, sparse.y.size))
    with within(lambda flops: flops > 0.0):
        for work in (lambda: second_order_terms(sparse, q), lambda: Stepped.of(fit)):
            with pytest.raises(Stopped):
                work()
    for most in (4e9, 0.0):  # all pairs, then draws
        monkeypatch.setattr("evidence.gaussians.sparse._PAIRS", most)
        with within(lambda flops: True), pytest.raises(Stopped):
            q.pair_sums(kappa)


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr("evidence.models.sparse.machine_memory", lambda: 1e3)
    with pytest.raises(ev.InputError, match="Q and A leave"):
        bad()


@pytest.mark.slow
def test_memory_is_told_beforehand():
    """What arrays take at most while log Z is estimated, within a factor of two."""
    n = 2000
    y = np.random.default_rng(0).poisson(1.0, n)
    tracemalloc.start()
    model = ev.SparseModel(ev.precisions.ar1(n, 0.98, 0.3), y, likelihood="poisson")
    ev.log_evidence(model, target_se=0.3, random_seed=0, progressbar=False)
    most = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert 0.5 < model.describe()["memory (MB)"] / most < 2.0


@cache
def two_levels(noise=0.01):
    """A chain that barely moves, half of whose data lie at -3 and half at 3: two modes."""
    y = np.where(np.random.default_rng(3).permutation(12) < 6, -3.0, 3.0)
    model = ev.SparseModel(
        chain(12, 0.999, noise, 9.0), y, likelihood="student_t(df=2, scale=0.3)"
    )

    def log_t(one, x):
        z = (one - x) / 0.3
        return gammaln(1.5) - 0.5 * np.log(2.0 * np.pi) - np.log(0.3) - 1.5 * np.log1p(z * z / 2.0)

    return model, filtered_log_z(log_t, y, 0.999, noise, 9.0, points=3001, reach=5.0)


@cache
def evidence_of_two_levels(method):
    return ev.log_evidence(two_levels()[0], method=method, random_seed=0, progressbar=False)


@pytest.mark.parametrize("method", ["auto", pytest.param("smc", marks=pytest.mark.slow)])
def test_several_modes(method):
    """One Gaussian is 0.7 nats low, with an error bar of 0.003."""
    model, truth = two_levels()
    assert ev.fit_ep(model).logz < truth - 0.5
    result = evidence_of_two_levels(method)
    assert abs(result.logz - truth) < 4.0 * result.logz_se
    assert result.logz_se < 0.06
    assert 0.2 < np.mean(result.samples[:, 0] > 0.0) < 0.8


@pytest.mark.slow
def test_chains_jump_between_modes():
    model, _ = two_levels()
    draws = ev.sample(model, draws=400, tune=100, random_seed=0, progressbar=False)
    share = np.mean(evidence_of_two_levels("auto").samples[:, 0] > 0.0)
    assert abs(np.mean(draws.x[..., 0] > 0.0) - share) < 0.1


@pytest.mark.slow
def test_annealing_from_the_prior():
    """Half a nat would be seen."""
    sparse, _ = twins("poisson", "ring")
    words = {"random_seed": 0, "progressbar": False}
    guided = ev.log_evidence(sparse, **words)
    prior = ev.log_evidence(
        sparse, method="smc", reference="prior", n_particles=32, n_islands=8, **words
    )
    bound = 4.0 * np.hypot(prior.logz_se, guided.logz_se)
    assert abs(prior.logz - guided.logz) < bound < 0.6


def test_ep_without_sites_of_negative_precision():
    """Conflicting data of a constrained ring want a precision that is not positive definite."""
    y = np.array([4.0, 4, -4, 4, -4, -4, 4, -4, 4, -4])
    y += 0.1 * np.random.default_rng(0).normal(size=10)
    model = ev.SparseModel(
        0.3 * ring(10), y, likelihood="student_t(df=3, scale=0.3)", constraints=np.ones(10)
    )
    ep = ev.fit_ep(model)
    assert np.isfinite(ep.logz)
    assert ep.converged or any(w.code == "ep-not-converged" for w in ep.warnings)


def test_null_vectors_of_large_precisions_are_among_the_constraints():
    """A random walk of second order that is given as a matrix, against its small twin."""
    n = 450
    D = sp.diags_array([np.ones(n - 2), np.full(n - 2, -2.0), np.ones(n - 2)], offsets=[0, 1, 2],
                       shape=(n - 2, n))  # fmt: skip
    Q, C = sp.csc_array(1e3 * D.T @ D), np.stack([np.ones(n), np.arange(n)])
    y = np.random.default_rng(0).poisson(2.0, n)
    sparse = ev.SparseModel(Q, y, likelihood="poisson", constraints=C)
    values, vectors = np.linalg.eigh(Q.toarray())
    K = (vectors[:, 2:] / values[2:]) @ vectors[:, 2:].T
    dense = ev.GPModel(K=K + 1e-9 * K.max() * np.eye(n), y=y, likelihood="poisson")
    assert ev.fit_ep(sparse).logz == pytest.approx(ev.fit_ep(dense).logz, abs=2e-3)


def test_predictions_at_the_data_are_what_ep_has():
    sparse, _ = twins("poisson", "ring")
    at_data = ev.predict(sparse)
    again = ev.predict(sparse, sparse.A.copy(), mean_new=sparse.offset)
    np.testing.assert_allclose(at_data.mean, again.mean, atol=1e-12)
    np.testing.assert_allclose(at_data.var, again.var, rtol=1e-9)
    with pytest.raises(ev.InputError, match="K_new"):
        ev.predict(sparse, K_new=np.ones((2, sparse.n)))


def test_simulated_data():
    """Draws meet the constraints, and the bounds of annealing both ways meet guided draws."""
    sparse, _ = twins("poisson", "ring")
    simulated = ev.simulate(sparse, random_seed=0)
    assert abs(simulated.x.sum()) < 1e-9
    both = ev.bidirectional(simulated, random_seed=0)
    result = ev.log_evidence(simulated.model, random_seed=0, progressbar=False)
    assert both.lower - 4.0 * both.lower_se < result.logz < both.upper + 4.0 * both.upper_se


@pytest.mark.slow
def test_groups_with_modes_of_their_own():
    """Four groups, each torn between -3 and 3: one-dimensional integrals see both, and no more."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), rng.integers(2, 5, 4))
    y = rng.choice([-3.0, 3.0], groups.size) + 0.1 * rng.normal(size=groups.size)
    A = sp.csr_array((np.ones(groups.size), (np.arange(groups.size), groups)))
    model = ev.SparseModel(sp.eye_array(4) / 9.0, y, likelihood="student_t(df=2, scale=0.2)", A=A)
    x = np.linspace(-36.0, 36.0, 6001)
    z = (y[:, None] - x) / 0.2
    log_t = gammaln(1.5) - 0.5 * np.log(2.0 * np.pi) - np.log(0.2) - 1.5 * np.log1p(z * z / 2.0)
    prior = -x * x / 18.0 - np.log(3.0 * np.sqrt(2.0 * np.pi)) + np.log(x[1] - x[0])
    truth = sum(np.logaddexp.reduce(prior + log_t[groups == g].sum(axis=0)) for g in range(4))
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert abs(result.logz - truth) < 4.0 * result.logz_se + 1e-5


def _torn():
    """Two latent values, two data that contradict the prior in two ways: the narrow one, in which
    .6 % of the evidence is, has no fixed point of EP."""
    Q = np.array([[2.0, -1.0], [-1.0, 2.0]]) / 1.5
    A, y = np.array([[-1.0, -1.0], [1.0, 0.0]]), np.array([-3.404, -3.0464])
    return Q, ev.SparseModel(sp.csc_array(Q), y, likelihood="student_t(df=5, scale=0.1)", A=A)


@pytest.mark.slow
def test_a_narrow_mode_that_ep_leaves_is_a_component():
    Q, model = _torn()
    x = np.arange(-9.0, 9.0, 0.04)
    u = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    log_p = -0.5 * np.einsum("abi,ij,abj->ab", u, Q, u)
    log_p += 0.5 * np.linalg.slogdet(Q)[1] - np.log(2.0 * np.pi)
    z = (model.y - u @ model.A.toarray().T) / 0.1
    log_p += np.sum(student_t(5).logpdf(z) - np.log(0.1), axis=-1)
    truth = np.logaddexp.reduce(log_p, axis=None) + 2.0 * np.log(0.04)
    narrow = np.logaddexp.reduce(log_p[u[..., 0] < -2.0]) + 2.0 * np.log(0.04)
    assert 0.005 < np.exp(narrow - truth) < 0.007
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert result.logz_se < 0.003
    assert abs(result.logz - truth) < 4.0 * result.logz_se
    shares = result.components.set_index("name")["logz"]
    assert shares["laplace"] == pytest.approx(narrow, abs=0.3)


def test_what_ep_reaches_is_no_component_of_its_own():
    """Outliers, each with a mode of its own under one wide Gaussian, do not multiply."""
    rng = np.random.default_rng(0)
    y = 0.3 * rng.standard_t(3, 60)
    y[::10] += 4.0
    model = ev.SparseModel(
        ev.precisions.ar1(60, 0.9, 0.3), y, likelihood="student_t(df=3, scale=0.3)"
    )
    assert ev.fit_reference(model, random_seed=0).name == "ep"


def test_states_of_a_chain_from_its_values():
    rng = np.random.default_rng(0)
    X, words = rng.random(12)[:, None], {"likelihood": "poisson", "structure": "markov"}
    model = ev.GPModel(X, rng.poisson(4.0, 12), "4.0 * Matern(0.3, nu=0.5)", mean=1.5, **words)
    u = rng.normal(size=(3, 12))
    np.testing.assert_allclose(model.to_latent(model.from_latent(u)), u)
    smooth = ev.GPModel(X, rng.poisson(4.0, 12), "4.0 * Matern(0.3, nu=1.5)", **words)
    with pytest.raises(ev.InputError, match="structure"):
        ev.posterior_draws(ev.simulate(smooth, random_seed=0), 3, random_seed=0)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_sites_far_from_zero_are_refused_where_they_would_be_rounding(offset):
    """Log Z of these was 2.6 nats off, ± 0.02 and without a word, at 1e8."""
    y, one = np.random.default_rng(0).standard_t(4, size=40), sp.csr_array(np.ones((40, 1)))

    def of(offset, likelihood):
        Q = sp.csc_array([[0.04]])
        return ev.SparseModel(Q, y + offset, A=one, mean=offset, likelihood=likelihood)

    exact, far = (ev.fit_ep(of(m, "gaussian")).logz for m in (0.0, offset))
    assert far == pytest.approx(exact, abs=1e-6)
    if offset < 5e6:
        near, far = (
            ev.log_evidence(of(m, "student_t"), random_seed=0, progressbar=False)
            for m in (0.0, offset)
        )
        assert abs(near.logz - far.logz) < 4.0 * np.hypot(near.logz_se, far.logz_se)
    else:
        with pytest.raises(ev.InputError, match=r"39 nats .* subtract 100000000 from y"):
            of(offset, "student_t")


P = ev.precisions
_PRIORS = {
    "chain": (P.ar1(20, 0.7), None),
    "correlated effects": (P.blocks(a=P.effects(10, ("1", "x"), (1.0, 0.5), 0.3)), None),
    "smooth": (P.rw2(20), None),
    "map": (P.bym2(np.eye(20, k=1) + np.eye(20, k=-1)), None),
    "constrained": (P.ar1(20, 0.7), np.ones((1, 20))),
    "constrained to a value": (P.ar1(20, 0.7), (np.ones((1, 20)), [5.0])),
}


@pytest.mark.parametrize("name", _PRIORS)
def test_the_gradient_is_how_the_normaliser_changes(name):
    """Against differences of prior times sites, for which the prior is made anew."""
    precision, constraints = _PRIORS[name]
    y = np.random.default_rng(0).poisson(1.5, 20)
    model = ev.SparseModel(precision, y, likelihood="poisson", constraints=constraints)
    q = ev.fit_ep(model).gaussian
    assert model.hyperparameters.n_kernel
    np.testing.assert_allclose(model.prior_gradient(q), numerical_gradient(model, q), rtol=1e-5)
