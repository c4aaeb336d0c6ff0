"""Rivals of sparse models: this package's rows, and those that are not there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from scripts.rivals import sparse


def test_a_missing_package_has_a_row() -> None:
    def missing() -> sparse.Logz:
        raise ImportError

    rivals = {"evidence": lambda: lambda: -3.0, "other": lambda: lambda: -2.5, "gone": missing}
    table = pd.DataFrame(sparse.measure(rivals, 1)).set_index("package")
    assert table.distance[["evidence", "other"]].tolist() == [0.0, 0.5]
    assert table.status.tolist() == ["", "", sparse.MISSING]
    assert np.isnan(table.logz["gone"])


def test_the_chain_is_exact(tmp_path, monkeypatch) -> None:
    command = ["sparse", "--fast", "--only", "chain", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", command)
    sparse.main()
    table = pd.read_csv(tmp_path / "sparse.csv").set_index("package")
    rng = np.random.default_rng((0, 500))
    t = np.sort(rng.uniform(0.0, 100.0, 500))
    cov = 1.5 * np.exp(-np.abs(t[:, None] - t) / 2.0) + 0.25 * np.eye(500)
    truth = multivariate_normal.logpdf(rng.normal(size=500), cov=cov)
    there = table.logz[table.status.isna()]
    assert "evidence" in there
    assert there.to_numpy() == pytest.approx(np.full(there.size, truth), rel=1e-10)
