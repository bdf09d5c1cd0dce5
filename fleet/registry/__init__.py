"""Bundles' bytes over HTTP: the part of the OCI distribution specification that push and pull need."""
