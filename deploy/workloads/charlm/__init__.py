"""A small character language model, trained by N processes that sum their gradients over TCP."""

import os

# One thread a rank: the ranks are the parallelism, and sums do not depend on how a library splits its work.
# It counts only if set before numpy is first imported, which this package's modules do.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
