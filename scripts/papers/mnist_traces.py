"""Figure 2 of Titsias and Papaspiliopoulos (2018): ten digits, hyperparameters sampled.

    python -m scripts.papers.mnist_traces --out results/mnist
    python -m scripts.papers.mnist_traces --schemes agrad-z-joint --held-back 10 --out held

A softmax Gaussian-process classifier on 1000 digits: 10 latent fields of 1000 values, and a
length scale and an amplitude for each. Every scheme starts from the same θ and climbs in log
likelihood; the trace of all its steps goes to a CSV file, then a figure shows what is there. The
fast mode takes fifty of scikit-learn's small digits. With ``--held-back`` that many digits of
every class are predicted from the last draws.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.linalg import cho_solve
from scipy.special import softmax

import evidence as ev
from scripts import laboratory

NAME = "mnist_traces"
SCHEMES = ("agrad-z-joint", "agrad-z-gibbs", "elliptical-gibbs", "pcnl-gibbs")
STYLES = dict(zip(SCHEMES, ("-", "--", "-.", ":"), strict=True))


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--schemes", nargs="+", default=SCHEMES)
    parser.add_argument("--tune", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--per-class", type=int, default=100, help="digits of every class")
    parser.add_argument("--held-back", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.fast:
        options.tune, options.draws, options.per_class, options.held_back = 30, 30, 5, 1
    options.out.mkdir(parents=True, exist_ok=True)
    data = bundled() if options.fast else ev.datasets.load("mnist1000")
    train, test = _split(data["y"], options.per_class, options.held_back)
    X = np.asarray(data["X"], dtype=float)
    squares = np.sum(X[train] ** 2, axis=1)
    distances = squares[:, None] + squares - 2.0 * X[train] @ X[train].T
    length = float(np.sqrt(np.median(distances)) / 2.0)
    model = ev.SoftmaxModel(X[train], data["y"][train], f"4.0 * RBF({length:.3f})")
    print(f"{model.n_classes} x {model.n_data} latent values, length scale {length:.2f} at first")
    for scheme in options.schemes:
        started = time.perf_counter()
        draws = ev.sample_hyperparameters(
            model, {"constant_value": "flat", "length_scale": "flat"}, scheme=scheme,
            tune=options.tune, draws=options.draws, chains=1, keep=50, random_seed=options.seed,
        )  # fmt: skip
        seconds = time.perf_counter() - started
        trace = np.concatenate([draws.tune_loglik[0], draws.loglik[0]])
        pd.DataFrame({"iteration": np.arange(1, trace.size + 1), "loglik": trace}).to_csv(
            options.out / f"{scheme}.csv", index=False
        )
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{scheme:<17} {seconds:7.0f} s, {1e3 * seconds / trace.size:5.0f} ms a step; log "
            f"likelihood {draws.loglik[0, -200:].mean():8.1f}; acceptance "
            f"{draws.acceptance[0].round(2)}, delta {draws.step_sizes[0, 0]:.3g}, kappa "
            f"{draws.step_sizes[0, 1]:.3g}; {memory:.2f} GiB",
            flush=True,
        )
        if test.size:
            p = predict(model, draws, X[test])
            truth = np.searchsorted(model.classes, data["y"][test])
            print(
                f"{'':<17} {test.size} digits held back: accuracy "
                f"{np.mean(p.argmax(axis=0) == truth):.3f}, log loss "
                f"{-np.mean(np.log(p[truth, np.arange(test.size)])):.3f}",
                flush=True,
            )
    draw(options.out)


def bundled() -> dict[str, np.ndarray]:
    """The small digits of scikit-learn, pixels in [0, 1]."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return {"X": X / 16.0, "y": y}


def _split(y: np.ndarray, per_class: int, held_back: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from, and the last of every class to predict."""
    rows = [np.flatnonzero(y == label)[:per_class] for label in np.unique(y)]
    train = np.concatenate([row[: row.size - held_back] for row in rows])
    return np.sort(train), np.sort(np.concatenate([row[row.size - held_back :] for row in rows]))


def predict(model: ev.SoftmaxModel, draws: ev.HyperDraws, X: np.ndarray) -> np.ndarray:
    """Class probabilities, averaged over the kept draws of x and θ, shape (C, N*)."""
    stride = draws.settings["stride"]
    total = np.zeros((model.n_classes, len(X)))
    rng = np.random.default_rng(0)
    for x, theta in zip(draws.x[0], draws.theta[0, ::stride], strict=True):
        here = model.at(theta)
        fields = x.reshape(model.n_classes, -1)
        mean, sd = np.empty((2, *total.shape))
        for c, kernel in enumerate(here.kernels):
            cross = kernel(X, model.X)
            solved = cho_solve((here.chol[c], True), cross.T)
            mean[c] = solved.T @ fields[c]
            sd[c] = np.sqrt(np.maximum(kernel.diag(X) - np.sum(cross * solved.T, axis=1), 0.0))
        latent = mean + sd * rng.standard_normal((20, *mean.shape))
        total += softmax(latent, axis=1).mean(axis=0)
    return total / len(draws.x[0])


def draw(folder: Path) -> None:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for scheme, style in STYLES.items():
        path = folder / f"{scheme}.csv"
        if path.exists():
            trace = pd.read_csv(path)
            ax.plot(trace.iteration, trace.loglik, style, lw=1.3, label=scheme)
    ax.set(xlabel="iteration", ylabel="log likelihood (nats)", title="1000 digits, 10 classes")
    ax.legend(frameon=False)
    laboratory.save_figure(figure, folder, NAME)


if __name__ == "__main__":
    sys.exit(main())
