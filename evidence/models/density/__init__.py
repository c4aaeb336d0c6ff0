r"""How to bring any density: a log density or a log likelihood with priors, as Python functions.

Ten counts with an unknown rate, :math:`y_n \sim \mathrm{Poisson}(\theta)`, and a gamma prior.
SciPy's distribution says where the rate lives, too; without ``prior=``, ``bounds=`` would:

>>> import numpy as np
>>> from scipy import stats
>>> from scipy.special import gammaln
>>> import evidence as ev
>>> y = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3])
>>> def loglik(theta):  # many points at once, (M, 1)
...     return np.sum(y * np.log(theta) - theta - gammaln(y + 1), axis=1)
>>> def gradient(theta):
...     return y.sum() / theta - y.size
>>> model = ev.DensityModel(
...     loglik, dim=1, grad=gradient, vectorized=True, check=True,
...     prior={"rate": stats.gamma(2.0)},
... )
>>> result = ev.log_evidence(model, random_seed=0, progressbar=False)

The evidence is known, a ratio of gamma functions:

>>> a = 2.0 + y.sum()
>>> truth = gammaln(a) - gammaln(2.0) - a * np.log(11.0) - gammaln(y + 1).sum()
>>> bool(abs(result.logz - truth) < 4 * result.logz_se)
True
>>> bool(abs(result.samples.mean() - a / 11.0) < 0.1)  # draws of the rate
True

The same prior as nested samplers take it, a map of the unit cube, and a coarse answer from a
few thousand evaluations, for likelihoods that are expensive:

>>> model = ev.DensityModel(
...     loglik, dim=1, vectorized=True, prior_transform=lambda u: stats.gamma.ppf(u, 2.0)
... )
>>> result = ev.log_evidence(model, effort="frugal", random_seed=0, progressbar=False)
>>> bool(abs(result.logz - truth) < 4 * result.logz_se)
True
>>> sum(result.evaluations.values()) < 3000
True

Without ``grad=`` everything works too, with moves that need none. ``hessian=`` and ``third=`` (or
``tensor=``) are for Laplace's method and Riemannian moves; :func:`evidence.from_jax` derives
what is needed from a function in ``jax.numpy``. Functions of one point (d,), without
``vectorized=True``, work too and are slower. :func:`evidence.from_pymc` and
:func:`evidence.from_stan` take programs.

=====================  ===============================================================
:mod:`.model`          :class:`~.model.DensityModel`, what users make
:mod:`.functions`      the user's functions, brought to one form: batches in, batches out
:mod:`.changes`        coordinatewise changes of variables with derivatives to third order
:mod:`.priors`         Gaussian priors, distributions, boxes, dependent priors, maps of the cube
:mod:`.autodiff`       derivatives by JAX
=====================  ===============================================================
"""
