"""Kind 3: stop words that mean something are searched for."""

from __future__ import annotations

from case import ABSENT, ELSEWHERE, HAVING, LEXICAL, Case, library

GRADES = library(
    ("Poor", "With grade D a pupil must repeat the term."),
    ("Excellent", "With grade A a pupil earns a prize."),
    ("Slope", "The grade of the road is steep."),
)
SIZES = library(
    ("Small", "Jackets in size S fit a chest of 90 centimetres."),
    ("Medium", "Jackets in size M fit a chest of 98 centimetres."),
    ("Large", "Jackets in size L fit a chest of 106 centimetres."),
)
HEALTH = library(
    ("Geneva", "The WHO reports fewer deaths from malaria in the region."),
    ("Clinic", "A doctor who treats malaria gives tablets for malaria."),
    ("Travel", "People who travel to the tropics should sleep under a net."),
)
MUSIC = library(
    ("The Who", "A band from London that smashed guitars on the stage."),
    ("The Band", "Five musicians recorded songs in a pink house."),
    ("Let It Be", "The last record of four young men from Liverpool."),
    ("Them", "A group from Belfast with a young singer."),
)
OFFICE = library(
    ("IT", "The department repairs laptops and printers."),
    ("HR", "The department hires people and pays wages."),
    ("Canteen", "The soup is hot; it is served at noon."),
)
COUNTRIES = library(
    ("US", "The states are governed from Washington."),
    ("UK", "The kingdom is governed from London."),
    ("Visitors", "Come and visit us; tell us about your trip."),
)
BORDER = library(
    ("Consulate", "Apply for a US visa at the consulate."),
    ("Friends", "Let us know if your visa arrives; visit us soon."),
    ("Embassy", "A UK visa takes three weeks."),
)
STAGE = library(
    ("To be or not to be", "The prince speaks to himself about death."),
    ("Ghost", "A ghost walks on the walls of the castle."),
    ("If", "A poem in which a father advises his son."),
    ("It", "A clown frightens children in a small town."),
)
LINES = library(
    ("Monologue", "To be, or not to be, that is the question."),
    ("Riddle", "Is that the question? It is not, or so they say."),
    ("Weather", "Rain falls on the roof."),
)
BLOOD = library(
    ("Group one", "Donors with blood type A may give to many."),
    ("Group two", "Donors with blood type O may give to all."),
    ("Ink", "A type of ink looks like blood."),
)
SUPPORT = library(
    ("Desk", "Call IT support when the screen stays black."),
    ("Family", "It is hard to support a family alone."),
    ("Bridge", "Pillars support it on both sides."),
)
SERIES = library(
    ("Doctor Who", "A traveller in time lives in a blue box."),
    ("Doctor", "A doctor cares for the sick in a village."),
    ("Now", "A magazine of the present."),
)
STATES = library(
    ("Salem", "The vote in Salem, OR was close this autumn."),
    ("Augusta", "The vote in Augusta, ME was clear this autumn."),
    ("Choice", "You may vote by letter or in person."),
)

CASES = [
    Case(
        "grade D",
        GRADES,
        "grade D",
        ("Poor",),
        at_least=HAVING,
        highlights=("grade", "D"),
        wrong=("Excellent", "Slope"),
        at_most=ELSEWHERE,
    ),
    Case(
        "grade A",
        GRADES,
        "grade A",
        ("Excellent",),
        highlights=("grade", "A"),
        wrong=("Poor", "Slope"),
        at_most=ELSEWHERE,
    ),
    Case("grade D by words alone", GRADES, "grade D", ("Poor",), LEXICAL),
    Case("grade A by words alone", GRADES, "grade A", ("Excellent",), LEXICAL),
    Case(
        "size S",
        SIZES,
        "size S",
        ("Small",),
        at_least=HAVING,
        highlights=("size", "S"),
        wrong=("Medium", "Large"),
        at_most=ELSEWHERE,
    ),
    Case(
        "size M",
        SIZES,
        "jacket in size M",
        ("Medium",),
        at_least=HAVING,
        wrong=("Small", "Large"),
        at_most=ELSEWHERE,
    ),
    Case(
        "size L", SIZES, "size L", ("Large",), at_least=HAVING, wrong=("Small", "Medium"), at_most=ELSEWHERE
    ),
    Case("size XL is nowhere", SIZES, "size XL", at_most=ABSENT, warning="XL"),
    Case(
        "WHO malaria",
        HEALTH,
        "WHO malaria",
        ("Geneva",),
        highlights=("WHO", "malaria"),
        wrong=("Clinic",),
        at_most=ELSEWHERE,
    ),
    Case("WHO alone", HEALTH, "WHO", ("Geneva",), highlights=("WHO",)),
    Case("WHO by words alone", HEALTH, "WHO malaria", ("Geneva",), LEXICAL),
    Case("what does the WHO report", HEALTH, "what does the WHO report about malaria", ("Geneva",)),
    Case("who in small letters is a question word", HEALTH, "who treats malaria", ("Clinic",)),
    Case("The Who", MUSIC, "The Who", ("The Who",)),
    Case("the who in small letters", MUSIC, "the who", ("The Who",)),
    Case("title let it be", MUSIC, "let it be", ("Let It Be",)),
    Case("them as a name", MUSIC, "Them", ("Them",)),
    Case(
        "the title of two stop words in quotation marks",
        MUSIC,
        '"The Who"',
        ("The Who",),
        absent=("The Band",),
    ),
    Case("IT as a title", OFFICE, "IT", ("IT",)),
    Case("IT department", OFFICE, "IT department", ("IT",)),
    Case("title:IT", OFFICE, "title:IT", ("IT",), absent=("HR", "Canteen")),
    Case("US as a title", COUNTRIES, "US", ("US",)),
    Case("UK as a title", COUNTRIES, "UK", ("UK",)),
    Case(
        "US visa",
        BORDER,
        "US visa",
        ("Consulate",),
        at_least=HAVING,
        highlights=("US", "visa"),
        wrong=("Friends", "Embassy"),
        at_most=ELSEWHERE,
    ),
    Case(
        "U.S. with dots", BORDER, "U.S. visa", ("Consulate",), wrong=("Friends", "Embassy"), at_most=ELSEWHERE
    ),
    Case("UK visa", BORDER, "UK visa", ("Embassy",), wrong=("Friends", "Consulate"), at_most=ELSEWHERE),
    Case("To be or not to be", STAGE, "To be or not to be", ("To be or not to be",)),
    Case(
        "to be or not to be in quotation marks",
        STAGE,
        '"to be or not to be"',
        ("To be or not to be",),
        absent=("Ghost",),
    ),
    Case("If as a title", STAGE, "If", ("If",)),
    Case("It as a title", STAGE, "It", ("It",)),
    Case("line of stop words in a text", LINES, "to be or not to be", ("Monologue",), absent=("Weather",)),
    Case(
        "phrase of stop words in a text",
        LINES,
        '"not to be"',
        ("Monologue",),
        absent=("Riddle", "Weather"),
        highlights=("not to be",),
    ),
    Case(
        "phrase with a stop word",
        LINES,
        '"is the question"',
        ("Monologue",),
        absent=("Riddle",),
        highlights=("is the question",),
    ),
    Case(
        "blood type A",
        BLOOD,
        "blood type A",
        ("Group one",),
        wrong=("Group two", "Ink"),
        at_most=ELSEWHERE,
    ),
    Case(
        "blood type O",
        BLOOD,
        "blood type O",
        ("Group two",),
        at_least=HAVING,
        wrong=("Group one", "Ink"),
        at_most=ELSEWHERE,
    ),
    Case(
        "IT support",
        SUPPORT,
        "IT support",
        ("Desk",),
        at_least=HAVING,
        wrong=("Family", "Bridge"),
        at_most=ELSEWHERE,
        highlights=("IT", "support"),
    ),
    Case("it in small letters is a pronoun", SUPPORT, "how hard is it to support a family", ("Family",)),
    Case("Doctor Who", SERIES, "Doctor Who", ("Doctor Who",)),
    Case("now as a title", SERIES, "now", ("Now",)),
    Case("OR as a state", STATES, "vote in Salem OR", ("Salem",)),
    Case("ME as a state", STATES, "vote in ME", ("Augusta",), wrong=("Salem", "Choice"), at_most=ELSEWHERE),
]
