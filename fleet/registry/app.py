"""The registry's routes, a bare ASGI application: ``/v2/``, manifests, blobs, uploads.

Source: the OCI distribution specification 1.1 (pull and push; no deletion, no referrers). Blobs belong to all
repositories alike. Devices may read; the operator may read and write.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import msgspec

from edge_contracts import names, oci
from edge_contracts.bundle import MAX_JSON_BYTES
from edge_contracts.errors import ContractError
from fleet.errors import AccessDenied, NotFound, RegistryError
from fleet.registry.asgi_io import Headers, Receive, Request, Scope, Send
from fleet.registry.blob_store import BlobStore
from fleet.registry.byte_range import NotSatisfiable, parse_range
from fleet.services.access import Access

MAX_BLOB_BYTES = 64 * 1024**3
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}")
_STATUS = {"BLOB_UPLOAD_UNKNOWN": 404, "BLOB_UNKNOWN": 404, "MANIFEST_UNKNOWN": 404, "SIZE_INVALID": 413,
           "UNSUPPORTED": 405}  # fmt: skip
_ROUTES = (
    (re.compile(r"/v2/?"), "base"),
    (re.compile(r"/v2/(?P<name>[^/]+)/tags/list"), "tags"),
    (re.compile(r"/v2/(?P<name>[^/]+)/manifests/(?P<reference>[^/]+)"), "manifest"),
    (re.compile(r"/v2/(?P<name>[^/]+)/blobs/uploads/?"), "new_upload"),
    (re.compile(r"/v2/(?P<name>[^/]+)/blobs/uploads/(?P<upload>[^/]+)"), "upload"),
    (re.compile(r"/v2/(?P<name>[^/]+)/blobs/(?P<digest>[^/]+)"), "blob"),
)


class _JsonKind(msgspec.Struct, rename="camel"):
    media_type: str = "application/octet-stream"


class RegistryApp:
    """``app(scope, receive, send)``; ``scope["path"]`` is the whole path, beginning with /v2."""

    def __init__(self, blobs: BlobStore, access: Access) -> None:
        self._blobs = blobs
        self._access = access
        self._handlers: dict[str, Callable[..., Awaitable[None]]] = {
            "base": self._base, "tags": self._tags, "manifest": self._manifest, "new_upload": self._new_upload,
            "upload": self._upload, "blob": self._blob,
        }  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            await self._dispatch(request)
        except AccessDenied as error:
            challenge = [] if error.known else [("www-authenticate", 'Basic realm="mindedge"')]
            code = "DENIED" if error.known else "UNAUTHORIZED"
            await request.refuse(403 if error.known else 401, code, str(error), challenge)
        except NotFound as error:
            code = "MANIFEST_UNKNOWN" if error.kind == "manifest" else "BLOB_UNKNOWN"
            await request.refuse(404, code, str(error))
        except RegistryError as error:
            await request.refuse(_STATUS.get(error.code, 400), error.code, str(error))
        except OSError as error:
            await request.refuse(507, "UNKNOWN", f"the server cannot store or read it: {error.strerror}")

    async def _dispatch(self, request: Request) -> None:
        reading = request.method in ("GET", "HEAD")
        check = self._access.caller if reading else self._access.operator
        await asyncio.to_thread(check, request.header("authorization"))
        for pattern, handler in _ROUTES:
            match = pattern.fullmatch(request.path)
            if match is not None:
                arguments = {key: _checked(key, value) for key, value in match.groupdict().items()}
                await self._handlers[handler](request, **arguments)
                return
        raise NotFound("page", request.path)

    async def _base(self, request: Request) -> None:
        await request.answer(200, [("content-type", "application/json")], b"{}")

    async def _tags(self, request: Request, name: str) -> None:
        _allow(request, "GET", "HEAD")
        body = msgspec.json.encode({"name": name, "tags": await asyncio.to_thread(self._blobs.tags, name)})
        await request.answer(200, [("content-type", "application/json")], body)

    async def _blob(self, request: Request, name: str, digest: str) -> None:  # noqa: ARG002 - blobs are shared
        _allow(request, "GET", "HEAD")
        await self._send_blob(request, digest, "application/octet-stream")

    async def _manifest(self, request: Request, name: str, reference: str) -> None:
        if request.method == "PUT":
            await self._put_manifest(request, name, reference)
            return
        _allow(request, "GET", "HEAD")
        digest = reference if _is_digest(reference) else await asyncio.to_thread(self._blobs.tag, name, reference)
        if digest is None or await asyncio.to_thread(self._blobs.size, digest) is None:
            raise NotFound("manifest", f"{name}:{reference}")
        media_type = _media_type(await asyncio.to_thread(self._blobs.read_small, digest))
        await self._send_blob(request, digest, media_type)

    async def _send_blob(self, request: Request, digest: str, media_type: str) -> None:
        path = await asyncio.to_thread(self._blobs.path, digest)
        size = path.stat().st_size
        etag = f'"{digest}"'
        headers: Headers = [
            ("content-type", media_type), ("docker-content-digest", digest), ("etag", etag), ("accept-ranges", "bytes"),
            ("cache-control", "private, max-age=31536000, immutable"),
        ]  # fmt: skip
        if request.method == "HEAD":
            await request.answer(200, [*headers, ("content-length", str(size))])
            return
        unchanged = request.header("if-range") in (None, etag)
        try:
            wanted = parse_range(request.header("range"), size) if unchanged else None
        except NotSatisfiable:
            await request.answer(416, [("content-range", f"bytes */{size}")])
            return
        if wanted is None:
            await request.answer_file(200, headers, path, 0, size)
            return
        start, end = wanted
        headers.append(("content-range", f"bytes {start}-{end - 1}/{size}"))
        await request.answer_file(206, headers, path, start, end)

    async def _new_upload(self, request: Request, name: str) -> None:
        _allow(request, "POST")
        mounted = request.query("mount")
        if (
            mounted is not None
            and _is_digest(mounted)
            and await asyncio.to_thread(self._blobs.size, mounted) is not None
        ):
            await _created(request, name, "blobs", mounted)
            return
        upload = await asyncio.to_thread(self._blobs.begin_upload)
        digest = request.query("digest")
        if digest is not None:
            await self._finish(request, name, upload, _checked("digest", digest))
            return
        await request.answer(202, _upload_headers(name, upload, 0))

    async def _upload(self, request: Request, name: str, upload: str) -> None:
        _allow(request, "PATCH", "PUT", "GET", "DELETE")
        path = await asyncio.to_thread(self._blobs.upload_path, upload)
        if request.method == "GET":
            await request.answer(204, _upload_headers(name, upload, path.stat().st_size))
        elif request.method == "DELETE":
            await asyncio.to_thread(self._blobs.drop_upload, upload)
            await request.answer(204, [])
        elif request.method == "PUT":
            digest = request.query("digest")
            if digest is None:
                raise RegistryError("DIGEST_INVALID", "PUT of an upload needs ?digest=")
            await self._finish(request, name, upload, _checked("digest", digest))
        else:
            size = path.stat().st_size
            start = (request.header("content-range") or f"{size}-").partition("-")[0]
            if start != str(size):
                await request.answer(416, _upload_headers(name, upload, size))
                return
            size = await request.body_to(path, MAX_BLOB_BYTES)
            await request.answer(202, _upload_headers(name, upload, size))

    async def _finish(self, request: Request, name: str, upload: str, digest: str) -> None:
        path = await asyncio.to_thread(self._blobs.upload_path, upload)
        try:
            await request.body_to(path, MAX_BLOB_BYTES)
            await asyncio.to_thread(self._blobs.finish_upload, upload, digest)
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)  # a full disk must not keep half a blob
        await _created(request, name, "blobs", digest)

    async def _put_manifest(self, request: Request, name: str, reference: str) -> None:
        data = await request.small_body(MAX_JSON_BYTES)
        digest = oci.sha256_digest(data)
        if _is_digest(reference) and reference != digest:
            raise RegistryError("DIGEST_INVALID", f"the manifest has digest {digest}, not {reference}")
        for needed in _references(data):
            _checked("digest", needed)
            if await asyncio.to_thread(self._blobs.size, needed) is None:
                raise RegistryError("MANIFEST_BLOB_UNKNOWN", f"the manifest needs {needed}: push it first")
        await asyncio.to_thread(self._blobs.put_small, data, digest)
        if not _is_digest(reference):
            await asyncio.to_thread(self._blobs.set_tag, name, reference, digest)
        await _created(request, name, "manifests", digest)


async def _created(request: Request, name: str, kind: str, digest: str) -> None:
    location = f"/v2/{name}/{kind}/{digest}"
    await request.answer(201, [("location", location), ("docker-content-digest", digest)])


def _upload_headers(name: str, upload: str, size: int) -> Headers:
    return [
        ("location", f"/v2/{name}/blobs/uploads/{upload}"), ("docker-upload-uuid", upload),
        ("range", f"0-{max(0, size - 1)}"),
    ]  # fmt: skip


def _allow(request: Request, *methods: str) -> None:
    if request.method not in methods:
        raise RegistryError("UNSUPPORTED", f"{request.method} is not possible here, only {', '.join(methods)}")


def _is_digest(text: str) -> bool:
    return text.startswith("sha256:")


def _checked(key: str, value: str) -> str:
    try:
        if key == "name":
            return names.bundle_name(value)
        if key == "digest" or (key == "reference" and _is_digest(value)):
            return names.digest(value)
    except ContractError as error:
        raise RegistryError("NAME_INVALID" if key == "name" else "DIGEST_INVALID", str(error)) from error
    if key == "reference" and not _TAG.fullmatch(value):
        raise RegistryError("NAME_INVALID", f"{value[:80]!r} is no tag")
    return value


def _media_type(data: bytes) -> str:
    try:
        return msgspec.json.decode(data, type=_JsonKind).media_type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "application/octet-stream"


def _references(data: bytes) -> list[str]:
    """The digests that a manifest or index points to. Raises RegistryError when it is neither."""
    try:
        kind = msgspec.json.decode(data, type=_JsonKind).media_type
        if kind == oci.INDEX_MEDIA_TYPE:
            return [item.digest for item in msgspec.json.decode(data, type=oci.Index).manifests]
        if kind == oci.MANIFEST_MEDIA_TYPE:
            manifest = msgspec.json.decode(data, type=oci.Manifest)
            return [manifest.config.digest, *(layer.digest for layer in manifest.layers)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RegistryError("MANIFEST_INVALID", f"not readable: {error}") from error
    raise RegistryError("MANIFEST_INVALID", f"media type {kind[:100]!r} is neither an OCI index nor an OCI manifest")
