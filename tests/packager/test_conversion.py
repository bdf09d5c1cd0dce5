from __future__ import annotations

import threading

import pytest

from packager.conversion import Heartbeats
from packager.errors import ConverterError


def test_a_new_text_is_said_at_once_and_silence_every_fourth_beat() -> None:
    said: list[str] = []
    beat = Heartbeats(said.append, "v")
    for text in ("calibrating", "calibrating", "", "", "", "", "writing"):
        beat(text)
    assert said == ["v: calibrating", "v: calibrating, 4 s", "v: writing"]


def test_progress_bars_of_a_tool_are_not_passed_on() -> None:
    said: list[str] = []
    beat = Heartbeats(said.append, "v")
    beat("lowering:  50%|█████     | 3/6 [00:01<00:00,  3.31it/s]")
    assert said == []


def test_once_the_build_is_canceled_whoever_waits_for_a_process_hears_of_it() -> None:
    canceled = threading.Event()
    beat = Heartbeats(lambda _text: None, "v", canceled=canceled)
    beat("")
    canceled.set()
    with pytest.raises(ConverterError, match="interrupted"):
        beat("")


def test_log_lines_of_a_tool_are_not_passed_on() -> None:
    said: list[str] = []
    beat = Heartbeats(said.append, "v")
    for line in ("INFO: Created TensorFlow Lite XNNPACK delegate for CPU.", "WARNING: old", "W0000 00:00:17.1 x.cc] y"):
        beat(line)
    assert said == []
    beat("Informing the graph")
    assert said == ["v: Informing the graph"]
