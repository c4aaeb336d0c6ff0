"""Nothing computed is lost: killed at any moment, resumed to the same bits."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
import zipfile
from typing import NamedTuple

import numpy as np
import pytest
from covering import seldom

import evidence as ev
from evidence.execution import checkpoint, files
from evidence.execution.checkpoint import Checkpoint
from evidence.execution.clock import Clock
from evidence.methods import density
from evidence.methods.registry import METHODS

RUN = """
import sys
import numpy as np
import evidence as ev
x = np.linspace(0.0, 8.0, 60)[:, None]
K = 9.0 * np.exp(-0.5 * (x - x.T) ** 2) + 1e-6 * np.eye(60)
model = ev.GPModel(K=K, y=np.resize([1, 1, -1], 60), likelihood="logit")
print("ready", flush=True)
result = ev.log_evidence(model, method="smc", checkpoint=sys.argv[1], random_seed=5,
                         n_islands=64, n_particles=256, progressbar=False)
print(repr(result.logz), result.samples.sum())
"""


CHAINS = """
import sys
import numpy as np
import evidence as ev
from evidence.execution import checkpoint
checkpoint._EVERY, checkpoint._SHARE = 0.1, 5.0
x = np.linspace(0.0, 8.0, 60)[:, None]
K = 9.0 * np.exp(-0.5 * (x - x.T) ** 2) + 1e-6 * np.eye(60)
model = ev.GPModel(K=K, y=np.resize([1, 1, -1], 60), likelihood="logit")
print("ready", flush=True)
draws = ev.sample(model, move="splitting", checkpoint=sys.argv[1], random_seed=5, chains=8,
                  tune=500, draws=4000, progressbar=False)
print(repr(draws.step_size), draws.x.sum(), draws.acceptance.sum(), draws.failures)
"""


class Piece(NamedTuple):
    value: np.ndarray
    number: float


def start(path, program):
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    )


def answer(path, program=RUN):
    process = start(path, program)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.splitlines()[1]


def kill_and_resume(folder, want, seconds, again=answer):
    folder.mkdir()
    path = folder / "run.ckpt"
    process = start(path, RUN)
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert again(path) == want
    assert [p.name for p in folder.iterdir() if not p.name.startswith(".")] == ["run.ckpt"]


@pytest.fixture
def answer_here(monkeypatch, capsys):
    """What a program answers in this process, which knows nothing of others."""

    def run(path, program=RUN):
        monkeypatch.setattr(sys, "argv", ["", str(path)])
        exec(program, {})
        return capsys.readouterr().out.splitlines()[1]

    return run


def test_killed_and_resumed(tmp_path, answer_here):
    kill_and_resume(tmp_path / "killed", answer_here(tmp_path / "whole.ckpt"), 0.6, answer_here)


@pytest.mark.slow
def test_chains_killed_and_resumed(tmp_path, monkeypatch, answer_here):
    """At the first step, and once something was kept for the third time."""
    for name in ("_EVERY", "_SHARE"):  # which the program sets, in this process
        monkeypatch.setattr(checkpoint, name, getattr(checkpoint, name))
    want = answer_here(tmp_path / "whole.ckpt", CHAINS)
    path = tmp_path / "killed.ckpt"
    for times in (1, 3):
        process, seen = start(path, CHAINS), {path.stat().st_mtime_ns if path.exists() else 0}
        while process.poll() is None and len(seen) <= times:
            seen |= {path.stat().st_mtime_ns} if path.exists() else set()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert answer_here(path, CHAINS) == want


@pytest.mark.slow
def test_killed_at_twenty_moments(tmp_path):
    rng = np.random.default_rng(0)
    started = time.perf_counter()
    want = answer(tmp_path / "whole.ckpt")
    whole = time.perf_counter() - started
    for i, seconds in enumerate(rng.uniform(0.0, whole, 20)):
        kill_and_resume(tmp_path / str(i), want, seconds)


def small(checkpoint, **words):
    model = ev.GPModel(K=np.eye(4) + 1.0, y=[1, 1, -1, 1])
    words = {"random_seed": 1, "n_islands": 8, "n_particles": 32, "method": "smc"} | words
    return ev.log_evidence(model, checkpoint=checkpoint, progressbar=False, **words)


def test_islands_on_disk_are_not_run_again(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    first = small(path)
    monkeypatch.setattr("evidence.drivers.smc.Loop.run", lambda *a, **k: pytest.fail("ran again"))
    again = small(path)
    assert (again.logz, again.logz_se) == (first.logz, first.logz_se)
    np.testing.assert_array_equal(again.samples, first.samples)


def test_more_islands_go_on_from_fewer(tmp_path):
    small(tmp_path / "run.ckpt", n_islands=8)
    assert small(tmp_path / "run.ckpt", n_islands=24).logz == small(None, n_islands=24).logz


def test_blocks_of_another_size_are_made_anew(tmp_path):
    small(tmp_path / "run.ckpt", n_islands=9)
    assert small(tmp_path / "run.ckpt", n_islands=24).logz == small(None, n_islands=24).logz
    assert small(tmp_path / "run.ckpt", n_islands=9).logz == small(None, n_islands=9).logz


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=pytest.mark.slow if m == "pt" else ()) for m in METHODS]
)
def test_every_method_resumes_to_the_same_bits(tmp_path, method):
    """A run whose file has lost every other piece ends where the whole run ended."""
    path = tmp_path / "run.ckpt"
    words = {"method": method, "n_islands": 12, "n_particles": 32}
    words |= {"n_sweeps": 16, "n_levels": 3, "explore": 1} if method == "pt" else {}
    want = small(path, **words)
    meta, arrays = files.read(path, "evidence-checkpoint", 1)
    pieces = sorted({name.split("/")[0] for name in arrays})
    assert len(pieces) > 1
    kept = {name: a for name, a in arrays.items() if name.split("/")[0] in pieces[::2]}
    files.write(path, "evidence-checkpoint", 1, meta, kept)
    found = small(path, **words)
    assert (found.logz, found.logz_se) == (want.logz, want.logz_se)
    np.testing.assert_array_equal(found.samples, want.samples)


@pytest.mark.parametrize("method", seldom(["smc", "pt", "auto"], 0, 2))
def test_what_decides_the_islands_is_part_of_the_run(tmp_path, method):
    words = {"method": method, "n_particles": None, "n_islands": None}
    words |= {"n_levels": 3} if method == "pt" else {}
    small(tmp_path / "run.ckpt", target_se=0.2, **words)
    with pytest.raises(ValueError, match=r"target_se is 0\.2 there and 0\.1 here"):
        small(tmp_path / "run.ckpt", target_se=0.1, **words)


def test_numpy_seeds(tmp_path):
    first = small(tmp_path / "run.ckpt", random_seed=np.int64(1))
    assert small(tmp_path / "run.ckpt", random_seed=1).logz == first.logz


def test_seed_comes_from_the_file_when_none_is_given(tmp_path):
    first = small(tmp_path / "run.ckpt", random_seed=None)
    assert small(tmp_path / "run.ckpt", random_seed=None).logz == first.logz


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"random_seed": 2}, "random_seed is 1 there and 2 here"),
        ({"move": "pcn"}, "move is MGrad.* there and PCN"),
        ({"n_particles": 64}, "n_particles is 32 there and 64 here"),
        ({"reference": "prior"}, "reference is ep there and prior here"),
        ({"betas": [0.5, 1.0]}, "betas is adaptive there"),
        ({"resampling": "residual"}, "options is .*residual"),
        ({"method": "importance"}, "method is smc there"),
    ],
)
def test_another_run_is_refused(tmp_path, change, message):
    small(tmp_path / "run.ckpt")
    with pytest.raises(ValueError, match=f"belongs to another run: {message}"):
        small(tmp_path / "run.ckpt", **change)


def test_another_model_or_version_is_refused(tmp_path, monkeypatch):
    small(tmp_path / "run.ckpt")
    model = ev.GPModel(K=np.eye(4) + 1.1, y=[1, 1, -1, 1])
    with pytest.raises(ValueError, match="belongs to another run: model is"):
        ev.log_evidence(model, method="smc", checkpoint=tmp_path / "run.ckpt", random_seed=1)
    monkeypatch.setattr("evidence.verbs._call.__version__", "0.0.0")
    with pytest.raises(ValueError, match="package version is"):
        small(tmp_path / "run.ckpt")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "a result", "text"])
def test_damaged_files_are_refused(tmp_path, damage):
    path = tmp_path / "run.ckpt"
    result = small(path)
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        with zipfile.ZipFile(path) as members:
            second = members.infolist()[1].header_offset
        content[second - 1] ^= 255  # where the first ends
        path.write_bytes(content)
    elif damage == "text":
        path.write_text("not a checkpoint")
    else:
        result.save(path)
    with pytest.raises(ValueError, match=r"run\.ckpt (is not|holds)"):
        small(path)


def test_full_disk_is_a_warning(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    with pytest.warns(RuntimeWarning, match="checkpoint could not be written.*No space left"):
        result = small(tmp_path / "run.ckpt")
    assert result.logz == small(None).logz
    assert any("No space left" in w for w in result.warnings)


def test_a_disk_that_recovers_is_used_again(tmp_path, monkeypatch):
    store, calls, write = Checkpoint(tmp_path / "run.ckpt", {}), [], files.write

    def flaky(*args, **kwargs):
        calls.append(1)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*args, **kwargs)

    monkeypatch.setattr(files, "write", flaky)
    store.put("piece", Piece(np.arange(2), 1.5))
    with pytest.warns(RuntimeWarning, match="the run goes on without"):
        store.save()
    store.save()
    assert not store.warnings
    found = Checkpoint(tmp_path / "run.ckpt", {}).get("piece", Piece)
    assert found.number == 1.5


def codes(texts):
    return [getattr(text, "code", "") for text in texts]


def test_pieces_of_other_kernels_are_told(tmp_path):
    path, here, there = tmp_path / "run.ckpt", "openblas 0.3 Haswell", "openblas 0.3 Zen"
    first = Checkpoint(path, {}, lambda: here)
    first.put("piece", Piece(np.arange(2), 1.5))
    first.save()
    assert not Checkpoint(path, {}, lambda: here).warnings
    assert not Checkpoint(path, {}, lambda: f"mkl 2025 Intel, {here}").warnings
    resumed = Checkpoint(path, {}, lambda: there)
    assert resumed.get("piece", Piece).number == 1.5
    assert codes(resumed.warnings) == codes(resumed.part("some").warnings) == ["other-kernels"]
    assert here in resumed.warnings[0]
    assert there in resumed.warnings[0]
    resumed.put("another", Piece(np.arange(2), 2.5))
    resumed.save()
    assert codes(resumed.warnings) == ["other-kernels"]
    assert codes(Checkpoint(path, {}, lambda: here).warnings) == ["other-kernels"]


def test_a_run_tells_of_other_kernels(tmp_path):
    path = tmp_path / "run.ckpt"
    first = small(path)
    meta, arrays = files.read(path, "evidence-checkpoint", 1)
    assert meta["kernels"] == [first.settings["blas"]]
    assert "other-kernels" not in codes(small(path).warnings)
    files.write(
        path, "evidence-checkpoint", 1, {**meta, "kernels": ["openblas 0.2 Abacus"]}, arrays
    )
    again = small(path)
    assert again.logz == first.logz
    assert codes(again.warnings).count("other-kernels") == 1


def test_a_folder_is_no_checkpoint(tmp_path):
    with pytest.raises(ev.InputError, match=r"checkpoint must be a file, and .* is a folder"):
        small(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="folder permissions as on Unix")
def test_missing_folder_is_a_warning(tmp_path):
    with pytest.warns(RuntimeWarning, match="checkpoint could not be written"):
        result = small(tmp_path / "nowhere" / "run.ckpt")
    assert np.isfinite(result.logz)
    assert "checkpoint-unwritten" in codes(result.warnings)


def chains(checkpoint, **words):
    model = ev.GPModel(K=np.eye(4) + 1.0, y=[1, 1, -1, 1])
    words = {"random_seed": 1, "tune": 15, "draws": 25, "chains": 3} | words
    return ev.sample(model, checkpoint=checkpoint, progressbar=False, **words)


def same_draws(one, other):
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.logtilt, other.logtilt)
    np.testing.assert_array_equal(one.acceptance, other.acceptance)
    assert (one.step_size, one.failures) == (other.step_size, other.failures)
    assert one.gradients == other.gradients


@pytest.mark.parametrize(
    "move",
    ["mgrad", "gibbs", *seldom(["pcn", "nuts", "rmhmc", "mmala"])],
)
def test_chains_go_on_from_every_place(tmp_path, monkeypatch, move):
    """Every step is kept; the run is cut after each of five of them, and goes on there."""
    monkeypatch.setattr(Checkpoint, "due", lambda self: self.path is not None)
    words = {"move": move, "thin": 2 if move == "nuts" else 1}
    path, want, kept = tmp_path / "run.ckpt", chains(None, **words), []
    write = files.write

    def keep(*args, **kwargs):
        write(*args, **kwargs)
        kept.append(path.read_bytes())

    with monkeypatch.context() as patch:
        patch.setattr(files, "write", keep)
        same_draws(chains(path, **words), want)
    for content in kept[:: max(1, len(kept) // 5)]:
        path.write_bytes(content)
        same_draws(chains(path, **words), want)
    same_draws(chains(path, **words), want)  # finished: nothing is left to draw


@pytest.mark.slow
def test_chains_cut_by_the_clock_go_on(tmp_path):
    path, words, cuts = tmp_path / "run.ckpt", {"move": "hmc", "draws": 1500, "tune": 200}, 0
    want = [chains(None, **words) for _ in range(2)][1]  # nothing is compiled any more
    third = (want.seconds + want.tune_seconds) / 3.0
    while True:
        try:
            part = chains(path, max_seconds=third, **words)
        except RuntimeError:  # nothing but tuning so far
            cuts += 1
            continue
        if part.x.shape[1] == 1500:
            break
        assert "stopped-early" in [warning.code for warning in part.warnings]
        cuts += 1
    same_draws(part, want)
    assert cuts
    assert part.seconds + part.tune_seconds > third


@pytest.mark.parametrize(
    "move",
    ["mgrad", *seldom(["hmc", "gibbs", "rmhmc"])],
)
def test_chains_cut_between_two_draws_go_on(tmp_path, monkeypatch, move):
    """A part of a draw is none: the clock stops them at a step in the middle of one."""
    path, words, looks = tmp_path / "run.ckpt", {"move": move, "thin": 300, "draws": 4}, []

    def stop(clock, flops=0.0):
        looks.append(clock)
        return len(looks) >= 750

    want = chains(None, **words)
    with monkeypatch.context() as patch:
        patch.setattr(Clock, "stop", stop)
        part = chains(path, **words)
    assert 0 < part.x.shape[1] < 4
    np.testing.assert_array_equal(part.x, want.x[:, : part.x.shape[1]])
    same_draws(chains(path, **words), want)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"random_seed": 2}, "random_seed is 1 there and 2 here"),
        ({"move": "pcn"}, "move is MGrad.* there and PCN"),
        ({"draws": 26}, "draws is 25 there and 26 here"),
        ({"thin": 2}, "thin is 1 there"),
        ({"reference": "prior"}, "reference is None there and prior here"),
        ({"beta": 0.5}, "beta is 1.0 there"),
    ],
)
def test_other_chains_are_refused(tmp_path, change, message):
    chains(tmp_path / "run.ckpt")
    with pytest.raises(ev.InputError, match=f"belongs to another run: {message}"):
        chains(tmp_path / "run.ckpt", **change)
    with pytest.raises(ev.InputError, match="belongs to another run"):
        small(tmp_path / "run.ckpt")


def test_the_seed_of_chains_comes_from_the_file_when_none_is_given(tmp_path):
    first = chains(tmp_path / "run.ckpt", random_seed=None)
    same_draws(chains(tmp_path / "run.ckpt", random_seed=None), first)


@pytest.mark.slow
def test_a_search_cut_by_the_clock_lends_its_islands_to_no_other(tmp_path, monkeypatch):
    """Calls are said to be slow: a limit on time leaves few, and another proposal."""

    def log_likelihood(x):
        return -np.sum((x - 0.5) ** 2) / 0.02 - abs(x[0])

    model = ev.DensityModel(log_likelihood, prior=[(-3.0, 3.0)] * 2)
    words = {"random_seed": 0, "progressbar": False}
    path, want = tmp_path / "run.ckpt", ev.log_evidence(model, **words)
    with monkeypatch.context() as patch:
        patch.setattr(density, "seconds_each", lambda model: 2e-3)
        cut = ev.log_evidence(model, checkpoint=path, max_seconds=5.0, **words)
    assert 0 < sum(cut.evaluations.values()) < sum(want.evaluations.values()) / 2
    whole = ev.log_evidence(model, checkpoint=path, **words)
    assert (whole.logz, whole.logz_se) == (want.logz, want.logz_se)


@pytest.mark.slow
def test_a_long_batch_that_is_cut_is_not_lost(tmp_path, monkeypatch):
    """Of 4096 points of the first look 500 were evaluated when the run died, and twice."""
    calls = []

    def log_likelihood(x):
        calls.append(tuple(x))
        if len(calls) > 500:
            raise RuntimeError("died")
        time.sleep(3e-4)
        return -np.sum((x - 0.5) ** 2) / 0.02

    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoint, "_SHARE", 0.0)
    model = ev.DensityModel(log_likelihood, prior=[(-3.0, 3.0)] * 2)
    words = {"random_seed": 0, "progressbar": False, "checkpoint": tmp_path / "run.ckpt"}
    made = []
    for _ in range(2):
        calls.clear()
        with pytest.raises(RuntimeError, match="died"):
            ev.log_evidence(model, **words)
        made.append({*calls})
    assert len(made[0] & made[1]) < 200
