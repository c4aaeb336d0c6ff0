"""Stan programs: by an object with BridgeStan's interface, and by BridgeStan where it is."""

from __future__ import annotations

import os
import pickle
import threading
import time

import numpy as np
import pytest
from scipy import stats

import evidence as ev
from evidence.models.adaptors import stan

Y = np.array([1.0, 2.0, 0.0])
PROGRAM = """
data { int n; vector[n] y; }
parameters { real mu; real<lower=0> tau; simplex[2] w; }
model { mu ~ normal(0, 2); tau ~ exponential(1); y ~ normal(mu, tau); w ~ dirichlet([2, 3]'); }
"""


class Fake:
    """The program above, with BridgeStan's methods; beyond mu = 30 it raises an error."""

    def __init__(self, info="STAN_THREADS=false", limit=30.0):
        self.info, self.limit = info, limit
        self.inside, self.crowded = 0, False

    def model_info(self):
        return self.info

    def param_unc_num(self):
        return 3

    def param_names(self):
        return ["mu", "tau", "w.1", "w.2"]

    def _log_density(self, x, propto, jacobian=True):
        assert not propto, "constants belong to the evidence"
        assert x.flags.c_contiguous
        self.inside += 1
        self.crowded |= self.inside > 1
        if x[0] > self.limit:
            self.inside -= 1
            raise RuntimeError("Exception: too far")
        mu, tau, w = x[0], np.exp(x[1]), 1.0 / (1.0 + np.exp(-x[2]))
        value = -mu * mu / 8.0 - 0.5 * np.log(8.0 * np.pi) - tau + x[1]
        z = (Y - mu) / tau
        value += -0.5 * (z @ z) - 3.0 * x[1] - 1.5 * np.log(2.0 * np.pi)
        value += np.log(12.0) + 2.0 * np.log(w) + 3.0 * np.log(1.0 - w)  # Beta(2, 3), Jacobian
        self.inside -= 1
        return float(value)

    def log_density(self, x, *, propto=True):
        return self._log_density(x, propto)

    def log_density_gradient(self, x, *, propto=True):
        value, (mu, s, w) = self._log_density(x, propto), (x[0], np.exp(-2.0 * x[1]), x[2])
        share = 1.0 / (1.0 + np.exp(-w))
        residual = Y - mu
        slope = [
            -mu / 4.0 + residual.sum() * s,
            1.0 - np.exp(x[1]) - 3.0 + (residual**2).sum() * s,
            2.0 - 5.0 * share,
        ]
        return value, np.array(slope)

    def log_density_hessian(self, x, *, propto=True):
        value, slope = self.log_density_gradient(x, propto=propto)
        H = np.empty((3, 3))
        for i, e in enumerate(1e-5 * np.eye(3)):
            up, down = (self.log_density_gradient(x + k * e, propto=False)[1] for k in (1, -1))
            H[i] = (up - down) / 2e-5
        return value, slope, 0.5 * (H + H.T)

    def param_constrain(self, x):
        w = 1.0 / (1.0 + np.exp(-x[2]))
        return np.array([x[0], np.exp(x[1]), w, 1.0 - w])

    def param_unconstrain(self, theta):
        if theta[1] < 0.0:
            raise RuntimeError("lb_free: must be greater than or equal to 0")
        return np.array([theta[0], np.log(theta[1]), np.log(theta[2] / theta[3])])


def truth():
    """log Z by the rectangle rule, exact to ten digits for analytic functions that vanish."""
    mu, s = np.linspace(-10.0, 12.0, 401)[:, None], np.linspace(-7.0, 4.0, 401)[None]
    log_p = stats.norm.logpdf(mu, 0.0, 2.0) + stats.expon.logpdf(np.exp(s)) + s
    log_p = log_p + stats.norm.logpdf(Y, mu[..., None], np.exp(s)[..., None]).sum(axis=-1)
    return np.log(np.exp(log_p).sum() * 22.0 / 400 * 11.0 / 400)


def check(model):
    """Derivatives, names, evidence and draws of the program above; |z| < 5 as elsewhere."""
    assert model.n == 3
    assert model.names == ("mu", "tau", "w[1]", "w[2]")
    model.check_derivatives()
    x = model.probes()
    np.testing.assert_allclose(model.log_prob(x), [Fake().log_density(r, propto=False) for r in x])
    np.testing.assert_allclose(model.unconstrain(model.constrain(x)), x, rtol=1e-9, atol=1e-9)
    result = ev.log_evidence(
        model, effort="frugal", target_se=0.1, random_seed=0, progressbar=False
    )
    assert abs(result.logz - truth()) < 5.0 * result.logz_se < 1.0
    np.testing.assert_allclose(result.samples[:, 2:].sum(axis=1), 1.0, rtol=1e-12)
    with pytest.raises(ValueError, match="outside their bounds"):
        model.unconstrain([0.0, -1.0, 0.5, 0.5])


def test_an_open_model():
    check(ev.from_stan(Fake()))


def test_errors_of_the_program_are_zero_density():
    model = ev.from_stan(Fake())
    far = np.array([[31.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert np.isneginf(model.log_prob(far)).tolist() == [True, False]
    value, slope = model.log_prob_and_gradient(far)
    assert np.isneginf(value).tolist() == [True, False]
    assert np.isfinite(slope).all(axis=1).tolist() == [False, True]
    assert np.isfinite(model.hessian(far)).all(axis=(1, 2)).tolist() == [False, True]


def test_a_program_that_always_fails_is_an_error():
    with pytest.raises(ValueError, match="fails at all 8 points tried: Exception: too far"):
        ev.from_stan(Fake(limit=-30.0))


@pytest.mark.parametrize("threaded", [False, True])
def test_threads_take_turns_unless_the_library_was_built_for_them(threaded):
    fake = Fake(f"stan_version = 2\nSTAN_THREADS={str(threaded).lower()}\n")
    slow, start = fake._log_density, threading.Barrier(2)

    def waiting(x, propto):
        fake.inside += 1
        fake.crowded |= fake.inside > 1
        time.sleep(0.02)
        fake.inside -= 1
        return slow(x, propto)

    model = ev.from_stan(fake)
    fake._log_density, fake.crowded = waiting, False

    def work():
        start.wait()
        model.log_prob(np.zeros((5, 3)))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fake.crowded == threaded


def test_processes_open_the_library_again(monkeypatch):
    fake = Fake()
    fake.lib_path, fake.data, fake.seed = "program_model.so", "{}", 3
    opened = []

    class Bridge:
        @staticmethod
        def StanModel(*given, **words):
            opened.append((given, words))
            return Fake()

    monkeypatch.setattr(stan, "_bridgestan", lambda: Bridge)
    model = ev.from_stan(fake)
    copy = pickle.loads(pickle.dumps(model))
    assert opened[0] == (("program_model.so", "{}"), {"seed": 3, "warn": False})
    np.testing.assert_array_equal(copy.log_prob(model.probes()), model.log_prob(model.probes()))
    assert copy.names == model.names
    with pytest.raises(TypeError, match="Fake has no lib_path"):
        pickle.dumps(ev.from_stan(Fake()))


def test_what_is_opened(monkeypatch, tmp_path):
    given = []

    class Bridge:
        @staticmethod
        def StanModel(*args, **words):
            given.append((args, words))
            return Fake()

    monkeypatch.setattr(stan, "_bridgestan", lambda: Bridge)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ev.from_stan(PROGRAM, {"n": 3, "y": Y})
    (path, data), words = given[0]
    assert path.read_text() == PROGRAM
    assert path.is_relative_to(tmp_path)
    assert data["n"] == 3
    assert words == {"warn": False, "make_args": ["STAN_THREADS=true"]}
    before = path.stat().st_mtime_ns
    ev.from_stan(PROGRAM)
    assert path.stat().st_mtime_ns == before  # make would compile again
    library = tmp_path / "program_model.so"
    library.touch()
    ev.from_stan(library, "data.json")
    assert given[2] == ((library, "data.json"), {"warn": False})


def test_bad_programs(monkeypatch, tmp_path):
    class Bridge:
        @staticmethod
        def StanModel(*args, **words):
            raise ValueError("Failed to download BridgeStan 2.9.0.")

    monkeypatch.setattr(stan, "_bridgestan", lambda: Bridge)
    with pytest.raises(ValueError, match=r"there is no file 'nowhere\.stan'"):
        ev.from_stan("nowhere.stan")
    with pytest.raises(ValueError, match="program must be the text of a Stan program"):
        ev.from_stan(3)
    with pytest.raises(ValueError, match="data= belongs to a program"):
        ev.from_stan(Fake(), {"n": 3})
    with pytest.raises(ValueError, match=r"prior: the program given to ev\.from_stan has its own"):
        ev.from_stan(Fake(), prior=stats.norm())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"needs its sources.*environment variable BRIDGESTAN"):
        ev.from_stan(PROGRAM)


def test_third_derivatives_are_missed_in_words():
    with pytest.raises(ValueError, match="needs tensor= or third="):
        ev.from_stan(Fake()).hessian_slope(np.zeros((1, 3)), np.eye(3)[None])


def test_indices_in_names():
    names = ["mu", "beta.1", "W.1.2", "z.real"]
    assert [stan._bracketed(name) for name in names] == ["mu", "beta[1]", "W[1,2]", "z.real"]


@pytest.mark.slow
def test_bridgestan_itself():
    pytest.importorskip("bridgestan", reason="BridgeStan is not installed")
    if not os.environ.get("BRIDGESTAN"):
        pytest.skip("BRIDGESTAN does not name a folder with BridgeStan's sources")
    model = ev.from_stan(PROGRAM, {"n": 3, "y": Y})
    check(model)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.log_prob(model.probes()), model.log_prob(model.probes()))
    half = "parameters { real<lower=0> s; } model { s ~ normal(0, 1); }"
    result = ev.log_evidence(ev.from_stan(half), random_seed=0, progressbar=False)
    assert abs(result.logz + np.log(2.0)) < 5.0 * result.logz_se
    with pytest.raises(RuntimeError, match="Syntax error"):
        ev.from_stan("parameters { real x } model { }")
