"""The fleet's MQTT broker: the seams (``broker.py``, ``link.py``), their drivers, supervision of child processes."""
