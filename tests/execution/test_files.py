from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import tempfile
import zipfile

import numpy as np
import pytest

import evidence as ev
from evidence.execution import files

META = {"name": "π", "value": np.nan, "steps": [1, 2], "nested": {"on": True, "none": None}}
ARRAYS = {
    "x": np.random.default_rng(0).standard_normal((3, 4)),
    "a/b": np.arange(3),
    "empty": np.zeros((0, 2)),
    "flags": np.array([True, False]),
    "names": np.array(["one", "two"]),
}


@pytest.fixture
def path(tmp_path):
    files.write(tmp_path / "run.npz", "example", 2, META, ARRAYS)
    return tmp_path / "run.npz"


def test_round_trip(path):
    meta, arrays = files.read(path, "example", 2)
    assert np.isnan(meta.pop("value"))
    assert meta == {k: v for k, v in META.items() if k != "value"}
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_nothing_is_left_beside_the_file(path):
    assert [p.name for p in path.parent.iterdir()] == ["run.npz"]
    files.write(path, "example", 2, {}, {})  # takes the place of the old one
    assert files.read(path, "example", 2) == ({}, {})
    assert [p.name for p in path.parent.iterdir()] == ["run.npz"]


def test_paths_are_taken_as_they_are(tmp_path):
    files.write(str(tmp_path / "plain"), "example", 2, META, ARRAYS)
    assert [p.name for p in tmp_path.iterdir()] == ["plain"]
    assert files.read(str(tmp_path / "plain"), "example", 2)[0]["name"] == "π"


def test_a_failure_leaves_the_old_file(path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError("no space left")

    old = path.read_bytes()
    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space left"):
        files.write(path, "example", 2, META, ARRAYS)
    assert path.read_bytes() == old
    assert [p.name for p in path.parent.iterdir()] == ["run.npz"]


def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path):
    objects = np.array([{}], dtype=object)
    with pytest.raises(ValueError, match=r"array 'x' .* no objects"):
        files.write(tmp_path / "run.npz", "example", 2, {}, {"x": objects})
    with pytest.raises(ValueError, match="array 'meta'"):
        files.write(tmp_path / "run.npz", "example", 2, {}, {"meta": np.zeros(1)})
    with pytest.raises(ValueError, match="version"):
        files.write(tmp_path / "run.npz", "example", 2, {"version": 3}, {})
    with pytest.raises(TypeError, match=r"what JSON can hold: .*set"):
        files.write(tmp_path / "run.npz", "example", 2, {"x": {1}}, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("found", [("other", 2), ("example", 3)])
def test_other_formats_are_refused(path, found):
    with pytest.raises(ValueError, match=r"run.npz holds 'example' version 2, this package reads"):
        files.read(path, *found)


def test_files_of_other_kinds_are_refused(path, tmp_path):
    truncated, text, bare, listed, pickled = (tmp_path / name for name in "abcde")
    truncated.write_bytes(path.read_bytes()[:-100])
    text.write_text("hello")
    with open(bare, "wb") as file:
        np.savez(file, x=np.zeros(3))
    with open(listed, "wb") as file:
        np.savez(file, meta=np.array(json.dumps([1, 2])))
    with open(pickled, "wb") as file:
        np.savez(file, meta=np.array("{}"), x=np.array([{}], dtype=object))
    for bad in (truncated, text, bare, listed, pickled):
        with pytest.raises(ValueError, match=f"{bad.name} is not a saved result, or is damaged"):
            files.read(bad, "example", 2)
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "missing.npz", "example", 2)


def same(found, meta, arrays):
    """Whether nothing was changed, NaN included."""
    return (
        json.dumps(found[0]) == json.dumps(meta)
        and list(found[1]) == list(arrays)
        and all(found[1][name].dtype == array.dtype for name, array in arrays.items())
        and all(np.array_equal(found[1][name], array) for name, array in arrays.items())
    )


@pytest.mark.parametrize("compress", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_refused_or_harmless(tmp_path, compress):
    """Bits of large arrays, of their headers and of the archive's directory."""
    rng = np.random.default_rng(0)
    arrays = {**ARRAYS, "large": rng.standard_normal((30, 40)), "zeros": np.zeros(3000)}
    path = tmp_path / "run.npz"
    files.write(path, "example", 2, META, arrays, compress)
    content = path.read_bytes()
    tail = content.rindex(b"PK\x01\x02") - 2000  # the directory, and the arrays before it
    bits = rng.integers(0, 8 * len(content), 120).tolist()
    bits += rng.integers(8 * tail, 8 * len(content), 120).tolist()
    refused = 0
    for bit in bits:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert same(files.read(path, "example", 2), META, arrays)
        except ev.InputError:
            refused += 1
    assert refused > 0.5 * len(bits)


def test_every_bit_of_an_array_counts(path):
    x = np.zeros(2000)
    files.write(path, "example", 2, {}, {"x": x}, compress=False)
    content = bytearray(path.read_bytes())
    content[content.rindex(x.tobytes()) + 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ev.InputError, match="damaged"):
        files.read(path, "example", 2)


def test_what_is_missing_is_named(path):
    everything = np.load(path)
    kept = {name: everything[name] for name in everything.files if name != "flags"}
    np.savez(path, **kept)
    with pytest.raises(ev.InputError, match=r"run.npz is damaged: 'flags' is missing"):
        files.read(path, "example", 2)
    text = {"format": "example", "version": 2}
    np.savez(path, meta=np.array(json.dumps(text)), x=np.ones(2))
    with pytest.raises(ev.InputError, match="'arrays' is missing"):
        files.read(path, "example", 2)
    np.savez(path, meta=np.array(json.dumps({**text, "arrays": ["x"]})), x=np.ones(2))
    meta, arrays = files.read(path, "example", 2)
    assert list(arrays) == ["x"]
    for pieces in (meta, arrays):
        with pytest.raises(ev.InputError, match="'draws' is missing"):
            pieces["draws"]


@pytest.mark.parametrize("kind", ["result", "draws", "hyper"])
def test_other_versions_of_results_are_refused(tmp_path, kind):
    model, path = ev.GPModel([[0.0], [1.0]], [1, -1], "RBF(1.0)"), tmp_path / "saved"
    quiet = {"progressbar": False, "random_seed": 0}
    made = {
        "result": lambda: ev.log_evidence(model, method="ep"),
        "draws": lambda: ev.sample(model, draws=5, tune=5, **quiet),
        "hyper": lambda: ev.sample_hyperparameters(
            model, {"length_scale": "flat"}, draws=5, tune=5, **quiet
        ),
    }[kind]()
    made.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    known = json.loads(str(arrays.pop("meta")))
    for change in ({"version": known["version"] + 1}, {"format": "other"}, {"version": None}):
        np.savez(path.with_suffix(".npz"), meta=np.array(json.dumps(known | change)), **arrays)
        with pytest.raises(ev.InputError, match="this package reads"):
            type(made).load(path.with_suffix(".npz"))


posix = pytest.mark.skipif(os.name != "posix", reason="permissions and links as on Unix")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions(tmp_path, mask):
    path, before = tmp_path / "run.npz", os.umask(mask)
    try:
        files.write(path, "example", 2, META, ARRAYS)
        assert mode(path) == 0o666 & ~mask
        path.chmod(0o640)
        files.write(path, "example", 2, META, ARRAYS)
        assert mode(path) == 0o640
    finally:
        os.umask(before)


@posix
def test_links_stay(tmp_path):
    (tmp_path / "disk").mkdir()
    behind, link = tmp_path / "disk" / "behind", tmp_path / "run.npz"
    link.symlink_to(behind)
    for value in (1, 2):
        files.write(link, "example", 2, {"value": value}, {})
        assert link.is_symlink()
        assert files.read(behind, "example", 2)[0]["value"] == value
    assert [p.name for p in behind.parent.iterdir()] == ["behind"]


@posix
def test_what_is_not_a_file_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(ev.InputError, match="could be replaced"):
            files.write(path, "example", 2, META, ARRAYS)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*/nowhere"):
        files.write(tmp_path / "nowhere" / "run.npz", "example", 2, META, ARRAYS)


def test_what_the_system_says_stays_as_it_is(tmp_path):
    with pytest.raises(IsADirectoryError if os.name == "posix" else OSError):
        files.read(tmp_path, "example", 2)


def test_a_small_file_that_claims_to_be_large_is_not_unpacked(path):
    """A megabyte of zeros, said to be two gigabytes in the directory; and so in an array."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.npy", bytes(2**20))
        archive.infolist()[0].file_size = 2**31
    with pytest.raises(ev.InputError, match="claim to hold 2147483648"):
        files.read(path, "example", 2)
    header = {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
    with zipfile.ZipFile(path, "w") as archive, archive.open("meta.npy", "w") as entry:
        np.lib.format.write_array_header_1_0(entry, header)
    with pytest.raises(ev.InputError, match="another size than its header says"):
        files.read(path, "example", 2)


@pytest.mark.slow
def test_constants_can_be_read_again(path):
    """They shrink a thousandfold."""
    x = np.zeros(2**23 + 1)
    files.write(path, "example", 2, {}, {"x": x})
    assert files.read(path, "example", 2)[1]["x"].shape == x.shape


def test_a_full_disk_leaves_the_old_file():
    """A disk of 64 kB, where it may be mounted."""
    disk = tempfile.mkdtemp()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        path = os.path.join(disk, "run.npz")
        files.write(path, "example", 2, META, ARRAYS)
        large = {"x": np.random.default_rng(0).standard_normal(10_000)}
        with pytest.raises(OSError, match="No space left") as caught:
            files.write(path, "example", 2, META, large)
        assert caught.value.errno == errno.ENOSPC
        assert same(files.read(path, "example", 2), META, ARRAYS)
        assert os.listdir(disk) == ["run.npz"]
    finally:
        subprocess.run(["umount", disk], check=True)
        os.rmdir(disk)
