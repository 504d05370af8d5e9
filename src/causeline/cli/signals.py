"""Signals as calls in the running event loop."""

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress


@contextmanager
def on_signal(number: signal.Signals, action: Callable[[], object]) -> Generator[None]:
    """Call `action` in the running event loop when the signal comes; where loops know no signals, leave it as it is."""
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):
        loop.add_signal_handler(number, action)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(number)
