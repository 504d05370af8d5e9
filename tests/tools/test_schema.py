"""A schema is data from outside: it reads nothing, and answers in bounded time and space."""

import pytest

from causeline.tools.json_schema import InvalidSchema, Schema, first_fault, place, shortened


def test_faults_have_their_place():
    schema = Schema(
        {"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "object", "properties": {"n": {"maximum": 3}}}}}}
    )
    assert schema.findings({"rows": [{"n": 1}, {"n": 9}]}) == ["$.rows[1].n: 9 is greater than the maximum of 3"]
    assert schema.findings({"rows": []}) == []


def test_the_number_of_lines_is_bounded():
    assert len(Schema({"items": {"type": "string"}}).findings(list(range(1000)))) == 11


@pytest.mark.parametrize(
    "document",
    [{"type": "objekt"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "file:///etc/hosts"}, {"$ref": "#/$defs/none"}, {"pattern": "("}],
)
def test_schemas_that_cannot_be_used_are_refused(document):
    with pytest.raises(InvalidSchema):
        Schema(document).compile()


def test_a_pattern_cannot_backtrack_for_ever():
    assert Schema({"pattern": "^(?=(a+)+$)(a+)+$"}).findings("a" * 50 + "b")


def test_an_older_dialect_is_read_as_such():
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": False}
    assert first_fault(draft7, ["a"]) is None
    assert first_fault(draft7, ["a", 2]) is not None


def test_place_and_shortened():
    assert place(["a", 0, "b"]) == "$.a[0].b"
    assert place([]) == "$"
    assert shortened("abc") == "abc"
    assert len(shortened("x" * 10_000, 100)) < 100
