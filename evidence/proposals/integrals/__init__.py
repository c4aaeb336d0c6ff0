r"""One-dimensional integrals and draws, many at a time: the hot loop of guided draws.

A latent value v is drawn from

.. math:: r(v) \propto N(v; m, s^2) \prod_i \frac{p(y_i|\eta_i)}{t_i(\eta_i)},\qquad
          \eta_i = o_i + a_i v ,

and the integral of the right hand side is its weight; m is different for every draw, and so may be
the known part o of what a datum sees. There are one or several data (:mod:`.one`,
:mod:`.several`), or none.

Where the integrand is smooth, two draws from a Gaussian near it, mirror images of each other, are
weighed, and v is one of them: unbiased whatever the Gaussian. With one datum its mode and width
are functions of the mean alone, found at a few means and interpolated for all draws. Where the
integrand is far from a Gaussian the integral is a sum over a lattice with a random shift, and v
one of its nodes (:mod:`.lattice`): for a shift that is uniform both are unbiased whatever the
spacing, and for a smooth integrand the sum hardly depends on the shift. With one datum, draws
whose means are near each other share a lattice, which costs less than anything else
(:mod:`.shared`).

What is to come may have sent a message (:mod:`~evidence.proposals.foresight`), a further factor of
the integrand.

It knows no latent values, no order and no sites' origin: :mod:`~evidence.proposals.guide` and
:mod:`~evidence.proposals.steps` do.
"""

from .one import draw_with_one
from .records import Draws, Integrand, Workspace, data_of, workspace
from .several import draw_ahead, draw_alike, draw_with_several

__all__ = [
    "Draws", "Integrand", "Workspace", "data_of", "draw_ahead", "draw_alike", "draw_with_one",
    "draw_with_several", "workspace",
]  # fmt: skip
