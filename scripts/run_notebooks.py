"""Execute the notebooks, and keep what they show.

    python scripts/run_notebooks.py --fast
    python scripts/run_notebooks.py 1_first_evidence 5_rmhmc_geometry --out results/notebooks
    python scripts/run_notebooks.py 1_first_evidence --store

Writes the executed copies, their figures, a table of seconds and, where nbconvert is installed,
pages of HTML. Fails when a cell fails, saying which and why, and when one writes to stderr:
a reader should see no warning that the text is not about. ``--store`` writes what came out into
the notebooks themselves, for readers and for the documentation, and ``--check`` fails where that
is not what their code, as it is now, has shown.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a file, this is no part of a package
from scripts.laboratory import parser, progress, save_table  # noqa: E402

FOLDER = ROOT / "notebooks"
_PATIENCE = 600  # seconds that a cell may take
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LARGEST = 300_000  # bytes of a notebook with its figures
_COLOURS_OF_FIGURES = 96
_INLINE = "module://matplotlib_inline.backend_inline"
_FRUGAL = """from evidence.approximations.density.policy import EFFORTS
EFFORTS["normal"] = EFFORTS["frugal"]"""  # all searches: --fast is to come to its end
_WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class Run:
    """What became of a notebook; ``error`` is empty when all went well."""

    name: str
    seconds: float
    notebook: Any
    error: str


def main() -> int:
    command = parser(__doc__, "notebooks")
    command.add_argument("names", nargs="*", help="notebooks, by any part of their names")
    command.add_argument(
        "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="how many at a time"
    )
    command.add_argument(
        "--check",
        action="store_true",
        help="execute nothing, fail where stored outputs are not of the stored code",
    )
    command.add_argument(
        "--store",
        action="store_true",
        help="write outputs into the notebooks under version control",
    )
    options = command.parse_args()
    if options.jobs < 1:
        command.error(f"--jobs must be at least 1, got {options.jobs}")
    if options.store and options.fast:
        command.error("--store keeps what full budgets show: leave out --fast")
    paths = find(options.names)
    if options.check:
        return report([said for path in paths for said in stored(path)])
    failures, seconds = [], {}
    with ThreadPoolExecutor(options.jobs) as pool:
        tasks = [pool.submit(execute, path, options.fast) for path in paths]
        for task in progress(as_completed(tasks), total=len(tasks)):
            run = task.result()
            keep(run, options.out)
            if options.store and not run.error:
                nbformat.write(run.notebook, FOLDER / f"{run.name}.ipynb")
            seconds[run.name] = round(run.seconds, 1)
            print(f"{run.name:<24} {run.seconds:6.1f} s  {'FAILED' if run.error else 'ok'}")
            failures += [run.error] if run.error else []
    table = pd.DataFrame(sorted(seconds.items()), columns=["notebook", "seconds"])
    save_table(table, options.out, "seconds")
    return report(failures)


def report(failures: list[str]) -> int:
    """Say what went wrong; the exit code."""
    for said in failures:
        print(f"\n{said}", file=sys.stderr)
    return 1 if failures else 0


def find(names: list[str], folder: Path = FOLDER) -> list[Path]:
    """The notebooks whose names contain one of ``names``; all of them when there is none."""
    paths = sorted(folder.glob("*.ipynb"))
    for name in names:
        if not any(Path(name).stem in path.stem for path in paths):
            known = ", ".join(path.stem for path in paths)
            sys.exit(f"there is no notebook {name!r}; known: {known}")
    return [p for p in paths if not names or any(Path(name).stem in p.stem for name in names)]


def stored(path: Path) -> list[str]:
    """What is wrong with the outputs of a notebook under version control."""
    notebook, found = nbformat.read(path, as_version=4), []
    if notebook.metadata.get("code_shown") != fingerprint(notebook):
        command = f"python scripts/run_notebooks.py {path.stem} --store"
        found.append(f"{path.name}: outputs are not of this code; {command}")
    if path.stat().st_size > _LARGEST:
        found.append(f"{path.name}: {path.stat().st_size} bytes, at most {_LARGEST}")
    complaints = _complaints(path.name, notebook)
    return [*found, complaints] if complaints else found


def fingerprint(notebook: Any) -> str:
    """Of all code in a notebook: it changes when outputs have to be made anew."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()[:16]


def execute(path: Path, fast: bool) -> Run:
    """Run all cells in a fresh kernel of this Python."""
    notebook = nbformat.read(path, as_version=4)
    metadata, code = dict(notebook.metadata), fingerprint(notebook)
    if fast:
        notebook.cells.insert(0, nbformat.v4.new_code_cell(_FRUGAL))
    environment = {**os.environ, "MPLBACKEND": _INLINE, "EVIDENCE_FAST": "1" if fast else ""}
    client = NotebookClient(
        notebook, timeout=_PATIENCE, kernel_name="python3", store_widget_state=False,
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
    )  # fmt: skip
    started, error = time.perf_counter(), ""
    try:
        client.execute(env=environment)
    except CellExecutionError as failed:
        error = f"{path.name}, cell {_failed(notebook)!r}:\n{_COLOURS.sub('', str(failed))}"
    seconds = time.perf_counter() - started
    if fast:
        del notebook.cells[0]
    for cell in notebook.cells:
        _tidy(cell)
    notebook.metadata = nbformat.from_dict({**metadata, "code_shown": code})
    return Run(path.stem, seconds, notebook, error or _complaints(path.name, notebook))


def _failed(notebook: Any) -> str:
    """The cell that holds an error."""
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    failed = (c for c in cells if any(output.output_type == "error" for output in c.outputs))
    return next((str(cell.id) for cell in failed), "?")


def _tidy(cell: Any) -> None:
    """Leave out progress bars, which have gone to sleep by now; make figures small."""
    if cell.cell_type == "code":
        cell.outputs = [o for o in cell.outputs if _WIDGET not in o.get("data", {})]
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = _small(output.data["image/png"])


def _small(png: str) -> str:
    """A figure (base64) in few colours: a third of the bytes."""
    small = io.BytesIO()
    figure = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    figure.quantize(_COLOURS_OF_FIGURES, dither=Image.Dither.NONE).save(
        small, "png", optimize=True
    )
    return base64.b64encode(small.getvalue()).decode()


def _complaints(name: str, notebook: Any) -> str:
    """What cells wrote to stderr: warnings."""
    said = [
        f"{name}, cell {cell.id!r} wrote to stderr:\n{_COLOURS.sub('', output.text)}"
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stderr"
    ]
    return "\n".join(said)


def keep(run: Run, folder: Path) -> None:
    """The executed notebook, its figures, and a page of HTML where nbconvert is installed."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    nbformat.write(run.notebook, folder / f"{run.name}.ipynb")
    for old in (folder / "figures").glob(f"{run.name}-*.png"):
        old.unlink()
    for label, png in _figures(run.notebook):
        (folder / "figures" / f"{run.name}-{label}.png").write_bytes(png)
    if importlib.util.find_spec("nbconvert"):
        from nbconvert import HTMLExporter

        page, _ = HTMLExporter().from_notebook_node(run.notebook)
        (folder / f"{run.name}.html").write_text(page, encoding="utf-8")


def _figures(notebook: Any) -> Iterator[tuple[str, bytes]]:
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        shown = [o.data["image/png"] for o in cell.outputs if "image/png" in o.get("data", {})]
        for i, png in enumerate(shown, start=1):
            yield f"{cell.id}-{i}" if len(shown) > 1 else cell.id, base64.b64decode(png)


if __name__ == "__main__":
    sys.exit(main())
