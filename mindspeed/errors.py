"""Errors of the trainer.

MindSpeedError
├── TrainerMissing      the trainer extra (torch) is not installed
└── WrongUsage          the command line cannot be read; carries the usage
"""

from __future__ import annotations


class MindSpeedError(Exception):
    """Root. ``str()`` is one line that names the thing and the way out."""


class TrainerMissing(MindSpeedError):
    """torch is not installed; the message is the pip line."""


class WrongUsage(MindSpeedError):
    """``usage`` is the usage of the command that was typed, several lines."""

    def __init__(self, reason: str, usage: str) -> None:
        super().__init__(reason)
        self.usage = usage
