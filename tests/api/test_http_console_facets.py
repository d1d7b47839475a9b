"""Facets on the search page of the console, without a script."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

LAVA = "Lava rose in the volcano. Ash fell on the rock."
HOSTILE = "<script>x</script>"
LINK = re.compile(r'<li><a href="([^"]*)"( aria-current="true")?>(.*?)</a></li>')


@pytest.fixture
def console(tmp_path: Path) -> Any:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/shoal.db", learning=False)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        for number in range(12):
            tags = ["fire", "even"] if number % 2 == 0 else ["fire", HOSTILE]
            metadata = {"year": 2000 + number, "by": "Ann" if number else "Bob"}
            engine.ingest(content=f"{LAVA} Number {number}.", tags=tags, metadata=metadata)
        yield create_app(engine=engine).test_client()


def links(page: str) -> dict[str, tuple[str, bool]]:
    """The addresses of the values of facets by their text."""
    navigation = page[page.index('<nav class="facets"') :].split("</nav>")[0]
    return {
        " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split()): (html.unescape(address), bool(chosen))
        for address, chosen, text in LINK.findall(navigation)
    }


def test_a_value_adds_its_condition_and_takes_it_away(console: Any) -> None:
    page = console.get("/?q=lava&page=2").get_data(as_text=True)
    assert HOSTILE not in page
    address, is_chosen = links(page)["even 6 documents"]
    assert not is_chosen
    assert "page" not in address
    narrowed = console.get(address).get_data(as_text=True)
    assert "tags = &#34;even&#34;" in narrowed
    again = links(narrowed)
    assert again["Without: even × 6 documents"][1]
    assert again[f"{HOSTILE} 6 documents"][0].count("IN") == 1, "a second value is an alternative"
    assert "filter" not in again["Without: even × 6 documents"][0]
    both = console.get(again[f"{HOSTILE} 6 documents"][0]).get_data(as_text=True)
    assert links(both)[f"Without: {HOSTILE} × 6 documents"][1]


def test_other_fields_and_more_values_are_shown_when_asked_for(console: Any) -> None:
    page = console.get("/?q=lava&facets=year,by").get_data(as_text=True)
    assert "Bob 1 document" in links(page)
    assert "2011 1 document" not in links(page)
    more = html.unescape(re.findall(r'<a href="([^"]*)">4 more', page)[0])
    assert "2011 1 document" in links(console.get(more).get_data(as_text=True))


def test_a_bad_facet_is_refused_with_its_reason(console: Any) -> None:
    response = console.get("/?q=lava&facets=tittle")
    assert response.status_code == 422
    assert "did you mean title?" in response.get_data(as_text=True)
