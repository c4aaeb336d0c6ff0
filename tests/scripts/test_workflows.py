"""Workflows are read as meant, run what there is, and agree with pyproject.toml."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
pytestmark = pytest.mark.skipif(not FILES, reason="an sdist has no workflows")


def workflow(name):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


def commands(job):
    return "\n".join(step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_job_checks_out_and_runs_what_exists(file):
    for name, job in workflow(file.name)["jobs"].items():
        assert job["runs-on"], name
        for module in re.findall(r"python -m (scripts[\w.]+)", commands(job)):
            assert importlib.util.find_spec(module), module
        for path in re.findall(r"(?:python |^)(\.[\w/]+(?:\.py)?)", commands(job), re.MULTILINE):
            assert (ROOT / path).exists(), path


def test_every_version_of_python_that_is_promised_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d", c)]
    jobs = workflow("test.yml")["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == promised
    assert project["requires-python"] == f">={promised[0]}"


def test_the_lowest_versions_that_are_declared_are_tested():
    """On the lowest Python, and every requirement has a lowest version to resolve to."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    assert [need for need in needs if not re.fullmatch(r"[\w-]+>=[\d.]+", need)] == []
    job = workflow("test.yml")["jobs"]["lowest"]
    (python,) = (step["with"] for step in job["steps"] if "setup-python" in step.get("uses", ""))
    assert f">={python['python-version']}" == project["requires-python"]
    assert "--resolution lowest-direct -r pyproject.toml --extra test" in commands(job)
    assert commands(job).endswith("python -m pytest")


def test_the_soak_runs_every_week():
    week = workflow("long.yml")
    assert re.fullmatch(r"\d+ \d+ \* \* \d", week[True]["schedule"][0]["cron"])  # YAML's "on"
    assert "python -m scripts.benchmarks.soak --minutes 10" in commands(week["jobs"]["soak"])


def test_no_checkout_leaves_its_token_behind():
    found = 0
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for _, *after in _steps(path):
            found += 1
            assert any("persist-credentials: false" in line for line in after), path
    assert found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_are_those_that_were_read(file):
    """A tag can be moved; the comment beside the commit is for readers and for Dependabot."""
    used = re.findall(r"uses: (.*)", file.read_text("utf-8"))
    assert used
    assert [a for a in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[\d.]+", a)] == []


def _steps(path):
    """The lines of every step that checks out."""
    steps = path.read_text("utf-8").split("\n      - ")[1:]
    return [step.splitlines() for step in steps if step.startswith("uses: actions/checkout@")]
