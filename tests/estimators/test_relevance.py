"""What both estimators say of their inputs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_selection import SelectFromModel

from evidence import GaussianProcessClassifier, GaussianProcessRegressor


@pytest.mark.parametrize("estimator", [GaussianProcessClassifier, GaussianProcessRegressor])
def test_relevance_of_inputs_is_that_of_their_length_scales(estimator):
    """In any units of the inputs, and with SelectFromModel, which takes it from there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * [1.0, 100.0, 1.0]
    y = np.where(X[:, 1] > 0, 1, -1)
    fitted = estimator("4.0 * RBF([5.0, 100.0, 5.0])", optimizer=None).fit(X, y)
    relevance = fitted.feature_importances_
    assert relevance.sum() == pytest.approx(1.0)
    assert relevance.argmax() == 1
    spread = (X.std(axis=0) / [5.0, 100.0, 5.0]) ** 2
    np.testing.assert_allclose(relevance, spread / spread.sum())
    chosen = SelectFromModel(fitted, prefit=True, threshold="mean").transform(X)
    np.testing.assert_array_equal(chosen, X[:, [1]])
    common = estimator("4.0 * RBF(1.0)", optimizer=None).fit(X[:20], y[:20])
    assert not hasattr(common, "feature_importances_")
