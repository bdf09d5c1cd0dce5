from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.broker import child as launcher
from fleet.broker.backoff import Backoff
from fleet.broker.supervised_child import SupervisedChild
from tests.fleet.broker.mqtt_rig import gone
from tests.suites.broker_suite import eventually

pytestmark = pytest.mark.system

QUICK = Backoff(first_s=0.01, cap_s=0.02, stable_s=60.0)
SLEEPS = ["/bin/sh", "-c", "echo ready; exec sleep 300"]


@pytest.fixture
def children() -> Iterator[list[SupervisedChild]]:
    made: list[SupervisedChild] = []
    yield made
    for child in made:
        child.stop(grace_s=0.1)


def started(children: list[SupervisedChild], argv: list[str], backoff: Backoff = QUICK) -> SupervisedChild:
    child = SupervisedChild("child", argv, backoff=backoff)
    children.append(child)
    child.start()
    return child


def test_a_confirmed_child_that_dies_is_started_again(children: list[SupervisedChild]) -> None:
    child = started(children, SLEEPS)
    child.confirm()
    eventually(lambda: "ready" in child.last_lines())
    first = child.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually(lambda: child.pid not in (None, first))
    assert gone(first)


def test_a_child_that_ends_before_it_is_confirmed_is_given_up_and_its_words_are_kept(
    children: list[SupervisedChild],
) -> None:
    child = started(children, ["/bin/sh", "-c", "echo wrong configuration >&2; exit 3"])
    eventually(lambda: child.given_up)
    assert child.last_lines() == ("wrong configuration",)
    assert child.pid is None


def test_a_program_that_is_not_there_is_given_up_with_its_name(children: list[SupervisedChild]) -> None:
    child = started(children, ["/nowhere/broker"])
    eventually(lambda: child.given_up)
    assert "/nowhere/broker" in child.last_lines()[-1]


def test_stop_interrupts_the_wait_before_a_restart(children: list[SupervisedChild]) -> None:
    child = started(children, SLEEPS, Backoff(first_s=3600.0, cap_s=3600.0, stable_s=60.0))
    child.confirm()
    eventually(lambda: "ready" in child.last_lines())
    pid = child.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: child.pid is None)
    child.stop()
    assert child.pid is None


def test_a_child_deaf_to_sigterm_is_killed(children: list[SupervisedChild]) -> None:
    child = started(children, [sys.executable, "-c", DEAF])
    eventually(lambda: "ready" in child.last_lines())
    pid = child.pid
    assert pid is not None
    child.stop(grace_s=0.1)
    assert gone(pid)


DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(300)"


def test_a_child_whose_parent_died_before_the_binding_does_not_run(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    command = [sys.executable, "-I", "-S", launcher.__file__, "1", "/usr/bin/touch", str(trace)]
    assert os.getpid() != 1
    assert subprocess.run(command, check=False).returncode == 1
    assert not trace.exists()
