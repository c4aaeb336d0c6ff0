"""The notebooks among the pages, and a page with a picture of each."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import nbformat

_HEAD = """# Gallery

Each notebook is in [`notebooks/`](install.md#notebooks) to be run and changed; here they are as
they came out.

::::{container} gallery
"""

#: what one learns, by the number of the notebook
_LEARNT = {
    1: "From a table to log Z, what its error bar is made of, and how far EP and Laplace are off.",
    2: "Error bars hold the truth as often as they say, until one breaks them on purpose.",
    3: "What a nat of accuracy costs by method, move and ladder, side by side.",
    4: "Five kernels by evidence, beside what cross-validation says; and more than two answers.",
    5: "How a metric bends trajectories in three landscapes, and why SoftAbs.",
    6: "4096 cells at once: the intensity, its uncertainty, and how large its patches are.",
    7: "Eight schools, a wave without derivatives, several peaks, and models of PyMC and Stan.",
    8: "Ten thousand latent values: groups, series, maps and planes by sparse precisions.",
    9: "Four models in one call, how much of the answer is the prior, and whether it is right.",
    10: "Is risk shared by neighbours? Four priors of a map, and how much is shared.",
    11: "Ten candidates for a series of counts, what leaving one out costs, and a gap filled.",
    12: "Planets in radial velocities: amplitudes integrated out, and periods scanned for.",
}
_WIDE = 1.9  # width over height of figures with several panels


def write(notebooks: Path, folder: Path) -> None:
    """Copies of the notebooks, and ``gallery.md``."""
    target = folder / "notebooks"
    target.mkdir()
    cards, names = [], []
    for path in sorted(notebooks.glob("*.ipynb"), key=lambda p: int(p.stem.partition("_")[0])):
        shutil.copy(path, target)
        notebook = nbformat.read(path, as_version=4)
        title = notebook.cells[0].source.partition("\n")[0]
        picture = _picture(notebook)
        title = title.removeprefix("# ")
        link = f"[**{title}**](notebooks/{path.name})"
        if picture:
            (target / f"{path.stem}.png").write_bytes(picture)
            link = f"[![{title}](notebooks/{path.stem}.png)](notebooks/{path.name})\n\n{link}"
        learnt = _LEARNT[int(path.stem.partition("_")[0])]
        cards.append(f":::{{container}} card\n{link}\n\n{learnt}\n:::\n")
        names.append(f"notebooks/{path.stem}")
    tree = "\n".join(["::::\n", "```{toctree}", ":hidden:", "", *names, "```", ""])
    (folder / "gallery.md").write_text("\n".join([_HEAD, *cards, tree]), encoding="utf-8")


def _picture(notebook: nbformat.NotebookNode) -> bytes | None:
    """The richest figure that a notebook shows, of one panel where there is such a one."""
    shown = [
        output.data["image/png"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    pictures = [base64.b64decode(png) for png in shown]
    return max(pictures, key=lambda png: (_aspect(png) < _WIDE, len(png)), default=None)


def _aspect(png: bytes) -> float:
    """Width over height, which stand at the beginning of a PNG."""
    width, height = (int.from_bytes(png[i : i + 4], "big") for i in (16, 20))
    return width / height
