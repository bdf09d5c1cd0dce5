"""The public face of the backends: by name, and which of them work here."""

from agent.inference.lookup import backend, backend_names
from agent.inference.runtime_facts import runtime_facts

__all__ = ["backend", "backend_names", "runtime_facts"]
