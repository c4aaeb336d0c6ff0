from __future__ import annotations

import json

import numpy as np
import pytest

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
