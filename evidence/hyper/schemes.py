"""The schemes by name: how x moves given θ, and how θ moves."""

from __future__ import annotations

from typing import NamedTuple

from . import agrad, centred, elliptical, joint, pcnl, pseudo_marginal, whitened
from .states import Update


class Scheme(NamedTuple):
    """One iteration is ``latent``, if there is one, then ``theta``."""

    name: str
    latent: Update | None
    theta: Update
    delta_target: float | None  #: acceptance of ``latent`` that δ is tuned to


#: acceptance of θ's update that κ is tuned to
KAPPA_TARGET = 0.25

SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("agrad-z-joint", agrad.update, joint.update, 0.55),
        Scheme("agrad-z-gibbs", agrad.update, centred.update, 0.55),
        Scheme("pcnl-gibbs", pcnl.update, centred.update, 0.55),
        Scheme("elliptical-gibbs", elliptical.update, centred.update, None),
        Scheme("whitened", agrad.update, whitened.update, 0.55),
        Scheme("pseudo-marginal", None, pseudo_marginal.update, None),
    )
}
