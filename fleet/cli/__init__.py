"""The commands of ``mindfleet``; each module registers its own and imports what it needs only when it runs."""
