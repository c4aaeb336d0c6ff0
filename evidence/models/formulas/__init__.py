"""Models as people write them: a formula, a table of data, and priors for everything.

:mod:`.parse` cuts a formula into its parts, :mod:`.terms` and :mod:`.structured` make latent
values with their priors of them, :mod:`.families` sees to the response and to default priors, and
:mod:`.model` puts it all together as a sparse model.
"""
