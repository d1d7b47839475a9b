"""Documents and chunks as resources, to attach to a conversation, and prompts to answer from them."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server import MCPServer
from pydantic import Field

from shoal.declared.arguments import MAX_ID
from shoal.errors import NotFoundError
from shoal.mcp.backend import SCHEME, Backend
from shoal.mcp.results import NOTICE, UNTRUSTED
from shoal.support.plain_text import clean

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


ANSWER = """\
Answer the question below from the documents of this library alone.

1. Call search_chunks with the question. Search again with other words if the passages do not answer it, and
   read around a passage with read_passage if it is not enough alone.
2. After each statement cite its passage by number, like [2]. Give the words that the statement rests on in
   "quotation marks", exactly as they stand in the passage.
3. If the passages do not answer the question, say so, and say what you searched for. Do not fill gaps from
   memory.
4. End with a list of the cited passages: number, name, headings and lines.

{notice}

Question: {question}
"""

GROUNDING = """\
Check whether the answer below is grounded in the documents of this library.

1. Split it into statements. For each, call search_chunks with the statement, and read_passage where more
   context is needed.
2. Judge each statement: `supported` (a passage says it; cite the passage and quote the words),
   `contradicted` (a passage says otherwise; cite and quote it) or `no reference` (no passage says it).
3. List the statements with their judgements. Reject the answer if one is contradicted or has no reference,
   and say which part could stay.

{notice}

Answer to check:
{answer}
"""


def add_prompts(server: MCPServer[Any]) -> None:
    """Add the prompts."""

    def answer_with_citations(
        question: Annotated[str, Field(description="What to answer from the documents.")],
    ) -> str:
        """Answer a question from the documents, with a citation after each statement."""
        return ANSWER.format(notice=NOTICE, question=question)

    def check_grounding(
        answer: Annotated[str, Field(description="The answer whose statements are checked.")],
    ) -> str:
        """Check each statement of an answer against the documents; list those without a reference."""
        return GROUNDING.format(notice=NOTICE, answer=answer)

    server.prompt(title="Answer with citations")(answer_with_citations)
    server.prompt(title="Check an answer against the documents")(check_grounding)
