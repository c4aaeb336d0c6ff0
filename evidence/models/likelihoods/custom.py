r"""How to add a likelihood: one function with three derivatives.

Write log p(y|x) and its first three derivatives in x as one scalar function. Waiting times with
rate :math:`e^{-x}`, :math:`p(y|x) = e^{-x} \exp(-y\,e^{-x})`, and a model of a single one:

>>> import math
>>> import numpy as np
>>> import evidence as ev
>>> def waiting(x, y):
...     r = y * math.exp(-x)
...     return -x - r, r - 1.0, -r, r
>>> def positive(y):
...     if not (y > 0).all():
...         raise InputError("y: waiting times must be positive")
...     return y
>>> exponential = ev.likelihoods.from_function(
...     waiting, name="exponential", check=positive, location=np.log, log_concave=True,
...     simulate=lambda x, rng: rng.exponential(np.exp(x)),
... )
>>> model = ev.GPModel(K=[[1.0]], y=[2.0], likelihood=exponential)
>>> result = ev.log_evidence(model, target_se=0.01, random_seed=0, progressbar=False)

The function is compiled (so: scalars and :mod:`math`, no arrays), and its derivatives are compared
with finite differences on the spot. Everything else (EP's moments, moves, predictions) follows
from it. Quadrature confirms the answer, as far as its own digits go:

>>> from scipy import integrate, stats
>>> def joint(x):
...     return stats.norm.pdf(x) * math.exp(waiting(x, 2.0)[0])
>>> truth = math.log(integrate.quad(joint, -10, 10)[0])
>>> bool(abs(result.logz - truth) < 4 * result.logz_se + 1e-8)
True

Parameters, predictive moments and likelihoods that are not log-concave: :func:`from_function`. To
send such a likelihood to other processes, define its functions in a module that they can import.

One that belongs into the package is a file beside this one: a frozen dataclass derived from
:class:`.Likelihood` around a kernel that is compiled once and cached on disk
(``logit.py``, or ``times.py`` with a function like the one above), its name and its class in
``__init__.py``;
``tests/models/likelihoods/cases.py`` then puts it through the tests of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from numba import carray
from numba.core.errors import NumbaError
from numba.np.unsafe.ndarray import to_fixed_tuple
from numpy.typing import ArrayLike

from ...execution.arguments import array, check_flag, check_function, plain, shown
from ...messages import InputError
from ...numerics.jit import KERNEL
from .base import Array, Likelihood, Observations, Rows
from .checks import align, check_parameter, check_reals, stack
from .differences import check_derivatives as compare_derivatives

if TYPE_CHECKING:
    from .functions import FunctionOfSeveral


def from_function(
    function: Callable[..., Any],
    *,
    name: str = "custom",
    params: Mapping[str, ArrayLike] | None = None,
    predictors: Sequence[str] | None = None,
    check: Callable[[Array], Any] | None = None,
    location: Callable[..., Any] | None = None,
    simulate: Callable[..., Any] | None = None,
    conditional_moments: Callable[..., Any] | None = None,
    fisher: Callable[..., Any] | None = None,
    log_concave: bool = False,
    check_derivatives: bool = True,
    example_y: ArrayLike | None = None,
) -> CustomLikelihood | FunctionOfSeveral:
    """Make a likelihood from a scalar function ``f(x, y, *params) -> (l, l1, l2, l3)``.

    Or, where a datum sees several ``predictors``, from ``f(eta, y, *params) -> l``.

    Parameters
    ----------
    function : callable
        Plain Python that Numba can compile (use :mod:`math`), or already compiled by it.
        Returns log p(y|x) and its first three derivatives in ``x``; of several predictors, which
        come as a tuple, log p alone: differences give the rest.
    name : str
        What the likelihood is called in summaries.
    params : mapping
        Parameters in the order in which the functions take them; each finite, a number or
        an array with one value per datum.
    predictors : sequence of str, optional
        Names of what one datum sees, two or more: for ``ev.PredictorsModel``, whose kernels are
        called so, for formulas, which explain the first one, and the others in ``predictors=``,
        and for ``ev.SparseModel(A=[…])``. The other functions then take ``eta`` of shape
        (P, …, N) in place of ``x``.
    check : callable, optional
        ``check(y)`` returns valid observations as floats or raises ``ValueError``. Default:
        any finite real numbers.
    location : callable, optional
        ``location(y, *params)``: a latent value near which p(y|·) is largest, where quadrature
        looks for the integrand; of a p(y|·) with several maxima a row for each, shape (K, N).
        Default: ``y`` itself, or 0 when ``check`` is given.
    simulate : callable, optional
        ``simulate(x, rng, *params)`` draws ``y``; ``x`` is (..., N).
    conditional_moments : callable, optional
        ``conditional_moments(x, *params)`` returns E[y|x] and var[y|x]; ``x`` is (..., N).
    fisher : callable, optional
        ``fisher(y, *params)``: a positive stand-in for -l2, for likelihoods that are not
        log-concave.
    log_concave : bool
        Promise that ``l2 <= 0`` everywhere.
    check_derivatives : bool
        Compare l1, l2, l3 with finite differences now.
    example_y : array, optional
        Observations at which they are compared; by default a few values that pass ``check``.

    Returns
    -------
    CustomLikelihood or FunctionOfSeveral
        For ``ev.GPModel(..., likelihood=…)``, or for models of several predictors.

    Examples
    --------
    With a parameter, Gaussian noise written anew (:mod:`evidence.models.likelihoods.custom` has a
    whole story):

    >>> import math
    >>> def normal(x, y, s):
    ...     z = (y - x) / s
    ...     return -0.5 * z * z - math.log(s) - 0.9189385332046727, z / s, -1 / s**2, 0.0
    >>> likelihood = from_function(normal, name="normal", params={"s": 0.5}, log_concave=True)
    >>> likelihood, likelihood.log_prob([0.0, 1.0], [0.0, 0.0]).round(6).tolist()
    (normal(s=0.5), [-0.225791, -2.225791])

    Its noise by a predictor of its own:

    >>> import evidence as ev
    >>> def noisy(eta, y):
    ...     mu, log_s = eta
    ...     return -0.5 * ((y - mu) * math.exp(-log_s)) ** 2 - log_s - 0.9189385332046727
    >>> two = from_function(noisy, name="noisy", predictors=["mu", "log_s"])
    >>> x = np.linspace(0.0, 1.0, 5)
    >>> ev.PredictorsModel(x, x**2, {"mu": "RBF(0.3)", "log_s": "RBF(1.0)"}, likelihood=two)
    PredictorsModel(N=5, mu ~ RBF(length_scale=0.3), log_s ~ RBF(length_scale=1), noisy)
    """
    hooks = Hooks(check, location, simulate, conditional_moments, fisher)
    check_function("function", function, optional=False)
    for argument, hook in hooks._asdict().items():
        check_function(argument, hook)
    check_flag("log_concave", log_concave)
    check_flag("check_derivatives", check_derivatives)
    if not isinstance(name, str):
        raise InputError(f"name must be text, got {shown(name)}")
    if name == "probit":
        raise InputError(
            "name: 'probit' is the name of the likelihood that some methods are made for; "
            "choose another"
        )
    if not isinstance(params, Mapping | None):
        raise InputError(f"params must map names to numbers, got {shown(params)}")
    given = (params or {}).items()
    values = tuple((key, check_parameter(key, value, -np.inf)) for key, value in given)
    if example_y is not None and check is None:
        example_y = array("example_y", example_y, (), ("n",))
    likelihood = CustomLikelihood(function, name, values, hooks, log_concave)
    if predictors is not None:
        from .functions import of_several

        return of_several(likelihood, predictors, check_derivatives, example_y)
    if check_derivatives:
        compare_derivatives(likelihood, example_y)
    return likelihood


def compiled(function: Callable[..., Any]) -> Any:
    """``function``, compiled by whoever gave it or here, when it is first called."""
    return function if hasattr(function, "py_func") else numba.njit(error_model="numpy")(function)


@cache
def _compile(function: Callable[..., Any], n_params: int) -> Any:
    """The kernel around ``function``. Not cached on disk: Numba cannot see ``function`` change."""
    scalar = compiled(function)

    def kernel(x_, theta_, n, stride, step, order, out_):
        x, out = carray(x_, n), carray(out_, (4, n))
        theta = carray(theta_, (1 + n_params) * stride)
        for i in range(n):
            row = theta[stride + i * step :: stride]
            y = theta[i * step]
            f, f1, f2, f3 = scalar(x[i], y, *to_fixed_tuple(row, n_params))
            out[0, i], out[1, i], out[2, i], out[3, i] = f, f1, f2, f3

    try:
        return numba.cfunc(KERNEL, error_model="numpy")(kernel)
    except NumbaError as error:
        raise InputError(
            f"function: Numba cannot compile f(x, y{', parameter' * n_params}) -> (l, l1, l2, l3);"
            " use scalars and the math module, and return four floats"
        ) from error


class Hooks(NamedTuple):
    """What users may say of a likelihood beside its density."""

    check: Callable[[Array], Any] | None
    location: Callable[..., Any] | None
    simulate: Callable[..., Any] | None
    conditional_moments: Callable[..., Any] | None
    fisher: Callable[..., Any] | None


@dataclass(frozen=True, repr=False)
class CustomLikelihood(Likelihood):
    """A likelihood around a user's function; made by :func:`from_function`."""

    function: Callable[..., Any]
    name: str  # type: ignore[misc]
    params: tuple[tuple[str, float | tuple[float, ...]], ...]
    hooks: Hooks
    log_concave: bool  # type: ignore[misc]

    def __repr__(self) -> str:
        shown = (
            f"{key}={f'<{len(value)} values>' if isinstance(value, tuple) else f'{value:g}'}"
            for key, value in self.params
        )
        return f"{self.name}({', '.join(shown)})"

    @property
    def kernel(self) -> Any:
        return _compile(self.function, len(self.params))

    def _parameters(self, like: Array) -> tuple[Array, ...]:
        return tuple(align(key, value, like) for key, value in self.params)

    def at(self, rows: Rows) -> CustomLikelihood:
        cut = (
            (k, tuple(np.asarray(v)[rows]) if isinstance(v, tuple) else v) for k, v in self.params
        )
        return replace(self, params=tuple(cut))

    def _need(self, hook: str) -> Callable[..., Any]:
        function = getattr(self.hooks, hook)
        if function is None:
            raise NotImplementedError(
                f"{self.name} was made without {hook}; pass {hook}=… to from_function"
            )
        return function

    def check(self, y: ArrayLike) -> Observations:
        if self.hooks.check is None:
            return check_reals(self, y)
        return Observations(array("check(y)", self.hooks.check(plain("y", y))))

    def theta(self, y: Array) -> Array:
        return stack(y, y, *self._parameters(y))

    def location(self, y: Array) -> Array:
        return np.ascontiguousarray(self.locations(y)[0])

    def locations(self, y: Array) -> Array:
        if self.hooks.location is not None:
            value = np.asarray(self.hooks.location(y, *self._parameters(y)), dtype=float)
            several = value.shape[:1] if value.ndim == 2 else (1,)
            return np.array(np.broadcast_to(value, (*several, *y.shape)))
        return np.atleast_2d(y if self.hooks.check is None else np.zeros(y.shape))

    def ceiling(self, y: Array) -> float:
        return np.inf  # a location is only a hint

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        x, draw = np.asarray(x, float), self._need("simulate")
        return np.asarray(draw(x, rng, *self._parameters(x)), dtype=float)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        x, moments = np.asarray(x, float), self._need("conditional_moments")
        mean, var = moments(x, *self._parameters(x))
        return np.broadcast_to(mean, x.shape), np.broadcast_to(var, x.shape)

    def fisher(self, y: Array) -> Array:
        value = self._need("fisher")(y, *self._parameters(y))
        return np.array(np.broadcast_to(value, y.shape), dtype=float)
