"""Every move leaves p_β invariant, for every reference, temperature and kind of likelihood.

One oracle (:mod:`moves.invariance`) for all: 20,000 exact draws stay exact draws, with a false
alarm rate of at most 1e-5 per case. Any move meets any likelihood, reference and temperature, in
pairs (:mod:`covering`).
"""

from __future__ import annotations

import pytest
from covering import covering, seldom
from moves.invariance import smallest_p_value
from problems import small_model

import evidence as ev
from evidence import moves
from evidence.approximations.reference import prior_reference

REFERENCES = {"ep": ev.fit_ep, "laplace": ev.fit_laplace, "prior": prior_reference}
NARROW = ["probit", "poisson(exposure=1.5)", "student_t(df=4, scale=0.5)"]
BETAS = [0.3, 1.0, 0.0]

#: move -> (with an approximation as reference, with the prior)
MOVES = {
    "mgrad": (moves.MGrad(4.0), moves.MGrad(0.5)),
    "agrad-z": (moves.AGradZ(2.0), moves.AGradZ(0.3)),
    "agrad-u": (moves.AGradU(2.0), moves.AGradU(0.3)),
    "pcn": (moves.PCN(1.0), moves.PCN(1.0)),
    "pcnl": (moves.pcnl(2.0), moves.pcnl(0.5)),
    "mala": (moves.Langevin(0.8), moves.Langevin(0.3)),
    "pmala": (moves.pmala(0.3), moves.pmala(0.3)),
    "elliptical": (moves.EllipticalSlice(), moves.EllipticalSlice()),
    "hmc": (moves.HMC(0.8, n_leapfrog=3), moves.HMC(0.5, n_leapfrog=3)),
    "splitting": (moves.SplittingHMC(0.8), moves.SplittingHMC(0.4)),
}


@pytest.mark.parametrize(
    ("move", "likelihood", "reference", "beta"), covering(MOVES, NARROW, REFERENCES, BETAS)
)
def test_invariance(move, likelihood, reference, beta):
    path = ev.Path(REFERENCES[reference](small_model(likelihood)))
    mover = MOVES[move][reference == "prior"]
    assert smallest_p_value(path, mover, beta) > 1e-5


MASSES = ["identity", "diagonal", "base", "prior", "expected"]
MASSIVE = [
    moves.MGrad(0.5),
    moves.AGradZ(0.5),
    moves.AGradU(0.5),
    moves.Langevin(0.2),
    moves.HMC(0.3, n_leapfrog=3, length_jitter=0.5),
]


@pytest.mark.parametrize(
    ("move", "mass", "reference"),
    covering(MASSIVE, MASSES, ["ep", "prior"]),
    ids=lambda value: getattr(value, "name", value),
)
def test_invariance_in_every_coordinate_system(move, mass, reference):
    path = ev.Path(REFERENCES[reference](small_model("poisson(exposure=1.5)")))
    move = type(move)(**{**vars(move), "coordinates": mass})
    assert smallest_p_value(path, move, 1.0) > 1e-5


#: these factorise a matrix per row
COSTLY = {
    "rmhmc": (moves.RMHMC(0.6, n_leapfrog=2), moves.RMHMC(0.5, n_leapfrog=2)),
    "rmhmc-midpoint": (
        moves.MidpointRMHMC(0.8, n_leapfrog=1),
        moves.MidpointRMHMC(0.6, n_leapfrog=1),
    ),
    "rmhmc-explicit": (
        moves.ExplicitRMHMC(0.2, n_leapfrog=3, omega=2.0, sigma=0.2),
        moves.ExplicitRMHMC(0.2, n_leapfrog=3, omega=2.0, sigma=0.2),
    ),
    "mmala": (moves.MMALA(1.0), moves.MMALA(1.0)),
    "simplified-mmala": (moves.SimplifiedMMALA(1.0), moves.SimplifiedMMALA(1.0)),
    "second-order": (moves.SecondOrder(2.0), moves.SecondOrder(1.0)),
}
#: at β = 0 a metric is constant, and the prior's posteriors are those that bend it most
BENT = [
    ("probit", "ep", 1.0),
    ("poisson(exposure=1.5)", "laplace", 1.0),
    ("student_t(df=4, scale=0.5)", "ep", 0.3),
    ("poisson(exposure=1.5)", "prior", 0.3),
    ("student_t(df=4, scale=0.5)", "prior", 1.0),
    ("probit", "laplace", 0.0),
]


@pytest.mark.parametrize(
    ("move", "likelihood", "reference", "beta"),
    # one of every move is always run, and two of the last one: at β = 0 nothing is bent
    seldom([(move, *case) for move in COSTLY for case in BENT], 0, 7, 14, 21, 28, 33, 34),
)
def test_invariance_of_moves_with_a_metric(move, likelihood, reference, beta):
    path = ev.Path(REFERENCES[reference](small_model(likelihood)))
    mover = COSTLY[move][reference == "prior"]
    m = 12_000 if move == "second-order" else 6000  # a determinant of its is seen least
    assert smallest_p_value(path, mover, beta, steps=2, m=m, rare=0.02) > 1e-5
