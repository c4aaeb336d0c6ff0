"""Draws in all the forms in which people have them."""

import numpy as np
import pytest

import evidence as ev
from evidence.execution.files import to_arviz
from evidence.models.adaptors.chains import read_chains

RNG = np.random.default_rng(0)
NAMED = {"mu": RNG.normal(size=(2, 9)), "b": RNG.normal(size=(2, 9, 2, 3))}


def test_array():
    x = RNG.normal(size=(9, 3))
    chains = read_chains(x)
    assert chains.x.shape == (1, 9, 3)
    assert chains.names == ("x[0]", "x[1]", "x[2]")
    assert chains.by_name(x) is x


def test_mapping_there_and_back():
    chains = read_chains(NAMED)
    assert chains.names[:2] == ("mu", "b[0,0]")
    assert chains.names[-1] == "b[1,2]"
    again = chains.by_name(chains.x[1])
    np.testing.assert_array_equal(again["b"], NAMED["b"][1])
    one = chains.by_name(chains.x[0, 4])
    assert one["mu"] == NAMED["mu"][0, 4]
    assert np.shape(one["mu"]) == ()
    assert read_chains(NAMED, ["mu"]).names == ("mu",)


def test_arviz_and_xarray():
    pytest.importorskip("arviz")
    data = to_arviz({"posterior": NAMED})
    np.testing.assert_array_equal(read_chains(data).x, read_chains(NAMED).x)
    np.testing.assert_array_equal(read_chains(data.posterior).x, read_chains(NAMED).x)


def test_data_tree():
    xr = pytest.importorskip("xarray")
    dims = {"mu": ("draw", "chain"), "b": ("draw", "chain", "i", "j")}  # in any order
    variables = {name: (dims[name], NAMED[name].swapaxes(0, 1)) for name in NAMED}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})
    np.testing.assert_array_equal(read_chains(tree).x, read_chains(NAMED).x)


def test_for_a_model():
    of = read_chains(NAMED).of(("b[2,3]", "mu"))  # indices from one: Stan's
    np.testing.assert_array_equal(of.x[..., 0], NAMED["b"][..., 1, 2])
    assert read_chains(np.zeros((9, 2))).of(("a", "b")).names == ("a", "b")


@pytest.mark.parametrize(
    ("draws", "var_names", "match"),
    [
        (np.zeros(5), None, "draws"),
        (np.full((4, 5, 1), np.nan), None, "draws"),
        ({"a": np.zeros((2, 5)), "b": np.zeros((2, 6))}, None, r"draws\['b'\]"),
        ({"a": 1.0}, None, r"draws\['a'\]"),
        ({}, None, "draws"),
        (NAMED, ["nu"], "var_names"),
        (np.zeros((5, 2)), ["mu"], "var_names"),
    ],
)
def test_refused(draws, var_names, match):
    with pytest.raises(ev.InputError, match=match):
        read_chains(draws, var_names)


def test_refused_by_a_model():
    with pytest.raises(ev.InputError, match="draws"):
        read_chains(NAMED).of(("sigma",))
