"""A channel: what is told to many listeners, each at its own pace."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from shoal.api.events import KEPT, Channel


def test_a_listener_hears_what_came_behind_its_place() -> None:
    channel = Channel()
    channel.put(b"1")
    channel.put(b"2")
    assert channel.after(0, 0) == (2, [b"1", b"2"], False)
    assert channel.after(1, 0) == (2, [b"2"], False)
    assert channel.after(2, 0) == (2, [], False)


def test_who_waits_is_woken() -> None:
    channel = Channel()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(channel.after, 0, 30.0) for _ in range(3)]
        channel.put(b"now")
        assert [wait.result(5) for wait in waiting] == [(1, [b"now"], False)] * 3


def test_nobody_waits_for_longer_than_its_patience() -> None:
    started = time.monotonic()
    assert Channel().after(0, 0.05) == (0, [], False)
    assert 0.04 < time.monotonic() - started < 5


def test_after_the_end_nobody_waits() -> None:
    channel = Channel()
    channel.put(b"last", ended=True)
    assert channel.after(0, 30.0) == (1, [b"last"], True)
    assert channel.after(1, 30.0) == (1, [], True)


def test_a_slow_listener_misses_the_oldest_and_memory_is_bounded() -> None:
    channel = Channel()
    for n in range(1_000):
        channel.put(b"%d" % n)
    number, messages, _ = channel.after(0, 0)
    assert number == 1_000
    assert messages == [b"%d" % n for n in range(1_000 - KEPT, 1_000)]


def test_many_tellers_lose_nothing() -> None:
    channel = Channel()
    heard: list[bytes] = []

    def listen() -> None:
        number, ended = 0, False
        while not ended:
            number, messages, ended = channel.after(number, 5.0)
            heard.extend(messages)

    listener = threading.Thread(target=listen)
    listener.start()
    for n in range(40):
        channel.put(b"%d" % n, ended=n == 39)
    listener.join(10)
    assert heard == [b"%d" % n for n in range(40)]
