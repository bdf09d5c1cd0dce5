"""Data: one TOML file for each converter that lives in an environment of its own; read by `packager.toolchain`."""
