"""The network switch itself: what it stops, what it lets through, and that child processes inherit it."""

import asyncio
import socket
import subprocess
import sys

import pytest

OUTSIDE = "192.0.2.1"  # TEST-NET-1: routed nowhere


@pytest.fixture
def refused():
    """The record of refusals, emptied so that the suite-wide check stays quiet."""
    record = sys.modules["sitecustomize"].refused
    yield record
    record.clear()


@pytest.mark.parametrize("connect", ["connect", "connect_ex"])
def test_a_connection_to_another_machine_is_refused(connect, refused):
    with socket.socket() as sock, pytest.raises(OSError, match="only use loopback"):
        getattr(sock, connect)((OUTSIDE, 80))
    assert refused == [f"socket.connect {OUTSIDE}"]


def test_a_datagram_to_another_machine_is_refused(refused):
    with socket.socket(type=socket.SOCK_DGRAM) as sock, pytest.raises(OSError, match="only use loopback"):
        sock.sendto(b"x", (OUTSIDE, 53))
    assert refused == [f"socket.sendto {OUTSIDE}"]


def test_a_name_of_another_machine_is_not_looked_up(refused):
    with pytest.raises(OSError, match="only use loopback"):
        socket.getaddrinfo("example.invalid", 80)
    assert refused == ["socket.getaddrinfo example.invalid"]


async def test_the_event_loop_is_covered(refused):
    with pytest.raises(OSError, match="only use loopback"):
        await asyncio.open_connection(OUTSIDE, 80)
    assert refused == [f"socket.connect {OUTSIDE}"]


@pytest.mark.parametrize(
    "host, inside",
    [
        ("127.0.0.1", True), ("127.9.9.9", True), (b"localhost", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("127.example.org", False), ("128.0.0.1", False), ("::2", False), ("localhost.example.org", False),
    ],
)  # fmt: skip
def test_loopback_is_told_from_its_lookalikes(host, inside):
    assert sys.modules["sitecustomize"].is_loopback(host) is inside


async def test_loopback_and_unix_sockets_work(tmp_path):
    async def greet(_reader, writer):
        writer.write(b"hello")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b"hello"
        writer.close()
    async with await asyncio.start_unix_server(greet, tmp_path / "s"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        assert await reader.read() == b"hello"
        writer.close()


def test_child_processes_inherit_the_switch():
    code = f"import socket; socket.create_connection(('{OUTSIDE}', 80), timeout=5)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == 1
    assert "OutsideLoopbackError" in child.stderr
