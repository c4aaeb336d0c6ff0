r"""Predictions of a GPModel at new points: of the latent value and of a new observation.

The latent value is a mixture of Gaussians (:mod:`evidence.prediction.mixture`). With weights
:math:`w_s` and components :math:`N(m_s, v_s)` a new observation has

.. math:: p(y_*) = \sum_s w_s \int p(y_*|x) N(x; m_s, v_s)\,dx,

and each integral is the likelihood's own: closed form or quadrature. Nothing of size draws ×
points is kept: whatever is asked for is computed a block of points at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from ..execution.arguments import array, check_choice, shown
from ..execution.lazy import pd
from ..execution.progress import Bar
from ..messages import InputError
from ..models import likelihoods
from ..models.likelihoods.base import Likelihood, Predictive
from ..numerics.arrays import Array
from ..plots.predictions import plot_prediction
from ..results.base import quantiles_of
from .base import AtPoints
from .mixture import Mixture, Stored, blocks, stored
from .quantiles import NODES, Part, latent_quantiles, observed_quantiles


class Share(NamedTuple):
    """A mixture with its weight among others, and its likelihood."""

    weight: float
    mixture: Mixture
    likelihood: Likelihood

    def at(self, rows: slice) -> Part:
        mean, cov = self.mixture.at(rows)
        return Part(self.weight, mean[0], cov[:, 0, 0][None], self.likelihood.at(rows))


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(AtPoints):
    """What a model says at new points; made by :func:`evidence.predict`.

    Attributes
    ----------
    mean, var : array (n,)
        Mean and variance of the latent value.
    y_mean, y_var : array (n,)
        Mean and variance of a new observation, computed when asked for. Labels are −1 and +1; for
        formulas they are the data's own, or 0, 1, … where these are text.
    probability : array (n,) or (n, K)
        P(y = +1), for binary likelihoods; for an ordinal formula P(y = label).
    labels : array (K,) or None
        Categories of a formula's response, in order.

    Examples
    --------
    >>> from evidence import GPModel, predict
    >>> model = GPModel([[0.0], [1.0], [2.0]], [-1, 1, 1], "4.0 * RBF(1.0)")
    >>> prediction = predict(model, [[0.0], [3.0]])
    >>> prediction.probability.round(2)
    array([0.29, 0.65])
    >>> prediction.quantiles([0.1, 0.9]).shape
    (2, 2)
    """

    _format = "evidence-prediction"

    mean: Array
    var: Array
    shares: tuple[Share, ...]
    X_new: Array | None = None
    data: tuple[Array, Array] | None = None
    """Inputs and observations that the model was given, for the plot."""
    batch_size: int | None = None
    labels: NDArray[Any] | None = None

    def _about(self) -> list[str]:
        several = f", a mixture of {len(self.shares)}" if len(self.shares) > 1 else ""
        return [f"{self.mean.size} points, {self.likelihood.name}{several}"]

    def _frame(self) -> pd.DataFrame:
        """What is there already; :meth:`to_frame` has more."""
        return pd.DataFrame({"mean": self.mean, "sd": np.sqrt(self.var)})

    _draw = plot_prediction

    def _state(self) -> dict[str, Any]:
        there = [(share, stored(share.mixture, self.batch_size)) for share in self.shares]
        shares = [(s.weight, at.mean, at.cov, _in_words(s.likelihood)) for s, at in there]
        return super()._state() | {"shares": shares}

    @classmethod
    def _restore(cls, state: dict[str, Any], models: Mapping[str, Any]) -> Prediction:
        every = state["shares"]
        shares = [Share(w, Stored(m, cov), likelihoods.get(words)) for w, m, cov, words in every]
        return super()._restore(state | {"shares": shares}, models)

    @classmethod
    def of(
        cls, mixture: Mixture, likelihood: Likelihood, batch_size: int | None = None,
        bar: Bar | None = None, keep: bool = False, **context: Any,
    ) -> Prediction:  # fmt: skip
        """``keep`` what the mixture is at the points, instead of what makes it."""
        if keep or mixture.count == 1:
            mixture, bar = stored(mixture, batch_size, bar), None
        mean, var = np.empty((2, mixture.n))
        for rows in blocks([mixture], batch_size, bar=bar):
            m, cov = mixture.at(rows)
            mean[rows], var[rows] = m[0].mean(axis=0), cov[:, 0, 0] + m[0].var(axis=0)
        return cls(mean, var, (Share(1.0, mixture, likelihood),), batch_size=batch_size, **context)

    def _mixed(self, w: Array, predictions: Sequence[Prediction]) -> dict[str, Any]:
        if len(kinds := {p.likelihood.name for p in predictions}) > 1:
            raise InputError(f"predictions are of different kinds of data: {sorted(kinds)}")
        some = [(weight, p) for weight, p in zip(w, predictions, strict=True) if weight > 0.0]
        shares = [s._replace(weight=weight * s.weight) for weight, p in some for s in p.shares]
        own = np.array(self.labels)
        alike = all(np.array_equal(own, np.array(p.labels)) for p in predictions)
        return {"shares": tuple(shares), "labels": self.labels if alike else None}

    def _blocks(self, work: int = 1) -> Iterator[tuple[slice, list[Part]]]:
        """Points a block at a time; ``work`` numbers will be needed for each of them."""
        for rows in blocks([share.mixture for share in self.shares], self.batch_size, work):
            yield rows, [share.at(rows) for share in self.shares]

    @property
    def likelihood(self) -> Likelihood:
        """That of the first component."""
        return self.shares[0].likelihood

    @property
    def _binary(self) -> bool:
        return hasattr(self.likelihood, "probability")

    @property
    def _codes(self) -> Array:
        """What the likelihood calls the labels."""
        assert self.labels is not None
        return np.array([-1.0, 1.0]) if self._binary else np.arange(float(self.labels.size))

    @property
    def _values(self) -> Array:
        """What labels count as: numbers are themselves, text is 0, 1, …"""
        assert self.labels is not None
        named = self.labels.dtype.kind not in "biuf"
        return np.arange(float(self.labels.size)) if named else self.labels.astype(float)

    @cached_property
    def _observed(self) -> Predictive:
        if self.labels is not None:
            p, values = self.probability, self._values
            p = np.column_stack([1.0 - p, p]) if self._binary else p
            centred = values - (p @ values)[:, None]
            return Predictive(p @ values, np.sum(p * centred * centred, axis=1))
        mean, var = np.empty((2, self.mean.size))
        for rows, parts in self._blocks():
            each = [(part, part.predictive()) for part in parts]
            mean[rows] = sum(part.average(y.mean) for part, y in each)
            var[rows] = sum(part.average(y.var + (y.mean - mean[rows]) ** 2) for part, y in each)
        return Predictive(mean, var)

    @property
    def y_mean(self) -> Array:
        """Mean of a new observation, shape (n,)."""
        return self._observed.mean

    @property
    def y_var(self) -> Array:
        """Variance of a new observation, shape (n,)."""
        return self._observed.var

    def given(self, x: ArrayLike) -> Array:
        """E[y | x] of latent values, on the scale of ``y_mean``."""
        if self.labels is None:
            return self.likelihood.conditional_moments(np.asarray(x, float))[0]
        if self._binary:
            steps = [self.probability_given(x)]
        else:
            steps = [1.0 - self.likelihood.cdf(k, np.asarray(x, float)) for k in self._codes[:-1]]
        values = self._values
        return values[0] + np.tensordot(np.diff(values), steps, 1)

    def probability_given(self, x: ArrayLike) -> Array:
        """P(y = +1 | x) of latent values."""
        return 0.5 * (self.likelihood.conditional_moments(np.asarray(x, float))[0] + 1.0)

    @cached_property
    def probability(self) -> Array:
        """P(y = +1), shape (n,), for binary likelihoods; P(y = label), (n, K), if ordinal."""
        if not self._binary and self.labels is None:
            raise InputError(
                f"probability is for binary likelihoods, not {self.likelihood.name}; "
                "see y_mean and quantiles"
            )
        codes = self._codes if not self._binary else np.ones(1)
        out = np.empty((self.mean.size, codes.size))
        for rows, parts in self._blocks():
            for k, code in enumerate(codes):
                out[rows, k] = sum(part.average(part.probability(code)) for part in parts)
        return out[:, 0] if self._binary else out

    def quantiles(self, q: ArrayLike, of: str = "latent") -> Array:
        """Quantiles of the latent value or of a new observation.

        Parameters
        ----------
        q : float or array (Q,)
            Probabilities strictly between 0 and 1.
        of : {"latent", "y"}
            Latent quantiles and those of normal observations are exact, by root finding for
            mixtures. For Student-t noise, gamma targets and counts the distribution function is
            averaged over about 1000 latent nodes (error in it ≤ 0.001) and inverted; likelihoods
            made from a function are simulated, with a fixed seed.

        Returns
        -------
        array (n,), or (Q, n) for a vector ``q``
        """
        check_choice("of", of, ("latent", "y"))
        levels = array("q", q, (), ("Q",))
        if not ((levels > 0.0) & (levels < 1.0)).all():
            raise InputError(f"q must be probabilities strictly between 0 and 1, got {shown(q)}")
        out = np.empty((levels.size, self.mean.size))
        find = latent_quantiles if of == "latent" else observed_quantiles
        for rows, parts in self._blocks(NODES if of == "y" else 1):
            out[:, rows] = find(np.atleast_1d(levels), parts)
        if of == "y" and self.labels is not None:
            out = self._values[np.searchsorted(self._codes, out)]
        return out[0] if levels.ndim == 0 else out

    def log_density(self, y_new: ArrayLike) -> Array:
        """Log predictive density (or probability) of new observations, one per point.

        Parameters
        ----------
        y_new : array (n,)
            As the likelihood takes them: labels −1 and +1 (or 0 and 1), counts, real numbers; for
            formulas the data's labels.

        Notes
        -----
        One integral per point and component, some 20 µs each where the likelihood has no
        closed form; for posterior draws they are interpolated from a few dozen, to 1e-8.
        """
        y = self._coded(self._one_each(y_new))
        out = np.full(self.mean.size, -np.inf)
        for rows, parts in self._blocks():
            for part in parts:
                terms = logsumexp(part.log_density(y[rows]), axis=0)
                constant = np.log(part.weight / len(part.mean))
                np.logaddexp(out[rows], constant + terms, out=out[rows])
        return out

    def _coded(self, y: NDArray[Any]) -> Array:
        """Observations as the likelihood takes them."""
        if self.labels is None:
            return self.likelihood.check(y).y
        named = self.labels.dtype.kind not in "biuf"
        hits = (y.astype(str) if named else y)[:, None] == self.labels
        if hits.any(axis=1).all():
            return self._codes[hits.argmax(axis=1)]
        if self._binary and (named or np.isin(self.labels, (-1, 0, 1)).all()):
            return self.likelihood.check(y).y
        unknown = y[~hits.any(axis=1)][0]
        raise InputError(f"y_new holds {shown(unknown)}, not one of {self.labels.tolist()}")

    def to_frame(self, level: float = 0.9) -> pd.DataFrame:
        """One row per point.

        Columns: mean, sd, and q5 and q95 (the ends of the central interval of mass ``level``)
        of the latent value, y_mean and y_sd of an observation, for binary likelihoods the
        probability of +1, averaged, and its interval (probability_q5, probability_q95); for an
        ordinal formula the probability of every category.
        """
        ends = {name: q for name, q in quantiles_of(level).items() if name != "median"}
        found = self.quantiles(list(ends.values()))
        columns = {"mean": self.mean, "sd": np.sqrt(self.var)}
        columns |= dict(zip(ends, found, strict=True))
        columns |= {"y_mean": self.y_mean, "y_sd": np.sqrt(self.y_var)}
        if self._binary:
            for name, x in zip(ends, found, strict=True):
                columns[f"probability_{name}"] = self.probability_given(x)
            columns["probability"] = self.probability  # last, where pandas shows it
        elif self.labels is not None:
            each = zip(self.labels, self.probability.T, strict=True)
            columns |= {f"p[{label}]": p for label, p in each}
        return pd.DataFrame(columns)


def _in_words(likelihood: Likelihood) -> str:
    """What :func:`evidence.likelihoods.get` reads back."""
    words = repr(likelihood)
    with suppress(InputError):
        if likelihoods.get(words) == likelihood:
            return words
    raise InputError(f"the likelihood {words} is made of a function, which a file cannot hold")
