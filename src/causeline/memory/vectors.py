"""Embeddings as bytes: 32-bit floats of length one, and a signature of one bit a dimension to sort out the far ones.

Law: pure. Vectors of different sizes have nothing in common.
"""

import math
from array import array
from collections.abc import Sequence
from operator import mul

from causeline.errors import Invalid

NOISE = 0.2
"""The cosine that texts without any relation still have."""


def packed(vector: Sequence[float]) -> bytes:
    """A vector, scaled to length one. Raises Invalid for what is no vector."""
    try:
        numbers = [float(number) for number in vector]
    except (TypeError, ValueError) as error:
        raise Invalid(f"an embedding is a list of numbers: {error}") from error
    length = math.sqrt(sum(map(mul, numbers, numbers)))
    if not numbers or not math.isfinite(length):
        raise Invalid("an embedding is a list of finite numbers, and not empty")
    return array("f", [number / length for number in numbers] if length else numbers).tobytes()


def cosine(left: bytes, right: bytes) -> float:
    """Between -1 and 1; 0 for vectors of different sizes."""
    return sum(map(mul, _floats(left), _floats(right))) if len(left) == len(right) else 0.0


def likeness(left: bytes, right: bytes) -> float:
    """The cosine as a score: 0 for what has no relation, 1 for the same."""
    return max(0.0, min(1.0, (cosine(left, right) - NOISE) / (1 - NOISE)))


def signature(vector: bytes) -> bytes:
    """One bit for each dimension: whether it is positive."""
    bits = 0
    for number in _floats(vector):
        bits = bits << 1 | (number > 0)
    return bits.to_bytes(len(vector) // 32 + 1, "big")


def far(left: int, right: int) -> int:
    """In how many dimensions two signatures, read as numbers, differ."""
    return (left ^ right).bit_count()


def _floats(vector: bytes) -> "array[float]":
    numbers = array("f")
    numbers.frombytes(vector)
    return numbers
