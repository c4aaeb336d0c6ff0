"""The schemes by name: how x moves given θ, and how θ moves."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from . import agrad, elliptical, parametrisations, pcnl, pseudo_marginal
from .states import Update, update_by_blocks, update_x


class Scheme(NamedTuple):
    """One iteration is ``latent``, if there is one, then ``theta``."""

    name: str
    latent: Update | None
    theta: Update
    delta_target: float | None = None  #: acceptance of ``latent`` that δ is tuned to


#: acceptance of θ's update that κ is tuned to
KAPPA_TARGET = 0.25

_AGRAD, _PCNL = partial(update_x, agrad.propose), partial(update_x, pcnl.propose)
_JOINT = partial(update_by_blocks, agrad.propose_jointly)
_CENTRED = partial(update_by_blocks, parametrisations.propose_centred)
_WHITENED = partial(update_by_blocks, parametrisations.propose_whitened)

SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("agrad-z-joint", _AGRAD, _JOINT, 0.55),
        Scheme("agrad-z-gibbs", _AGRAD, _CENTRED, 0.55),
        Scheme("pcnl-gibbs", _PCNL, _CENTRED, 0.55),
        Scheme("elliptical-gibbs", elliptical.update, _CENTRED),
        Scheme("whitened", _AGRAD, _WHITENED, 0.55),
        Scheme("pseudo-marginal", None, pseudo_marginal.update),
    )
}
