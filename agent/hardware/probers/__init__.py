"""One prober per part of the facts; agent.hardware.prober has the contract, agent.hardware.probe the list."""
