"""A library in which every argument of a search changes the answer, and a case for each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from shoal import SearchFilters
from shoal.declared.search import SearchArguments
from shoal.engine import Engine

QUERY = "volcano lava sea"
VOLCANO = """\
# Fire

The volcano throws lava and ash from its crater. Magma is hot rock.

# Water

The sea cools the lava. A wave of the sea breaks on the shore.

# Air

The wind and the rain wear the volcano down. A storm is near the sea.

# Words

The lava of a volcano, the lava of a volcano, and the sea.
"""
TALK = """\
WEBVTT

00:01:05.000 --> 00:01:18.000
A volcano throws lava and ash into the air.

00:01:20.000 --> 00:01:31.000
The magma below is hot rock, and the sea is cold.
"""
COPY = (
    "The sea and the volcano meet where lava runs into the waves, and steam rises over the shore for days "
    "and weeks, until the rock is cold. Number {}."
)


def fill(engine: Engine, folder: Path) -> None:
    """Store documents, a note, a synonym and a pin."""
    metadata = [
        {"date": "2019-05-01", "year": 2019},
        {"date": "2025-12-30", "year": 2025},
        {"date": "2022-02-02", "year": 2022},
    ]
    engine.ingest(
        title="Volcano", content=VOLCANO, format="markdown", tags=["rock", "hot"], source_path="fire.md",
        metadata=metadata[0],
    )  # fmt: skip
    engine.ingest(
        title="Sea", content="The sea, the tide and the volcano.", tags=["sea"], metadata=metadata[1],
        source_path="water/sea.txt",
    )  # fmt: skip
    for number in range(2):
        engine.ingest(title=f"Copy {number}", content=COPY.format(number), tags=["hot"], metadata=metadata[2])
    for number, words in enumerate(
        ("granite and lava", "a ship at sea", "ash of the volcano", "a reef of the sea")
    ):
        engine.ingest(title=f"Short {number}", content=f"Here is {words}. The judge spoke.", tags=["short"])
    (folder / "talk.vtt").write_text(TALK)
    engine.ingest_file(folder / "talk.vtt", source_path="talk.vtt")
    engine.ingest(title="Bread", content="Flour and water make bread, said the jury.", tags=["sea"])
    engine.notes.of("default").add("The volcano needs a helmet against lava.", tags=["hot"])
    engine.vocabulary.synonyms.add(["volcano", "firemountain"])
    (bread,) = engine.documents.list(q="Bread").documents
    engine.pins.add(PINNED, [bread.id])


PINNED = "granite"
"""A query with a pin."""


class Case(NamedTuple):
    """Two searches that differ in one argument: `base`, and `base` with `value`."""

    value: Any
    base: Mapping[str, Any] = MappingProxyType({})
    query: str = QUERY

    def changed(self, argument: str) -> dict[str, Any]:
        """Return the arguments of the second search."""
        name, _, part = argument.partition(".")
        value = {**self.base.get("filters", {}), part: self.value} if part else self.value
        return {**self.base, name: value}


CASES: dict[str, Case] = {
    "top_k": Case(2),
    "mode": Case("reef"),
    "tags": Case(["sea"]),
    "min_confidence": Case(2.5),
    "filter": Case("tags = hot AND year >= 2020"),
    "max_per_document": Case(1),
    "include_scores": Case(True),
    "offset": Case(10),
    "context": Case(1),
    "preset": Case("conceptual"),
    "weights": Case({"lexical": 0.2, "reef": 0.8}),
    "fusion": Case("rrf"),
    "min_relevance": Case(0.9, query=PINNED),
    "expand": Case("time"),
    "rerank": Case(6),
    "facets": Case(["tags", "year"]),
    "facet_limit": Case(1, {"facets": ["tags", "year"]}),
    "typos": Case("off", query="volcamo"),
    "syntax": Case("plain", query="volcano -lava"),
    "prefix": Case(True, query="volca"),
    "language": Case("es", query="volcano sea"),
    "languages": Case(["*"], query="ηφαίστειο sea"),
    "sort": Case("-date,title"),
    "decay": Case("date:30:0.5@2026-01-01"),
    "boosts": Case(["0.4:tags = sea", "0.1:tags = short"]),
    "cursor": Case("next_cursor", {"top_k": 3}),
    "text": Case("none"),
    "max_tokens": Case(40),
    "prompt": Case(True),
    "group_by": Case("document"),
    "fold_similar": Case(True),
    "synonyms": Case("off", query="firemountain"),
    "pins": Case("off", query=PINNED),
    "shortlist": Case(1),
    "filters.tags": Case(["sea"]),
    "filters.tags_match": Case("any", {"filters": {"tags": ["rock", "sea"]}}),
    "filters.min_confidence": Case(2.5),
    "filters.min_coverage": Case(0.9),
    "filters.reef_ids": Case([0]),
    "filters.island_ids": Case([0]),
    "filters.archipelago": Case(0),
    "filters.document_ids": Case([2, 3]),
    "filters.format": Case("plaintext"),
    "filters.created_after": Case("2100-01-01T00:00:00Z"),
    "filters.created_before": Case("2000-01-01T00:00:00Z"),
    "filters.source_path": Case("water/sea.txt"),
    "filters.metadata": Case({"year": 2022}),
    "filters.name_contains": Case("COPY"),
    "filters.file_type": Case("video"),
}
"""By the name of the argument; `filters.NAME` is a member of `filters`."""

ARGUMENTS = frozenset(
    {
        *SearchArguments.__annotations__,
        *(f"filters.{field.name}" for field in dataclasses.fields(SearchFilters)),
    }
) - {"filters"}
