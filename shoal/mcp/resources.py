"""Documents and chunks as resources, so that people can attach them to a conversation."""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer

from shoal.declared.arguments import MAX_ID
from shoal.errors import NotFoundError
from shoal.mcp.backend import SCHEME, Backend
from shoal.mcp.quoting import NOTICE, UNTRUSTED
from shoal.support.quoting import clean

DOCUMENT = f"{SCHEME}documents/{{document_id}}"
CHUNK = f"{DOCUMENT}/chunks/{{chunk_index}}"


def add_resources(server: MCPServer[Any], backend: Backend) -> None:
    """Add the templates of both kinds of resources."""

    def read_document(document_id: str) -> str:
        return clean(backend.content(_number("document", document_id, 1)))

    def read_chunk(document_id: str, chunk_index: str) -> str:
        chunk_id = backend.chunk_id(_number("document", document_id, 1), _number("chunk", chunk_index, 0))
        return clean(backend.chunk(chunk_id).chunk.text)

    for uri, read, name, title, what in (
        (DOCUMENT, read_document, "document", "A document", "The text of a document, by its id."),
        (CHUNK, read_chunk, "chunk", "A passage", "A passage of a document, by its position from 0."),
    ):
        described = server.resource(
            uri,
            name=name,
            title=title,
            description=f"{what} {NOTICE}",
            mime_type="text/plain",
            meta=UNTRUSTED,
        )
        described(read)


def _number(kind: str, text: str, lowest: int) -> int:
    """A number in an address. Raises NotFoundError."""
    if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ID)) and lowest <= int(text) <= MAX_ID:
        return int(text)
    raise NotFoundError(f"there is no {kind} {text[:40]!r}")
