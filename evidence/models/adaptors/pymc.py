"""Models written in PyMC."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ...execution.arguments import shown
from ...execution.lazy import needed
from ...messages import InputError
from ...numerics.arrays import Array
from ..density.autodiff import Compiled, from_jax
from .derived import Graph, Here, derive, rowwise
from .graphs import Graphs, graphs_of
from .program import ProgramModel, Report, check_words

_PYTHON = "FAST_COMPILE"  # what is called seldom is not worth a C compiler's time


def from_pymc(model: object, backend: str | None = None, **words: Any) -> ProgramModel:
    """A :class:`~evidence.models.density.model.DensityModel` from a PyMC model.

    Z is the model's marginal likelihood p(observed data): PyMC's distributions are normalised.
    What is not, is what you leave unnormalised yourself: ``pymc.Potential``, ``pymc.Flat``, and
    ``transform=ordered``, which keeps 1/k! of the prior's mass.

    Parameters
    ----------
    model : pymc.Model
        All free variables must be continuous. Data are taken as they are now.
    backend : {"jax", "pytensor"}, optional
        Who computes the density and its derivatives. By default JAX where it is installed and
        can translate the model, PyTensor otherwise; ``model.notes`` says which.
    **words
        ``sampler``, ``metric``, ``check``, as for DensityModel or :func:`evidence.from_jax`.

    Returns
    -------
    ProgramModel
        A density in PyMC's unconstrained value variables, raveled in the order of
        ``model.value_vars``. Draws are parameters on their natural scale, named ``"beta[0]"``,
        ``"sigma"``, … in the order of ``model.free_RVs``; ``"theta[Choate]"`` where its dimension
        has coordinates. The reference is fitted from draws of
        the prior.

    Notes
    -----
    Such a model stays in its process: run it on threads, the default.

    Examples
    --------
    >>> import pytest
    >>> pm = pytest.importorskip("pymc", exc_type=ImportError)
    >>> with pm.Model() as program:
    ...     sigma = pm.HalfNormal("sigma", 2.0)
    ...     seen = pm.Normal("seen", 0.0, sigma, observed=[0.5, -1.2, 0.3])
    >>> model = from_pymc(program)
    >>> model.names, model.constrain([[0.0]]).tolist()
    (('sigma',), [[1.0]])
    """
    pymc = needed("pymc", "ev.from_pymc needs PyMC", "pymc")
    if not isinstance(model, pymc.Model):
        raise InputError(
            f"model must be a pymc.Model (with pymc.Model() as model: …), got {shown(model)}"
        )
    check_words(words, "ev.from_pymc")
    if backend not in (None, "jax", "pytensor"):
        raise InputError(f"backend must be 'jax', 'pytensor' or None, got {shown(backend)}")
    graphs = graphs_of(model)
    metric = words.pop("metric", "softabs")
    notes = []
    found, reason = (None, "") if backend == "pytensor" else _by_jax(graphs, metric)
    if found is None and backend == "jax":
        raise InputError(f"backend='jax' does not work for this PyMC model: {reason}")
    if found is None:
        found, lost = _by_pytensor(graphs, metric)
        told = f" ({reason})" if reason else ""
        notes.append(f"PyMC model: density and derivatives by PyTensor{told}")
        notes += [f"PyMC model: {lost}"] if lost else []
    else:
        notes.append("PyMC model: density and derivatives by JAX")
    functions, report, metric = found
    if "sampler" not in words:
        words["sampler"], lost = _prior_draws(model.free_RVs, report)
        notes += [f"PyMC model: {lost}"] if lost else []
    name = f"PyMC model {model.name}".strip()
    return ProgramModel(functions, graphs.dim, report, name, notes, metric=metric, **words)


Found = tuple[dict[str, Any], Report, Any]


def _by_jax(graphs: Graphs, metric: object) -> tuple[Found | None, str]:
    """Functions by JAX, or None and the reason why not."""
    try:
        import jax
    except ImportError:
        return None, "JAX is not installed: pip install 'log-evidence[jax]'"
    try:
        with jax.enable_x64(True):
            logp = _jaxified(graphs.x, graphs.logp)
            outward = Compiled("logdensity", _jaxified(graphs.x, graphs.outward))
            inward = Compiled("logdensity", _jaxified(graphs.theta, graphs.inward))
            model = from_jax(logp, graphs.dim)
        origin = np.zeros((1, graphs.dim))
        model.log_prob_and_gradient(origin)
        inward(outward(origin))
    except Exception as error:  # JAX refuses in many ways; the reason is passed on
        line = str(error).strip().splitlines() or [""]
        return None, f"JAX cannot translate it: {type(error).__name__}: {line[0][:200]}"
    if callable(metric):  # written in JAX, as for ev.from_jax
        metric = from_jax(logp, graphs.dim, metric=metric).metric
    report = Report(outward, inward, graphs.names, graphs.numbered)
    return (model.functions._asdict(), report, metric), ""


def _jaxified(x: object, output: object) -> Here:
    before = os.environ.get("XLA_FLAGS")
    from pymc.sampling.jax import get_jaxified_graph

    # that import asks JAX for a hundred devices; nobody here has asked for them
    if before is None:
        os.environ.pop("XLA_FLAGS", None)
    else:
        os.environ["XLA_FLAGS"] = before
    function = get_jaxified_graph(inputs=[x], outputs=[output])
    return Here(lambda x: function(x)[0])


def _by_pytensor(graphs: Graphs, metric: object) -> tuple[Found, str]:
    functions, lost = derive(graphs.logp, graphs.x)
    outward = Graph([graphs.x], graphs.outward, _PYTHON)
    inward = Graph([graphs.theta], graphs.inward, _PYTHON)
    report = Report(rowwise(outward), rowwise(inward), graphs.names, graphs.numbered)
    return (functions, report, metric), lost


def _prior_draws(
    free: list[Any], report: Report, *, rounds: int = 10
) -> tuple[Callable[[np.random.Generator, int], Array] | None, str]:
    """Draws of the prior, or None and the reason why there are none."""
    from pymc.pytensorf import collect_default_updates, reseed_rngs

    draw = Graph([], free, _PYTHON)
    rngs = list(collect_default_updates(inputs=[], outputs=free))

    def rows(size: int) -> Array:
        drawn = [draw() for _ in range(size)]
        return np.array([np.concatenate([np.ravel(part) for part in parts]) for parts in drawn])

    def sampler(rng: np.random.Generator, size: int) -> Array:
        reseed_rngs(rngs, int(rng.integers(2**63)))
        kept = np.empty((0, len(report.names)))
        for _ in range(rounds):  # the odd draw lies on a limit, rounded
            theta = rows(size)
            with np.errstate(all="ignore"):
                usable = np.isfinite(report.inward(theta)).all(axis=1)
            kept = np.concatenate([kept, theta[usable]])
            if len(kept) >= size:
                return kept[:size]
        raise InputError(
            "draws of the PyMC model's prior lie on the limits of their parameters; pass "
            "sampler=(rng, size) → parameters"
        )

    try:
        rows(1)
    except NotImplementedError as error:
        return None, f"no draws from the prior to start from ({error}); sampler= would help"
    return Here(sampler), ""
