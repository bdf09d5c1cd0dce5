"""The commands of ``mindie``: one file each, ``register(subparsers, common)``, a handler ``args.run(args) -> int``."""
