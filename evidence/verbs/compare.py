"""Which model? The evidence of each, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

import numpy as np

from ..execution.arguments import number, seed_sequence
from ..messages import InputError, Message
from ..paths.families import family
from ..results.comparison import Comparison
from ._options import EveryModel
from ._several import run_each

if TYPE_CHECKING:
    from ..models.types import Model


def compare(
    models: Mapping[str, Model],
    *,
    prior: Mapping[str, float] | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    **options: Unpack[EveryModel],
) -> Comparison:
    """Compare models of the same data by their evidence.

    Parameters
    ----------
    models : mapping from name to model
    prior : mapping from name to number, optional
        Prior probabilities of the models, up to a factor; equal by default.
    random_seed : int or Generator, optional
        Same seed, same answer.
    progressbar : bool
        Show one line in a terminal or notebook.
    **options
        For every :func:`evidence.log_evidence`: ``method``, ``target_se``, ``executor``, …

    Returns
    -------
    Comparison
        ``comparison.table``: one row per model, most probable first, with ``logz``,
        ``logz_se``, ``log_bayes_factor`` against the first, ``probability``, their errors, the
        approximations, ``method``, ``seconds`` and ``warnings`` (a count). ^C leaves the models
        finished by then.

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
    """
    models = _check_models(models)
    weights = _check_prior(prior, models)
    rngs = map(np.random.default_rng, seed_sequence(random_seed).spawn(len(models)))
    runs = [
        (name, {"model": model, "random_seed": rng, **options})
        for (name, model), rng in zip(models.items(), rngs, strict=True)
    ]
    results = dict(zip(models, run_each(runs, "model", progressbar), strict=False))
    if not results:
        raise KeyboardInterrupt("before the first model was finished")
    missing = ", ".join(name for name in models if name not in results)
    cut = [Message("interrupted", f"interrupted: {missing} was not run")] if missing else []
    return Comparison.of(results, weights, cut)


def _check_models(models: Mapping[str, Model]) -> dict[str, Model]:
    if not isinstance(models, Mapping) or not models:
        raise InputError(
            f"models must map names to models, {{'rbf': m1, 'matern': m2}}, got {models!r}"
        )
    for model in models.values():
        family(model)
    # a density keeps its data to itself
    observed = {name: np.asarray(m.y) for name, m in models.items() if hasattr(m, "y")}
    first = next(iter(observed), "")
    for name, y in observed.items():
        if not np.array_equal(y, observed[first]):
            raise InputError(
                f"models[{name!r}] is of other observations y than models[{first!r}]; "
                "evidences of different data cannot be compared"
            )
    return dict(models)


def _check_prior(
    prior: Mapping[str, float] | None, models: Mapping[str, Model]
) -> dict[str, float]:
    if prior is None:
        return dict.fromkeys(models, 1.0)
    if not isinstance(prior, Mapping):
        raise InputError(f"prior must map names of models to numbers, got {prior!r}")
    if set(prior) != set(models):
        raise InputError(
            f"prior must give one number for each of {', '.join(models)}; got "
            + ", ".join(map(str, prior))
        )
    return {name: number(f"prior[{name!r}]", p, above=0.0) for name, p in prior.items()}
