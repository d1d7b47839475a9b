"""Kind 10: a neighbour of an identifier is not claimed, and a warning names both."""

from __future__ import annotations

from case import ABSENT, ELSEWHERE, HAVING, LEXICAL, Case, library

ORDERS = library(
    ("Lamp", "Order 4711-2203 for a brass lamp was sent on Monday."),
    ("Chair", "Order 4711-2304 for an oak chair was sent on Tuesday."),
    ("Terms", "An order is sent within a week."),
)
FLAWS = library(
    ("Log4Shell", "CVE-2021-44228 lets strangers run code through log messages."),
    ("Heartbleed", "CVE-2014-0160 lets strangers read memory of the server."),
    ("Advice", "Install updates, for strangers may run code."),
)
SYSTEMS = library(
    ("Autumn update", "Windows 11 24H2 needs four gigabytes of memory."),
    ("Old machine", "Windows 10 22H2 needs two gigabytes of memory."),
)
TICKETS = library(
    ("Login", "Ticket PAY-1882 says that the login page is blank."),
    ("Invoice", "Ticket PAY-1917 says that the invoice has no date."),
    ("Process", "A ticket is closed when the customer agrees."),
)
DEVICES = library(
    ("Printer", "The printer XR-300 holds two trays of paper."),
    ("Scanner", "The scanner QL-820 reads both sides."),
    ("Chat", "GPT-4 was trained on many books."),
)
LAW = library(
    ("Contracts", "Under § 433 the seller must hand over the thing."),
    ("Damages", "Under § 823 a person who harms another must pay."),
    ("Limits", "Article 17 gives a right to be forgotten."),
)
MEDICINE = library(
    ("Fever", "Take 500 mg of paracetamol every six hours."),
    ("Liver", "Hepatitis B is passed on by blood."),
    ("Diabetes", "The code E11.9 stands for diabetes without complications."),
    ("Heart", "The code I21.4 stands for a heart attack."),
)
NETWORK = library(
    ("Gateway", "The gateway answers at 192.168.10.1 on port 8443."),
    ("Printer", "The printer answers at 192.168.10.77 on port 9100."),
    ("Meeting", "The meeting on 2024-06-12 begins at 9:30."),
)
COMMITS = library(
    ("Fix", "Commit 9f86d08 repairs the clock of the tower."),
    ("Feature", "Commit a1b2c3d adds a bell to the tower."),
)
FLIGHTS = library(
    ("Morning", "Flight LH454 leaves for the coast at dawn from gate B22."),
    ("Evening", "Flight UA901 leaves for the coast at dusk from gate C10."),
)
UPDATES = library(
    ("Patch", "The patch KB5001330 slows some games down."),
    ("Library", "Release 3.1.2 of the library reads faster."),
    ("Bulb", "The bulb has 806 lumens and a socket E27."),
)
PEOPLE = library(
    ("Ada", "Ada Lovelace wrote notes about the engine of Babbage."),
    ("Grace", "Grace Hopper wrote a compiler for ships."),
    ("Nightingale", "Florence Nightingale counted deaths in hospitals."),
    ("Hospitals", "Hospitals count deaths every year."),
)
SECRET = library(
    ("Years", "In 1969 two men walked on the moon."),
    ("Rocket", "In 1972 the last men left the moon."),
    ("Moon", "The moon has no air."),
)

OVENS = library(
    ("Door", "The oven shows E1042 when the glass door of the upper chamber stays open after baking bread."),
    ("Heat", "When the upper chamber stays cold after baking bread, the glass door of the oven is open."),
    ("Cells", "Vaccines wake the T cells of the blood, and tRNA carries their building blocks."),
    ("Bones", "Bones carry weight."),
)

CASES = [
    Case(
        "sibling in a long question",
        OVENS,
        "why does the glass door of the upper chamber stay open after baking bread and show E1043",
        at_most=ABSENT,
        wrong=("Door",),
        warning="E1042",
    ),
    Case(
        "code that is nowhere in a long question",
        OVENS,
        "why does the glass door of the upper chamber of the oven stay cold after baking bread with QX7",
        at_least=ELSEWHERE,
        at_most=ELSEWHERE,
        warning="QX7",
    ),
    Case(
        "code that is nowhere in a short question",
        OVENS,
        "glass door QX7",
        at_most=ABSENT,
        warning="QX7",
    ),
    Case("parts of an identifier side by side", OVENS, "T-cell vaccines", ("Cells",), lacking=()),
    Case("plural of an acronym", OVENS, "tRNAs", ("Cells",), lacking=(), at_least=ELSEWHERE),
    Case(
        "order itself",
        ORDERS,
        "order 4711-2203",
        ("Lamp",),
        at_least=HAVING,
        highlights=("Order", "4711-2203"),
        wrong=("Chair", "Terms"),
        at_most=ELSEWHERE,
        lacking=(),
    ),
    Case(
        "order with another digit",
        ORDERS,
        "order 4711-2204",
        at_most=ABSENT,
        warning="this library does not have 4711-2204, but ",
        lacking=("4711-2204",),
    ),
    Case("order with swapped digits", ORDERS, "order 4711-2230", at_most=ABSENT, warning="4711-2230"),
    Case(
        "order by words alone",
        ORDERS,
        "order 4711-2204",
        arguments=LEXICAL,
        at_most=ABSENT,
        warning="4711-2204",
    ),
    Case(
        "CVE itself",
        FLAWS,
        "CVE-2021-44228",
        ("Log4Shell",),
        at_least=HAVING,
        highlights=("CVE-2021-44228",),
        wrong=("Heartbleed",),
        at_most=ELSEWHERE,
    ),
    Case(
        "CVE with another digit",
        FLAWS,
        "CVE-2021-44229",
        at_most=ABSENT,
        warning="this library does not have CVE-2021-44229, but CVE-2021-44228",
    ),
    Case(
        "CVE with another digit and words",
        FLAWS,
        "does CVE-2021-44229 let strangers run code",
        at_most=ABSENT,
        warning="does not have CVE-2021-44229, but CVE-2021-44228",
    ),
    Case("CVE of another year", FLAWS, "CVE-2020-44228", at_most=ABSENT, warning="CVE-2020-44228"),
    Case("cve in small letters", FLAWS, "cve-2014-0160", ("Heartbleed",), at_least=HAVING),
    Case(
        "Windows itself",
        SYSTEMS,
        "Windows 11 24H2",
        ("Autumn update",),
        at_least=HAVING,
        wrong=("Old machine",),
        at_most=ELSEWHERE,
    ),
    Case(
        "Windows 11 25H2",
        SYSTEMS,
        "Windows 11 25H2",
        at_most=ABSENT,
        warning="this library does not have 25H2, but ",
    ),
    Case(
        "mixed parts of two versions",
        SYSTEMS,
        "Windows 10 24H2",
        at_most=ELSEWHERE,
        warning="the first result does not contain",
    ),
    Case("ticket itself", TICKETS, "PAY-1882", ("Login",), at_least=HAVING, highlights=("PAY-1882",)),
    Case(
        "ticket with another digit",
        TICKETS,
        "PAY-1883",
        at_most=ABSENT,
        warning="this library does not have PAY-1883, but PAY-1882",
    ),
    Case(
        "ticket of another project", TICKETS, "ticket DAY-1882 login page", at_most=ABSENT, warning="DAY-1882"
    ),
    Case(
        "XR-400", DEVICES, "XR-400", at_most=ABSENT, warning="this library does not have XR-400, but XR-300"
    ),
    Case(
        "XR-400 in a question",
        DEVICES,
        "how many trays of paper does the printer XR-400 hold",
        at_most=ABSENT,
        warning="does not have XR-400, but XR-300",
        lacking=("XR-400",),
    ),
    Case("XR400 joined", DEVICES, "printer XR400", at_most=ABSENT, warning="does not have XR400, but XR-300"),
    Case("QL-280 with swapped digits", DEVICES, "scanner QL-280", at_most=ABSENT, warning="QL-280"),
    Case("GPT-5", DEVICES, "GPT-5", at_most=ABSENT, warning="this library does not have GPT-5, but GPT-4"),
    Case("GPT-4 itself", DEVICES, "GPT-4", ("Chat",), at_least=HAVING),
    Case(
        "paragraph itself",
        LAW,
        "§ 433",
        ("Contracts",),
        at_least=HAVING,
        wrong=("Damages", "Limits"),
        at_most=ELSEWHERE,
    ),
    Case(
        "paragraph that is nowhere", LAW, "§ 434 seller", at_most=ABSENT, warning="does not have 434, but 433"
    ),
    Case(
        "article that is nowhere",
        LAW,
        "Article 18 right to be forgotten",
        at_most=ABSENT,
        warning="does not have 18, but 17",
    ),
    Case("dose itself", MEDICINE, "500 mg paracetamol", ("Fever",), at_least=HAVING),
    Case("other dose", MEDICINE, "1000 mg paracetamol", at_most=ABSENT, warning="1000"),
    Case("hepatitis B", MEDICINE, "hepatitis B", ("Liver",), at_least=HAVING),
    Case("hepatitis C", MEDICINE, "hepatitis C", at_most=ABSENT, warning="C"),
    Case("E11.9", MEDICINE, "E11.9", ("Diabetes",), at_least=HAVING, highlights=("E11.9",)),
    Case("E10.9", MEDICINE, "code E10.9 diabetes", at_most=ABSENT, warning="does not have E10.9, but E11.9"),
    Case(
        "I21.4 has no diabetes",
        MEDICINE,
        "I21.4",
        ("Heart",),
        at_least=HAVING,
        wrong=("Diabetes",),
        at_most=ELSEWHERE,
    ),
    Case(
        "address itself",
        NETWORK,
        "192.168.10.77",
        ("Printer",),
        at_least=HAVING,
        wrong=("Gateway",),
        at_most=ELSEWHERE,
    ),
    Case(
        "address with another digit",
        NETWORK,
        "192.168.10.78",
        at_most=ABSENT,
        warning="does not have 192.168.10.78, but 192.168.10.77",
    ),
    Case("address with swapped parts", NETWORK, "192.168.1.10", at_most=ABSENT, warning="192.168.1.10"),
    Case(
        "port that is nowhere",
        NETWORK,
        "gateway on port 8444",
        at_most=ABSENT,
        warning="does not have 8444, but 8443",
    ),
    Case("port of another device", NETWORK, "gateway on port 9100", at_most=ELSEWHERE, wrong=("Gateway",)),
    Case(
        "date with another day",
        NETWORK,
        "meeting on 2024-06-13",
        at_most=ABSENT,
        warning="does not have 2024-06-13, but 2024-06-12",
    ),
    Case("time with another minute", NETWORK, "meeting at 9:45", at_most=ABSENT, warning="9:45"),
    Case("commit itself", COMMITS, "9f86d08", ("Fix",), at_least=HAVING, highlights=("9f86d08",)),
    Case(
        "commit with another digit",
        COMMITS,
        "commit 9f86d09",
        at_most=ABSENT,
        warning="does not have 9f86d09, but 9f86d08",
    ),
    Case("flight itself", FLIGHTS, "LH454", ("Morning",), at_least=HAVING, highlights=("LH454",)),
    Case(
        "flight with another digit",
        FLIGHTS,
        "flight LH455",
        at_most=ABSENT,
        warning="does not have LH455, but LH454",
    ),
    Case(
        "flight from the gate of another",
        FLIGHTS,
        "LH454 gate C10",
        at_most=ELSEWHERE,
        warning="the first result does not contain",
    ),
    Case("patch itself", UPDATES, "KB5001330", ("Patch",), at_least=HAVING, highlights=("KB5001330",)),
    Case(
        "patch with another digit",
        UPDATES,
        "KB5001331",
        at_most=ABSENT,
        warning="does not have KB5001331, but KB5001330",
    ),
    Case(
        "release with another digit",
        UPDATES,
        "release 3.1.3",
        at_most=ABSENT,
        warning="does not have 3.1.3, but 3.1.2",
    ),
    Case(
        "release with the digits in another order", UPDATES, "release 3.2.1", at_most=ABSENT, warning="3.2.1"
    ),
    Case("other socket", UPDATES, "bulb with socket E14", at_most=ABSENT, warning="E14"),
    Case("person in the library", PEOPLE, "notes by Ada Lovelace", ("Ada",)),
    Case(
        "person of another passage",
        PEOPLE,
        "deaths counted by Nightingale",
        ("Nightingale",),
        wrong=("Hospitals",),
        at_most=ELSEWHERE,
    ),
    Case(
        "compiler of another person",
        PEOPLE,
        "which compiler was written by Lovelace",
        wrong=("Grace",),
        at_most=ELSEWHERE,
    ),
    Case(
        "year itself",
        SECRET,
        "moon 1969",
        ("Years",),
        at_least=HAVING,
        wrong=("Rocket", "Moon"),
        at_most=ELSEWHERE,
    ),
    Case("year that is nowhere", SECRET, "moon 1968", at_most=ABSENT, warning="does not have 1968, but 1969"),
]
