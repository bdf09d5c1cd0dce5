"""Errors of the contracts: untrusted bytes that do not become a typed value.

ContractError
├── MalformedMessage      a message, file or JSON document is not what it claims to be
├── MalformedTopic        an MQTT topic outside the scheme, or a name that cannot stand in one
├── MalformedBundle       a bundle file, index, manifest or blob is wrong
│   ├── DigestMismatch    bytes that do not have the digest or size they are named by
│   └── UnknownFormat     a bundle written by a newer format than this code reads
└── MalformedTensor       tensor bytes, shape and dtype do not agree
"""

from __future__ import annotations


class ContractError(Exception):
    """Root of every error raised while parsing what came from outside."""


class MalformedMessage(ContractError):
    """``what`` names the document and, where known, the field; ``reason`` says what is wrong with it."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what = what
        self.reason = reason


class MalformedTopic(ContractError):
    """The topic (or the name meant for one) and the reason."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic[:200]!r}: {reason}")
        self.topic = topic
        self.reason = reason


class MalformedBundle(ContractError):
    """``where`` names the file, member, manifest or blob; ``reason`` says what is wrong and the way out."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


class DigestMismatch(MalformedBundle):
    """Bytes differ from the digest or size that names them: changed, cut short or mixed up."""


class UnknownFormat(MalformedBundle):
    """The bundle's format version is newer than this code; the message names the version that is needed."""


class MalformedTensor(ContractError):
    """``tensor`` is the tensor's name, ``reason`` what does not agree."""

    def __init__(self, tensor: str, reason: str) -> None:
        super().__init__(f"tensor {tensor!r}: {reason}")
        self.tensor = tensor
        self.reason = reason
