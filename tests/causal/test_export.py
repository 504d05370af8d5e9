"""A bundle proves itself: its bytes are canonical, its digest and ids fit, and it reads back whole."""

import json
from hashlib import sha256

import pytest

from causeline.causal import Append, Limits, VerifyError, build_export, canonical, verify, verify_export
from tests.causal.forgery import DATA, HEAD, SESSION, forged, opened, refused
from tests.causal.logs import Session, sample


def test_a_bundle_is_its_own_canonical_form_and_reads_back():
    found = verify_export(DATA)
    bundle = opened()
    assert canonical(bundle, depth=240) == DATA
    assert bundle["digest"] == sha256(canonical({key: value for key, value in bundle.items() if key != "digest"}, depth=240)).hexdigest()
    assert set(bundle) == {"causeline", "session", "owner", "head", "state", "checkpoints", "runs", "calls", "facts", "digest"}
    assert (found.session, found.owner, found.head, found.digest) == ("s", "default", HEAD, bundle["digest"])
    assert found.state.to_json() == bundle["state"]
    assert found.state.frontier == sorted(SESSION.states[HEAD].frontier)
    assert list(found.checkpoints) == bundle["checkpoints"]
    assert (list(found.runs), list(found.calls), list(found.facts)) == (bundle["runs"], bundle["calls"], bundle["facts"])
    assert found.nodes == ()
    assert verify_export(DATA + b"\n", HEAD).digest == found.digest
    assert verify(DATA).digest == found.digest
    assert forged(bundle) == DATA


def test_the_rows_are_ordered_and_carry_no_facts():
    bundle = opened()
    keys = [(row["run"], row["step"], row["id"]) for row in bundle["checkpoints"]]
    assert keys == sorted(keys)
    assert len(keys) == 6
    assert not any("facts" in row for row in bundle["checkpoints"])
    assert [row["checkpoint"] for row in bundle["facts"]] == [row["id"] for row in bundle["checkpoints"]]
    again = build_export(
        session="s",
        owner="default",
        head=HEAD,
        nodes=reversed(SESSION.nodes.values()),
        checkpoints=bundle["checkpoints"][::-1],
        runs=bundle["runs"][::-1],
        calls=bundle["calls"][::-1],
        facts=bundle["facts"][::-1],
    )
    assert again == DATA


def test_an_empty_session():
    data = build_export(session="s", owner="o", head=None, nodes=[], checkpoints=[], runs=[{"id": "run_q", "status": "queued"}])
    found = verify_export(data)
    assert (found.head, len(found.state), found.runs[0]["status"]) == (None, 0, "queued")
    assert refused(data, HEAD).reason.startswith("the head is not")


def test_every_flipped_byte_is_refused():
    session, head = sample(1)
    whole = session.export(head)
    assert verify_export(whole)
    for place in range(len(whole)):
        for change in (0x01, 0x20, 0x80):
            data = bytearray(whole)
            data[place] ^= change
            with pytest.raises(VerifyError):
                verify_export(bytes(data))


def test_every_truncation_and_addition_is_refused():
    for place in range(0, len(DATA), 17):
        for data in (DATA[:place], DATA[:place] + b" " + DATA[place:], DATA[:place] + DATA[place + 1 :]):
            with pytest.raises(VerifyError):
                verify_export(data)
    for data in (
        DATA + b"\n\n",
        DATA + b" ",
        b"\n" + DATA,
        b"\xef\xbb\xbf" + DATA,
        DATA + b"\r\n",
        DATA + DATA,
        b"",
        b"{}",
        b"[]",
        b"null",
    ):
        refused(data)


def test_other_formatting_and_repeated_keys_are_told_apart():
    assert "canonical" in refused(json.dumps(opened()).encode()).reason
    assert "canonical" in refused(json.dumps(opened(), indent=1).encode()).reason
    with pytest.raises(VerifyError, match="canonical"):
        verify(json.dumps(opened()).encode())
    place = DATA.index(b'"owner"')
    assert refused(DATA[:place] + b" " + DATA[place:]).reason.endswith(f"from byte {place} on")
    twice = DATA.replace(b'"owner":"default"', b'"owner":"default","owner":"default"')
    assert "'owner' is repeated" in refused(twice).reason
    inner = DATA.replace(b'"kind":"system"', b'"kind":"goal","kind":"system"')
    assert "'kind' is repeated" in refused(inner).reason


def test_limits_hold_for_bundles():
    assert "limit" in refused(DATA, limits=Limits(bytes=len(DATA) - 1)).reason
    assert verify_export(DATA + b"\n", limits=Limits(bytes=len(DATA)))
    assert "limit" in refused(DATA, limits=Limits(nodes=3)).reason
    assert "deeper" in refused(DATA, limits=Limits(depth=1)).reason


def test_large_integers_and_odd_text_survive_a_bundle():
    session = Session()
    payload = {"n": [2**80, -(10**400), 1e300], "\U0001f600": "\x00", "\uffee": 1.0}
    head = session.commit(None, "run_a", [Append("goal", payload)], position={"big": 2**70})
    found = verify_export(session.export(head), head)
    assert found.state.nodes[0].payload == payload
    assert found.checkpoints[0]["position"] == {"big": 2**70}


def test_a_deep_payload_survives_a_bundle():
    deep = []
    for _ in range(127):
        deep = [deep]
    session = Session()
    head = session.commit(None, "run_a", [Append("goal", deep)])
    assert verify_export(session.export(head), head).state.nodes[0].payload == deep


def test_hostile_bundles_are_refused():
    for data in (b'{"calls":' + b"[" * 100_000, b'{"calls":' + b"[" * 600 + b"]" * 600 + b"}", b'{"calls":' + b"9" * 300_000 + b"}"):
        with pytest.raises(VerifyError):
            verify(data)
    loop = opened()
    loop["checkpoints"][0]["parent"] = loop["checkpoints"][-1]["id"]
    refused(forged(loop))
