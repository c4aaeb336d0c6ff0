"""Mixed models from formulas: the script that compares them with quadrature."""

from __future__ import annotations

import pandas as pd
import pytest

from scripts.benchmarks import formulas


@pytest.mark.slow
@pytest.mark.usefixtures("small_searches")
def test_fast(tmp_path, monkeypatch):
    words = ["formulas", "--fast", "--problems", "binomial", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setitem(formulas.ORDERS, 1, (10, 13))  # they differ by 1e-6
    formulas.main()
    table = pd.read_csv(tmp_path / "formulas.csv")
    assert table.problem.tolist() == ["binomial"]
    assert (table.z.abs() < 4.0).all()
