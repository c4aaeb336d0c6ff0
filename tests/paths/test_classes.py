"""The path of a model with several classes: tilt, coordinates, moves, other processes."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from covering import in_turns, seldom
from scipy.stats import ks_2samp
from softmax_problems import dense, exact_draws, small_model

import evidence as ev
from evidence import moves
from evidence.approximations.predictors.reference import block_prior_reference
from evidence.paths.coordinates import BlockCoordinates
from evidence.paths.families import make_path

REFERENCES = {
    "laplace": ev.fit_laplace,
    "ep": ev.fit_ep,
    "prior": block_prior_reference,
}
KINDS = ["identity", "diagonal", "base", "prior"]


def path_of(reference, n=4, shared=False):
    return make_path(REFERENCES[reference](small_model(n, shared=shared)))


@pytest.mark.parametrize("reference", REFERENCES)
def test_tilt_and_gradient(reference):
    path = path_of(reference)
    q, rng = path.reference, np.random.default_rng(0)
    x = 2.0 * rng.standard_normal((5, path.n))
    tilt, gradient = path.tilt_and_gradient(x)
    if reference == "prior":
        expected = path.model.log_likelihood(x)
    else:  # log p(y, x) - log Z_q q(x), from dense matrices
        r = x - q.mean
        S = q.cov
        log_q = -0.5 * np.einsum("mi,mi->m", r, np.linalg.solve(S, r.T).T)
        log_q -= 0.5 * np.linalg.slogdet(2 * np.pi * S)[1]
        expected = path.model.log_likelihood(x) + path.model.log_prior(x) - q.logz - log_q
    np.testing.assert_allclose(tilt, expected, rtol=1e-9)
    np.testing.assert_allclose(path.tilt(x), tilt, rtol=1e-14)
    h = 1e-5
    for i, e in enumerate(np.eye(path.n)):
        numeric = (path.tilt(x + h * e) - path.tilt(x - h * e)) / (2 * h)
        np.testing.assert_allclose(gradient[:, i], numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("mass", KINDS)
@pytest.mark.parametrize("reference", REFERENCES)
def test_base_and_mass_are_diagonal(reference, mass, shared):
    path = path_of(reference, shared=shared)
    K = dense(path.model)
    cov = K if reference == "prior" else path.reference.cov
    M = {
        "identity": np.eye(path.n),
        "diagonal": np.diag(1.0 / np.diag(cov)),
        "base": np.linalg.inv(cov),
        "prior": np.linalg.inv(K),
    }[mass]
    c = path.coordinates(mass)
    T = c.turn(np.eye(path.n)).T
    np.testing.assert_allclose(T.T @ M @ T, np.eye(path.n), atol=1e-9)
    np.testing.assert_allclose(T.T @ np.linalg.inv(cov) @ T, np.diag(1 / c.gamma), atol=1e-8)
    x = np.random.default_rng(1).standard_normal((3, path.n))
    np.testing.assert_allclose(c.to_latent(x), path.mean + x @ T.T, atol=1e-12)
    np.testing.assert_allclose(c.to_latent(c.from_latent(x)), x, atol=1e-10)
    np.testing.assert_allclose(c.slope(x), x @ T, atol=1e-12)
    np.testing.assert_allclose(c.root**2, c.gamma)


def test_the_prior_needs_no_large_matrix():
    path = path_of("prior", shared=True)
    frame = path.coordinates("identity")
    assert isinstance(frame, BlockCoordinates)
    assert len(frame.frames) == 1
    assert len(path_of("prior").coordinates("identity").frames) == 3


def test_averaged_curvature_is_refused():
    with pytest.raises(ValueError, match="coordinates 'expected'"):
        path_of("prior").coordinates("expected")


def _start(move, path):
    move.prepare(path)
    move.init_reference(np.random.default_rng(0), path, 2)


@pytest.mark.parametrize("name", ["rmhmc", "rmhmc-midpoint", "mmala", "second-order", "gibbs"])
def test_moves_with_a_metric_are_refused(name):
    path, move = path_of("laplace"), moves.get(name)
    with pytest.raises(ValueError, match=r"one latent value per datum|needs a GPModel"):
        _start(move, path)


@pytest.mark.parametrize("reference", REFERENCES)
def test_another_process_computes_the_same(reference):
    path = path_of(reference)
    move = moves.get("mgrad")
    move.prepare(path)
    copied = pickle.loads(pickle.dumps(path))
    state = [move.init_reference(np.random.default_rng(0), p, 3) for p in (path, copied)]
    for one, other in zip(*state, strict=True):
        np.testing.assert_array_equal(one, other)


#: move -> (from Laplace, from the prior)
MOVES = {
    "mgrad": (moves.MGrad(4.0), moves.MGrad(1.0)),
    "agrad-z": (moves.AGradZ(2.0), moves.AGradZ(0.5)),
    "agrad-u": (moves.AGradU(2.0), moves.AGradU(0.5)),
    "pcn": (moves.PCN(1.0), moves.PCN(1.0)),
    "pcnl": (moves.pcnl(2.0), moves.pcnl(0.5)),
    "mala": (moves.Langevin(0.8), moves.Langevin(0.5)),
    "pmala": (moves.pmala(0.3), moves.pmala(0.3)),
    "elliptical": (moves.EllipticalSlice(), moves.EllipticalSlice()),
    "hmc": (moves.HMC(0.8, n_leapfrog=3), moves.HMC(0.5, n_leapfrog=3)),
    "splitting": (moves.SplittingHMC(0.8), moves.SplittingHMC(0.4)),
    "nuts": (moves.NUTS(0.5), moves.NUTS(0.5)),
}
M = 6_000


@cache
def exact(seed):
    return exact_draws(small_model(2), M, seed)


@pytest.mark.parametrize(
    ("move", "reference"),
    seldom([*in_turns(MOVES, REFERENCES), *in_turns(MOVES, REFERENCES, 1)], *range(len(MOVES))),
)
def test_exact_draws_stay_exact(move, reference):
    """Kolmogorov–Smirnov tests of 18 statistics each: a false alarm of 1e-5 per case."""
    path = path_of(reference, n=2)
    start, fresh = exact(1), exact(2)
    mover, rng = MOVES[move][reference == "prior"], np.random.default_rng(3)
    state = mover.init(path, start)
    for _ in range(3):
        state, info = mover.step(rng, path, 1.0, state)
        assert info.acceptance.mean() > 0.1
    after = mover.latent(path, state)
    statistics = [lambda x, i=i: x[:, i] for i in range(6)]
    statistics += [lambda x, i=i: x[:, i] ** 2 for i in range(6)]
    statistics += [lambda x, i=i: x[:, i] * x[:, i + 1] for i in range(5)]
    statistics += [path.tilt]
    p = [ks_2samp(s(after), s(fresh), method="asymp").pvalue for s in statistics]
    assert min(p) * len(p) > 1e-5
