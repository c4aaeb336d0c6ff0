r"""Maximum-likelihood (or MAP) hyperparameters, with EP's log Z as the likelihood.

The objective is :math:`\log Z_{EP}(\theta) + \log p(\theta)` in the logs θ of the
hyperparameters. A prior is given for the natural value v and used as a density of
:math:`\theta = \log v`, Jacobian included, :math:`\log p_v(e^\theta) + \theta`: where the
maximum lies depends on this choice. The search (:mod:`evidence.hyper.search`) is L-BFGS-B with
exact gradients, within the bounds of the kernel and the likelihood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from ..execution.arguments import check_count, check_kind, check_positive, seed_sequence
from ..execution.clock import Clock, Stopped, check_interrupt, interruptible
from ..execution.keywords import hinted
from ..execution.options import told
from ..execution.progress import compiling, progress_line
from ..hyper.at_theta import check_few, ep_at
from ..hyper.findings import doubts, tabulate
from ..hyper.search import Search
from ..messages import InputError, messages
from ..models.hyperparameters import Hyperparameters
from ..models.priors import Priors, held
from ..models.scales import natural, to_line
from ..models.types import Described
from ..numerics.arrays import Array, Indices
from ..numerics.threads import blas_for
from ..results.optimum import Optimum
from .estimate import log_evidence

REACH = 10.0  # starts are drawn within this factor


@hinted
def optimise(
    model: Described,
    *,
    n_restarts: int = 0,
    fixed: Iterable[str] = (),
    priors: Mapping[str, Any] | None = None,
    max_iterations: int = 200,
    tol: float = 1e-3,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> Optimum:
    r"""Find the hyperparameters that maximise EP's log Z.

    Parameters
    ----------
    model : GPModel, SparseModel or PredictorsModel
        The search begins at its hyperparameters and stays within their bounds.
    n_restarts : int
        Further starts, drawn log-uniformly: length scales within a factor of 10 of the median
        distance between inputs (one per column: of the median difference in it, times
        :math:`\sqrt D`), hyperparameters with a prior between its 5 % and 95 % quantiles, all
        others within a factor of 10 of their values in ``model``; clipped into the bounds.
    fixed : list of str
        Names (or unambiguous endings) of hyperparameters that stay as they are.
    priors : mapping of str to frozen scipy.stats distribution or its text, optional
        Of natural values, by name. The log density of the *logarithm* of the value is added to
        log Z, so the result is a MAP estimate of the logs.
    max_iterations : int
        Of L-BFGS-B, for each start.
    tol : float
        The search ends when no component of the projected gradient, in nats per unit of log,
        is larger. (Below 1e-4 the rounding of log Z may end it earlier.)
    random_seed : int or Generator, optional
        For the starts. Same seed, same answer.
    progressbar : bool
        Show one line in a terminal or notebook.

    Returns
    -------
    Optimum
        ``optimum.model``, ``optimum.logz``, ``optimum.table``, ``optimum.warnings``,
        ``optimum.evidence()``, …

    Notes
    -----
    Where the covariance is singular or EP does not converge, a trial point is rejected:
    ``optimum.rejected`` counts them. ^C returns the best so far, with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> import evidence as ev
    >>> X = np.linspace(0.0, 6.0, 40)
    >>> y = np.sin(2.0 * X) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> model = ev.GPModel(X, y, "RBF(1.0)", likelihood="gaussian(noise_std=0.5)")
    >>> best = ev.optimise(model, progressbar=False)
    >>> best.table.value.round(2).to_dict()
    {'length_scale': 0.92, 'likelihood__noise_std': 0.07}
    """
    tries = 10**5  # starts, more than anybody waits for
    check_kind("model", model, Described)
    check_few(model)
    check_count("n_restarts", n_restarts, 0, optional=False, below=tries)
    check_count("max_iterations", max_iterations, 1, optional=False)
    check_positive("tol", tol, optional=False)
    free = model.hyperparameters
    constant, prior = held(free, fixed), None
    moving = _moving(free, constant)
    if priors is not None and not (isinstance(priors, Mapping) and not priors):
        prior = Priors.of(free, priors, [free.names[i] for i in constant], complete=False)
        prior.check_start(free.theta)
    rng = np.random.default_rng(seed_sequence(random_seed))
    starts = _starts(model, moving, prior, n_restarts, rng)
    bar = progress_line(progressbar, unit="fit", ncols=88)

    def tick(text: str) -> None:
        bar.set_description_str(text, refresh=False)
        bar.update()

    search = Search(partial(ep_at, model), free, moving, prior, tick)
    clock, errors, early = Clock(), None, False
    with interruptible(clock), blas_for(model.n), compiling(progressbar), bar:
        try:
            for restart, start in enumerate(starts):
                search.run(restart, start, max_iterations, tol)
            if search.best is None:
                check_interrupt()  # time was short, and nothing else is wrong
                raise RuntimeError(
                    f"log Z could not be computed at any start: {search.ends[-1].message}"
                )
            errors = search.standard_errors()
            reference = ep_at(model, search.best.theta)
        except (KeyboardInterrupt, Stopped) as ended:
            if search.best is None:
                raise
            if isinstance(ended, KeyboardInterrupt):
                clock.interrupted.set()
            early, reference = True, search.best.reference
    table, history, restarts = tabulate(search, [free.names[i] for i in moving], errors)
    code = "interrupted" if clock.interrupted.is_set() else "stopped-early" * early
    warnings = messages([*reference.warnings, *doubts(search, table, reference, code)])
    return told(Optimum(
        reference.model, reference, table, history, restarts, warnings, clock.elapsed(),
        log_evidence,
    ))  # fmt: skip


def _moving(free: Hyperparameters, constant: set[int], slack: float = 1e-9) -> Indices:
    """Positions of what is optimised; what was put on a bound may be off by its rounding."""
    if not len(free):
        raise InputError(
            "the model has no free hyperparameters: build it with a scikit-learn kernel (not "
            "with K= or a function) whose bounds are not all 'fixed'"
        )
    moving = np.setdiff1d(np.arange(len(free)), list(constant))
    if not moving.size:
        raise InputError("fixed holds every hyperparameter; leave at least one to optimise")
    for i in moving:
        low, high = free.bounds[i]
        if not low - slack <= free.theta[i] <= high + slack:
            value, low, high = natural([free.theta[i], low, high], free.lows[i])
            raise InputError(
                f"{free.names[i]} starts at {value:.6g}, outside its bounds ({low:.6g}, "
                f"{high:.6g}); move the start or widen the bounds"
            )
    return moving


def _starts(
    model: Described, moving: Indices, priors: Priors | None,
    n_restarts: int, rng: np.random.Generator, *, n_draws: int = 200,
) -> list[Array]:  # fmt: skip
    """The model's own hyperparameters, then random ones.

    ``n_draws``: of a prior without quantiles, which say where most of it is.
    """
    free = model.hyperparameters
    if not n_restarts:
        return [free.theta.copy()]
    windows = free.theta[:, None] + np.log(REACH) * np.array([-1.0, 1.0])
    for i in moving:
        if i < free.n_kernel and "length_scale" in free.names[i].rpartition("__")[2]:
            distance = _typical_distance(model.X, free.names[i])  # type: ignore[arg-type]
            windows[i] += np.log(distance) - free.theta[i]
    if priors is not None:
        for i, distribution in zip(priors.free, priors.distributions, strict=True):
            if isinstance(distribution, str):
                continue
            if hasattr(distribution, "ppf"):
                ends = distribution.ppf([0.05, 0.95])
            else:  # a class of the user's own
                draws = distribution.rvs(size=n_draws, random_state=rng)
                ends = np.quantile(draws, [0.05, 0.95])
            windows[i] = to_line(ends, free.lows[i])
    low, high = np.clip(windows, free.bounds[:, :1], free.bounds[:, 1:]).T
    moves = np.isin(np.arange(len(free)), moving)
    drawn = [np.where(moves, rng.uniform(low, high), free.theta) for _ in range(n_restarts)]
    return [free.theta.copy(), *drawn]


def _typical_distance(X: Array, name: str, *, most_rows: int = 1000) -> float:
    """Median distance between inputs; for one column of D, scaled to be comparable.

    ``most_rows``: rows of X, at most, for the typical distance.
    """
    rows = X[:: -(-len(X) // most_rows)]
    scale = 1.0
    if name.endswith("]"):
        column = int(name[name.rindex("[") + 1 : -1])
        rows, scale = rows[:, [column]], np.sqrt(X.shape[1])
    distances = pdist(rows)
    distances = distances[distances > 0.0]
    return scale * float(np.median(distances)) if distances.size else 1.0
