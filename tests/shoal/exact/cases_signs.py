"""Kind 4: signs that belong to a name: C++, .NET, AT&T, @handle, #tag, $PATH, emoji."""

from __future__ import annotations

from case import ABSENT, ALL, ELSEWHERE, HAVING, LEXICAL, PLAIN, Case, library

LANGUAGES = library(
    ("Stroustrup", "The language C++ has templates and classes."),
    ("Hejlsberg", "The language C# runs on a virtual machine."),
    ("Kernighan", "The language C has pointers and few keywords."),
    ("Syme", "The language F# infers the types of functions."),
)
HANDBOOKS = library(
    ("C++", "Templates and classes for fast programs."),
    ("C#", "Programs for a virtual machine."),
    ("C", "Pointers and few keywords."),
)
NET = library(
    ("Runtime", "The service runs on .NET in a container."),
    ("Fishing", "The fisher mends a net in the harbour."),
    ("Server", "The web page is served by Node.js on port 8080."),
    ("Graph", "A node of the graph has two neighbours."),
)
FIRMS = library(
    ("Telephone", "AT&T laid a cable under the ocean."),
    ("Laboratory", "R&D costs a tenth of what the firm earns."),
    ("Clothes", "H&M opened a shop in the main street."),
    ("Advice", "M&A lawyers work through the night."),
    ("Costs", "The firm earns more when costs fall."),
)
SOCIAL = library(
    ("Poster", "Follow @northwind for news of the race."),
    ("Wind", "A north wind blows; northwind houses have thick walls."),
    ("Campaign", "Use #cleanbeach when you post a picture."),
    ("Holiday", "The clean beach lies behind the dunes."),
    ("Mailbox", "Write to help@harbour.example about tickets."),
)
VARIABLES = library(
    ("Search path", "Add the folder to $PATH so that programs are found."),
    ("Walk", "The path leads through the wood."),
    ("Home folder", "The variable $HOME names the folder of the user."),
    ("House", "A home with a garden is for sale."),
)
OPERATORS = library(
    ("Both", "In a shell a && b runs b if a succeeds."),
    ("Either", "In a shell a || b runs b if a fails."),
    ("Arrow", "In C a pointer p -> x reads a field."),
    ("Star", "In a pattern * stands for any text."),
)
EMOJI = library(
    ("Launch", "We ship today 🚀 and celebrate."),
    ("Party", "We ship tomorrow 🎉 and dance."),
    ("Rain", "Take an umbrella ☔ to the ferry."),
    ("Heart", "Thanks ❤️ for the flowers."),
)
MONEY = library(
    ("Euro", "The ticket costs €20 at the door."),
    ("Dollar", "The ticket costs $20 at the door."),
    ("Percent", "The discount is 20% at the door."),
    ("Row", "Row 20 is next to the door."),
)
RATINGS = library(
    ("Best", "The bond is rated A+ by the agency."),
    ("Good", "The bond is rated A- by the agency."),
    ("Stream", "The film is shown on Disney+ in May."),
    ("Studio", "The film was drawn by Disney in May."),
)
PAIRS = library(
    ("Talk", "The talk ends with a Q&A of ten minutes."),
    ("Inn", "We slept in a B&B above the bay."),
    ("Books", "The P&L of the bakery is balanced."),
    ("Drive", "The code mixes C/C++ in one file."),
    ("Talkers", "The talk of ten minutes ends with applause."),
)

CASES = [
    Case(
        "C++",
        LANGUAGES,
        "C++",
        ("Stroustrup",),
        highlights=("C++",),
        wrong=("Hejlsberg", "Kernighan", "Syme"),
        at_most=ELSEWHERE,
    ),
    Case(
        "C#",
        LANGUAGES,
        "C#",
        ("Hejlsberg",),
        highlights=("C#",),
        wrong=("Stroustrup", "Kernighan", "Syme"),
        at_most=ELSEWHERE,
    ),
    Case(
        "C alone",
        LANGUAGES,
        "C",
        ("Kernighan",),
        highlights=("C",),
        wrong=("Stroustrup", "Hejlsberg", "Syme"),
        at_most=ELSEWHERE,
    ),
    Case("F#", LANGUAGES, "F#", ("Syme",), highlights=("F#",), wrong=("Hejlsberg",), at_most=ELSEWHERE),
    Case(
        "language C++",
        LANGUAGES,
        "language C++",
        ("Stroustrup",),
        at_least=HAVING,
        highlights=("language", "C++"),
    ),
    Case(
        "c# in small letters",
        LANGUAGES,
        "language c#",
        ("Hejlsberg",),
        at_least=HAVING,
        highlights=("language", "C#"),
    ),
    Case(
        "C++ in quotation marks",
        LANGUAGES,
        '"C++"',
        ("Stroustrup",),
        absent=("Kernighan", "Hejlsberg", "Syme"),
        highlights=("C++",),
    ),
    Case(
        "C# in a phrase",
        LANGUAGES,
        '"language C#"',
        ("Hejlsberg",),
        absent=("Kernighan", "Stroustrup", "Syme"),
        highlights=("language C#",),
    ),
    Case("C++ by words alone", LANGUAGES, "c++", ("Stroustrup",), LEXICAL, absent=("Kernighan", "Hejlsberg")),
    Case("C# in a question", LANGUAGES, "on what does C# run?", ("Hejlsberg",)),
    Case("D is nowhere", LANGUAGES, "language D", at_most=ABSENT, warning="D"),
    Case("title:C++", HANDBOOKS, "title:C++", ("C++",), absent=("C", "C#")),
    Case("title:C#", HANDBOOKS, "title:C#", ("C#",), absent=("C", "C++")),
    Case("title:C", HANDBOOKS, "title:C", ("C",), absent=("C#", "C++")),
    Case("title C++ first", HANDBOOKS, "c++", ("C++",)),
    Case(".NET", NET, ".NET", ("Runtime",), highlights=(".NET",), wrong=("Fishing",), at_most=ELSEWHERE),
    Case(".net in small letters", NET, ".net service", ("Runtime",), at_least=HAVING),
    Case("net without a dot", NET, "fisher net", ("Fishing",)),
    Case(
        "Node.js", NET, "Node.js", ("Server",), highlights=("Node.js",), wrong=("Graph",), at_most=ELSEWHERE
    ),
    Case("node.js in small letters", NET, "node.js port", ("Server",)),
    Case("AT&T", FIRMS, "AT&T", ("Telephone",), highlights=("AT&T",)),
    Case("at&t in small letters", FIRMS, "at&t cable", ("Telephone",), at_least=HAVING),
    Case("AT&T in a question", FIRMS, "where did AT&T lay a cable", ("Telephone",)),
    Case("R&D", FIRMS, "R&D", ("Laboratory",), highlights=("R&D",), wrong=("Costs",), at_most=ELSEWHERE),
    Case(
        "R&D costs", FIRMS, "R&D costs", ("Laboratory",), at_least=HAVING, wrong=("Costs",), at_most=ELSEWHERE
    ),
    Case("H&M", FIRMS, "H&M shop", ("Clothes",), at_least=HAVING),
    Case("M&A", FIRMS, "M&A", ("Advice",), highlights=("M&A",)),
    Case("S&P is nowhere", FIRMS, "S&P", at_most=ABSENT, warning="S&P"),
    Case(
        "@handle",
        SOCIAL,
        "@northwind",
        ("Poster",),
        highlights=("@northwind",),
        wrong=("Wind",),
        at_most=ELSEWHERE,
    ),
    Case("handle without a sign finds both", SOCIAL, "northwind", found=("Poster", "Wind")),
    Case("#tag", SOCIAL, "#cleanbeach", ("Campaign",), highlights=("#cleanbeach",)),
    Case("tag without a sign", SOCIAL, "cleanbeach", ("Campaign",)),
    Case(
        "address of a mailbox",
        SOCIAL,
        "help@harbour.example",
        ("Mailbox",),
        at_least=HAVING,
        highlights=("help@harbour.example",),
    ),
    Case(
        "another mailbox is not claimed",
        SOCIAL,
        "info@harbour.example",
        at_most=ABSENT,
        warning="info@harbour.example",
    ),
    Case(
        "$PATH",
        VARIABLES,
        "$PATH",
        ("Search path",),
        highlights=("$PATH",),
        wrong=("Walk",),
        at_most=ELSEWHERE,
    ),
    Case(
        "$HOME",
        VARIABLES,
        "$HOME",
        ("Home folder",),
        highlights=("$HOME",),
        wrong=("House",),
        at_most=ELSEWHERE,
    ),
    Case("path without a sign", VARIABLES, "path through the wood", ("Walk",)),
    Case(
        "&&",
        OPERATORS,
        "&&",
        ("Both",),
        highlights=("&&",),
        absent=("Either", "Arrow", "Star"),
        unsaid="common words",
    ),
    Case("||", OPERATORS, "||", ("Either",), highlights=("||",), absent=("Both", "Arrow", "Star")),
    Case("->", OPERATORS, "->", ("Arrow",), highlights=("->",), absent=("Both", "Either", "Star")),
    Case(
        "star",
        OPERATORS,
        "*",
        ("Star",),
        highlights=("*",),
        absent=("Both", "Either", "Arrow"),
        unsaid="common words",
    ),
    Case(
        "&& with words", OPERATORS, "&& in a shell", ("Both", "Either"), wrong=("Either",), at_most=ELSEWHERE
    ),
    Case("&& in quotation marks", OPERATORS, '"&&"', ("Both",), absent=("Either", "Arrow", "Star")),
    Case(
        "rocket",
        EMOJI,
        "🚀",
        ("Launch",),
        highlights=("🚀",),
        absent=("Party", "Rain", "Heart"),
        unsaid="common words",
    ),
    Case("rocket in quotation marks", EMOJI, '"🚀"', ("Launch",), highlights=("🚀",), absent=("Party",)),
    Case("umbrella", EMOJI, "☔", ("Rain",), highlights=("☔",), absent=("Party", "Launch", "Heart")),
    Case("heart", EMOJI, "❤️", ("Heart",), absent=("Party", "Launch", "Rain")),
    Case("emoji with a word", EMOJI, "ship 🎉", ("Party", "Launch"), highlights=("ship", "🎉")),
    Case("pizza is nowhere", EMOJI, "🍕", absent=ALL, warning="🍕"),
    Case("euro sign", MONEY, "€20", ("Euro",), at_least=HAVING, highlights=("€20",)),
    Case("dollar sign", MONEY, "ticket $20", ("Dollar",), at_least=HAVING, highlights=("ticket", "$20")),
    Case(
        "percent sign", MONEY, "20% discount", ("Percent",), at_least=HAVING, highlights=("discount", "20%")
    ),
    Case("row 20", MONEY, "row 20", ("Row",), at_least=HAVING),
    Case(
        "A+", RATINGS, "rated A+", ("Best",), highlights=("rated", "A+"), wrong=("Good",), at_most=ELSEWHERE
    ),
    Case(
        "Disney+",
        RATINGS,
        "Disney+",
        ("Stream",),
        highlights=("Disney+",),
        wrong=("Studio",),
        at_most=ELSEWHERE,
    ),
    Case("Disney without a plus", RATINGS, "drawn by Disney", ("Studio",)),
    Case("Q&A", PAIRS, "Q&A", ("Talk",), highlights=("Q&A",), wrong=("Inn", "Books"), at_most=ELSEWHERE),
    Case("Q&A by words alone", PAIRS, "Q&A", ("Talk",), LEXICAL, absent=("Inn", "Books", "Talkers")),
    Case(
        "R&D by words alone", FIRMS, "R&D", ("Laboratory",), LEXICAL, absent=("Costs", "Telephone", "Advice")
    ),
    Case("B&B", PAIRS, "B&B above the bay", ("Inn",), at_least=HAVING),
    Case("P&L", PAIRS, "P&L", ("Books",), highlights=("P&L",)),
    Case("C/C++", PAIRS, "C/C++", ("Drive",), highlights=("C/C++",), fails="C/C++ is two names"),
    Case("C++ inside C/C++", PAIRS, "C++", ("Drive",)),
    Case(
        "Q&A as plain text",
        PAIRS,
        "Q&A of ten minutes",
        ("Talk",),
        PLAIN,
        wrong=("Talkers",),
        at_most=ELSEWHERE,
    ),
]
