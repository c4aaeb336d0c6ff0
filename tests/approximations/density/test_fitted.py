"""Gaussians for densities with several modes, or a narrow one within a broad one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from covering import seldom
from scipy import stats
from scipy.special import logsumexp

import evidence as ev
from evidence.approximations.density.fitted import fit_density
from evidence.approximations.density.policy import EFFORTS, NORMAL
from evidence.approximations.density.reference import DensityReference, density_prior_reference
from evidence.approximations.mixture import Mixture
from evidence.messages import InputError
from evidence.models.density.checking import central
from evidence.paths.families import make_path

PRIOR_SD = 5.0
#: name: dimension, and of every Gaussian in the likelihood a mean, a standard deviation, a weight
PROBLEMS = {
    "hidden": (3, [(0.0, 1.0, 0.2), (6.0, 0.3, 0.8)]),
    "narrow within wide": (4, [(1.0, 0.1, 0.3), (1.0, 2.0, 0.7)]),
    "three": (2, [(0.0, 1.0, 0.3), (4.0, 0.4, 0.4), (-6.0, 0.2, 0.3)]),
}


def parts(name: str) -> np.ndarray:
    """log Z of every Gaussian."""
    d, gaussians = PROBLEMS[name]
    means, sds, weights = np.array(gaussians).T
    var = sds**2 + PRIOR_SD**2
    return np.log(weights) - 0.5 * d * (np.log(2.0 * np.pi * var) + means**2 / var)


def model(name: str, **more) -> ev.DensityModel:
    d, gaussians = PROBLEMS[name]

    def log_likelihood(x):
        each = [
            np.log(w) - 0.5 * np.sum((x - m) ** 2, axis=1) / s**2 - d * np.log(s)
            for m, s, w in gaussians
        ]
        return logsumexp(each, axis=0) - 0.5 * d * np.log(2.0 * np.pi)

    prior = ev.GaussianPrior(np.zeros(d), PRIOR_SD**2)
    return ev.DensityModel(log_likelihood, dim=d, prior=prior, vectorized=True, **more)


FEW = replace(NORMAL, screened=(2**15, 2**15), halved=(2**15, 2**15), last=2**14)


@cache
def fit(name: str) -> Mixture:
    """From a smaller search than that of a run."""
    return fit_density(model(name), seed=1, policy=FEW)


@pytest.mark.parametrize("name", seldom(PROBLEMS, [*PROBLEMS].index("hidden")))
def test_every_part_has_a_component_that_knows_its_log_z(name):
    mixture = fit(name)
    assert isinstance(mixture, Mixture)
    *found, prior = mixture.components
    assert prior.name == "prior"
    assert 0.0 < mixture.weights[-1] < 0.01
    mean, sd = np.array(PROBLEMS[name][1]).T[:2]
    narrow = np.argmin(sd)
    near = [
        c.logz
        for c in found
        if abs(c.mean[0] - mean[narrow]) < sd[narrow] and c.cov[0, 0] < 2.0 * sd[narrow] ** 2
    ]
    assert logsumexp(near) == pytest.approx(parts(name)[narrow], abs=0.1)
    assert mixture.logz == pytest.approx(logsumexp(parts(name)), abs=0.05)
    np.testing.assert_allclose(mixture.weights[:-1], mixture.probable[:-1], atol=0.1)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("hidden", "auto"),
        *(
            pytest.param(name, method, marks=pytest.mark.slow)
            for name, method in (
                ("three", "auto"),
                ("narrow within wide", "auto"),
                ("hidden", "smc"),
                ("hidden", "pt"),
            )
        ),
    ],
)
def test_log_z_of_several_modes(name, method):
    words = {}
    if method == "pt":
        words = {"n_sweeps": 32, "n_particles": 16, "betas": [0.2, 1.0]}
    one = model(name)
    if method != "auto":  # which looks for itself
        one, words["reference"] = fit(name).model, fit(name)
    result = ev.log_evidence(one, method=method, random_seed=0, progressbar=False, **words)
    assert abs(result.logz - logsumexp(parts(name))) < 4.0 * result.logz_se + 1e-6
    assert result.logz_se < 0.1
    assert not result.warnings


@pytest.mark.slow
def test_error_bars_are_right():
    """RMS of 8 errors in units of the error bar: outside by chance in 1 of 1000."""
    truth, q = logsumexp(parts("hidden")), fit("hidden")
    results = [
        ev.log_evidence(q.model, reference=q, target_se=0.1, random_seed=s, progressbar=False)
        for s in range(8)
    ]
    z = np.array([(r.logz - truth) / r.logz_se for r in results])
    assert 0.3 < np.sqrt(np.mean(z**2)) < 1.85


@pytest.mark.parametrize("tails", [0.0, 0.2])
def test_components_share_the_density(tails):
    one = model("three")
    rng = np.random.default_rng(0)
    references = [
        DensityReference("fitted", one, np.array([m, m]), s**2 * np.eye(2), 0.0, tails=tails)
        for m, s, _ in PROBLEMS["three"][1]
    ]
    mixture = Mixture([*references, density_prior_reference(one)], np.array([1.0, 2.0, 3.0, 0.5]))
    x = 4.0 * rng.standard_normal((30, 2))
    shares = np.stack([np.exp(c.share.log(x)) for c in mixture.components])
    np.testing.assert_allclose(shares.sum(axis=0), 1.0)
    total = np.logaddexp.reduce([c.target.log_prob(x) for c in mixture.components])
    np.testing.assert_allclose(total, one.log_prob(x))
    for c in mixture.components:
        value, slope = c.share.log_and_gradient(x)
        np.testing.assert_allclose(value, c.share.log(x))
        np.testing.assert_allclose(slope, central(c.share.log, x), atol=1e-6)
    logz = []
    for c in mixture.components:
        path, n = make_path(c), 40_000
        y = c.mean + rng.standard_normal((n, 2)) @ c.root.T
        logz.append(path.log_z0 + logsumexp(path.tilt(y)) - np.log(n))
    assert logsumexp(logz) == pytest.approx(logsumexp(parts("three")), abs=0.03)


def test_gradients_have_the_share():
    def gradient(x):
        return central(lambda t: plain.calls["logdensity"](t), x)

    plain = model("three")
    one = model("three", grad=gradient)
    q = DensityReference("fitted", one, np.zeros(2), np.eye(2), 0.0, tails=0.1)
    first = Mixture([q, density_prior_reference(one)], np.array([1.0, 1.0])).components[0]
    path = make_path(first)
    y = np.random.default_rng(1).standard_normal((5, 2))
    np.testing.assert_allclose(
        path.tilt_and_gradient(y)[1], central(path.tilt, y), rtol=1e-4, atol=1e-5
    )


def test_one_clean_gaussian_is_one_reference():
    prior = ev.GaussianPrior(np.zeros(4), 9.0)
    one = ev.DensityModel(
        lambda x: -0.5 * np.sum((x - 1.0) ** 2, axis=1), dim=4, prior=prior, vectorized=True
    )
    fit = fit_density(one, policy=FEW)
    assert isinstance(fit, DensityReference)
    assert fit.name == "fitted"
    truth = 2.0 * np.log(2.0 * np.pi) - 2.0 * (np.log(2.0 * np.pi * 10.0) + 0.1)
    assert abs(fit.scouted.logz - truth) < 4.0 * fit.scouted.se


@pytest.mark.parametrize("side", [0.01, pytest.param(0.3, marks=pytest.mark.slow)])
def test_boxes(side):
    inside = lambda x: np.all((x > 0.4) & (x < 0.4 + side), axis=1)  # noqa: E731
    from scipy import stats

    one = ev.DensityModel(
        lambda x: np.where(inside(x), 0.0, -np.inf), dim=2, prior=[stats.uniform()] * 2,
        vectorized=True,
    )  # fmt: skip
    result = ev.log_evidence(one, random_seed=0, progressbar=False)
    assert abs(result.logz - 2.0 * np.log(side)) < 4.0 * result.logz_se < 0.2


def test_nan_is_told():
    prior = ev.GaussianPrior(np.zeros(2), 4.0)

    def log_likelihood(x):
        return np.sum(np.log(x) - x, axis=1)

    one = ev.DensityModel(log_likelihood, dim=2, prior=prior, vectorized=True)
    result = ev.log_evidence(one, effort="frugal", random_seed=0, progressbar=False)
    assert [w.code for w in result.warnings if "NaN" in w] == ["density-nan"]

    def nowhere(x):
        return np.full(len(x), np.nan)

    one = ev.DensityModel(nowhere, dim=2, prior=prior, vectorized=True)
    with pytest.raises(InputError, match="logdensity"):
        ev.log_evidence(one, random_seed=0, progressbar=False)


@pytest.mark.slow
def test_what_takes_the_place_of_a_prior_has_its_part_of_log_z():
    """Draws of the wide Gaussian of a density without a prior: their part of Z was lost, since
    they were counted from log Z = -inf."""
    funnel = ev.examples.funnel(2).model
    mixture = fit_density(funnel, scales=False, policy=EFFORTS["frugal"])
    wide = mixture.components[-1]
    assert wide.name == "wide"
    path = make_path(wide)
    tilt = path.tilt(np.random.default_rng(0).standard_normal((1000, path.n)))
    assert np.isfinite(tilt).all()
    whole = ev.log_evidence(
        mixture.model, method="importance", reference=mixture, n_particles=1000, random_seed=0,
        progressbar=False,
    )  # fmt: skip
    assert np.isfinite(whole.components.logz).all()
    assert abs(whole.logz) < 4.0 * whole.logz_se < 4.0


def covered(sd: float, lump: float = 0.0) -> Mixture:
    """A posterior N(0, I), with a narrow lump far away, and a Gaussian for the first of these."""

    def log_likelihood(x):
        bulk = -0.5 * np.sum(x**2, axis=1) - 2.0 * np.log(2.0 * np.pi)
        far = -50.0 * np.sum((x - 12.0) ** 2, axis=1) - np.log(2.0 * np.pi * 0.01)
        with np.errstate(divide="ignore"):
            log_p = np.logaddexp(bulk + np.log(2.0 * np.pi), far + np.log(lump))
        return log_p - prior.log_prob(x)

    prior = ev.GaussianPrior(np.zeros(2), PRIOR_SD**2)
    one = ev.DensityModel(log_likelihood, dim=2, prior=prior, vectorized=True)
    q = DensityReference("fitted", one, np.zeros(2), sd**2 * np.eye(2), 0.0)
    return Mixture([q, density_prior_reference(one)], np.array([1.0, 0.003]))


def test_error_bars_are_not_below_what_is_lost():
    mixture = covered(1.0)
    mixture.lost = 0.012, 0.001
    result = ev.log_evidence(mixture.model, reference=mixture, random_seed=0, progressbar=False)
    assert 0.03 <= result.logz_se < 0.05


def test_what_the_prior_s_component_counts_is_not_lost():
    mixture = covered(0.5)  # half as wide as the posterior, as walks see: the rest is the prior's
    words = {"method": "importance", "n_particles": 2000, "n_islands": 32}
    words |= {"reference": mixture, "random_seed": 0, "progressbar": False}
    plain = ev.log_evidence(mixture.model, **words)
    assert plain.logz_se < 0.03
    counted = 1.0 - np.exp(plain.components.logz.iloc[0] - plain.logz)  # and found since
    mixture.lost = counted + 0.005, 0.004
    again = ev.log_evidence(mixture.model, **words)
    assert again.logz_se == plain.logz_se
    mixture.lost = counted + 0.02, 0.001
    again = ev.log_evidence(mixture.model, **words)
    assert again.logz_se > 0.05


@pytest.mark.slow
def test_far_ends_of_a_banana_count():
    """Each Gaussian fits where it is; none is where a hundredth of the posterior is."""

    def log_likelihood(x):
        along = -0.125 * x[:, 0] ** 2
        return along - 2.0 * np.sum((x[:, 1:] - 0.3 * x[:, :-1] ** 2) ** 2, axis=1)

    n = 1000  # by transfer matrices
    x = -10.0 + 20.0 * (np.arange(n) + 0.5) / n
    K, v = np.exp(-2.0 * (x - 0.3 * x[:, None] ** 2) ** 2) * 20.0 / n, np.ones(n)
    for _ in range(4):
        v = K @ v
    truth = np.log(np.sum(np.exp(-0.125 * x**2) * v) * 20.0 / n) - 5.0 * np.log(20.0)
    one = ev.DensityModel(
        log_likelihood, dim=5, prior=[stats.uniform(-10.0, 20.0)] * 5, vectorized=True
    )
    result = ev.log_evidence(one, random_seed=21, progressbar=False)
    assert abs(result.logz - truth) < 4.0 * result.logz_se < 0.2


@pytest.mark.slow
def test_the_smallest_of_four_modes_is_found_among_many_points():
    """A tenth of Z in a corner; thinned before their neighbours are asked, draws miss it."""
    means = 6.0 * np.array(
        [[-1, -1, -1, -1, -1], [1, 1, 1, -1, -1], [-1, 1, -1, 1, 1], [1, -1, 1, 1, 0]]
    )
    sd, share = np.array([0.2, 0.5, 1.0, 0.1]), np.array([0.4, 0.3, 0.2, 0.1])

    def log_likelihood(x):
        square = ((x[:, None] - means) ** 2).sum(axis=2) / sd**2
        return logsumexp(
            np.log(share) - 0.5 * square - 5.0 * np.log(sd * np.sqrt(2 * np.pi)), axis=1
        )

    model = ev.DensityModel(log_likelihood, 5, prior=[(-10.0, 10.0)] * 5, vectorized=True)
    result = ev.log_evidence(model, random_seed=2, progressbar=False)
    assert abs(result.logz + 5.0 * np.log(20.0)) < 4.5 * result.logz_se < 0.2
