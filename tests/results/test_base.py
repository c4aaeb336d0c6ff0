"""The contract of all results, on one that holds a little of everything."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from evidence.messages import InputError, Message
from evidence.results.base import Result


class Pair(NamedTuple):
    a: float
    b: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Small(Result):
    _format = "test-small"
    x: np.ndarray
    names: tuple[str, ...]
    warnings: tuple[Message, ...]

    def _about(self) -> list[str]:
        return ["a < b", "second line"]


@dataclass(frozen=True, eq=False, repr=False)
class Large(Result):
    _format = "test-large"
    table: pd.DataFrame
    pair: Pair
    parts: dict[str, Small]
    model: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.pair, dict):
            object.__setattr__(self, "pair", Pair(**self.pair))

    def _about(self) -> list[str]:
        return ["large"]

    def _frame(self) -> pd.DataFrame:
        return self.table


class Model:
    def __init__(self, K):
        self.K = np.asarray(K, dtype=float)

    def identity(self):
        return (self.K,)

    def __repr__(self):
        return "Model"


@pytest.fixture
def small():
    return Small(np.arange(3.0), ("u", "v"), (Message("few", "too few"), "no code"))


@pytest.fixture
def large(small):
    table = pd.DataFrame(
        {"logz": [1.5, np.nan], "method": ["smc", ""], "n": [1, 2], "ok": [True, False]},
        index=pd.Index(["a", "b"], name="model"),
    )
    pair = Pair(np.float64(0.1), np.eye(2))
    return Large(table, pair, {"a/b": small, "": small}, Model([1.0]), {"se": np.nan, "k": [1]})


def test_everything_comes_back(large, tmp_path):
    large.save(tmp_path / "file")
    back = Large.load(tmp_path / "file", model=large.model)
    pd.testing.assert_frame_equal(back.table, large.table)
    assert back.table.index.name == "model"
    assert back.pair.a == 0.1
    np.testing.assert_array_equal(back.pair.b, np.eye(2))
    assert list(back.parts) == ["a/b", ""]
    for part in back.parts.values():
        assert isinstance(part, Small)
        np.testing.assert_array_equal(part.x, np.arange(3.0))
        assert part.names == ("u", "v")
        assert [one.code for one in part.warnings] == ["few", ""]
    assert back.model is large.model
    assert np.isnan(back.settings["se"])
    assert back.settings["k"] == [1]
    assert back.notes == ()


def test_models_are_given_again_and_checked(large, tmp_path):
    large.save(tmp_path / "file")
    with pytest.raises(InputError, match="model is missing"):
        Large.load(tmp_path / "file")
    with pytest.raises(InputError, match="model is another one"):
        Large.load(tmp_path / "file", model=Model([2.0]))


def test_other_kinds_and_versions_are_refused(small, large, tmp_path):
    small.save(tmp_path / "file")
    with pytest.raises(InputError, match="holds 'test-small' version 2"):
        Large.load(tmp_path / "file")


def test_what_no_file_can_hold_is_named(small, tmp_path):
    with pytest.raises(InputError, match="names/0 is of type set"):
        Small(np.zeros(1), ({1},), ()).save(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_warnings_are_messages(small):
    assert small.warnings == ("too few", "no code")
    assert all(isinstance(one, Message) for one in small.warnings)
    again = pickle.loads(pickle.dumps(small))
    assert [one.code for one in again.warnings] == ["few", ""]


def test_a_summary_is_shown_as_it_is_printed(small):
    """At a prompt, and as the last line of a notebook's cell."""
    page = small.summary()
    assert isinstance(page, str)
    assert repr(page) == str(page) == "a < b\nsecond line\nWARNING: too few\nWARNING: no code"
    pretty = pytest.importorskip("IPython.lib.pretty")
    assert pretty.pretty(page) == str(page)


def test_shown(small, large):
    assert repr(small) == "Small(a < b, 2 warning(s))"
    assert small.summary().splitlines() == [
        "a < b", "second line", "WARNING: too few", "WARNING: no code"
    ]  # fmt: skip
    assert "a &lt; b" in small._repr_html_()
    assert "<table" not in small._repr_html_()
    assert "too few" in small._repr_html_()
    assert "<table" in large._repr_html_()
    assert "smc" in large.summary()
