from __future__ import annotations

import sys

import numpy as np
import pytest

from evidence import plots
from evidence.messages import Message
from evidence.results.draws import Draws
from evidence.statistics import diagnostics

pytestmark = pytest.mark.usefixtures("no_layout")


def make(chains=4, draws=400, n=6, seed=0, **more):
    """Independent autoregressions, the later coordinates slower."""
    rng = np.random.default_rng(seed)
    rho = np.linspace(0.2, 0.9, n)
    x = rng.standard_normal((chains, draws, n))
    for i in range(1, draws):
        x[:, i] = rho * x[:, i - 1] + np.sqrt(1.0 - rho**2) * x[:, i]
    settings = dict(step_size=0.31, move="mgrad", seconds=2.0, tune_seconds=1.0)
    settings |= dict(gradients=1.0, failures=3, model={"n": n, "likelihood": "probit"})
    logtilt = -0.5 * (x**2).sum(axis=2)
    return Draws(x, logtilt, np.linspace(0.6, 0.7, chains), **(settings | more))


@pytest.fixture(scope="module")
def draws():
    return make(settings={"random_seed": 1}, warnings=(Message("few", "too few draws"),))


def test_ranges_over_the_coordinates(draws):
    for name in ("ess", "ess_bulk", "ess_tail"):
        values = getattr(diagnostics, name)(draws.x)
        row = getattr(draws, name)
        assert row == (values.min(), np.median(values), values.max())
        np.testing.assert_array_equal(getattr(draws, f"{name}_by_coordinate"), values)
    assert draws.rhat == diagnostics.rhat(draws.x).max()
    assert draws.min_ess_per_second == draws.ess.min / 2.0
    assert draws.ess_by_coordinate.argmin() == 5


def test_moments_and_table(draws):
    flat = draws.x.reshape(-1, 6)
    np.testing.assert_allclose(draws.mean, flat.mean(axis=0))
    np.testing.assert_allclose(draws.sd, flat.std(axis=0, ddof=1))
    table = draws.table()
    names = ["mean", "sd", "q5", "q95", "ess", "ess_bulk", "ess_tail", "rhat", "mcse"]
    assert list(table.columns) == names
    assert len(table) == 6
    np.testing.assert_allclose(table["q5"], np.quantile(flat, 0.05, axis=0))
    np.testing.assert_allclose(table["q95"], np.quantile(flat, 0.95, axis=0))
    np.testing.assert_allclose(table["mcse"], draws.sd / np.sqrt(diagnostics.ess(draws.x)))


def test_summary_says_it_all(draws):
    text = draws.summary()
    for word in ("mgrad", "4 × 400", "probit", "0.31", "0.650", "0.600 to 0.700", "2.00", "1.00"):
        assert word in text
    rows = {line.rsplit(maxsplit=3)[0]: line.split()[-3:] for line in text.splitlines()[-4:-1]}
    for name, row in (("ESS", draws.ess), ("ESS bulk", draws.ess_bulk)):
        assert rows[name] == [f"{value:.0f}" for value in row]
    assert f"{draws.rhat:.3f}" in text
    assert "failures 3" in text
    assert text.endswith("WARNING: too few draws")
    assert repr(draws) == "Draws(mgrad, chains=4, draws=400, n=6, 1 warning(s))"
    assert "step size -" in make(step_size=np.nan, draws=10).summary()


def test_one_frozen_coordinate_is_not_passed_over():
    draws = make()
    draws.x[:, :, 2] = 1.5
    assert np.isnan(draws.ess.min)
    assert np.isnan(draws.rhat)
    assert "WARNING: 1 of 6 latent values never move" in draws.summary()
    assert np.isnan(draws.table()["mcse"][2])
    assert "(1 undefined)" in draws.plot().axes[3].get_title()


SEVERAL = [pytest.param(*size, marks=pytest.mark.slow) for size in [(1, 3), (3, 2), (2, 4)]]


@pytest.mark.parametrize(("chains", "draws"), [(1, 1), *SEVERAL])
def test_few_draws_are_no_exception(chains, draws):
    few = make(chains, draws, 3)
    assert np.isnan(few.ess.min) == (draws < 4)
    assert np.isnan(few.rhat) == (draws < 4)
    assert np.isnan(few.min_ess_per_second) == (draws < 4)
    assert "ESS" in few.summary()
    assert len(few.table()) == 3
    assert np.isnan(few.sd).all() == (chains * draws == 1)
    assert len(few.plot().axes) == 4


def test_no_seconds_no_rate():
    assert np.isnan(make(seconds=0.0).min_ess_per_second)


def test_save_and_load(draws, tmp_path):
    draws.save(tmp_path / "draws.npz")
    back = Draws.load(tmp_path / "draws.npz")
    for name in ("x", "logtilt", "acceptance"):
        np.testing.assert_array_equal(getattr(back, name), getattr(draws, name))
    for name in ("step_size", "move", "seconds", "tune_seconds", "gradients", "failures"):
        assert getattr(back, name) == getattr(draws, name)
    assert back.warnings == draws.warnings == ("too few draws",)
    assert back.warnings[0].code == "few"
    assert back.settings == draws.settings
    assert back.model == draws.model
    assert back.summary() == draws.summary()


def test_files_of_others_are_refused(draws, tmp_path):
    make(step_size=np.nan).save(tmp_path / "draws.npz")
    assert np.isnan(Draws.load(tmp_path / "draws.npz").step_size)
    from evidence import EvidenceResult

    with pytest.raises(ValueError, match="holds 'evidence-draws' version 2"):
        EvidenceResult.load(tmp_path / "draws.npz")


def test_shapes_are_checked():
    good = make(2, 10, 3)
    more = (0.3, "mgrad", 1.0, 1.0, 1.0, 0)
    with pytest.raises(ValueError, match=r"x must have shape \(chains, draws, N\), got \(2, 10\)"):
        Draws(good.x[:, :, 0], good.logtilt, good.acceptance, *more)
    with pytest.raises(ValueError, match=r"logtilt must have shape \(2, 10\)"):
        Draws(good.x, good.logtilt.T, good.acceptance, *more)
    with pytest.raises(ValueError, match=r"acceptance must have shape \(2,\)"):
        Draws(good.x, good.logtilt, 0.5, *more)


def test_to_arviz(draws):
    pytest.importorskip("arviz")
    data = draws.to_arviz()
    np.testing.assert_array_equal(data["posterior"]["x"], draws.x)
    np.testing.assert_array_equal(data["sample_stats"]["logtilt"], draws.logtilt)
    assert data["posterior"].attrs["warnings"] == ["too few draws"]
    assert data["posterior"].attrs["warning_codes"] == ["few"]
    assert "warnings" not in make().to_arviz()["posterior"].attrs


def test_to_arviz_without_arviz(draws, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'log-evidence\[arviz\]'"):
        draws.to_arviz()


@pytest.mark.slow
def test_plot(draws, tmp_path):
    figure = draws.plot(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    tilt, latent, correlation, sizes = figure.axes
    assert "log tilt" in tilt.get_ylabel()
    assert len(tilt.lines) == 4
    np.testing.assert_array_equal(tilt.lines[1].get_ydata(), draws.logtilt[1])
    np.testing.assert_array_equal(latent.lines[2].get_ydata(), draws.x[2, :, 5])
    labels = [text.get_text() for text in correlation.get_legend().get_texts()]
    assert labels == ["slowest, $x_{5}$", "median, $x_{2}$", "log tilt"]
    assert "lag (draws)" in correlation.get_xlabel()
    np.testing.assert_array_equal(sizes.lines[0].get_ydata(), np.sort(draws.ess_by_coordinate))
    for ax in figure.axes:
        assert ax.get_title()
        assert ax.get_xlabel()
        assert ax.get_ylabel()


def test_autocorrelation_shows_all_of_an_antithetic_chain():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    plots.plot_autocorrelation(np.resize([1.0, -1.0], (1, 100)), ax)
    assert ax.get_ylim()[0] < -0.98
    assert ax.get_xlim() == (0.0, 20.0)
    plots.plot_autocorrelation(np.linspace(0.0, 1.0, 100)[None], ax)  # slower: the axes grow
    assert ax.get_xlim()[1] > 20.0
    assert ax.get_ylim()[0] < -0.98
