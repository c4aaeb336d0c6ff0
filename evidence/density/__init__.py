"""Models given by a log density, whatever it is: the model, its priors, its change of variables.

=====================  ===============================================================
:mod:`.model`          :class:`~.model.DensityModel`, what users make
:mod:`.functions`      the user's functions, brought to one form: batches in, batches out
:mod:`.changes`        coordinatewise changes of variables with derivatives to third order
:mod:`.priors`         Gaussian priors, independent priors from SciPy, priors with a sampler
:mod:`.autodiff`       derivatives by JAX
=====================  ===============================================================
"""
