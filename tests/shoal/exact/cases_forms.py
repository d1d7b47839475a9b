"""Kinds 6 and 7: forms of words, typing errors whose stem exists, and beginnings of words."""

from __future__ import annotations

from case import ELSEWHERE, HAVING, PREFIX, Case, library

ACCOUNTS = library(
    ("Payments", "Invoices are paid within thirty days."),
    ("Stock", "The shelves are counted every winter."),
    ("Wages", "Wages are sent on the last Friday."),
)
SPORT = library(
    ("Track", "Running on grass spares the knees."),
    ("Pool", "Swimming trains the shoulders."),
    ("Cable", "Charging the battery takes an hour."),
    ("Fire", "Charcoal glows under the fish."),
)
FORMS = library(
    ("First", "They connect the lamp to the wall."),
    ("Second", "They connected the lamp to the wall."),
    ("Third", "They were connecting lamps all day."),
    ("Fourth", "She connects what others leave loose."),
    ("Fifth", "Each connector has five pins; every connection is tested."),
)
HARBOUR = library(
    ("Office", "The harbourmaster receives the captain's letters."),
    ("Market", "Mackerel and herring are sold before sunrise."),
    ("Yard", "Carpenters repair wooden vessels in the dockyard."),
    ("Lighthouse", "The lighthouse keeper climbs two hundred stairs."),
)
ERRORS = library(
    ("Sensor", "Error E1042 means that the sensor is wet."),
    ("Motor", "Error E1043 means that the motor is hot."),
    ("Door", "Error E2001 means that the door is open."),
)
RELEASES = library(
    ("Spring", "Version 2.0.1 repairs the clock."),
    ("Summer", "Version 2.0.2 repairs the calendar."),
    ("Autumn", "Version 3.4.0 adds a map."),
)
STANDARDS = library(
    ("Quality", "The firm is audited by ISO 9001 every year."),
    ("Codes", "The method getUserName returns a text."),
    ("Kitchen", "The refrigerator keeps milk for a week."),
    ("Freight", "Refrigerated lorries carry fish to the town."),
)
PLURALS = library(
    ("Cities", "Large cities need trams."),
    ("Knife", "Sharpen knives on a wet stone."),
    ("Children", "The children paint a ship."),
    ("Boxes", "Stack the boxes by the door."),
)

CASES = [
    Case(
        "invoces",
        ACCOUNTS,
        "invoces",
        ("Payments",),
        highlights=("Invoices",),
        warning="searched for invoces, which stands nowhere, as invoices",
    ),
    Case(
        "invoces in a question",
        ACCOUNTS,
        "when are invoces paid",
        ("Payments",),
        highlights=("Invoices", "paid"),
        warning="as invoices",
    ),
    Case(
        "singular of invoices",
        ACCOUNTS,
        "invoice",
        ("Payments",),
        highlights=("Invoices",),
        unsaid="searched for",
    ),
    Case("wage in the singular", ACCOUNTS, "wage", ("Wages",), highlights=("Wages",), unsaid="searched for"),
    Case(
        "shelfs",
        ACCOUNTS,
        "shelfs",
        ("Stock",),
        highlights=("shelves",),
    ),
    Case(
        "runing",
        SPORT,
        "runing",
        ("Track",),
        highlights=("Running",),
        warning="searched for runing, which stands nowhere, as running",
    ),
    Case("charing", SPORT, "charing", ("Cable",), highlights=("Charging",), warning="as charging"),
    Case("swiming", SPORT, "swiming", ("Pool",), highlights=("Swimming",), warning="as swimming"),
    Case(
        "typing error with typos off",
        SPORT,
        "swimmning",
        arguments={"typos": "off"},
        unsaid="searched for",
        warning="swimmning",
    ),
    Case("swim as the base", SPORT, "swim", ("Pool",), highlights=("Swimming",), unsaid="searched for"),
    Case("shoulder in the singular", SPORT, "shoulder", ("Pool",), highlights=("shoulders",)),
    Case(
        "connect finds all its inflections",
        FORMS,
        "connect",
        found=("First", "Second", "Third", "Fourth"),
        unsaid="searched for",
    ),
    Case(
        "connects is known",
        FORMS,
        "connects",
        found=("First", "Second", "Third", "Fourth"),
        unsaid="searched for",
    ),
    Case("conector with an error", FORMS, "conector", ("Fifth",), warning="as connector"),
    Case("beginning of a form that stands last", FORMS, "connector", ("Fifth",), PREFIX),
    Case(
        "beginning of many forms",
        FORMS,
        "connec",
        arguments=PREFIX,
        found=("First", "Second", "Third", "Fourth", "Fifth"),
    ),
    Case(
        "beginning of a form in the last passage",
        FORMS,
        "connectio",
        ("Fifth",),
        PREFIX,
        fails="completions stand for all forms of their stem",
    ),
    Case(
        "harbormaster with one letter less",
        HARBOUR,
        "harbourmastr",
        ("Office",),
        highlights=("harbourmaster",),
        warning="as harbourmaster",
    ),
    Case(
        "letters swapped", HARBOUR, "makcerel", ("Market",), highlights=("Mackerel",), warning="as mackerel"
    ),
    Case(
        "letter too many",
        HARBOUR,
        "carpennters",
        ("Yard",),
        highlights=("Carpenters",),
        warning="as carpenters",
    ),
    Case(
        "wrong letter",
        HARBOUR,
        "lighthoose",
        ("Lighthouse",),
        highlights=("lighthouse",),
        warning="as lighthouse",
    ),
    Case("error beside a right word", HARBOUR, "wooden vesels", ("Yard",), highlights=("wooden", "vessels")),
    Case("two errors", HARBOUR, "hering sunrize", ("Market",), highlights=("herring", "sunrise")),
    Case("beginning of a long word", HARBOUR, "harbourm", ("Office",), PREFIX, highlights=("harbourmaster",)),
    Case(
        "beginning behind a whole word",
        HARBOUR,
        "mackerel and her",
        ("Market",),
        PREFIX,
        highlights=("Mackerel", "herring"),
    ),
    Case("no completion without prefix", HARBOUR, "harbourm", highlights=None, absent=("Market",)),
    Case(
        "E10 completes both codes", ERRORS, "E10", arguments=PREFIX, found=("Sensor", "Motor"), at_least=0.5
    ),
    Case(
        "E104 completes both codes", ERRORS, "E104", arguments=PREFIX, found=("Sensor", "Motor"), at_least=0.5
    ),
    Case(
        "E1042 is complete",
        ERRORS,
        "E1042",
        ("Sensor",),
        PREFIX,
        highlights=("E1042",),
        at_least=HAVING,
        wrong=("Motor", "Door"),
        at_most=ELSEWHERE,
    ),
    Case(
        "E20 completes one code",
        ERRORS,
        "error E20",
        ("Door",),
        PREFIX,
        highlights=("Error", "E2001"),
        at_least=0.5,
    ),
    Case("small letters complete a code", ERRORS, "e200", ("Door",), PREFIX, highlights=("E2001",)),
    Case(
        "2.0 completes versions", RELEASES, "2.0", arguments=PREFIX, found=("Spring", "Summer"), at_least=0.5
    ),
    Case(
        "version 2.0 completes versions",
        RELEASES,
        "version 2.0",
        arguments=PREFIX,
        found=("Spring", "Summer"),
        at_least=0.5,
        wrong=("Autumn",),
        at_most=ELSEWHERE,
    ),
    Case(
        "3. completes one version",
        RELEASES,
        "version 3.4",
        ("Autumn",),
        PREFIX,
        highlights=("Version", "3.4.0"),
    ),
    Case(
        "ISO 90 completes",
        STANDARDS,
        "ISO 90",
        ("Quality",),
        PREFIX,
        highlights=("ISO", "9001"),
        at_least=0.5,
    ),
    Case(
        "getUs completes",
        STANDARDS,
        "getUs",
        ("Codes",),
        PREFIX,
        highlights=("getUserName",),
    ),
    Case(
        "refrig completes two words",
        STANDARDS,
        "refrig",
        arguments=PREFIX,
        found=("Kitchen", "Freight"),
        absent=("Quality", "Codes"),
    ),
    Case("city of cities", PLURALS, "city", ("Cities",), highlights=("cities",), unsaid="searched for"),
    Case("box of boxes", PLURALS, "box", ("Boxes",), highlights=("boxes",), unsaid="searched for"),
    Case(
        "painting of paint", PLURALS, "painting", ("Children",), highlights=("paint",), unsaid="searched for"
    ),
    Case("chldren", PLURALS, "chldren", ("Children",), highlights=("children",), warning="as children"),
]
