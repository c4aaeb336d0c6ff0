"""Tasks, clocks, files, progress, checks of arguments. It knows no model."""
