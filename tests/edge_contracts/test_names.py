from __future__ import annotations

import pytest

from edge_contracts import names
from edge_contracts.errors import MalformedMessage


def test_versions_sort_by_semver_precedence() -> None:
    in_order = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.10",
        "1.2.0",
    ]
    assert sorted(sorted(in_order), key=names.version_precedence) == in_order


@pytest.mark.parametrize(
    "version", ["1", "1.0", "v1.0.0", "01.0.0", "1.0.0-", "1.0.0 ", "", "1.0.0\n", "1.0٣.0", "1.0.0-" + "a" * 100]
)
def test_what_is_no_semver_is_refused_naming_the_field(version: str) -> None:
    with pytest.raises(MalformedMessage, match="version"):
        names.semantic_version(version)


@pytest.mark.parametrize("name", ["Detector", "a/b", "..", "a..b", "-a", "", "a" * 65, "détecteur"])
def test_a_bundle_name_that_a_registry_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(MalformedMessage, match="name"):
        names.bundle_name(name)


@pytest.mark.parametrize("name", ["digits", "yolo-v8.n", "a_b", "0"])
def test_a_registry_name_is_accepted(name: str) -> None:
    assert names.bundle_name(name) == name
