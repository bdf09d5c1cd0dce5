from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from edge_contracts.archive import open_bundle
from edge_contracts.errors import MalformedBundle
from packager.bundle_difference import difference, lines
from packager.distribution import Transfer, pull, push
from packager.errors import RecipeRefused, RegistryFailed
from packager.registry_client import RegistryClient, parse_reference
from tests.packager.registry_simulator import Registry, serving
from tests.simulators.bundle_factory import mixed_bundle, stub_bundle


def client(base: str, **more: object) -> RegistryClient:
    reference = parse_reference(f"{base}/models/affine")
    return RegistryClient(reference, lambda _seconds: None, **more)  # type: ignore[arg-type]


def ignore(_text: str) -> None:
    pass


def sent(base: str, bundle: Path, **more: object) -> Transfer:
    return push(open_bundle(bundle), client(base, **more), "1.0.0", ignore)


def test_what_was_pushed_comes_back_byte_for_byte(tmp_path: Path) -> None:
    bundle = stub_bundle(tmp_path / "a.mindie")
    with serving(Registry()) as base:
        sent(base, bundle)
        pull(client(base), "1.0.0", tmp_path / "b.mindie", ignore)
    assert (tmp_path / "b.mindie").read_bytes() == bundle.read_bytes()


def test_a_second_push_sends_no_blob(tmp_path: Path) -> None:
    bundle = stub_bundle(tmp_path / "a.mindie")
    with serving(Registry()) as base:
        first, second = sent(base, bundle), sent(base, bundle)
    assert first.sent > 0
    assert (second.sent, second.sent_bytes) == (0, 0)


def test_an_upload_that_breaks_goes_on_where_it_stopped(tmp_path: Path) -> None:
    bundle = stub_bundle(tmp_path / "a.mindie")
    registry = Registry(break_upload_after=300)
    with serving(registry) as base:
        sent(base, bundle, chunk_bytes=1000)
        assert registry.break_upload_after is None
        pull(client(base), "1.0.0", tmp_path / "b.mindie", ignore)
    assert (tmp_path / "b.mindie").read_bytes() == bundle.read_bytes()


@pytest.mark.parametrize("ignore_range", [False, True])
def test_a_download_that_breaks_is_resumed_or_begun_again(tmp_path: Path, ignore_range: bool) -> None:
    bundle = stub_bundle(tmp_path / "a.mindie")
    registry = Registry(ignore_range=ignore_range)
    goldens = open_bundle(bundle).bundle.goldens
    with serving(registry) as base:
        sent(base, bundle)
        registry.break_download_after = 200
        client(base).download(goldens.digest, goldens.size, tmp_path / "goldens")
    assert registry.break_download_after is None
    assert (tmp_path / "goldens").read_bytes() == registry.blobs[goldens.digest]


def test_changed_bytes_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    registry = Registry()
    out = tmp_path / "out"
    out.mkdir()
    with serving(registry) as base:
        sent(base, stub_bundle(tmp_path / "a.mindie"))
        registry.change_bytes = True
        with pytest.raises((RegistryFailed, MalformedBundle), match="changed bytes"):
            pull(client(base), "1.0.0", out / "b.mindie", ignore)
    assert list(out.iterdir()) == []


def test_a_tag_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with serving(Registry()) as base, pytest.raises(RegistryFailed, match=r"manifests/9\.9\.9: 404"):
        pull(client(base), "9.9.9", tmp_path / "b.mindie", ignore)


def test_a_registry_that_wants_a_credential_gets_it_or_says_so(tmp_path: Path) -> None:
    bundle = stub_bundle(tmp_path / "a.mindie")
    with serving(Registry(token="secret")) as base:
        with pytest.raises(RegistryFailed, match="wants a credential: --token-file"):
            sent(base, bundle)
        assert sent(base, bundle, token="secret").sent > 0


@pytest.mark.parametrize("text", ["x", "ftp://h/r", "http://h", "http://h/UPPER", "http://u:p@h/r", "http://h/r?x=1"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RecipeRefused, match="URL"):
        parse_reference(text)


def test_an_address_has_host_repository_and_tag() -> None:
    reference = parse_reference("oci://registry.example:5000/a/b:1.0")
    assert (reference.base, reference.repository, reference.tag) == ("https://registry.example:5000", "a/b", "1.0")


def test_only_new_blobs_count_between_two_versions(tmp_path: Path) -> None:
    old = open_bundle(stub_bundle(tmp_path / "a.mindie")).bundle
    retold = open_bundle(stub_bundle(tmp_path / "b.mindie", version="1.0.1")).bundle
    told = difference(old, retold)
    weights = sum(file.size for variant in retold.variants for file in variant.files)
    assert told["variants"][0]["change"] == "same"
    assert told["transfer_bytes"] < told["total_bytes"] - weights
    assert lines(difference(old, old)) == [f"the same bundle: {old.digest}"]


def test_variants_that_came_went_or_changed_are_named(tmp_path: Path) -> None:
    old = open_bundle(mixed_bundle(tmp_path / "a.mindie", {"one": {}, "two": {}})).bundle
    new = open_bundle(mixed_bundle(tmp_path / "b.mindie", {"two": {"delay_ms": 1}, "three": {}})).bundle
    changes = {item["name"]: item["change"] for item in difference(old, new)["variants"]}
    assert changes == {"one": "removed", "two": "changed", "three": "added"}


@pytest.fixture
def docker_registry(tmp_path: Path) -> Iterator[str]:
    """Debian's registry, which nobody here wrote."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "registry.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/store}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    with subprocess.Popen(
        [program, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        try:
            base = f"http://127.0.0.1:{port}"
            _wait_until_up(base)
            yield base
        finally:
            child.terminate()


def _wait_until_up(base: str) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            requests.get(f"{base}/v2/", timeout=1)
        except requests.ConnectionError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("docker-registry does not answer")


def test_a_foreign_registry_keeps_the_bundle_in_chunks_and_gives_it_back(docker_registry: str, tmp_path: Path) -> None:
    bundle = stub_bundle(tmp_path / "a.mindie")
    first = sent(docker_registry, bundle, chunk_bytes=1000)
    assert first.sent > 0
    pull(client(docker_registry), "1.0.0", tmp_path / "b.mindie", ignore)
    pull(client(docker_registry), first.digest, tmp_path / "c.mindie", ignore)
    assert (tmp_path / "b.mindie").read_bytes() == (tmp_path / "c.mindie").read_bytes() == bundle.read_bytes()
    assert sent(docker_registry, bundle).sent == 0
