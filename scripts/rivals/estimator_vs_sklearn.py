"""GaussianProcessClassifier of this package beside scikit-learn's, on the same folds.

    python -m scripts.rivals.estimator_vs_sklearn
    python -m scripts.rivals.estimator_vs_sklearn --data heart digits_3v5 --folds 3
    python -m scripts.rivals.estimator_vs_sklearn --data breast_cancer wine digits --no-usps

Held-out accuracy and log loss (means over folds, with the standard error of the paired
difference), seconds per fit, and, of two classes, the evidence at each estimator's own
hyperparameters: its approximation, and a Monte Carlo estimate with its error bar. Several classes
are one against the rest, as both have it. Both use the logistic link, the same kernel
C·RBF with the same start and bounds, and no restarts. Then one fit of each to usps_3v5.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.gaussian_process import GaussianProcessClassifier as Laplace
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import evidence as ev
from scripts import laboratory

NAME = "estimator_vs_sklearn"

HEAD = (
    f"{'data':<14}{'N':>5}{'D':>4}{'classes':>8}{'right sklearn':>14}{'here':>7}"
    f"{'loss sklearn':>13}{'here':>8}{'difference':>18}{'s sklearn':>11}{'here':>7}"
)


def research(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = ev.datasets.load(name)
    return data["X"], data["y"]


def ten_digits() -> tuple[np.ndarray, np.ndarray]:
    """500 images of all ten digits, as many of each."""
    X, y = load_digits(return_X_y=True)
    X, _, y, _ = train_test_split(X, y, train_size=500, stratify=y, random_state=0)
    return X, y


def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    chosen = (y == 3) | (y == 5)
    return X[chosen], y[chosen]


def ionosphere_like() -> tuple[np.ndarray, np.ndarray]:
    """351 × 34, two clusters per class, one label in twenty flipped."""
    return make_classification(
        351, 34, n_informative=8, n_redundant=10, n_clusters_per_class=2, flip_y=0.05,
        class_sep=1.0, random_state=0,
    )  # fmt: skip


def simulated() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(80, 2, n_redundant=0, flip_y=0.05, random_state=0)


DATA = {
    "heart": lambda: research("heart"),
    "pima": lambda: research("pima"),
    "ionosphere": ionosphere_like,
    "digits_3v5": digits,
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "digits": ten_digits,
    "simulated": simulated,
}


def fitted(make, X, y):
    started = time.perf_counter()
    return make.fit(X, y), time.perf_counter() - started


def estimators(start):
    return Laplace(start), ev.GaussianProcessClassifier(start)


def compare(name: str, folds: int) -> dict[str, Any]:
    X, y = DATA[name]()
    start = ConstantKernel(1.0) * RBF(np.sqrt(X.shape[1]))
    right, loss, seconds = np.zeros((3, 2, folds))
    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    for k, (train, test) in enumerate(split.split(X, y)):
        scaler = StandardScaler().fit(X[train])
        for i, make in enumerate(estimators(start)):
            one, seconds[i, k] = fitted(make, scaler.transform(X[train]), y[train])
            p = one.predict_proba(scaler.transform(X[test]))
            right[i, k] = np.mean(one.classes_[p.argmax(axis=1)] == y[test])
            loss[i, k] = log_loss(y[test], p)
    gap = loss[1] - loss[0]
    se = gap.std(ddof=1) / np.sqrt(folds)
    row = {"data": name, "N": len(y), "D": X.shape[1], "classes": np.unique(y).size}
    for what, values in (("accuracy", right), ("loss", loss), ("seconds", seconds)):
        row |= {f"{what}_sklearn": values[0].mean(), f"{what}_here": values[1].mean()}
    row |= {"difference": gap.mean(), "difference_se": se}
    print(
        f"{name:<14}{row['N']:>5}{row['D']:>4}{row['classes']:>8}"
        f"{row['accuracy_sklearn']:>14.3f}{row['accuracy_here']:>7.3f}"
        f"{row['loss_sklearn']:>13.4f}{row['loss_here']:>8.4f}"
        f"{f'{gap.mean():+.4f} ± {se:.4f}':>18}"
        f"{row['seconds_sklearn']:>11.2f}{row['seconds_here']:>7.2f}",
        flush=True,
    )
    return row


def evidence_rows(
    name: str, X: np.ndarray, y: np.ndarray, kernels: dict
) -> Iterator[dict[str, object]]:
    labels = np.where(y == np.unique(y)[1], 1.0, -1.0)
    for which, kernel in kernels.items():
        model = ev.GPModel(X, labels, kernel, likelihood="logit")
        result = ev.log_evidence(
            model, method="smc", target_se=0.05, max_seconds=120, random_seed=0, progressbar=False
        )
        laplace, ep = (result.estimates.logz[row] for row in ("laplace", "ep"))
        print(
            f"{name:<14}{which:<9}{kernel!s:<34}{laplace:>10.3f}{ep:>10.3f}"
            f"{result.logz:>12.3f} ± {result.logz_se:.3f}"
            f"{laplace - result.logz:>+12.3f}{ep - result.logz:>+8.3f}",
            flush=True,
        )
        yield {
            "data": name,
            "at": which,
            "laplace": laplace,
            "ep": ep,
            "logz": result.logz,
            "logz_se": result.logz_se,
        }


def all_of_it(name: str) -> dict:
    """Both estimators on all the data: their kernels."""
    X, y = DATA[name]()
    X = StandardScaler().fit_transform(X)
    start = ConstantKernel(1.0) * RBF(np.sqrt(X.shape[1]))
    theirs, ours = (one.fit(X, y) for one in estimators(start))
    return {"X": X, "y": y, "kernels": {"sklearn": theirs.kernel_, "here": ours.kernel_}}


def usps() -> None:
    data = ev.datasets.load("usps_3v5")
    X, y = data["X"], data["y"]
    start = ConstantKernel(100.0, (1e-2, 1e6)) * RBF(30.0, (1.0, 1e4))
    with threadpool_limits(1):
        (theirs, slow), (ours, quick) = (fitted(one, X, y) for one in estimators(start))
    print(f"\nusps_3v5, {X.shape[0]} x {X.shape[1]}, one BLAS thread, from {start}")
    for name, one, seconds in (("sklearn", theirs, slow), ("here", ours, quick)):
        score = log_loss(data["y_test"], one.predict_proba(data["X_test"]))
        value = one.log_marginal_likelihood_value_
        print(
            f"  {name:<9}{seconds:>7.1f} s  log Z {value:>10.3f}  {one.kernel_}  loss {score:.4f}"
        )
    print(f"  time ratio {quick / slow:.2f}", flush=True)


def main() -> None:
    parser = laboratory.parser(__doc__, NAME)
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA)[:4])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--no-usps", action="store_true")
    options = parser.parse_args()
    if options.fast:
        options.data, options.folds, options.no_usps = ["simulated"], 2, True
    warnings.simplefilter("ignore")  # hyperparameters at their bounds
    print(HEAD)
    table = pd.DataFrame([compare(name, options.folds) for name in options.data])
    laboratory.save_table(table, options.out, NAME)
    print(
        f"\n{'evidence':<14}{'at':<9}{'kernel':<34}{'Laplace':>10}{'EP':>10}"
        f"{'Monte Carlo':>20}{'Laplace−MC':>12}{'EP−MC':>8}"
    )
    two = table.data[table.classes == 2]
    rows = [row for name in two for row in evidence_rows(name, **all_of_it(name))]
    laboratory.save_table(pd.DataFrame(rows), options.out, f"{NAME}_evidence")
    if not options.no_usps:
        usps()


if __name__ == "__main__":
    main()
