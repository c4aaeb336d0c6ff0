"""What the public functions have in common: checking their arguments, fitting the reference."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import likelihoods
from .approximations.ep import fit_ep
from .approximations.laplace import fit_laplace
from .approximations.reference import GaussianReference, prior_reference
from .model import GPModel

REFERENCES = ("ep", "laplace", "prior")


def fit_reference(
    model: GPModel,
    reference: str | GaussianReference,
    fitted: Mapping[str, GaussianReference] | None = None,
) -> GaussianReference:
    """The reference by name, from ``fitted`` where it is there; an object is checked."""
    if isinstance(reference, GaussianReference):
        if reference.model is not model:
            raise ValueError("reference was fitted to another model; fit it to this one")
        return reference
    check_choice("reference", reference, REFERENCES)
    if fitted and reference in fitted:
        return fitted[reference]
    return {"ep": fit_ep, "laplace": fit_laplace, "prior": prior_reference}[reference](model)


def describe(model: GPModel) -> dict[str, Any]:
    return {
        "N": model.n,
        "likelihood": likelihoods.describe(model.likelihood),
        "kernel": "K given" if model.kernel is None else str(model.kernel),
        "jitter": float(f"{model.jitter:.6g}"),
    }


def seed_sequence(random_seed: int | np.random.Generator | None) -> np.random.SeedSequence:
    if isinstance(random_seed, np.random.Generator):
        return np.random.SeedSequence(random_seed.integers(0, 2**32, size=4).tolist())
    if random_seed is None or (isinstance(random_seed, numbers.Integral) and random_seed >= 0):
        return np.random.SeedSequence(None if random_seed is None else int(random_seed))
    raise ValueError(
        f"random_seed must be a non-negative int, a numpy Generator or None, got {random_seed!r}"
    )


def check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value in known:
        return
    close = difflib.get_close_matches(str(value).lower(), known, n=1, cutoff=0.4)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"unknown {name} {value!r}{hint} Known: {', '.join(known)}")


def check_positive(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, numbers.Real) or not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def check_count(name: str, value: Any, least: int, optional: bool = True) -> None:
    if value is None and optional:
        return
    if not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}")


def check_probit(model: GPModel, method: str) -> None:
    if model.likelihood.name != "probit":
        raise ValueError(
            f"method={method!r} is for the probit likelihood only (Z is then an orthant "
            f"probability), got {model.likelihood.name}; use method='smc'"
        )
