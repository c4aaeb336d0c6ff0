"""What messages show of values: whatever it is, a few words."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import evidence as ev
from evidence import precisions
from evidence.execution.arguments import shown
from evidence.messages import suggest


class Silent:
    """Refuses to be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Endless:
    """Is as long as a book."""

    def __repr__(self) -> str:
        return "x" * 2_000_000


MODEL = ev.GPModel([[0.0], [1.0]], [1, -1], "1.0 * RBF(1.0)")
CALLS = {
    "kernel text": lambda bad: ev.parse_kernel(bad),
    "prior": lambda bad: ev.integrated_evidence(MODEL, {"length_scale": bad}),
    "start": lambda bad: ev.fit_ep(MODEL, start=bad),
    "trajectory": lambda bad: ev.moves.trajectory(bad, ev.examples.banana().model, [0.0, 0.0]),
    "nu": lambda bad: precisions.matern_series(np.arange(4.0), bad, 1.0),
    "estimator": lambda bad: ev.GaussianProcessRegressor(kernel=bad).fit([[0.0], [1.0]], [0, 1]),
    "family": lambda bad: ev.from_formula("y ~ 1", {"y": [1.0, 2.0]}, likelihood=bad),
    "pair": lambda bad: ev.DensityModel(
        lambda x: 0.0, dim=1, value_and_grad=lambda x: bad
    ).log_prob_and_gradient([[0.0]]),
}


@pytest.mark.parametrize("kind", [Silent, Endless])
@pytest.mark.parametrize("call", CALLS)
def test_no_object_breaks_or_floods_a_message(call, kind):
    with pytest.raises(ev.InputError, match=f"got a {kind.__name__}") as caught:
        CALLS[call](kind())
    assert len(str(caught.value)) < 500


def test_suggestions_survive_objects():
    class Mute:
        def __str__(self):
            raise RuntimeError("no")

    assert suggest(Mute(), ["a"]) == "."
    assert suggest("x" * 1_000_000, ["probit"]) == "."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float64(3.0), "3.0"),
        (np.int64(3), "3"),
        (np.str_("wrong"), "'wrong'"),
        (np.bool_(True), "True"),
        ([np.float64(1.0), (np.int32(2), np.str_("a"))], "[1.0, (2, 'a')]"),
        ({np.str_("a"): np.float64(2.0)}, "{'a': 2.0}"),
    ],
)
def test_scalars_of_numpy_are_shown_as_plain_values(value, text):
    assert shown(value) == text


def test_messages_have_no_names_of_numpy():
    with pytest.raises(ev.InputError, match=r"got -3\.0$"):
        precisions.effects(2, ("1", "x"), sigma=np.float64(-3.0))
    with pytest.raises(ev.InputError, match="unknown method 'wrong'"):
        ev.log_evidence(MODEL, method=np.str_("wrong"))
    with pytest.raises(ev.InputError, match=r"n_particles must be .*got 0$"):
        ev.log_evidence(MODEL, n_particles=np.int64(0))
    with pytest.raises(ev.InputError, match="y holds 'c', which"):
        ev.SoftmaxModel([[0.0], [1.0]], np.array(["a", "c"]), "RBF(1.0)", classes=["a", "b"])
    with pytest.raises(ev.InputError, match="hyperparameter 'wrong'"):
        ev.integrated_evidence(MODEL, {np.str_("wrong"): stats.gamma(2)})
