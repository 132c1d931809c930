"""The training text: short English-like sentences about a harbour, made by a grammar.

The text is always the same, whatever the seed of the training run is: ranks must agree on it, and a loss can be
compared with the loss of another run only on the same text.
"""

import random
from collections import Counter
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

CHARACTERS = 100_000
HELD_OUT = 0.1  # share at the end that is never trained on

GRAMMAR: dict[str, list[str]] = {
    "sentence": [
        "<subject> <past> <object>.",
        "<subject> <past> <object> <when>.",
        "<When>, <subject> <past> <object>.",
        "<subject> <went> <where>, and <person> <went> <where>.",
        "<subject> <past> <object> because <reason>.",
        "<When>, <weather>, so <subject> <went> <where>.",
        '"<speech>," said <person>.',
        '"<question>?" asked <person>. "<speech>."',
        "There <were> <number> <things> <where>.",
        "<Weather>, but <subject> <past> <object>.",
    ],
    "subject": ["the <adjective> <worker>", "the <worker>", "<person>", "an <vowel adjective> <worker>"],
    "object": ["the <adjective> <thing>", "the <thing>", "<number> <things>", "a <adjective> <thing>", "<person>"],
    "person": ["Ada", "Bram", "Clara", "old Edvin", "Hanna", "Ines", "Jonas", "little Mei", "Oskar", "Tomas"],
    "worker": ["sailor", "baker", "keeper of the light", "fisher", "ferryman", "carpenter", "teacher", "net maker"],
    "adjective": ["small", "quiet", "red", "broken", "heavy", "young", "grey", "wet", "patient", "wooden", "warm"],
    "vowel adjective": ["old", "honest", "angry", "early", "uneasy"],
    "thing": ["boat", "lantern", "rope", "net", "letter", "kettle", "map", "bell", "basket", "ladder", "clock"],
    "things": ["boats", "lanterns", "ropes", "nets", "letters", "gulls", "maps", "bells", "baskets", "barrels"],
    "past": ["found", "carried", "mended", "watched", "lost", "painted", "borrowed", "sold", "waited for", "counted"],
    "went": ["walked", "ran", "sailed", "came back", "rowed", "went"],
    "where": ["to the harbour", "along the pier", "past the mill", "over the bridge", "behind the church", "home"],
    "when": ["before dawn", "in the evening", "after the storm", "every winter", "at noon", "on market day"],
    "When": ["Before dawn", "In the evening", "After the storm", "Every winter", "At noon", "On market day"],
    "weather": ["the wind <turned>", "the fog <lifted>", "rain fell <where>", "the tide was <high>", "it <snowed>"],
    "Weather": ["The wind <turned>", "The fog <lifted>", "Rain fell <where>", "The tide was <high>", "It <snowed>"],
    "turned": ["turned north", "died down", "rose again"],
    "lifted": ["lifted slowly", "hid the lighthouse", "came in from the sea"],
    "high": ["high", "low", "late"],
    "snowed": ["snowed all night", "was too dark to see", "was almost spring"],
    "reason": ["<weather>", "<person> had asked for it", "nobody else would", "the <thing> was gone"],
    "were": ["were", "had been", "were always"],
    "number": ["two", "three", "seven", "twelve", "many", "a dozen"],
    "speech": ["We sail <when>", "Bring me the <thing>", "I have seen the <adjective> <thing> <where>", "<Weather>"],
    "question": ["Where is the <thing>", "Who <past> the <thing>", "Did the <worker> come home", "Is it true"],
}


def write(characters: int = CHARACTERS) -> str:
    """Return exactly so many characters of text."""
    # Of random.Random only random() promises the same numbers in every Python version.
    source = random.Random("harbour")
    pieces: list[str] = []
    length = 0
    while length < characters:
        sentence = _expand("<sentence>", source)
        piece = sentence[0].upper() + sentence[1:] + ("\n" if source.random() < 0.2 else " ")
        pieces.append(piece)
        length += len(piece)
    return "".join(pieces)[:characters]


def _expand(template: str, source: random.Random) -> str:
    head, open_, rest = template.partition("<")
    if not open_:
        return head
    name, _, tail = rest.partition(">")
    choices = GRAMMAR[name]
    return head + _expand(choices[int(source.random() * len(choices))], source) + _expand(tail, source)


def unigram_entropy(text: str) -> float:
    """Nats per character of the best guess that knows only how frequent each character is."""
    total = len(text)
    return -sum(n / total * log(n / total) for n in Counter(text).values())


@dataclass(frozen=True)
class Corpus:
    """The text as indices into its sorted alphabet."""

    vocabulary: str
    training: NDArray[np.int64]
    held_out: NDArray[np.int64]
    entropy: float  # unigram, nats per character, of the whole text

    @classmethod
    def make(cls) -> "Corpus":
        text = write()
        vocabulary = "".join(sorted(set(text)))
        index = {character: number for number, character in enumerate(vocabulary)}
        encoded = np.array([index[character] for character in text], dtype=np.int64)
        cut = int(len(text) * (1 - HELD_OUT))
        return cls(vocabulary, encoded[:cut], encoded[cut:], unigram_entropy(text))


def batch(
    characters: NDArray[np.int64], context: int, starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Windows of `context` characters, shape (len(starts), context), and the character after each."""
    windows = characters[starts[:, None] + np.arange(context)]
    return windows, characters[starts + context]
