"""Markov chains on latent values and hyperparameters together: one scheme per file."""
