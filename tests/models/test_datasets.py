"""The bundled example, research data by name, and tables on disk."""

import numpy as np
import pandas as pd
import pytest

from evidence import GPModel, datasets, fit_ep


def test_demo_is_standardised_and_shows_what_it_should():
    data = datasets.load_demo()
    assert data.X.shape == (285, 2)
    assert len(data.features) == 2
    np.testing.assert_allclose(data.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(data.X.std(axis=0, ddof=1), 1.0)
    assert set(data.y) == {-1, 1}
    model = GPModel(data.X, data.y, kernel=data.kernel)
    assert model.notes == ()
    ep = fit_ep(model)
    assert ep.converged
    assert ep.logz_corrected - ep.logz > 1.0  # nats: EP is visibly off


def test_standardise_keeps_constant_columns_finite():
    X = np.column_stack([[1.0, 2.0, 4.0], [0.1, 0.1, 0.1]])
    got = datasets.standardise(X)
    np.testing.assert_array_equal(got[:, 1], 0.0)
    np.testing.assert_allclose(got[:, 0], (X[:, 0] - 7 / 3) / np.std(X[:, 0], ddof=1))


# -- research data --------------------------------------------------------------------------


def test_load_reads_the_folder_in_the_environment(tmp_path, monkeypatch):
    np.savez(tmp_path / "heart.npz", X=np.eye(2), y=[1, -1], log_lengthscale=0.5)
    monkeypatch.setenv("EVIDENCE_DATA", str(tmp_path))
    data = datasets.load("heart")
    assert set(data) == {"X", "y", "log_lengthscale"}
    assert float(data["log_lengthscale"]) == 0.5


def test_load_says_how_to_set_the_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("EVIDENCE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"set the environment variable EVIDENCE_DATA"):
        datasets.load("heart")
    monkeypatch.setenv("EVIDENCE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"there is no .*heart\.npz; EVIDENCE_DATA is"):
        datasets.load("heart")
    with pytest.raises(ValueError, match=r"unknown data set 'haert'; did you mean 'heart'\?"):
        datasets.load("haert")


def test_load_refuses_pickles(tmp_path, monkeypatch):
    np.savez(tmp_path / "heart.npz", X=np.array([object()]))
    monkeypatch.setenv("EVIDENCE_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="allow_pickle"):
        datasets.load("heart")


def test_every_name_loads(research_data, monkeypatch):
    monkeypatch.setenv("EVIDENCE_DATA", str(research_data))
    for name in datasets.NAMES:
        arrays = datasets.load(name)
        assert arrays
        assert all(np.isfinite(array).all() for array in arrays.values()), name


# -- tables ---------------------------------------------------------------------------------


@pytest.fixture
def table():
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, 6),
            "height": rng.normal(170.0, 10.0, 6),
            "smoker": [True, False] * 3,
            "ill": [0, 1, 1, 0, 1, 0],
        }
    )


def test_csv_and_parquet_agree(table, tmp_path):
    pytest.importorskip("pyarrow")
    table.to_csv(tmp_path / "t.csv", index=False)
    table.convert_dtypes().to_parquet(tmp_path / "t.parquet")
    csv = datasets.read_table(tmp_path / "t.csv", "ill")
    parquet = datasets.read_table(tmp_path / "t.parquet", "ill")
    np.testing.assert_array_equal(csv.X, parquet.X)
    np.testing.assert_array_equal(csv.y, parquet.y)
    assert csv.y.dtype.kind == parquet.y.dtype.kind == "i"
    assert csv.features == parquet.features == ("age", "height", "smoker")


def test_columns_are_chosen_and_scaled_as_said(table, tmp_path):
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False)
    raw = datasets.read_table(path, "ill", features=["height", "age"], standardised=False)
    assert raw.features == ("height", "age")
    np.testing.assert_array_equal(raw.X, table[["height", "age"]])
    dropped = datasets.read_table(path, "ill", drop=["smoker", "age"])
    assert dropped.features == ("height",)
    np.testing.assert_allclose(dropped.X.std(axis=0, ddof=1), 1.0)


BAD = [
    ("a,b\n1,2\n3,4\n", {}, "target: there is no column 'y'. Columns: a, b"),
    ("a;y\n1;2\n3;4\n", {}, "it has one column, 'a;y'; sep= says what parts them"),
    ("a,y\n1,1\n", {}, "has 1 row(s) of data; at least 2 are needed"),
    ("a,y\n", {}, "has 0 row(s) of data"),
    ("", {}, "cannot read"),
    ("a,y\n1,2,3\n1,2,3\n", {}, "its rows have more fields than the header; sep= says"),
    ("a,y\n1,0\n1,2,3\n", {}, "Expected 2 fields in line 3, saw 3"),
    ("y\n1\n2\n", {}, "features: no column is left"),
    ("a,y\n1,0\n,1\n", {}, "features: missing or infinite values in 1 row(s), column(s) a"),
    ("a,y\n1,0\ninf,1\n", {}, "features: missing or infinite values in 1 row(s), column(s) a"),
    ("a,y\n1,0\n2,\n", {}, "target 'y' has 1 missing value(s)"),
    (
        "a,y\n1,no\n2,yes\n",
        {},
        "target 'y' holds text or dates ('no', 'yes'); encode the two classes as -1 and +1, or",
    ),
    ("a,y\n1,u\n2,v\n3,w\n", {}, "holds text or dates ('u', 'v', 'w'); numbers are needed"),
    ("a,b,c,y\nu,1,x,0\nv,2,y,1\n", {}, "features: not numeric: a, c; encode these columns"),
    (
        "age,y\n1,0\n2,1\n",
        {"features": ["agee"]},
        "there is no column 'agee'; did you mean 'age'?",
    ),
    ("a,y\n1,0\n2,1\n", {"features": ["a", "y"]}, "features: 'y' is the target"),
    ("a,y\n1,0\n2,1\n", {"drop": ["y"]}, "drop: 'y' is the target"),
    ("a,y\n1,0\n2,1\n", {"drop": ["b"]}, "drop: there is no column 'b'"),
    ("a,y\n1,0\n2,1\n", {"drop": ["a"]}, "features: no column is left"),
    ("a,b,a,y\n1,2,3,0\n2,3,4,1\n", {}, "its header has 'a' twice"),
    ('a,y\n"1,234",0\n"2,345",1\n', {}, "column 'a' has numbers with commas, like '1,234'"),
]


@pytest.mark.parametrize(("text", "options", "message"), BAD)
def test_bad_tables_are_refused(text, options, message, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is looked at below)
        datasets.read_table(path, "y", **options)
    assert message in str(caught.value)


def test_tables_with_decimal_commas(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;y\n1,5;x,1;0\n-2;x,2;1\n,25;x,3;0\n")
    table = datasets.read_frame(tmp_path / "t.csv", ";")
    assert table["a"].tolist() == [1.5, -2.0, 0.25]
    assert table["b"].tolist() == ["x,1", "x,2", "x,3"]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_commas_that_may_be_of_thousands_are_refused(tmp_path, mark):
    path = tmp_path / "t.csv"
    path.write_text(f"a{mark}y\n950{mark}0\n1,200{mark}1\n12,500{mark}0\n")
    message = r"'a' has numbers with commas, like '1,200', decimals or thousands: write them"
    with pytest.raises(ValueError, match=message):
        datasets.read_frame(path, mark)
    path.write_text(f"a{mark}y\n950{mark}0\n1,200{mark}1\n0,500{mark}0\n")
    assert datasets.read_frame(path, mark)["a"].tolist() == [950.0, 1.2, 0.5]


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*t\.csv"):
        datasets.read_table(tmp_path / "t.csv", "y")
    (tmp_path / "t.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"must end in \.csv, \.tsv .*\.parquet"):
        datasets.read_table(tmp_path / "t.xlsx", "y")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(ValueError, match=r"cannot read .*; text has to be UTF-8"):
        datasets.read_table(tmp_path / "binary.csv", "y")


def test_damaged_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises((ValueError, OSError), match="cannot read"):
        datasets.read_table(tmp_path / "t.parquet", "y")


def test_text_is_read_to_the_last_digit(tmp_path):
    x = np.random.default_rng(0).normal(size=1000)
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "".join(f"{value!r},1\n" for value in x.tolist()))
    np.testing.assert_array_equal(datasets.read_frame(path)["x"], x)
