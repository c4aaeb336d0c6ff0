"""The documentation's block of R, run by R where there is one with reticulate."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "scripts/documentation/coming_from/bayesfactor.md"


def test_the_block_runs(tmp_path):
    rscript = shutil.which("Rscript")
    has = rscript and subprocess.run(
        [rscript, "-e", "library(reticulate)"], capture_output=True, check=False
    )
    if not has or has.returncode:
        pytest.skip("needs R with the package reticulate")
    (block,) = re.findall(r"```r\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "block.R").write_text(block)
    root = str(PAGE.parents[3])
    out = subprocess.run(
        [rscript, "block.R"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": root},
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    found = re.search(r"^(\d+\.\d+) ± \d+\.\d+ %$", out.stdout, re.MULTILINE)
    assert found, out.stdout
    assert abs(float(found[1]) / 11.65 - 1.0) < 0.01
    assert re.search(r"^wt .*-", out.stdout, re.MULTILINE), out.stdout
