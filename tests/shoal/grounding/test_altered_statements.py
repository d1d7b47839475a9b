"""Statements that keep to a source in its words, in other words, or alter it.

Each row of a table is a source with statements: `=` says the same, `!` something else, `?` cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.grounding.verdicts import StatementVerdict, Verdict
from shoal.settings import Settings

CASES = """
Release 3.1.2 fixed the memory leak in the parser.
= Release 3.1.2 fixed the memory leak in the parser.
= The memory leak in the parser was fixed by release 3.1.2.
= Release v3.1.2 fixed the memory leak in the parser.
! Release 3.2.1 fixed the memory leak in the parser.

The gateway has the address 192.168.10.25 in the office.
= The gateway has the address 192.168.10.25.
! The gateway has the address 192.168.25.10 in the office.

The contract begins on 2024-03-15 and ends a year later.
= The contract begins on 2024-03-15.
= The contract begins on 15 March 2024.
= The contract begins on March 15th, 2024.
! The contract begins on 2024-15-03.
! The contract begins on 15 May 2024.

The counter is open 9:30–17:45 on weekdays.
= The counter is open 9:30–17:45 on weekdays.
= The counter is open from 9:30 a.m. to 5:45 p.m. on weekdays.
! The counter is open 9:45–17:30 on weekdays.

The fault was introduced with commit 9f86d08 last week.
= The fault was introduced with commit 9f86d08.
! The fault was introduced with commit 9f86d09.

The vaccine protects infants against hepatitis B for years.
= The vaccine protects infants against hepatitis B.
! The vaccine protects infants against hepatitis C.

Take exit 12A towards the harbour.
= Take exit 12A towards the harbour.
! Take exit 12B towards the harbour.

A B-cell makes antibodies in the lymph nodes.
= A B-cell makes antibodies.
! A T-cell makes antibodies in the lymph nodes.

The driver of the printer is written in C++ by volunteers.
= The driver of the printer is written in C++.
! The driver of the printer is written in C#.
! The driver of the printer is written in C.

Error E17 means that the pump is blocked, and a lack of vitamin B12 makes people tired.
= Error E17 means that the pump is blocked.
= A lack of vitamin B12 makes people tired.
! Error E71 means that the pump is blocked.

Update KB5001330 slowed printing, and CO₂ makes up 0.04 % of the air.
= Update KB5001330 slowed printing.
= CO₂ makes up 0.04 % of the air.
= CO2 makes up 0.04 percent of the air.
! Update KB5001331 slowed printing.
! CO₂ makes up 0.4 % of the air.

The tank holds 12 litres and leaks without the seal.
= The tank holds 12 litres.
= The tank holds 12 l.
! The tank holds 12 gallons.
! The tank does not hold 12 litres.

It is not true that the bridge sways in the wind.
! The bridge sways in the wind.
"""


def cases() -> Iterator[tuple[str, str, str]]:
    """Return (source, statement, mark) of each row."""
    for block in CASES.strip().split("\n\n"):
        source, *statements = block.split("\n")
        for statement in statements:
            mark, _, text = statement.partition(" ")
            yield source, text, mark


ALL = list(cases())


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], StatementVerdict]]:
    path = tmp_path_factory.mktemp("altered") / "shoal.db"
    settings = Settings(database_url=f"sqlite:///{path}", learning=False)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        documents = {
            source: engine.ingest(title="A page", content=source).id
            for source in dict.fromkeys(source for source, _, _ in ALL)
        }
        statements = [
            {"text": text, "references": [f"document {documents[source]}"]} for source, text, _ in ALL
        ]
        verification = engine.verify(statements=statements)
        yield {
            (source, text): verdict
            for (source, text, _), verdict in zip(ALL, verification.statements, strict=True)
        }


@pytest.mark.parametrize(("source", "statement", "mark"), ALL)
def test_only_what_the_source_says_is_supported(
    verdicts: dict[tuple[str, str], StatementVerdict], source: str, statement: str, mark: str
) -> None:
    verdict = verdicts[source, statement]
    assert (verdict.verdict is Verdict.supported) is (mark == "="), [
        each.message for each in verdict.problems
    ]
