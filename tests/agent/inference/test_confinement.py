from __future__ import annotations

import os
import threading

import pytest

from agent.inference.confinement import confine_threads


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs to stray to")
def test_a_thread_that_strays_is_put_back_and_one_that_is_pinned_within_stays_pinned() -> None:
    before = os.sched_getaffinity(0)
    first, second = sorted(before)[:2]
    ready, end = threading.Barrier(3), threading.Event()
    threads: dict[str, int] = {}

    def pinned(name: str, cpus: set[int]) -> None:
        threads[name] = threading.get_native_id()
        os.sched_setaffinity(0, cpus)
        ready.wait()
        end.wait()

    workers = [
        threading.Thread(target=pinned, args=("stray", {second})),
        threading.Thread(target=pinned, args=("good", {first})),
    ]
    for worker in workers:
        worker.start()
    ready.wait()
    try:
        os.sched_setaffinity(0, {first})
        assert confine_threads() >= 1
        assert os.sched_getaffinity(threads["stray"]) == {first}
        assert os.sched_getaffinity(threads["good"]) == {first}
        os.sched_setaffinity(0, before)
        assert confine_threads() == 0
        assert os.sched_getaffinity(threads["good"]) == {first}
    finally:
        os.sched_setaffinity(0, before)
        end.set()
        for worker in workers:
            worker.join()
