"""Batches, pages by cursor, selected fields, texts, token budgets, prompts and lines, over HTTP."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Store, assert_problem

from shoal.engine import Engine
from shoal.errors import StorageError

LINES = {"Accept": "application/x-ndjson"}


@pytest.fixture(autouse=True)
def library(store: Store) -> None:
    store(f"# Fire\n\n{VOLCANO}\n\n# Growth\n\n{FLOWER}\n", title="Fire", format="markdown", tags=["n"])
    store(LAW, title="Courts", tags=["law"])
    store("The rock is old. The lava is new. A crater holds ash.", title="Rocks")


def post(client: FlaskClient, path: str, **body: Any) -> dict[str, Any]:
    response = client.post(f"{API}{path}", json=body)
    assert response.status_code == 200, response.get_data(as_text=True)
    values: dict[str, Any] = response.get_json()
    return values


def lines_of(response: Any) -> list[dict[str, Any]]:
    assert response.status_code == 200
    assert response.content_type.startswith("application/x-ndjson")
    text = response.get_data(as_text=True)
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ("took_ms", "trace_id")}


def test_pages_by_cursor_in_body_and_address(client: FlaskClient) -> None:
    whole = [r["chunk_id"] for r in post(client, "/search", query="lava and rock")["results"]]
    first = post(client, "/search", query="lava and rock", top_k=1)
    arguments = {"q": "lava and rock", "top_k": "5", "cursor": first["next_cursor"]}
    second = client.get(f"{API}/search", query_string=arguments).get_json()
    assert [r["chunk_id"] for r in (*first["results"], *second["results"])] == whole
    assert second["next_cursor"] is None
    refused = client.get(f"{API}/search", query_string={"q": "law", "cursor": first["next_cursor"]})
    assert_problem(refused, 422, "cursor")


def test_fields_are_selected(client: FlaskClient) -> None:
    whole = post(client, "/search", query="lava")["results"][0]
    some = post(client, "/search", query="lava", include=["text", "chunk_id"])["results"][0]
    assert some == {"text": whole["text"], "chunk_id": whole["chunk_id"]}
    others = post(client, "/search", query="lava", exclude=["text", "scores"])["results"][0]
    assert others == {name: value for name, value in whole.items() if name not in ("text", "scores")}
    by_address = client.get(
        f"{API}/search", query_string={"q": "lava", "include": "text,chunk_id", "exclude": "text"}
    )
    assert by_address.get_json()["results"][0] == {"chunk_id": whole["chunk_id"]}
    with_notes = post(
        client, "/search", query="lava", units=["chunk", "note"], include=["note", "match_score"]
    )
    assert with_notes["results"][0].keys() == {"match_score"}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"include": ["txet"]}, "include"),
        ({"exclude": ["x" * 10_000]}, "exclude"),
        ({"include": ["text"] * 101}, "include"),
        ({"include": "text"}, "include"),
        ({"text": "half"}, "text"),
        ({"text": "none", "max_tokens": 5}, "text"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"prompt": "yes"}, "prompt"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "A" * 100_000}, "cursor"),
        ({"units": ["note"], "max_tokens": 5}, "max_tokens"),
        ({"units": ["note"], "text": "none"}, "text"),
    ],
)
def test_bad_argument_is_named(client: FlaskClient, fields: dict[str, Any], field: str) -> None:
    problem = assert_problem(client.post(f"{API}/search", json={"query": "lava", **fields}), 422)
    assert any(name.startswith(field) for name in problem["errors"])
    if fields == {"include": ["txet"]}:
        assert "did you mean text" in problem["errors"]["include"][0]


def test_texts_and_budget(client: FlaskClient) -> None:
    none = post(client, "/search", query="lava", text="none")["results"][0]
    assert (none["text"], none["highlights"]) == ("", [])
    assert none["text_span"] == [none["start_char"], none["start_char"]]
    answer = post(client, "/search", query="lava and rock", max_tokens=120, prompt=True)
    assert answer["tokens"]["used"] == answer["prompt"]["n_tokens"] <= 120
    assert answer["tokens"]["tokenizer"] == "shoal-estimate-1"
    assert [reference["number"] for reference in answer["prompt"]["references"]] == [
        number for number, _ in enumerate(answer["results"], 1)
    ]
    assert post(client, "/search", query="nowhereword", prompt=True)["prompt"] is None
    assert "prompt" not in post(client, "/search", query="lava")


def test_lines_have_head_results_and_end(client: FlaskClient) -> None:
    whole = post(client, "/search", query="lava and rock", top_k=2, max_tokens=500)
    lines = lines_of(
        client.post(
            f"{API}/search", json={"query": "lava and rock", "top_k": 2, "max_tokens": 500}, headers=LINES
        )
    )
    assert [next(iter(line)) for line in lines] == ["head", "result", "result", "end"]
    assert [line["result"] for line in lines[1:-1]] == whole["results"]
    assert lines[0]["head"].keys() == {"total", "query_info", "weights", "trace_id"}
    assert lines[-1]["end"].pop("took_ms") > 0
    assert lines[-1]["end"] == {
        "n_results": 2,
        "warnings": whole["warnings"],
        "next_cursor": whole["next_cursor"],
        "has_more": True,
        "tokens": whole["tokens"],
    }
    by_address = client.get(f"{API}/search", query_string={"q": "lava"}, headers=LINES)
    assert "end" in lines_of(by_address)[-1]
    any_type = client.get(f"{API}/search", query_string={"q": "lava"}, headers={"Accept": "*/*"})
    assert any_type.is_json
    assert_problem(client.post(f"{API}/search", json={"query": ""}, headers=LINES), 422, "query")


def test_documents_have_a_line_each(client: FlaskClient) -> None:
    query = {"query": "lava and rock", "group_by": "document"}
    whole = post(client, "/search", **query)
    lines = lines_of(client.post(f"{API}/search", json=query, headers=LINES))
    assert [next(iter(line)) for line in lines] == ["head", *["document"] * len(whole["documents"]), "end"]
    assert [line["document"] for line in lines[1:-1]] == whole["documents"]
    assert lines[0]["head"].keys() == {"total", "total_documents", "query_info", "weights", "trace_id"}
    assert lines[-1]["end"]["n_results"] == len(whole["documents"]) > 0


def test_batch_answers_like_single_searches(client: FlaskClient) -> None:
    searches: list[Any] = [
        "lava",
        {"query": "law", "include_scores": True, "exclude": ["text"]},
        {"query": "rock", "topk": 1},
        {"query": "rock", "include": ["nothing"]},
    ]
    body = post(client, "/search/batch", searches=searches)
    assert [answer["index"] for answer in body["answers"]] == [0, 1, 2, 3]
    assert without_times(body["answers"][0]["answer"]) == without_times(post(client, "/search", query="lava"))
    single = post(client, "/search", **searches[1])
    assert without_times(body["answers"][1]["answer"]) == without_times(single)
    assert [answer["problem"] is None for answer in body["answers"]] == [True, True, False, False]
    problems = [answer["problem"] for answer in body["answers"][2:]]
    assert [(problem["status"], *problem["errors"]) for problem in problems] == [
        (422, "topk"),
        (422, "include"),
    ]
    metrics = client.get("/metrics").get_data(as_text=True)
    assert 'shoal_search_batch_searches_bucket{le="5.0"} 1.0' in metrics


def test_fused_batch(client: FlaskClient) -> None:
    searches = ["lava and crater", {"query": "rock", "include_scores": True}]
    body = post(client, "/search/batch", searches=searches, fused=True, include=["chunk_id"], prompt=True)
    assert all(answer["answer"]["results"] == [] for answer in body["answers"])
    first = body["fused"][0]
    assert first["result"].keys() == {"chunk_id"}
    assert first["fused_score"] == pytest.approx(sum(finder["part"] for finder in first["found_by"]))
    assert body["prompt"]["references"][0]["chunk_id"] == first["result"]["chunk_id"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "searches"),
        ({"searches": []}, "searches"),
        ({"searches": "lava"}, "searches"),
        ({"searches": ["lava"] * 101}, "searches"),
        ({"searches": [{"query": "lava", "top_k": 100}] * 21}, "searches"),
        ({"searches": ["lava"], "units": ["note"]}, "units"),
        ({"searches": ["lava"], "prompt": True}, "fused"),
        ({"searches": ["lava"], "include": ["nothing"]}, "include"),
        ({"searches": ["lava"], "fused": True, "top_k": 1000}, "top_k"),
    ],
)
@pytest.mark.parametrize("headers", [{}, LINES])
def test_bad_batch_is_refused(
    client: FlaskClient, body: dict[str, Any], field: str, headers: dict[str, str]
) -> None:
    assert_problem(client.post(f"{API}/search/batch", json=body, headers=headers), 422, field)


def test_hostile_searches_have_problems(client: FlaskClient) -> None:
    searches: list[Any] = [
        None,
        7,
        [],
        {},
        [["lava"]],
        {"query": {"a": 1}},
        {"query": "x" * 100_000},
        {"": 1},
    ]
    body = post(client, "/search/batch", searches=[*searches, "lava"])
    assert [answer["problem"] is None for answer in body["answers"]] == [False] * len(searches) + [True]
    assert all(answer["problem"]["status"] == 422 for answer in body["answers"][:-1])


def test_batch_as_lines(client: FlaskClient) -> None:
    searches = ["lava", {"query": ""}, "rock"]
    whole = post(client, "/search/batch", searches=searches, fused=True)
    lines = lines_of(
        client.post(f"{API}/search/batch", json={"searches": searches, "fused": True}, headers=LINES)
    )
    answers = [line["answer"] for line in lines if "answer" in line]
    assert lines[0]["head"]["n_searches"] == 3
    assert sorted(answer["index"] for answer in answers) == [0, 1, 2]
    by_index = sorted(answers, key=lambda answer: answer["index"])
    assert without_times(by_index[2]["answer"]) == without_times(whole["answers"][2]["answer"])
    assert [line["fused"] for line in lines if "fused" in line] == whole["fused"]
    assert lines[-1]["end"]["warnings"] == whole["warnings"]


def test_failure_after_the_first_answer_is_the_last_line(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Engine.search_many

    def fail(self: Engine, searches: Any, **options: Any) -> None:
        run(self, searches[:1], **options)
        raise StorageError("the disk is gone: /secret")

    monkeypatch.setattr(Engine, "search_many", fail)
    response = client.post(f"{API}/search/batch", json={"searches": ["lava", "rock"]}, headers=LINES)
    lines = lines_of(response)
    assert [next(iter(line)) for line in lines] == ["head", "answer", "end"]
    assert lines[-1]["end"]["problem"]["status"] == 500
    assert "secret" not in json.dumps(lines)


def test_client_that_goes_away_ends_the_batch(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Engine.search_many
    ended = threading.Event()

    def endless(self: Engine, searches: Any, *, on_answer: Any, **options: Any) -> None:
        try:
            while True:
                run(self, searches, on_answer=on_answer, **options)
        finally:
            ended.set()

    monkeypatch.setattr(Engine, "search_many", endless)
    response = client.post(f"{API}/search/batch", json={"searches": ["lava"]}, headers=LINES)
    assert not ended.is_set()
    response.close()
    assert ended.wait(30)
