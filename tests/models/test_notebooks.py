"""Notebooks show what a model says of itself."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

import evidence as ev

X, Y = np.linspace(0.0, 3.0, 4)[:, None], [1, -1, 1, 1]


def by_formula():
    return ev.from_formula("y ~ x", {"y": [1, 2, 0, 3], "x": X[:, 0]}, likelihood="poisson")


MODELS = {
    "GPModel": lambda: ev.GPModel(X, Y, "2.0 * RBF(1.0)"),
    "SparseModel": lambda: ev.SparseModel(sp.eye_array(4).tocsc(), Y),
    "SoftmaxModel": lambda: ev.SoftmaxModel(X, list("abca"), "RBF(1.0)"),
    "DensityModel": lambda: ev.DensityModel(lambda x: -x @ x, 2),
    "FormulaModel": by_formula,
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_a_table_of_what_describes_it(kind):
    model = MODELS[kind]()
    shown = model._repr_html_()
    assert f"<strong>{kind}</strong>" in shown
    rows = dict(re.findall(r"<tr><th>(.*?)</th><td>(.*?)</td></tr>", shown))
    assert rows == {name: str(value) for name, value in model.describe().items()}


def test_names_are_no_markup():
    def density(x):
        return -x @ x

    density.__name__ = "a < b"
    assert "a &lt; b" in ev.DensityModel(density, 2)._repr_html_()
