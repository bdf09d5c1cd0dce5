"""What screens tell the application."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from fleet.http.api_types import RolloutView
from fleet.tui.view_models.spans import Line
from fleet.tui.view_models.verbs import Verb


@dataclass
class AskNow(Message):
    """The screen wants an answer without waiting for the next round."""


@dataclass
class Said(Message):
    """One line for the operator; it goes away by itself."""

    line: Line


@dataclass
class VerbConfirmed(Message):
    """The operator said yes."""

    verb: Verb
    rollout: RolloutView


@dataclass
class DeviceWanted(Message):
    device: str


@dataclass
class BundleWanted(Message):
    name: str
    version: str


@dataclass
class RolloutWanted(Message):
    rollout: str
