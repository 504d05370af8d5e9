"""How much faster `causeline.causal.canonical` is than the `rfc8785` package, on payloads as tool results are.

Run: python -m bench.canonical
"""

import random
import timeit
from typing import Any

import rfc8785

from causeline.causal import canonical

REPEATS = 7
SECONDS = 0.05


def prose(characters: int, dice: random.Random) -> str:
    """Words, line breaks, quotes, and decimal numbers as they stand in texts."""
    words = [
        "the",
        "price",
        "of",
        "3.14",
        "rose",
        "to",
        "12.50",
        "in",
        "2024,",
        "while",
        '"quoted"',
        "text\n",
        "remains",
        "0.0",
        "1e5",
        "there",
    ]
    return " ".join(dice.choice(words) for _ in range(characters // 4))[:characters]


def payloads() -> dict[str, tuple[float, Any]]:
    """Name -> (ratio wanted, payload)."""
    dice = random.Random(7)
    text = prose(6_000, dice)
    sections = [{"title": f"Section {index}", "score": dice.random(), "body": text[index * 900 :][:900]} for index in range(6)]
    people = [
        {"id": index, "name": f"user {index}", "email": f"u{index}@example.org", "active": index % 2 == 0, "age": index % 90, "city": None}
        for index in range(100)
    ]
    prices = [
        {"id": index, "name": f"item {index}", "price": round(dice.random() * 100, 2), "stock": True, "note": "plain"}
        for index in range(100)
    ]
    whole = [{"id": index, "name": f"item {index}", "price": float(index), "weight": index / 4, "note": "plain"} for index in range(100)]
    return {
        "text": (20, text),
        "tool result of text": (20, {"call_id": "call_1", "tool": "search", "result": text, "ok": True}),
        "text with emoji": (15, {"call_id": "call_1", "tool": "search", "result": text + "\U0001f600", "ok": True}),
        "text in six sections": (8, {"call_id": "call_1", "tool": "search", "result": {"hits": sections}, "ok": True}),
        "100 records": (8, people),
        "100 records with prices": (8, prices),
        "100 records with whole floats": (8, whole),
        "20 x 20 floats": (8, [[dice.random() for _ in range(20)] for _ in range(20)]),
    }


def microseconds(call: Any) -> float:
    """Best time of one call."""
    timer = timeit.Timer(call)
    number = max(1, int(SECONDS / max(1e-7, timer.timeit(1))))
    return min(timer.repeat(REPEATS, number)) / number * 1e6


def main() -> None:
    print(f"{'payload':32} {'causeline':>12} {'rfc8785':>12} {'ratio':>8} {'wanted':>8}")
    for name, (wanted, payload) in payloads().items():
        assert canonical(payload) == rfc8785.dumps(payload), name
        ours = microseconds(lambda payload=payload: canonical(payload))
        theirs = microseconds(lambda payload=payload: rfc8785.dumps(payload))
        print(f"{name:32} {ours:9.2f} us {theirs:9.2f} us {theirs / ours:7.1f}x {wanted:7}x")


if __name__ == "__main__":
    main()
