"""Before a release: links and images of README as addresses, and the project's own.

    python .github/absolute.py https://github.com/OWNER/NAME v1.2.3

On PyPI a README stands by itself, so that what it shows from the repository needs an address. The
release workflow calls this with the repository that it runs in; nothing here names one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def absolute(text: str, home: str, tag: str) -> str:
    """README with every relative link led to the repository as it was at the tag."""
    raw = home.replace("github.com", "raw.githubusercontent.com")

    def lead(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        base = f"{raw}/{tag}" if image else f"{home}/blob/{tag}"
        return f"{image}[{label}]({base}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)", lead, text)


def with_urls(text: str, home: str) -> str:
    """pyproject.toml with the addresses that PyPI shows beside the page."""
    urls = {
        "Homepage": home, "Source": home, "Issues": f"{home}/issues",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
    }  # fmt: skip
    table = "\n".join(f'{name} = "{url}"' for name, url in urls.items())
    return text.replace("[project.scripts]", f"[project.urls]\n{table}\n\n[project.scripts]", 1)


if __name__ == "__main__":
    home, tag = sys.argv[1:]
    readme, project = ROOT / "README.md", ROOT / "pyproject.toml"
    readme.write_text(absolute(readme.read_text("utf-8"), home, tag), "utf-8")
    project.write_text(with_urls(project.read_text("utf-8"), home), "utf-8")
