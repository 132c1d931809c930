"""The model: embedding of a context window, one hidden layer, softmax over the next character.

All numbers of a model live in one flat float64 vector: that is what ranks sum, what the optimiser moves and what a
checkpoint cuts into shards. `Weights` are views into it.
"""

from dataclasses import asdict, dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

LEAK = 0.1  # slope of the hidden layer below zero: no unit dies for good, however far a bad step throws it


class Weights(NamedTuple):
    embedding: Vector  # (vocabulary, embedding)
    hidden: Vector  # (context * embedding, hidden)
    hidden_bias: Vector  # (hidden,)
    output: Vector  # (hidden, vocabulary)
    output_bias: Vector  # (vocabulary,)


@dataclass(frozen=True)
class Model:
    """Sizes, and with them everything that is not a number to be learned."""

    vocabulary: int
    context: int = 12
    embedding: int = 12
    hidden: int = 128

    def blocks(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each block, in the order of the flat vector."""
        inputs = self.context * self.embedding
        return {
            "embedding": (self.vocabulary, self.embedding),
            "hidden": (inputs, self.hidden),
            "hidden_bias": (self.hidden,),
            "output": (self.hidden, self.vocabulary),
            "output_bias": (self.vocabulary,),
        }

    @property
    def size(self) -> int:
        return sum(prod(shape) for shape in self.blocks().values())

    def describe(self) -> dict[str, Any]:
        return {**asdict(self), "leak": LEAK, "blocks": [[name, list(shape)] for name, shape in self.blocks().items()]}

    def views(self, flat: Vector) -> Weights:
        parts: list[Vector] = []
        offset = 0
        for shape in self.blocks().values():
            parts.append(flat[offset : offset + prod(shape)].reshape(shape))
            offset += prod(shape)
        return Weights(*parts)

    def initial(self, seed: int) -> Vector:
        random = np.random.default_rng([seed, 0])
        flat = np.zeros(self.size)
        weights = self.views(flat)
        weights.embedding[:] = random.normal(0, 1, weights.embedding.shape)
        weights.hidden[:] = random.normal(0, (2 / len(weights.hidden)) ** 0.5, weights.hidden.shape)
        weights.output[:] = random.normal(0, 0.1 / len(weights.output) ** 0.5, weights.output.shape)
        return flat

    def loss(self, flat: Vector, windows: NDArray[np.int64], targets: NDArray[np.int64]) -> float:
        """Sum over the samples of -log p(target | window), in nats."""
        return float(-self._forward(self.views(flat), windows)[2][np.arange(len(targets)), targets].sum())

    def log_probabilities(self, flat: Vector, windows: NDArray[np.int64]) -> Vector:
        """log p(each character | window), in nats, shape (len(windows), vocabulary)."""
        return self._forward(self.views(flat), windows)[2]

    def gradient(self, flat: Vector, windows: NDArray[np.int64], targets: NDArray[np.int64], out: Vector) -> float:
        """Return the summed loss and write its gradient into `out`, both sums over the samples, not means."""
        weights, slopes = self.views(flat), self.views(out)
        inputs, hidden, log_probabilities = self._forward(weights, windows)
        rows = np.arange(len(targets))

        error = np.exp(log_probabilities)  # d loss / d logits = p - 1[target]
        error[rows, targets] -= 1
        slopes.output[:] = hidden.T @ error
        slopes.output_bias[:] = error.sum(axis=0)
        back = error @ weights.output.T
        back *= np.where(hidden > 0, 1, LEAK)
        slopes.hidden[:] = inputs.T @ back
        slopes.hidden_bias[:] = back.sum(axis=0)
        slopes.embedding[:] = 0
        np.add.at(slopes.embedding, windows, (back @ weights.hidden.T).reshape(*windows.shape, -1))
        return float(-log_probabilities[rows, targets].sum())

    @staticmethod
    def _forward(weights: Weights, windows: NDArray[np.int64]) -> tuple[Vector, Vector, Vector]:
        """Inputs (n, context * embedding), hidden (n, hidden), log-probabilities (n, vocabulary)."""
        inputs = weights.embedding[windows].reshape(len(windows), -1)
        hidden = inputs @ weights.hidden + weights.hidden_bias
        hidden = np.maximum(hidden, LEAK * hidden)
        logits = hidden @ weights.output + weights.output_bias
        logits -= logits.max(axis=1, keepdims=True)
        return inputs, hidden, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
