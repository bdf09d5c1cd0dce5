"""Errors of the trainer.

MindSpeedError
└── TrainerMissing      the trainer extra (torch) is not installed
"""

from __future__ import annotations


class MindSpeedError(Exception):
    """Root. ``str()`` is one line that names the thing and the way out."""


class TrainerMissing(MindSpeedError):
    """torch is not installed; the message is the pip line."""
