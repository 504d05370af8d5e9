"""Makes stored JSON smaller: raw DEFLATE (RFC 1951) with a dictionary of the words that stand in every row.

Law: `expand(squeeze(data))` is `data`. A squeezed column begins with the number of its dictionary, which no JSON
text begins with. A dictionary is part of the stored format: it never changes, a better one gets the next number.
"""

import zlib

from causeline.errors import Corrupt

WORTH = 200
"""Bytes from which on squeezing pays: a row of the log shrinks to a quarter in about 13 microseconds."""
_MARK = b"\x01"
# What stands nearest to the end is cheapest to point at, so the most frequent words come last.
_DICTIONARY_1 = (
    b'"code":"internal","message":"run_error","context":{"state_snapshot","messages_snapshot","context_changed","memory_recalled",'
    b'"citations":[{"run":"sub_run_started","sub_run_finished","interrupt_opened","interrupt_id":"int_","kind":"approval",'
    b'"question":null,"reason":null,"tool_progress","progress":{"message_retracted","reasoning_start","reasoning_content",'
    b'"reasoning_end","agent":"","checkpoint_id":null,[{"type":"run_finished","status":"succeeded","stop_reason":"answered",'
    b'"answer":"","pending_tool_call_ids":[],"interrupts":[],"entrypoint","goal","answer",{"op":"append","value":["op":"override",'
    b'"document":"error":null,"attempts":[{"model":"request_id":"resource:file:"semantic:"},{"role":"user","content":"",'
    b'"is_error":true},{"type":"text_message_end","message_id":"msg_","ts":"2026-12-{"type":"text_message_content",'
    b'"message_id":"msg_","delta":"{"type":"text_message_start","message_id":"msg_","ts":"2026-12-'
    # the row of a reply that asks for a call
    b'[[1,"call_model","tools","call_tools",[1],{},{"visits":2,"branches":[{"at":"call_tools"}]},{"usage":{"input_tokens":8,'
    b'"output_tokens":8,"cached_tokens":0,"reasoning_tokens":0,"cost":null},"model":"","provider_ids":["call_"],"ms":0.9},'
    b'"2026-12-01T03:40:03.859Z",[]],[["inference",["0"],0,0],["tool_call",[0],0,0]],[["call_",2,["search",{"query":""},"",0,false],'
    b'[1,1]]]]\n{"calls":[{"arguments":{},"id":"call_","name":""}],"finish":"tool_calls","text":""}\n{"args":{},"call_id":"call_",'
    b'"name":""}\n[{"type":"step_started","node":"call_model","step":1,"ts":"2026-12-01T03:40:03.858Z"},{"type":"tool_call_delta",'
    b'"message_id":"msg_","index":0,"delta":"{\\"","name":"","ts":"2026-12-01T03:40:03.858Z"},{"type":"step_finished",'
    b'"node":"call_model","step":1,"checkpoint_id":"ck_","ts":"2026-12-01T03:40:03.859Z"}]'
    # the row of its result
    b'[[2,"call_tools","model","call_model",[0],{},{"visits":3,"branches":[{"at":"call_model"}]},{"ms":1.178},'
    b'"2026-12-01T03:40:03.878Z",[]],[["tool_result",["9"],0,0]],[["call_",3,0,[1,1,1,""]]]]\n{"call_id":"call_","ok":true,"result":"",'
    b'"tool":""}\n[{"type":"step_started","node":"call_tools","step":2,"ts":"2026-12-01T03:40:03.877Z"},{"type":"tool_call_start",'
    b'"tool_call_id":"call_","name":"","client":false,"message_id":"msg_","ts":"2026-12-01T03:40:03.877Z"},{"type":"tool_call_args",'
    b'"tool_call_id":"call_","delta":"{\\"","ts":"2026-12-01T03:40:03.877Z"},{"type":"tool_call_end","tool_call_id":"call_",'
    b'"ts":"2026-12-01T03:40:03.877Z"},{"type":"tool_call_result","tool_call_id":"call_","message_id":"msg_","content":"",'
    b'"is_error":false,"ts":"2026-12-01T03:40:03.877Z"},{"type":"step_finished","node":"call_tools","step":2,"checkpoint_id":"ck_",'
    b'"ts":"2026-12-01T03:40:03.878Z"}]'
)
_FIRST = 1_024
"""Bytes of a row that are expanded first, where only its first line is wanted."""
_SMALL, _LARGE = (4, -14, 6), (1, -15, 8)
"""Level, window and memory by size: a small state is set up faster."""


def squeeze(data: bytes) -> bytes:
    """`data`, shorter where that pays. `data` is JSON text and not empty."""
    if len(data) < WORTH:
        return data
    level, window, memory = _SMALL if len(data) <= 8_192 else _LARGE
    packer = zlib.compressobj(level, zlib.DEFLATED, window, memory, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY_1)
    packed = _MARK + packer.compress(data) + packer.flush()
    return packed if len(packed) < len(data) else data


def expand_line(data: bytes) -> bytes:
    """The first line of what `squeeze` was given, at the cost of that line. Raises Corrupt."""
    if data[:1] != _MARK:
        return data.partition(b"\n")[0]
    try:
        unpacker = zlib.decompressobj(-15, _DICTIONARY_1)
        text = unpacker.decompress(data[1:], _FIRST)
        while b"\n" not in text and unpacker.unconsumed_tail:
            text += unpacker.decompress(unpacker.unconsumed_tail, 2 * len(text))
    except zlib.error as error:
        raise Corrupt(f"stored bytes cannot be expanded: {error}; restore the store from a copy") from error
    return text.partition(b"\n")[0]


def expand(data: bytes) -> bytes:
    """What `squeeze` was given. Raises Corrupt for bytes it did not write."""
    if data[:1] != _MARK:
        return data
    try:
        unpacker = zlib.decompressobj(-15, _DICTIONARY_1)
        return unpacker.decompress(data[1:]) + unpacker.flush()
    except zlib.error as error:
        raise Corrupt(f"stored bytes cannot be expanded: {error}; restore the store from a copy") from error
