"""Kind 9: a title, heading or file name that is the query comes first."""

from __future__ import annotations

from case import HAVING, LEXICAL, Case, library

PASSWORDS = library(
    ("Glossary: password", "Password. Reset."),
    (
        "Password reset",
        "Open the settings, choose security, and follow the link in the message that you get.",
    ),
    ("How to reset your password", "A link is sent to your address. It is valid for an hour."),
    ("Accounts", "A password and a name belong to each account; to reset the password, ask for a new one."),
)
TRAVEL = library(
    ("Night trains", "Beds are booked a month ahead; breakfast is brought at seven."),
    ("Trains", "Trains run at night, trains run by day. Night trains are slow."),
    ("Night", "Night. Trains."),
)
FILES = library(
    ("Minutes of the board", "The board agreed to buy two boats.", "minutes/2023/board-meeting.md"),
    ("Plan of the garden", "Roses grow along the wall.", "garden/planting_plan.txt"),
    ("Setup", "Install the program and start it.", "docs/getting-started.md"),
    ("Budget", "The money is spent on paint.", "finance/budget_q3_2024.csv"),
)
RECIPES = library(
    (
        "Soups",
        "# Soups\n\n## Cold cucumber soup\n\nGrate the cucumber and stir it into yoghurt with dill.",
        "recipes/soups.md",
    ),
    ("Vegetables", "Cold soup of cucumber: cucumber soup, cold. Soup."),
    (
        "Bread",
        "# Bread\n\n## Rye loaf\n\nKnead flour and water with the leaven of the day before.",
        "recipes/bread.md",
    ),
)
ERRORS = library(
    ("Error 404", "The page was moved or never was there; look at the address again."),
    ("Errors", "Error. 404. Error 404 and error 500 are common errors."),
    ("Error 500", "The server failed; try again later."),
)
BOOKS = library(
    ("The Trial", "A clerk is arrested one morning without having done wrong."),
    ("Trial and error", "Learning by trial: the trial fails, another trial follows."),
    ("Court", "At the trial the witness was silent."),
)
GUIDES = library(
    ("Changing a tyre", "Loosen the nuts, lift the car, and swap the wheel."),
    ("Tyres", "Changing tyres: a tyre, changing. A tyre is round."),
    ("C++ coding style", "Indent by four spaces and name things well."),
    ("Coding", "C++ style, coding style, coding in C++."),
)

CASES = [
    Case("exact title of two words", PASSWORDS, "Password reset", ("Password reset",)),
    Case("exact title in small letters", PASSWORDS, "password reset", ("Password reset",)),
    Case(
        "exact title that is a question",
        PASSWORDS,
        "How to reset your password",
        ("How to reset your password",),
    ),
    Case(
        "exact title with another case and a question mark",
        PASSWORDS,
        "how to reset your password?",
        ("How to reset your password",),
    ),
    Case("exact title by words alone", PASSWORDS, "Password reset", ("Password reset",), LEXICAL),
    Case("title of the glossary", PASSWORDS, "Glossary: password", ("Glossary: password",)),
    Case("title word", PASSWORDS, "title:accounts", ("Accounts",), absent=("Password reset",)),
    Case(
        "title phrase",
        PASSWORDS,
        'title:"password reset"',
        ("Password reset",),
        absent=("Accounts", "How to reset your password", "Glossary: password"),
    ),
    Case("short passage does not win", TRAVEL, "night trains", ("Night trains",)),
    Case("title of one word", TRAVEL, "trains", ("Trains",)),
    Case("title of one other word", TRAVEL, "night", ("Night",)),
    Case("file name", FILES, "board-meeting", ("Minutes of the board",)),
    Case("file name with its suffix", FILES, "board-meeting.md", ("Minutes of the board",)),
    Case("file name in words", FILES, "planting plan", ("Plan of the garden",)),
    Case("file name with underscores", FILES, "planting_plan.txt", ("Plan of the garden",)),
    Case("file name that no text has", FILES, "getting started", ("Setup",), unsaid="no passage"),
    Case("word of a file name", FILES, "meeting", ("Minutes of the board",), unsaid="no passage"),
    Case("word of a folder", FILES, "finance", ("Budget",), unsaid="no passage"),
    Case(
        "quarter in a file name",
        FILES,
        "budget q3 2024",
        ("Budget",),
        at_least=0.5,
    ),
    Case("path of a file", FILES, "docs/getting-started.md", ("Setup",)),
    Case("heading", RECIPES, "Cold cucumber soup", ("Soups",)),
    Case("heading in small letters", RECIPES, "rye loaf", ("Bread",)),
    Case("title with a number", ERRORS, "Error 404", ("Error 404",), at_least=HAVING),
    Case("title with another number", ERRORS, "error 500", ("Error 500",), at_least=HAVING),
    Case("title with an article", BOOKS, "The Trial", ("The Trial",)),
    Case("title with an article by words alone", BOOKS, "the trial", ("The Trial",), LEXICAL),
    Case("longer title", BOOKS, "trial and error", ("Trial and error",)),
    Case("title with an inner article", GUIDES, "changing a tyre", ("Changing a tyre",)),
    Case("title with signs", GUIDES, "C++ coding style", ("C++ coding style",)),
    Case("title in another inflection", GUIDES, "change a tyre", ("Changing a tyre",)),
]
