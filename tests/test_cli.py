"""The command line: what it prints, writes and returns, and what it says to bad input."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from problems import replace_fit
from typer.testing import CliRunner

import evidence as ev
from evidence import moves
from evidence.cli import _Regression, app
from evidence.methods import NAMES
from evidence.methods.registry import METHODS
from evidence.models import likelihoods
from evidence.results.summary import Summary

PNG = b"\x89PNG"


def run(*words: object):
    """Run ``evidence words…``; a defect's exception is raised here, not hidden in the result."""
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 12))
    return pd.DataFrame({"a": a, "b": 10.0 * b, "y": np.where(a + 0.3 * b > 0, 1, -1)})


@pytest.fixture
def csv(frame, tmp_path) -> Path:
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.fixture
def quick(csv) -> tuple[object, ...]:
    kernel = ("--kernel", "4.0 * RBF(1.5)")
    return ("estimate", csv, "--target", "y", *kernel, "--method", "smc", "--n-particles", 40)


def answer(result) -> dict:
    """What ``--json`` printed, less the times."""
    found = json.loads(result.stdout)
    found.pop("seconds")
    for row in found["estimates"].values():
        row.pop("seconds")
    return found


# -- answers --------------------------------------------------------------------------------


def test_estimate_prints_the_table(quick):
    result = run(*quick)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("log Z = ")
    for word in ("laplace", "ep", "ep_corrected", "smc", "RBF(length_scale=1.5)"):
        assert word in result.stdout
    assert result.stderr == ""


def test_estimate_is_log_evidence(quick, frame):
    found = answer(run(*quick, "--json", "--seed", 7))
    X = frame[["a", "b"]].to_numpy()
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    model = ev.GPModel(X, frame["y"], kernel="4.0 * RBF(1.5)")
    words = {"method": "smc", "n_particles": 40, "random_seed": 7}
    expected = ev.log_evidence(model, **words, progressbar=False)
    assert found["logz"] == pytest.approx(expected.logz, rel=1e-12)
    assert found["logz_se"] == pytest.approx(expected.logz_se, rel=1e-9)
    assert list(found["estimates"]) == ["laplace", "ep", "ep_corrected", "smc"]
    assert found["estimates"]["ep"]["logz_se"] is None
    assert found["warnings"] == []
    assert found["settings"]["random_seed"] == 7
    assert found["settings"]["features"] == ["a", "b"]
    assert found["model"]["N"] == 12


def test_csv_and_parquet_agree(quick, frame, csv):
    pytest.importorskip("pyarrow")
    table = csv.with_suffix(".parquet")
    frame.to_parquet(table)
    from_csv = answer(run(*quick, "--json"))
    from_parquet = answer(run("estimate", table, *quick[2:], "--json"))
    assert from_csv["settings"].pop("file") != from_parquet["settings"].pop("file")
    assert from_csv == from_parquet


def test_text_of_any_separator_and_compressed(quick, frame, csv):
    expected = answer(run(*quick, "--json"))
    for name, sep, words in [
        ("t.csv.gz", ",", ()),
        ("t.tsv", "\t", ()),
        ("T.TSV.GZ", "\t", ()),
        ("s.csv", ";", ("--sep", ";")),
        ("t.txt", "\t", ("--sep", "\\t")),
    ]:
        table = csv.with_name(name)
        frame.to_csv(table, index=False, sep=sep, compression="infer" if ".gz" in name else None)
        if name.endswith("GZ"):
            table.write_bytes(gzip.compress(frame.to_csv(index=False, sep=sep).encode()))
        found = answer(run("estimate", table, *quick[2:], *words, "--json"))
        assert found["logz"] == expected["logz"]


@pytest.mark.parametrize("likelihood", ["probit", pytest.param("logit", marks=pytest.mark.slow)])
def test_the_positive_label_is_named(quick, frame, csv, likelihood):
    quick = (*quick, "--likelihood", likelihood, "--json")
    expected = answer(run(*quick))
    opposite = answer(run(*quick, "--positive", "-1"))
    assert opposite["logz"] == pytest.approx(expected["logz"], abs=0.2)
    for plus, minus in (("yes", "no"), ("a b", "-"), (True, False), (2.0, 1.5), (7, 3)):
        frame.assign(y=np.where(frame["y"] > 0, plus, minus)).to_csv(csv, index=False)
        positive = f"{plus:g}" if isinstance(plus, float) else str(plus)
        assert answer(run(*quick, "--positive", positive))["logz"] == expected["logz"]


def test_the_positive_label_is_found_where_others_are_missing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i / 9},{i % 2}\n" for i in range(9)) + "0.5,\n")
    for positive in "10":
        (model,) = _Regression("bernoulli", positive=positive).models(path, ["y ~ x"]).values()
        assert model.y.tolist() == [1.0 if str(i % 2) == positive else -1.0 for i in range(9)]
        assert "1 of 10 rows have missing values (y): left out" in model.notes


def test_options_reach_the_model(quick):
    raw = answer(run(*quick, "--json", "--method", "ep", "--no-standardise", "--features", "a"))
    assert raw["method"] == "ep"
    assert raw["logz_se"] is None
    assert raw["settings"]["standardise"] is False
    assert raw["settings"]["features"] == ["a"]
    dropped = answer(run(*quick, "--json", "--method", "ep", "--no-standardise", "--drop", " b ,"))
    assert dropped["logz"] == raw["logz"]
    logit = answer(run(*quick, "--json", "--method", "laplace", "--likelihood", "logit"))
    assert logit["model"]["likelihood"] == "logit"


def test_family_and_likelihood_are_one_option(quick, csv):
    words = [answer(run(*quick, "--json", "--method", "laplace", option, "logit")) for option in
             ("--likelihood", "--family")]  # fmt: skip
    assert words[0] == words[1]
    formula = ("fit", csv, "a ~ 1", "--json", "--prior", "df=4", "--prior", "scale=0.5",
               "--target-se", 0.5)  # fmt: skip
    words = [answer(run(*formula, option, "student_t")) for option in ("--likelihood", "--family")]
    assert words[0] == words[1]


def test_a_parameter_has_a_predictor(csv):
    words = ("fit", csv, "a ~ b", "--json", "--target-se", 0.5)
    assert answer(run(*words, "--predictor", "sigma ~ b"))["model"]["formula of sigma"] == "b"
    for bad in ("sigma", "sigma ~", "~ b"):
        result = run(*words, "--predictor", bad)
        assert result.exit_code == 2
        assert "--predictor must be 'name ~ terms'" in result.stderr


def test_labels_0_and_1_are_the_same_answer_with_a_note(quick, frame, csv):
    expected = answer(run(*quick, "--json"))
    frame.assign(y=(frame["y"] + 1) // 2).to_csv(csv, index=False)
    found = answer(run(*quick, "--json"))
    assert found["logz"] == expected["logz"]
    assert found["notes"] == ["y: labels 0/1 were taken as -1/+1"]


@pytest.mark.usefixtures("no_layout")
def test_files_are_written(quick, tmp_path):
    out, plot = tmp_path / "run.npz", tmp_path / "run.png"
    result = run(*quick, "--out", out, "--plot", plot)
    assert result.exit_code == 0, result.output
    assert str(out) in result.stdout
    assert str(plot) in result.stdout
    saved = ev.EvidenceResult.load(out)
    assert f"{saved.logz:.4f}" in result.stdout
    assert saved.settings["target"] == "y"
    assert plot.read_bytes().startswith(PNG)


def test_quiet_prints_one_line(quick):
    result = run(*quick, "--quiet")
    assert result.stdout.startswith("log Z = ")
    assert result.stdout.count("\n") == 1


def test_warnings_are_shown_and_exit_with_3(quick):
    result = run(*quick, "--max-seconds", 1e-9)
    assert result.exit_code == 3
    assert "WARNING: " in result.stdout
    found = run(*quick, "--max-seconds", 1e-9, "--json")
    assert found.exit_code == 3
    assert found.stderr == ""
    assert answer(found)["logz_se"] is None  # NaN is not JSON
    assert all(isinstance(warning, str) for warning in answer(found)["warnings"])
    assert len(answer(found)["warning_codes"]) == len(answer(found)["warnings"]) > 0
    quiet = run(*quick, "--max-seconds", 1e-9, "--quiet")
    assert "WARNING: " in quiet.stderr
    assert "WARNING: " not in quiet.stdout


@pytest.mark.slow
def test_demo(tmp_path):
    plot = tmp_path / "demo.png"
    result = run("demo", "--plot", plot, "--target-se", 0.2)
    assert result.exit_code == 0, result.output
    assert "benign (+1) or malignant (-1)" in result.stdout
    assert "ep_corrected" in result.stdout
    assert "nats too low" in result.stdout
    assert plot.read_bytes().startswith(PNG)


@pytest.mark.slow
def test_demo_as_json(tmp_path):
    result = run("demo", "--plot", tmp_path / "demo.svg", "--target-se", 0.2, "--json")
    found = answer(result)
    assert found["model"]["N"] == 285
    assert (tmp_path / "demo.svg").is_file()


# -- bad input ------------------------------------------------------------------------------

BAD_OPTIONS = [
    (("--target", "x"), "--target: there is no column 'x'"),
    (("--features", "a,bb"), "--features: there is no column 'bb'; did you mean 'b'?"),
    (("--drop", "a,b"), "--features: no column is left"),
    (("--drop", "y"), "--drop: 'y' is the target"),
    (("--kernel", "RFB(1)"), "--kernel: unknown name 'RFB'; did you mean 'RBF'?"),
    (("--kernel", "RBF(1"), "--kernel: cannot read 'RBF(1'"),
    (("--kernel", "RBF([1, 2, 3])"), "Anisotropic kernel must have the same number of dimensions"),
    (("--likelihood", "probti"), "--likelihood: unknown name 'probti'; did you mean 'probit'?"),
    (
        ("--likelihood", "poisson"),
        "y: the poisson likelihood wants counts 0, 1, 2, … (up to 2^53), got -1",
    ),
    (("--method", "scm"), "unknown method 'scm'; did you mean 'smc'?"),
    (("--method", "orthant", "--likelihood", "logit"), "is for the probit likelihood only"),
    (("--method", "importance", "--move", "hmc"), "has no use for --move"),
    (("--method", "smc", "--likelihood", "logit", "--move", "gibbs"), "the move 'gibbs' needs"),
    (("--checkpoint", "t.csv"), "--checkpoint: t.csv is FILE already"),
    (("--checkpoint", "no/such/run.ckpt"), "--checkpoint: there is no folder no/such"),
    (("--checkpoint", "."), "--checkpoint: . is a folder"),
    (("--checkpoint", "r.npz", "--out", "r.npz"), "--out: r.npz is --checkpoint already"),
    (("--positive", "2"), "--positive 2 must be one of the two labels of target 'y'"),
    (("--positive", "1", "--likelihood", "gaussian"), "--positive is for likelihood probit, "),
    (("--sep", ";"), "it has one column, 'a,b,y'; --sep says what parts them"),
    (("--sep", ""), "--sep must be"),
    (("--target-se", "-1"), "--target-se must be a positive number, got -1.0"),
    (("--target-se", "nan"), "--target-se must be a positive number, got nan"),
    (("--max-seconds", "0"), "--max-seconds must be a positive number"),
    (("--n-particles", "1"), "--n-particles must be a whole number, at least 2, got 1"),
    (("--seed", "-1"), "--seed must be a non-negative int"),
    (("--out", "no/such/run.npz"), "--out: there is no folder no/such"),
    (("--out", "."), "--out: . is a folder"),
    (("--out", "t.csv"), "--out: t.csv is FILE already"),
    (("--out", "r.png", "--plot", "r.png"), "--plot: r.png is --out already"),
    (("--plot", "no/such/run.png"), "--plot: there is no folder no/such"),
    (("--plot", "run.xyz"), "--plot: run.xyz must end in .png, .pdf, .svg"),
    (("--plot", "run"), "--plot: run must end in .png, .pdf, .svg"),
]

BAD_TABLES = [
    (
        "a,y\n1,no\n2,yes\n",
        "encode the two classes as -1 and +1, or say which is +1: --positive yes",
    ),
    ("a,b,y\nu,1,1\nv,2,-1\n", "--features: not numeric: a; encode these columns"),
    ("a,y\n1,1\n,-1\n", "--features: missing or infinite values in 1 row(s), column(s) a"),
    ("a,y\n1,1\n2,\n", "target 'y' has 1 missing value(s)"),
    ("a,y\n1,1\n2,2\n", "y: the probit likelihood wants labels -1 and +1 (or 0 and 1), got 1, 2"),
    ("a,y\n1,1\n", "at least 2 are needed"),
    ("", "cannot read"),
]


def assert_refused(result, message: str) -> None:
    """One line on stderr, nothing on stdout, exit code 2."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("words", "message"), BAD_OPTIONS)
def test_bad_options(words, message, quick, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(run(*quick, *words), message)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]  # nothing left behind


@pytest.mark.parametrize(("text", "message"), BAD_TABLES)
def test_bad_tables(text, message, quick, csv):
    csv.write_text(text)
    assert_refused(run(*quick), message)


def test_files_that_cannot_be_read(quick, tmp_path):
    assert_refused(run("estimate", tmp_path / "no.csv", *quick[2:]), "there is no file")
    (tmp_path / "folder.csv").mkdir()
    assert_refused(run("estimate", tmp_path / "folder.csv", *quick[2:]), "folder.csv")
    (tmp_path / "t.xlsx").write_text("")
    assert_refused(run("estimate", tmp_path / "t.xlsx", *quick[2:]), "must end in .csv, .tsv")


def test_parquet_without_pyarrow_says_what_to_install(quick, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    message = "reading Parquet needs pyarrow: pip install 'log-evidence[data]'"
    assert_refused(run("estimate", tmp_path / "t.parquet", *quick[2:]), message)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder nobody can write to")
def test_a_folder_that_refuses_files_is_noticed_before_the_run(quick):
    assert_refused(run(*quick, "--out", "/proc/run.npz"), "--out: cannot write to /proc")
    assert_refused(run("demo", "--plot", "/proc/demo.png"), "--plot: cannot write to /proc")


def test_demo_refuses_bad_options(tmp_path):
    plot = tmp_path / "demo.png"
    result = run("demo", "--plot", plot, "--seed", "-1", "--json")
    assert_refused(result, "--seed must be a non-negative int")
    assert not plot.exists()


def test_defects_keep_their_traceback(quick, monkeypatch):
    replace_fit(monkeypatch, "ep", lambda model, *before: np.ravel_multi_index((9,), (1,)))
    with pytest.raises(ValueError, match="invalid entry"):
        run(*quick)


# -- help, and a process of its own ---------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["demo", "--help"], ["estimate", "-h"]])
def test_help_tells_the_exit_codes(words):
    result = run(*words)
    assert result.exit_code == 0
    assert "2 bad input" in result.stdout


def test_help_has_examples():
    assert (
        'evidence estimate patients.csv --target benign --kernel "'
        in run("estimate", "--help").stdout
    )


def test_help_lists_what_there_is():
    """Names in the help are those of the registries, which the shell does not load."""
    shown = " ".join(run("estimate", "--help").stdout.split())
    assert tuple(METHODS) == NAMES
    for name in (*METHODS, *likelihoods.NAMES, *moves.names()):
        assert name in shown


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"evidence {ev.__version__}\n")


def test_unknown_options_are_usage_errors(quick):
    result = run(*quick, "--target_se", 1)
    assert result.exit_code == 2
    assert "--target-se" in result.stderr
    assert run("estimate").exit_code == 2


def python(*words: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[1]
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"},
    )


def test_python_m_evidence():
    done = python("-W", "error", "-m", "evidence", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"evidence {ev.__version__}\n", "")


@pytest.mark.slow
def test_python_m_evidence_estimates(quick):
    done = python("-W", "error", "-m", "evidence", *map(str, quick), "--method", "ep", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["method"] == "ep"


@pytest.mark.slow
def test_python_m_evidence_refuses_in_one_line(quick):
    refused = python("-m", "evidence", "estimate", "no.csv", *map(str, quick[2:]))
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: ")
    assert "there is no file" in refused.stderr


def test_help_is_light():
    heavy = ("numba", "scipy", "sklearn", "pandas", "matplotlib", "numpy")
    code = (
        "import sys\nfrom evidence.cli import app\n"
        "app(['estimate', '--help'], standalone_mode=False)\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    assert python("-c", code).stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["estimate", "fit", "compare", "predict"])
def test_the_first_example_of_help_runs_as_printed(command, tmp_path, monkeypatch):
    """On the data that are bundled, as --help says."""
    monkeypatch.chdir(tmp_path)
    told = run(command, "--help").stdout
    before = re.search(r'the first runs after "evidence (.*?)"', told)[1]
    assert run(*shlex.split(before)).exit_code == 0
    first = re.search(rf"^ *evidence ({command} .*)$", told, re.MULTILINE)[1]
    shown = run(*shlex.split(first))
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("\n") > 2


def test_the_bundled_table_is_the_demo(tmp_path):
    file = tmp_path / "patients.csv"
    told = run("demo", "--table", file).stdout
    data, table = ev.datasets.load_demo(), pd.read_csv(file)
    assert list(table) == ["perimeter", "concave_points", "benign"]
    assert f"{len(table)} patients" in told
    np.testing.assert_allclose(table.iloc[:, :2], data.X, atol=1e-4)
    np.testing.assert_array_equal(2 * table.benign - 1, data.y)


def test_compare_says_what_it_noticed(tmp_path):
    """Rows that were dropped, and which label is one."""
    frame = pd.DataFrame({"y": list("nynynyny"), "x": [0.1, 1.2, 0.3, np.nan, 0.2, 0.9, 1.1, 0.4]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ("compare", tmp_path / "t.csv", "y ~ x", "y ~ 1", "--family", "bernoulli")
    for how in ((), ("--markdown",), ("--report",)):
        told = run(*words, *how).stdout
        assert re.search(r"[Rr]ow", told), told
    assert "y is 1" in run(*words).stdout or "1 is" in run(*words).stdout


@pytest.mark.parametrize(("begun", "meant"), [("comp", "compare"), ("compare --rep", "--report")])
def test_the_shell_completes(begun, meant, monkeypatch):
    asked = {"_EVIDENCE_COMPLETE": "complete_bash", "COMP_WORDS": f"evidence {begun}"}
    asked["COMP_CWORD"] = str(begun.count(" ") + 1)
    words = [sys.executable, "-c", "from evidence.cli import main; main()"]
    told = subprocess.run(words, env=os.environ | asked, capture_output=True, text=True)
    assert told.stdout.split() == [meant]


@pytest.mark.slow
def test_a_fit_draws_its_effects(tmp_path, monkeypatch):
    """Not the diagnostics of its islands."""
    titles = []

    def draw(self, path=None):
        titles.append(type(self).__name__)
        assert path == tmp_path / "fit.png"

    monkeypatch.setattr(Summary, "plot", draw)
    table = tmp_path / "t.csv"
    rows = "".join(f"{i % 2},{i * 0.1:.1f},{i % 3}\n" for i in range(24))
    table.write_text("y,x,g\n" + rows)
    words = ("--family", "bernoulli", "--plot", tmp_path / "fit.png", "--target-se", 0.3)
    run("fit", table, "y ~ x + (1 | g)", *words)
    run("fit", table, "y ~ x", *words, "--json")
    assert titles == ["Summary", "Summary"]


def test_a_fit_without_an_estimate_is_saved(tmp_path):
    """The effects, which it has not, come after the file."""
    table, out = tmp_path / "t.csv", tmp_path / "fit.npz"
    rows = "".join(f"{i % 2},{i * 0.1:.1f},{i % 3}\n" for i in range(24))
    table.write_text("y,x,g\n" + rows)
    words = ("--family", "bernoulli", "--max-seconds", 1e-3, "--out", out)
    result = run("fit", table, "y ~ x + (1 | g)", *words)
    assert result.exit_code == 2
    assert "--max-seconds 0.001" in result.stdout
    model = ev.from_formula("y ~ x + (1 | g)", pd.read_csv(table), likelihood="bernoulli")
    assert np.isnan(ev.IntegratedEvidence.load(out, model=model).logz_se)


def test_predictions_have_the_priors_of_a_fit(csv):
    """--priors jzs was of ``fit`` and ``compare`` alone."""
    one, other = (run("predict", csv, "a ~ b", csv, *w) for w in ((), ("--priors", "jzs")))
    assert one.exit_code == other.exit_code == 0
    assert one.stdout != other.stdout
    assert run("predict", csv, "a ~ b", csv, "--priors", "jsz").exit_code == 2


def test_predictions_stand_beside_the_rows(csv, tmp_path):
    out = tmp_path / "new.csv"
    run("predict", csv, "y ~ a", csv, "--family", "bernoulli", "--out", out)
    given, found = pd.read_csv(csv), pd.read_csv(out)
    pd.testing.assert_frame_equal(found[given.columns], given)
    assert found.probability.between(found.probability_q5, found.probability_q95).all()
    pd.read_csv(csv).rename(columns={"b": "sd"}).to_csv(csv, index=False)
    run("predict", csv, "y ~ a", csv, "--family", "bernoulli", "--out", out)
    assert {"sd", "sd_predicted"} <= {*pd.read_csv(out)}


def test_messages_about_regressions_are_of_the_shell(tmp_path):
    """Options as they are typed, the separator of a table, and rows that are too few."""
    path, parted = tmp_path / "t.csv", tmp_path / "parted.csv"
    path.write_text("x,y\n0.1,0\n0.4,1\n0.3,0\n0.9,1\n")
    parted.write_text("x;y\n1;0\n2;1\n")
    held = ("--prior", "sigma=0.5")
    told = run("compare", path, "y ~ 1", *held)
    assert "for the probability of 1 say --family bernoulli" in told.stdout.replace("\n", " ")
    unknown = run("fit", path, "y ~ x", "--family", "bernouli")
    assert_refused(unknown, "--family: unknown family 'bernouli'; did you mean 'bernoulli'?")
    assert unknown.stderr.startswith("error: --family")
    message = "it has one column, 'x;y'; --sep says what parts them"
    assert_refused(run("fit", parted, "y ~ x"), message)
    path.write_text("x,y\n0.1,0.3\n")
    assert_refused(
        run("fit", path, "y ~ x"), "x can be written by the other columns (2 of them in 1 row"
    )
    assert "y ~ 1: 1 row, 1 effect\n" in run("fit", path, "y ~ 1", *held).stdout
