"""The soak sees what it looks for: hangs, errors, other bits, and errors that nothing tells of."""

from __future__ import annotations

import os
import re
import signal
import time

import numpy as np
import pandas as pd
import pytest

import evidence as ev
from scripts.benchmarks import soak
from scripts.benchmarks.soak import Case, Ended

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
careless = pytest.mark.filterwarnings(  # where JAX was imported, and from Python 3.12 on
    "ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning"
)
KILL, INTERRUPT = (signal.SIGKILL,), (signal.SIGINT,)


def sleep(**words):
    time.sleep(60.0)


def refuse(**words):
    raise ev.InputError("no")


def fail(**words):
    raise LookupError("lost")


@forks
@careless
@pytest.mark.parametrize(
    ("call", "signals", "ends"),
    [(sleep, KILL, "killed"), (sleep, INTERRUPT, "interrupted"),
     pytest.param(sleep, (), "hangs", marks=pytest.mark.slow),
     (refuse, (), "refused"), (fail, (), "LookupError: lost")],
)  # fmt: skip
def test_how_a_run_ends(call, signals, ends):
    ended = soak.run(Case("", call, None), signals, 0.2, 0.5)
    assert ends in ended.how
    assert ended.struck == bool(signals)


SOUND = Ended("done", "bits", 1.0, 0.1)


@pytest.mark.parametrize(
    ("wrong", "seldom"),
    [
        ("", SOUND),
        ("hangs", Ended("hangs")),
        ("errors", Ended("LookupError: lost")),
        ("other bits", SOUND._replace(bits="others")),
        ("silent", SOUND._replace(logz=9.0)),
        ("", SOUND._replace(logz=9.0, warned=True)),
    ],
)
def test_what_is_wrong_is_counted(monkeypatch, tmp_path, capsys, wrong, seldom):
    """Among sound runs one in a pool of threads is not."""

    def run(case, send=(), after=0.0, limit=0.0, pool="", checkpoint=None, **words):
        if checkpoint is not None:
            checkpoint.write_bytes(b"sound")
        return seldom if pool == "threads" else SOUND._replace(struck=bool(send))

    monkeypatch.setattr(soak, "run", run)
    monkeypatch.setattr(soak, "save", lambda case, folder: folder / "result.npz")
    monkeypatch.setattr(soak, "flip", lambda file, read, seed: Ended("done", "0"))
    rows = pd.DataFrame(soak.trials(Case("", sleep, 1.0), np.random.default_rng(0), tmp_path))
    assert dict(zip(rows.what, rows.wrong, strict=True)).pop("threads") == wrong
    assert set(rows.wrong) == {"", wrong}
    assert soak.report(rows.assign(case=0), tmp_path) == bool(wrong)
    counted = re.search(r"threads +1 +(\d) +(\d) +(\d) +(\d)", capsys.readouterr().out).groups()
    assert counted == tuple(str(int(name == wrong)) for name in soak.COUNTS)


@pytest.mark.parametrize("kept", [True, False])
def test_files_are_damaged_where_there_are_any(monkeypatch, tmp_path, kept):
    """A closed form leaves no checkpoint."""

    def run(case, send=(), after=0.0, limit=0.0, pool="", checkpoint=None, **words):
        if kept and checkpoint is not None:
            checkpoint.write_bytes(b"sound")
        return SOUND._replace(struck=bool(send))

    monkeypatch.setattr(soak, "run", run)
    monkeypatch.setattr(soak, "save", lambda case, folder: folder / "result.npz")
    monkeypatch.setattr(soak, "flip", lambda file, read, seed: Ended("done", "0"))
    rows = soak.trials(Case("", sleep, 1.0), np.random.default_rng(0), tmp_path)
    done = {row.what for row in rows}
    assert {"flips, result", "cut", "^C^C"} <= done
    assert ({"flips, checkpoint", "damaged"} <= done) == kept
    assert not any(row.wrong for row in rows)


@forks
@careless
@pytest.mark.parametrize(("trusting", "silent"), [(False, 0), (True, soak.FLIPS)])
def test_flipped_bits(tmp_path, trusting, silent):
    """A reader that checks refuses all of them; one that does not takes them for sound."""
    file, content = tmp_path / "file", b"x" * 100

    def read(path):
        if not trusting and path.read_bytes() != content:
            raise ev.InputError("damaged")
        return path.read_bytes().hex()

    file.write_bytes(content)
    ended = soak.flip(file, read, 0)
    assert (ended.how, ended.bits) == ("done", str(silent))
