"""The table of sparse models against exact truths, its small rows."""

from __future__ import annotations

import pandas as pd
import pytest

from scripts.benchmarks import sparse_truths


@pytest.mark.slow
def test_small_rows_agree_with_the_truth(tmp_path, monkeypatch, capsys) -> None:
    """Ten seeded estimates: one in a thousand such tests would fail."""
    words = ["sparse_truths", "--quick", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    sparse_truths.main()
    table = pd.read_csv(tmp_path / "sparse_truths.csv").set_index("problem")
    small = [row for row, (_, fast) in sparse_truths.SIZES.items() if fast]
    assert list(table.index) == small
    assert len(small) == 10
    assert (table.z.abs() < 4.0).all()
    assert abs(table.ep["groups"] - table.truth["groups"]) > 0.1  # there is something to correct
    printed = capsys.readouterr().out
    assert all(name in printed for name in table.index)
