"""Pure decisions of the fleet: no I/O, no clock; time comes in as Unix milliseconds."""
