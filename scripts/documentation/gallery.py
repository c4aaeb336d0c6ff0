"""The notebooks among the pages, and a page with a picture of each."""

from __future__ import annotations

import base64
import re
import shutil
from pathlib import Path

import nbformat

_HEAD = """# Gallery

Each notebook is in [`notebooks/`](install.md#notebooks) to be run and changed; here they are as
they came out.

::::{container} gallery
"""


def write(notebooks: Path, folder: Path) -> None:
    """Copies of the notebooks, and ``gallery.md``."""
    target = folder / "notebooks"
    target.mkdir()
    cards, names = [], []
    for path in sorted(notebooks.glob("*.ipynb"), key=lambda p: int(p.stem.partition("_")[0])):
        shutil.copy(path, target)
        notebook = nbformat.read(path, as_version=4)
        title, _, text = notebook.cells[0].source.partition("\n")
        lead = re.split(r"(?<=[.?!:])\s", text.strip(), maxsplit=1)[0].removesuffix(":")
        picture = _picture(notebook)
        title = title.removeprefix("# ")
        link = f"[**{title}**](notebooks/{path.name})"
        if picture:
            (target / f"{path.stem}.png").write_bytes(picture)
            link = f"[![{title}](notebooks/{path.stem}.png)](notebooks/{path.name})\n\n{link}"
        cards.append(f":::{{container}} card\n{link}\n\n{lead}\n:::\n")
        names.append(f"notebooks/{path.stem}")
    tree = "\n".join(["::::\n", "```{toctree}", ":hidden:", "", *names, "```", ""])
    (folder / "gallery.md").write_text("\n".join([_HEAD, *cards, tree]), encoding="utf-8")


def _picture(notebook: nbformat.NotebookNode) -> bytes | None:
    """The richest figure that a notebook shows."""
    shown = [
        output.data["image/png"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    return base64.b64decode(max(shown, key=len)) if shown else None
