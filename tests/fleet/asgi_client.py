"""Requests to an ASGI application within this process, one after another, bodies and answers as they are."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class AsgiClient:
    """``token`` is sent as Bearer unless a request says otherwise."""

    def __init__(self, app: Any, token: str | None = None) -> None:
        self._app = app
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __call__(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            headers = {**self._headers, **arguments.pop("headers", {})}
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, path, headers=headers, **arguments)

        return asyncio.run(ask())
