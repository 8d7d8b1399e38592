"""A small, fast HTTP/1.1 client for load: one connection each, and nothing that the hub does not send."""

import asyncio
import json
from typing import Any


class Line:
    """One kept-alive connection with one token."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, message: Any = None) -> tuple[int, Any]:
        """Status and JSON of an answer; None where it has no body."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        body = b"" if message is None else json.dumps(message).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status = int(answer.split(" ", 2)[1])
        length = 0
        for line in answer.split("\r\n"):
            if line.lower().startswith("content-length:"):
                length = int(line[15:])
        text = await reader.readexactly(length) if length else b""
        return status, json.loads(text) if text else None

    async def ok(self, method: str, path: str, message: Any = None) -> Any:
        """The JSON of an answer that must be a success."""
        status, found = await self.call(method, path, message)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {found}")
        return found

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
