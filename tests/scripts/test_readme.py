"""README is short, its code runs and shows what is said, and its other numbers were measured."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from typer.testing import CliRunner

import evidence as ev
from evidence.cli import app

ROOT = Path(__file__).resolve().parents[2]
FIGURES, PAGES = ROOT / "scripts" / "figures", ROOT / "scripts" / "documentation"
TEXT = (ROOT / "README.md").read_text("utf-8")
NUMBER = re.compile(r"-?\d+\.\d+")


class Block(NamedTuple):
    """A block of code, and the block of text below it (or nothing)."""

    code: str
    shows: str
    line: int


BLOCKS = [
    Block(*found.groups(default=""), TEXT.count("\n", 0, found.start()) + 1)
    for found in re.finditer(
        r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", TEXT, re.MULTILINE | re.DOTALL
    )
]


def close(found: str, said: str) -> bool:
    """The same words, and numbers that differ by one in the last digit at most: machines round
    in their own ways."""
    if NUMBER.sub("#", found).split() != NUMBER.sub("#", said).split():
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(said), strict=True)
    return all(abs(float(a) - float(b)) < 1.5 * 10.0 ** -len(b.split(".")[1]) for a, b in pairs)


def test_what_is_close() -> None:
    assert close("a -1.234 ± 0.01\n", "a  -1.235 ± 0.02")
    assert not close("a -1.234", "a -1.236")
    assert not close("a 1.234", "b 1.234")


def table(head: str) -> pd.DataFrame:
    """A table of README by the beginning of its first line."""
    lines = TEXT[TEXT.index(head) :].partition("\n\n")[0].splitlines()
    rows = [line.strip("|").split("|") for line in (lines[0], *lines[2:])]
    return pd.DataFrame(rows[1:], columns=rows[0]).set_index(rows[0][0])


def test_it_is_short() -> None:
    assert 600 <= len(TEXT.split()) <= 800


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line {block.line}")
def test_code_runs_by_itself_and_shows_what_is_said(block) -> None:
    if "formulas" in block.code:
        pytest.importorskip("formulae")
    with ev.set_options(progressbar=False), redirect_stdout(io.StringIO()) as printed:
        exec(compile(block.code, "README", "exec"), {"__name__": "readme"})
    assert block.shows
    assert close(printed.getvalue(), block.shows), printed.getvalue()


def test_an_extra_is_named_above_the_block_that_needs_it() -> None:
    needed = TEXT.index("pip install -q '.[formulas]'")
    assert needed < TEXT.index("(1 | clinic)")


def test_error_bars_are_those_that_were_measured() -> None:
    measured = pd.read_csv(FIGURES / "coverage.csv").set_index("kind")
    shown = table("|models|RMS z|").astype(float)
    assert list(shown.index) == list(measured.index)
    for said, column in zip(shown, ("rms_z", "beyond_2", "misses", "false_alarms"), strict=True):
        assert (shown[said] - measured[column]).abs().max() <= 0.005001, said


def test_rivals_are_those_that_were_measured() -> None:
    runs = pd.read_csv(FIGURES / "rivals_formulas.csv").set_index(["package", "problem"])
    largest = [runs[c].abs().groupby(level=[0, 1]).max() for c in ("error", "seconds")]
    shown = table("|package|")
    assert list(shown) == ["turtles, clutches", "labels", "crossed"]
    for problem, column in shown.items():
        for package, cell in column.items():
            for said, measured in zip(cell.split(", "), largest, strict=True):
                digits = 1 if len(said.strip("0.")) == 1 else 2
                assert float(said) == float(f"{measured[package, problem]:.{digits}g}"), cell


@pytest.mark.usefixtures("no_layout")
def test_the_demo_shows_what_is_said(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["demo"]).stdout
    (said,) = re.findall(r"^```text\n( +logz .*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line.rpartition(" ") for line in said.splitlines()]  # the last column is seconds
    assert len(lines) == 5
    printed = [line.rpartition(" ")[0] for line in shown.splitlines()]
    assert [head for head, *_ in lines if not any(close(line, head) for line in printed)] == []


def test_names_to_choose_from_are_all_there() -> None:
    from evidence.hyper.schemes import SCHEMES
    from evidence.methods.registry import METHODS
    from evidence.models.likelihoods import NAMES as likelihoods
    from evidence.moves.registry import NAMES as moves

    page = (PAGES / "guide" / "by_name.md").read_text("utf-8")
    assert (len(moves), len(SCHEMES)) == (18, 6)
    assert "Eighteen transition kernels" in page
    assert "six schemes" in page
    first = " ".join(re.findall(r'^\| (`".*?) \|', page, re.MULTILINE))
    assert {*re.findall(r'"([\w-]+)"', first), "auto"} == {*METHODS, "ep", "laplace", *moves}
    listed = re.search(r"scale=0.5\)\"`:(.*?)or \[your own\]", page, re.DOTALL)[1]
    assert set(re.findall(r"`(\w+)`", listed)) == set(likelihoods)
