"""Fewer points with the same look: spikes stay, and so does every value that is no number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tsdownsample import MinMaxLTTBDownsampler

ODD_LIMIT = 200
"""At most so many of the values that are no numbers are kept; the first and the last always are."""


def thin(steps: NDArray[np.int64], values: NDArray[np.float64], width: int) -> NDArray[np.intp]:
    """Indices of at most `width` finite points (MinMaxLTTB) and ODD_LIMIT others, in order. `steps` ascend.

    The same input always gives the same points.
    """
    finite = np.flatnonzero(np.isfinite(values))
    odd = np.flatnonzero(~np.isfinite(values))
    if len(finite) > width:
        # Steps as floats: above 2**53 they would coincide, which no training reaches.
        chosen = MinMaxLTTBDownsampler().downsample(  # type: ignore[no-untyped-call]
            steps[finite].astype(np.float64), np.ascontiguousarray(values[finite]), n_out=width
        )
        finite = finite[chosen]
    if len(odd) > ODD_LIMIT:
        odd = odd[np.linspace(0, len(odd) - 1, ODD_LIMIT).astype(np.intp)]
    return np.union1d(finite, odd).astype(np.intp)
