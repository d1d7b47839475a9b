"""Kind 1: a minus sign excludes a word only in a query that looks like one; otherwise it is text."""

from __future__ import annotations

from case import ABSENT, HAVING, PLAIN, Case, library

TAR = library(
    ("Unpack", "To unpack an archive run tar -xzf backup.tgz in the shell."),
    ("Pack", "The tar program packs files into an archive. Backup with tar is simple."),
)
FROST = library(
    ("Arctic", "At -40 degrees the engine oil thickens and the starter stalls."),
    ("Desert", "At 40 degrees the engine oil runs thin and the fan spins."),
    ("Garage", "Engine oil is changed every spring."),
)
SHELL = library(
    ("Folders", "The command rm -rf build removes the folder without asking."),
    ("Files", "The command rm notes.txt removes a file."),
    ("Careful", "The command rm -i asks before it removes each file."),
    ("Overwrite", "With git push --force the remote branch is overwritten."),
    ("Send", "With git push the commits go to the remote branch."),
)
JAVA = library(
    ("Heap", "Start with java -Xmx512m app.jar to give the program half a gigabyte."),
    ("Version", "The command java -version prints which runtime is installed."),
    ("Coffee", "Coffee from Java tastes of earth and cocoa."),
)
PRICES = library(
    ("March", "In March the price of copper changed by -5% in a week."),
    ("May", "In May the price of copper changed by 5% in a week."),
)
JAGUAR = library(
    ("Cat", "The jaguar hunts at night along the river and swims well."),
    ("Car", "The jaguar is a fast car with leather seats and a loud engine."),
    ("Zoo", "A jaguar was born in the zoo; the big cat is healthy."),
)
TOOLS = library(
    ("Find", "Use find . -name report.log to look for a file in all folders."),
    ("Listing", "Use ls -l /var/log to see the size of each log file."),
    ("Venv", "Use python -m venv env to make a virtual environment."),
    ("Python", "A python of five metres lives in the terrarium."),
    ("Search", "Use grep -v error to see the lines of a log without that text."),
)
SCRIPTS = library(
    ("Метро", "Москва строит метро глубоко под землёй."),
    ("Река", "Москва стоит на реке, по ней ходят корабли."),
    ("Über", "Die Straße führt über die Brücke nach Köln."),
    ("Dom", "In Köln steht ein Dom an der Straße."),
)
MINUSES = library(
    ("Ledger", "The account ended the year at -1200 euros."),
    ("Savings", "The account ended the year at 1200 euros."),
    ("Battery", "A well-known cell holds 1.5 volts; the range is 10-20 hours."),
)

CASES = [
    Case(
        "tar option in a question",
        TAR,
        "what does tar -xzf do",
        ("Unpack",),
        at_least=HAVING,
        highlights=("tar", "-xzf"),
        unsaid="left out",
    ),
    Case(
        "tar option alone", TAR, "tar -xzf", ("Unpack", "Pack"), at_least=HAVING, highlights=("tar", "-xzf")
    ),
    Case(
        "tar option with a file",
        TAR,
        "tar -xzf backup.tgz",
        ("Unpack",),
        at_least=HAVING,
        highlights=("tar", "-xzf", "backup.tgz"),
    ),
    Case(
        "tar option in a question of 14 words",
        TAR,
        "can you please tell me what the option in tar -xzf means and does",
        ("Unpack",),
    ),
    Case(
        "tar option in a question of 26 words",
        TAR,
        "I was given an archive by a friend last week and now I would like to know what it means when somebody writes tar -xzf backup",
        ("Unpack",),
    ),
    Case("another tar option is not claimed", TAR, "tar -cvf", at_most=ABSENT, warning="-cvf"),
    Case(
        "word excluded from a query",
        TAR,
        "archive -shell",
        ("Pack",),
        absent=("Unpack",),
        excluded=("shell",),
        warning="left out 1 passage with shell",
    ),
    Case(
        "negative temperature",
        FROST,
        "-40 degrees",
        ("Arctic", "Desert"),
        at_least=HAVING,
        highlights=("-40", "degrees"),
    ),
    Case(
        "negative temperature in a question",
        FROST,
        "what happens to engine oil at -40 degrees",
        ("Arctic",),
        at_least=HAVING,
        fails="a verb of the question that no passage has weighs more than the words that were found",
    ),
    Case(
        "positive temperature is not the negative one",
        FROST,
        "engine oil at 40 degrees",
        ("Desert",),
        at_least=HAVING,
    ),
    Case("rm -rf", SHELL, "rm -rf", ("Folders",), at_least=HAVING, highlights=("rm", "-rf")),
    Case("rm -rf with a folder", SHELL, "rm -rf build", ("Folders",), at_least=HAVING),
    Case("rm -i", SHELL, "rm -i", ("Careful",), at_least=HAVING, highlights=("rm", "-i")),
    Case(
        "long option",
        SHELL,
        "git push --force",
        ("Overwrite", "Send"),
        at_least=HAVING,
        highlights=("git", "push", "--force"),
    ),
    Case(
        "long option in a question",
        SHELL,
        "does git push --force overwrite the branch",
        ("Overwrite",),
        at_least=HAVING,
    ),
    Case("no option, no exclusion", SHELL, "git push", found=("Overwrite", "Send")),
    Case(
        "longer option is not the shorter",
        SHELL,
        "git push --force-with-lease",
        at_most=ABSENT,
        warning="--force-with-lease",
    ),
    Case(
        "java heap option", JAVA, "java -Xmx512m", ("Heap",), at_least=HAVING, highlights=("java", "-Xmx512m")
    ),
    Case("java heap option with another size", JAVA, "java -Xmx256m", at_most=ABSENT, warning="-Xmx256m"),
    Case(
        "java heap option with another digit",
        JAVA,
        "java -Xmx513m",
        at_most=ABSENT,
        warning="does not have -Xmx513m, but -Xmx512m",
    ),
    Case("java -version in a question", JAVA, "what does java -version print", ("Version",)),
    Case("java -version as plain text", JAVA, "java -version", ("Version",), PLAIN),
    Case(
        "java without a version",
        JAVA,
        "java -version",
        absent=("Version",),
        found=("Coffee", "Heap"),
        excluded=("version",),
        warning="left out 1 passage with version",
    ),
    Case(
        "percentage with a minus",
        PRICES,
        "price -5%",
        ("March",),
        at_least=HAVING,
        highlights=("price", "-5%"),
    ),
    Case("percentage without a minus", PRICES, "copper price changed by 5%", ("May",), at_least=HAVING),
    Case(
        "jaguar without the car",
        JAGUAR,
        "jaguar -car",
        absent=("Car",),
        found=("Cat", "Zoo"),
        excluded=("car",),
        warning="left out 1 passage with car",
    ),
    Case(
        "exclusion comes first",
        JAGUAR,
        "-car jaguar",
        absent=("Car",),
        found=("Cat", "Zoo"),
        excluded=("car",),
    ),
    Case(
        "exclusion in another inflection",
        JAGUAR,
        "jaguar -cars",
        absent=("Car",),
        found=("Cat",),
        excluded=("cars",),
    ),
    Case("exclusion in capitals", JAGUAR, "jaguar -CAR", absent=("Car",), found=("Cat",), excluded=("CAR",)),
    Case(
        "two exclusions", JAGUAR, "jaguar -car -zoo", ("Cat",), absent=("Car", "Zoo"), excluded=("car", "zoo")
    ),
    Case(
        "excluded phrase",
        JAGUAR,
        'jaguar -"big cat"',
        absent=("Zoo",),
        found=("Car", "Cat"),
        excluded=('"big cat"',),
    ),
    Case(
        "excluded title",
        JAGUAR,
        "jaguar -title:zoo",
        absent=("Zoo",),
        found=("Car", "Cat"),
        warning="left out 1 passage",
        excluded=("title:zoo",),
    ),
    Case(
        "exclusion that removes nothing",
        JAGUAR,
        "jaguar -tractor",
        found=("Cat", "Car", "Zoo"),
        excluded=("tractor",),
    ),
    Case("minus between spaces is text", JAGUAR, "jaguar - car", ("Car",), found=("Cat", "Zoo")),
    Case("minus in a question is text", JAGUAR, "is a jaguar -car faster than a cat?", found=("Cat", "Car")),
    Case("minus with plain syntax is text", JAGUAR, "jaguar -car", ("Car",), PLAIN, found=("Cat", "Zoo")),
    Case("find with a path", TOOLS, "find . -name", ("Find",)),
    Case("find with a path and a file", TOOLS, "find . -name report.log", ("Find",), at_least=HAVING),
    Case("ls with a path", TOOLS, "ls -l /var/log", ("Listing",), at_least=HAVING),
    Case(
        "python -m venv",
        TOOLS,
        "python -m venv",
        ("Venv",),
        at_least=HAVING,
        highlights=("python", "-m", "venv"),
    ),
    Case("grep -v before a word", TOOLS, "grep -v error", ("Search",), at_least=HAVING),
    Case(
        "python without snakes",
        TOOLS,
        "python -terrarium",
        ("Venv",),
        absent=("Python",),
        excluded=("terrarium",),
    ),
    Case("Russian exclusion", SCRIPTS, "Москва -метро", ("Река",), absent=("Метро",), excluded=("метро",)),
    Case(
        "German exclusion with an umlaut",
        SCRIPTS,
        "Straße -Brücke",
        ("Dom",),
        absent=("Über",),
        excluded=("Brücke",),
    ),
    Case(
        "negative amount", MINUSES, "-1200 euros", ("Ledger",), at_least=HAVING, highlights=("-1200", "euros")
    ),
    Case("amount without a minus", MINUSES, "account at 1200 euros", ("Savings",), at_least=HAVING),
    Case("hyphen inside a word excludes nothing", MINUSES, "well-known cell", ("Battery",)),
    Case(
        "hyphen inside a range excludes nothing",
        MINUSES,
        "10-20 hours",
        ("Battery",),
        at_least=HAVING,
        highlights=("10-20", "hours"),
    ),
]
