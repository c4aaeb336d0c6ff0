"""Any density: the model that is given by its logarithm."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...execution.arguments import array, check_count, check_flag, check_function, check_memory
from ...execution.arguments import names as check_names
from ...messages import InputError
from ...numerics.arrays import Array
from ..identity import rounded
from ..notebooks import InNotebooks
from . import changes
from .changes import Bounded
from .functions import COARSE, Functions, MissingDerivative, batched, far_out, no_nan
from .metrics import Fisher, Hessian, SoftAbs, check_metric
from .priors import Dependent, GaussianPrior, Quantiles, Transform, check_prior, names_of, size_of
from .symmetry import Chart, chart_of, scanned_of
from .units import place

_PROBES = 8  # points at which a density is asked what it is
_PLACES = WeakKeyDictionary["DensityModel", tuple[Array, Array]]()  # found once: a model stays


class DensityModel(InNotebooks):
    r"""An unnormalised density on R^d, or a likelihood with a tractable prior.

    The evidence is :math:`Z = \int e^{\mathtt{logdensity}(\theta)} d\theta`, or with ``prior``
    :math:`Z = \int e^{\mathtt{logdensity}(\theta)} \pi(\theta)\, d\theta`.

    Parameters
    ----------
    logdensity : callable
        θ → log density up to a constant; with ``prior``, the log likelihood. It is -inf where the
        density is zero; NaN, and an error of arithmetic (a singular matrix, a zero divisor, an
        overflow) where it has worked elsewhere, are taken for that.
    dim : int
        Number of parameters d; not needed where ``prior`` or ``names`` tell it.
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
    prior : GaussianPrior, or one entry for each parameter, optional
        A normalised prior that tempering can start from: Gaussian (or SciPy's
        ``multivariate_normal``), or a sequence, or a dictionary by name, of continuous
        distributions of SciPy, old or new, objects with a quantile function ``ppf``, pairs
        (low, high) for uniform ones, and functions of parameters that come before, by their
        names, that make one of these: ``{"tau": halfnorm(), "x": lambda tau: norm(0.0, tau)}``.
    prior_transform : callable, optional
        The prior as a map of the unit cube (d,) to parameters (d,), as nested samplers take it;
        of rows (M, d) to rows where ``vectorized``.
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
    periodic : sequence of str, optional
        Names of angles, whose priors span one turn: both ends are one place.
    exchangeable : sequence of str or of tuples of str, optional
        The parameters of every label, where labels may be swapped without a change of the density:
        ``[("mu1", "sd1"), ("mu2", "sd2")]``, under a prior. Of n! modes alike one is looked for.
    scan : str, sequence of str, or mapping, optional
        Parameters along which the density has many narrow peaks, such as a period: values of each
        are looked at before anything else, as a periodogram does. Four thousand of them, or as
        many as a mapping {name: values} says: two for each width that a peak may have in the
        parameter's prior, eight evaluations for each value.
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

    prior: GaussianPrior | None = None
    #: the density itself, where a Gaussian stands in for its prior
    density: DensityModel | None = None
    #: of hyperparameters, as other models have
    priors: None = None
    #: that data see, and what else a density knows nothing of
    n_predictors: int = 0
    stepped: bool = False
    suspect: str = ""
    orthant: bool = False
    #: the change from these coordinates to parameters, or None where they are the same
    change: Any = None
    #: the same where no prior makes it
    limits: Bounded | None = None
    #: angles that close, and labels that may be swapped
    chart: Chart = Chart()
    #: coordinates that are scanned, and at how many values; at as many as is usual where it is 0
    scanned: tuple[tuple[int, int], ...] = ()

    n_draws: int | None = None
    """Of the posterior, where a look costs so little that they are worth more than usual."""
    smooth: bool = False
    """Whether climbs see peaks from afar, so that no draw of the prior has to fall on each."""
    guesses: Array | None = None
    """Rows of parameters, uphill of the best of which a search looks as well."""
    frugal: bool = False
    """Whether looks cost too much for as many as normal effort takes."""

    def __init__(
        self,
        logdensity: Callable[..., Any],
        dim: int | None = None,
        *,
        grad: Callable[..., Any] | None = None,
        value_and_grad: Callable[..., Any] | None = None,
        hessian: Callable[..., Any] | None = None,
        third: Callable[..., Any] | None = None,
        along: Callable[..., Any] | None = None,
        tensor: Callable[..., Any] | None = None,
        prior: object = None,
        prior_transform: Callable[..., Any] | None = None,
        bounds: Sequence[ArrayLike] | None = None,
        sampler: Callable[..., Any] | None = None,
        metric: str | SoftAbs | Hessian | Fisher = "softabs",
        vectorized: bool = False,
        names: Sequence[str] | None = None,
        periodic: Sequence[str] | None = None,
        exchangeable: Sequence[str | Sequence[str]] | None = None,
        scan: str | Sequence[str] | Mapping[str, int] | None = None,
        check: bool = False,
    ) -> None:
        if dim is None:
            told = names if isinstance(names, Sequence) else bounds
            dim = len(told) if isinstance(told, Sequence) else size_of(prior)
        check_count("dim", dim, 1, optional=False)
        assert dim is not None
        check_memory("dim", dim, dim, dim)
        self.n = int(dim)
        functions = logdensity, grad, value_and_grad, hessian, third, along, tensor
        self.functions = _checked(Functions(*functions))
        check_function("sampler", sampler)
        check_flag("vectorized", vectorized)
        check_flag("check", check)
        self.vectorized: bool = vectorized
        self.metric: SoftAbs | Hessian | Fisher = check_metric(metric)
        self.sampler: Callable[..., Any] | None = sampler
        self.names: tuple[str, ...] = self._take_prior(prior, prior_transform, bounds, names)
        self.notes: tuple[str, ...] = ()
        self._wrap()
        self._probe()
        self.chart = chart_of(self, periodic, exchangeable)
        self.scanned = scanned_of(self, scan)
        if check:
            self.check_derivatives()

    def _take_prior(
        self, prior: object, prior_transform: Callable[..., Any] | None,
        bounds: Sequence[ArrayLike] | None, names: Sequence[str] | None,
    ) -> tuple[str, ...]:  # fmt: skip
        """Keep the prior, or the limits, and the change of coordinates they ask for; names of
        parameters, which a prior may have."""
        if prior is not None and prior_transform is not None:
            raise InputError("give prior or prior_transform, not both: each is all of the prior")
        if not (prior is None and prior_transform is None) and bounds is not None:
            raise InputError(
                "give bounds or prior, not both: the distributions of a prior have limits of "
                "their own (scipy.stats.uniform, scipy.stats.gamma, …)"
            )
        check_function("prior_transform", prior_transform)
        names = None if names is None else check_names("names", names, self.n)
        tractable: GaussianPrior | Quantiles | Transform | None = None
        if prior is not None:
            tractable = check_prior(prior, self.n, names)
            names = names_of(prior) if names is None else names
        elif prior_transform is not None:
            tractable = Transform(prior_transform, self.n, self.vectorized)
            tractable.check()
        if isinstance(tractable, Quantiles | Transform):
            self.change, self.prior = tractable, GaussianPrior(np.zeros(self.n))
        elif tractable is not None:
            self.prior = tractable
        elif bounds is not None:
            limits = Bounded(bounds, self.n)
            if np.isfinite([limits.low, limits.high]).any():
                self.change = self.limits = limits
        names = [f"x[{i}]" for i in range(self.n)] if names is None else names
        return check_names("names", names, self.n)

    def _wrap(self) -> None:
        """Functions of batches from functions of whatever kind."""
        #: the functions given, by name: batches in, batches out
        names = self.names[: self.n]
        self.calls, self.both = batched(self.functions, self.metric, self.vectorized, names)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("calls", "both")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._wrap()

    # -- coordinates ------------------------------------------------------------------------

    def constrain(self, x: ArrayLike) -> Array:
        """Parameters θ from the model's coordinates x, (…, d)."""
        x = array("x", x, finite=False)
        if x.shape[-1:] != (self.n,):
            raise InputError(f"coordinates x must have shape (…, {self.n}), got {x.shape}")
        return self.outward(x.reshape(-1, self.n)).reshape(*x.shape[:-1], len(self.names))

    def unconstrain(self, theta: ArrayLike) -> Array:
        """Coordinates of parameters (…, d)."""
        theta, k = array("parameters", theta, finite=False), len(self.names)
        if theta.shape[-1:] != (k,):
            raise InputError(
                f"parameters must have shape (…, {k}), in the order of model.names; got "
                f"{theta.shape}"
            )
        rows = theta.reshape(-1, k)
        x = self.inward(rows)
        bad = ~np.isfinite(x).all(axis=1)
        if bad.any():
            raise InputError(f"parameters {rows[bad][0]} are outside their bounds, or on them")
        return x.reshape(*theta.shape[:-1], self.n)

    def outward(self, x: Array) -> Array:
        """Parameters of rows of coordinates."""
        return self.arguments(x)

    def inward(self, theta: Array) -> Array:
        """Coordinates of rows of parameters, NaN where they are outside their bounds."""
        return theta if self.change is None else self.change.inverse(theta)

    def arguments(self, x: Array) -> Array:
        """What the functions are called with at coordinates x, (M, d)."""
        return x if self.change is None else self.change(x)

    def sampled(self, rng: np.random.Generator, size: int) -> Array:
        """Coordinates of the sampler's points, (size, d)."""
        points, wanted = self.sampler(rng, size), (size, len(self.names))  # type: ignore[misc]
        return self.unconstrain(array(f"sampler(rng, {size})", points, wanted))

    def from_prior(self, rng: np.random.Generator) -> Array:
        """Parameters of one draw of the prior."""
        assert self.prior is not None
        return self.constrain(self.prior.mean + self.prior.chol @ rng.standard_normal(self.n))

    # -- the density in these coordinates ---------------------------------------------------

    def log_prob(self, x: Array) -> Array:
        """log density of every row, Jacobian and prior included; -inf where it is not a number."""
        return no_nan(self.log_likelihood(x) + self.log_prior(x))

    def _rows(self, x: Array) -> Array:
        """x itself where it is rows of coordinates, as in all calls from inside."""
        if type(x) is np.ndarray and x.dtype == float and x.ndim == 2 and x.shape[1] == self.n:
            return x
        return array("x", x, ("M", self.n), finite=False)

    def log_prior(self, x: Array) -> Array:
        """log of the prior of every row in these coordinates, or of a Jacobian in its place."""
        x = self._rows(x)
        if self.prior is not None:
            return self.prior.log_prob(x)
        if self.limits is not None:
            return self.limits.log_slope(x).total
        return np.zeros(len(x))

    def log_likelihood(self, x: Array) -> Array:
        """What the user's function says of every row, without prior or Jacobian."""
        return no_nan(self.calls["logdensity"](self.arguments(self._rows(x))))

    def log_likelihood_at(self, theta: Array) -> Array:
        """The same of rows of parameters: a map of the unit cube leads to them, and not back."""
        if isinstance(self.change, Transform):
            return no_nan(self.calls["logdensity"](theta[:, : self.n]))
        return self.log_likelihood(self.inward(theta))  # NaN of one that is rounded to its wall

    def log_prob_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """log density (M,) and its gradient (M, d)."""
        if self.both is None:
            raise MissingDerivative(
                "this needs the density's gradient: pass grad= to DensityModel, write the "
                "density in JAX (ev.from_jax), or use a move without gradients "
                "(move='elliptical' or 'pcn')"
            )
        x = self._rows(x)
        if self.change is None:
            value, slope = self.both(x)
        elif isinstance(self.change, Quantiles):
            theta, g1 = self.change.slopes(x)
            value, slope = self.both(theta)
            slope = g1 * slope
        elif isinstance(self.change, Transform):
            value, slope = self.both(self.change(x))
            slope = self.change.pull(x, slope)
        else:
            d = self.change.derivatives(x)
            value, slope = self.both(d.g)
            slope = changes.gradient(d, slope)
        if self.prior is not None:
            value, slope = value + self.prior.log_prob(x), slope + self.prior.gradient(x)
        elif self.limits is not None:
            log_slope = self.limits.log_slope(x)
            value, slope = value + log_slope.total, slope + log_slope.first
        return no_nan(value), slope

    @property
    def has_gradient(self) -> bool:
        """Whether gradients can be had."""
        return self.both is not None

    @property
    def has_hessian(self) -> bool:
        """Whether Hessians can be had."""
        return "hessian" in self.calls and not isinstance(self.change, Transform)

    def hessian(self, x: Array) -> Array:
        """∇² log density, (M, d, d)."""
        H = self._need("hessian")(self.arguments(x))
        if self.change is not None:
            d = self.change.derivatives(x)
            H = changes.hessian(d, self._parameter_gradient(d.g), H)
        if self.prior is not None:
            H = H - self.prior.precision
        elif self.limits is not None:
            changes.diagonal(H)[...] += self.limits.log_slope(x).second
        return H

    def hessian_slope(self, x: Array, W: Array) -> Array:
        """∇⟨W, ∇² log density⟩ for symmetric matrices W (M, d, d)."""
        third = self.calls.get("third", self._contraction)
        if self.change is None:
            return third(x, W)
        d = self.change.derivatives(x)
        H = self._need("hessian")(d.g)
        inner = third(d.g, changes.pull(d, W))
        out = changes.contraction(d, self._parameter_gradient(d.g), H, W, inner)
        if self.limits is not None:
            out = out + np.einsum("mii->mi", W) * self.limits.log_slope(x).third
        return out

    def _contraction(self, x: Array, W: Array) -> Array:
        return np.einsum("mijk,mij->mk", self._need("tensor", "tensor= or third")(x), W)

    def hessian_along(self, x: Array, w: Array) -> Array:
        """∇(wᵀ ∇² log density w)."""
        if self.change is None and "along" in self.calls:
            return self.calls["along"](x, w)
        return self.hessian_slope(x, w[:, :, None] * w[:, None, :])

    # -- the metric -------------------------------------------------------------------------

    @property
    def has_metric(self) -> bool:
        """Whether all that Riemannian moves need was given."""
        if isinstance(self.change, Transform):
            return False
        third = "third" in self.calls or "tensor" in self.calls
        return self.has_gradient and (self.tensorial or (self.has_hessian and third))

    @property
    def tensorial(self) -> bool:
        """Whether the metric is the user's own, and changes as a tensor does."""
        return "Fisher.matrix" in self.calls

    def curvature(self, x: Array) -> Array:
        """What the metric is made from: the negative Hessian, or the user's own matrix."""
        if not self.tensorial:
            return -self.hessian(x)
        matrix = self.calls["Fisher.matrix"]
        if self.change is None:
            F = matrix(x)
        else:
            d = self.change.derivatives(x)
            F = changes.tensor(d, matrix(d.g))
        return F if self.prior is None else F + self.prior.precision

    def curvature_slope(self, x: Array, W: Array) -> Array:
        """∇⟨W, curvature⟩."""
        if not self.tensorial:
            return -self.hessian_slope(x, W)
        matrix, slope = self.calls["Fisher.matrix"], self.calls["Fisher.slope"]
        if self.change is None:
            return slope(x, W)
        d = self.change.derivatives(x)
        return changes.tensor_contraction(d, matrix(d.g), W, slope(d.g, changes.pull(d, W)))

    def curvature_along(self, x: Array, w: Array) -> Array:
        """∇(wᵀ curvature w)."""
        if not self.tensorial:
            return -self.hessian_along(x, w)
        if self.change is None and "Fisher.along" in self.calls:
            return self.calls["Fisher.along"](x, w)
        return self.curvature_slope(x, w[:, :, None] * w[:, None, :])

    def curvature_tensor(self, x: Array) -> Array | None:
        """All derivatives of the curvature (M, d, d, d), where there is a function for them."""
        if "tensor" not in self.calls or self.tensorial or self.change is not None:
            return None
        return -self.calls["tensor"](x)

    def _parameter_gradient(self, theta: Array) -> Array:
        if self.both is None:
            raise MissingDerivative("a change of variables needs grad= too, not only hessian=")
        return self.both(theta)[1]

    def _need(self, name: str, argument: str | None = None) -> Callable[..., Array]:
        if name not in self.calls:
            raise MissingDerivative(
                f"this needs {argument or name}= of DensityModel (ev.from_jax derives it); moves "
                "that do without are 'mgrad', 'hmc', 'nuts' and 'splitting'"
            )
        return self.calls[name]

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
        evidence.InputError: grad is wrong: at [-0.535 1.1716] it is [ 0.4595 -4.8243], but ...
        """
        from .checking import check

        if x is not None:
            k = len(self.names)
            x = self.arguments(self.unconstrain(np.atleast_2d(array("x", x, (k,), ("m", k)))))
        check(self, x, tolerance)

    def _probe(self) -> None:
        """Call the density once, for errors now rather than in the middle of a run."""
        value = self.calls["logdensity"](self.arguments(self.probes()))
        refuse_infinite(value)
        #: whether the density is above zero at one of a few points
        self.alive = bool(np.isfinite(value).any())

    def probes(self) -> Array:
        """A few fixed points, in the model's coordinates."""
        rng = np.random.default_rng(20121)
        points = rng.standard_normal((_PROBES, self.n))
        return points if self.prior is None else self.prior.placed(points)

    @property
    def units(self) -> Array:
        """How far each of the model's coordinates reaches: the prior's or the sampler's standard
        deviations; else where the density bends, at the first of its probes where it is finite."""
        if self.prior is not None:
            return np.sqrt(np.diag(self.prior.cov))
        return self._place[1]

    @property
    def origin(self) -> Array:
        """A point to look around, of a density that has neither prior nor sampler: 0, unless
        its units say that it lies far from there."""
        return self._place[0]

    @property
    def _place(self) -> tuple[Array, Array]:
        if self not in _PLACES:
            _PLACES[self] = self._found()
        return _PLACES[self]

    def _found(self, *, sampled: int = 256) -> tuple[Array, Array]:
        """``sampled``: draws of a sampler that tell how far coordinates reach."""
        zero, one = np.zeros(self.n), np.ones(self.n)
        if self.sampler is not None:
            sd = self.sampled(np.random.default_rng(0), sampled).std(axis=0)
            return zero, np.where(sd > 0.0, sd, 1.0)
        points = np.concatenate([zero[None], self.probes()])
        finite = points[np.isfinite(self.log_prob(points))]
        if finite.size:
            return place(self.log_prob, finite[0])
        from .checking import first_finite

        x = first_finite(self, np.random.default_rng(0))
        return (zero, one) if x is None else place(self.log_prob, x, odd=1.0)

    # -- what every model offers ------------------------------------------------------------

    def bare(self) -> DensityModel:
        """The same model without what only fitting needs: light to send."""
        model = copy.copy(self)
        model.sampler = None
        return model

    def describe(self) -> dict[str, Any]:
        """What a result tells of its model, in plain words and numbers."""
        name = getattr(self.functions.logdensity, "__name__", "density").strip("<>")
        prior = "none"
        if self.prior is not None:
            prior = "independent" if self.change is not None else "Gaussian"
        if isinstance(self.change, Transform):
            prior = "dependent" if isinstance(self.change, Dependent) else "transform"
        bounds = "none" if self.limits is None else "yes"
        return {"dim": self.n, "density": name, "prior": prior, "bounds": bounds}

    def identity(self) -> tuple[NDArray[Any], ...]:
        """What this density computes: see :mod:`evidence.models.identity`.

        Values at fixed draws of the prior, or around the origin, and at the sampler's; at a few
        of them all derivatives and the metric.
        """
        derived = 3  # of the probes, for all derivatives
        scales = {True: 0.3, False: 3.0}  # how far the other probes are, with and without a prior
        x = self.probes()
        centre = 0.0 if self.prior is None else self.prior.mean
        x = np.concatenate([x, centre + scales[self.prior is not None] * (x - centre)])
        if self.sampler is not None:
            x = np.concatenate([x, self.sampled(np.random.default_rng(0), _PROBES)])
        values = [rounded(self.constrain(x)), rounded(self.log_prob(x), 1.0)]
        theta, w = self.arguments(x[:derived]), x[:derived]
        square = w[:, :, None] * w[:, None, :]
        more = {"third": [square], "Fisher.slope": [square], "along": [w], "Fisher.along": [w]}
        if self.both is not None:
            values.append(rounded(self.both(theta)[1]))
        names = [name for name in self.calls if name not in ("logdensity", "grad")]
        values += [rounded(self.calls[name](theta, *more.get(name, ()))) for name in names]
        words = np.array([type(self.metric).__name__, str(self.has_gradient), *names])
        return words, rounded(getattr(self.metric, "alpha", 0.0)), *values

    def __repr__(self) -> str:
        told = self.describe()
        parts = [f"dim={self.n}"]
        parts += [f"{key}={told[key]}" for key in ("prior", "bounds") if told[key] != "none"]
        return f"DensityModel({told['density']}, {', '.join(parts)})"


def _checked(functions: Functions) -> Functions:
    """Functions that can be called, with a Hessian where there are derivatives of it."""
    for name, function in functions._asdict().items():
        check_function(name, function, optional=name != "logdensity")
    for name in ("third", "along", "tensor"):
        if getattr(functions, name) is not None and functions.hessian is None:
            raise InputError(f"{name}= needs hessian=, whose derivative it is")
    return functions


def refuse_infinite(value: Array) -> None:
    """An error where draws of a prior meet +inf."""
    if count := int(np.isposinf(value).sum()):
        what = f"logdensity is +inf at {count} of {value.size} points"
        raise InputError(f"{what}: such a density has no evidence")


def refuse_endless(
    model: DensityModel, points: Array, far: float = 1e40, raised: float = 600.0,
    least: float = -10.0, slowest: float = 0.05,
) -> None:  # fmt: skip
    """An error where a density without a prior falls no faster than 1/|x| along a coordinate.

    It is looked at ``far`` units away from the best of some points, and half as many orders, or
    ``raised`` and half of that where a change of variables has put zero or infinity there. A
    density that ends has log p + log |x| fall by more than ``least`` nats below log p at the
    point, or between the two places as a power ``slowest`` of |x| or faster; one that is lower
    than doubles tell apart at the nearer place has ended, whatever rounding makes of the other.
    """
    if model.prior is not None:
        return
    with np.errstate(all="ignore"):
        value = model.log_prob(points)
        limits = [] if model.limits is None else [model.limits.low, model.limits.high]
        changed = np.isfinite(np.reshape(limits, (-1, model.n))).any(axis=0)
        ends = [np.where(changed, part * raised, far**part * model.units) for part in (0.5, 1.0)]
        steps = np.concatenate([side * np.diag(end) for end in ends for side in (1.0, -1.0)])
        rows = far_out(model.log_prob, points[value.argmax()] + steps).reshape(2, 2, -1)
        near, high = rows + np.log(ends / model.units)[:, None]
        falls = slowest * np.log(ends[1] / ends[0])
        endless = (high - near > -falls) & (high - value.max() > least) & (near > -COARSE)
        if endless.any():
            i = int(endless.any(axis=0).argmax())
            which = model.names[i] if len(model.names) == model.n else f"coordinate {i}"
            raise InputError(
                f"logdensity has no finite integral: along {which} it falls no faster than "
                "1/|x|, and log Z is infinite; is a prior= missing, or a part of the density?"
            )
