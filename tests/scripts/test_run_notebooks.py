"""The notebooks as they are stored, and what the runner says of one that goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
v4 = nbformat.v4
from scripts import run_notebooks as runner  # noqa: E402


def write(folder: Path, **cells: str) -> Path:
    """A notebook whose code cells have these names."""
    notebook = v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": ""}})
    notebook.cells = [{**v4.new_code_cell(source), "id": name} for name, source in cells.items()]
    path = folder / "example.ipynb"
    nbformat.write(nbformat.from_dict(notebook), path)
    return path


@pytest.mark.parametrize("path", runner.find([]), ids=lambda path: path.stem)
def test_stored_notebooks(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert runner.stored(path) == []
    assert notebook.metadata.kernelspec.name == "python3"
    assert "EVIDENCE_FAST" in next(c.source for c in notebook.cells if c.cell_type == "code")
    names = [cell.id for cell in notebook.cells]
    assert len(set(names)) == len(names)
    assert names[:2] == ["intro", "setup"]


@pytest.mark.slow
def test_all_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And outputs are of the code that they stand below."""
    monkeypatch.setenv("MPLBACKEND", "Agg")  # figures are shown all the same
    figure = "import matplotlib.pyplot as plt\nplt.plot([0, 1]);"
    path = write(tmp_path, fast='import os\nprint(os.environ["EVIDENCE_FAST"])', drawn=figure)
    stale = "example.ipynb: outputs are not of this code; "
    stale += "python scripts/run_notebooks.py example --store"
    assert runner.stored(path) == [stale]
    run = runner.execute(path, fast=True)
    assert run.error == ""
    assert run.notebook.cells[0].outputs[0].text == "1\n"
    runner.keep(run, tmp_path / "out")
    assert (tmp_path / "out/figures/example-drawn.png").read_bytes().startswith(b"\x89PNG")
    assert run.notebook.metadata.kernelspec.name == "python3"
    assert "language_info" not in run.notebook.metadata  # versions of Python differ
    nbformat.write(run.notebook, path)
    assert runner.stored(path) == []
    path.write_text(path.read_text().replace("[0, 1]", "[0, 2]"))
    assert runner.stored(path) == [stale]


@pytest.mark.slow
def test_warnings_are_failures_and_stored_outputs_hold_none_and_are_small(tmp_path: Path) -> None:
    source = 'import warnings\nwarnings.warn("look here", stacklevel=1)\nprint("x" * 400_000)'
    path = write(tmp_path, loud=source)
    run = runner.execute(path, fast=False)
    assert run.error.startswith("example.ipynb, cell 'loud' wrote to stderr:")
    assert "look here" in run.error
    nbformat.write(run.notebook, path)
    large, loud = runner.stored(path)
    assert "at most 300000" in large
    assert "cell 'loud' wrote to stderr" in loud


def test_a_failing_cell_is_named_with_its_traceback(tmp_path: Path) -> None:
    run = runner.execute(write(tmp_path, good="x = 0", bad="1 / x"), fast=False)
    assert run.error.startswith("example.ipynb, cell 'bad':")
    assert "ZeroDivisionError: division by zero" in run.error
    assert "\x1b" not in run.error


def test_unknown_names_are_refused() -> None:
    with pytest.raises(SystemExit, match=r"no notebook 'nothing'; known: .*1_first_evidence"):
        runner.find(["nothing"])
    assert [path.stem for path in runner.find(["5_"])] == ["5_rmhmc_geometry"]
