"""Verification: claims of a text against the passages of a library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from examples import examples
from fake_scorer import FakeScorer
from hypothesis import HealthCheck, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.grounding.support import Passage, find_support
from shoal.grounding.verification import rarity
from shoal.models.verdicts import MAX_REFERENCES, StatementVerdict, Verdict
from shoal.settings import Settings

BEES = """# Bees

## Dance

A worker tells her sisters with a dance. The angle of the run gives the direction of the flowers.

## Kinds

There are 20,000 species of bee. Most of them do not live in hives. The mite Varroa spreads viruses.

The usual wage is nectar, a sugary liquid. Rain falls in April. Snow falls in January.
"""
GLASS = (
    "Pure silica melts at about 1,700 degrees. Alastair Pilkington developed the float process in England."
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("grounding") / "shoal.db"
    settings = Settings(database_url=f"sqlite:///{path}", learning=False)
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        opened.ingest(title="Bees", content=BEES, format="markdown")
        opened.ingest(title="Glass", content=GLASS)
        opened.ingest(title="Long", content="Bees dance. " * 12_000)
        yield opened


def chunk(engine: Engine, words: str) -> int:
    for document_id in (1, 2):
        for each in engine.documents.chunks(document_id).chunks:
            if words in each.text:
                return each.id
    raise AssertionError(words)


def judge(engine: Engine, text: str, *passages: str, **arguments: Any) -> StatementVerdict:
    """The verdict on the only statement of a text; [1] and so on are the chunks with these words."""
    references = [{"chunk_id": chunk(engine, words)} for words in passages]
    (statement,) = engine.verify(text, references=references, **arguments).statements
    return statement


def codes(verdict: StatementVerdict) -> list[str]:
    return [problem.code for problem in verdict.problems]


@pytest.mark.parametrize(
    ("text", "passage", "problems"),
    [
        ("About twenty thousand species of bee live in the world of bees [1].", "species", ["coverage"]),
        ("There are about twenty thousand species of bees [1].", "species", []),
        ("There are 40,000 species of bee [1].", "species", ["number"]),
        ("Most bees live in hives [1].", "species", ["negation"]),
        ("Most bees do not live in hives [1].", "species", []),
        ("The mite Varroa spreads viruses in Europe [1].", "species", ["name"]),
        ("Bees were kept by monks in medieval monasteries [1].", "species", ["coverage"]),
        ('The wage is nectar: "the usual wage is nectar" [1].', "wage", []),
        ('The wage is nectar: "the usual wage is sweet nectar" [1].', "wage", ["quotation"]),
        ("Alastair Pilkington developed the float process in England [1].", "silica", []),
        ("According to the passage, silica melts at 1700 degrees [1].", "silica", []),
        ("20,000 [1].", "species", []),
        ("30,000 [1].", "species", ["number"]),
        ("A worker tells her sisters with a dance [2].", "dance", ["reference"]),
        ("A worker tells her sisters with a dance.", "dance", ["unreferenced"]),
    ],
)
def test_a_claim_is_supported_by_words_numbers_names_and_quotations(
    engine: Engine, text: str, passage: str, problems: list[str]
) -> None:
    verdict = judge(engine, text, passage)
    assert codes(verdict) == problems
    expected = Verdict.unsupported if problems else Verdict.supported
    assert verdict.verdict is (Verdict.unreferenced if problems == ["unreferenced"] else expected)


def test_a_verdict_names_the_sentence_and_its_place(engine: Engine) -> None:
    verdict = judge(engine, "Varroa is a mite that spreads viruses [1].", "species")
    evidence = verdict.evidence
    assert evidence is not None
    assert evidence.text == "The mite Varroa spreads viruses."
    assert BEES[evidence.start_char : evidence.end_char] == evidence.text
    assert BEES.split("\n")[evidence.start_line - 1].endswith(evidence.text)
    assert (evidence.reference, evidence.document_title) == ("1", "Bees")
    assert verdict.supported_by == ("1",)


def test_numbers_must_be_where_the_words_are(engine: Engine) -> None:
    text = "One. Two bees. Three cats sleep. Four dogs bark. Five birds sing."
    support = find_support("Three birds sing.", [Passage(text)], lambda _: 1.0)
    assert support.coverage == 1.0
    assert [(part.text, part.status) for part in support.parts] == [("Three", "missing")]


def test_passages_support_a_statement_together(engine: Engine) -> None:
    text = "A worker tells her sisters with a dance, and silica melts at 1,700 degrees [1][2]."
    verdict = judge(engine, text, "dance", "silica")
    assert verdict.verdict is Verdict.supported
    assert verdict.supported_by == ("1", "2")
    assert codes(judge(engine, text.replace("[2]", ""), "dance", "silica")) == ["number", "coverage"]


def test_a_text_is_accepted_if_all_claims_are_supported(engine: Engine) -> None:
    references = [{"chunk_id": chunk(engine, "species"), "label": 7}, {"chunk_id": chunk(engine, "Rain")}]
    text = (
        "# Bees\n\nHow many are there? There are 20,000 species of bee [7].\n\n- Rain falls in April [2].\n"
    )
    verification = engine.verify(text, references=references)
    assert verification.accepted
    assert [each.verdict for each in verification.statements] == [
        Verdict.no_claim, Verdict.no_claim, Verdict.supported, Verdict.supported,
    ]  # fmt: skip
    rejected = engine.verify(f"{text}\nBees are kind.", references=references)
    assert not rejected.accepted
    assert (rejected.n_claims, rejected.n_supported, rejected.n_unreferenced) == (3, 2, 1)


def test_what_may_be_cited(engine: Engine) -> None:
    dance, wage = chunk(engine, "dance"), chunk(engine, "wage")
    place = BEES.index("Rain")
    claims = {
        f"chunk {wage}": "The usual wage is nectar",
        "document 1": "The usual wage is nectar",
        f"document 1:{place}-{place + 20}": "Rain falls in April",
        "chunk 999999": "The usual wage is nectar",
        "document 99": "The usual wage is nectar",
        f"chunk {2**63}": "The usual wage is nectar",
        "document 1:999999-9999999": "The usual wage is nectar",
    }

    def accepted(references: Any) -> list[bool]:
        statements = [{"text": text, "references": [item]} for item, text in claims.items()]
        verification = engine.verify(statements=statements, references=references)
        return [each.verdict is Verdict.supported for each in verification.statements]

    assert accepted(None) == [True, True, True, False, False, False, False]
    assert accepted([]) == [False] * 7
    assert accepted([{"chunk_id": dance}])[:2] == [dance == wage, False]
    assert accepted([{"document_id": 1}])[:3] == [True, True, True]
    within = {"document_id": 1, "start_char": place, "end_char": place + 30}
    assert accepted([within])[:3] == [False, False, True]
    assert accepted([{"chunk_id": 999_999}, {"document_id": 99}]) == [False] * 7


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "text"),
        ({"text": "A.", "statements": ["A."]}, "text"),
        ({"text": 3}, "text"),
        ({"text": " \n"}, "text"),
        ({"text": "\ud800"}, "text"),
        ({"text": "a" * 1_000_001}, "text"),
        ({"text": "A.", "format": "html"}, "format"),
        ({"text": "A.", "min_coverage": 1.1}, "min_coverage"),
        ({"text": "A.", "min_coverage": float("nan")}, "min_coverage"),
        ({"statements": "A."}, "statements"),
        ({"statements": []}, "statements"),
        ({"statements": [3]}, "statements.0.text"),
        ({"statements": ["A.", ""]}, "statements.1.text"),
        ({"statements": [{"text": "A.", "refs": []}]}, "statements.0.refs"),
        ({"statements": [{"text": "A.", "references": "1"}]}, "statements.0.references"),
        ({"statements": [{"text": "A.", "references": ["x"]}]}, "statements.0.references"),
        ({"statements": [{"text": "A.", "references": [True]}]}, "statements.0.references"),
        ({"statements": [{"text": "A.", "references": ["1"] * 17}]}, "statements.0.references"),
        ({"text": "A.", "references": "1"}, "references"),
        ({"text": "A.", "references": [3]}, "references.0"),
        ({"text": "A.", "references": [{}]}, "references.0"),
        ({"text": "A.", "references": [{"chunk": 1}]}, "references.0.chunk"),
        ({"text": "A.", "references": [{"chunk_id": 1, "document_id": 1}]}, "references.0"),
        ({"text": "A.", "references": [{"chunk_id": 0}]}, "references.0.chunk_id"),
        ({"text": "A.", "references": [{"chunk_id": 2**63}]}, "references.0.chunk_id"),
        ({"text": "A.", "references": [{"chunk_id": "1"}]}, "references.0.chunk_id"),
        ({"text": "A.", "references": [{"document_id": 1, "start_char": 3}]}, "references.0"),
        ({"text": "A.", "references": [{"chunk_id": 1, "start_char": 3, "end_char": 4}]}, "references.0"),
        ({"text": "A.", "references": [{"document_id": 1, "start_char": 4, "end_char": 4}]}, "references.0.end_char"),
        ({"text": "A.", "references": [{"chunk_id": 1, "label": 2}, {"chunk_id": 2}]}, "references.1.label"),
        ({"text": "A.", "references": [{"chunk_id": 1}] * (MAX_REFERENCES + 1)}, "references"),
        ({"text": "Bees dance [document 3]."}, "references"),
    ],
)  # fmt: skip
def test_bad_input_names_the_argument(engine: Engine, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(QueryError) as error:
        engine.verify(**arguments)
    assert error.value.field == field
    assert str(error.value)


def test_comparing_too_much_is_an_error(engine: Engine) -> None:
    statements = [
        {"text": "Bees dance.", "references": [f"document 3:{start}-{start + 90_000}"]} for start in range(60)
    ]
    with pytest.raises(QueryError, match="verify it in parts"):
        engine.verify(statements=statements)


@pytest.mark.parametrize(
    "text",
    [
        "a [1]. " * 4_900,
        "[1]" * 30_000,
        "[" * 100_000,
        "[1, " * 25_000,
        "9" * 1_000_000,
        '"' * 100_000,
        "“a b c " * 14_000,
        "A" * 100_000,
        "- " * 50_000,
        " ".join(f"w{n}x [1]" for n in range(8_000)),
        "not " * 25_000,
        "two hundred and " * 6_000,
    ],
)
def test_a_hostile_text_is_rejected_or_refused(engine: Engine, text: str) -> None:
    references = [{"chunk_id": chunk(engine, "species")}]
    references += [{"chunk_id": n} for n in range(10, MAX_REFERENCES + 9)]
    try:
        verification = engine.verify(text, references=references)
    except QueryError as error:
        assert error.field == "text"  # noqa: PT017 - one of two outcomes
    else:
        assert verification.n_supported == 0


WORDS = st.sampled_from(
    [
        "bees",
        "dance",
        "rain",
        "falls",
        "nectar",
        "20,000",
        "two",
        "Varroa",
        "not",
        "[1]",
        "[2]",
        "[chunk",
        "1]",
        ".",
        "?",
        "\n\n",
        "#",
        '"',
    ]
)


@given(st.lists(WORDS, min_size=1, max_size=20).map(" ".join).filter(str.strip), st.floats(0, 1))
@given_settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_verdicts_are_consistent(engine: Engine, text: str, min_coverage: float) -> None:
    references = [{"chunk_id": chunk(engine, "species")}, {"document_id": 2}]
    verification = engine.verify(text, references=references, min_coverage=min_coverage)
    for each in verification.statements:
        assert text[each.start_char : each.end_char] == each.text
        assert bool(each.problems) == (each.verdict in (Verdict.unsupported, Verdict.unreferenced))
        assert (each.kind == "claim") != (each.verdict is Verdict.no_claim)
        assert 0 <= each.coverage <= 1
        assert set(each.supported_by) <= set(each.references)
        if each.verdict is Verdict.supported:
            assert each.coverage >= min_coverage
            assert each.evidence
            content = engine.documents.content(each.evidence.document_id)
            assert content[each.evidence.start_char : each.evidence.end_char] == each.evidence.text
    rejected = verification.n_unsupported + verification.n_unreferenced
    assert verification.accepted is (rejected == 0)
    assert verification.n_claims == verification.n_supported + rejected


def test_more_passages_never_lower_the_coverage(engine: Engine) -> None:
    statement = "A worker dances in the rain of April for nectar."
    passages = [Passage(text) for text in ("A worker dances.", "Rain falls in April.", "Nectar is sweet.")]
    coverages = [
        find_support(statement, passages[:n], lambda _: 1.0).coverage for n in range(1, len(passages) + 1)
    ]
    assert coverages == sorted(coverages)
    assert coverages[-1] == 1.0


def test_rare_words_weigh_more(engine: Engine) -> None:
    with engine.database.snapshot() as snapshot:
        weight_of = rarity(engine._library.index.of(snapshot))
    assert weight_of("danc") < weight_of("silica") < weight_of("unheard")
    assert weight_of("silica") == weight_of("silica")
