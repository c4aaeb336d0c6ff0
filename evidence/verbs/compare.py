"""Which model? The evidence of each, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..execution.arguments import (
    check_choice,
    check_flag,
    check_kind,
    listed,
    number,
    seed_sequence,
    shown,
)
from ..execution.keywords import also
from ..execution.options import told
from ..messages import InputError, Message
from ..models.adaptors.numpyro import from_numpyro
from ..models.adaptors.pymc import from_pymc
from ..models.formulas.jzs import Scales, check_measures
from ..models.formulas.model import callers, from_formulas
from ..models.formulas.terms import Common
from ..models.types import Described
from ..paths.families import family
from ..results.comparison import Comparison
from ..results.hyper import IntegratedEvidence
from ._options import EveryModel
from ._several import run_each
from .loo import loo as leave_one_out

if TYPE_CHECKING:
    import pandas as pd

    from ..models.likelihoods.base import Likelihood
    from ..models.types import Model

_WIDE = (
    "effects have default priors, which are wide: whether one is there depends on them; say what "
    "is plausible, priors={'x': 'norm(0, 0.5)'}, or take priors='jzs'"
)


@also(family="likelihood")
def compare(
    models: Mapping[str, Model | str] | Sequence[Model | str],
    data: pd.DataFrame | Mapping[str, Any] | None = None,
    *,
    prior: Mapping[str, float] | None = None,
    baseline: str | None = None,
    loo: bool = False,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    likelihood: str | Likelihood | None = None,
    link: str | None = None,
    priors: Mapping[str, Any] | str | Scales | None = None,
    missing: str = "drop",
    namespace: Mapping[str, Any] | None = None,
    predictors: Mapping[str, str] | None = None,
    **options: Unpack[EveryModel],
) -> Comparison:
    """Compare models of the same data by their evidence.

    Parameters
    ----------
    models : mapping from name to model, sequence of models, or formulas
        Models of a sequence are called ``"model 1"``, ``"model 2"``, …; among them a
        ``pymc.Model`` (:func:`evidence.from_pymc`), or a NumPyro program and what it is called
        with, ``(program, *args)`` (:func:`evidence.from_numpyro`). Formulas, a list of them or
        under names, are of ``data``; every model then has the rows in which none of
        them misses a value; they are code, as in :func:`evidence.from_formula`.
    data : DataFrame or mapping of columns, optional
        For formulas.
    prior : mapping from name to number, optional
        Prior probabilities of the models, up to a factor; equal by default.
    baseline : str, optional
        The model that Bayes factors are against; by default the most probable one.
    loo : bool
        Ask :func:`evidence.loo` as well how each model predicts every datum from all others, and
        for the weights of their best mixture (stacking).
    random_seed : int or Generator, optional
        Same seed, same answer.
    progressbar : bool
        Show one line in a terminal or notebook.
    likelihood, link, priors, missing, namespace, predictors
        For formulas, as in :func:`evidence.from_formula` (``family=`` too). A prior is for every
        model that has what it names.
    **options
        For every :func:`evidence.log_evidence`: ``method``, ``target_se``, ``executor``, …

    Returns
    -------
    Comparison
        It prints Bayes factors with their errors, probabilities and notes;
        ``comparison.table`` has everything. ``comparison.bayes_factor("a", "b")``,
        ``comparison.report()``, ``comparison.to_markdown()``, ``comparison.to_latex()``. ^C
        leaves the models finished by then. ``ev.predict(comparison, X_new)`` averages over the
        models.

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> x = np.linspace(0, 3, 12)
    >>> y = np.where(np.sin(4 * x) > 0, 1, -1)
    >>> base = ev.GPModel(x, y, "4.0 * RBF(0.5)")
    >>> models = {"short": base, "long": base.at({"length_scale": 20.0})}
    >>> comparison = ev.compare(models, random_seed=0, progressbar=False)
    >>> comparison.best, bool(comparison.table.probability["short"] > 0.6)
    ('short', True)
    >>> 3.0 < comparison.bayes_factor("short", "long").value < 300.0
    True
    """
    check_choice("missing", missing, ("drop", "error"))
    check_flag("loo", loo)
    if not isinstance(namespace, Mapping | None):
        raise InputError(f"namespace must map names to objects, got {shown(namespace)}")
    words = {"likelihood": likelihood, "link": link, "priors": priors, "predictors": predictors}
    if data is not None:
        space = callers(3) if namespace is None else namespace
        given = {name: word for name, word in words.items() if word is not None}
        formulas = _check_formulas(models)
        models = from_formulas(formulas, data, namespace=space, missing=missing, **given)  # type: ignore[arg-type]
    elif unused := [name for name, word in words.items() if word is not None]:
        raise InputError(f"{unused[0]} goes with formulas and data; models have their own")
    models = _check_models(models)
    check_measures(models)
    weights = check_prior(prior, models)
    wide = data is not None and priors is None and _differ(models)
    if baseline is not None:
        check_choice("baseline", baseline, models)
    for name, model in models.items() if loo else ():
        check_kind(f"loo=True: models[{shown(name)}]", model, Described)
    seeds = seed_sequence(random_seed).spawn(2 * len(models))
    rngs = [np.random.default_rng(seed) for seed in seeds]
    runs = [
        (name, {"model": model, "random_seed": rng, **options})
        for (name, model), rng in zip(models.items(), rngs, strict=False)
    ]
    results = dict(zip(models, run_each(runs, "model", progressbar), strict=False))
    if not results:
        raise KeyboardInterrupt("before the first model was finished")
    missing = ", ".join(name for name in models if name not in results)
    cut = [Message("interrupted", f"interrupted: {missing} was not run")] if missing else []
    if baseline not in results:
        baseline = None
    looks = {}
    for (name, one), rng in zip(results.items(), rngs[len(models) :] * loo, strict=False):
        posterior = one if isinstance(one, IntegratedEvidence) else None
        known = models[name]
        assert isinstance(known, Described)
        looks[name] = leave_one_out(known, posterior=posterior, random_seed=rng, progressbar=False)
    comparison = Comparison.of(results, weights, cut, models, baseline, looks)
    return told(replace(comparison, notes=(*comparison.notes, *[_WIDE] * wide)))


def _differ(models: Mapping[str, Any]) -> bool:
    """Whether some common effect is in one formula and not in another."""
    each = {
        frozenset(name for t in model.terms if isinstance(t, Common) for name in t.labels)
        for model in models.values()
    }
    return len(each) > 1


def _check_formulas(given: object) -> dict[str, str]:
    given = [given] if isinstance(given, str) else given
    each = listed("models", given, "formulas")
    formulas = given if isinstance(given, Mapping) else dict(zip(each, each, strict=True))
    if len(formulas) < len(each):
        raise InputError("models: a formula is there twice; give names to them, {name: formula}")
    for name, formula in named(formulas).items():
        if not isinstance(formula, str):
            raise InputError(
                f"models[{shown(name)}] must be a formula where data are given, got "
                f"{type(formula).__name__}"
            )
    return dict(formulas)


def density_of(model: object) -> Any:
    """A PyMC or NumPyro model as a density; others as they are."""
    if type(model).__module__.partition(".")[0] == "pymc":
        return from_pymc(model)
    if isinstance(model, tuple) and model and callable(model[0]):
        return from_numpyro(*model)
    return model


def _check_models(given: object) -> dict[str, Model]:
    each = given.values() if isinstance(given, Mapping) else given
    if isinstance(each, str) or (np.iterable(each) and any(isinstance(m, str) for m in each)):
        raise InputError("data is missing: formulas need a table")
    models = {name: density_of(model) for name, model in named(given).items()}
    for model in models.values():
        family(model)
    # a density keeps its data to itself
    observed = {name: np.asarray(m.y) for name, m in models.items() if hasattr(m, "y")}
    first = next(iter(observed), "")
    for name, y in observed.items():
        if not np.array_equal(y, observed[first]):
            n, m = len(y), len(observed[first])
            hint = f": {n} rows against {m}; of formulas and data compare takes the same rows"
            raise InputError(
                f"models[{shown(name)}] is of other observations y than models[{shown(first)}]; "
                f"evidences of different data cannot be compared{hint if n != m else ''}"
            )
    return models


def named(given: object) -> dict[str, Any]:
    """Models by name; those of a sequence are numbered."""
    if isinstance(given, list | tuple):
        given = {f"model {k}": model for k, model in enumerate(given, 1)}
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            f"models must map names to models, {{'rbf': m1, 'matern': m2}}, got {shown(given)}"
        )
    return dict(given)


def check_prior(prior: Mapping[str, float] | None, models: Mapping[str, Any]) -> dict[str, float]:
    """Of every model, up to a factor."""
    if prior is None:
        return dict.fromkeys(models, 1.0)
    if not isinstance(prior, Mapping):
        raise InputError(f"prior must map names of models to numbers, got {shown(prior)}")
    if set(prior) != set(models):
        raise InputError(
            f"prior must give one number for each of {', '.join(models)}; got "
            + ", ".join(map(str, prior))
        )
    return {name: number(f"prior[{shown(name)}]", p, above=0.0) for name, p in prior.items()}
