"""What all tests share: where compiled code is kept, and the research data."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def cache_dir() -> Path:
    return Path(tempfile.gettempdir()) / f"evidence-numba-{os.getuid()}"


os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_dir()))  # before anything imports numba
os.environ.setdefault("MPLBACKEND", "Agg")
# before anything imports NumPy: pytest's workers fill the cores, and BLAS threads that wait for
# each other make thousands of small factorisations a hundred times slower; scikit-learn's threads
# that wait for each other turned 5 seconds of k-means in a file of tests into 58
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores ^C


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is made while tests are collected stays: looking for garbage among a million
    objects, again and again, was a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="module")
def small_searches() -> Generator[None]:
    """Searches are frugal that verbs do on their own, where they are not what is tested."""
    from evidence.approximations.density.policy import EFFORTS

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EFFORTS, "normal", EFFORTS["frugal"])
        yield


@pytest.fixture
def no_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody makes room for panels and legends, which takes most of the time of a figure: how that
    is done is tested by ``plots/test_style.py``."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "get_layout_engine", lambda self: None)


@pytest.fixture(scope="session")
def research_data() -> Path:
    """The folder of research data sets; tests that need it are skipped where it is missing."""
    for folder in (os.environ.get("EVIDENCE_DATA"), ROOT.parent / "shared" / "data"):
        if folder and (Path(folder) / "heart.npz").exists():
            return Path(folder)
    pytest.skip("research data sets not found; set EVIDENCE_DATA to their folder")
