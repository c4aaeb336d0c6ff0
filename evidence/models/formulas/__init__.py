"""Models as people write them: a formula, a table of data, and priors for everything.

:mod:`.parse` cuts a formula into its parts, :mod:`.terms` and :mod:`.structured` make latent
values with their priors of them, :mod:`.families` sees to the response and to default priors, and
:mod:`.model` puts it all together as a sparse model.
"""

from __future__ import annotations

FAMILIES = (
    "gaussian", "student_t", "bernoulli", "binomial", "poisson", "negative_binomial", "gamma",
    "ordinal", "softmax", "geometric", "zero_inflated_poisson", "zero_inflated_negative_binomial",
    "hurdle_poisson", "hurdle_negative_binomial", "beta", "beta_binomial", "exponential",
    "lognormal", "weibull", "log_logistic", "asymmetric_laplace",
)  # fmt: skip
"""Names of families; a table that is light, for the command line."""
