"""What goes to package indexes: the page there, its addresses, and conda-forge's recipe."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import evidence

ROOT = Path(__file__).resolve().parents[2]
HOME = "https://github.com/someone/somewhere"
pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").exists(), reason="an sdist has no workflows"
)


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("absolute", ROOT / ".github" / "absolute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_link_of_the_page_is_relative(release):
    text = (ROOT / "README.md").read_text("utf-8")
    page = release.absolute(text, HOME, "v1.0")
    raw = "https://raw.githubusercontent.com/someone/somewhere/v1.0"
    assert f"]({raw}/scripts/figures/demo.png)" in page
    assert f"]({HOME}/blob/v1.0/CITATION.cff)" in page
    targets = re.findall(r"\]\(([^)]+)\)", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    assert len(targets) > 20
    assert all(target.startswith("https://") for target in targets)
    assert release.absolute(page, HOME, "v1.0") == page


def test_addresses_of_the_project(release):
    project = tomllib.loads(release.with_urls((ROOT / "pyproject.toml").read_text("utf-8"), HOME))
    assert project["project"]["urls"]["Source"] == HOME
    assert project["project"]["scripts"] == {"evidence": "evidence.cli:main"}


def test_the_recipe_asks_for_what_the_project_asks_for():
    recipe = (ROOT / ".github" / "conda" / "recipe.yaml").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    run = re.search(r"  run:\n((?:    - .*\n)+)", recipe).group(1)
    found = {line.strip(" -").replace(" ", "") for line in run.splitlines()}
    wanted = {need.replace("matplotlib", "matplotlib-base") for need in project["dependencies"]}
    assert found == wanted | {f"python{project['requires-python']}"}
    assert f'version: "{evidence.__version__}"' in recipe


def test_the_release_is_cited_by_its_version():
    assert f"version: {evidence.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_why_each_requirement_is_there_is_said():
    text = (ROOT / "scripts" / "documentation" / "install.md").read_text("utf-8")
    paragraph = text[text.index("What it brings along, and why:") :].partition("\n\n")[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needs = [re.match(r"[\w-]+", need).group() for need in project["dependencies"]]
    assert sorted(re.findall(r"`([\w-]+)`", paragraph)) == sorted(needs)
