r"""Symmetries that a density is told to have: angles that close, labels that may be swapped.

In coordinates z in which the prior is N(0, I) an angle has made :math:`u = \Phi(z)` of its turn;
the rotation :math:`u \mapsto u + s \pmod 1` leaves the prior as it is, and so does an exchange of
labels that share theirs. A proposal for such a density may therefore be made in a *chart*, where
angles are cut at the place of least mass and the labels' first coordinates ascend: one Gaussian
there stands for n! of them, wrapped.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from ...execution.arguments import check_count, shown
from ...messages import InputError, suggest
from ...numerics.arrays import Array, Indices

if TYPE_CHECKING:
    from .model import DensityModel


@dataclass(frozen=True, eq=False)
class Chart:
    """Where angles are cut, in turns from the ends of their range, and which labels are sorted."""

    periodic: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    labels: Indices = field(default_factory=lambda: np.zeros((0, 0), dtype=np.intp))
    """Coordinates of every label, (labels, coordinates of one)."""
    cut: Array = field(default_factory=lambda: np.zeros(0))

    def inward(self, z: Array) -> Array:
        """Rows in the chart."""
        if self.labels.size:
            z = self._exchanged(z, np.argsort(z[:, self.labels[:, 0]], axis=1, kind="stable"))
        return self._turned(z, 1.0)

    def between(self, z: Array, others: Array, parts: Array) -> Array:
        """Points on the straight lines in the chart from one to others, (parts, others, d)."""
        y, to = self.inward(z[None]), self.inward(others)
        rows = y + parts[:, None, None] * (to - y)
        return self._turned(rows.reshape(-1, z.size), -1.0).reshape(rows.shape)

    def images(self, z: Array) -> list[Array]:
        """Rows under every exchange of labels, turned but not sorted."""
        orders = permutations(range(len(self.labels)))
        return [self._turned(self._exchanged(z, np.array([order])), 1.0) for order in orders]

    def outward(self, y: Array, rng: np.random.Generator) -> Array:
        """Rows of coordinates from rows of the chart, labels in any order."""
        z = self._turned(y, -1.0)
        if self.labels.size:
            orders = np.tile(np.arange(len(self.labels)), (len(z), 1))
            z = self._exchanged(z, rng.permuted(orders, axis=1))
        return z

    def across(self, z: Array, near: float = 0.1) -> Array | None:
        """A point as far beyond the ends of angles as this one is short of them, of those within
        the part ``near`` of a turn; None where there are none."""
        turn = ndtr(z[self.periodic])
        short = np.minimum(turn, 1.0 - turn) < near
        if not short.any():
            return None
        over = z.copy()
        over[self.periodic[short]] *= -1.0  # Φ(−z) = 1 − Φ(z)
        return over

    def placed(self, z: Array, cov: Array) -> tuple[Array, Array]:
        """A point, and the covariance of a Gaussian around it, in the chart."""
        order = np.arange(z.size)
        if self.labels.size:
            order[self.labels.ravel()] = self.labels[np.argsort(z[self.labels[:, 0]])].ravel()
        y = self._turned(z[None, order], 1.0)[0]
        slope = np.exp(0.5 * (y * y - z[order] ** 2))  # dy/dz = φ(z)/φ(y)
        return y, cov[np.ix_(order, order)] * np.outer(slope, slope)

    def everywhere(self, y: Array, cov: Array) -> list[tuple[Array, Array]]:
        """The Gaussians of which one in the chart is made, in coordinates."""
        z = self._turned(y[None], -1.0)[0]
        slope, found = np.exp(0.5 * (z * z - y * y)), []
        cov = cov * np.outer(slope, slope)
        for image in permutations(range(len(self.labels))):
            order = np.arange(z.size)
            order[self.labels.ravel()] = self.labels[list(image)].ravel()
            found.append((z[order], cov[np.ix_(order, order)]))
        return found

    @property
    def folds(self) -> int:
        """Images of every point."""
        return math.factorial(len(self.labels))

    def recut(
        self, z: Array, w: Array, *, cells: int = 64, smooth: int = 3, few: float = 0.02,
        opposite: float = 1e-3,
    ) -> Chart:  # fmt: skip
        """With angles cut where points of weights w are fewest; the same where few are at it.

        ``cells``: cells of a turn, of which one is the cut; ``smooth``: cells on either side that
        count with it; ``few``: share of the mass within them that does not call for another cut;
        ``opposite``: share of the mass as the first harmonic has it that counts, too.
        """
        cut, z = self.cut.copy(), replace(self, cut=0.0 * self.cut).inward(z)
        for i, k in enumerate(self.periodic):
            cell = np.floor(ndtr(z[:, k]) * cells).astype(int) % cells
            mass = np.bincount(cell, w, cells) / w.sum()
            near = np.sum([np.roll(mass, j) for j in range(-smooth, smooth + 1)], axis=0)
            now = round(cut[i] * cells) % cells
            if near[now] > few:  # of empty cells the one opposite to the mean
                turns = 2.0 * np.pi * np.arange(cells) / cells
                mean = mass @ np.cos(turns - turns[:, None]).T
                cut[i] = np.argmin(near + opposite * mean) / cells
        return self if np.array_equal(cut, self.cut) else replace(self, cut=cut)

    def _exchanged(self, z: Array, orders: Indices) -> Array:
        """Rows whose labels are in the given orders."""
        if not self.labels.size:
            return z
        z, taken = z.copy(), self.labels[np.broadcast_to(orders, (len(z), len(self.labels)))]
        z[:, self.labels.ravel()] = np.take_along_axis(z, taken.reshape(len(z), -1), axis=1)
        return z

    def _turned(self, z: Array, sign: float, *, below_one: float = 1.0 - 2.0**-53) -> Array:
        """``below_one``: the largest number below one."""
        some = np.flatnonzero(self.cut)
        if some.size:
            z, at = z.copy(), self.periodic[some]
            turn = (ndtr(z[:, at]) - sign * self.cut[some]) % 1.0
            z[:, at] = ndtri(np.clip(turn, 1e-300, below_one))
        return z


def chart_of(
    model: DensityModel, periodic: Sequence[Any] | None, exchangeable: Sequence[Any] | None, *,
    most_labels: int = 5,
) -> Chart:  # fmt: skip
    """The chart of symmetries that are named, once a few points have shown them.

    ``most_labels``: at most, 120 images of every point.
    """
    if periodic is None and exchangeable is None:
        return Chart()
    angles = np.array([coordinate(model, "periodic", name) for name in periodic or ()], np.intp)
    named = ([label] if isinstance(label, str) else label for label in exchangeable or ())
    rows = [[coordinate(model, "exchangeable", one) for one in label] for label in named]
    if len({len(row) for row in rows}) > 1 or len(rows) == 1 or len(rows) > most_labels:
        raise InputError(
            f"exchangeable: from 2 to {most_labels} labels with as many parameters each, such as "
            f"[('mu1', 'sd1'), ('mu2', 'sd2')]; got {shown(exchangeable)}"
        )
    labels = np.array(rows or np.zeros((0, 0)), dtype=np.intp)
    if np.unique(labels).size < labels.size or np.unique(angles).size < angles.size:
        raise InputError("periodic, exchangeable: every parameter may stand there once")
    chart = Chart(angles, labels, np.zeros(angles.size))
    _check(model, chart)
    return chart


def scanned_of(model: DensityModel, scan: Collection[str] | None) -> tuple[tuple[int, int], ...]:
    """Coordinates that are named, and numbers of values, 0 where none is given."""
    names = [scan] if isinstance(scan, str) else scan or ()
    counts = names if isinstance(names, Mapping) else dict.fromkeys(names, 0)
    for name, count in counts.items():
        if counts is names:
            check_count(f"scan[{shown(name)}]", count, 2, optional=False)
    return tuple((coordinate(model, "scan", name), int(n)) for name, n in counts.items())


def coordinate(model: DensityModel, argument: str, name: object) -> int:
    """The coordinate that an argument names, which stands for a parameter's prior."""
    if model.prior is None:
        raise InputError(f"{argument} needs a prior: give prior= or prior_transform=")
    if name not in model.names:
        raise InputError(
            f"{argument} names no parameter of the model: {shown(name)}"
            f"{suggest(name, model.names)} It has {', '.join(model.names)}"
        )
    return model.names.index(name)


def _check(
    model: DensityModel, chart: Chart, *, alike: float = 1e-6, points: int = 4, end: float = 7.0
) -> None:
    """That the density has these symmetries, at a few points: an error helps, though no answer
    depends on it, since draws are weighted by a proposal that is normalised either way.

    ``alike``: relative difference of log densities that a symmetry leaves alone; ``points``: at
    which a symmetry is shown; ``end``: standard deviations: within 1e-12 of a turn's end.
    """
    assert model.prior is not None
    prior = model.prior
    z = np.random.default_rng(20121).standard_normal((points, model.n))

    def log_l(rows: Array) -> Array:
        return model.log_likelihood(prior.placed(rows))

    def differ(a: Array, b: Array) -> bool:
        with np.errstate(invalid="ignore"):
            return not np.all((a == b) | (np.abs(a - b) <= alike * (1.0 + np.abs(a))))

    for k in chart.periodic:
        low, high = z.copy(), z.copy()
        low[:, k], high[:, k] = -end, end
        if differ(log_l(low), log_l(high)):
            raise InputError(
                f"periodic: the density is not the same at both ends of {model.names[k]}, whose "
                "prior must span exactly one turn"
            )
    here = log_l(z) if chart.labels.size else z
    for one, two in pairwise(chart.labels):  # neighbours suffice: they make all orders
        other = z.copy()
        other[:, one], other[:, two] = z[:, two], z[:, one]
        if differ(here, log_l(other)):
            raise InputError(
                "exchangeable: the density changes when labels do: their priors must be equal and "
                "independent of each other, and the likelihood symmetric"
            )
