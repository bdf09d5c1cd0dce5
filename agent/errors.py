"""Errors of the device agent.

AgentError
├── ConfigurationError        a file, variable or flag of the agent's own configuration is wrong
├── DataFolderLocked          another process holds DATA/lock
├── BackendError              a runtime refuses a model, fails in a run, or is not what it claims
│   ├── RuntimeMissing        the runtime is not installed; carries the pip line
│   └── ProviderFellBack      the effective provider is not the one that was asked for
├── TrialError                a trial process gave no usable result (crashed, hung, out of memory)
│   └── SelectionCanceled     we were told to stop; no evidence of anything
├── NoCandidate               no variant can run here and pass; carries the evidence
├── ServingError              server or engine cannot do what was asked
│   ├── PortInUse             the address is taken; names it
│   ├── LoadFailed            the engine could not load or warm up a model
│   └── RequestRefused        a client's request is answered with an error; carries the HTTP status
├── UpdateError               a deployment cannot go on; carries an error code of edge_contracts.messages
│   └── SourceFailed          a source of blobs gives nothing usable; says whether trying again makes sense
├── UpdateInterrupted         an effect stopped since it was asked to: deadline, newer wish, cancel or shutdown
└── LinkError                 enrolment, broker or server: refused, unreachable, misconfigured
"""

from __future__ import annotations

from edge_contracts.evidence import ChoiceEvidence


class AgentError(Exception):
    """Root. ``str()`` is one line that names the thing and the way out."""


class ConfigurationError(AgentError):
    """``where`` names the file, variable or flag."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


class DataFolderLocked(AgentError):
    """Another mindie process holds DATA/lock."""


class BackendError(AgentError):
    """A runtime refused a model or failed in a run; ``backend`` names it."""

    def __init__(self, backend: str, reason: str) -> None:
        super().__init__(f"{backend}: {reason}")
        self.backend = backend
        self.reason = reason


class RuntimeMissing(BackendError):
    """The runtime is not installed; ``pip_line`` installs it."""

    def __init__(self, backend: str, pip_line: str) -> None:
        super().__init__(backend, f"is not installed: {pip_line}")
        self.pip_line = pip_line


class ProviderFellBack(BackendError):
    """Asked for ``wanted``, the runtime uses ``effective``: a silent fall-back counts as failure."""

    def __init__(self, backend: str, wanted: str, effective: str) -> None:
        super().__init__(backend, f"asked for {wanted}, runs on {effective}")
        self.wanted = wanted
        self.effective = effective


class TrialError(AgentError):
    """A trial ended without a result. ``is_evidence`` is False when we ended it ourselves (kill, shutdown).

    kind: "crash" (died by a signal), "hang", "memory", or "failed" (the runtime reported an error).
    """

    def __init__(self, reason: str, *, is_evidence: bool = True, kind: str = "failed") -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_evidence = is_evidence
        self.kind = kind


class SelectionCanceled(TrialError):
    """The one who asked for a choice or a proof canceled it; no evidence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, is_evidence=False)


class NoCandidate(AgentError):
    """Nothing of the bundle can run here and pass. ``evidence`` lists every candidate with its reason.

    ``code`` is the error code for reports: "incompatible" (nothing fits), "golden_mismatch" (it runs, the answers are
    wrong), "crash", or "no_candidate" (several of these).
    """

    def __init__(self, reason: str, code: str, evidence: ChoiceEvidence | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
        self.evidence = evidence


class ServingError(AgentError):
    """Server or engine cannot do what was asked."""


class PortInUse(ServingError):
    """``address`` is taken by another process."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} is in use by another process: choose another with --port")
        self.address = address


class LoadFailed(ServingError):
    """The engine could not load or warm up ``model``; what served before still does."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"model {model}: {reason}")
        self.model = model
        self.reason = reason


class RequestRefused(ServingError):
    """A request of the data plane is answered with ``status`` (400, 401, 404, 405, 413, 500, 503) and one line."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class UpdateError(AgentError):
    """A deployment cannot go on. ``code`` is one of the codes of edge_contracts.messages.ReportedModel."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class SourceFailed(UpdateError):
    """A source of blobs gave nothing usable. ``is_transient``: the same request may work later."""

    def __init__(self, reason: str, *, is_transient: bool) -> None:
        super().__init__("download", reason)
        self.is_transient = is_transient


class UpdateInterrupted(AgentError):
    """An effect stopped since its ``interrupt`` said so; the executor knows why. Nothing half done is visible."""


class LinkError(AgentError):
    """Enrolment, broker or server: refused, unreachable or misconfigured."""
