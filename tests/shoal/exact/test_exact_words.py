"""Words, signs, codes and scripts are found exactly, and relevance claims no more than what was found.

Each case is a small library, a query, and what a person expects; see `case.py` and the modules `cases_*.py`.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from case import ALL, Case, Library

from shoal import Engine, SearchResponse, SearchResult

HERE = Path(__file__).parent
CASES: list[Case] = [
    case for path in sorted(HERE.glob("cases_*.py")) for case in importlib.import_module(path.stem).CASES
]
# Cases of one library stand together, so that one engine at a time is enough.
_FIRST = {library: place for place, library in reversed(list(enumerate(case.library for case in CASES)))}
CASES.sort(key=lambda case: _FIRST[case.library])

OpenLibrary = Callable[[Library], Engine]


@pytest.fixture(scope="module")
def open_library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenLibrary]:
    """Return the engine of a library; it is kept until another library is opened."""
    kept: dict[Library, Engine] = {}

    def close() -> None:
        for engine in kept.values():
            engine.close()
        kept.clear()

    def open_it(library: Library) -> Engine:
        if library not in kept:
            close()
            engine = kept[library] = Engine(db_path=tmp_path_factory.mktemp("exact") / "library.db")
            for words in library.synonyms:
                engine.vocabulary.synonyms.add(list(words))
            ingested = engine.ingest_many(
                {
                    "title": document.title,
                    "content": document.text,
                    "source_path": document.source_path,
                }
                for document in library.documents
            )
            assert [result.error for result in ingested] == [None] * len(library.documents)
        return kept[library]

    yield open_it
    close()


def _mark(case: Case) -> tuple[pytest.MarkDecorator, ...]:
    return () if case.fails is None else (pytest.mark.xfail(reason=case.fails, strict=True),)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=_mark(case)) for case in CASES])
def test_answer_is_what_a_person_expects(case: Case, open_library: OpenLibrary) -> None:
    response = open_library(case.library).search(case.query, **case.arguments)
    faults = [*_order_faults(case, response), *_claim_faults(case, response)]
    assert not faults, f"{case.query!r}: " + "; ".join(faults)


def test_names_of_cases_are_unique() -> None:
    assert [name for name, n in Counter(case.name for case in CASES).items() if n > 1] == []


def test_table_covers_more_than_three_hundred_cases() -> None:
    assert len(CASES) >= 320


def _order_faults(case: Case, response: SearchResponse) -> Iterator[str]:
    titles = [result.document_title for result in response.results]
    if tuple(titles[: len(case.order)]) != case.order:
        yield f"order is {titles}, not {case.order}"
    if missing := set(case.found).difference(titles):
        yield f"not found: {sorted(missing)}"
    unwanted = titles if case.absent == ALL else sorted(set(case.absent).intersection(titles))
    if case.absent and unwanted:
        yield f"found: {unwanted}"


def _claim_faults(case: Case, response: SearchResponse) -> Iterator[str]:
    results = response.results
    first = results[0] if results else None
    if case.at_least is not None and (first is None or first.relevance < case.at_least):
        yield f"relevance {first and first.relevance} is below {case.at_least}"
    if case.at_most is not None:
        judged = (
            [each for each in results if each.document_title in case.wrong] if case.wrong else results[:1]
        )
        for result in judged:
            if result.relevance > case.at_most:
                yield f"relevance {result.relevance} of {result.document_title} is above {case.at_most}"
    if case.highlights is not None and (first is None or _highlighted(first) != case.highlights):
        yield f"highlights are {first and _highlighted(first)}, not {case.highlights}"
    if case.lacking is not None and (first is None or first.lacking != case.lacking):
        yield f"lacking is {first and first.lacking}, not {case.lacking}"
    if case.warning is not None and not any(case.warning in each for each in response.warnings):
        yield f"no warning says {case.warning!r}: {response.warnings}"
    if case.unsaid is not None and any(case.unsaid in each for each in response.warnings):
        yield f"a warning says {case.unsaid!r}: {response.warnings}"
    excluded = tuple(each.term for each in response.query_info.excluded)
    if excluded != case.excluded:
        yield f"excluded is {excluded}, not {case.excluded}"


def _highlighted(result: SearchResult) -> tuple[str, ...]:
    return tuple(result.text[start:end] for start, end in result.highlights)
