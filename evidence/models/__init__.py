"""Data, prior, likelihood: what a user builds before anything is estimated."""
