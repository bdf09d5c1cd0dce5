"""See the package."""


class COCO:
    """Never made."""
