"""The evidence from posterior draws that somebody already has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..execution import arguments
from ..execution.keywords import hinted
from ..execution.options import told
from ..execution.progress import Bar, progress_line
from ..messages import InputError, Message, suggest
from ..models.adaptors.chains import Chains, read_chains
from ..models.density.changes import Bounded
from ..models.density.functions import in_shape
from ..models.density.model import DensityModel
from ..numerics.arrays import Array
from ..proposals.crossfit import NAMES, CrossFit, cross_fit, worth
from ..results.bridged import BridgeEvidence
from ..results.evidence import Estimate
from ..statistics.diagnostics import rhat
from ..statistics.psis import LIMIT
from .compare import density_of

_LEAST = 8  # draws in a chain, half of which tell something about mixing
_FEWEST = 50.0  # effective draws in a half


@hinted
def evidence_from_draws(
    draws: object,
    log_density: Callable[..., Any] | DensityModel,
    *,
    bounds: Sequence[ArrayLike | None] | Mapping[str, ArrayLike] | None = None,
    proposal: str = "auto",
    n_proposal: int | None = None,
    vectorized: bool | None = None,
    var_names: Sequence[str] | None = None,
    executor: Executor | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> BridgeEvidence:
    r"""Estimate log Z from posterior draws, of any sampler, by bridge sampling.

    A proposal is fitted to one half of every chain and meets the other half; then the halves
    are swapped, and the two estimates averaged (:mod:`evidence.proposals.crossfit`). The error
    bar takes autocorrelation, the proposal's draws and what both estimates share into account.
    log_density is called once for each draw and each proposal.

    Parameters
    ----------
    draws : array, mapping or ArviZ container
        Shape (chains, draws, d), or (draws, d) for one chain; names of variables with their
        arrays (chains, draws, ...); or ArviZ's InferenceData or DataTree, whose posterior is
        taken. emcee: ``sampler.get_chain().swapaxes(0, 1)``.
    log_density : callable or DensityModel
        log prior plus log likelihood, *with all constants of both*: log Z is off by whatever is
        left out (Stan: ``target +=`` or ``_lupdf`` decide; ``~`` drops constants). It takes rows
        (m, d) and returns (m,). Where draws have names it takes a mapping of names to arrays
        (m, ...). A model of :class:`~evidence.DensityModel`, :func:`~evidence.from_pymc` or
        :func:`~evidence.from_stan`, or a ``pymc.Model``, has its own prior, limits and names.
    bounds : sequence or mapping, optional
        Limits (low, high) of each column, None where there is none, or of some variables by
        name. Such parameters are changed to the real line; draws and log_density stay as they
        are, and the Jacobian is taken care of. Simplices and other constraints on several
        parameters at once are not supported: leave one of their numbers out.
    proposal : {"auto", "normal", "student_t", "mixture", "scaled", "warp"}
        Its family. By default the first four are fitted, and the one is taken that has the
        highest density at draws it was not fitted to. "warp" bridges a normal to the posterior
        made symmetric (warp-III), with twice as many calls of log_density.
    n_proposal : int, optional
        Draws from proposals; by default as many as there are draws.
    vectorized : bool, optional
        Whether log_density takes many rows at once, or one point: (d,), or a mapping of names
        to values. By default a few draws are tried.
    var_names : sequence of str, optional
        The variables that are parameters, where draws hold others as well.
    executor : Executor, optional
        Where log_density is called; by default here.
    random_seed : int or Generator, optional
        Same seed, same answer.
    progressbar : bool
        Show one line in a terminal or notebook.

    Returns
    -------
    BridgeEvidence
        An :class:`~evidence.EvidenceResult`, so :class:`~evidence.Comparison` takes it:
        ``ev.Comparison.of({"a": one, "b": two}, prior={"a": 1, "b": 1})``. ``notes`` say whether
        more draws or more proposals would make the error smaller.

    References
    ----------
    X.-L. Meng and W. H. Wong, Statistica Sinica 6 (1996) 831; X.-L. Meng and S. Schilling, J.
    Comput. Graph. Stat. 11 (2002) 552 (warp); S. Frühwirth-Schnatter, Econometrics Journal 7
    (2004) 143.

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> rng = np.random.default_rng(0)
    >>> draws = {"rate": rng.gamma(3.0, size=(4, 500))}
    >>> result = ev.evidence_from_draws(  # ∫ x² exp(-x) dx = 2
    ...     draws, lambda p: 2 * np.log(p["rate"]) - p["rate"], bounds={"rate": (0, None)},
    ...     random_seed=0, progressbar=False,
    ... )
    >>> bool(abs(result.logz - np.log(2)) < 4 * result.logz_se), bool(result.logz_se < 0.01)
    (True, True)
    """
    started = time.perf_counter()
    arguments.check_choice("proposal", proposal, NAMES)
    arguments.check_count("n_proposal", n_proposal, 2 * _LEAST)
    if vectorized is not None:
        arguments.check_flag("vectorized", vectorized)
    arguments.check_executor(executor)
    chains, log_density = read_chains(draws, var_names), density_of(log_density)
    with progress_line(progressbar, unit="call", desc="log density") as line:
        if isinstance(log_density, DensityModel):
            if bounds is not None:
                raise InputError("bounds are the DensityModel's own; leave the argument out")
            report = getattr(log_density, "report", None)  # a program's
            chains = chains.of(log_density.names, report.numbered if report else ())
            x, function = log_density.unconstrain(chains.x), log_density.log_prob
        else:
            arguments.check_function("log_density", log_density, optional=False)
            change = _limits(bounds, chains)
            x = _unbounded(chains, change)
            whole = _takes_rows(log_density, chains) if vectorized is None else vectorized
            function = _Call(log_density, chains, change, whole)
        d = x.shape[2]  # coordinates may be fewer than parameters
        arguments.check_memory("n_proposal", n_proposal, n_proposal, d)
        names = chains.names if len(chains.names) == d else tuple(f"x[{i}]" for i in range(d))
        _check(x, names)
        target = _Target(function, executor, line)
        log_p = target(x.reshape(-1, d)).reshape(x.shape[:2])
        _check_density(log_p)
        n = log_p.size if n_proposal is None else int(n_proposal)
        # a stream of its own: the draws may have been made with the same seed
        rng = np.random.default_rng(arguments.seed_sequence(random_seed).spawn(1)[0])
        fit = cross_fit(x, log_p, target, proposal, n, rng)
    warnings = [*_about_draws(x, names), *_about_fit(fit, names), *target.warnings()]
    if bounds is None and not isinstance(log_density, DensityModel):
        warnings += _about_limits(fit, x, names)
    settings = {"proposal": fit.family, "n_proposal": n, "evaluations": target.calls}
    return _result(fit, x, settings, warnings, time.perf_counter() - started)


# -- the density ------------------------------------------------------------------------------


class _Target:
    """log p of rows, in pieces, counted."""

    def __init__(
        self, function: Callable[[Array], Array], executor: Executor | None, line: Bar
    ) -> None:
        self.function, self.line = function, line
        self.map: Callable[..., Any] = map if executor is None else executor.map
        self.calls = self.nans = 0

    def __call__(self, x: Array) -> Array:
        chunk = 1000  # rows that log_density is called with
        pieces = [x[i : i + chunk] for i in range(0, len(x), chunk)]
        values = []
        for value in self.map(self.function, pieces):
            values.append(value)
            self.line.update(len(value))
        log_p = np.concatenate(values)
        if (log_p == np.inf).any():
            row = x[log_p == np.inf][0]
            raise InputError(f"log_density must be finite or -inf, got inf at {row}")
        self.calls += len(x)
        self.nans += int(np.isnan(log_p).sum())
        return np.where(np.isnan(log_p), -np.inf, log_p)

    def warnings(self) -> list[Message]:
        if not self.nans:
            return []
        text = f"log_density was NaN at {self.nans} of {self.calls} points, taken for density 0"
        return [Message("density-nan", text)]


class _Call:
    """A user's function at rows of unbounded coordinates, with the Jacobian."""

    def __init__(
        self, function: Callable[..., Any], form: Chains, change: Bounded | None, whole: bool
    ) -> None:
        self.function, self.change, self.whole = function, change, whole
        self.form = form.without_draws()

    def __call__(self, x: Array) -> Array:
        theta = np.array(x) if self.change is None else self.change(x)
        rows = self.form.by_name(theta) if self.whole else list(map(self.form.by_name, theta))
        out = self.function(rows) if self.whole else list(map(self.function, rows))
        log_p = in_shape("log_density", out, x.shape[:1], self.whole)
        if log_p.shape != (len(x),):
            raise InputError(
                f"log_density must return one number for each of {len(x)} rows, got shape "
                f"{log_p.shape}; vectorized=False is for functions of one point"
            )
        return log_p if self.change is None else log_p + self.change.log_slope(x).total


def _takes_rows(function: Callable[..., Any], chains: Chains) -> bool:
    """Whether a function of rows gives a number for each, the same as for each alone."""
    form, d = chains.without_draws(), chains.x.shape[2]
    rows = np.array(chains.x.reshape(-1, d)[: d + 2])  # not d, which may be axes of one point

    def values(theta: Array, shape: tuple[int, ...] = ()) -> Array:
        with np.errstate(all="ignore"):
            out = np.asarray(function(form.by_name(np.array(theta))), dtype=float)
        return in_shape("log_density", out, shape, True)

    with suppress(Exception):  # whatever a function does with what it is not made for
        together = values(rows, (len(rows),))
        if together.shape == (len(rows),):
            alone = [values(row[None], (1,)) for row in rows[:2]]
            if all(one.shape == (1,) for one in alone):
                each = np.concatenate(alone)
                return bool(np.allclose(each, together[:2], 1e-6, 1e-9, equal_nan=True))
    with suppress(Exception):
        return values(rows[0]).shape != ()
    return True  # its own error is for the user to see


def _limits(
    bounds: Sequence[ArrayLike | None] | Mapping[str, ArrayLike] | None, chains: Chains
) -> Bounded | None:
    if bounds is None:
        return None
    if isinstance(bounds, Mapping):
        owners = [name.partition("[")[0] for name in chains.names]
        for name in bounds:
            if name not in chains.names and name not in owners:
                unknown = arguments.shown(name)
                raise InputError(f"bounds has {unknown}, no parameter{suggest(name, owners)}")
        both = zip(chains.names, owners, strict=True)
        bounds = [bounds.get(name, bounds.get(owner)) for name, owner in both]
    return Bounded(bounds, len(chains.names))


def _unbounded(chains: Chains, change: Bounded | None) -> Array:
    if change is None:
        return chains.x
    d = len(chains.names)
    x = change.inverse(chains.x.reshape(-1, d)).reshape(chains.x.shape)
    outside = np.isnan(x).any(axis=(0, 1))
    if outside.any():
        i = int(outside.argmax())
        raise InputError(
            f"draws of {chains.names[i]} are outside bounds ({change.low[i]:g}, "
            f"{change.high[i]:g}), or on them"
        )
    return x


# -- what could be wrong ----------------------------------------------------------------------


def _check(x: Array, names: Sequence[str], *, flat: float = 1e-12) -> None:
    """Draws that a proposal can be fitted to.

    ``flat``: share of the correlations' largest eigenvalue that is no dimension of its own.
    """
    chains, n, d = x.shape
    if n < _LEAST or chains * (n // 2) < d + 2:
        raise InputError(
            f"draws are too few: {chains} chain(s) of {n} for {d} parameters; a half of them must "
            "fit a covariance, and shapes are (chains, draws, ...)"
            + (": should their axes be swapped?" if chains > n else "")
        )
    for half in (x[:, : n // 2].reshape(-1, d), x[:, n // 2 :].reshape(-1, d)):
        sd = half.std(axis=0)
        still = sd <= np.finfo(float).eps * np.abs(half).max(axis=0)
        if still.any():
            name = names[int(still.argmax())]
            raise InputError(f"draws of {name} never change; leave constants out")
        z = (half - half.mean(axis=0)) / sd
        value, vector = np.linalg.eigh(z.T @ z / len(z))
        if value[0] < flat * value[-1]:
            involved = np.flatnonzero(np.abs(vector[:, 0]) > 0.1)[:4]
            raise InputError(
                f"draws of {', '.join(names[i] for i in involved)} determine each other; leave "
                "out what is a function of other parameters (var_names=)"
            )


def _check_density(log_p: Array) -> None:
    nowhere = np.argwhere(log_p == -np.inf)
    if len(nowhere):
        chain, draw = nowhere[0]
        raise InputError(
            f"draws: number {draw} of chain {chain} has density 0, and {len(nowhere)} of "
            f"{log_p.size} in all: are they draws of log_density?"
        )


def _about_draws(
    x: Array, names: Sequence[str], *, per_number: float = 2.0, agree: float = 1.01
) -> Iterator[Message]:
    """``per_number``: effective draws in a half, for each parameter; ``agree``: the largest R-hat
    of chains that have met.
    """
    r, n = np.nan_to_num(rhat(x)), worth(x)
    if r.max() > agree:
        text = f"the chains disagree: R-hat {r.max():.3f} ({names[int(r.argmax())]})"
        yield Message("chains-disagree", text)
    least, needed = float(np.nanmin(n)), max(_FEWEST, per_number * x.shape[2])
    if least < needed:
        text = (
            f"few draws: a half of them is worth {least:.0f} independent ones "
            f"({names[int(np.nanargmin(n))]}), {needed:.0f} would do for {x.shape[2]} parameters; "
            "the error bar is rough"
        )
        yield Message("few-draws", text)
    if x.shape[0] > x.shape[1]:
        text = f"draws have {x.shape[0]} chains of {x.shape[1]}: should their axes be swapped?"
        yield Message("axes-swapped", text)


def _about_fit(fit: CrossFit, names: Sequence[str], *, apart: float = 6.0) -> Iterator[Message]:
    """``apart``: standard errors between draws and log density."""
    shape = max(half.bridge.shape for half in fit.halves)
    if shape > LIMIT:
        text = (
            f"posterior and proposal meet seldom (Pareto k = {shape:.2f} of what is averaged): "
            "logz_se is too small. More draws help, if they are draws of log_density"
        )
        yield Message("heavy-tail", text)
    clear = [half.gaps for half in fit.halves if half.bridge.fewest > _FEWEST]
    gaps = np.array(clear or [np.zeros((3, len(names)))])
    if np.abs(gaps).max() > apart:
        _, kind, i = map(int, np.unravel_index(np.abs(gaps).argmax(), gaps.shape))
        what = (f"the mean of {names[i]}", f"the spread of {names[i]}", "the mean log density")
        text = (
            f"draws and log_density disagree on {what[kind]} by {np.abs(gaps).max():.0f} standard "
            "errors: other data, a forgotten Jacobian, or chains that have not converged?"
        )
        yield Message("other-density", text)


def _about_limits(fit: CrossFit, x: Array, names: Sequence[str]) -> list[Message]:
    """Parameters with limits that log_density knows and bounds do not."""
    proposals = np.concatenate([half.proposals for half in fit.halves])
    zero = np.concatenate([half.log_p for half in fit.halves]) == -np.inf
    found = []
    for i, name in enumerate(names):
        for limit, outside in ((0.0, proposals[:, i] <= 0.0), (1.0, proposals[:, i] >= 1.0)):
            inside = x[..., i].min() > 0.0 if limit == 0.0 else x[..., i].max() < 1.0
            if inside and outside.any() and zero[outside].all():
                found.append(f"{name} {'>' if limit == 0.0 else '<'} {limit:g}")
    if not found:
        return []
    text = f"log_density is -inf unless {', '.join(found)}: with bounds= the error is smaller"
    return [Message("bounds-missing", text)]


# -- the answer -------------------------------------------------------------------------------


def _result(
    fit: CrossFit, x: Array, settings: dict[str, Any], warnings: list[Message], seconds: float, *,
    factor: float = 4.0,
) -> BridgeEvidence:  # fmt: skip
    """``factor``: times as many draws, in a note on what would lower the error."""
    bridges = [half.bridge for half in fit.halves]
    names = ("logz", "logz_se", "ess", "overlap", "k_draws", "k_proposal")
    numbers = np.array([(b.logz, b.se, b.ess, b.overlap, *b.shapes) for b in bridges])
    columns = dict(zip(names, numbers.T, strict=True))
    words = ("first half", "second half")
    rows = [Estimate(w, b.logz, b.se, seconds) for w, b in zip(words, bridges, strict=True)]
    more = [fit.se_with(*times) for times in ((1.0, factor), (factor, 1.0))]
    note = (
        f"with {factor:g} times n_proposal logz_se would be about {more[0]:.2g}, with {factor:g} "
        f"times the draws {more[1]:.2g}"
    )
    sides = zip(*(half.log_weights for half in fit.halves), strict=True)
    weights = dict(zip(("draws", "proposal"), map(np.concatenate, sides), strict=True))
    rows.append(Estimate("bridge", fit.logz, fit.se, seconds))
    return told(BridgeEvidence(
        "bridge", fit.logz, fit.se, tuple(rows), warnings=tuple(warnings), notes=(note,),
        settings=settings,
        model={"parameters": x.shape[2], "chains": x.shape[0], "draws": x.shape[1]},
        se_draws=fit.se_draws, se_proposal=fit.se_proposal,
        pareto_k=float(numbers[:, -2:].max()), ess=float(columns["ess"].sum()),
        overlap=float(columns["overlap"].mean()), half_columns=columns, log_weights=weights,
    ))  # fmt: skip
