"""Independent weighted draws: guided, twisted, tilted, fitted to draws. No chain."""
