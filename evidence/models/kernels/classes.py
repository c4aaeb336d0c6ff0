"""One kernel per class, and their hyperparameters as one vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...messages import InputError
from ..covariance import as_kernel
from ..hyperparameters import Hyperparameters, kernel_parameters

Array = NDArray[np.float64]


def check_kernels(kernel: Any, classes: NDArray[Any]) -> tuple[Any, ...]:
    """One kernel per class."""
    if not isinstance(kernel, list | tuple):
        return (as_kernel(kernel),) * classes.size
    if len(kernel) != classes.size:
        raise InputError(
            f"kernel must be one kernel or a list of one per class, got {len(kernel)} kernels "
            f"for {classes.size} classes"
        )
    return tuple(as_kernel(k) for k in kernel)


def all_equal(kernels: Sequence[Any]) -> bool:
    """Whether all classes have the same kernel."""
    return all(kernel is kernels[0] or kernel == kernels[0] for kernel in kernels)


class ClassKernels(NamedTuple):
    """The kernels of all classes, with the one method that hyperparameters ask for."""

    kernels: tuple[Any, ...]

    def clone_with_theta(self, theta: Array) -> ClassKernels:
        made, start = [], 0
        for kernel in self.kernels:
            size = len(kernel_parameters(kernel)[0])
            own = theta[start : start + size]
            made.append(kernel.clone_with_theta(own) if size else kernel)
            start += size
        return ClassKernels(tuple(made))


def class_parameters(classes: NDArray[Any], kernels: Sequence[Any]) -> Hyperparameters:
    """What is free in the kernels, class by class; nothing where there are none."""
    parts = [kernel_parameters(kernel) for kernel in kernels]
    names = tuple(
        f"class[{label}]__{name}"
        for label, (own, _, _) in zip(classes, parts, strict=False)
        for name in own
    )
    theta = np.concatenate([np.zeros(0), *(values for _, values, _ in parts)])
    bounds = np.concatenate([np.zeros((0, 2)), *(limits for _, _, limits in parts)])
    return Hyperparameters(names, theta, bounds, ClassKernels(tuple(kernels)), None, len(names))
