"""Statements that keep to a source in its words, in other words, or alter it.

Each row of a table is a source with statements: `=` says the same, `!` something else, `?` cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.models.verdicts import StatementVerdict, Verdict
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

The ship left Nantucket in December with a crew of whalers.
= The ship left Nantucket in December.
! The ship left Nantucket in June.
! The ship left Nantucket in May.

The garden opens in May and may close in October.
= The garden opens in May.
= The garden may close in October.

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
= It is not true that the bridge sways in the wind.

Nobody believes that the old mill is haunted, because the miller sleeps there.
! The old mill is haunted.
= The miller sleeps there.

The red barrel holds 40 litres and the blue barrel holds 65 litres.
= The red barrel holds 40 litres and the blue barrel holds 65 litres.
= The blue barrel holds 65 litres and the red barrel holds 40 litres.
! The red barrel holds 65 litres and the blue barrel holds 40 litres.
! The red barrel holds 40 gallons and the blue barrel holds 65 litres.

The captain came to hunt whales, not his commander's vengeance.
= The captain came to hunt whales.
! The captain came to hunt his commander's vengeance, not whales.

In 1721 the gardener Marta Oleson planted the long avenue of limes for the duke.
= The gardener Marta Oleson planted the long avenue of limes for the duke in 1721.
= The long avenue of limes was planted by the gardener Marta Oleson in 1721.
= Marta Oleson, the gardener, planted the long avenue of limes.
! The duke planted the long avenue of limes for the gardener Marta Oleson in 1721.
! In 1712 the gardener Marta Oleson planted the long avenue of limes.
! In 1721 the gardener Marta Nilsen planted the long avenue of limes.

Queen Adela defeated Prince Tolan at the river Vesk.
= Prince Tolan was defeated by Queen Adela at the river Vesk.
= At the river Vesk, Queen Adela defeated Prince Tolan.
! Prince Tolan defeated Queen Adela at the river Vesk.
! Queen Adela was defeated by Prince Tolan at the river Vesk.

The apprentice was praised by the master after the exhibition.
= The master praised the apprentice after the exhibition.
= The apprentice was praised after the exhibition.
! The apprentice praised the master after the exhibition.
! The master was praised by the apprentice after the exhibition.
! The apprentice was praised by the master before the exhibition.

The ferry sails from Lund to Arvik on Mondays.
= On Mondays the ferry sails from Lund to Arvik.
= The ferry sails to Arvik from Lund.
! The ferry sails from Arvik to Lund on Mondays.

Sales fell by 4 % in 2019 and by 9 % in 2020.
= In 2019 sales fell by 4 percent.
= Sales fell by 4 % in 2019 and by 9 % in 2020.
! Sales fell by 9 % in 2019 and by 4 % in 2020.
! Sales fell by 4 % in 2020.

Copper conducts heat better than iron, and lead melts at a lower temperature than zinc.
= Copper conducts heat better than iron.
! Iron conducts heat better than copper.
! Copper conducts heat worse than iron.
! Lead melts at a higher temperature than zinc.

The committee met before the election and reported after the harvest.
= The committee met before the election.
! The committee met after the election.
! The committee reported before the harvest.

More than 300 households use less water than the plan allows.
= More than 300 households use less water than the plan allows.
! Less than 300 households use more water than the plan allows.
! Fewer than 300 households use less water than the plan allows.

The orchard never floods in spring, and the cellar has no windows.
= The orchard never floods in spring.
= The cellar has no windows.
! The orchard floods in spring.
! The cellar has windows.

The clinic no longer treats horses, and neither the nurse nor the doctor drives.
= The clinic no longer treats horses.
! The clinic treats horses.
! The nurse and the doctor drive.

The soup is made without salt but the bread is baked with salt.
= The soup is made without salt.
! The soup is made with salt.
! The bread is baked without salt.

The guard doesn't open the gate at night; the porter opens it in the morning.
= The guard does not open the gate at night.
! The guard opens the gate at night.
! The porter opens it at night.

The two committees agreed, although the mayor did not, however, sign the treaty.
= The two committees agreed.
! The mayor signed the treaty.

The estate paid €1.250,50 in tax and $3 million in wages.
= The estate paid €1,250.50 in tax.
= The estate paid $3,000,000 in wages.
= The estate paid three million dollars in wages.
! The estate paid $1,250.50 in tax.
! The estate paid €1,520.50 in tax.

Das Archiv wurde am 3. Oktober 1990 eröffnet, la fête est le 14 juillet.
= Das Archiv wurde am 3. Oktober 1990 eröffnet.
! Das Archiv wurde am 3. November 1990 eröffnet.
! La fête est le 15 juillet.

The observatory stands at 2 400 m and has 1'200 visitors a year.
= The observatory stands at 2,400 m.
= The observatory stands at 2.4 km.
! The observatory stands at 2,400 feet.
! The observatory stands at 24,000 m.

Between 10 and 15 km of track were laid in the twenty-third week.
= Between 10 and 15 km of track were laid in the 23rd week.
! Between 15 and 10 km of track were laid in the 24th week.
! Between 10 and 50 km of track were laid in the twenty-third week.

Pope Leo XIII wrote to King Oskar II in chapter IV of the report.
= Pope Leo XIII wrote to King Oskar II.
! Pope Leo XII wrote to King Oskar II.
! King Oskar II wrote to Pope Leo XIII.

The function read_rows() calls parseHeader with the option --strict in Python 3.10.
= The function read_rows calls parseHeader with the option --strict.
! The function read_cols calls parseHeader with the option --strict.
! The function parseHeader calls read_rows() with the option --strict.
! The function read_rows calls parseHeader with the option --strict in Python 3.1.

The temperature fell to −5 °C on the third night, at 23:40.
= The temperature fell to −5 °C on the third night.
= The temperature fell to minus 5 °C at 11:40 p.m.
! The temperature fell to 5 °C on the third night.
! The temperature fell to −5 °F on the third night.
! The temperature fell to −5 °C on the second night.

The harbour is open to all ships, and some pilots work at night.
= The harbour is open to all ships.
! The harbour is open to no ships.
! The harbour is closed to all ships.
! All pilots work at night.

The path is impossible in winter and the bridge is unsafe.
= The path is impossible in winter.
! The path is possible in winter.
! The bridge is safe.

The dose was given on 03/04/2021 and the ratio was 3.125 in the trial.
= The dose was given on 03/04/2021.
= The ratio was 3.125 in the trial.
? The dose was given on 3 April 2021.
? The ratio was 3125 in the trial.

Rivers feed the lake, the lake feeds the marsh, and the marsh feeds the birds.
= Rivers feed the lake.
= The lake is fed by rivers.

Strikes are rare in the mining towns of the north, and the union is old.
= Strikes are rare in the mining towns.
! In the mining towns of the north, strikes are frequent.

The tower has 300 steps, and the wall of the yard has a length of 40.
= The wall of the yard has a length of 40.
? The wall of the yard has a length of 40 metres.

我们在2024年3月15日使用Docker部署应用程序。
= 我们在2024年3月15日使用Docker部署应用程序。
! 我们在2024年3月16日使用Docker部署应用程序。
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
