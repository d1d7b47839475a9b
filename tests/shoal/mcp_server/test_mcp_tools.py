"""Every tool over every transport, with the official client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp: `pip install 'shoal[mcp]'`")

import jsonschema
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp_library import run, server_of, stdio

from shoal.engine import Engine
from shoal.mcp.backend import Backend, EngineBackend
from shoal.mcp.results import DEFAULT_TOKENS, LEAST_TOKENS, NOTICE
from shoal.mcp.server import make_server
from shoal.support.token_estimate import count_tokens

QUESTION = "what do bees want from flowers"
CALLS: dict[str, dict[str, Any]] = {
    "search_chunks": {"query": QUESTION, "top_k": 3, "filter": "NOT category = none"},
    "search_many": {"queries": [QUESTION, "honey"], "top_k": 3},
    "list_synonyms": {"limit": 2},
    "list_documents": {"limit": 2, "filter": "NOT category = none"},
    "read_passage": {"chunk_id": 2},
    "explain_result": {"query": QUESTION, "chunk_id": 1},
    "retrieve": {"query": QUESTION, "filters": {"category": "nature", "source": "notes/bees.md"}},
    "search": {"query": QUESTION},
    "fetch": {"id": "1/0"},
}
"""A good call of each tool for documents."""

NOTE_ID = {"note_id": 0}
"""The call gets the id of the note that was added."""
NOTE_CALLS: dict[str, dict[str, Any]] = {
    "note_add": {"text": "Use pnpm in the web repository.", "category": "build/js", "tags": ["web"]},
    "note_search": {"query": "which package manager, pnpm or another", "tags": ["web"]},
    "note_update": NOTE_ID
    | {"text": "Use pnpm, not npm.", "prerequisites": {"os": ["linux"], "tags": "node"}},
    "note_feedback": NOTE_ID | {"applicable": True, "reason": "it helped", "tag_scores": {"web": 0.5}},
    "note_categorize": NOTE_ID | {"add": ["tools"], "remove": ["build/js"]},
    "note_pin": NOTE_ID | {"prerequisites": {"tags": ["web"]}},
    "note_unpin": NOTE_ID,
    "note_list": {"category": "tools"},
    "note_status": {},
    "note_proposals": {},
    "note_decide": {"accept": False},
    "note_deprecate": NOTE_ID | {"reason": "the repository is gone"},
    "remember": {
        "user_id": "ada",
        "items": [
            {"content": "She writes her programs in Python alone.", "topic": "languages", "confidence": 0.9}
        ],
    },
    "recall": {"query": "which language does she write", "user_id": "ada", "threshold": 0.1},
    "list_memories": {"user_id": "ada"},
    "change_memory": NOTE_ID | {"user_id": "ada", "text": "She writes her programs in Python alone."},
}
"""A good call of each tool for notes, in an order that makes sense."""


WRITING = {
    f"note_{name}"
    for name in ("add", "update", "deprecate", "feedback", "categorize", "pin", "unpin", "decide")
}
WRITING |= {"remember", "change_memory"}


async def call_all(client: Client) -> dict[str, Any]:
    """Call every tool, and check it against its schemas. Returns the structured results of those for
    documents."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == set(CALLS) | set(NOTE_CALLS)
    results: dict[str, Any] = {}
    for name, example in (CALLS | NOTE_CALLS).items():
        added = {"note_id": results["note_add"]["note"]["id"]} if "note_id" in example else {}
        if name == "note_decide":
            added = {"proposal_id": results["note_proposals"]["proposals"][0]["id"]}
        if name == "change_memory":
            added = {"note_id": results["list_memories"]["notes"][0]["id"]}
        arguments = example | added
        tool = tools[name]
        assert tool.output_schema is not None
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(arguments, tool.input_schema)
        result = await client.call_tool(name, arguments)
        assert not result.is_error, result.content
        assert text_of(result)
        jsonschema.validate(result.structured_content, tool.output_schema)
        results[name] = result.structured_content
    assert results["note_search"]["results"]
    assert results["recall"]["count"] == 1
    assert results["note_deprecate"]["note"]["deprecated"]
    return {name: results[name] for name in CALLS}


def text_of(result: Any) -> str:
    """The text of a result, which has no other content."""
    [content] = result.content
    return str(content.text)


def call(backend: Backend, tool: str, **arguments: Any) -> Any:
    """The result of one call, in memory."""

    async def main() -> Any:
        async with Client(server_of(backend)) as client:
            return await client.call_tool(tool, arguments)

    return run(main)


def found(backend: Backend, tool: str, **arguments: Any) -> Any:
    """The structured result of a call that succeeds."""
    result = call(backend, tool, **arguments)
    assert not result.is_error, result.content
    return result.structured_content


def refused(backend: Backend, tool: str, **arguments: Any) -> str:
    """The message of a call that is refused."""
    result = call(backend, tool, **arguments)
    assert result.is_error
    return text_of(result)


def test_every_transport_has_the_same_results(library: Engine, http_url: str, tmp_path: Path) -> None:
    server = make_server(EngineBackend(library))
    notes = library.notes.of("default")
    for topic in ("parser", "lexer", "linker", "compiler", "printer"):
        notes.add(f"Run the tests of the {topic} before each commit.")
        notes.add(f"Before each commit, run the tests of the {topic}.")
    notes.dedup()

    async def everywhere() -> list[dict[str, Any]]:
        with (tmp_path / "log").open("w") as log:
            results = []
            for client in (
                Client(server),
                Client(http_url),
                Client(http_url, mode="legacy"),
                Client(stdio_client(stdio(library, "--all-tools"), errlog=log)),
            ):
                async with client:
                    results.append(await call_all(client))
            return results

    first, *others = run(everywhere)
    assert first["search_chunks"]["results"]
    assert all(result == first for result in others)


def test_every_tool_says_what_it_does_to_the_library(library: Engine) -> None:
    async def main() -> Any:
        async with Client(make_server(EngineBackend(library))) as client:
            return (await client.list_tools()).tools

    destructive = set()
    for tool in run(main):
        hints = tool.annotations
        assert hints.open_world_hint is False
        assert hints.read_only_hint is (tool.name not in WRITING)
        destructive |= {tool.name} if hints.destructive_hint else set()
        assert tool.title
        assert tool.input_schema["additionalProperties"] is False
        assert all(field.get("description") for field in tool.input_schema["properties"].values()), tool.name
    assert destructive == {"note_update", "note_deprecate", "note_decide", "change_memory"}


def test_descriptions_say_which_tool_is_for_what(library: Engine) -> None:
    async def main() -> Any:
        async with Client(make_server(EngineBackend(library))) as client:
            tools = (await client.list_tools()).tools
            return client.instructions, {tool.name: tool.description for tool in tools}

    instructions, descriptions = run(main)
    rule = (
        "Use search_chunks when answering questions about document content (what, how, why). Use list_documents to"
        " discover which files exist or to filter them by type or name."
    )
    instructions = " ".join(instructions.split())
    assert rule in instructions
    for name, other in (("search_chunks", "list_documents"), ("list_documents", "search_chunks")):
        assert "(what, how, why)" in descriptions[name]
        assert f"use {other} instead" in descriptions[name]
        assert "which documents exist, or to filter them by type" in descriptions[name]
    assert "after search_chunks" in descriptions["read_passage"]
    assert "not to find passages" in descriptions["explain_result"]
    for name in ("search", "fetch"):
        assert "research agents" in instructions
        assert "search" in descriptions[name]


def heads_of(result: Any) -> list[str]:
    """The first lines of the passages of an answer."""
    return [line for line in text_of(result).splitlines() if line.startswith("[")]


def test_citations_have_path_headings_lines_and_passage(backend: Backend) -> None:
    result = call(backend, "search_chunks", query="fruit nuts cereals wind", top_k=1)
    body = result.structured_content
    total, [citation] = body["total"], body["results"]
    assert f"1 of {total} matching passage" in text_of(result)
    everything = found(
        backend,
        "search_chunks",
        query="fruit nuts cereals wind",
        top_k=100,
        max_per_document=0,
        max_tokens=50_000,
    )
    assert (everything["total"], everything["n_results"]) == (total, min(total, 100))
    assert set(citation) == {"chunk_id", "document_id", "start_line", "end_line", "relevance", "score"}
    assert (citation["start_line"], citation["end_line"]) == (11, 11)
    lines = text_of(result).splitlines()
    assert lines[:2] == [NOTICE, ""]
    head = f"[1] notes/bees.md — Bees and flowers > Crops (line 11), passage {citation['chunk_id']}"
    assert lines[2] == head
    assert lines[3].startswith("    why: ")
    assert lines[4] == (
        "    Fruit and nuts need insects. Cereals need none, because the wind moves their pollen."
    )


def test_every_result_has_a_path_and_a_place(backend: Backend) -> None:
    result = call(backend, "search_chunks", query="ship bees volcano judge", top_k=50, max_tokens=50_000)
    results, heads = result.structured_content["results"], heads_of(result)
    assert {each["document_id"] for each in results} == {1, 2, 3, 4}
    for number, (each, head) in enumerate(zip(results, heads, strict=True), start=1):
        assert head.startswith(f"[{number}] ")
        assert head.endswith(f", passage {each['chunk_id']}")
        assert "time_start" in each or f"{each['start_line']}" in head


def test_a_recording_is_cited_with_its_times(backend: Backend) -> None:
    result = call(backend, "search_chunks", query="lava and ash", file_type_filter="video")
    [citation] = result.structured_content["results"]
    assert (citation["time_start"], citation["time_end"]) == ("00:01:05", "00:01:31")
    said = '"A volcano throws lava and ash into the air. The magma below is hot rock."'
    head, why, shown = text_of(result).splitlines()[2:5]
    assert head.endswith(f"lecture.vtt — video transcript, passage {citation['chunk_id']}")
    assert why.startswith("    why: ")
    assert shown == f"    00:01:05–00:01:31 (Audio): {said}"


def test_an_answer_keeps_to_its_budget_of_tokens(backend: Backend) -> None:
    def answered(**arguments: Any) -> tuple[Any, int]:
        result = call(backend, "search_chunks", query="ship bees volcano judge", top_k=50, **arguments)
        data = json.dumps(result.structured_content, separators=(",", ":"), ensure_ascii=False)
        return result.structured_content, count_tokens(text_of(result)) + count_tokens(data)

    usual, n_tokens = answered()
    assert n_tokens <= DEFAULT_TOKENS
    more, n_more = answered(max_tokens=2 * DEFAULT_TOKENS)
    assert n_tokens < n_more <= 2 * DEFAULT_TOKENS
    assert more["results"][: usual["n_results"]] == usual["results"]
    for body in (usual, more):
        assert body["n_results"] == len(body["results"]) > 0
        assert body["n_results"] + body["n_left_out"] == 50
    least, _ = answered(max_tokens=LEAST_TOKENS)
    assert least["n_results"] == 1
    refused(backend, "search_chunks", query="bees", max_tokens=LEAST_TOKENS - 1)


def test_filters_choose_the_documents(backend: Backend) -> None:
    def ids(**filters: str) -> set[int]:
        results = found(
            backend, "search_chunks", query="ship bees volcano judge", top_k=50, max_tokens=50_000, **filters
        )["results"]
        return {result["document_id"] for result in results}

    assert ids(doc_name_filter="NOTES/") == {1}
    assert ids(file_type_filter="markdown") == {1, 4}
    assert ids(file_type_filter="", doc_name_filter="") == ids()


def test_facets_batches_and_synonyms(backend: Backend, library: Engine) -> None:
    result = call(backend, "search_chunks", query="ship bees volcano judge", facets=["tags"], mode="lexical")
    (facet,) = result.structured_content["facets"]
    assert facet["field"] == "tags"
    assert {"value": "sample", "n_documents": 1} in facet["values"]
    assert "Documents by tags: " in text_of(result)
    assert found(backend, "search_chunks", query="bees")["facets"] == []
    many = found(backend, "search_many", queries=["bees", "volcano", "bees pollen"], top_k=2)
    assert many["n_results"] == 2
    assert many["results"][0]["document_id"] == 1
    assert found(backend, "search_many", queries=["zzyzx", "qwrtp"])["status"] == "no_results"
    assert call(backend, "search_many", queries=["bees"], filter="tags = ").is_error
    assert found(backend, "list_documents", filter="tags = sample")["total"] == 1
    assert call(backend, "list_documents", filter="page = 2").is_error
    entry = library.vocabulary.synonyms.add(["lava"], root="magma")
    page = found(backend, "list_synonyms", containing="mag")
    assert page["entries"] == [{"root": "magma", "synonyms": ["lava"]}]
    library.vocabulary.synonyms.delete(entry.id)


def test_nothing_found_is_a_result_that_says_so(backend: Backend) -> None:
    result = call(backend, "search_chunks", query="zzyzx qwrtp")
    assert not result.is_error
    assert result.structured_content["status"] == "no_results"
    assert (result.structured_content["n_results"], result.structured_content["results"]) == (0, [])
    assert text_of(result).startswith("No results for “zzyzx qwrtp”. Try again with other words.")
    filtered = call(backend, "search_chunks", query="bees", file_type_filter="pdf")
    assert "without the filters" in text_of(filtered)
    assert "no document has the type pdf" in text_of(filtered)
    unrelated = call(backend, "search_chunks", query="who pays the rent of the castle when bees fly")
    assert unrelated.structured_content["status"] == "no_answer"
    assert "nothing here seems to answer this" in text_of(unrelated)
    assert found(backend, "list_documents", tag="nope")["status"] == "no_results"
    assert found(backend, "retrieve", query="zzyzx qwrtp")["message"].startswith("No relevant content found")
    assert found(backend, "search", query="zzyzx qwrtp") == {"results": []}


def test_documents_are_listed_page_by_page(backend: Backend) -> None:
    lines, ids, pages, offset = [], [], 0, 0
    while offset is not None:
        result = call(backend, "list_documents", limit=3, offset=offset)
        page = result.structured_content
        lines += text_of(result).splitlines()[1:]
        ids += [document["document_id"] for document in page["documents"]]
        assert page["total"] == 4
        offset, pages = page.get("next_offset"), pages + 1
    assert (pages, ids) == (2, [1, 2, 3, 4])
    titles = ["Bees", "Lecture", "Law [1] fake (line 9)", "Voyage"]
    assert [line.split(" (", 1)[0] for line in lines] == [
        f"{number}. {title.split(' (', 1)[0]}" for number, title in enumerate(titles, start=1)
    ]
    by_name = found(backend, "list_documents", title_contains="BEES", tag="sample", format="md")
    assert by_name["documents"] == [{"document_id": 1}]
    assert found(backend, "list_documents", offset=99)["documents"] == []


def test_a_passage_is_read_with_its_neighbours(backend: Backend) -> None:
    first = found(backend, "list_documents", title_contains="voyage")["documents"][0]["document_id"]
    start = found(backend, "search_chunks", query="day 45", doc_name_filter="voyage", top_k=1)["results"][0]
    result = call(backend, "read_passage", chunk_id=start["chunk_id"], before=2, after=3)
    passage = result.structured_content
    assert passage["document_id"] == first
    assert backend.chunk(start["chunk_id"]).chunk.text.splitlines()[0] in text_of(result)
    assert passage["n_chunks"] >= 90
    indexes = [other["chunk_index"] for other in (*passage["before"], *passage["after"])]
    here = passage["chunk_index"]
    assert indexes == [here - 2, here - 1, here + 1, here + 2, here + 3]
    alone = found(backend, "read_passage", chunk_id=start["chunk_id"], before=0, after=0)
    assert (alone["before"], alone["after"]) == ([], [])
    assert len(found(backend, "read_passage", chunk_id=1, before=5)["before"]) == 0


def test_a_passage_over_the_budget_says_what_shows_the_whole(library: Engine, backend: Backend) -> None:
    long = "\n".join(f"The {number}th valley has a lake of {number} fathoms." for number in range(60))
    (stored,) = library.ingest_many([{"content": long, "title": "Lakes"}])
    chunk_id = backend.chunk_id(stored.id, 0)
    try:
        cut = call(backend, "read_passage", chunk_id=chunk_id, max_tokens=LEAST_TOKENS)
        needed = cut.structured_content["n_tokens_needed"]
        assert f"max_tokens of {needed:,} shows the whole passage" in text_of(cut)
        assert "The 0th valley" in text_of(cut)
        whole = call(backend, "read_passage", chunk_id=chunk_id, max_tokens=needed)
        assert "n_tokens_needed" not in whole.structured_content
        last = backend.chunk(chunk_id).chunk.text.splitlines()[-1]
        assert last in text_of(whole)
        assert last not in text_of(cut)
    finally:
        library.documents.delete(stored.id)


def test_an_explanation_adds_up(backend: Backend) -> None:
    result = found(backend, "explain_result", query=QUESTION, chunk_id=1)
    assert result["rank"] == 1
    assert sum(part["contribution"] for part in result["parts"]) == pytest.approx(result["score"], abs=1e-3)
    assert "bees" in result["matched_words"]
    lines = text_of(call(backend, "search_chunks", query=QUESTION)).splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.endswith(", passage 1")]
    assert lines[at + 1] == f"    why: {result['why']}"
    # The query is text: a minus excludes nothing.
    with_minus = found(backend, "explain_result", query="bees flowers -nectar", chunk_id=1)
    assert with_minus["rank"] == 1
    assert with_minus["kept_out"] == []


def test_retrieve_has_the_form_of_its_document(backend: Backend) -> None:
    result = call(
        backend, "retrieve", query=QUESTION, top_k=2, threshold=0.01, filters={"category": "nature"}
    )
    body = result.structured_content
    assert set(body) == {"results", "query", "total_results", "message", "results_summary", "notice"}
    assert body["total_results"] == len(body["results"]) == 2
    assert body["message"] == "Found 2 relevant documents"
    best = body["results"][0]
    assert set(best) == {"content", "metadata", "similarity"}
    assert best["metadata"]["source"] == "notes/bees.md"
    assert best["metadata"]["category"] == "nature"
    assert 0.01 <= best["similarity"] <= 1
    assert body["results_summary"].startswith(
        f"1. notes/bees.md (sim: {best['similarity']:.2f}): Bees visit flowers"
    )
    assert found(backend, "retrieve", query=QUESTION, filters={"category": "law"})["total_results"] == 0
    assert found(backend, "retrieve", query=QUESTION, threshold=1.0)["results"] == []


def test_retrieve_has_no_pinned_passage_below_the_threshold(library: Engine, backend: Backend) -> None:
    (voyage,) = library.documents.list(q="Voyage").documents
    pin = library.pins.add("bees nectar", [voyage.id])
    try:
        everything = found(backend, "retrieve", query="bees nectar")["results"]
        similar = found(backend, "retrieve", query="bees nectar", threshold=0.2)["results"]
    finally:
        library.pins.delete(pin.id)
    assert everything[0]["metadata"]["document_id"] == voyage.id
    assert similar
    assert all(each["similarity"] >= 0.2 for each in similar)


def test_research_agents_search_and_fetch(backend: Backend) -> None:
    result = call(backend, "search", query=QUESTION)
    pages = result.structured_content["results"]
    assert text_of(result).startswith('{"results":[{"id":"1/0","title":"Bees')
    assert set(pages[0]) == {"id", "title", "url"}
    whole = found(backend, "fetch", id=pages[0]["id"])
    assert whole["id"] == pages[0]["id"]
    assert "Cereals need none" in whole["text"]
    assert whole["metadata"]["place"] == "whole document"
    assert found(backend, "fetch", id="1")["text"] == whole["text"]


def test_fetch_reads_a_long_document_in_parts(backend: Backend) -> None:
    seen: list[str] = []
    page_id: str | None = "4"
    while page_id is not None:
        page = found(backend, "fetch", id=page_id)
        assert len(page["text"]) < 20_000
        seen += page["text"].split("\n\n")
        _, _, continued = page["metadata"]["place"].partition("; ")
        page_id = continued.partition(" ")[0] or None
    days = [line for line in dict.fromkeys(seen) if line.startswith("The ship")]
    assert len(days) == 90


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search_chunks", {}, "query: Field required"),
        ("search_chunks", {"query": ""}, "query: String should have at least 1 character"),
        ("search_chunks", {"query": "   "}, "query: is empty"),
        ("search_chunks", {"query": "x" * 5000}, "5,000 characters"),
        ("search_chunks", {"query": ["a"]}, "query: Input should be a valid string"),
        ("search_chunks", {"query": "a", "top_k": 0}, "top_k"),
        ("search_chunks", {"query": "a", "top_k": 101}, "top_k"),
        ("search_chunks", {"query": "a", "topk": 5}, "no argument 'topk'; did you mean top_k?"),
        ("search_chunks", {"query": "a", "file_type_filter": "pfd"}, "did you mean pdf"),
        ("list_documents", {"offset": -1}, "offset"),
        ("list_documents", {"limit": 10**9}, "limit"),
        ("read_passage", {"chunk_id": 99_999}, "there is no chunk 99999"),
        ("read_passage", {"chunk_id": 10**30}, "chunk"),
        ("read_passage", {"chunk_id": 1, "before": 11}, "before"),
        ("explain_result", {"query": "bees", "chunk_id": 99_999}, "there is no chunk 99999"),
        ("retrieve", {"query": "a", "threshold": 2}, "threshold"),
        ("retrieve", {"query": "a", "top_k": 51}, "top_k"),
        ("retrieve", {"query": "a", "filters": {"source": 3}}, "source: must be a text"),
        ("retrieve", {"query": "a", "filters": {"a": {"b": 1}}}, "filters"),
        ("fetch", {"id": "../../etc/passwd"}, "is not an id of search"),
        ("fetch", {"id": "99999"}, "there is no document 99999"),
        ("fetch", {"id": "4/99999"}, "document 4 has no chunk 99999"),
        ("serch", {"query": "a"}, "there is no tool 'serch'; did you mean search"),
    ],
)
def test_bad_arguments_are_refused_in_words(
    backend: Backend, tool: str, arguments: dict[str, Any], message: str
) -> None:
    text = refused(backend, tool, **arguments)
    assert message in text
    assert "Traceback" not in text
    assert "pydantic" not in text
    assert len(text) < 700
