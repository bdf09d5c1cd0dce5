"""From MQTT into the store: decoded, gathered, committed, then acknowledged."""
