"""Kernels as text, as models take them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import evidence as ev

X = np.linspace(0.0, 3.0, 8)[:, None]
TEXT = "np.float64(2.0) * RBF(1.5)"


@pytest.mark.parametrize(
    ("cls", "y"),
    [
        (ev.GaussianProcessRegressor, np.sin(X[:, 0])),
        (ev.GaussianProcessClassifier, np.array([0, 0, 1, 1, 0, 1, 1, 0])),
    ],
)
def test_text_is_the_kernel_it_describes(cls, y):
    given = cls(kernel=TEXT, optimizer=None)
    assert clone(given).get_params()["kernel"] == TEXT
    text = given.fit(X, y)
    kernel = cls(kernel=ev.parse_kernel(TEXT), optimizer=None).fit(X, y)
    assert text.kernel == TEXT
    assert text.kernel_ == kernel.kernel_
    np.testing.assert_array_equal(text.predict(X), kernel.predict(X))
    for wrong, told in (("RFB(1)", "did you mean 'RBF'"), (3, "or text such as .* got 3")):
        with pytest.raises(ev.InputError, match=told):
            cls(kernel=wrong).fit(X, y)
