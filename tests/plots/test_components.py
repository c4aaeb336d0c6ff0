"""Corner plots, and where the modes are, of a mixture whose shares are known."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

import evidence as ev
from evidence import plots

pytestmark = pytest.mark.usefixtures("no_layout")

_MODES = np.array([[-3.0, 0.0], [3.0, 1.0]])
_SHARES = np.array([0.75, 0.25])


def _two(x):
    away = ((x[:, None, :] - _MODES) ** 2).sum(axis=2) / 0.08
    return np.log(np.exp(-away) @ _SHARES / (0.08 * np.pi))


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    prior = ev.GaussianPrior(np.zeros(2), 25.0)
    model = ev.DensityModel(_two, prior=prior, names=["a", "b"], vectorized=True)
    run = ev.log_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    file = tmp_path_factory.mktemp("kept") / "run.npz"
    run.save(file)
    return ev.EvidenceResult.load(file)


def test_components_hold_their_shares(result):
    table = result.components
    own = [int(i) for i in np.argsort(-table.share)[:2]]
    prior = np.exp(-0.5 * (_MODES**2).sum(axis=1) / 25.04)
    expected = _SHARES * prior / (_SHARES @ prior)
    assert np.allclose(table.share[own], expected, atol=0.03)
    assert np.isclose(table.share.sum(), 1.0)
    for c, where in zip(own, _MODES, strict=True):
        assert np.allclose(result.samples[result.component == c].mean(axis=0), where, atol=0.15)


def test_figures_say_where_and_how_much(result):
    ax = plots.plot_components(result, Figure().gca())
    told = [float(t.get_text().rstrip("%")) / 100 for t in ax.texts]
    assert np.allclose(told, result.components.share, atol=1e-3)
    ax = plots.plot_modes(result, Figure().gca())
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b"]
    figure = result.plot_corner()
    below = figure.axes[2]
    assert (below.get_xlabel(), below.get_ylabel()) == ("a", "b")
    assert len(below.lines) == np.unique(result.component).size


def test_one_gaussian_has_no_components():
    model = ev.DensityModel(lambda x: -0.5 * x @ x, dim=2, grad=lambda x: -x)
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert result.components.empty
    for draw in (plots.plot_components, plots.plot_modes):
        assert "one Gaussian" in draw(result, Figure().gca()).texts[0].get_text()
    assert len(plots.plot_corner(result, ["x[1]"]).axes) == 1
    with pytest.raises(ev.InputError, match="x\\[7\\]"):
        plots.plot_corner(result, ["x[7]"])


def test_an_angle_is_cut_where_it_has_a_gap():
    x = np.random.default_rng(0).normal(0.0, 0.2, (500, 1))
    plain, cut = (
        plots.plot_corner(x % 1.0, ["w"], periods).axes[0] for periods in (None, {"w": 1.0})
    )
    assert np.ptp(plain.get_xlim()) > 1.0 > 0.1 + np.ptp(cut.get_xlim()) - 0.2
    middle = float(cut.get_title().split()[0])
    assert middle % 1.0 == pytest.approx(np.median(x) % 1.0, abs=0.01)
    with pytest.raises(ev.InputError, match="periods: 'v' is none of w"):
        plots.plot_corner(x, ["w"], {"v": 1.0})


def test_titles_have_the_digits_that_draws_differ_by():
    x = 6562.8 + 0.02 * np.random.default_rng(0).standard_normal((500, 1))
    title = plots.plot_corner(x).axes[0].get_title()
    assert title.startswith(("6562.79", "6562.80"))
    assert len({*title.replace("(", "").replace(")", "").replace(",", "").split()}) == 3
