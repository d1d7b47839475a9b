"""Whole documents as results, and near-duplicates folded under the best of them."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_scorer import REEF_WORDS, FakeScorer
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.models.search import DocumentResult, SearchResult
from shoal.search import folding
from shoal.search.audit import search_arguments
from shoal.search.folding import SIMILAR, find_folders, find_similarities
from shoal.settings import Settings

QUERY = "volcano magma lava"
FILLER = " ".join(f"word{number}" for number in range(40))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("grouped")
    settings = Settings(
        database_url=f"sqlite:///{folder}/shoal.db",
        learning=False,
        audit="full",
        audit_file=f"{folder}/audit.jsonl",
    )
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        reefs = list(REEF_WORDS.values())
        for number in range(6):
            parts = [
                f"# Part {n}\n\nThe {reefs[n % 3]}. {FILLER.replace('word', f'w{number}x{n}x')}."
                for n in range(2 + number)
            ]
            engine.ingest(
                title=f"Long {number}", content="\n\n".join(parts), format="markdown", metadata={"n": number}
            )
        for number in range(4):
            content = f"The volcano and its magma and lava flow. {FILLER}. Copy {number}."
            engine.ingest(title=f"Copy {number}", content=content)
        yield engine


def documents(engine: Engine, **arguments: Any) -> list[DocumentResult]:
    response = engine.search(QUERY, group_by="document", **arguments)
    assert response.results == []
    assert response.documents is not None
    return list(response.documents)


def passages(engine: Engine, **arguments: Any) -> list[SearchResult]:
    return list(engine.search(QUERY, top_k=100, max_per_document=0, **arguments).results)


@pytest.mark.parametrize("arguments", [{}, {"sort": "-n"}, {"boosts": ['0.3:section = "Part 1"']}])
def test_documents_are_ranked_by_their_best_passages(library: Engine, arguments: dict[str, Any]) -> None:
    every = passages(library, **arguments)
    ids = list(dict.fromkeys(result.document_id for result in every))
    found = documents(library, top_k=100, max_per_document=2, **arguments)
    assert [document.document_id for document in found] == ids
    for document in found:
        own = [result for result in every if result.document_id == document.document_id]
        assert list(document.passages) == own[:2]
        assert document.n_matches == len(own)
        assert document.match_score == own[0].match_score
        assert document.best_chunk_id == own[0].chunk_id
        assert document.sort_values == own[0].sort_values


def test_pages_count_documents(library: Engine) -> None:
    whole = [document.document_id for document in documents(library)]
    pages = [documents(library, top_k=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert [document.document_id for page in pages for document in page] == whole
    assert len(whole) == 10


def test_reefs_summarize_the_whole_document(library: Engine) -> None:
    (first,) = [document for document in documents(library) if document.document_title == "Long 5"]
    ribbon = {reef.reef_name for passage in first.passages for reef in passage.labels[:1]}
    assert {reef.reef_name for reef in first.reefs} >= ribbon
    assert [reef.n_chunks for reef in first.reefs] == sorted((r.n_chunks for r in first.reefs), reverse=True)
    assert sum(reef.n_chunks for reef in first.reefs) > len(first.passages)


def test_explanation_ranks_the_document(library: Engine) -> None:
    for rank, document in enumerate(documents(library), start=1):
        target = library.explain(QUERY, document_id=document.document_id, group_by="document").target
        assert target is not None
        assert (target.rank, target.chunk_id) == (rank, document.best_chunk_id)
        for passage in document.passages[1:]:
            other = library.explain(QUERY, chunk_id=passage.chunk_id, group_by="document").target
            assert other is not None
            assert other.rank is None
            assert [reason.reason for reason in other.kept_out] == ["grouped"]
            assert str(document.best_chunk_id) in other.kept_out[0].message


def test_less_relevant_passages_are_removed(library: Engine) -> None:
    least = sorted(passage.relevance for document in documents(library) for passage in document.passages)[8]
    for document in documents(library, min_relevance=least):
        assert all(passage.relevance >= least for passage in document.passages)


def test_page_of_documents_is_bounded(library: Engine) -> None:
    for limit in (0, 101):
        with pytest.raises(QueryError, match="1 to 100") as caught:
            documents(library, max_per_document=limit)
        assert caught.value.field == "max_per_document"
    with pytest.raises(QueryError, match="chunk, document"):
        library.search(QUERY, group_by="page")


@pytest.mark.parametrize("options", [{}, {"group_by": "document"}, {"fold_similar": True}])
def test_a_page_says_whether_results_follow(library: Engine, options: dict[str, Any]) -> None:
    for relevance in (0, 1):
        offset, sizes = 0, []
        while True:
            page = library.search(QUERY, top_k=4, offset=offset, min_relevance=relevance, **options)
            sizes.append(len(page.results if page.documents is None else page.documents))
            offset += 4
            if not page.has_more:
                break
        assert len(sizes) > 1
        after = library.search(QUERY, top_k=4, offset=offset, **options)
        assert not after.results
        assert not after.documents
        assert not after.has_more
        assert not relevance or not any(sizes)


@pytest.mark.parametrize("group_by", ["chunk", "document"])
def test_copies_are_folded_under_the_best(library: Engine, group_by: str) -> None:
    def first(response: Any) -> list[Any]:
        return list(response.results or response.documents)

    arguments = {"top_k": 20, "group_by": group_by, "max_per_document": 3}
    plain = first(library.search(QUERY, **arguments))
    folded = first(library.search(QUERY, fold_similar=True, **arguments))
    copies = [result.document_id for result in plain if result.document_title.startswith("Copy")]
    (best,) = [result for result in folded if result.document_title.startswith("Copy")]
    assert [best.document_id, *(each.document_id for each in best.folded)] == copies
    assert all(SIMILAR <= each.similarity <= 1 for each in best.folded)
    others = [result.document_id for result in plain if result.document_id not in copies]
    assert [result.document_id for result in folded if result is not best] == others
    assert all(result.folded == () for result in folded if result is not best)
    assert all(result.folded is None for result in plain)


def test_pages_of_folded_results_continue_each_other(
    library: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Few are compared, so that pages reach beyond.
    monkeypatch.setattr(folding, "FOLD_DEPTH", 18)
    whole = [r.chunk_id for r in library.search(QUERY, top_k=50, fold_similar=True).results]
    pages = [
        [r.chunk_id for r in library.search(QUERY, top_k=4, offset=offset, fold_similar=True).results]
        for offset in range(0, len(whole) + 4, 4)
    ]
    assert list(itertools.chain(*pages)) == whole
    raw = [r.chunk_id for r in library.search(QUERY, top_k=50).results]
    assert len(raw) > len(whole)
    assert whole[-(len(raw) - 18) :] == raw[18:]
    for rank, chunk_id in enumerate(whole, start=1):
        target = library.explain(QUERY, chunk_id=chunk_id, fold_similar=True, top_k=100).target
        assert target is not None
        assert target.rank == rank


def test_explanation_names_what_a_copy_is_folded_under(library: Engine) -> None:
    (best,) = [r for r in library.search(QUERY, fold_similar=True, top_k=20).results if r.folded]
    assert best.folded
    target = library.explain(QUERY, chunk_id=best.folded[0].chunk_id, fold_similar=True).target
    assert target is not None
    assert target.rank is None
    (reason,) = target.kept_out
    assert reason.reason == "folded"
    assert f"chunk {best.chunk_id}" in reason.message


def test_audit_line_repeats_the_search(library: Engine) -> None:
    found = library.search(QUERY, group_by="document", fold_similar=True)
    entry = json.loads(Path(library.settings.audit_file).read_text().splitlines()[-1])
    assert (entry["group_by"], entry["fold_similar"]) == ("document", True)
    again = library.search(**search_arguments(entry))
    assert found.documents is not None
    assert again.documents is not None
    best = {document.best_chunk_id: document.folded for document in found.documents}
    assert [each["chunk_id"] for each in entry["results"]] == list(best)
    for each in entry["results"]:
        assert each.get("folded", []) == [copy.chunk_id for copy in best[each["chunk_id"]] or ()]
    assert [_without_details(each) for each in again.documents] == list(
        map(_without_details, found.documents)
    )


def _without_details(document: DocumentResult) -> DocumentResult:
    """Without what an audit line does not ask for again."""
    return dataclasses.replace(document, passages=())


texts = st.lists(st.lists(st.sampled_from("abc"), max_size=12).map(" ".join), max_size=6)


@given(texts)
def test_similarities_are_those_of_sets_of_shingles(given_texts: list[str]) -> None:
    def shingles(text: str) -> set[tuple[str, ...]]:
        words = text.split() or [""]
        length = min(5, len(words))
        return {tuple(words[place : place + length]) for place in range(len(words) - length + 1)}

    found = find_similarities(given_texts)
    for i, j in itertools.product(range(len(given_texts)), repeat=2):
        one, other = shingles(given_texts[i]), shingles(given_texts[j])
        assert found[i, j] == pytest.approx(len(one & other) / len(one | other))


def test_shingles_beyond_one_block_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"w{number}" for number in range(60)]
    given_texts = [" ".join(words), " ".join(words[:50]), " ".join(words[10:])]
    whole = find_similarities(given_texts)
    monkeypatch.setattr(folding, "SHINGLES_TOGETHER", 7)
    assert np.array_equal(find_similarities(given_texts), whole)
    assert whole[0, 1] == pytest.approx(46 / 56)


def test_case_signs_and_odd_texts() -> None:
    one, same, other = "A storm at sea, at night!", "a STORM at sea at night", "a storm at sea by day"
    assert find_folders([one, other, same]) == [(0, 1.0), (1, 1.0), (0, 1.0)]
    assert find_folders(["!!!", "???", "!!!", "", "\ud800"]) == [
        (0, 1.0),
        (1, 1.0),
        (0, 1.0),
        (3, 1.0),
        (4, 1.0),
    ]
    assert find_folders([]) == []


def mail(subject: str, text: str, **files: str) -> bytes:
    message = EmailMessage()
    message["From"] = "Ann <ann@example.org>"
    message["Subject"] = subject
    message.set_content(text)
    for name, content in files.items():
        data = content.encode()
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=f"{name}.txt")
    return message.as_bytes()


def test_attachments_are_grouped_under_their_mail(tmp_path: Path) -> None:
    files = {
        "one.eml": mail("One", "Rain and clouds.", deep=f"The volcano and its magma and lava. {FILLER}"),
        "two.eml": mail("Two", f"The lava of the volcano. {FILLER}", wet="Rain and wind.", hot="Hot lava."),
    }
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer()) as engine:
        for name, data in files.items():
            (tmp_path / name).write_bytes(data)
            engine.ingest_file(tmp_path / name, tags=[name])
        own = engine.ingest(title="Own", content="The volcano alone.")
        by_title = {document.title: document.id for document in engine.documents.list(limit=20).documents}
        found = engine.search(QUERY, group_by="parent", max_per_document=5)
        groups = {document.document_title: document for document in found.documents or ()}
        assert {
            title: {passage.document_title for passage in each.passages} for title, each in groups.items()
        } == {"One": {"Deep"}, "Two": {"Two", "Hot"}, "Own": {"Own"}}
        assert [groups[title].document_id for title in ("One", "Own")] == [by_title["One"], own.id]
        assert groups["One"].tags == ("one.eml",)
        assert groups["Two"].n_matches == 2
        assert found.total_documents == 3
        mail_alone = engine.explain(QUERY, group_by="parent", document_id=by_title["Two"]).target
        assert mail_alone is not None
        assert [each.reason for each in mail_alone.kept_out] == ["grouped"]
        # Without the links each is a document of its own.
        apart = engine.search(QUERY, group_by="document", max_per_document=5)
        assert apart.total_documents == 4


def test_links_in_a_circle_have_an_end(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer()) as engine:
        ids = [engine.ingest(title=f"T{n}", content=f"The volcano number {n}.").id for n in range(3)]
        with engine.database.write() as transaction:
            for n in range(3):
                row = {"document_id": ids[n], "parent_id": ids[(n + 1) % 3]}
                transaction.execute("INSERT INTO document_parents VALUES (:document_id, :parent_id, '')", row)
        assert engine.search(QUERY, group_by="parent").documents
        assert engine.documents.delete(ids[0] or 0)
