"""Every script can be asked what it does and is run by run_all; links to them lead somewhere."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pandas as pd
import pytest

from scripts import laboratory, run_all
from scripts.benchmarks import calibration, mutants
from scripts.catalogue import exact

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", [n for n, needed in run_all.SCRIPTS.items() if not needed])
def test_one_way_to_run(name: str, monkeypatch, capsys) -> None:
    script = importlib.import_module(f"scripts.{name}")
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "--fast" in told
    assert "--out" in told
    assert f"python -m scripts.{name}" in script.__doc__


def test_run_all_knows_every_script() -> None:
    found = {
        f"{file.parent.name}.{file.stem}"
        for room in ("papers", "benchmarks", "published", "rivals")
        for file in (ROOT / "scripts" / room).glob("*.py")
        if "laboratory.parser(" in file.read_text()
    }
    found.remove("benchmarks.soak")  # it runs for hours, by itself
    assert found == set(run_all.SCRIPTS) == set(run_all.NAMES.values())


def test_tables_of_papers() -> None:
    table = laboratory.published("titsias_2018")
    assert table.groupby("problem").table.first().sort_values().tolist() == list(range(1, 11))
    heart = table[table.problem == "heart"].set_index("move")
    assert heart.rate["mgrad"] == 115.39
    assert laboratory.published("report_2016").logz.between(-109, -105).all()


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", text)
    named = re.findall(r"`((?:scripts|tests|evidence|notebooks)/[\w/.]+)`", text)
    run = [f"{m.replace('.', '/')}.py" for m in re.findall(r"python -m (scripts[\w.]+)", text)]
    run += re.findall(r"python ((?:scripts)/[\w/]+\.py)", text)
    assert [path for path in (*links, *named, *run) if not (ROOT / path).exists()] == []


@pytest.mark.slow
def test_exact_problems_have_their_published_truths() -> None:
    """Closed forms and quadrature of other grids, to 1e-4."""
    made = exact.problems()
    published = {
        "half-space, logit": -0.98618,
        "two groups": -576.63885,
        "three groups": -59.87861,
        "core and slab": -6.24106,
        "shells": -1.74564,
        "eggbox": 235.85594,
        "hidden mode": -8.85435,
        "double well": -1.555126,
    }
    for name, logz in published.items():
        assert made[name]()[1] == pytest.approx(logz, abs=1e-4)


@pytest.mark.slow
def test_a_row_for_every_exact_problem_and_method(monkeypatch, tmp_path, capsys) -> None:
    words = ["--problems", "counts", "half-space, counts", "--methods", "smc", "--seeds", "2"]
    monkeypatch.setattr(
        "sys.argv", ["calibration", "--data", "exact", *words, "--out", str(tmp_path)]
    )
    calibration.main()
    table = pd.read_csv(tmp_path / "calibration_exact.csv")
    assert table.problem.tolist() == ["counts", "half-space, counts"]
    assert table.runs.tolist() == [2, 2]
    assert (table.largest_z < 6.0).all()


def test_mutants_have_moved_on_with_the_code() -> None:
    mutants.check(mutants.MUTANTS)
