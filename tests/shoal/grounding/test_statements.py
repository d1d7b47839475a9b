"""Statements and citations of a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import QueryError
from shoal.grounding.statements import (
    Statement,
    make_statement,
    parse_statements,
)
from shoal.models.documents import DocFormat
from shoal.models.verdicts import MAX_CITATIONS, MAX_STATEMENTS, StatementKind

CLAIM, HEADING, QUESTION, CODE, OTHER = StatementKind


def cited(text: str) -> list[tuple[str, list[str]]]:
    """The claims of a text with what they cite."""
    return [
        (statement.plain.strip(), [citation.text for citation in statement.citations])
        for statement in parse_statements(text)
        if statement.kind is CLAIM
    ]


@pytest.mark.parametrize(
    ("text", "citations"),
    [
        ("Bees dance [1].", [["1"]]),
        ("Bees dance.[1] Rain falls.", [["1"], []]),
        ("Bees dance. [1] Rain falls. [2]", [["1"], ["2"]]),
        ("Bees dance [1]. Rain falls [2].", [["1"], ["2"]]),
        ("[1] Bees dance. Rain falls.", [["1"], []]),
        ("Rain falls.\n[1] Bees dance.", [[], ["1"]]),
        ("Rain falls.\n\n[1] Bees dance.", [[], ["1"]]),
        ("- Rain falls. [1]\n- Bees dance. [2]", [["1"], ["2"]]),
        ("Bees dance [1, 3; 5].", [["1", "3", "5"]]),
        ("Bees dance [2-4][2].", [["2", "3", "4"]]),
        ("Bees dance [^7].", [["7"]]),
        ("Bees dance [chunk 12].", [["chunk 12"]]),
        ("Bees dance [Chunk: 12, document 3:10-20].", [["Chunk: 12", "document 3:10-20"]]),
        ("Bees dance. [document 3] Rain falls.", [["document 3"], []]),
        ("Bees dance [see 1] [a] [-1] [1.5] [].", [[]]),
        ("[123456789] Rain falls.", [["123456789"]]),
        ("[chunk 123456] Rain falls.", [["chunk 123456"]]),
        ("Bees *dance* [1](http://example.com).", [["1"]]),
    ],
)
def test_a_citation_belongs_to_the_sentence_that_it_is_in_or_follows(
    text: str, citations: list[list[str]]
) -> None:
    assert [each for _, each in cited(text)] == citations


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("# Bees\n\nBees dance.", [HEADING, CLAIM]),
        ("Do bees dance? Bees do not (why?).", [QUESTION, CLAIM]),
        ("Do bees dance? [1]", [QUESTION]),
        ("```\nbees = 1\n\ndance(2)\n```\n\nBees dance.", [CODE, CLAIM]),
        ("    bees = 1\n\nBees dance.", [CODE, CLAIM]),
        ("> ~~~\n> bees = 1\n> ~~~", [CODE]),
        ("| bee | legs |\n|---|---|\n| honeybee | 6 |", [CLAIM, OTHER, CLAIM]),
        ("Yes. No.", [OTHER, OTHER]),
        ("It was so. 1914.", [OTHER, CLAIM]),
        ("<!-- Bees dance. -->", [OTHER]),
        ("- Bees dance.\n- Rain falls.", [CLAIM, CLAIM]),
    ],
)
def test_only_claims_need_a_citation(text: str, kinds: list[StatementKind]) -> None:
    assert [statement.kind for statement in parse_statements(text)] == kinds


def test_a_citation_at_the_start_of_a_line_does_not_make_code() -> None:
    (statement,) = parse_statements("[document 1234:10-20] Bees dance.")
    assert statement.kind is CLAIM


def test_quotations_of_three_words_are_checked() -> None:
    (statement,) = parse_statements('They call it the "usual wage", and “a sugary liquid made” [1].')
    assert statement.quotations == ("a sugary liquid made",)


def test_a_given_statement_has_the_citations_of_its_text_too() -> None:
    statement = make_statement("Bees dance [2].", ["1", "chunk 12"])
    assert [citation.text for citation in statement.citations] == ["1", "chunk 12", "2"]
    with pytest.raises(QueryError, match="'twelve' is not like 1, chunk 12"):
        make_statement("Bees dance.", ["twelve"])


def test_a_range_of_labels_is_limited() -> None:
    for text in ("Bees dance [1-999999999].", f"Bees dance [{','.join('123456789')}-99]."):
        (statement,) = parse_statements(text)
        assert len(statement.citations) <= 2 * MAX_CITATIONS
    assert cited("Bees dance [9-2].") == [("Bees dance      .", ["9"])]


def test_too_many_statements_are_an_error() -> None:
    with pytest.raises(QueryError, match="5,001 statements; the limit is 5,000"):
        parse_statements("Bees dance.\n\n" * (MAX_STATEMENTS + 1))


def pieces(statements: list[Statement], text: str) -> None:
    end = 0
    for statement in statements:
        assert statement.text == text[statement.start_char : statement.end_char]
        assert statement.start_char >= end
        end = statement.end_char
    covered = "".join(statement.text for statement in statements)
    assert "".join(covered.split()) == "".join(text.split())


PIECES = st.sampled_from(
    ["Bees dance", ". ", "[1]", "[chunk 2]", "[document 1:2-3]", "\n", "\n\n", "# ", "- ", "> ", "```", "    ",
     "? ", "|", "---", "*", "<b>", "é", "[", "]", " ", "\r\n", "“", '"']
)  # fmt: skip


@given(st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=80), st.sampled_from(DocFormat))
def test_statements_cover_every_text_in_order(text: str, doc_format: DocFormat) -> None:
    pieces(parse_statements(text, doc_format), text)


@given(st.lists(PIECES, max_size=25).map("".join))
def test_every_citation_of_a_text_is_in_a_statement(text: str) -> None:
    n_statements = sum(len(statement.citations) for statement in parse_statements(text))
    assert bool(n_statements) == any(marker in text for marker in ("[1]", "[chunk 2]", "[document 1:2-3]"))
