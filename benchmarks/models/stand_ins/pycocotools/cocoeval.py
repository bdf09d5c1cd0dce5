"""See the package."""


class COCOeval:
    """Never made."""
