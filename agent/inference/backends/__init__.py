"""Drivers of the seam agent.inference.backend, one file per runtime. None imports its runtime at module level."""
