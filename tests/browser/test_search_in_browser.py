"""The search of the console in a real browser: facets, grouping, switches, suggestions, synonyms, saved searches.

All by keyboard, by the names that screen readers use, and at 360 and 1280 pixels. The tests share one service;
MOON finds the twelve documents of the facets, and "tide" also those of the suggestions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import pytest
from browsing import (
    NARROW,
    PATIENCE_MS,
    WIDE,
    BrowserErrors,
    assert_accessible,
    assert_accessible_in_both_looks,
    open_window,
    set_look,
)
from forked_service import forked_service
from forks import ForkServer
from playwright.sync_api import Browser, Locator, Page, Route, expect
from waiting import until

expect.set_options(timeout=PATIENCE_MS)
TEXT = "The tide comes in twice a day, because the moon pulls the water of the sea."
MOON = "/?q=moon"
MARKUP = "<img src=x onerror=document.title='owned'> Tidal markup"
TIDES = (
    ("Tide pools", "Barnacles and limpets live in a tide pool. " * 3),
    ("Tidal power " + "and a long title " * 6, "Turbines take power from the tide. " * 3),
    (MARKUP, "Text about the tide. " * 3),
)
ACRONYM = "The World Health Organization (WHO) met, and the WHO gave a report."


@pytest.fixture(scope="module")
def library(browser: Browser, forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a service with twelve documents about tides and the moon, three about tides, and an acronym."""
    documents: list[dict[str, object]] = [
        {
            "content": f"{TEXT} Number {number}.",
            "title": f"Tides {number}",
            "tags": ["sea", ("moon", "long" * 15, "<b>bold</b>")[number % 3]],
            "source_path": f"notes/{'w' * 60}/{number % 2}/{number}.md",
            "metadata": {"date": f"20{10 + number % 4}-05-01", "author": f"Person {number}"},
        }
        for number in range(12)
    ]
    # Two passages of one document.
    documents[1]["content"] = f"# First\n\n{TEXT}\n\n# Second\n\nSeen from the moon, the sea is blue. " * 2
    documents += [{"title": title, "content": content} for title, content in TIDES]
    documents.append({"title": "Report", "content": ACRONYM})
    with forked_service(
        forks, tmp_path_factory.mktemp("service"), SHOAL_WEBHOOK_HOSTS="hooks.example.org"
    ) as address:
        upload(address, documents)
        yield address


def upload(address: str, documents: list[dict[str, object]]) -> None:
    """Store documents with one job, which is quicker than one each."""
    lines = "\n".join(json.dumps(document) for document in documents)
    with httpx.Client(base_url=f"{address}/api/v1", timeout=PATIENCE_MS / 1000) as client:
        headers = {"Content-Type": "application/x-ndjson"}
        sent = client.post("/documents/bulk", content=lines.encode(), headers=headers)
        job = sent.raise_for_status().json()["job"]["id"]
        until(lambda: client.get(f"/jobs/{job}").json()["status"] == "succeeded")


def press_tab_to(page: Page, target: Locator, most: int = 120) -> None:
    """Press the tab key until an element has the focus."""
    for _ in range(most):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail("the tab key does not reach the element")


def test_a_keyboard_alone_narrows_the_results_and_widens_them(page: Page, library: str) -> None:
    page.goto(f"{library}{MOON}")
    facets = page.get_by_role("navigation", name="Narrow the results")
    moon = facets.get_by_role("link", name="moon 4 documents", exact=True)
    press_tab_to(page, moon)
    page.keyboard.press("Enter")
    chosen = facets.get_by_role("link", name="Without: moon")
    expect(chosen).to_have_attribute("aria-current", "true")
    expect(page.locator(".results > li")).to_have_count(4)
    assert "filter=tags+%3D+%22moon%22" in page.url
    facets.get_by_role("link", name="2011 1 document", exact=True).press("Enter")
    expect(page.locator(".results > li")).to_have_count(1)
    page.go_back()
    expect(page.locator(".results > li")).to_have_count(4)
    facets.get_by_role("link", name="Without: moon").press("Enter")
    expect(facets.get_by_role("link", name="moon 4 documents", exact=True)).to_be_visible()
    assert "filter" not in page.url


def test_a_list_of_values_has_the_name_of_its_field(page: Page, library: str) -> None:
    page.goto(f"{library}{MOON}&facets=author")
    facets = page.get_by_role("navigation", name="Narrow the results")
    tags = facets.get_by_role("list", name="Tags")
    expect(tags.get_by_role("link")).to_have_count(4)
    page.get_by_role("link", name="4 more values of author").click()
    expect(page.get_by_role("list", name="author").get_by_role("link")).to_have_count(12)


def test_facets_are_accessible_and_fit_their_window(page: Page, library: str) -> None:
    for path in (MOON, f"{MOON}&facets=author&filter=tags+%3D+moon", f"{MOON}&filter=tags+%3D+none"):
        page.goto(f"{library}{path}")
        to_facets = page.get_by_role("link", name="Narrow the results")
        assert_accessible(page)
        expect(to_facets).to_be_hidden()
        set_look(page, *NARROW)
        assert_accessible(page)
        to_facets.click()
        expect(page.get_by_role("heading", name="Narrow the results")).to_be_in_viewport()
        set_look(page, *WIDE)


def test_results_are_grouped_by_document_and_sorted_with_the_keyboard(page: Page, library: str) -> None:
    page.goto(f"{library}{MOON}&tags=sea")
    press_tab_to(page, page.locator("summary", has_text="Options and filters"))
    page.keyboard.press("Enter")
    press_tab_to(page, page.get_by_role("combobox", name="Order", exact=True))
    page.keyboard.type("title")
    press_tab_to(page, page.get_by_role("combobox", name="Results", exact=True))
    page.keyboard.type("whole")
    page.get_by_label("What are you looking for?").press("Enter")
    expect(page.get_by_role("link", name="Without: whole documents")).to_be_visible()
    assert "sort=title" in page.url
    assert "group_by=document" in page.url
    documents = page.locator(".results > li")
    expect(documents).to_have_count(10)
    expect(page.get_by_role("heading", name="Documents 1 to 10")).to_be_visible()
    expect(documents.locator("h2")).to_have_text(
        [f"Tides {number}" for number in (0, 1, 10, 11, 2, 3, 4, 5, 6, 7)]
    )
    first = page.get_by_role("listitem", name="Tides 1", exact=True)
    assert first.get_by_role("article").count() > 1
    expect(first.get_by_role("article", name="Second").first).to_be_visible()
    # The head belongs to the document: no passage holds it.
    expect(first.locator("article header")).to_have_count(0)
    assert_accessible_in_both_looks(page)
    page.get_by_role("link", name="Next →").press("Enter")
    expect(page.get_by_role("heading", name="Documents 11 to 12")).to_be_visible()
    expect(page.locator("ol.results")).to_have_attribute("start", "11")


def test_typing_errors_and_synonyms_are_switched_off_and_on(page: Page, library: str) -> None:
    page.goto(f"{library}/?q=barnaclez")
    expect(page.locator(".results mark").first).to_have_text("Barnacles")
    page.locator("summary", has_text="Options and filters").press("Enter")
    page.get_by_label("Typing errors").select_option("search as typed")
    page.get_by_label("Synonyms").select_option("leave them out")
    page.get_by_label("What are you looking for?").press("Enter")
    expect(page.get_by_role("link", name="Without: words as typed")).to_be_visible()
    expect(page.locator(".results mark")).to_have_count(0)
    assert page.url.endswith("/?q=barnaclez&typos=off&synonyms=off")
    expect(page.get_by_label("Typing errors")).to_have_value("off")
    page.locator("summary", has_text="Options and filters").press("Enter")
    assert_accessible_in_both_looks(page)
    without_synonyms = page.get_by_role("link", name="Without: without synonyms")
    without_synonyms.press("Enter")
    expect(without_synonyms).to_have_count(0)
    page.get_by_role("link", name="Without: words as typed").press("Enter")
    expect(page.locator(".results mark").first).to_have_text("Barnacles")


def test_nearest_sentences_come_later_and_move_nothing(page: Page, library: str) -> None:
    """The library has no vectors, so the test puts into the page what a result found by its vector has."""
    address = f"{library}/?q=moon&filter=title+%3D+%22Tides+3%22"
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    def awaiting(route: Route) -> None:
        text = route.fetch().text()
        text = text.replace('class="results"', 'class="results" data-query="moon"')
        place = '<div class="why"><p class="holds nearest" data-nearest="7"></p>'
        route.fulfill(body=text.replace('<div class="why">', place), content_type="text/html")

    page.route(address, awaiting)
    page.route("**/nearest?**", hold)
    page.goto(address)
    article = page.get_by_role("article")
    until(lambda: page.evaluate("1") and held)
    assert held[0].request.url.endswith("/nearest?q=moon&chunks=7")
    before = article.bounding_box()
    item = f'<li data-chunk="7" data-sentence="{TEXT}">near in meaning (0.81): “{TEXT}”</li>'
    held[0].fulfill(body=f"<ul>{item}</ul>", content_type="text/html")
    expect(article.locator(".nearest")).to_have_text(f"near in meaning (0.81): “{TEXT}”")
    assert "".join(article.locator(".near").all_text_contents()) == TEXT
    expect(article.locator("mark .near")).to_have_text("moon")
    assert article.bounding_box() == before
    assert_accessible_in_both_looks(page)


def test_synonyms_are_added_confirmed_and_used_with_the_keyboard(page: Page, library: str) -> None:
    page.goto(f"{library}/synonyms")
    page.get_by_role("textbox", name=re.compile("Words")).fill("satellite\nmoon")
    page.get_by_role("button", name="Add").press("Enter")
    expect(page.locator("#announcer")).to_have_text("The entry is stored")
    page.get_by_role("button", name="Scan for acronyms").press("Enter")
    expect(page.get_by_role("button", name="Confirm WHO")).to_be_visible()
    assert_accessible_in_both_looks(page)
    page.get_by_role("button", name="Confirm WHO").press("Enter")
    expect(page.get_by_role("button", name="Confirm WHO")).to_have_count(0)
    page.goto(f"{library}/?q=satellite")
    expect(page.locator(".results > li")).to_have_count(10)
    expect(page.locator(".results").get_by_text("holds moon (for satellite)").first).to_be_visible()


def test_search_is_saved_paused_and_deleted_with_the_keyboard(page: Page, library: str) -> None:
    page.goto(f"{library}/saved-searches")
    press_tab_to(page, page.get_by_role("textbox", name="Name"))
    page.keyboard.type("Tides of the week")
    page.keyboard.press("Tab")
    page.keyboard.type("tide")
    page.get_by_role("textbox", name="Address of the webhook").fill("https://hooks.example.org/tides")
    page.get_by_role("textbox", name="Address of the webhook").press("Enter")
    expect(page.get_by_role("status").filter(has_text="Its secret is shown this once")).to_be_visible()
    assert_accessible_in_both_looks(page)
    page.get_by_role("link", name="Tides of the week").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Tides of the week")
    assert_accessible_in_both_looks(page)
    page.get_by_role("button", name="Pause").press("Enter")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("button", name="Delete").press("Enter")
    expect(page.locator("#announcer")).to_have_text("The saved search is deleted")
    expect(page.get_by_role("link", name="Tides of the week")).to_have_count(0)


@pytest.fixture(params=[NARROW, (1600, "light")], ids=["narrow", "wide"])
def sized_page(request: pytest.FixtureRequest, browser: Browser, library: str) -> Iterator[Page]:
    browser_errors = BrowserErrors()
    context = open_window(browser, *request.param)
    page = context.new_page()
    browser_errors.watch(page)
    page.goto(library)
    yield page
    context.close()
    assert browser_errors == []


def test_suggestion_is_chosen_with_the_keyboard(sized_page: Page) -> None:
    box = sized_page.get_by_role("combobox", name="What are you looking for?")
    expect(box).to_be_focused()
    sized_page.keyboard.type("tid")
    options = sized_page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    expect(options.first).to_be_visible()
    expect(box).to_have_attribute("aria-expanded", "true")
    sized_page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    first = options.first.get_attribute("data-text")
    expect(box).to_have_value(str(first))
    expect(box).to_have_attribute("aria-activedescendant", "suggestion-0")
    sized_page.keyboard.press("ArrowUp")
    expect(box).to_have_value("tid")
    sized_page.keyboard.press("ArrowDown")
    sized_page.keyboard.press("Escape")
    expect(box).to_have_value("tid")
    expect(box).to_have_attribute("aria-expanded", "false")
    sized_page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(box).to_have_value(str(first))
    sized_page.keyboard.press("Escape")
    sized_page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    sized_page.keyboard.press("Enter")
    expect(sized_page.locator(".results > li").first).to_be_visible()
    expect(sized_page.get_by_role("listbox")).to_have_count(0)


def test_list_moves_nothing_is_accessible_and_fits(sized_page: Page) -> None:
    before = sized_page.locator(".welcome h1").bounding_box()
    sized_page.keyboard.type("tid")
    expect(sized_page.get_by_role("option").first).to_be_visible()
    assert sized_page.locator(".welcome h1").bounding_box() == before
    sized_page.keyboard.press("ArrowDown")
    assert_accessible(sized_page)


def test_markup_is_shown_as_text_and_a_click_searches(sized_page: Page) -> None:
    sized_page.keyboard.type("img")
    option = sized_page.get_by_role("option").first
    expect(option).to_contain_text(MARKUP)
    option.click()
    sized_page.wait_for_url(re.compile("q=%3Cimg"))
    expect(sized_page.locator(".results > li").first).to_be_visible()
    assert sized_page.title() != "owned"


def test_late_answer_does_not_replace_a_newer_one(sized_page: Page) -> None:
    held: list[Route] = []

    def hold_first(route: Route) -> None:
        if route.request.url.endswith("q=t"):
            held.append(route)
        else:
            route.continue_()

    sized_page.route("**/api/v1/suggest**", hold_first)
    sized_page.keyboard.type("t")
    sized_page.wait_for_timeout(400)
    sized_page.keyboard.type("ide po")
    expect(sized_page.get_by_role("option").first).to_contain_text("Tide pools")
    (late,) = held
    late.abort()
    sized_page.wait_for_timeout(200)
    expect(sized_page.get_by_role("option").first).to_contain_text("Tide pools")


def test_search_field_works_without_scripts(browser: Browser, library: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(library)
    expect(page.get_by_role("searchbox", name="What are you looking for?")).to_be_visible()
    page.get_by_role("searchbox").fill("tide")
    page.keyboard.press("Enter")
    expect(page.locator(".results > li").first).to_be_visible()
    context.close()


def test_typing_error_is_named_and_can_be_searched_for_as_typed(sized_page: Page, library: str) -> None:
    sized_page.goto(f"{library}/?q=barnaclez")
    warning = "Searched for barnaclez, which stands nowhere, as barnacles."
    expect(sized_page.locator(".warning").first).to_have_text(warning)
    sized_page.get_by_role("link", name="Search for the words as typed").click()
    expect(sized_page.get_by_role("link", name="Without: words as typed")).to_be_visible()
    expect(sized_page.locator(".warning").first).not_to_have_text(warning)
