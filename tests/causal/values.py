"""JSON values for properties, and a slow writer that is plainly right."""

import json
from typing import Any

import rfc8785
from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
hostile_texts = st.sampled_from(["", "\x00", "a\x00b", "\x7f", "\u2028", "\ufeff", "\U0001f600", "\uffee", '"\\\n\t', "3.0", "1e5", "é"])
floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 1.0, 1e16, 1e15, 1e20, 1e21, 1e22, 1e-4, 1e-5, 1e-6, 1e-7, 5e-324, 2.0**53, 2.0**53 - 1, 2.0**63, 123456789.0, 0.1]
)
small_integers = st.integers(-(2**53) + 1, 2**53 - 1)
integers = st.integers() | st.integers(-(2**70), 2**70) | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**21, 2**80])


def json_values(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | numbers | texts | hostile_texts
    keys = texts | hostile_texts
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5), max_leaves=20)


any_value = json_values(integers | floats)
in_domain = json_values(small_integers | floats)


def written_slowly(value: Any) -> str:
    """RFC 8785 with integers of any size, one member at a time."""
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return rfc8785.dumps(value).decode()
    if isinstance(value, list):
        return "[" + ",".join(map(written_slowly, value)) + "]"
    ordered = sorted(value, key=lambda key: key.encode("utf-16-be"))
    return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{written_slowly(value[key])}" for key in ordered) + "}"
