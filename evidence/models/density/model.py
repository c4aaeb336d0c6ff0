"""Any density: the model that is given by its logarithm."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...messages import InputError
from . import changes
from .changes import Bounded, Change, check_bounds
from .functions import Batched, Functions, MissingDerivative, ValueAndGradient
from .metrics import Fisher, Hessian, SoftAbs, check_metric
from .priors import GaussianPrior, Quantiles, check_prior

Array = NDArray[np.float64]

_PROBES = 8  # points at which a density is asked who it is


class DensityModel:
    r"""An unnormalised density on R^d, or a likelihood with a tractable prior.

    The evidence is :math:`Z = \int e^{\mathtt{logdensity}(\theta)} d\theta`, or with ``prior``
    :math:`Z = \int e^{\mathtt{logdensity}(\theta)} \pi(\theta)\, d\theta`.

    Parameters
    ----------
    logdensity : callable
        θ → log density up to a constant; with ``prior``, the log likelihood.
    dim : int
        Number of parameters d.
    grad : callable, optional
        θ → its gradient (d,). Without it only moves that need no gradient work.
    value_and_grad : callable, optional
        θ → both at once; takes the place of ``grad`` where work is shared.
    hessian : callable, optional
        θ → its Hessian (d, d), for Laplace's method and Riemannian moves.
    third : callable, optional
        (θ, W) → ∇⟨W, Hessian(θ)⟩ (d,) for a symmetric matrix W: all that Riemannian moves need
        of third derivatives.
    along : callable, optional
        (θ, w) → ∇(wᵀ Hessian(θ) w) (d,), where that is cheaper than ``third`` with W = wwᵀ.
    tensor : callable, optional
        θ → all third derivatives (d, d, d): instead of ``third``, or beside it, where calls cost
        more than numbers (few parameters, few chains).
    prior : GaussianPrior, distribution or sequence of distributions, optional
        A normalised prior that tempering can start from: Gaussian, or one continuous
        distribution of SciPy for each parameter.
    bounds : sequence of (low, high), optional
        Limits of each parameter, None where there is none. The change to unbounded coordinates
        and its Jacobian are taken care of. (Not with ``prior``: its distributions have theirs.)
    sampler : callable, optional
        (rng, size) → points (size, d) that roughly cover the posterior, such as draws from a
        prior that is part of ``logdensity``: the reference is fitted from there.
    metric : {"softabs", "hessian"}, SoftAbs or Fisher
        What Riemannian moves use.
    vectorized : bool
        Whether functions take a batch (M, d) and return (M,), (M, d), (M, d, d); much faster.
    names : sequence of str, optional
        The parameters' names.
    check : bool
        Compare every derivative given with finite differences, now.

    Attributes
    ----------
    n : int
        The dimension d.
    names : tuple of str
        The parameters' names.
    prior : GaussianPrior or None
        The Gaussian that the prior is in the model's coordinates.
    notes : tuple of str
        What a careful reader should know, in words.

    Notes
    -----
    Moves work in unbounded coordinates x: the parameters θ themselves, unless ``bounds`` or
    SciPy priors limit them; :meth:`constrain` and :meth:`unconstrain` go from one to the other.

    With JAX nothing but the density has to be written: :func:`evidence.from_jax`.

    Examples
    --------
    >>> import numpy as np
    >>> model = DensityModel(lambda x: -0.5 * x @ x, dim=2, grad=lambda x: -x)
    >>> model.log_prob(np.ones((1, 2))).tolist()
    [-1.0]
    >>> from evidence import log_evidence
    >>> result = log_evidence(model, random_seed=0, progressbar=False)  # log 2π = 1.838
    >>> bool(abs(result.logz - 1.838) < 0.2)
    True
    """

    def __init__(
        self,
        logdensity: Callable[..., Any],
        dim: int,
        *,
        grad: Callable[..., Any] | None = None,
        value_and_grad: Callable[..., Any] | None = None,
        hessian: Callable[..., Any] | None = None,
        third: Callable[..., Any] | None = None,
        along: Callable[..., Any] | None = None,
        tensor: Callable[..., Any] | None = None,
        prior: Any = None,
        bounds: Sequence[ArrayLike] | None = None,
        sampler: Callable[..., Any] | None = None,
        metric: str | SoftAbs | Hessian | Fisher = "softabs",
        vectorized: bool = False,
        names: Sequence[str] | None = None,
        check: bool = False,
    ) -> None:
        if not isinstance(dim, numbers.Integral) or dim < 1:
            raise InputError(f"dim must be a whole number, at least 1, got {dim!r}")
        if prior is not None and bounds is not None:
            raise InputError(
                "give bounds or prior, not both: the distributions of a prior have limits of "
                "their own (scipy.stats.uniform, scipy.stats.gamma, …)"
            )
        self.n: int = int(dim)
        self.functions = Functions(logdensity, grad, value_and_grad, hessian, third, along, tensor)
        for name, function in self.functions._asdict().items():
            if not (callable(function) or (function is None and name != "logdensity")):
                raise InputError(f"{name} must be a function, got {function!r}")
        for name in ("third", "along", "tensor"):
            if getattr(self.functions, name) is not None and hessian is None:
                raise InputError(f"{name}= needs hessian=, whose derivative it is")
        if sampler is not None and not callable(sampler):
            raise InputError(f"sampler must be a function (rng, size) → points, got {sampler!r}")
        self.vectorized = vectorized
        self.metric = check_metric(metric)
        self.sampler = sampler
        tractable = None if prior is None else check_prior(prior, self.n)
        if isinstance(prior, Mapping) and names is None:
            names = list(prior)
        self.names = _check_names(names, self.n)
        self.prior: GaussianPrior | None = None
        #: the change from these coordinates to parameters, or None where they are the same
        self.change: Change | None = None
        if isinstance(tractable, Quantiles):
            self.change, self.prior = tractable, GaussianPrior(np.zeros(self.n))
        elif tractable is not None:
            self.prior = tractable
        elif bounds is not None:
            limits = check_bounds(bounds, self.n)
            limited = np.isfinite(limits.low) | np.isfinite(limits.high)
            self.change = limits if limited.any() else None
        self.notes: tuple[str, ...] = ()
        self.cache: dict[str, Any] = {}
        self._wrap()
        self._probe()
        if check:
            self.check_derivatives()

    def _wrap(self) -> None:
        """Functions of batches from functions of whatever kind."""
        given, vectorized = self.functions, self.vectorized
        self._value = Batched("logdensity", given.logdensity, vectorized)  # type: ignore[arg-type]
        has_gradient = given.grad is not None or given.value_and_grad is not None
        self._both = ValueAndGradient(given, vectorized) if has_gradient else None

        def batched(name: str, function: Callable[..., Any] | None) -> Batched | None:
            return None if function is None else Batched(name, function, vectorized)

        self._hessian = batched("hessian", given.hessian)
        self._third = batched("third", given.third)
        self._along = batched("along", given.along)
        self._tensor = batched("tensor", given.tensor)
        self._fisher: Any = None
        if isinstance(self.metric, Fisher):
            self._fisher = self.metric
            self._matrix = batched("Fisher.matrix", self.metric.matrix)
            self._slope = batched("Fisher.slope", self.metric.slope)
            self._slope_along = batched("Fisher.along", self.metric.along)

    def __getstate__(self) -> dict[str, Any]:
        kept = {k: v for k, v in self.__dict__.items() if not k.startswith("_")}
        return {**kept, "cache": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._wrap()

    # -- coordinates ------------------------------------------------------------------------

    def constrain(self, x: ArrayLike) -> Array:
        """Parameters θ from the model's coordinates x, (…, d)."""
        x = np.asarray(x, dtype=float)
        if self.change is None:
            return x
        return self.change(x.reshape(-1, self.n)).reshape(x.shape)

    def unconstrain(self, theta: ArrayLike) -> Array:
        """Coordinates of parameters (…, d)."""
        theta = np.asarray(theta, dtype=float)
        if self.change is None:
            return theta
        x = self.change.inverse(theta.reshape(-1, self.n)).reshape(theta.shape)
        if np.isnan(x).any():
            bad = theta.reshape(-1, self.n)[np.isnan(x).reshape(-1, self.n).any(axis=1)][0]
            raise InputError(f"parameters {bad} are outside their bounds, or on them")
        return x

    def arguments(self, x: Array) -> Array:
        """What the functions are called with at coordinates x, (M, d)."""
        return x if self.change is None else self.change(x)

    # -- the density in these coordinates ---------------------------------------------------

    def log_prob(self, x: Array) -> Array:
        """log density of every row, Jacobian and prior included; -inf where it is not a number."""
        value = self._value(self.arguments(x))
        if self.prior is not None:
            value = value + self.prior.log_prob(x)
        elif self.change is not None:
            value = value + self.change.log_slope(x).total
        return _no_nan(value)

    def log_prob_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """log density (M,) and its gradient (M, d)."""
        if self._both is None:
            raise MissingDerivative(
                "this needs the density's gradient: pass grad= to DensityModel, write the "
                "density in JAX (ev.from_jax), or use a move without gradients "
                "(move='elliptical' or 'pcn')"
            )
        if self.change is None:
            value, slope = self._both(x)
        elif isinstance(self.change, Quantiles):
            theta, g1 = self.change.slopes(x)
            value, slope = self._both(theta)
            slope = g1 * slope
        else:
            d = self.change.derivatives(x)
            value, slope = self._both(d.g)
            slope = changes.gradient(d, slope)
        if self.prior is not None:
            value, slope = value + self.prior.log_prob(x), slope + self.prior.gradient(x)
        elif self.change is not None:
            log_slope = self.change.log_slope(x)
            value, slope = value + log_slope.total, slope + log_slope.first
        return _no_nan(value), slope

    @property
    def has_gradient(self) -> bool:
        """Whether gradients can be had."""
        return self._both is not None

    @property
    def has_hessian(self) -> bool:
        """Whether Hessians can be had."""
        return self._hessian is not None

    def hessian(self, x: Array) -> Array:
        """∇² log density, (M, d, d)."""
        H = self._need(self._hessian, "hessian")(self.arguments(x))
        if self.change is not None:
            d = self.change.derivatives(x)
            H = changes.hessian(d, self._parameter_gradient(d.g), H)
        if self.prior is not None:
            H = H - self.prior.precision
        elif self.change is not None:
            changes.diagonal(H)[...] += self.change.log_slope(x).second
        return H

    def hessian_slope(self, x: Array, W: Array) -> Array:
        """∇⟨W, ∇² log density⟩ for symmetric matrices W (M, d, d)."""
        third = self._need(self._third or self._contraction, "tensor= or third")
        if self.change is None:
            return third(x, W)
        d = self.change.derivatives(x)
        H = self._need(self._hessian, "hessian")(d.g)
        inner = third(d.g, changes.pull(d, W))
        out = changes.contraction(d, self._parameter_gradient(d.g), H, W, inner)
        if self.prior is None:
            out = out + np.einsum("mii->mi", W) * self.change.log_slope(x).third
        return out

    @property
    def _contraction(self) -> Callable[..., Array] | None:
        if self._tensor is None:
            return None
        tensor = self._tensor
        return lambda x, W: np.einsum("mijk,mij->mk", tensor(x), W)

    def hessian_along(self, x: Array, w: Array) -> Array:
        """∇(wᵀ ∇² log density w)."""
        if self.change is None and self._along is not None:
            return self._along(x, w)
        return self.hessian_slope(x, w[:, :, None] * w[:, None, :])

    # -- the metric -------------------------------------------------------------------------

    @property
    def has_metric(self) -> bool:
        """Whether all that Riemannian moves need was given."""
        third = self._third is not None or self._tensor is not None
        second = self._fisher is not None or (self._hessian is not None and third)
        return self.has_gradient and second

    @property
    def tensorial(self) -> bool:
        """Whether the metric is the user's own, and changes as a tensor does."""
        return self._fisher is not None

    def curvature(self, x: Array) -> Array:
        """What the metric is made from: the negative Hessian, or the user's own matrix."""
        if self._fisher is None:
            return -self.hessian(x)
        if self.change is None:
            F = self._matrix(x)  # type: ignore[misc]
        else:
            d = self.change.derivatives(x)
            F = changes.tensor(d, self._matrix(d.g))  # type: ignore[misc]
        return F if self.prior is None else F + self.prior.precision

    def curvature_slope(self, x: Array, W: Array) -> Array:
        """∇⟨W, curvature⟩."""
        if self._fisher is None:
            return -self.hessian_slope(x, W)
        if self.change is None:
            return self._slope(x, W)  # type: ignore[misc]
        d = self.change.derivatives(x)
        inner = self._slope(d.g, changes.pull(d, W))  # type: ignore[misc]
        return changes.tensor_contraction(d, self._matrix(d.g), W, inner)  # type: ignore[misc]

    def curvature_along(self, x: Array, w: Array) -> Array:
        """∇(wᵀ curvature w)."""
        if self._fisher is None:
            return -self.hessian_along(x, w)
        if self.change is None and self._slope_along is not None:
            return self._slope_along(x, w)
        return self.curvature_slope(x, w[:, :, None] * w[:, None, :])

    def curvature_tensor(self, x: Array) -> Array | None:
        """All derivatives of the curvature (M, d, d, d), where there is a function for them."""
        if self._tensor is None or self._fisher is not None or self.change is not None:
            return None
        return -self._tensor(x)

    def _parameter_gradient(self, theta: Array) -> Array:
        if self._both is None:
            raise MissingDerivative("a change of variables needs grad= too, not only hessian=")
        return self._both(theta)[1]

    def _need(self, function: Callable[..., Array] | None, name: str) -> Callable[..., Array]:
        if function is None:
            raise MissingDerivative(
                f"this needs {name}= of DensityModel (ev.from_jax derives it); moves that do "
                "without are 'mgrad', 'hmc', 'nuts' and 'splitting'"
            )
        return function

    # -- checks -----------------------------------------------------------------------------

    def check_derivatives(self, x: ArrayLike | None = None, tolerance: float = 1e-4) -> None:
        """Compare every derivative with finite differences; raise an error naming a wrong one.

        Parameters
        ----------
        x : array (M, d), optional
            Where, in parameters; by default at a few random points.
        tolerance : float
            Largest error allowed, relative to the derivative's norm.

        Examples
        --------
        >>> import numpy as np
        >>> wrong = DensityModel(lambda x: -np.sum(x**4), dim=2, grad=lambda x: -3.0 * x**3)
        >>> wrong.check_derivatives()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        evidence.InputError: grad is wrong: at [-0.535   1.1716] it is [ 0.4595 -4.8243], but ...
        """
        from .checking import check

        check(self, None if x is None else np.atleast_2d(np.asarray(x, float)), tolerance)

    def _probe(self) -> None:
        """Call the density once, for errors now rather than in the middle of a run."""
        value = self._value(self.arguments(self.probes()))
        if np.isposinf(value).any():
            raise InputError("logdensity is +inf somewhere: such a density has no evidence")

    def probes(self) -> Array:
        """A few fixed points, in the model's coordinates."""
        rng = np.random.default_rng(20121)
        points = rng.standard_normal((_PROBES, self.n))
        if self.prior is not None:
            points = self.prior.mean + points @ self.prior.chol.T
        return points

    # -- what every model offers ------------------------------------------------------------

    def bare(self) -> DensityModel:
        """The same model without what only fitting needs: light to send."""
        model = copy.copy(self)
        model.cache, model.sampler = {}, None
        return model

    def describe(self) -> dict[str, Any]:
        """What a result tells of its model, in plain words and numbers."""
        name = getattr(self.functions.logdensity, "__name__", "density").strip("<>")
        prior = "none"
        if self.prior is not None:
            prior = "independent" if self.change is not None else "Gaussian"
        return {"dim": self.n, "density": name, "prior": prior, "bounds": self._limits()}

    def _limits(self) -> str:
        return "yes" if isinstance(self.change, Bounded) else "none"

    def identity(self) -> tuple[NDArray[Any], ...]:
        """Arrays that tell this model from others: values, metric, the sampler's points."""
        x = self.probes()
        told = [np.array(self.n), self.constrain(x), self.log_prob(x)]
        if self._fisher is not None:
            told.append(self._matrix(self.arguments(x)))  # type: ignore[misc]
        else:
            told.append(np.array(getattr(self.metric, "alpha", 0.0)))
        if self.sampler is not None:
            told.append(np.asarray(self.sampler(np.random.default_rng(0), _PROBES), dtype=float))
        return tuple(told)

    def __repr__(self) -> str:
        told = self.describe()
        parts = [f"dim={self.n}"]
        parts += [f"{key}={told[key]}" for key in ("prior", "bounds") if told[key] != "none"]
        return f"DensityModel({told['density']}, {', '.join(parts)})"


def _no_nan(value: Array) -> Array:
    return np.where(np.isnan(value), -np.inf, value)


def _check_names(names: Sequence[str] | None, dim: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"x[{i}]" for i in range(dim))
    found = tuple(str(name) for name in names)
    if len(found) != dim or len(set(found)) != dim:
        raise InputError(f"names must hold {dim} different names, got {list(names)!r}")
    return found
