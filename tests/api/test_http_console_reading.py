"""Content of the server-rendered console pages: searches, documents, words and failures."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st
from surface import API, FLOWER, LAW, VOLCANO, Store, Worker
from teaching_texts import about

from shoal.engine import Engine
from shoal.jobs.queue.claims import claim, new_owner
from shoal.jobs.queue.transitions import Outcome, finish_items
from shoal.models.jobs import ItemStatus
from shoal.models.stored import StoredSection
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.console.figures import EXCERPT_CHARS, SNAP_CHARS, excerpt
from shoal_api.console.installation import FAILED, ITEMS
from shoal_api.console.library import SECTIONS, contents
from shoal_api.console.rendered import Run


@pytest.fixture(scope="module")
def learned_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """A client of a library with learned words, scored by lagoon's own scorer."""
    path = tmp_path_factory.mktemp("learned") / "shoal.db"
    settings = dataclasses.replace(Settings(), database_url=f"sqlite:///{path}", learning=True)
    with Engine(settings=settings) as engine:
        engine.ingest(title="Fire", content=about("fire", "zorblat", 6))
        engine.ingest(title="Ships", content=about("sea", "hoxley wump", 5))
        yield create_app(settings, engine=engine).test_client()


def page(client: FlaskClient, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, address
    return response.get_data(as_text=True)


def visible(text: str) -> str:
    """Return the text of the main element without markup."""
    main = text[text.index("<main") :]
    return " ".join(html.unescape(re.sub(r"<script.*?</script>|<[^>]+>", " ", main, flags=re.DOTALL)).split())


def links(text: str) -> list[str]:
    return [html.unescape(address) for address in re.findall(r'href="([^"]+)"', text[text.index("<main") :])]


def test_console_search_is_counted_like_an_api_search(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    page(client, "/?q=lava")
    page(client, "/?q=lava&mode=reef")
    metrics = client.get("/metrics").get_data(as_text=True)
    assert 'shoal_search_seconds_count{mode="hybrid"} 1.0' in metrics
    assert 'shoal_search_seconds_count{mode="reef"} 1.0' in metrics


@pytest.mark.parametrize("heading", ["Mountains", "Title: Mountains"])
def test_heading_that_repeats_the_title_is_not_cited(client: FlaskClient, store: Store, heading: str) -> None:
    text = f"# {heading}\n\n{FLOWER}\n\n## Craters\n\n{VOLCANO}\n"
    document = store(text, title="Mountains", format="markdown")
    results = page(client, "/?q=lava&mode=lexical")
    assert '<p class="place"><span>Craters</span><span>line 7</span></p>' in results
    assert "Mountains › Craters, line 7" in results, "the citation to copy"
    assert f"<span>{heading}" not in page(client, f"/documents/{document}")
    (result,) = client.get(f"{API}/search?q=lava&mode=lexical").get_json()["results"]
    assert result["section_path"] == [heading, "Craters"], "the API reports all headings"


def test_active_filters_are_shown_with_links_that_remove_them(client: FlaskClient, store: Store) -> None:
    document = store(VOLCANO, title="Mountains", tags=["hot", "loud"])
    text = page(client, f"/?q=lava&tags=hot,loud&document={document}&mode=reef&page=1")
    assert "Without: tag hot" in text
    assert "Without: only Mountains" in text
    assert f"/?q=lava&tags=loud&document={document}&mode=reef" in links(text)
    assert "/?q=lava&tags=hot,loud&mode=reef" in links(text)
    assert f"/?q=lava&tags=hot,loud&document={document}" in links(text)
    assert "Without:" not in page(client, "/?q=lava")


def test_search_can_be_limited_to_several_documents(client: FlaskClient, store: Store) -> None:
    first, second = store(VOLCANO, title="One"), store(f"{VOLCANO} Lava again.", title="Two")
    store(f"{VOLCANO} Lava once more.", title="Three")
    shown = visible(page(client, f"/?q=lava&document={first},{second}"))
    assert "2 results" in shown
    assert "Three" not in shown


def test_empty_filtered_search_links_to_the_unfiltered_search(client: FlaskClient, store: Store) -> None:
    store(VOLCANO, tags=["hot"])
    text = page(client, "/?q=lava&tags=cold&format=plaintext&mode=lexical")
    assert "No results" in text
    assert "/?q=lava&mode=lexical" in links(text)


def test_next_page_link_appears_only_if_there_are_more_results(client: FlaskClient, store: Store) -> None:
    for i in range(10):
        store(f"{VOLCANO} Number {i}.", title=f"Volcano {i}")
    text = page(client, "/?q=lava&mode=lexical")
    assert "10 results" in visible(text)
    assert 'rel="next"' not in text
    store(f"{VOLCANO} Number 10.", title="Volcano 10")
    text = page(client, "/?q=lava&mode=lexical")
    assert "Results 1 to 10" in visible(text)
    assert 'rel="next"' in text
    assert "Results 11 to 11" in visible(page(client, "/?q=lava&mode=lexical&page=2"))


def test_query_words_are_shown_with_their_passage_counts(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    store(LAW)
    text = page(client, "/?q=the+lava+-zorp+qwertz")
    assert '<span class="word stop">the</span> <span class="word known">lava</span>' in text
    assert '-zorp <span class="word unknown">qwertz</span>' in text
    assert "lava known 1 qwertz unknown none" in visible(text)


def test_result_shows_all_shared_reefs(learned_client: FlaskClient) -> None:
    text = page(learned_client, "/?q=smoke+over+the+burning+ship")
    body = {"query": "smoke over the burning ship", "include_scores": True}
    shared = learned_client.post(f"{API}/search", json=body).get_json()["results"][0]["shared_reefs"]
    assert len(shared) > 4
    first = re.findall(r"<article.*?</article>", text, flags=re.DOTALL)[0]
    pairs = "".join(re.findall(r'<table class="pairs">.*?</table>', first, flags=re.DOTALL))
    assert [f"/reefs/{reef['reef_id']}" for reef in shared] == re.findall(r'href="(/reefs/\d+)"', pairs)


WORDS = st.text(alphabet="abc", min_size=1, max_size=60)


def test_search_page_shows_feedback_and_missing_terms(learned_client: FlaskClient) -> None:
    text = page(learned_client, "/?q=zorblat+qwyjibo")
    assert "In no passage of this library: qwyjibo" in visible(text)
    assert "Passages used to widen the query" in visible(text)
    assert "from the best matches" in visible(text)
    widths = [
        float(width)
        for width in re.findall(r'<rect class="feedback" x="[\d.]+" y="0" width="([\d.]+)"', text)
    ]
    assert widths
    assert all(0 < width <= 100 for width in widths)


def test_result_shows_its_term_coverage(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    whole, half = (visible(page(client, address)) for address in ("/?q=lava", "/?q=lava+zyzzyva"))
    assert re.search(r"holds lava \(title, text\) : 100 % of the query's words", whole)
    coverage = re.search(r"holds lava \(title, text\) : (\d+) % of the query's words", half)
    assert coverage is not None
    assert 0 < int(coverage[1]) < 100


def test_first_bar_of_a_result_is_its_relevance(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    text = page(client, "/?q=lava")
    relevance = re.search(r">(\d+) % <small>relevant</small></b><svg.*?width=\"([\d.]+)\"", text)
    assert relevance is not None
    assert abs(int(relevance[1]) - float(relevance[2])) < 2
    assert text.index("relevant</small>") < text.index("score </span>")


def test_form_removes_results_below_a_relevance(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    assert "relevant" in visible(page(client, "/?q=lava&min_relevance=0.01"))
    none = visible(page(client, "/?q=lava&min_relevance=1"))
    assert "No results" in none
    assert "relevance from 1" in none
    assert client.get("/?q=lava&min_relevance=2").status_code in (400, 422)


@given(st.one_of(*[st.lists(WORDS, min_size=n, max_size=n + 40).map(" ".join) for n in (1, 60)]), st.data())
def test_excerpt_is_a_short_part_of_the_text_with_a_mark(text: str, data: st.DataObject) -> None:
    words = [match.span() for match in re.finditer(r"\S+", text)]
    marked = sorted(data.draw(st.sets(st.sampled_from(words), max_size=5)))
    runs = excerpt(text, marked)
    whole = "".join(run.text for run in runs)
    cut = whole.removeprefix("… ").removesuffix(" …")
    assert cut in text
    assert len(cut) <= EXCERPT_CHARS + 2 * SNAP_CHARS
    assert {run.text for run in runs if run.is_mark} <= {text[start:end] for start, end in marked}
    if marked:
        assert any(run.is_mark for run in runs)
    if len(text) <= EXCERPT_CHARS:
        assert whole == text


def test_excerpt_has_one_blank_line_for_many() -> None:
    assert excerpt("The heat\n\n  \n\n\n Q\n\nflows.", [(4, 8)]) == [
        Run("The ", False),
        Run("heat", True),
        Run("\n\nQ\n\nflows.", False),
    ]


def test_excerpt_has_whole_words_around_most_marks() -> None:
    text = "alone " + "far " * 300 + "here and here and here " + "away " * 300
    marks = [match.span() for match in re.finditer("alone|here", text)]
    runs = excerpt(text, marks)
    assert [run.text for run in runs if run.is_mark] == ["here"] * 3
    assert runs[0] == Run("… ", False)
    assert runs[1].text.startswith("far far")
    assert runs[-1] == Run(" …", False)
    assert runs[-2].text.endswith("away away")


def test_learned_word_page_shows_its_evidence(learned_client: FlaskClient) -> None:
    assert "/vocabulary/zorblat" in links(page(learned_client, "/vocabulary"))
    text = page(learned_client, "/vocabulary/zorblat")
    assert "Learned from 6 occurrences in 1 document" in visible(text)
    assert "Fire 6 occurrences; in the text or headings of 2 passages" in visible(text)
    assert text.count("<mark>zorblat") == 6
    assert "/documents/1?chunk=0#chunk-0" in links(text)
    reef = learned_client.get(f"{API}/vocabulary?q=zorblat").get_json()["words"][0]["reefs"][0]
    assert f"{reef['reef_name']} 1.00" in visible(text)


def test_learned_compound_page_names_it_a_compound(learned_client: FlaskClient) -> None:
    text = page(learned_client, "/vocabulary/hoxley%20wump")
    assert "learned compound" in text
    assert "<mark>hoxley wump</mark>" in text


def test_page_of_an_unlearned_word_returns_404_with_a_reason(learned_client: FlaskClient) -> None:
    assert "is in the dictionary" in visible(page(learned_client, "/vocabulary/volcano", 404))
    assert "was not learned" in visible(page(learned_client, "/vocabulary/%22%3E%3Czzyzx%3E", 404))


def test_learned_query_word_links_to_its_page(learned_client: FlaskClient) -> None:
    assert "/vocabulary/zorblat" in links(page(learned_client, "/?q=what+is+a+zorblat"))


def test_failures_beyond_the_first_are_counted_and_paged(client: FlaskClient, worker: Worker) -> None:
    n = ITEMS + 1
    lines = b'{"content": "Lava rose."}\n' + b"not json\n" * n
    response = client.post(f"{API}/documents/bulk", data=lines, content_type="application/x-ndjson")
    job = response.get_json()["job"]["id"]
    worker.work()
    text = page(client, f"/jobs/{job}")
    assert f"The first {FAILED} of {n}." in visible(text)
    assert f"/jobs/{job}?items=failed" in links(text)
    failed = page(client, f"/jobs/{job}?items=failed")
    assert f"Items with status failed {n}" in visible(failed)
    assert failed.count('class="status failed"') == ITEMS
    assert f"/jobs/{job}?items=failed&page=2" in links(failed)
    assert page(client, f"/jobs/{job}?items=failed&page=2").count('class="status failed"') == 1
    assert "Invalid request" in page(client, f"/jobs/{job}?items=odd", 422)


def test_job_list_offers_the_actions_each_job_allows(
    client: FlaskClient, worker: Worker, engine: Engine
) -> None:
    bad = client.post(f"{API}/documents", json={"content": FLOWER})
    batch = claim(engine.database, new_owner(), engine.settings)
    assert batch is not None
    with engine.database.write() as transaction:
        outcome = Outcome(ItemStatus.failed, error="the disk was full")
        finish_items(transaction, [(item, outcome) for item in batch.items], batch.owner)
    client.post(f"{API}/documents", json={"content": VOLCANO})
    text = page(client, "/jobs")
    assert re.findall(r'data-act="(\w+)" data-job="(\d+)"', text) == [
        ("cancel", "2"),
        ("retry", str(bad.get_json()["job"]["id"])),
    ]
    assert "data-refresh" in text
    worker.work()
    assert "data-refresh" not in page(client, "/jobs")


def sections(*shapes: tuple[int, int]) -> list[StoredSection]:
    """Build sections from pairs of depth and number of chunks."""
    return [
        StoredSection(i, depth, tuple(f"{i}.{j}" for j in range(depth)), 0, 0, 0, 0, n)
        for i, (depth, n) in enumerate(shapes)
    ]


def test_contents_link_sections_without_text_to_the_next_chunk() -> None:
    entries = contents(sections((0, 2), (1, 0), (2, 3), (2, 1), (1, 0)), 3)
    assert [(entry.heading, entry.depth, entry.chunk) for entry in entries] == [
        ("Beginning", 0, 0),
        ("1.0", 0, 2),
        ("2.1", 1, 2),
        ("3.1", 1, 5),
        ("4.0", 0, 5),
    ]
    assert [entry.heading for entry in entries if entry.is_here] == ["2.1"]


@pytest.mark.parametrize(("chunk", "first"), [(0, 0), (700, 700 - SECTIONS // 2), (1199, 1200 - SECTIONS)])
def test_contents_of_a_long_document_show_sections_around_the_chunk(chunk: int, first: int) -> None:
    entries = contents(sections(*[(1, 1)] * 1200), chunk)
    assert [entry.chunk for entry in entries] == list(range(first, first + SECTIONS))
    assert [entry.chunk for entry in entries if entry.is_here] == [chunk]


def test_ribbon_data_contains_the_island_of_every_chunk(client: FlaskClient, store: Store) -> None:
    document = store(f"{VOLCANO * 9}\n\n{LAW * 9}\n\n{FLOWER * 9}")
    text = page(client, f"/documents/{document}")
    match = re.search(r'<script type="application/json" id="chunk-pieces">(.*?)</script>', text, re.DOTALL)
    assert match is not None
    pieces = json.loads(match.group(1))
    chunks = client.get(f"{API}/documents/{document}/chunks").get_json()["chunks"]
    assert pieces["starts"] == [chunk["start_char"] for chunk in chunks]
    assert len(pieces["name"]) == len(chunks) > 1
    assert all(0 <= island < len(pieces["names"]) for island in pieces["name"])


def test_document_with_one_chunk_has_no_ribbon(client: FlaskClient, store: Store) -> None:
    document = store(VOLCANO)
    text = page(client, f"/documents/{document}")
    assert 'id="ribbon"' not in text
    assert "1 passage" in visible(text)
    assert "Search 1 document Ask" in visible(page(client, "/"))
