"""Families of random problems: each a function of a generator and of the dimension wanted.

Where a family has fewer coordinates of its own, those that are missing are independent of them and
normal (:func:`padded`). Truths are closed forms, finite sums and integrals over one number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats
from scipy.special import gammaln, log_ndtr, logsumexp, ndtr

from .problem import (
    LOG_2PI,
    Array,
    Prior,
    Problem,
    log_normal,
    log_sum,
    normal,
    on_grid,
    uniform,
)

Rng = np.random.Generator
Parts = list[tuple[Prior, Callable[..., Array], float]]
_BOX = 10.0  # half the width of a uniform prior that densities are far inside of


def product(parts: Parts, **words: Any) -> Problem:
    """Independent coordinates: a prior, a log likelihood and a log integral of each."""
    priors, terms, truths = zip(*parts, strict=True)

    def log_likelihood(xp: Any, t: Array) -> Array:
        return sum(term(xp, t[..., i]) for i, term in enumerate(terms))

    return Problem([*priors], log_likelihood, float(sum(truths)), **words)


def bell(rng: Rng, prior: Prior) -> tuple[Prior, Callable[[Any, Array], Array], float]:
    """A normal likelihood of one coordinate, somewhere inside of its prior."""
    sd = 10.0 ** rng.uniform(-1.0, 0.0)
    if prior.kind == "uniform":
        y, sd = rng.uniform(0.4, 0.6), sd / 20.0
        y, sd = (prior.a + (prior.b - prior.a) * y, (prior.b - prior.a) * sd)
        return prior, lambda xp, x: log_normal(x, y, sd), -math.log(prior.b - prior.a)
    y = rng.normal(prior.a, prior.b)
    truth = float(log_normal(y, prior.a, math.hypot(prior.b, sd)))
    return prior, lambda xp, x: log_normal(x, y, sd), truth


def padded(rng: Rng, core: Problem, d: int) -> Problem:
    """With coordinates that have nothing to do with the others, up to dimension d."""
    first = core.dim
    if d <= first:
        return core
    prior = core.prior[-1] if core.prior[-1].kind in ("uniform", "normal") else normal(0.0, 1.0)
    rest = product([bell(rng, prior) for _ in range(d - first)])

    def log_likelihood(xp: Any, t: Array) -> Array:
        return core.log_likelihood(xp, t[..., :first]) + rest.log_likelihood(xp, t[..., first:])

    return core._replace(
        prior=[*core.prior, *rest.prior], log_likelihood=log_likelihood,
        truth=core.truth + rest.truth,
    )  # fmt: skip


def spheres(centres: Array, sds: Array, shares: Array, prior: Prior) -> Problem:
    """Normal spheres, far inside of a uniform prior or under a normal one."""
    d = centres.shape[1]

    def log_likelihood(xp: Any, t: Array) -> Array:
        each = zip(centres, sds, shares, strict=True)
        return log_sum(
            xp, [math.log(p) + xp.sum(log_normal(t, m, s), axis=-1) for m, s, p in each]
        )

    if prior.kind == "uniform":
        truth = math.log(shares.sum()) - d * math.log(prior.b - prior.a)
    else:
        each = log_normal(centres, prior.a, np.hypot(sds, prior.b)[:, None]).sum(axis=1)
        truth = float(logsumexp(np.log(shares) + each))
    return Problem([prior] * d, log_likelihood, truth)


def wide(rng: Rng) -> Prior:
    """A prior that is ten times as wide as what is inside."""
    return [uniform(-_BOX, _BOX), normal(0.0, 5.0)][rng.integers(2)]


# -- several modes --------------------------------------------------------------------------------


def mixture(rng: Rng, d: int) -> Problem:
    """Two to five modes, alike or of unequal widths, or a needle (up to 3-D beside a bell)."""
    kind, k = rng.choice(["alike", "unequal", "needle"]), int(rng.integers(2, 6))
    centres = rng.uniform(-6.0, 6.0, (k, d))
    if kind == "alike":
        sds = np.full(k, rng.uniform(0.1, 0.5))
    elif kind == "unequal":
        sds = 10.0 ** rng.uniform(-1.3, -0.2, k)
    elif d <= 3:
        k, centres, sds = 2, centres[:2], np.array([0.6, 10.0 ** rng.uniform(-3.0, -1.5)])
    else:
        k, centres, sds = 1, centres[:1], np.array([10.0 ** rng.uniform(-4.0, -2.0)])
    return spheres(centres, sds, rng.dirichlet(np.full(k, 3.0)), wide(rng))


def corners(rng: Rng, d: int) -> Problem:
    """2^d modes that are products of two, with unequal shares."""
    prior, at, sd = wide(rng), rng.uniform(1.0, 3.0), rng.uniform(0.15, 0.5)
    share = rng.uniform(0.2, 0.8)

    def both(xp: Any, x: Array) -> Array:
        near, far = log_normal(x, -at, sd), log_normal(x, at, sd)
        return xp.logaddexp(math.log(share) + near, math.log(1.0 - share) + far)

    if prior.kind == "uniform":
        one = -math.log(prior.b - prior.a)
    else:
        one = float(log_normal(at, 0.0, math.hypot(prior.b, sd)))
    return product([(prior, both, one)] * d)


def wells(rng: Rng, d: int) -> Problem:
    """Double wells with a tilt in one to four coordinates under N(0, 4) priors."""
    parts: Parts = []
    prior = normal(0.0, 2.0)
    for _ in range(min(d, int(rng.integers(1, 5)))):
        depth, tilt, at = rng.uniform(1.0, 8.0), rng.normal(0.0, 0.5), rng.uniform(0.7, 2.0)

        def term(xp: Any, x: Array, depth: Any = depth, tilt: Any = tilt, at: Any = at) -> Array:
            return -depth * ((x / at) ** 2 - 1.0) ** 2 + tilt * x

        parts.append((prior, term, _alone(prior, term, 25.0)))
    return product(parts + [bell(rng, prior) for _ in range(d - len(parts))])


def _alone(prior: Prior, term: Callable[[Any, Array], Array], reach: float) -> float:
    low, high = np.clip(prior.support, -reach, reach)
    return on_grid(lambda x: term(np, x) + prior.log(x), float(low), float(high))


def waves(rng: Rng, d: int) -> Problem:
    """Cosines in up to three coordinates of a box, with a bowl (Rastrigin) or without."""
    prior, parts = uniform(-5.0, 5.0), []
    for _ in range(min(d, 3)):
        high, often, bowl = rng.uniform(1.0, 8.0), rng.uniform(0.2, 1.0), rng.choice([0.0, 0.3])

        def term(xp: Any, x: Array, high: Any = high, often: Any = often, bowl: Any = bowl) -> Any:
            return high * xp.cos(2.0 * math.pi * often * x) - bowl * x * x

        parts.append((prior, term, _alone(prior, term, 5.0)))
    return product(parts + [bell(rng, prior) for _ in range(d - len(parts))])


def angles(rng: Rng, d: int) -> Problem:
    """Von Mises products; up to three angles are known but for a half or a third of a turn."""
    prior, parts = uniform(-math.pi, math.pi), []
    for i in range(d):
        kappa, at = 10.0 ** rng.uniform(0.0, 2.0), rng.uniform(-math.pi, math.pi)
        fold = int(rng.integers(1, 4)) if i < 3 else 1

        def term(xp: Any, x: Array, kappa: Any = kappa, at: Any = at, fold: Any = fold) -> Array:
            return kappa * xp.cos(fold * (x - at))

        parts.append((prior, term, float(np.log(special.i0e(kappa)) + kappa)))
    return product(parts)


def labels(rng: Rng, d: int) -> Problem:
    """A mixture of two or three normals with unknown means: a sum over who belongs where."""
    k = int(min(max(d, 2), rng.integers(2, 4)))
    n, spread, sd = {2: 10, 3: 6}[k], rng.uniform(2.0, 5.0), rng.uniform(0.4, 1.0)
    y = rng.normal(0.0, spread, k)[rng.integers(k, size=n)] + sd * rng.standard_normal(n)
    every = np.array(list(itertools.product(range(k), repeat=n)))
    total = -n * math.log(k) * np.ones(len(every))
    for j in range(k):  # log N(y_j; 0, sd² I + spread² 11ᵀ) by the determinant of rank one
        mine = (every == j).astype(float)
        m, line, square = mine.sum(axis=1), mine @ y, mine @ y**2
        ratio = spread**2 / sd**2
        logdet = 2.0 * m * math.log(sd) + np.log1p(m * ratio)
        total += -0.5 * (square - ratio * line**2 / (1.0 + m * ratio)) / sd**2
        total += -0.5 * (logdet + m * LOG_2PI)

    def log_likelihood(xp: Any, t: Array) -> Array:
        each = [log_normal(y, t[..., j : j + 1], sd) - math.log(k) for j in range(k)]
        return xp.sum(log_sum(xp, each), axis=-1)

    core = Problem([normal(0.0, spread)] * k, log_likelihood, float(logsumexp(total)))
    return padded(rng, core, d)


# -- one curved, narrow or heavy-tailed mode ------------------------------------------------------


def warped(rng: Rng, d: int) -> Problem:
    """A banana, a cubic or an exponential: all x_i near a function of x_1."""
    kind, bend = rng.choice(["banana", "cubic", "exp"]), 10.0 ** rng.uniform(-1.0, 0.3)
    sd, y = 10.0 ** rng.uniform(-1.5, 0.0, max(d - 1, 1)), rng.normal()
    others, prior = min(max(d - 1, 1), 3), normal(0.0, 2.0)

    def curve(xp: Any, x: Array) -> Array:
        if kind == "exp":
            return xp.exp(bend * x)
        return bend * (x * x - 1.0 if kind == "banana" else x**3 / 3.0 - x)

    def log_likelihood(xp: Any, t: Array) -> Array:
        away = [log_normal(t[..., i + 1], curve(xp, t[..., 0]), sd[i]) for i in range(others)]
        return sum(away) + log_normal(t[..., 0], y, 1.0)

    def given(x: Array) -> Array:
        rest = [log_normal(curve(np, x), 0.0, math.hypot(2.0, s)) for s in sd[:others]]
        return sum(rest) + log_normal(x, y, 1.0) + prior.log(x)

    core = Problem([prior] * (others + 1), log_likelihood, on_grid(given, -20.0, 20.0))
    return padded(rng, core, d)


def ridge(rng: Rng, d: int) -> Problem:
    """A normal likelihood with condition numbers up to 10^10."""
    d = max(d, 2)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    sd = np.geomspace(1.0, 10.0 ** -rng.uniform(1.0, 5.0), d)
    return _gaussian(turn @ rng.normal(0.0, 0.7, d), turn, sd, 1.0)


def _gaussian(y: Array, turn: Array, sd: Array, spread: float) -> Problem:
    """N(y; x, Q diag(sd²) Qᵀ) under N(0, spread² I)."""
    at = y @ turn

    def log_likelihood(xp: Any, t: Array) -> Array:
        return xp.sum(log_normal(t @ turn, at, sd), axis=-1)

    truth = float(log_normal(at, 0.0, np.hypot(sd, spread)).sum())
    return Problem([normal(0.0, spread)] * y.size, log_likelihood, truth)


def conflict(rng: Rng, d: int) -> Problem:
    """Data three to twenty prior standard deviations off."""
    far = rng.uniform(3.0, 20.0) / math.sqrt(d) * rng.choice([-1.0, 1.0], d)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return _gaussian(far, turn, 10.0 ** rng.uniform(-1.5, 0.3, d), 1.0)


def tails(rng: Rng, d: int) -> Problem:
    """Student or normal priors, Student or Cauchy likelihoods, coordinate by coordinate."""
    df = float(rng.choice([1.0, 2.0, 4.0]))
    prior = [normal(0.0, 3.0), Prior("student", 3.0, 2.0), Prior("student", 1.0, 1.0)][
        rng.integers(3)
    ]
    kernel, parts = Prior("student", df, 10.0 ** rng.uniform(-1.0, 0.5)), []
    y = rng.choice([0.5, 8.0, -15.0], d, p=[0.5, 0.25, 0.25])
    known: dict[float, float] = {}
    for at in map(float, y):

        def given(v: Array, at: float = at) -> Array:  # x = sinh(v) reaches far into tails
            x = np.sinh(v)
            return prior.log(x) + kernel.log(x - at) + np.log(np.cosh(v))

        known[at] = known[at] if at in known else on_grid(given, -40.0, 40.0)
        parts.append((prior, lambda xp, x, at=at: kernel.log(x - at, xp), known[at]))
    return product(parts)


def loggamma(rng: Rng, d: int) -> Problem:
    """Skewed coordinates in the unit box, two modes in one or two of them."""
    prior, parts = uniform(0.0, 1.0), []
    twice = int(rng.integers(0, 3))
    for i in range(d):
        rate, two = rng.uniform(20.0, 60.0), i < twice

        def term(xp: Any, x: Array, rate: float = rate, two: bool = two) -> Array:
            parts = [rate * (x - at) for at in ((1 / 3, 2 / 3) if two else (2 / 3,))]
            return log_sum(xp, [math.log(rate) + z - xp.exp(z) for z in parts])

        parts.append((prior, term, _alone(prior, term, 1.0)))
    return product(parts)


def rosenbrock(rng: Rng, d: int) -> Problem:
    """Of two or three coordinates: given the first all others are a chain of normals."""
    steep, prior = 10.0 ** rng.uniform(0.0, 2.0), normal(0.0, 3.0)
    k = 2 if d <= 2 else 3

    def step(x: Array, following: Array) -> Array:
        return -steep * (following - x * x) ** 2

    def log_likelihood(xp: Any, t: Array) -> Array:
        chain = step(t[..., :-1], t[..., 1:])
        return xp.sum(chain, axis=-1) - (1.0 - t[..., 0]) ** 2

    x, sd = np.linspace(-6.0, 6.0, 6001), math.sqrt(0.5 / steep)
    last = 0.5 * math.log(math.pi / steep) + log_normal(x * x, 0.0, math.hypot(3.0, sd))
    if k == 3:  # a grid over the second coordinate, fine beside its width given the first
        given = [logsumexp(step(one, x) + prior.log(x) + last) for one in x]
        last = np.array(given) + math.log(x[1] - x[0])
    truth = float(logsumexp(last - (1.0 - x) ** 2 + prior.log(x))) + math.log(x[1] - x[0])
    return padded(rng, Problem([prior] * k, log_likelihood, truth), d)


def spike(rng: Rng, d: int) -> Problem:
    """A core with a share of the mass inside of a slab of the same centre."""
    narrow, share = 10.0 ** rng.uniform(-1.5, -0.5), rng.uniform(0.02, 0.9)
    centre, prior = np.broadcast_to(rng.uniform(-1.0, 1.0, d), (2, d)), wide(rng)
    return spheres(centre, np.array([narrow, 1.0]), np.array([share, 1.0 - share]), prior)


# -- scales that are learnt -----------------------------------------------------------------------


def hierarchy(rng: Rng, d: int) -> Problem:
    """y_j ~ N(μ + τ z_j, s_j²), log τ ~ N: integrated over τ alone; centred as a density."""
    groups, centred = max(d - 2, 1), bool(rng.random() < 0.5)
    s, m, w = rng.uniform(0.3, 2.0, groups), rng.normal(0.0, 1.0), rng.uniform(0.5, 1.5)
    y = (
        rng.normal(0.0, 2.0)
        + math.exp(m) * rng.standard_normal(groups)
        + s * rng.normal(size=groups)
    )

    def log_likelihood(xp: Any, t: Array) -> Array:
        mu, tau, z = t[..., :1], xp.exp(t[..., 1:2]), t[..., 2:]
        if not centred:
            return xp.sum(log_normal(y, mu + tau * z, s), axis=-1)
        pull = -0.5 * ((z - mu) / tau) ** 2 - t[..., 1:2] - 0.5 * LOG_2PI
        return xp.sum(log_normal(y, z, s) + pull, axis=-1)

    def given(log_tau: Array) -> Array:
        v = np.exp(2.0 * log_tau)[:, None] + s**2
        one, line = np.sum(1.0 / v, axis=1), np.sum(y / v, axis=1)
        square = np.sum(y**2 / v, axis=1) - 9.0 * line**2 / (1.0 + 9.0 * one)
        logdet = np.log(v).sum(axis=1) + np.log1p(9.0 * one)
        return log_normal(log_tau, m, w) - 0.5 * (square + logdet + groups * LOG_2PI)

    rest = Prior("flat", 0.0, 1.0) if centred else normal(0.0, 1.0)
    truth = on_grid(given, m - 10.0 * w, m + 10.0 * w, 20_001)
    return Problem([normal(0.0, 3.0), normal(m, w)] + [rest] * groups, log_likelihood, truth)


def funnel(rng: Rng, d: int) -> Problem:
    """v ~ N(0, s²), x_i ~ N(0, exp(v)): a density, or a likelihood where x_i has a prior."""
    d, s, kind = max(d, 2), rng.uniform(1.0, 3.0), rng.integers(3)
    rest = [Prior("flat", 0.0, 1.0), normal(0.0, 10.0), uniform(-30.0, 30.0)][kind]

    def log_likelihood(xp: Any, t: Array) -> Array:
        v = t[..., :1]
        return xp.sum(-0.5 * (t[..., 1:] ** 2 * xp.exp(-v) + v + LOG_2PI), axis=-1)

    def given(v: Array) -> Array:
        one = 0.0 * v
        if rest.kind == "normal":
            one = -0.5 * (np.log(np.exp(v) + 100.0) + LOG_2PI)
        elif rest.kind == "uniform":
            one = np.log(special.erf(30.0 * np.exp(-0.5 * v) / math.sqrt(2.0)) / 60.0)
        return log_normal(v, 0.0, s) + (d - 1) * one

    truth = on_grid(given, -12.0 * s, 12.0 * s, 20_001)
    return Problem([normal(0.0, s)] + [rest] * (d - 1), log_likelihood, truth)


def unidentified(rng: Rng, d: int) -> Problem:
    """y_j ~ N(u v_j, s²): only products are known, up to a sign; integrated over u."""
    d, s = max(d, 2), 10.0 ** rng.uniform(-1.3, 0.0)
    y = rng.normal(0.0, 1.5, d - 1)

    def log_likelihood(xp: Any, t: Array) -> Array:
        return xp.sum(log_normal(y, t[..., :1] * t[..., 1:], s), axis=-1)

    def given(u: Array) -> Array:
        return log_normal(u, 0.0, 1.0) + log_normal(y[:, None], 0.0, np.hypot(u, s)).sum(axis=0)

    return Problem([normal(0.0, 1.0)] * d, log_likelihood, on_grid(given, -12.0, 12.0))


# -- walls, plateaus, whole numbers ---------------------------------------------------------------


def changes(rng: Rng, d: int) -> Problem:
    """Means before and after a place that is a whole number: a sum over places."""
    n, s = int(rng.integers(8, 30)), rng.uniform(0.3, 1.5)
    at = int(rng.integers(2, n - 1))
    y = np.where(np.arange(n) < at, *rng.normal(0.0, 2.0, 2)) + s * rng.standard_normal(n)

    def log_likelihood(xp: Any, t: Array) -> Array:
        first = np.arange(n) < xp.floor(t[..., :1])
        return xp.sum(log_normal(y, xp.where(first, t[..., 1:2], t[..., 2:3]), s), axis=-1)

    def marginal(some: Array) -> float:
        v = s**2 * np.eye(some.size) + 4.0
        return float(stats.multivariate_normal.logpdf(some, np.zeros(some.size), v))

    places = [marginal(y[:c]) + marginal(y[c:]) for c in range(1, n)]
    truth = float(logsumexp(places) - math.log(n - 1))
    prior = [uniform(1.0, float(n)), normal(0.0, 2.0), normal(0.0, 2.0)]
    return padded(rng, Problem(prior, log_likelihood, truth, smooth=False), d)


def rounded(rng: Rng, d: int) -> Problem:
    """A normal likelihood of the whole number below, for one to three coordinates."""
    prior, parts = normal(0.0, 5.0), []
    for _ in range(min(d, int(rng.integers(1, 4)))):
        y, s = rng.normal(0.0, 5.0), rng.uniform(0.3, 3.0)
        k = np.arange(-60.0, 60.0)
        mass = np.log(np.maximum(ndtr((k + 1.0) / 5.0) - ndtr(k / 5.0), 1e-300))
        truth = float(logsumexp(mass + log_normal(k, y, s)))
        parts.append((prior, lambda xp, x, y=y, s=s: log_normal(xp.floor(x), y, s), truth))
    return product(parts + [bell(rng, prior) for _ in range(d - len(parts))], smooth=False)


def plateaus(rng: Rng, d: int) -> Problem:
    """Stairs in every coordinate, or cubes within cubes around the middle."""
    if rng.random() < 0.4:
        levels, sd = np.arange(400), rng.uniform(0.15, 0.4)

        def height(xp: Any, tier: Array) -> Array:
            return -(0.7 ** (2.0 * tier / d)) / (8.0 * sd**2)

        def cake(xp: Any, t: Array) -> Array:
            reach = xp.maximum(xp.max(xp.abs(2.0 * t - 1.0), axis=-1), 1e-300)
            return height(xp, xp.floor(d * xp.log(reach) / math.log(0.7)))

        tiers = math.log(0.3) + levels * math.log(0.7) + height(np, levels)
        return Problem([uniform(0.0, 1.0)] * d, cake, float(logsumexp(tiers)), smooth=False)
    parts: Parts = []
    for _ in range(d):
        steps = rng.normal(0.0, 3.0 / math.sqrt(d), int(rng.integers(2, 8)))

        def stairs(xp: Any, x: Array, steps: Array = steps) -> Array:
            return steps[np.clip(np.floor(x * steps.size), 0, steps.size - 1).astype(int)]

        truth = float(logsumexp(steps) - math.log(steps.size))
        parts.append((uniform(0.0, 1.0), stairs, truth))
    return product(parts, smooth=False)


def hyperrectangle(rng: Rng, d: int) -> Problem:
    """One in a box, nothing outside of it: a part of the prior of at least e^-12."""
    side = np.exp(-rng.dirichlet(np.ones(d)) * rng.uniform(1.0, 12.0))
    low = rng.uniform(0.0, 1.0, d) * (1.0 - side)

    def log_likelihood(xp: Any, t: Array) -> Array:
        return xp.where(xp.all((t > low) & (t < low + side), axis=-1), 0.0, -xp.inf)

    truth = float(np.log(side).sum())
    return Problem([uniform(0.0, 1.0)] * d, log_likelihood, truth, smooth=False)


def half_space(rng: Rng, d: int) -> Problem:
    """A normal likelihood that is zero beyond a plane."""
    sd, y, across = rng.uniform(0.3, 1.0, d), rng.normal(size=d), rng.standard_normal(d)
    across /= np.linalg.norm(across)
    v = 1.0 / (1.0 + 1.0 / sd**2)  # of the posterior without the plane
    mean, scale = across @ (v * y / sd**2), math.sqrt(across @ (v * across))
    limit = mean + scale * rng.uniform(-1.5, 3.0)

    def log_likelihood(xp: Any, t: Array) -> Array:
        value = xp.sum(log_normal(t, y, sd), axis=-1)
        return xp.where(t @ across > limit, value, -xp.inf)

    truth = log_normal(y, 0.0, np.hypot(sd, 1.0)).sum() + log_ndtr((mean - limit) / scale)
    return Problem([normal(0.0, 1.0)] * d, log_likelihood, float(truth))


def constraints(rng: Rng, d: int) -> Problem:
    """A Dirichlet density on the simplex in a box, or a ring of a normal prior."""
    if rng.random() < 0.5:
        k = min(d, 8)
        a = rng.uniform(1.0, 4.0, k + 1)

        def dirichlet(xp: Any, t: Array) -> Array:
            rest = 1.0 - xp.sum(t, axis=-1)
            inside = (rest > 0.0) & xp.all(t > 0.0, axis=-1)
            safe = xp.where(t > 0.0, t, 1.0)
            value = xp.sum((a[:-1] - 1.0) * xp.log(safe), axis=-1)
            value = value + (a[-1] - 1.0) * xp.log(xp.where(inside, rest, 1.0))
            return xp.where(inside, value, -xp.inf)

        truth = float(gammaln(a).sum() - gammaln(a.sum()))
        return padded(rng, Problem([uniform(0.0, 1.0)] * k, dirichlet, truth), d)
    k = min(max(d, 2), 4)
    near = rng.uniform(0.5, 2.5)
    far = near + 10.0 ** rng.uniform(-2.0, 0.0)

    def ring(xp: Any, t: Array) -> Array:
        square = xp.sum(t * t, axis=-1)
        return xp.where((square > near**2) & (square < far**2), 0.0, -xp.inf)

    truth = math.log(stats.chi2.cdf(far**2, k) - stats.chi2.cdf(near**2, k))
    return padded(rng, Problem([normal(0.0, 1.0)] * k, ring, truth, smooth=False), d)


def shells(rng: Rng, d: int) -> Problem:
    """One or two spherical shells in a box, or one in up to six of the coordinates."""
    k, r, w = max(min(d, 8), 2), rng.uniform(1.0, 2.0), 10.0 ** rng.uniform(-1.7, -0.7)
    centres = [(-3.0, 3.0), (0.0,)][rng.integers(2)]

    def log_likelihood(xp: Any, t: Array) -> Array:
        rest = xp.sum(t[..., 1:] ** 2, axis=-1)
        away = [xp.sqrt((t[..., 0] - c) ** 2 + rest) for c in centres]
        return log_sum(xp, [log_normal(one, r, w) for one in away])

    radial = on_grid(lambda x: (k - 1) * np.log(x) + log_normal(x, r, w), 1e-9, r + 15.0 * w)
    sphere = math.log(2.0) + 0.5 * k * math.log(math.pi) - gammaln(0.5 * k)
    truth = math.log(len(centres)) + sphere + radial - k * math.log(12.0)
    return padded(rng, Problem([uniform(-6.0, 6.0)] * k, log_likelihood, truth), d)


# -- densities, constants and axes ----------------------------------------------------------------


def densities(rng: Rng, d: int) -> Problem:
    """No prior at all: a constant times a multivariate t, log-gammas or a mixture of normals."""
    kind, constant = rng.integers(3), rng.uniform(-50.0, 50.0)
    df, shape = float(rng.choice([2.0, 5.0, 10.0])), rng.uniform(0.5, 5.0)
    centres, sd = rng.normal(0.0, 4.0, (3, d)), rng.uniform(0.3, 1.0, 3)
    scale = gammaln(0.5 * (df + d)) - gammaln(0.5 * df) - 0.5 * d * math.log(df * math.pi)

    def log_density(xp: Any, t: Array) -> Array:
        if kind == 0:
            square = xp.sum(t * t, axis=-1)
            return constant + scale - 0.5 * (df + d) * xp.log1p(square / df)
        if kind == 1:
            return constant + xp.sum(shape * t - xp.exp(t), axis=-1) - d * gammaln(shape)
        each = [xp.sum(log_normal(t, m, s), axis=-1) for m, s in zip(centres, sd, strict=True)]
        return constant - math.log(3.0) + log_sum(xp, each)

    return Problem([Prior("flat", 0.0, 1.0)] * d, log_density, constant, bare=True)


def offsets(rng: Rng, d: int) -> Problem:
    """Another family's problem with a constant that is large beside all that matters."""
    kinds = [mixture, warped, hierarchy, conflict, rounded, corners]
    return shifted(kinds[rng.integers(len(kinds))](rng, d), float(rng.choice([1e6, -1e6, 1e9])))


def shifted(problem: Problem, constant: float) -> Problem:
    return problem._replace(
        log_likelihood=lambda xp, t: constant + problem.log_likelihood(xp, t),
        truth=constant + problem.truth, truth_se=abs(constant) * 1e-15 + problem.truth_se,
    )  # fmt: skip


def turned(rng: Rng, d: int) -> Problem:
    """A family with a normal prior, whose axes the dress then turns."""
    kinds = [warped, wells, labels, unidentified, rounded, half_space, rosenbrock]
    return kinds[rng.integers(len(kinds))](rng, max(d, 2))


FAMILIES: dict[str, Callable[[Rng, int], Problem]] = {
    f.__name__: f
    for f in (
        mixture, corners, wells, waves, angles, labels, warped, ridge, conflict, tails, loggamma,
        rosenbrock, spike, hierarchy, funnel, unidentified, changes, rounded, plateaus,
        hyperrectangle, half_space, constraints, shells, densities, offsets, turned,
    )
}  # fmt: skip
