"""Who is measured, with which settings: the best that a short search found for each.

"prior": latent values whitened by the prior; "ep": by EP's Gaussian, with EP's part of the
likelihood taken away, so that nobody lacks the reference that this package starts from. There
ever fewer temperatures are better, down to none, which is importance sampling: thresholds that
still let a rival's own moves matter are kept where the moves are what it is known for. Settings
under a problem's name hold for that problem alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

OWN = "own"  # this Python, not an environment of the rivals


class Rival(NamedTuple):
    """A row of the table."""

    name: str
    variant: str
    module: str
    venv: str
    settings: dict[str, Any]
    deterministic: bool = False
    likelihood: str = "probit"

    @property
    def label(self) -> str:
        return f"{self.name} {self.variant}" + (", EP" if self.base == "ep" else "")

    @property
    def base(self) -> str:
        return self.settings.get("base", "")

    def on(self, problem: str) -> dict[str, Any]:
        """Settings for one problem."""
        common = {k: v for k, v in self.settings.items() if not isinstance(v, dict)}
        return common | self.settings.get(problem, {})


def _both(rival: Rival, prior: dict[str, Any], ep: dict[str, Any]) -> list[Rival]:
    """One rival from the prior and from EP's Gaussian, each with settings of its own."""
    starts = {"prior": prior, "ep": ep}
    return [rival._replace(settings=rival.settings | {"base": b} | s) for b, s in starts.items()]


def _own(variant: str, **settings: Any) -> Rival:
    return Rival("evidence", variant, "evidence_own", OWN, settings)


def _rival(name: str, variant: str, module: str, venv: str = "main", **settings: Any) -> Rival:
    return Rival(name, variant, module, venv, settings)


ROSTER: list[Rival] = [
    _own("auto"),
    _own("auto, se 0.01", target_se=0.01),
    _own("smc", method="smc"),
    _own("importance", method="importance"),
    _own("orthant", method="orthant"),
    *_both(
        _rival("BlackJAX", "SMC, HMC", "blackjax_smc", kernel="hmc", double=False,
               target=0.8, start=0.3, ess=0.5),
        dict(particles=1000, steps=2, leapfrog=5),
        {"particles": 1000, "steps": 1, "leapfrog": 3, "usps-hard": {"steps": 2}},
    ),
    *_both(
        _rival("BlackJAX", "SMC, mGrad", "blackjax_smc", kernel="mgrad", double=False,
               target=0.55, start=1.0),
        dict(particles=1000, steps=10, ess=0.5),
        dict(particles=4000, steps=1, ess=0.3),
    ),
    *_both(
        _rival("BlackJAX", "SMC, elliptical slice", "blackjax_smc", kernel="elliptical",
               double=False),
        dict(particles=300, steps=10, ess=0.5),
        dict(particles=4000, steps=1, ess=0.3),
    ),
    *_both(
        _rival("PyMC", "sample_smc, MH", "pymc_smc", kernel="MH"),
        dict(draws=1000, threshold=0.5, correlation_threshold=0.001),
        dict(draws=4000, threshold=0.3, correlation_threshold=0.01),
    ),
    *_both(
        _rival("particles", "waste-free tempering", "particles_smc", "numpy1",
               move="random walk"),
        dict(particles=20, chain=1000, ess=0.5),
        dict(particles=1000, chain=10, ess=0.3),
    ),
    *_both(
        _rival("pocoMC", "t-pCN", "pocomc_pmc", precondition=False, n_effective=512,
               n_active=256, n_total=2048),
        dict(n_steps=20, n_max_steps=100),
        dict(n_steps=5, n_max_steps=20),
    ),
    *_both(
        _rival("dynesty", "random walk", "dynesty_nested", sample="rwalk", bound="none",
               dlogz=0.01),
        dict(nlive=100, walks=100),
        dict(nlive=100, walks=100),
    ),
    *_both(
        _rival("mici", "tempering, HMC", "mici_tempering", metric="constant", start=0.3,
               target=0.8),
        dict(particles=200, leapfrog=10, ess=0.5),
        dict(particles=2000, leapfrog=3, ess=0.25),
    ),
    *_both(
        _rival("mici", "tempering, RMHMC", "mici_tempering", metric="Riemannian", start=0.5,
               target=0.8),
        dict(particles=20, leapfrog=3, ess=0.5),
        dict(particles=50, leapfrog=2, ess=0.5),
    ),
    Rival("GPy", "EP", "gpy_ep", "main", {"epsilon": 1e-9}, deterministic=True),
    Rival("scikit-learn", "Laplace", "sklearn_laplace", OWN, {}, True, likelihood="logit"),
]  # fmt: skip
