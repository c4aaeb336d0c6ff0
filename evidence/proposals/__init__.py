"""Independent weighted draws: guided, twisted, tilted. No chain."""
