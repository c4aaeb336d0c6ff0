"""Mixed models from formulas: the script that compares them with quadrature."""

from __future__ import annotations

import pandas as pd

from scripts.benchmarks import formulas


def test_fast(tmp_path, monkeypatch):
    words = ["formulas", "--fast", "--problems", "binomial", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    formulas.main()
    table = pd.read_csv(tmp_path / "formulas.csv")
    assert table.problem.tolist() == ["binomial"]
    assert (table.z.abs() < 4.0).all()
