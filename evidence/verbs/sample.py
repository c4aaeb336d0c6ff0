"""One call from a model to posterior draws."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .. import moves
from ..approximations.mixture import Mixture
from ..drivers.chains import Chains, run_chains
from ..drivers.jumps import Jumps
from ..execution.arguments import ISLAND, check_memory, number
from ..execution.clock import interruptible, within
from ..execution.keywords import hinted
from ..execution.options import told
from ..execution.progress import compiling, progress_line
from ..messages import InputError, Message, messages
from ..numerics.threads import blas_for
from ..paths.families import family, make_path
from ..paths.gp import TemperedPath
from ..results.draws import Draws
from ..statistics.diagnostics import unmixed
from ._call import Call, check_chains, in_identity
from .reference import explored

if TYPE_CHECKING:
    from ..models.types import Model
    from ..moves.base import Move
    from ._options import Reference


@hinted
def sample(
    model: Model,
    *,
    move: str | Move | None = None,
    reference: str | Reference | None = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    thin: int = 1,
    beta: float = 1.0,
    max_seconds: float | None = None,
    random_seed: int | np.random.Generator | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
) -> Draws:
    """Draw latent values, or parameters, from the posterior by Markov chains.

    Parameters
    ----------
    model : GPModel, SoftmaxModel or DensityModel
    move : str or Move, optional
        The transition kernel, see :mod:`evidence.moves`. By default ``"mgrad"``; for a
        DensityModel ``"splitting"``, or ``"elliptical"`` where it has no gradient.
    reference : {"ep", "laplace", "prior", "mixture"}, GaussianReference or Mixture, optional
        The Gaussian that moves use as their base, and where chains start: independent draws
        from it. By default the best there is for the model, EP for a GPModel; ``"prior"``
        gives the samplers of the literature. Of a mixture, which is the best where a likelihood
        is not log-concave, the heaviest component is the base, and chains jump between all of
        them every few steps.
    draws, tune, chains : int
        Recorded draws per chain, steps before them (the step size adapts to the move's
        ``target`` acceptance, then stays fixed), and chains. Chains advance together as one
        batch, which costs little more than one.
    thin : int
        Steps between recorded draws.
    beta : float
        Inverse temperature: 1 is the posterior, 0 the reference.
    max_seconds : float, optional
        Be done by then, fits included, to within a fifth and a second (code that is compiled at
        a first call apart), with the draws there are. Tuning takes half of what is left for
        chains (all of it with ``checkpoint=``, which then goes on from there).
    random_seed : int or Generator, optional
        Same seed, same draws (unless ``max_seconds`` cuts them short).
    checkpoint : path, optional
        Keep what is drawn in this file, every few seconds, and go on from it when it exists: a
        run that ended early, or was killed, ends with the same draws, bit for bit.
    progressbar : bool
        Show one line in a terminal or notebook.

    Returns
    -------
    Draws
        ``draws.x`` (chains, draws, N), or (chains, draws, C·N) class by class for a
        SoftmaxModel, (chains, draws, d) parameters of a DensityModel; ``draws.ess``,
        ``draws.rhat``, ``draws.summary()``, ``draws.plot()``, ``draws.to_arviz()``, …

    Notes
    -----
    ^C ends the run early and returns what is recorded.

    ``draws.warnings`` says where chains disagree (rank-normalised split R-hat above 1.01,
    ``chains-disagree``) or draws are worth less than 100 independent ones per chain, in the bulk
    or in the tails (``low-ess``), of the tilt and of the coordinates that look worst.

    Examples
    --------
    >>> import numpy as np
    >>> from evidence import GPModel, sample
    >>> model = GPModel(K=4.0 * (0.5 * np.eye(3) + 0.5), y=[1, 1, -1])
    >>> draws = sample(model, draws=500, tune=200, random_seed=0, progressbar=False)
    >>> draws.x.shape
    (4, 500, 3)
    >>> draws.ess.min > 200 and draws.rhat < 1.05
    True
    """
    kind = family(model)
    if model.priors is not None:
        raise InputError(
            "model has priors of its hyperparameters: ev.sample_hyperparameters(model) draws them "
            "together with the latent values; model.at({...}) holds them, for ev.sample"
        )
    mover = moves.get(kind.move(model) if move is None else move)
    counts = check_chains(draws=draws, tune=tune, chains=chains, thin=thin)
    call = Call(
        max_seconds=max_seconds, random_seed=random_seed, checkpoint=checkpoint,
        progressbar=progressbar,
    )  # fmt: skip
    beta = number("beta", beta, least=0.0, most=1.0)
    check_memory("chains", chains, chains, ISLAND)
    check_memory("draws", draws, draws, chains, model.n)
    decides = {"move": repr(mover), **counts, "beta": beta}
    call.begin(model, lambda: {"reference": in_identity(reference), **decides})
    clock, seed, store = call.clock, call.seed, call.store
    steps = tune + thin * draws
    bar = progress_line(progressbar, total=steps, desc=mover.name, unit="step", ncols=88)
    with interruptible(clock), blas_for(model.n), compiling(progressbar), bar:
        base, doubts, jumps, path = _prepared(model, reference, call, mover)
        rng = np.random.default_rng(seed)
        run = run_chains(
            path, mover, rng, clock, bar.update, store, jumps, None, beta=beta, **counts
        )
    if not run.tilt.size:
        raise call.too_early("its first draw was recorded", tune)
    said = [*base.warnings, *doubts, *_warnings(run, mover, draws, thin), *store.warnings]
    settings = {
        "reference": base.name, **counts, "beta": beta, **call.told_seed,
        "interrupted": clock.interrupted.is_set(),
    }  # fmt: skip
    return told(
        Draws(
            x=path.parameters(run.x), logtilt=run.tilt, acceptance=run.acceptance,
            step_size=run.step_size, move=mover.name, seconds=run.seconds,
            tune_seconds=run.tune_seconds, gradients=run.gradients / run.tilt.size,
            failures=run.failures, warnings=messages(said), settings=settings,
            model=model.describe(), names=model.names,
        )
    )  # fmt: skip


def _prepared(
    model: Model, reference: str | Reference | None, call: Call, mover: Move
) -> tuple[Reference, list[Message], Jumps | None, TemperedPath]:
    """A reference, what there is to say of it, jumps between its modes if it has several, and the
    path that chains move on."""
    with call.in_time("chains could start"):
        base, doubts = explored(model, reference, call.seed, move=mover)
        jumps = Jumps(base) if isinstance(base, Mixture) else None
        path = make_path(base) if jumps is None else jumps.path
        with within(call.clock.deadline):
            mover.prepare(path)
    return base, doubts, jumps, path


def _warnings(
    run: Chains, move: Move, draws: int, thin: int, *, many: int = 100, least: float = 0.01
) -> Iterator[Message]:
    """What went wrong while sampling.

    ``many``: steps or draws of a chain from which on it is judged; ``least``: acceptance of a
    chain that moves.
    """
    chains, kept = run.tilt.shape
    if run.interrupted:
        text = f"stopped early: {kept} of {draws} draws per chain were recorded"
        yield Message("stopped-early", text)
    total = max(kept * chains * thin, 1)
    if run.failures > 0.01 * total:
        yield Message(
            "failed-proposals",
            f"{run.failures} of {total} proposals failed numerically and were rejected; "
            "a smaller step_size helps",
        )
    still = np.flatnonzero(run.acceptance < least) if kept * thin >= many else np.zeros(0)
    if still.size and move.target is not None:
        yield Message(
            "still-chain",
            f"chain {', '.join(map(str, still))} hardly moved (less than {least:.0%} of "
            f"{total // chains} proposals were accepted): the step size of the others does not "
            "suit the place where it started; try another reference or a smaller step_size",
        )
    else:
        yield from unmixed(_judged(run))
    accepted = float(run.acceptance.mean())
    if move.target is not None and kept and accepted < move.target - 0.25:
        yield Message(
            "low-acceptance",
            f"acceptance is {accepted:.2f}, far below the target {move.target:.2f}; "
            "tune longer, or start from another step_size",
        )


def _judged(run: Chains, *, worst: int = 16) -> NDArray[np.float64]:
    """The tilt and those coordinates whose halves of chains are furthest apart.

    Ranks of all would take longer than the draws. Where a chain is short of independent draws
    its halves differ, so those with the smallest effective sample size are among them.

    ``worst``: coordinates that are judged by ranks.
    """
    chains, kept, n = run.x.shape
    if n > worst and kept >= 4:
        halves = run.x[:, : kept // 2 * 2].reshape(2 * chains, kept // 2, n)
        within = halves.var(axis=1, ddof=1).mean(axis=0)
        between = halves.mean(axis=1).var(axis=0, ddof=1)
        ratio = np.divide(between, within, out=np.zeros(n), where=within > 0.0)
        x = run.x[:, :, np.argsort(ratio)[-worst:]]
    else:
        x = run.x
    return np.concatenate([run.tilt[:, :, None], x], axis=2)
