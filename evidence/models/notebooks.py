"""Models in notebooks."""

from __future__ import annotations

import html
from typing import Any


class InNotebooks:
    """A model that says in words and numbers what it is, and shows them as a table."""

    def describe(self) -> dict[str, Any]:
        """What a result tells of its model, in plain words and numbers."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        pairs = ((html.escape(name), html.escape(str(v))) for name, v in self.describe().items())
        rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in pairs)
        return f"<div><strong>{type(self).__name__}</strong><table>{rows}</table></div>"
