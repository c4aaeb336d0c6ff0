"""All that a formula may leave out: every submodel, and which terms belong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from ..execution.arguments import seed_sequence
from ..execution.keywords import also
from ..execution.options import told
from ..messages import InputError, Message
from ..models.formulas.jzs import Scales
from ..models.formulas.model import callers, from_formulas
from ..models.formulas.parse import Parts, parse, pieces, split
from ..models.formulas.structured import TERMS
from ..results.base import DataFrame, data_frame
from ..results.hyper import IntegratedEvidence
from ..results.submodels import Submodels, inclusion
from ._options import EveryModel
from ._several import run_all
from .compare import check_prior
from .summarise import summarise

if TYPE_CHECKING:
    import pandas as pd

    from ..models.likelihoods.base import Likelihood


@also(family="likelihood")
def all_submodels(
    formula: str,
    data: pd.DataFrame | Mapping[str, Any],
    *,
    prior: Mapping[str, float] | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    likelihood: str | Likelihood = "gaussian",
    link: str | None = None,
    priors: Mapping[str, Any] | str | Scales | None = None,
    missing: str = "drop",
    namespace: Mapping[str, Any] | None = None,
    **options: Unpack[EveryModel],
) -> Submodels:
    """Compare all models that leave out some of a formula's common terms.

    An interaction is there only together with those of its parts that the formula has. The
    intercept, offsets, effects of groups and structured terms are in every model, and all models
    are of the same rows.

    Parameters
    ----------
    formula, data, likelihood, link, priors, missing, namespace
        As in :func:`evidence.from_formula`. Priors given by name are for every model that has
        what they name.
    prior : mapping from formula to number, optional
        Prior probabilities of the submodels, up to a factor; equal by default.
    random_seed : int or Generator, optional
        Same seed, same answer.
    progressbar : bool
        Show one line in a terminal or notebook.
    **options
        For every :func:`evidence.log_evidence`: ``target_se``, … An ``executor`` runs whole
        models side by side: threads unless given, processes or a cluster.

    Returns
    -------
    Submodels
        A :class:`Comparison` with ``inclusion``, Bayes factors of terms, and ``effects``, averaged
        over models; :func:`evidence.predict` averages over them, too.

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> rng = np.random.default_rng(0)
    >>> data = {"x": rng.normal(size=24), "a": list("pq") * 12}
    >>> data["y"] = data["x"] + rng.normal(size=24)
    >>> words = {"effort": "frugal", "random_seed": 0, "progressbar": False}
    >>> found = ev.all_submodels("y ~ x * a", data, **words)
    >>> list(found.table.index)[0], len(found.table)
    ('y ~ 1 + x', 5)
    >>> bool(found.inclusion.log_bayes_factor["x"] > 3.0)
    True
    """
    space = callers(3) if namespace is None else namespace
    words: dict[str, Any] = {"likelihood": likelihood, "link": link, "missing": missing}
    words |= {"priors": priors, "namespace": space}
    parts, (full,) = parse(formula, TERMS), from_formulas({"": formula}, data, **words).values()
    owners = list(dict.fromkeys(full.offsets[0].owners))
    spelt = {owner: ":".join(pieces(owner, full.columns)) for owner in owners}
    terms = {_written(formula, parts, spelt, some): some for some in _marginal(owners)}
    models = from_formulas({text: text for text in terms}, data, **words)
    weights = check_prior(prior, models)
    seeds = map(np.random.default_rng, seed_sequence(random_seed).spawn(len(models)))
    executor = options.pop("executor", None)
    runs = [{"random_seed": seed, **options} for seed in seeds]
    results = run_all(models, runs, progressbar, executor)
    if not results:
        raise KeyboardInterrupt("before the first model was finished")
    left = len(models) - len(results)
    cut = [Message("interrupted", f"interrupted: {left} models were not run")] * (left > 0)
    ran = {name: models[name] for name in results}
    found = cast(Submodels, Submodels.of(results, weights, cut, ran))
    table = inclusion(found.table, weights, {name: terms[name] for name in results})
    return told(replace(found, inclusion=table, effects=_averaged(found)))


def _marginal(owners: Sequence[str], *, most: int = 1024) -> list[frozenset[str]]:
    """Sets of terms that have, with an interaction, all of its parts that there are.

    ``most``: models, an hour's work or more.
    """
    each = {owner: {p for _, p in split(owner, ":")} for owner in owners if owner != "Intercept"}
    found = [frozenset[str]()]
    for owner, own in sorted(each.items(), key=lambda item: len(item[1])):
        parents = {other for other, some in each.items() if some < own}
        found += [some | {owner} for some in found if parents <= some]
        if len(found) > most:
            raise InputError(
                f"formula: its {len(each)} terms have more than {most} submodels; leave out "
                "terms, or compare chosen formulas with ev.compare"
            )
    return found


def _written(formula: str, parts: Parts, spelt: Mapping[str, str], some: frozenset[str]) -> str:
    """The formula with these terms alone."""
    common = ["1" if "Intercept" in spelt else "0", *(t for o, t in spelt.items() if o in some)]
    offsets = [term for _, term in split(parts.common, "+-") if re.match(r"offset\s*\(", term)]
    brackets = [
        f"({b.effects} {'|' if b.correlated else '||'} {' + '.join(b.groups)})"
        for b in parts.brackets
    ]
    terms = [*common, *offsets, *brackets, *(written.call for written in parts.structured)]
    return f"{formula.split('~')[0].strip()} ~ {' + '.join(terms)}"


def _averaged(found: Submodels, *, settings: int = 48, fewest: int = 4) -> DataFrame:
    """Effects over the models that have them.

    ``settings``: of hyperparameters that effects are averaged over, of all models together, but
    ``fewest`` of each.
    """
    every = []
    for name, result in found.results.items():
        p = float(found.table.probability[name])
        known = result if isinstance(result, IntegratedEvidence) else None
        most = max(fewest, round(settings * p))
        own = summarise(found.models[name], known, max_draws=most).table
        every.append(own.assign(p=p))
    rows = {}
    for name in dict.fromkeys(label for own in every for label in own.index):
        p, mean, sd = np.array(
            [own.loc[name, ["p", "mean", "sd"]] for own in every if name in own.index]
        ).T
        middle, w = p @ mean / p.sum(), p / p.sum()
        sd = np.sqrt(w @ (sd**2 + (mean - middle) ** 2))
        rows[name] = {"probability": p.sum(), "mean": middle, "sd": sd, "averaged": p @ mean}
    return data_frame(rows.values(), index=list(rows)).rename_axis("name")
