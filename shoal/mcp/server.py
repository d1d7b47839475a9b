"""The MCP server of a library: its tools, resources and prompts, and their errors in words for agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import (
    ResourceError,
    ResourceNotFoundError,
    ToolError,
    UnexpectedResourceError,
    UnexpectedToolError,
)
from mcp.server.mcpserver.tools import Tool
from mcp.types import (
    INVALID_PARAMS,
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
    ToolAnnotations,
)
from pydantic import Field, ValidationError

from shoal.access.rights import RIGHT_NEEDED, Access, Verdict, judge, needs_right
from shoal.declared.arguments import MAX_ID
from shoal.errors import NotFoundError, QueryError, ShoalError
from shoal.mcp.backend import SCHEME, Backend
from shoal.mcp.document_tools import DocumentTools
from shoal.mcp.note_tools import PREFIX, NoteTools, with_id_name
from shoal.mcp.research_tools import QueryTools, ResearchTools
from shoal.mcp.results import NOTICE, READS, UNTRUSTED, writes
from shoal.models.keys import Needed
from shoal.notes.environment import Environment
from shoal.search.retrieval import own_name
from shoal.support.other_names import meant_name
from shoal.support.plain_text import clean, in_line
from shoal.version import __version__

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


ACCESS = "shoal.access"
"""Name under which the scope of an HTTP request holds what its sender may do."""

OF_USERS = frozenset({"recall", "remember", "list_memories", "change_memory"})
"""Tools that name the owner of their notes in `user_id`."""

USUAL_OF_NOTES = frozenset({"search", "add", "update", "feedback"})
"""Tools for notes that are offered without `all_tools`, by the ends of their names."""

MAX_ERROR_CHARS = 500

GUIDANCE = f"""\
Shoal holds documents and finds passages in them.

Use search_chunks when answering questions about document content (what, how, why). Use list_documents to
discover which files exist or to filter them by type or name. Use read_passage to read around a found
passage, and explain_result to see why a passage ranks where it does.

Cite passages by their numbers, and say so if the documents do not answer a question.
{NOTICE}
"""

RESEARCH_GUIDANCE = """
search and fetch are for research agents that expect these names.
"""
NOTE_GUIDANCE = """
It also keeps notes: lessons for later sessions. Before a task, search them with {prefix}_search. recall is
the memory of one user, by user_id.
"""
WRITING_GUIDANCE = """
After a correction, a discovered convention or a pitfall, add a lesson with {prefix}_add. After a note was
shown, judge it with {prefix}_feedback. remember adds to the memory of one user, and change_memory corrects
it.
"""


class ShoalServer(MCPServer[Any]):
    """An MCP server that reports errors of the library, and wrong arguments, in words.

    collection_id: id of the collection that is served over HTTP, where each request has a sender with rights;
        None where the one agent that started this server may do everything
    """

    collection_id: str | None = None

    def __init__(
        self, tools: Sequence[Tool], note_tools: Sequence[Tool] = (), owner: str = "", **described: Any
    ) -> None:
        """`note_tools` work on the notes of `owner`, but those of OF_USERS. `described`: arguments of
        MCPServer."""
        both = [*tools, *note_tools]
        super().__init__(tools=both, **described)
        self._by_name = {tool.name: tool for tool in both}
        self._owner = owner
        self._of_owner = {tool.name for tool in note_tools} - OF_USERS

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Raises ToolError."""
        tool = self._by_name.get(name)
        if tool is None:
            raise ToolError(f"there is no tool {name[:60]!r}{_hint(name, self._by_name)}")
        _check_names(name, arguments, tool.parameters["properties"])
        if self.collection_id is not None:
            self._check_access(tool, arguments, context)
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            message = _message(error)
            if message is None:
                raise
            raise ToolError(f"{name}: {message}") from error.__cause__

    async def read_resource(self, uri: Any, context: Context[Any, Any] | None = None) -> Any:
        """Read a resource. Raises ResourceError."""
        try:
            return await super().read_resource(uri, context)
        except UnexpectedResourceError as error:
            cause = error.__cause__
            while isinstance(cause, UnexpectedResourceError):
                cause = cause.__cause__
            if isinstance(cause, NotFoundError):
                raise ResourceNotFoundError(str(cause)) from cause
            if isinstance(cause, ShoalError):
                raise ResourceError(str(cause)) from cause
            raise

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Fill in a prompt. Raises MCPError for an unknown one, and for missing or unknown arguments."""
        prompts = {prompt.name: prompt for prompt in await self.list_prompts()}
        if name not in prompts:
            raise MCPError(INVALID_PARAMS, f"there is no prompt {name[:60]!r}{_hint(name, prompts)}")
        given, known = arguments or {}, {each.name: each for each in prompts[name].arguments or ()}
        try:
            _check_names(name, given, known)
        except ToolError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        missing = [each.name for each in known.values() if each.required and each.name not in given]
        if missing:
            raise MCPError(INVALID_PARAMS, f"{name}: {', '.join(missing)} is missing")
        return await super().get_prompt(name, arguments, context)

    def _check_access(
        self, tool: Tool, arguments: Mapping[str, Any], context: Context[Any, Any] | None
    ) -> None:
        """Refuse a change without the right to write, and notes of a foreign owner. Raises ToolError."""
        request = None if context is None else context.request_context.request
        access: Access | None = None if request is None else request.scope.get(ACCESS)
        is_read = tool.annotations is not None and tool.annotations.read_only_hint
        needed = Needed.read if is_read else Needed.write
        if access is None or judge(needed, access, self.collection_id or "") is not Verdict.allowed:
            raise ToolError(f"{tool.name}: {needs_right(RIGHT_NEEDED[needed])}")
        owner = self._owner if tool.name in self._of_owner else None
        if tool.name in OF_USERS:
            owner = str(arguments.get("user_id", ""))
        if owner is not None and not access.may_name(owner):
            raise ToolError(f"{tool.name}: this key may not use the notes of this owner")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What a server offers.

    read_only    only tools that change nothing
    prefix       begins the names of the tools for notes; `engrammar` also renames their parameter `note_id`
    owner        whose notes these are
    environment  where the agent works; None if that is unknown
    all_tools    also those that few agents need, which cost each of them the tokens of their descriptions
    """

    read_only: bool = False
    prefix: str = PREFIX
    owner: str = "default"
    environment: Environment | None = None
    all_tools: bool = True


def make_server(backend: Backend, options: ServerOptions | None = None) -> ShoalServer:
    """Return the server of a backend. Raises NoteError for an invalid owner."""
    options = options or ServerOptions()
    guidance = GUIDANCE + RESEARCH_GUIDANCE * options.all_tools
    guidance += NOTE_GUIDANCE + ("" if options.read_only else WRITING_GUIDANCE)
    server = ShoalServer(
        list(_document_tools(backend, options)),
        list(_note_tools(backend, options)),
        options.owner,
        name="shoal",
        title="Shoal",
        description="Finds passages in documents and says why.",
        instructions=guidance.format(prefix=options.prefix),
        version=__version__,
        log_level="WARNING",
        subscriptions=False,
    )
    add_resources(server, backend)
    add_prompts(server)
    return server


def _document_tools(backend: Backend, options: ServerOptions) -> Iterator[Tool]:
    documents, research, queries = DocumentTools(backend), ResearchTools(backend), QueryTools(backend)
    for is_usual, function, title in (
        (True, documents.search_chunks, "Search the content of documents"),
        (False, queries.search_many, "Search for the parts of a question"),
        (False, queries.list_synonyms, "List synonyms"),
        (True, documents.list_documents, "List documents"),
        (True, documents.read_passage, "Read a passage in its context"),
        (True, documents.explain_result, "Explain the rank of a passage"),
        (False, documents.retrieve, "Retrieve passages as plain content"),
        (False, research.search, "Search (for research agents)"),
        (False, research.fetch, "Fetch (for research agents)"),
    ):
        if is_usual or options.all_tools:
            yield _tool(function, function.__name__, title, READS)


def _note_tools(backend: Backend, options: ServerOptions) -> Iterator[Tool]:
    notes, prefix = NoteTools(backend, options.owner, options.environment), options.prefix
    for name, function, title, hints in (
        (f"{prefix}_search", notes.search_notes, "Search notes", READS),
        (f"{prefix}_add", notes.add_note, "Add a note", writes()),
        (f"{prefix}_update", notes.update_note, "Change a note", writes(destructive=True, idempotent=True)),
        (
            f"{prefix}_deprecate",
            notes.deprecate_note,
            "Deprecate a note",
            writes(destructive=True, idempotent=True),
        ),
        (f"{prefix}_feedback", notes.judge_note, "Judge a note", writes()),
        (f"{prefix}_categorize", notes.categorize_note, "Categorize a note", writes(idempotent=True)),
        (f"{prefix}_pin", notes.pin_note, "Pin a note", writes(idempotent=True)),
        (f"{prefix}_unpin", notes.unpin_note, "Unpin a note", writes(idempotent=True)),
        (f"{prefix}_list", notes.list_notes, "List notes", READS),
        (f"{prefix}_status", notes.note_status, "Count notes", READS),
        (f"{prefix}_proposals", notes.list_proposals, "List notes that may say the same", READS),
        (
            f"{prefix}_decide",
            notes.decide_proposal,
            "Merge notes or keep them apart",
            writes(destructive=True),
        ),
        ("recall", notes.recall, "Recall what a user taught", READS),
        ("remember", notes.remember, "Remember what a user taught", writes()),
        ("list_memories", notes.list_memories, "List what a user taught", READS),
        (
            "change_memory",
            notes.change_memory,
            "Change or forget what a user taught",
            writes(destructive=True, idempotent=True),
        ),
    ):
        is_usual = name in OF_USERS or name.removeprefix(f"{prefix}_") in USUAL_OF_NOTES
        if (is_usual or options.all_tools) and (hints.read_only_hint or not options.read_only):
            yield _tool(with_id_name(function, prefix), name, title, hints)


def _tool(function: Callable[..., Any], name: str, title: str, hints: ToolAnnotations) -> Tool:
    """Return a tool that refuses arguments it does not know; its docstring describes it to agents."""
    tool = Tool.from_function(
        function,
        name=name,
        title=title,
        description=_paragraphs(function.__doc__ or ""),
        annotations=hints.model_copy(update={"title": title}),
    )
    tool.parameters = {**_compact(tool.parameters), "additionalProperties": False}
    return tool


def _compact(schema: Any) -> Any:
    """A schema without what tells agents nothing: titles made of names, and null for what may be left out."""
    if isinstance(schema, list):
        return [_compact(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: _compact(each) for name, each in value.items()}
        elif not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None):
            found[key] = _compact(value)
    kinds = [kind for kind in found.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1 and len(found["anyOf"]) == 2:
        del found["anyOf"]
        found = {**kinds[0], **found}
    return found


def _paragraphs(docstring: str) -> str:
    """A docstring with each paragraph on one line."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in docstring.split("\n\n"))


def _check_names(tool: str, arguments: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Refuse arguments that a tool does not have: a misspelt limit would be no limit. Raises ToolError."""
    for name in arguments:
        if name not in known:
            hint = _hint(name, known) or f"; it has {', '.join(known) or 'none'}"
            raise ToolError(f"{tool} has no argument {name[:60]!r}{hint}")


def _message(error: ToolError) -> str | None:
    """What a failed call says; None if the message of the error says it."""
    cause = error.__cause__
    if isinstance(cause, QueryError):
        return f"{own_name(cause.field)}: {in_line(str(cause))}"
    if isinstance(cause, ShoalError):
        return in_line(str(cause))
    if isinstance(cause, ValidationError) and not isinstance(error, UnexpectedToolError):
        reasons = (
            f"{'.'.join(map(str, found['loc'])) or 'arguments'}: {found['msg']}" for found in cause.errors()
        )
        return in_line("; ".join(reasons))[:MAX_ERROR_CHARS]
    return None


def _hint(name: str, known: Iterable[str]) -> str:
    meant = meant_name(name, known)
    return f"; did you mean {meant}?" if meant else ""
