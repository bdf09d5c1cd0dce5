"""What crosses a process boundary between MindEdge applications: data, topics, names. No threads, clocks or network.

Light enough for a Raspberry Pi: only msgspec, and NumPy solely in :mod:`edge_contracts.parity`, which the daemon never
imports.
"""
