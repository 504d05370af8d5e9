"""No test talks to anything but this machine.

Python imports a module of this name at start, so putting this folder on PYTHONPATH covers the processes a
test starts as well as the test run itself (tests/conftest.py does that). An audit hook sees every socket,
also those a C extension opens through the socket module, and cannot be undone.
"""

import sys

refused: list[str] = []

_CONNECTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_LOOKUPS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
_ANY = {"", "0.0.0.0", "::"}  # an address to listen on, not one to reach


class OutsideLoopbackError(OSError):
    """A test tried to reach another machine."""


def is_loopback(host: object) -> bool:
    """True for the names and numbers of this machine. `host` is text, bytes or None."""
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode("utf-8", "replace")
    numbers = str(host).removeprefix("::ffff:").split(".")
    return host in {"localhost", "::1"} or (numbers[0] == "127" and all(number.isdigit() for number in numbers))


def _watch(event: str, args: tuple) -> None:
    if event in _CONNECTS:
        address = args[1]
        # Unix sockets have a path for an address; sendmsg on a connected socket has none.
        if not isinstance(address, tuple) or is_loopback(address[0]):
            return
        target = address[0]
    elif event in _LOOKUPS:
        target = args[0]
        if target is None or target in _ANY or is_loopback(target):
            return
    else:
        return
    refused.append(f"{event} {target}")
    raise OutsideLoopbackError(f"{event} {target}: tests may only use loopback; start a local server instead")


def forbid() -> None:
    """Install the hook, once for this process."""
    if not getattr(sys, "_causeline_loopback_only", False):
        sys._causeline_loopback_only = True  # pyright: ignore[reportAttributeAccessIssue]
        sys.addaudithook(_watch)


forbid()
