from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from agent.config import DownloadConfig
from agent.disk import RealDisk
from agent.errors import SourceFailed, UpdateError, UpdateInterrupted
from agent.update.archive_source import ArchiveSource
from agent.update.blob_source import BlobSource
from agent.update.download import Downloader, Pacing
from agent.update.registry_source import RegistrySource, make_session
from agent.update.slots import Slots
from edge_contracts import oci
from tests.simulators.hostile_registry import Registry, serving

BODY = random.Random(5).randbytes(300_000)
BLOB = oci.sha256_digest(BODY)
CONFIG = DownloadConfig(first_retry_s=0.001, longest_retry_s=0.002, stall_timeout_s=0.4, connect_timeout_s=1.0)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry({BLOB: BODY})) as running:
        yield running


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    return Slots(tmp_path, RealDisk())


class Fetch:
    """One download, as a new process would make it on the same folder."""

    def __init__(self, slots: Slots, registry: Registry, config: DownloadConfig = CONFIG) -> None:
        self.slots = slots
        self.config = config
        session = make_session(config, None)
        self.source: BlobSource = RegistrySource(registry.url, "digits", session, config, time.monotonic)
        self.pauses: list[float] = []

    def __call__(
        self, *, interrupt: Callable[[], bool] = lambda: False, sources: list[BlobSource] | None = None
    ) -> None:
        pacing = Pacing(time.monotonic, lambda seconds, _: self.pauses.append(seconds), random.Random(1))
        downloader = Downloader(self.slots, RealDisk(), self.config, pacing)
        downloader.blob(sources or [self.source], BLOB, len(BODY), lambda _: None, interrupt)


def check(slots: Slots) -> None:
    assert slots.blob_path(BLOB).read_bytes() == BODY
    assert not list(slots.downloads.glob("*"))


def part_of(slots: Slots, data: bytes, tag: str | None = '"1"') -> None:
    """An earlier run got this far."""
    slots.downloads.mkdir(parents=True)
    (slots.downloads / f"{BLOB[7:]}.part").write_bytes(data)
    (slots.downloads / f"{BLOB[7:]}.json").write_bytes(msgspec.json.encode({"tag": tag}))


def test_a_blob_is_fetched_once(slots: Slots, registry: Registry) -> None:
    Fetch(slots, registry)()
    Fetch(slots, registry)()
    check(slots)
    assert len(registry.seen) == 1


def test_a_broken_connection_is_resumed_where_it_broke(slots: Slots, registry: Registry) -> None:
    registry.cut_after, registry.cuts = 100_000, 2
    Fetch(slots, registry)()
    check(slots)
    assert registry.ranges() == [None, "bytes=100000-", "bytes=200000-"]


def test_a_download_goes_on_after_a_restart(slots: Slots, registry: Registry) -> None:
    part_of(slots, BODY[:123_456])
    Fetch(slots, registry)()
    check(slots)
    assert registry.ranges() == ["bytes=123456-"]
    assert registry.sent_bytes == len(BODY) - 123_456


def test_an_interrupt_keeps_what_is_here_for_the_next_time(slots: Slots, registry: Registry) -> None:
    calls = iter([False, False, True])
    with pytest.raises(UpdateInterrupted):
        Fetch(slots, registry)(interrupt=lambda: next(calls, True))
    have = (slots.downloads / f"{BLOB[7:]}.part").stat().st_size
    assert have > 0
    Fetch(slots, registry)()
    check(slots)
    assert registry.ranges()[-1] == f"bytes={have}-"


def test_a_server_that_ignores_the_range_is_not_appended(slots: Slots, registry: Registry) -> None:
    part_of(slots, BODY[:1000])
    registry.ignore_range = True
    Fetch(slots, registry)()
    check(slots)


def test_an_answer_from_another_offset_is_not_appended(slots: Slots, registry: Registry) -> None:
    part_of(slots, BODY[:1000])
    registry.wrong_offset = True
    Fetch(slots, registry)()
    check(slots)
    assert registry.ranges() == ["bytes=1000-", None]


def test_bytes_that_changed_at_the_source_are_fetched_anew(slots: Slots, registry: Registry) -> None:
    part_of(slots, b"x" * 1000, tag='"0"')
    Fetch(slots, registry)()
    check(slots)


def test_a_part_without_a_tag_that_is_something_else_is_fetched_anew(slots: Slots, registry: Registry) -> None:
    part_of(slots, b"x" * 1000, tag=None)
    registry.etag = None
    Fetch(slots, registry)()
    check(slots)
    assert registry.ranges() == ["bytes=1000-", None]


def test_a_complete_part_is_checked_and_taken_without_a_request(slots: Slots, registry: Registry) -> None:
    part_of(slots, BODY)
    Fetch(slots, registry)()
    check(slots)
    assert registry.seen == []


def test_a_complete_part_with_wrong_bytes_is_fetched_anew(slots: Slots, registry: Registry) -> None:
    part_of(slots, b"x" * len(BODY))
    Fetch(slots, registry)()
    check(slots)


def test_a_part_that_is_too_long_is_fetched_anew(slots: Slots, registry: Registry) -> None:
    part_of(slots, BODY + b"more")
    Fetch(slots, registry)()
    check(slots)


def test_a_server_without_ranges_is_asked_for_everything(slots: Slots, registry: Registry) -> None:
    part_of(slots, BODY[:1000])
    registry.no_range = True
    Fetch(slots, registry)()
    check(slots)


def test_corrupt_bytes_are_tried_again_and_given_up_after_three_times(slots: Slots, registry: Registry) -> None:
    registry.corrupt = 2
    Fetch(slots, registry)()
    check(slots)
    slots.blob_path(BLOB).unlink()
    registry.corrupt = 100
    with pytest.raises(UpdateError, match="have changed") as caught:
        Fetch(slots, registry)()
    assert caught.value.code == "digest"
    assert not list(slots.downloads.glob("*.part"))


def test_more_bytes_than_the_manifest_says_are_refused(slots: Slots, registry: Registry) -> None:
    registry.blobs[BLOB] = BODY + b"and more"
    with pytest.raises(UpdateError, match="longer than"):
        Fetch(slots, registry)()


def test_a_length_that_lies_is_resumed_from_what_came(slots: Slots, registry: Registry) -> None:
    registry.lie_length = 50
    Fetch(slots, registry)()
    check(slots)


def test_a_compressed_answer_is_refused(slots: Slots, registry: Registry) -> None:
    registry.gzip = True
    fetch = Fetch(slots, registry)
    with pytest.raises(UpdateInterrupted):
        fetch(interrupt=lambda: len(fetch.pauses) >= 3)
    assert not slots.has(BLOB)


@pytest.mark.parametrize("fault", ["stall", "drip"])
def test_a_server_that_stalls_is_left_and_asked_again(slots: Slots, registry: Registry, fault: str) -> None:
    setattr(registry, fault, True)
    fetch = Fetch(slots, registry)
    with pytest.raises(UpdateInterrupted):
        fetch(interrupt=lambda: len(fetch.pauses) >= 1)
    setattr(registry, fault, False)
    fetch()
    check(slots)


def test_server_errors_are_waited_out_with_growing_pauses(slots: Slots, registry: Registry) -> None:
    registry.status = [503, 500, 429, 502]
    fetch = Fetch(slots, registry, replace_config(first_retry_s=1.0, longest_retry_s=4.0))
    fetch()
    check(slots)
    assert len(fetch.pauses) == 4
    assert all(pause <= ceiling for pause, ceiling in zip(fetch.pauses, (1, 2, 4, 4), strict=True))


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_ends_the_download_with_the_servers_answer(slots: Slots, registry: Registry, status: int) -> None:
    registry.status = [status, status]
    with pytest.raises(SourceFailed, match=str(status)):
        Fetch(slots, registry)()


def test_a_second_source_takes_over_when_the_first_has_nothing(slots: Slots, registry: Registry) -> None:
    with serving(Registry()) as empty:
        mirror = RegistrySource(empty.url, "digits", make_session(CONFIG, None), CONFIG, time.monotonic)
        fetch = Fetch(slots, registry)
        fetch(sources=[mirror, fetch.source])
    check(slots)


def test_a_server_that_is_away_is_waited_for(slots: Slots, registry: Registry) -> None:
    away = RegistrySource("http://127.0.0.1:1", "digits", make_session(CONFIG, None), CONFIG, time.monotonic)
    fetch = Fetch(slots, registry)
    with pytest.raises(UpdateInterrupted):
        fetch(sources=[away], interrupt=lambda: len(fetch.pauses) >= 2)


def test_a_manifest_that_is_no_blob_to_the_registry_is_asked_for_as_manifest(slots: Slots, registry: Registry) -> None:
    registry.no_blob_manifests = frozenset({BLOB})
    Fetch(slots, registry)()
    check(slots)


def test_a_bandwidth_limit_is_paced(slots: Slots, registry: Registry) -> None:
    fetch = Fetch(slots, registry, replace_config(max_bytes_per_s=1_000_000))
    fetch()
    check(slots)
    assert sum(fetch.pauses) > 0.2


def test_a_full_disk_leaves_no_part_behind(slots: Slots, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: RealDisk, built: Path, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RealDisk, "publish", full)
    with pytest.raises(UpdateError, match="full") as caught:
        Fetch(slots, registry)()
    assert caught.value.code == "no_space"
    assert not list(slots.downloads.glob("*"))


def test_small_blobs_are_bounded_and_checked(slots: Slots, registry: Registry) -> None:
    pacing = Pacing(time.monotonic, lambda *_: None, random.Random(1))
    downloader = Downloader(slots, RealDisk(), CONFIG, pacing)
    source = Fetch(slots, registry).source
    assert downloader.index([source], BLOB, lambda: False) == BODY
    other = oci.sha256_digest(b"other")
    registry.blobs[other] = b"not that"
    with pytest.raises(UpdateError, match="changed"):
        downloader.small([source], other, lambda: False)
    huge = b"x" * (5 * 1024 * 1024)
    registry.blobs[oci.sha256_digest(huge)] = huge
    with pytest.raises(UpdateError, match="over"):
        downloader.small([source], oci.sha256_digest(huge), lambda: False)


def test_credentials_are_sent_and_not_shown(registry: Registry) -> None:
    class Login:
        device, password = "cam-1", "s3cret"

    session = make_session(CONFIG, Login())
    assert session.auth == ("cam-1", "s3cret")
    source = RegistrySource(registry.url, "digits", session, CONFIG, time.monotonic)
    registry.status = [403, 403]
    with pytest.raises(SourceFailed) as caught:
        source.open(BLOB, 0, None)
    assert "s3cret" not in str(caught.value)


def test_a_file_that_is_gone_is_a_permanent_refusal(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed) as caught:
        ArchiveSource(tmp_path / "gone.mindie").index(BLOB, 1000)
    assert not caught.value.is_transient


def replace_config(**changes: float) -> DownloadConfig:
    return msgspec.structs.replace(CONFIG, **changes)
