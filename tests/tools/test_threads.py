"""A function that never returns costs its thread and nothing else."""

import asyncio
import os
import threading
import time

import pytest

from causeline.tools.tool_threads import LeftRunning, Threads


async def test_no_more_threads_than_wanted_or_allowed():
    threads, names = Threads(limit=3), set()

    def work():
        names.add(threading.current_thread().name)
        time.sleep(0.002)

    for _ in range(5):
        await threads.call(work)
    assert len(names) <= 2  # a thread that has just delivered may not have put itself back yet
    await asyncio.gather(*(threads.call(work) for _ in range(30)))
    assert 2 <= len(names) <= 3


async def test_a_lost_thread_is_replaced_and_ends_when_its_function_does():
    threads, begun, release, ended = Threads(limit=1), threading.Event(), threading.Event(), threading.Event()

    def stuck():
        begun.set()
        release.wait(30)
        ended.set()

    waiting = asyncio.create_task(threads.call(stuck))
    assert await asyncio.to_thread(begun.wait, 30)
    waiting.cancel()
    with pytest.raises(LeftRunning) as caught:
        await waiting
    assert await asyncio.wait_for(threads.call(lambda: 5), 30) == 5
    alive = {thread.name: thread for thread in threading.enumerate()}[caught.value.thread]
    release.set()
    alive.join(30)
    assert ended.is_set()
    assert not alive.is_alive()
    assert await threads.call(lambda: 6) == 6


async def test_a_call_cancelled_before_it_began_never_runs():
    threads, release, ran = Threads(limit=1), threading.Event(), []
    first = asyncio.create_task(threads.call(lambda: release.wait(10)))
    second = asyncio.create_task(threads.call(lambda: ran.append(1)))
    await asyncio.sleep(0.02)
    second.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await second
    assert not isinstance(caught.value, LeftRunning)
    release.set()
    assert await first
    await threads.call(lambda: None)
    assert ran == []


async def test_errors_arrive_as_they_are():
    error = ValueError("x")

    def fail():
        raise error

    with pytest.raises(ValueError, match="x") as caught:
        await Threads().call(fail)
    assert caught.value is error


def test_one_pool_serves_several_loops_one_after_the_other():
    threads = Threads()
    assert [asyncio.run(threads.call(lambda number=number: number)) for number in range(3)] == [0, 1, 2]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_starts_its_own_threads():
    threads = Threads()
    asyncio.run(threads.call(lambda: None))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = asyncio.run(asyncio.wait_for(threads.call(lambda: 0), 30))
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
