from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edge_contracts import oci
from edge_contracts.archive import open_bundle
from fleet.errors import AccessDenied
from fleet.registry import app as registry_app
from fleet.registry.app import RegistryApp
from fleet.registry.blob_store import BlobStore
from fleet.services.access import Access
from tests.fleet.asgi_client import AsgiClient
from tests.simulators.bundle_factory import stub_bundle

TOKEN = "operator-token"
DEVICE = {"Authorization": "Basic " + base64.b64encode(b"cam-1:secret").decode()}
BLOB = os.urandom(700_001)
DIGEST = oci.sha256_digest(BLOB)
NOWHERE = oci.sha256_digest(b"nowhere")


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    made = BlobStore(tmp_path / "registry", os.urandom)
    made.open()
    return made


@pytest.fixture
def ask(store: BlobStore) -> AsgiClient:
    access = Access(TOKEN, lambda device, password: (device, password) == ("cam-1", "secret"))
    return AsgiClient(RegistryApp(store, access), TOKEN)


def put(ask: AsgiClient, data: bytes = BLOB, digest: str = DIGEST) -> int:
    return ask("POST", f"/v2/digits/blobs/uploads/?digest={digest}", content=data).status_code


def test_a_blob_pushed_in_one_request_is_pulled_unchanged(ask: AsgiClient) -> None:
    assert put(ask) == 201
    answer = ask("GET", f"/v2/digits/blobs/{DIGEST}")
    assert answer.content == BLOB
    assert answer.headers["content-length"] == str(len(BLOB))
    assert answer.headers["etag"] == f'"{DIGEST}"'
    assert answer.headers["docker-content-digest"] == DIGEST


def test_a_head_tells_the_size_without_the_bytes(ask: AsgiClient) -> None:
    put(ask)
    answer = ask("HEAD", f"/v2/digits/blobs/{DIGEST}")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, str(len(BLOB)), b"")
    assert ask("HEAD", f"/v2/digits/blobs/{NOWHERE}").status_code == 404


def test_a_blob_pushed_in_pieces_can_be_looked_after_and_finished(ask: AsgiClient) -> None:
    location = ask("POST", "/v2/digits/blobs/uploads/").headers["location"]
    first = ask("PATCH", location, content=BLOB[:1000], headers={"Content-Range": "0-999"})
    assert (first.status_code, first.headers["range"]) == (202, "0-999")
    assert ask("GET", location).headers["range"] == "0-999"
    gap = ask("PATCH", location, content=BLOB[2000:], headers={"Content-Range": "2000-700000"})
    assert (gap.status_code, gap.headers["range"]) == (416, "0-999")
    assert ask("PATCH", location, content=BLOB[1000:5000]).status_code == 202
    assert ask("PUT", f"{location}?digest={DIGEST}", content=BLOB[5000:]).status_code == 201
    assert ask("GET", f"/v2/digits/blobs/{DIGEST}").content == BLOB


def test_bytes_with_another_digest_are_refused_and_leave_nothing(ask: AsgiClient, store: BlobStore) -> None:
    location = ask("POST", "/v2/digits/blobs/uploads/").headers["location"]
    answer = ask("PUT", f"{location}?digest={DIGEST}", content=BLOB[:-1])
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["code"] == "DIGEST_INVALID"
    assert store.size(DIGEST) is None
    assert ask("PUT", f"{location}?digest={DIGEST}", content=BLOB).json()["errors"][0]["code"] == "BLOB_UPLOAD_UNKNOWN"


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=1000-", 1000, None),
        ("bytes=-5", -5, None),
        ("bytes=699990-999999999", 699990, None),
    ],
)
def test_a_range_gives_exactly_those_bytes(ask: AsgiClient, asked: str, start: int, end: int | None) -> None:
    put(ask)
    answer = ask("GET", f"/v2/digits/blobs/{DIGEST}", headers={"Range": asked})
    assert answer.status_code == 206
    assert answer.content == BLOB[start:end]
    first = start if start >= 0 else len(BLOB) + start
    last = first + len(answer.content) - 1
    assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(BLOB)}"


def test_a_range_beyond_the_end_is_416_with_the_size(ask: AsgiClient) -> None:
    put(ask)
    answer = ask("GET", f"/v2/digits/blobs/{DIGEST}", headers={"Range": f"bytes={len(BLOB)}-"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{len(BLOB)}")


@pytest.mark.parametrize("asked", ["bytes=1-2,4-5", "bytes=a-b", "items=0-1", "bytes=9-3", "bytes=-", ""])
def test_a_range_that_is_not_understood_gives_the_whole(ask: AsgiClient, asked: str) -> None:
    put(ask)
    answer = ask("GET", f"/v2/digits/blobs/{DIGEST}", headers={"Range": asked})
    assert (answer.status_code, len(answer.content)) == (200, len(BLOB))


def test_a_resume_of_something_else_starts_from_the_beginning(ask: AsgiClient) -> None:
    put(ask)
    other = ask("GET", f"/v2/digits/blobs/{DIGEST}", headers={"Range": "bytes=5-", "If-Range": '"other"'})
    same = ask("GET", f"/v2/digits/blobs/{DIGEST}", headers={"Range": "bytes=5-", "If-Range": f'"{DIGEST}"'})
    assert (other.status_code, same.status_code) == (200, 206)


def test_an_empty_blob_is_a_blob(ask: AsgiClient) -> None:
    digest = oci.sha256_digest(b"")
    assert put(ask, b"", digest) == 201
    assert ask("GET", f"/v2/digits/blobs/{digest}").content == b""


def test_a_whole_bundle_is_pushed_and_pulled_by_digest_and_by_tag(ask: AsgiClient, tmp_path: Path) -> None:
    archive = open_bundle(stub_bundle(tmp_path / "b.mindie", name="digits", version="1.0.0"))
    digest = archive.bundle.digest
    early = ask("PUT", f"/v2/digits/manifests/{digest}", content=archive.index_bytes)
    assert early.json()["errors"][0]["code"] == "MANIFEST_BLOB_UNKNOWN"
    for blob in archive.bundle.blobs():
        assert put(ask, archive.blob(blob), blob) == 201
    for reference in (digest, "1.0.0"):
        assert ask("PUT", f"/v2/digits/manifests/{reference}", content=archive.index_bytes).status_code == 201
        answer = ask("GET", f"/v2/digits/manifests/{reference}", headers=DEVICE)
        assert (answer.content, answer.headers["content-type"]) == (archive.index_bytes, oci.INDEX_MEDIA_TYPE)
    assert ask("GET", f"/v2/digits/blobs/{digest}", headers=DEVICE).content == archive.index_bytes
    assert ask("GET", "/v2/digits/tags/list").json() == {"name": "digits", "tags": ["1.0.0"]}


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"<html>", "MANIFEST_INVALID"), (b"{}", "MANIFEST_INVALID"), (b"\xff", "MANIFEST_INVALID"),
     (b'{"mediaType":"application/vnd.oci.image.index.v1+json"}', "MANIFEST_INVALID"),
     (b"[" * 9999, "MANIFEST_INVALID"),
     (b'{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"x",'
      b'"digest":"sha256:../../../etc/passwd","size":1}]}', "DIGEST_INVALID"),
     (b" " * 5_000_000, "SIZE_INVALID")],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(ask: AsgiClient, body: bytes, code: str) -> None:
    assert ask("PUT", "/v2/digits/manifests/1.0.0", content=body).json()["errors"][0]["code"] == code


@pytest.mark.parametrize(
    "path",
    ["/v2/digits/blobs/sha256:..%2f..%2fx", "/v2/digits/blobs/sha256:short", "/v2/UPPER/blobs/" + NOWHERE,
     "/v2/digits/manifests/..", "/v2/..%2f..%2fetc/blobs/" + NOWHERE, "/v2/digits/blobs/uploads/..%2flock",
     "/v2/digits/nonsense", "/v2/a/b/c/blobs/" + NOWHERE],
)  # fmt: skip
def test_names_that_could_leave_the_folder_are_refused(ask: AsgiClient, path: str) -> None:
    answer = ask("GET", path)
    assert answer.status_code in (400, 404)
    assert answer.json()["detail"]


def test_without_a_credential_nothing_is_shown_and_a_device_may_only_read(ask: AsgiClient) -> None:
    put(ask)
    nobody = ask("GET", f"/v2/digits/blobs/{DIGEST}", headers={"Authorization": ""})
    assert (nobody.status_code, nobody.headers["www-authenticate"]) == (401, 'Basic realm="mindedge"')
    assert ask("GET", "/v2/", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert ask("GET", "/v2/", headers={"Authorization": "Basic !!!"}).status_code == 401
    assert ask("GET", f"/v2/digits/blobs/{DIGEST}", headers=DEVICE).status_code == 200
    denied = ask("POST", "/v2/digits/blobs/uploads/", headers=DEVICE)
    assert (denied.status_code, denied.json()["errors"][0]["code"]) == (403, "DENIED")


def test_a_method_that_is_not_possible_is_said_to_be(ask: AsgiClient) -> None:
    answer = ask("DELETE", f"/v2/digits/blobs/{DIGEST}")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (405, "UNSUPPORTED")


def test_a_blob_that_is_there_is_not_sent_again(ask: AsgiClient) -> None:
    put(ask)
    assert ask("POST", f"/v2/other/blobs/uploads/?mount={DIGEST}&from=digits").status_code == 201
    assert ask("POST", f"/v2/other/blobs/uploads/?mount={NOWHERE}&from=digits").status_code == 202


def test_an_upload_that_grows_too_large_is_refused(ask: AsgiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_app, "MAX_BLOB_BYTES", 1000)
    assert put(ask) == 413


def test_a_client_that_goes_away_leaves_no_blob(store: BlobStore) -> None:
    app = RegistryApp(store, Access(TOKEN, lambda device, password: False))
    sent: list[Any] = []

    async def gone() -> dict[str, Any]:
        return next(messages)

    async def keep(message: Any) -> None:
        sent.append(message)

    messages = iter(
        [{"type": "http.request", "body": BLOB[:100], "more_body": True}, {"type": "http.disconnect"}]
    )  # fmt: skip
    scope = {"type": "http", "method": "POST", "path": "/v2/digits/blobs/uploads/", "query_string":
             f"digest={DIGEST}".encode(), "headers": [(b"authorization", f"Bearer {TOKEN}".encode())]}  # fmt: skip
    asyncio.run(app(scope, gone, keep))
    assert sent[0]["status"] == 400
    assert list(store._uploads.iterdir()) == []
    assert store.size(DIGEST) is None


def test_uploads_of_an_earlier_run_are_dropped_at_the_start(store: BlobStore, tmp_path: Path) -> None:
    store.begin_upload()
    store.open()
    assert list((tmp_path / "registry" / "uploads").iterdir()) == []


def test_a_large_blob_is_never_in_memory_as_a_whole(ask: AsgiClient, store: BlobStore) -> None:
    """An upload of 64 pieces is taken in pieces; what the store hands out is the size of a chunk at most."""
    pieces = 64
    whole = oci.sha256_digest(b"x" * 100_000 * pieces)

    async def body() -> AsyncIterator[bytes]:
        for _ in range(pieces):
            yield b"x" * 100_000

    assert put(ask, body(), whole) == 201  # type: ignore[arg-type]
    sizes: list[int] = []

    async def count(message: Any) -> None:
        sizes.append(len(message.get("body", b"")))

    async def nothing() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": f"/v2/digits/blobs/{whole}", "query_string": b"",
             "headers": [(b"authorization", f"Bearer {TOKEN}".encode())]}  # fmt: skip
    app = RegistryApp(store, Access(TOKEN, lambda device, password: False))
    asyncio.run(app(scope, nothing, count))
    assert sum(sizes) == 100_000 * pieces
    assert max(sizes) <= 256 * 1024


def test_the_operators_token_is_needed_for_operators_work() -> None:
    access = Access(TOKEN, lambda device, password: True)
    with pytest.raises(AccessDenied) as nobody:
        access.operator(None)
    with pytest.raises(AccessDenied) as device:
        access.operator(DEVICE["Authorization"])
    assert (nobody.value.known, device.value.known) == (False, True)
    assert access.operator(f"bearer {TOKEN}").operator
