"""What arrays are called in type hints: numbers, positions of things, and which ones of them;
and what makes random ones."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]
Rng = np.random.Generator
