"""The documentation's block of R, run by R where there is one with reticulate."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "scripts/documentation/coming_from/bayesfactor.md"


@pytest.mark.parametrize("part", [pytest.param("whole", marks=pytest.mark.slow), "regression"])
def test_the_block_runs(tmp_path, part):
    """All of it, or what it begins with and its second half, which takes seconds."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("needs R with the package reticulate")
    (block,) = re.findall(r"```r\n(.*?)```", PAGE.read_text(), re.DOTALL)
    if part == "regression":
        first, second = block.split("\n\n")
        block = "\n".join([*first.splitlines()[:2], second])
    (tmp_path / "block.R").write_text(block)
    root = str(PAGE.parents[3])
    out = subprocess.run(
        [rscript, "block.R"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={
            **os.environ, "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": root,
            "LANGUAGE": "en",  # what R says is read below
        },
    )  # fmt: skip
    if re.search(r"library\(reticulate\).*\n?.*no package", out.stderr):
        pytest.skip("needs R with the package reticulate")
    assert out.returncode == 0, out.stderr
    if part == "whole":
        found = re.search(r"^(\d+\.\d+) ± \d+\.\d+ %$", out.stdout, re.MULTILINE)
        assert found, out.stdout
        assert abs(float(found[1]) / 11.65 - 1.0) < 0.01
    assert re.search(r"^wt .*-", out.stdout, re.MULTILINE), out.stdout
