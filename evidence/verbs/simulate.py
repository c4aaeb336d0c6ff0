"""Data simulated from a model, and the exact posterior draw that comes with them.

With x ~ N(m, K) and y ~ p(y|x), x is a draw from the posterior given y.
"""

from __future__ import annotations

import numpy as np

from ..execution.arguments import check_kind, seed_sequence
from ..execution.keywords import hinted
from ..models.gp import GPModel
from ..models.sparse import SparseModel
from ..results.simulated import Simulated, with_data


@hinted
def simulate(
    model: GPModel | SparseModel, random_seed: int | np.random.Generator | None = None
) -> Simulated:
    """Draw x ~ N(m, K) and y ~ p(y|x), and put y in the place of the model's data.

    The new model shares all but the data with the old one; nothing is factorised again.

    Parameters
    ----------
    model : GPModel or SparseModel
    random_seed : int or Generator, optional
        Same seed, same data.

    Returns
    -------
    Simulated
        ``simulated.model``, ``simulated.x``, ``simulated.y``.

    Examples
    --------
    >>> model = GPModel(K=np.eye(3), y=[0, 0, 0], likelihood="poisson")
    >>> simulated = simulate(model, random_seed=1)
    >>> simulated.y, simulated.model.K is model.K
    (array([2., 3., 2.]), True)
    """
    check_kind("model", model, GPModel, SparseModel)
    rng = np.random.default_rng(seed_sequence(random_seed))
    if isinstance(model, SparseModel):
        x = model.prior.draw_latent(rng.standard_normal((model.n, 1)))[:, 0]
        seen = model.predictors(x[None])[0]
    else:
        seen = x = model.prior.draw(rng)
    new = with_data(model, model.likelihood.simulate(seen, rng))
    return Simulated(new, x, new.y)
