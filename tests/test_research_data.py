"""Against the research data sets and the log Z values known for them."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from covering import seldom

import evidence as ev


@pytest.fixture(scope="module")
def reference_rows(research_data):
    table = research_data.parent / "reference.csv"
    if not table.exists():
        pytest.skip("reference.csv is not beside the research data")
    with table.open() as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def gram(X, log_lengthscale, log_amplitude):
    squared = np.sum(X**2, axis=1)
    distance = np.maximum(squared[:, None] + squared - 2.0 * X @ X.T, 0.0)
    return np.exp(2.0 * log_amplitude - 0.5 * distance * np.exp(-2.0 * log_lengthscale))


def model_of(research_data, row):
    data = np.load(research_data / f"{row['data']}.npz")
    X = data["X"].astype(float)
    if row["standardise"] == "yes":
        X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    hyper = [
        float(data[name] if row[name] == "stored" else row[name])
        for name in ("log_lengthscale", "log_amplitude")
    ]
    return ev.GPModel(
        K=gram(X, *hyper),
        y=data["y"].astype(float),
        likelihood=row["likelihood"],
        jitter=float(row["relative_jitter"]),
    )


@pytest.mark.parametrize("name", seldom(["heart", "ripley", "usps-hard", "usps-book"], 0))
def test_reference_values(name, research_data, reference_rows):
    """EP to 1e-4, corrected EP to 0.003, Monte Carlo within 3 combined standard errors."""
    row = reference_rows[name]
    model = model_of(research_data, row)
    result = ev.log_evidence(model, target_se=0.05, random_seed=0, progressbar=False)
    estimates = result.estimates["logz"]
    assert estimates["ep"] == pytest.approx(float(row["ep"]), abs=1e-4)
    assert estimates["ep_corrected"] == pytest.approx(float(row["ep_corrected"]), abs=0.003)
    assert result.logz_se <= 0.05
    se = np.hypot(result.logz_se, float(row["logz_se"]))
    assert abs(result.logz - float(row["logz"])) < 3 * se
    assert result.warnings == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heart", "ripley"])
def test_calibration(name, research_data, reference_rows):
    """200 short runs: RMS z between 0.8 and 1.25 (its own sd is 0.05, so a false alarm is
    below 1e-3 for an honest error bar)."""
    row = reference_rows[name]
    model = model_of(research_data, row)
    z = []
    for seed in range(200):
        result = ev.log_evidence(model, n_particles=4, random_seed=seed, progressbar=False)
        z.append((result.logz - float(row["logz"])) / result.logz_se)
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.25


@pytest.mark.slow
def test_hard_corner_is_right_or_warned(research_data):
    """Short lengths and a large amplitude: moves on q mix slowly. No confident wrong answer."""
    data = np.load(research_data / "usps_3v5.npz")
    model = ev.GPModel(
        K=gram(data["X"].astype(float), 2.0, 5.0), y=data["y"].astype(float), jitter=1e-6
    )
    truth = ev.log_evidence(model, method="orthant", n_particles=10_000, random_seed=0)
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    if not result.warnings:
        assert abs(result.logz - truth.logz) < 3 * np.hypot(result.logz_se, truth.logz_se)


@pytest.mark.slow
def test_cox_process_with_4096_cells(research_data):
    """A 64 × 64 log-Gaussian Cox process within a few minutes and 4 GB."""
    counts = np.load(research_data / "lgcp64.npz")["counts"].astype(float)
    model = ev.GPModel(
        K=cox_covariance(64),
        y=counts,
        likelihood=ev.likelihoods.Poisson(exposure=1.0 / 4096),
        mean=np.log(126) - 1.91 / 2,
        jitter=1e-6,
    )
    result = ev.log_evidence(model, target_se=0.3, random_seed=0, progressbar=False)
    assert result.logz_se <= 0.3
    assert result.warnings == ()


def cox_covariance(side, variance=1.91):
    """Exponential covariance with length side/33 on a grid of side × side cells."""
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), axis=-1)
    points = grid.reshape(-1, 2).astype(float)
    distance = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=-1))
    return variance * np.exp(-distance * 33.0 / side)
