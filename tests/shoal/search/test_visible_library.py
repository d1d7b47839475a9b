"""A library as the bearer of a search token sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from teaching_texts import about

from shoal.engine import Engine
from shoal.errors import FilterError, IndexBehindError, NotFoundError, QueryError, RestrictedError
from shoal.filters.parsing import make_filter
from shoal.filters.visibility import Viewer
from shoal.index.matching import count_form, count_roughly
from shoal.search import library_index, passage_languages, visible_forms
from shoal.search.request import CHANGED
from shoal.search.suggesting import count_compounds
from shoal.settings import Settings
from shoal.storage import attachments

LAVA = "The volcano throws lava and ash over the valley of the crater."
BASALT = "Lava of the volcano cools to basalt beside the crater."
FLOWER = "A bee carries pollen to the flower and the petal."
LAW = "The judge asks the jury about the crime and the court."


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}")
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        yield opened


def viewer(*principals: str, tree: Any = None, hidden: tuple[str, ...] = ()) -> Viewer:
    return Viewer(frozenset(principals), make_filter(tree), frozenset(hidden))


def found(engine: Engine, who: Viewer, query: str = "lava volcano pollen judge") -> set[int]:
    seen = engine.seen_by(who)
    ids = {result.document_id for result in seen.search(query).results}
    assert ids == {document.id for document in seen.documents.list().documents}
    return ids


def test_rights_decide_who_finds_a_document(engine: Engine) -> None:
    staff = engine.ingest(content=LAVA, allow=["group:staff"], deny=["user:bob"]).id
    anyone = engine.ingest(content=BASALT, allow=["everyone"]).id
    no_one = engine.ingest(content=LAW, allow=[]).id
    without = engine.ingest(content=FLOWER).id
    assert found(engine, viewer()) == {anyone, without}
    assert found(engine, viewer("group:staff", "user:ann")) == {staff, anyone, without}
    assert found(engine, viewer("group:staff", "user:bob")) == {anyone, without}
    engine.documents.change_access_settings("nobody")
    assert found(engine, viewer("group:staff")) == {staff, anyone}
    assert no_one in {result.document_id for result in engine.search("judge").results}


def test_a_change_of_rights_holds_from_the_next_search(engine: Engine) -> None:
    document_id = engine.ingest(content=LAVA, allow=["group:a"]).id
    assert document_id is not None
    assert found(engine, viewer("group:b")) == set()
    engine.documents.replace(document_id, content=LAVA, allow=["group:b"])
    assert found(engine, viewer("group:b")) == {document_id}
    assert found(engine, viewer("group:a")) == set()


def test_rights_that_change_during_a_search_hold_from_the_next_one(engine: Engine) -> None:
    document_id = engine.ingest(content=LAVA, allow=["group:a"]).id
    assert document_id is not None
    seen = engine.seen_by(viewer("group:a"))
    with seen._visible.reading() as (snapshot, library):  # type: ignore[attr-defined]
        engine.documents.change(document_id, allow=["group:b"])
        assert library.sees_document(snapshot, document_id)
        assert seen._visible.index.of(snapshot).n_chunks == 1  # type: ignore[attr-defined]
        assert seen.search("lava").results == []
        assert found(engine, viewer("group:b")) == {document_id}
        assert library.sees_document(snapshot, document_id)
    with pytest.raises(NotFoundError):
        seen.documents.get(document_id)


def test_a_filter_restricts_and_an_unknown_key_shows_nothing(engine: Engine) -> None:
    first = engine.ingest(content=LAVA, metadata={"tenant": "a"}).id
    engine.ingest(content=FLOWER, metadata={"tenant": "b"})
    assert found(engine, viewer(tree="tenant = a")) == {first}
    assert found(engine, viewer(tree='NOT tenant = "b"')) == {first}
    # Misspelt: no document has such a key.
    assert found(engine, viewer(tree='NOT tennant = "b"')) == set()
    with pytest.raises(FilterError, match="is of passages"):
        viewer(tree="page > 3")


def test_words_of_hidden_documents_are_no_corrections_suggestions_or_counts(engine: Engine) -> None:
    engine.ingest(title="Secret volcanology", content=LAVA, allow=["group:a"], tags=["fire"])
    engine.ingest(title="Garden", content=FLOWER, tags=["bees"])
    seen = engine.seen_by(viewer())
    assert [near.word for near in engine.search("voclano").query_info.near_words] == ["volcano"]
    assert seen.search("voclano").query_info.near_words == ()
    assert engine.suggest("secr").suggestions
    assert not seen.suggest("secr").suggestions
    assert not seen.suggest("vol").suggestions
    assert seen.explain("volcano").words[0].n_chunks == 0
    (tags,) = seen.facets(["tags"]).facets
    assert [value.value for value in tags.values] == ["bees"]
    assert "did you mean" not in " ".join(seen.search("bee", tags=["fir"]).warnings)
    (warning,) = [each for each in seen.search("bee", tags=["fire"]).warnings if "tag" in each]
    assert warning == "no document has the tag fire"


def test_what_may_not_be_seen_is_not_found_like_what_is_missing(engine: Engine) -> None:
    hidden = engine.ingest(content=LAVA, allow=["group:a"]).id
    seen = engine.seen_by(viewer())
    assert hidden is not None
    chunk_id = engine.documents.chunks(hidden).chunks[0].id
    calls: list[tuple[Callable[[int], Any], int]] = [
        (seen.documents.get, hidden),
        (seen.documents.content, hidden),
        (seen.documents.chunks, hidden),
        (seen.documents.file, hidden),
        (seen.documents.ribbon, hidden),
        (seen.documents.chunk, chunk_id),
        (seen.similar, chunk_id),
        (lambda each: seen.explain("lava", document_id=each), hidden),
        (lambda each: seen.explain("lava", chunk_id=each), chunk_id),
    ]
    for call, foreign in calls:
        messages = []
        for each in (foreign, 999):
            with pytest.raises(NotFoundError) as error:
                call(each)
            messages.append(str(error.value).replace(str(each), "ID"))
        assert messages[0] == messages[1]


def test_hidden_keys_are_not_shown_searched_or_counted(engine: Engine) -> None:
    document_id = engine.ingest(content=LAVA, metadata={"salary": 7, "year": 2020}).id
    assert document_id is not None
    seen = engine.seen_by(viewer(hidden=("salary",)))
    (result,) = seen.search("lava").results
    assert result.metadata == {"year": 2020}
    assert seen.documents.get(document_id).document.metadata == {"year": 2020}
    assert seen.documents.list().documents[0].metadata == {"year": 2020}
    chunk = seen.documents.chunk(result.chunk_id)
    assert chunk.document.metadata == {"year": 2020}
    (grouped,) = seen.search("lava", group_by="document").documents or ()
    assert grouped.metadata == {"year": 2020}
    uses: dict[str, tuple[Callable[[], Any], ...]] = {
        "filter": (
            lambda: seen.search("lava", filter="salary > 3"),
            lambda: seen.documents.list(filter="salary = 7"),
        ),
        "filters.metadata.salary": (lambda: seen.search("lava", filters={"metadata": {"salary": 7}}),),
        "filters.salary": (lambda: seen.retrieve("lava", filters={"salary": 7}),),
        "sort": (lambda: seen.search("lava", sort=["-year", "salary"]),),
        "decay.field": (
            lambda: seen.search("lava", decay={"field": "salary", "half_life_days": 1, "weight": 1}),
        ),
        "boosts[1].filter": (
            lambda: seen.search(
                "lava", boosts=[{"filter": f"{key} = 7", "weight": 1} for key in ("year", "salary")]
            ),
        ),
        "facets[1]": (
            lambda: seen.search("lava", facets=["year", "salary"]),
            lambda: seen.facets(["year", "salary"]),
        ),
    }
    for field, calls in uses.items():
        for use in calls:
            with pytest.raises(QueryError, match="may not use the key salary") as refused:
                use()
            assert refused.value.field == field
    # The token itself may use it.
    assert found(engine, viewer(tree="salary > 8", hidden=("salary",))) == set()


def test_hidden_keys_may_be_nested(engine: Engine) -> None:
    metadata = {
        "author": [{"name": "Ada", "pay": {"net": 7}}, {"pay": {"net": 8}}, "Eve"],
        "x.y": 1,
        "x": {"y": 2, "z": 3},
    }
    engine.ingest(content=LAVA, metadata=metadata)
    seen = engine.seen_by(viewer(hidden=("author.pay", "x.y")))
    (result,) = seen.search("lava", filter='author.name = "Ada" AND x.z = 3 AND author EXISTS').results
    assert result.metadata == {"author": [{"name": "Ada"}, {}, "Eve"], "x": {"z": 3}}
    for key in ("author.pay", "author.pay.net", "x.y", '"x.y"', 'metadata."author".pay."net"'):
        with pytest.raises(FilterError, match="may not use the key"):
            seen.search("lava", filter=f"{key} > 0")


def test_hidden_links_take_no_place_from_visible_ones(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_LISTED", 2)
    texts = [(LAVA, []), (BASALT, []), (FLOWER, None), (LAW, None)]
    ids = [engine.ingest(content=text, allow=allow).id for text, allow in texts]
    child = engine.ingest(content="A tide.").id
    hashes = [engine.documents.get(each).document.content_hash for each in (*ids, child) if each]
    with engine.database.write() as transaction:
        attachments.write_links(
            transaction, child, attachments.Links(tuple((each, "tide") for each in hashes[:4]), False)
        )
        for each in ids[:3]:
            attachments.write_links(
                transaction, each, attachments.Links(((hashes[3], f"{each}"),), is_held=False)
            )
    seen = engine.seen_by(viewer())
    assert [each.id for each in engine.documents.get(child).parents] == ids[:2]
    assert [each.id for each in seen.documents.get(child).parents] == ids[2:]
    assert [each.id for each in seen.documents.get(ids[3]).attachments] == [ids[2], child]


def test_how_many_documents_an_index_lacks_is_not_said(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behind(*_: str) -> None:
        raise IndexBehindError(17, 40.0)

    seen = engine.seen_by(viewer())
    for name, given in (("check_index", ()), ("await_written", ("1",))):
        monkeypatch.setattr(engine, name, behind)
        with pytest.raises(IndexBehindError, match="40 s behind; try again"):
            getattr(seen, name)(*given)


def test_rights_of_documents_are_not_shown(engine: Engine) -> None:
    document_id = engine.ingest(content=LAVA, allow=["group:a", "user:ann"], deny=["user:x"]).id
    assert document_id is not None
    document = engine.seen_by(viewer("group:a")).documents.get(document_id).document
    assert (document.allow, document.deny) == (None, ())


def test_what_was_not_made_for_viewers_is_refused(engine: Engine) -> None:
    document_id = engine.ingest(content=LAVA).id
    seen = engine.seen_by(viewer())
    for use in (
        lambda seen: seen.database,
        lambda seen: seen.status(),
        lambda seen: seen.size(),
        lambda seen: seen.verify("Lava is hot [1]."),
        lambda seen: seen.similarity("a", "b"),
        lambda seen: seen.search_units("lava"),
        lambda seen: seen.nearest_sentences("lava", [1]),
        lambda seen: seen.cited_passages(["chunk 1"]),
        lambda seen: seen.notes.of("default").list(),
        lambda seen: seen.vocabulary.list(),
        lambda seen: seen.jobs.list(),
        lambda seen: seen.maintenance.export(),
        lambda seen: seen.ingest(content=FLOWER),
        lambda seen: seen.pins.list(),
        lambda seen: seen.saved_searches.list(),
        lambda seen: seen.queries.list(),
        lambda seen: seen.seen_by(viewer()),
        lambda seen: seen.documents.delete(document_id),
        lambda seen: seen.documents.set_tags(document_id, ["x"]),
        lambda seen: seen.documents.replace(document_id, content=FLOWER),
        lambda seen: seen.documents.exists(document_id),
        lambda seen: seen.documents.find("a", "b"),
        lambda seen: seen.documents.frequent_tags(3),
        lambda seen: seen.documents.main_reefs([document_id], 3),
        lambda seen: seen.documents.kept_files([document_id]),
        lambda seen: seen.documents.access_settings(),
        lambda seen: seen.documents.change_access_settings("nobody"),
        lambda seen: seen.documents.chunk_id(document_id, 0),
        lambda seen: seen.documents.chunk_indexes([1]),
        lambda seen: seen.documents.written_in_markdown([1]),
        lambda seen: seen.documents.awaiting_rescore([1]),
    ):
        with pytest.raises(RestrictedError):
            use(seen)
    assert engine.documents.get(document_id).document.tags == ()


def test_notes_of_the_owner_alone_may_be_read(engine: Engine) -> None:
    note_id = engine.notes.of("ann").add("Ann likes the volcano.").note.id
    seen = engine.seen_by(Viewer(owner="ann")).notes
    assert [note.id for note in seen.of("ann").list().notes] == [note_id]
    assert seen.of("ann").search("volcano").results
    with pytest.raises(NotFoundError):
        seen.of("ann").get(note_id + 1)
    for use in (
        lambda: seen.of("bob"),
        lambda: engine.seen_by(Viewer()).notes.of("ann"),
        lambda: seen.of("ann").add("Another."),
        lambda: seen.of("ann").forget(note_id),
        lambda: seen.of("ann").status(),
        lambda: seen.of("ann").merges(),
        lambda: seen.of("ann").purge(),
    ):
        with pytest.raises(RestrictedError):
            use()


def test_views_are_bounded_and_made_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_index, "MAX_VIEW_BYTES", 2_000)
    ids = [engine.ingest(content=f"{LAVA} {n}", allow=[f"group:{n}"]).id for n in range(6)]
    for n in [*range(6), *range(6)]:
        assert found(engine, viewer(f"group:{n}"), "lava") == {ids[n]}
    with engine.database.snapshot() as snapshot:
        assert len(engine._library.index.of(snapshot).views) < 6


def test_a_whole_library_of_rights_is_one_search_away(engine: Engine) -> None:
    """A thousand principals in a document and in a token."""
    names = [f"user:{n}" for n in range(1_000)]
    document_id = engine.ingest(content=LAVA, allow=names).id
    assert found(engine, viewer("user:999"), "lava") == {document_id}
    assert found(engine, viewer(*(f"user:{n}" for n in range(1_000, 2_000))), "lava") == set()


def test_an_empty_library_is_seen_as_empty(engine: Engine) -> None:
    seen = engine.seen_by(viewer("group:a"))
    assert seen.search("lava").results == []
    assert seen.documents.list().total == 0


def test_viewers_share_what_was_read(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.ingest(content=LAVA, allow=["group:a"])
    views = [engine.seen_by(viewer("group:a", f"user:{each}")) for each in ("ann", "bob")]

    def read(view: Any) -> None:
        assert view.search("lava volcano").results
        with view._visible.reading() as (_, library):
            assert count_form(library.index, "lava") == 2

    read(views[0])
    for module, name in (
        (visible_forms, "analyze_texts"),
        (visible_forms, "find"),
        (passage_languages, "find"),
    ):
        monkeypatch.setattr(module, name, None)
    read(views[1])


def test_a_word_counts_where_it_stands_alone() -> None:
    assert visible_forms._count_words("lava lavas Lava 1lava lava, lava", "lava") == 3


def test_pins_of_hidden_documents_are_not_shown(engine: Engine) -> None:
    secret = engine.ingest(content=LAVA, allow=["group:a"]).id
    shown = engine.ingest(content=BASALT).id
    assert secret is not None
    assert shown is not None
    engine.pins.add("lava", [secret])
    engine.pins.add("volcano", [secret, shown], match="contains")
    engine.pins.add("crater", hidden=[secret])
    seen = engine.seen_by(viewer())
    for query in ("lava", "crater"):
        assert engine.search(query).query_info.pins
        assert seen.search(query).query_info.pins == ()
        assert seen.explain(query).query_info.pins == ()
    response = seen.search("volcano")
    (pin,) = response.query_info.pins
    assert (pin.query, pin.n_pinned, pin.n_hidden) == ("volcano", 1, 0)
    assert [(result.document_id, result.pinned) for result in response.results] == [(shown, True)]
    assert engine.seen_by(viewer("group:a")).search("volcano").query_info.pins[0].n_pinned == 2


def test_synonyms_that_only_hidden_passages_have_are_not_shown(engine: Engine) -> None:
    engine.ingest(content="Project Zebra is about lava.", allow=["group:a"])
    engine.ingest(content=BASALT)
    engine.vocabulary.synonyms.add(["volcano", "zebra", "crater"])
    assert {each.synonym for each in engine.search("volcano").query_info.synonyms} == {"zebra", "crater"}
    seen = engine.seen_by(viewer())
    assert {each.synonym for each in seen.search("volcano").query_info.synonyms} == {"crater"}
    assert "zebra" not in str(seen.explain("volcano"))


def test_cursors_and_versions_say_nothing_of_hidden_documents(engine: Engine) -> None:
    ids = [engine.ingest(content=f"{LAVA} {n}").id for n in range(3)]
    first_id = ids[0]
    assert first_id is not None
    seen = engine.seen_by(viewer())
    first = seen.search("lava", top_k=1)
    version = seen.documents.version(first_id)
    other = engine.ingest(content="Nothing of it.", allow=["group:a"]).id
    assert other is not None
    engine.documents.change(other, title="Another")
    again = seen.search("lava", top_k=1)
    assert again.next_cursor == first.next_cursor
    assert CHANGED not in seen.search("lava", top_k=1, cursor=first.next_cursor).warnings
    assert CHANGED in engine.search("lava", top_k=1, cursor=first.next_cursor).warnings
    assert seen.documents.version(first_id) == version
    assert engine.search("lava", top_k=1).next_cursor != first.next_cursor
    # Its number counts the changes of the library.
    number = engine.documents.version(first_id).rpartition("-")[2]
    assert number.isdecimal()
    assert "-" not in version
    engine.documents.change(first_id, title="A new title")
    assert seen.documents.version(first_id) != version
    assert CHANGED in seen.search("lava", top_k=1, cursor=first.next_cursor).warnings


def test_where_a_word_was_learned_is_not_shown(tmp_path: Path) -> None:
    settings = Settings(
        database_url=f"sqlite:///{tmp_path / 'shoal.db'}", min_occurrences_short=2, association_min=0.2
    )
    with Engine(settings=settings) as engine:
        texts = [f"{about('fire', 'zorblat')} {n}" for n in range(4)]
        engine.ingest_many([{"content": text, "allow": ["group:a"]} for text in texts[1:]])
        engine.ingest(content=texts[0])
        (word,) = engine.explain("zorblat").words
        assert word.learned is not None
        assert word.learned.n_documents > 1
        (shown,) = engine.seen_by(viewer()).explain("zorblat").words
        assert (shown.status, shown.learned) == ("learned", None)


def test_compounds_are_counted_in_visible_passages(engine: Engine) -> None:
    pairs = ("bee hive", "bee colony", "bee wing", "bee nectar", "bee larva")
    engine.ingest_many({"content": f"{pair} {n}", "allow": ["group:a"]} for pair in pairs[1:] for n in "12")
    engine.ingest(content="The bee hive and the bee colony.")
    view = engine.seen_by(viewer())
    with view._visible.reading() as (_, library):  # type: ignore[attr-defined]
        assert count_compounds(library, pairs) == [("bee colony", 1), ("bee hive", 1)]


def test_fields_that_are_made_of_hidden_keys_are_hidden(engine: Engine) -> None:
    document_id = engine.ingest(content=LAVA, metadata={"date": "2019-05-01", "modality": "ocr"}).id
    assert document_id is not None
    (result,) = engine.search("lava").results
    assert result.modality == "ocr"
    seen = engine.seen_by(viewer(hidden=("date", "modality")))
    (result,) = seen.search("lava").results
    assert result.modality == "text"
    assert seen.documents.chunk(result.chunk_id).chunk.modality == "text"
    assert seen.documents.chunks(document_id).chunks[0].modality == "text"
    for use in (
        lambda: seen.search("lava", filter="date < 2020"),
        lambda: seen.search("lava", sort=["date"]),
        lambda: seen.search("lava", decay={"field": "date", "half_life_days": 3, "weight": 1}),
        lambda: seen.facets(["date:year"]),
        lambda: seen.facets(["file_type"]),
        lambda: seen.documents.list(filter="date < 2020"),
        lambda: seen.documents.list(file_type="image"),
        lambda: seen.search("lava", filters={"file_type": "image"}),
    ):
        with pytest.raises(QueryError, match="made of a hidden key"):
            use()
    assert engine.seen_by(viewer(hidden=("year",))).search("lava", filter="date < 2020").results


def test_words_of_explanations_are_as_rare_as_in_visible_passages(engine: Engine) -> None:
    """Which words would bring a passage up depends on how rare they are."""
    engine.ingest_many({"content": f"The basalt is dark {n}.", "allow": ["group:a"]} for n in range(9))
    engine.ingest(content="The basalt and the crater are dark and the crater is deep, dark and wide.")
    engine.ingest_many({"content": f"The crater is grey {n}."} for n in range(4))
    with engine.seen_by(viewer())._visible.reading() as (_, library):  # type: ignore[attr-defined]
        assert [count_roughly(library.index, stem) for stem in ("basalt", "crater")] == [1, 5]
    with engine._library.index.searching(engine.database) as (_, library):
        assert count_roughly(library.index, "basalt") == 10


ODD_TEXTS = (
    'The crater, the Crater and the CRATER; crater\'s edge (crater) "crater" x-crater craters cratered.',
    "An e-mail to Node.js by a mail-man. US and us; WHO says who. iPhone, McDonald, the phone.",
    "Café cafe CAFÉ caf\u00e9s; na\u00efve – naive… Straße strasse; \u0130stanbul istanbul, ﬁre fire.",
    "T cells are T-cells. A.B.C. abc a b c; x_ray x ray; 12(a) 12a; AT&T at t.",
    "art the art he art; hear the are; state\nState. end",
)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_forms_are_counted_without_an_analysis_only_if_it_finds_the_same(text: str) -> None:
    stream, _ = visible_forms.analyze_texts([text])
    written = [stream.forms[number] for number in stream.ids.tolist()]
    capitals = [
        form for form, is_capital in zip(written, stream.capitals.tolist(), strict=True) if is_capital
    ]
    for form in {*written, "mail", "node", "phone", "hear", "ray", "cell", "missing", "fire", "cafe"}:
        counted = visible_forms.count_plainly(text, form)
        assert counted in (None, (written.count(form), capitals.count(form))), form
    assert visible_forms.count_plainly("Lava, lava and LAVA.", "lava") == (3, 2)
