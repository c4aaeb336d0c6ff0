r"""How hard a search for the mass of a density tries: what ``effort=`` of log_evidence names.

Effort is in counts of evaluations, never in seconds: the same seed gives the same answer. A
density that takes batches says that evaluations are cheap, and is looked at more often.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...models.density.model import DensityModel

#: walkers, parts of them that may end out of reach, accepted steps and steps at most
Walked = tuple[int, tuple[float, float], tuple[tuple[float, int], ...]]


#: variances relative to a Gaussian's own, and shares of its draws, of its copies
Copies = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Policy:
    """Thresholds of a search, and of what is made of it. Every count is of evaluations or points,
    every share of Z, every depth in nats."""

    screened: tuple[int, int] = 2**12, 2**19
    """Independent draws of the prior that are judged by what a proposal leaves unexplained at
    them, one by one or in batches. With n in all a region of prior mass 3/n is met with 95 %: a
    normal of a third of the width in 8 dimensions (2e-5 of the prior) was missed by 2¹⁵ and met by
    2¹⁸; a mode uphill of 1e-5 of it by 2¹⁷."""
    screened_in_smooth: int = 2**15
    """Those in batches where climbs see peaks from afar (over hyperparameters 250 models met all),
    and of what stands in for a prior: 63 bare densities were right, 37 in .6 of the time."""
    level: tuple[int, int, int] = (80, 200, 2000)
    """Draws of every level of halving and of every round: for each dimension, least, most."""
    live: tuple[int, int] = (12, 60)
    """Effective draws above a level, for each dimension; at least."""
    in_batches: int = 2
    """Times as many of both where the density takes batches."""
    halved: tuple[int, int] = 40_000, 120_000
    """Evaluations of halving, one by one or in batches; what is not finished by then forbids
    certainty. None at all where this is 0."""
    part: float = 0.5
    """Of the evaluations still allowed, what halving and a round may take at most."""
    scanned: int = 2**12
    """Values of a parameter that a scan looks at, where the model says no other number."""
    counts: float = 7.0
    """Depth below the best mode, or all of them, down to which a mode counts."""
    low_dimension: int = 6
    """In so many dimensions neighbours are found fast, and few points meet every mode."""
    climbs: int = 16
    """From peaks among what a proposal leaves unexplained, and as many from where the density
    exceeds it by most."""
    fruitless: tuple[int, int] = (16, 4)
    """Climbs in a row that find nothing new, and so many of them whenever points have come since
    (half of a planet's evaluations were climbs that failed again in every round)."""
    tests: int = 8
    """Climbs from fresh draws of the prior that test a proposal, or as many as it has modes."""
    nearly: float = 0.1
    """Part of them that may end in modes unknown, again and again, before one gives up."""
    surprises: int = 3
    """Times that such climbs may end out of reach before one gives up."""
    rounds: int = 20
    """Draws of a proposal that move it: two or three mostly, and fifteen for 43 modes."""
    late: int = 3
    """Every so many rounds uneven weights are a reason to climb from where they are large."""
    stalled: int = 6
    """Rounds in a row without a more even one: weights are as even as they become."""
    judged: int = 2**12
    """Draws that judge it at last: of 1,024 for a planet 40 % seemed worth it, of 16,384 two."""
    last: int = 2**16
    """The same where rounds were not enough: for a lattice of hundreds of modes 9,000 seemed to
    have no variance, and 65,536 told log Z to 0.01."""
    sound: float = 0.7
    """Their Pareto shape, with which a mean of so many is known."""
    walked: tuple[Walked, Walked, Walked] = (
        (48, (0.04, 0.04), ((2.0, 40), (10.0, 120), (50.0, 400))),
        (128, (0.02, 0.04), ((2.0, 40), (10.0, 120), (50.0, 400), (250.0, 1600))),
        (512, (0.015, 0.04), ((2.0, 40), (50.0, 400), (250.0, 1600))),
    )
    """Walks from weighted draws, one by one, so without a prior, and in batches; the part of them
    that may end out of reach, and that may if walks before were no worse off; accepted steps, and
    steps at most: more unless weights are even, in batches always, then the third where walks
    ended out of reach. (Of a valley's 3 to 9 % 120 steps saw .05 to 1.5 %, 1,600 half; in twenty
    dimensions .018 grew. A bare chain x' ~ N(x², .3) lacked 10 %, ± .005, by 48 walkers.)"""
    heavy: tuple[float, float] = (10.0, 1 / 4096)
    """A weight, relative to the mean, that draws would have to have shown, to say that a point is
    in their reach, and one over the number of draws that show it: n show one n/4096 times as
    large. The part of the posterior beyond that, times n/4096, is out of reach, if it is less than
    the part beyond the first: weights that fall so fast have a variance, which islands tell."""
    unexplained: float = 0.002
    """Part of the posterior that is not worth a Gaussian."""
    components: int = 60
    """Gaussians of a proposal at most."""
    copies: Copies = ((1.0, 0.7), (2.0, 0.22), (6.0, 0.08))
    """Variance relative to a Gaussian's own, and share of its draws, of each of its copies."""
    defence: float = 0.1
    """Share of the draws that come from the prior."""
    even: tuple[float, float] = (0.6, 0.2)
    """Pareto shape and effective share of weights that can be relied on,"""
    good: tuple[float, float] = (0.4, 0.1)
    """such that the fit is as good as any,"""
    bad: float = 0.5
    """shape from which on weights have no variance,"""
    very_even: float = 0.7
    """share from which on the shape is of no interest: a normal posterior's is 0.8 (100 modes'
    weights had shapes of 0.5 to 1.0 there),"""
    least: float = 0.02
    """and share that has to do where no round makes it larger."""
    reach: float = 5.0
    """Standard deviations of what stands in for a prior, relative to a fit's."""
    scouted: int = 32
    """Dimensions in which a search from the prior may help."""
    gaussians: int = 12
    """Of a mixture to anneal from, beside the prior,"""
    rough: float = 0.1
    """Error of log Z by a cloud that learnt from itself (.09 was missing, and ± .01 said, of 17
    dimensions whose rounds were never even)."""

    def scaled(self, model: DensityModel, count: int) -> int:
        """A count of draws that cost little where the density takes batches."""
        return count * (self.in_batches if model.vectorized else 1)

    def screen(self, model: DensityModel, few: bool = False, dims: int = 16) -> int:
        """Draws of the prior; ``few`` also in more than so many ``dims``, where sixteen times as
        many meet a mode of .85 of the width. (Without a prior, as looks at levels of what stands
        in for one, they found three normals 17 dimensions apart.)"""
        few |= model.smooth or (model.n > dims and model.density is None)
        many = self.screened[model.vectorized]
        return self.screened_in_smooth if few and model.vectorized else many

    def drawn(self, model: DensityModel) -> int:
        """Draws of a level or a round."""
        each, least, most = self.level
        return self.scaled(model, min(max(each * model.n, least), most))

    def alive(self, model: DensityModel) -> int:
        """Effective draws above a level."""
        each, least = self.live
        return self.scaled(model, max(each * model.n, least))


NORMAL = Policy()
THOROUGH = replace(
    NORMAL, scanned=4 * NORMAL.scanned, screened=(40_960, 2**21), screened_in_smooth=2**19,
    level=(320, 800, 8000), live=(48, 240), halved=(400_000, 1_200_000), climbs=4 * NORMAL.climbs,
)  # fmt: skip
FRUGAL = replace(
    NORMAL, scanned=2**8, screened=(2**10, 2**10), screened_in_smooth=2**10, level=(50, 128, 512),
    in_batches=1, halved=(0, 0), fruitless=(3, 3), tests=0, judged=0, last=0,
    walked=(NORMAL.walked[0],) * 3,
)  # fmt: skip
EFFORTS = {"frugal": FRUGAL, "normal": NORMAL, "thorough": THOROUGH}
