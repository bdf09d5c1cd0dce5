"""A bundle laid out on disk for runtimes to open: what selection, trials and the engine read.

    FOLDER/index.json            the bundle index, its exact bytes (its sha256 is the bundle's digest)
    FOLDER/metadata/<hex>        every JSON blob the index leads to
    FOLDER/goldens.bin           the goldens blob
    FOLDER/variants/<name>/...   each fetched variant's files under their own names

Whoever lays it out (agent.update.slots) has verified every byte. Nothing here is written after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edge_contracts.bundle import Bundle, Variant, parse_bundle
from edge_contracts.errors import MalformedBundle


@dataclass(frozen=True)
class BundleFolder:
    """A parsed bundle and the folder that holds its files."""

    folder: Path
    bundle: Bundle

    @property
    def goldens_file(self) -> Path:
        """The goldens blob (edge_contracts.golden)."""
        return self.folder / "goldens.bin"

    def variant_folder(self, name: str) -> Path:
        """Where the files of a variant lie; it may be absent when the variant was not fetched."""
        return self.folder / "variants" / name

    def variants_present(self) -> list[Variant]:
        """Variants whose entry file is here."""
        return [v for v in self.bundle.variants if (self.variant_folder(v.name) / v.spec.entry).is_file()]


def open_bundle_folder(folder: Path) -> BundleFolder:
    """Read index and metadata. Raises MalformedBundle naming the folder; OSError becomes MalformedBundle too."""

    def read_blob(digest: str) -> bytes:
        return (folder / "metadata" / digest.removeprefix("sha256:")).read_bytes()

    try:
        return BundleFolder(folder, parse_bundle((folder / "index.json").read_bytes(), read_blob))
    except OSError as error:
        raise MalformedBundle(str(folder), f"is not a laid-out bundle: {error.strerror}") from error
