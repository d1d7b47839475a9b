"""Tasks of a user in the console, from an empty library to a passage in its document.

The tests of this file share one service and depend on each other: the first uploads what the others use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from browsing import (
    KEY,
    PATIENCE_MS,
    SAMPLES,
    BrowserErrors,
    assert_accessible,
    open_window,
    set_look,
)
from playwright.sync_api import Browser, Page, expect
from teaching_texts import about
from waiting import until

expect.set_options(timeout=PATIENCE_MS)

WIDTHS = [(360, "dark"), (1600, "light")]
PAGES = (
    "/", "/?q=bees+%22nectar%22", "/?q=zzzz", "/?q=bees&tags=sample&document=1", "/library", "/documents/1",
    "/documents/1?chunk=0", "/jobs", "/jobs/1", "/jobs/1?items=failed", "/reefs", "/reefs/0",
    "/vocabulary", "/synonyms", "/pins", "/collections", "/notes", "/notes?q=pollen&repo=shop", "/notes?owner=nobody", "/notes/99999",
    "/notes/NOTE?q=pollen&env_tags=bees", "/notes/proposals", "/notes/new",
    "/notes/explain?q=pollen&env_tags=bees", "/verify", "/verify?references=chunk+1", "/explain?q=pollen&chunk=1",
    "/saved-searches", "/sources", "/queries", "/status",
    "/nothing-like-this", "/docs",
)  # fmt: skip
"""Pages that are looked at in both widths; NOTE is the number of a note."""


@pytest.fixture(scope="module")
def library(browser: Browser, address: str) -> Iterator[str]:
    """URL of a service to which the sample corpus was uploaded through the console."""
    browser_errors = BrowserErrors()
    context = open_window(browser, 1280, "light")
    page = context.new_page()
    browser_errors.watch(page)
    page.goto(f"{address}/library")
    page.get_by_label("Tags for all files").fill("sample, first")
    page.locator("#pick-files").set_input_files(sorted(SAMPLES.glob("*.md")))
    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    expect(page.locator(".status.succeeded").first).to_be_visible()
    expect(page.locator("#job")).to_have_attribute("data-ended", "yes")
    context.close()
    assert browser_errors == []
    return address


def test_uploaded_documents_are_listed_with_tags_and_subjects(page: Page, library: str) -> None:
    page.goto(f"{library}/library")
    rows = page.locator("table.list tbody tr")
    expect(rows).to_have_count(len(list(SAMPLES.glob("*.md"))))
    expect(rows.first.get_by_role("link", name="sample")).to_be_visible()
    expect(rows.first.locator("td").first).not_to_be_empty()


def test_search_result_shows_reasons_and_links_to_its_passage(page: Page, library: str) -> None:
    page.goto(library)
    page.get_by_label("What are you looking for?").fill("how bees carry pollen")
    page.get_by_role("button", name="Search").click()
    first = page.locator(".results > li").first
    expect(first.locator("mark").first).to_be_visible()
    assert "q=how+bees+carry+pollen" in page.url
    expect(first.locator(".because")).to_contain_text(re.compile(r"holds .*bees?", re.IGNORECASE))
    expect(first.locator("table.pairs tbody tr").first).to_be_hidden()
    first.get_by_text("Score and its parts").click()
    expect(first.locator("table.pairs tbody tr").first).to_be_visible()
    first.get_by_role("button", name="Copy citation").click()
    expect(first.get_by_role("button", name="Copied")).to_be_visible()
    assert "line" in page.evaluate("navigator.clipboard.readText()")
    first.locator("h2 a").click()
    expect(page.locator(".chunk.chosen > :is(.text, .rendered)")).to_contain_text(
        re.compile("pollen|bee", re.IGNORECASE)
    )
    expect(page.get_by_role("heading", name="Similar passages in other documents")).to_be_visible()
    page.go_back()
    expect(page.locator(".results > li").first).to_be_visible()
    expect(page.get_by_label("What are you looking for?")).to_have_value("how bees carry pollen")


def test_click_on_the_ribbon_opens_the_passage(page: Page, library: str) -> None:
    page.goto(f"{library}/library")
    page.locator("table.list th a").first.click()
    ribbon = page.locator("#ribbon")
    expect(ribbon).to_be_visible()
    box = ribbon.bounding_box()
    assert box is not None
    ribbon.click(position={"x": box["width"] - 3, "y": box["height"] / 2})
    page.wait_for_url(re.compile(r"chunk=\d+"))
    last = int(re.findall(r"chunk=(\d+)", page.url)[0])
    expect(page.locator(f"#chunk-{last}.chosen")).to_be_visible()
    expect(page.locator(f"#chunk-{last + 1}")).to_have_count(0)
    expect(page.locator(".ribbon .marker")).to_be_visible()


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_strip_and_rows_have_the_same_edges(page: Page, library: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{library}/library")
    page.locator("table.list th a").first.click()
    expect(page.locator("#ribbon")).to_be_visible()
    boxes = [svg.bounding_box() for svg in page.locator("#ribbon svg, .rows > svg").all()]
    assert len(boxes) > 2
    assert len({(box["x"], box["width"]) for box in boxes if box}) == 1


def test_ribbon_is_operated_with_the_keyboard(page: Page, library: str) -> None:
    page.goto(f"{library}/library")
    page.locator("table.list th a").first.click()
    slider = page.get_by_role("slider", name="Place in the document")
    last = int(slider.get_attribute("aria-valuemax") or 0)
    slider.focus()
    page.keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuenow", str(last))
    page.keyboard.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(rf"Passage {last - 1} of {last + 1}: \w+"))
    expect(page.locator("#pointed")).to_have_text(re.compile(rf"Passage {last - 1} of"))
    page.keyboard.press("Enter")
    expect(page.locator(f"#chunk-{last - 1}.chosen")).to_be_visible()
    expect(slider).to_have_attribute("aria-valuenow", str(last - 1))


def test_narrow_window_links_to_the_sections_above_the_text(browser: Browser, library: str) -> None:
    context = open_window(browser, 360, "light")
    page = context.new_page()
    page.goto(f"{library}/documents/1")
    expect(page.get_by_role("list", name="Sections")).to_be_hidden()
    page.get_by_role("link", name="To the sections").click()
    sections = page.get_by_role("list", name="Sections")
    expect(sections).to_be_in_viewport()
    sections.get_by_role("link").last.click()
    page.wait_for_url(re.compile(r"chunk=\d+#chunk-\d+$"))
    expect(page.locator(".chunk.chosen")).to_be_in_viewport()
    context.close()


def test_filter_is_removed_and_passage_is_expanded(page: Page, library: str) -> None:
    page.goto(f"{library}/?q=how+glass+is+made&tags=sample")
    result = page.locator(".results > li").first
    result.get_by_text("Whole passage").click()
    expect(result.locator(".passage > :is(p, .rendered)")).to_be_hidden()
    expect(result.locator(".passage details > :is(p, .rendered)")).to_be_visible()
    page.get_by_role("link", name="Without: tag sample").click()
    page.wait_for_url(re.compile(r"q=how\+glass\+is\+made$"))
    expect(page.locator(".chips.active")).to_have_count(0)


def test_connection_error_is_shown_in_the_viewport(browser: Browser, library: str) -> None:
    context = open_window(browser, 1280, "light")
    page = context.new_page()
    page.goto(library)
    page.route("**/library", lambda route: route.abort())
    page.get_by_role("link", name="Library", exact=True).click()
    expect(page.locator("#announcer")).to_have_text("The service cannot be reached")
    expect(page.locator("#announcer")).to_be_in_viewport()
    context.close()


def test_tags_are_set_and_document_is_deleted(page: Page, library: str) -> None:
    page.goto(f"{library}/library")
    page.locator("#pick-files").set_input_files(
        files=[
            {
                "name": "note.txt",
                "mimeType": "text/plain",
                "buffer": b"A note on glaciers and ice in the mountains.",
            }
        ]
    )
    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    expect(page.locator("#job")).to_have_attribute("data-ended", "yes")
    page.locator("table.list th a").first.click()
    page.get_by_label("Tags, separated by commas").fill("ice, cold")
    page.get_by_role("button", name="Set tags").click()
    expect(page.locator("main > .chips li")).to_have_text(["cold", "ice"])
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete this document").click()
    page.wait_for_url(re.compile(r"/library$"))
    expect(page.locator("table.list tbody tr")).to_have_count(len(list(SAMPLES.glob("*.md"))))


def test_map_links_to_a_reef_and_its_chunks(page: Page, library: str) -> None:
    page.goto(f"{library}/reefs")
    expect(page.locator(".map svg a")).to_have_count(207)
    page.locator("details summary", has_text="plant life").click()
    page.get_by_role("link", name="flowering plants", exact=True).first.click()
    expect(page.get_by_role("heading", level=1, name="flowering plants")).to_be_visible()
    expect(page.locator("ol.plain li").first).to_be_visible()


def test_search_needs_only_the_keyboard(page: Page, library: str) -> None:
    page.goto(library)
    expect(page.get_by_label("What are you looking for?")).to_be_focused()
    page.keyboard.type("juries and courts")
    page.keyboard.press("Enter")
    expect(page.locator(".results > li").first).to_be_visible()
    expect(page.locator("#main")).to_be_focused()


def add_note(server: str, text: str, **fields: object) -> int:
    response = httpx.post(f"{server}/api/v1/notes", json={"text": text, **fields}, timeout=PATIENCE_MS / 1000)
    return int(response.json()["note"]["id"])


def test_note_is_found_explained_and_changed(page: Page, library: str) -> None:
    note = add_note(
        library, "Bees carry pollen from flower to flower.", tags=["bees"], prerequisites={"os": "linux"}
    )
    page.goto(f"{library}/notes")
    page.get_by_label("What do you want to know?").fill("who carries pollen")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".results mark").first).to_be_visible()
    expect(page.locator("table.steps").first).to_contain_text("signals")
    page.locator(".results h2 a").first.click()
    page.wait_for_url(re.compile(rf"/notes/{note}\?q=who"))
    page.get_by_text("Environment", exact=True).click()
    page.get_by_label("Operating system").fill("darwin")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_text("Not shown")).to_be_visible()
    expect(page.locator(".steps-of-ranking tr", has_text="prerequisites")).to_contain_text("no")
    page.get_by_label("Where all these tags hold").fill("bees")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator("#announcer")).to_have_text("The note is pinned")
    assert page.url.endswith("os=darwin"), "the address is that of the page"
    page.get_by_label("Title", exact=True).fill("Pollen")
    page.get_by_role("textbox", name="Text", exact=True).fill("Bees carry pollen.\nSo do flies.")
    page.get_by_role("button", name="Store title and text").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Pollen note {note}, lesson")
    stored = httpx.get(f"{library}/api/v1/notes/{note}").json()
    assert stored["text"] == "Bees carry pollen.\nSo do flies."
    assert stored["pin_tags"] == ["bees"]


def test_proposal_is_accepted_and_its_merge_undone(page: Page, library: str) -> None:
    for text in ("Bees carry pollen from flower to flower.", "From flower to flower, bees carry pollen."):
        add_note(library, text, owner="team")
    httpx.post(f"{library}/api/v1/notes/dedup?owner=team", timeout=PATIENCE_MS / 1000).raise_for_status()
    until(lambda: httpx.get(f"{library}/api/v1/notes/proposals?owner=team").json()["total"] == 1)
    page.goto(f"{library}/notes?owner=team")
    page.get_by_role("link", name="1 proposal to merge notes").click()
    page.get_by_label("Text of the merged note").fill("Bees carry pollen.")
    assert_accessible(page)
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#announcer")).to_have_text("The notes are merged")
    assert page.url == f"{library}/notes/proposals?owner=team"
    page.get_by_role("button", name="Undo merge").click()
    expect(page.locator("#log + ul")).to_contain_text("undone")
    assert_accessible(page)
    assert httpx.get(f"{library}/api/v1/notes?owner=team").json()["total"] == 2


def test_refused_change_of_a_note_can_be_corrected(browser: Browser, library: str) -> None:
    note = add_note(library, "Moths carry pollen at night.")
    context = open_window(browser, 1280, "light")
    page = context.new_page()
    page.goto(f"{library}/notes/{note}")
    page.get_by_label("Title", exact=True).fill("Moths")
    page.get_by_role("textbox", name="Text", exact=True).fill(" ")
    page.get_by_role("button", name="Store title and text").click()
    expect(page.get_by_role("alert").first).to_contain_text("text: is empty")
    expect(page.get_by_label("Title", exact=True)).to_have_value("Moths")
    assert page.url == f"{library}/notes/{note}"
    context.close()


def test_note_is_changed_without_scripts(browser: Browser, library: str) -> None:
    note = add_note(library, "Wasps do not carry pollen.")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{library}/notes/{note}")
    page.get_by_text("Deprecate", exact=True).click()
    page.get_by_label("Reason").last.fill("Some do")
    page.get_by_role("button", name="Deprecate this note").click()
    expect(page.get_by_role("button", name="Restore this note")).to_be_visible()
    expect(page.locator(".warning")).to_contain_text("Some do")
    assert page.url == f"{library}/notes/{note}"
    context.close()


def test_note_is_added_and_compared_with_the_keyboard(page: Page, library: str) -> None:
    page.goto(f"{library}/notes?owner=keys")
    page.get_by_role("link", name="Add a note").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Add a note")).to_be_visible()
    page.get_by_role("textbox", name="Text", exact=True).focus()
    page.keyboard.type("Pollen sticks to the legs of bees.")
    page.keyboard.press("Tab")
    page.keyboard.type("Legs")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.type("insects/bees")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Repositories, one a line")).to_be_visible()
    page.get_by_role("button", name="Add the note").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Legs")
    expect(page.locator("#announcer")).to_have_text("The note is stored")
    (note,) = httpx.get(f"{library}/api/v1/notes?owner=keys").json()["notes"]
    assert (note["categories"], note["verified"]) == (["insects/bees"], True)
    assert page.url.endswith(f"/notes/{note['id']}?owner=keys")
    page.goto(f"{library}/notes/new?owner=keys")
    page.get_by_role("textbox", name="Text", exact=True).fill("Pollen sticks to the legs of bees.")
    page.get_by_role("button", name="Add the note").click()
    expect(page.locator("#announcer")).to_have_text("The owner had this note already")
    page.goto(f"{library}/notes/{note['id']}?owner=keys")
    page.get_by_text("Prerequisites", exact=True).click()
    page.get_by_label("Repositories, one a line").fill("shop")
    page.get_by_role("button", name="Set prerequisites").click()
    expect(page.locator("#text + .chunk + .hint")).to_contain_text("repos shop")
    page.goto(f"{library}/notes/proposals?owner=keys")
    page.get_by_role("button", name="Compare the notes").click()
    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    expect(page.locator("#job")).to_have_attribute("data-ended", "yes")
    page.get_by_role("link", name="Proposals to merge notes of keys").click()
    page.wait_for_url(re.compile(r"/notes/proposals\?owner=keys$"))


def test_text_is_verified_and_corrected(page: Page, library: str) -> None:
    chunk = httpx.post(f"{library}/api/v1/search", json={"query": "bees carry pollen"}).json()["results"][0]
    sentence = chunk["text"].replace("\n", " ").split(". ")[0]
    page.goto(f"{library}/verify")
    page.get_by_label("Text with citations").fill(
        f"{sentence} [chunk {chunk['chunk_id']}]. Bees earn 12 crowns."
    )
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#verdict")).to_contain_text("Rejected")
    expect(page.locator(".statement.supported mark").first).to_be_visible()
    expect(page.locator(".statement.unreferenced")).to_contain_text("it cites nothing")
    expect(page.locator("#announcer")).to_have_text("The text is compared with what it cites")
    assert_accessible(page)
    page.get_by_label("Text with citations").fill(f"{sentence} [chunk {chunk['chunk_id']}].")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#verdict")).to_contain_text("Accepted")
    page.locator(".statement .chunk a").first.click()
    expect(page.locator(".chunk.chosen")).to_be_visible()


def test_text_is_verified_without_scripts_in_a_narrow_window(browser: Browser, library: str) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 900})
    page = context.new_page()
    page.goto(f"{library}/verify")
    page.get_by_label("Text with citations").fill(f"Bees fly {'w' * 300} on 3 days [document 1].")
    page.get_by_text("What it may cite").click()
    page.get_by_label("Passages that").fill("document 1")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator(".statement mark.missing").first).to_be_visible()
    margins = [page.locator(name).first.bounding_box()["x"] for name in ("h1", ".statement")]
    assert margins[0] == margins[1], "the verdicts use the whole width"
    too_wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert too_wide <= 0
    context.close()


@pytest.mark.parametrize("half", [0, 1])
def test_pages_are_accessible_and_fit_their_window(browser: Browser, library: str, half: int) -> None:
    note = add_note(
        library, f"Bees and {'w' * 300} carry pollen.", tags=["bees", "t" * 100], categories=["c/d"]
    )
    judgement = {"applicable": True, "environment": {"tags": ["bees"]}}
    httpx.post(f"{library}/api/v1/notes/{note}/feedback", json=judgement).raise_for_status()
    browser_errors = BrowserErrors()
    context = open_window(browser, *WIDTHS[0])
    page = context.new_page()
    browser_errors.watch(page)
    for path in (each.replace("NOTE", str(note)) for each in PAGES[half::2]):
        page.goto(f"{library}{path}")
        if path in ("/nothing-like-this", "/notes/99999"):
            expect(page.get_by_role("heading", level=1, name="Not found")).to_be_visible()
            browser_errors.clear()  # the browser reports the 404
        assert_accessible(page)
        set_look(page, *WIDTHS[1])
        if page.locator("details[data-open-wide]").count():
            page.reload()  # what a wide window opens
        assert_accessible(page)
        set_look(page, *WIDTHS[0])
    context.close()
    assert browser_errors == []


def test_locked_service_accepts_only_its_key(browser: Browser, locked_address: str) -> None:
    context = open_window(browser, 1280, "light")
    page = context.new_page()
    page.goto(f"{locked_address}/library")
    page.get_by_label("API key").fill("not-the-key-of-this-one")
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#key-problem")).to_be_visible()
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", name="Add documents")).to_be_visible()
    page.locator("#pick-files").set_input_files(sorted(SAMPLES.glob("*.md"))[:1])
    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    expect(page.locator("#job")).to_have_attribute("data-ended", "yes")
    headers = {"Authorization": f"Bearer {KEY}"}
    note = httpx.post(
        f"{locked_address}/api/v1/notes", json={"text": "A locked note."}, headers=headers
    ).json()
    page.get_by_role("link", name="Notes", exact=True).click()
    page.get_by_role("link", name="A locked note.").click()
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    assert page.url == f"{locked_address}/notes/{note['note']['id']}"
    page.get_by_role("button", name="Forget key").click()
    expect(page.get_by_label("API key")).to_be_visible()
    context.close()


def test_learned_word_links_to_its_passages(page: Page, library: str) -> None:
    note = {"title": "Fire", "content": about("fire", "zorblat", 6)}
    httpx.post(
        f"{library}/api/v1/documents", json=note, headers={"Prefer": "wait=60"}, timeout=PATIENCE_MS / 1000
    )
    page.goto(f"{library}/vocabulary")
    page.get_by_role("link", name="zorblat").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("zorblat learned word")
    expect(page.locator("mark").first).to_have_text("zorblat")
    assert_accessible(page)
    page.locator(".chunk header a").first.click()
    expect(page.locator(".chunk.chosen > :is(.text, .rendered)")).to_contain_text("zorblat")
