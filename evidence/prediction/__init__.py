"""Everything at new points."""
