"""How well `verify` tells altered sentences from true ones, on real sentences of books and articles.

usage: python benchmarks/verification_pairs.py CORPORA [--seed 1] [--tune] [--show KIND]

CORPORA has `wikipedia-vital-1k.jsonl.gz`, and `wikipedia` and `books` with texts. The program draws a
sentence and the paragraph that it is in, and makes a statement of it by one of these methods:

    true, as it stands  whole      the sentence itself
                        part       its words up to a comma or "and"
    true, reworded      passive    "A verbed B" as "B was verbed by A"
                        order      "In 1815, A." as "A in 1815.", and the reverse; "A and B" as "B and A"
                        notation   a number or date in another notation
    altered             swap       subject and object change places, or their passive does
                        negate     "not" is added or taken out
                        figure     a number is changed, or two change places
                        name       a name becomes another one of the paragraph, or two change places
                        unit       a unit becomes another one of the same thing
                        date       a day, month or year is moved
                        comparative  "more", "before", "higher" … become their opposites

Documents are drawn into two halves. What was chosen, was chosen on the first half (`--tune` prints it alone);
the numbers of the documentation are those of the second. `--show` lists the wrong verdicts. A statement
counts as accepted only if its verdict is `supported`. Nothing of the texts is stored.
"""

from __future__ import annotations

import argparse
import calendar
import gzip
import json
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from shoal import Engine
from shoal.models.verdicts import StatementVerdict, Verdict

PER_KIND = {
    **dict.fromkeys(("whole", "part"), 60),
    **dict.fromkeys(("passive", "order", "notation"), 40),
    **dict.fromkeys(("swap", "negate", "figure", "name", "unit", "date", "comparative"), 30),
}
AS_WRITTEN, REWORDED = ("whole", "part"), ("passive", "order", "notation")
ALTERED = tuple(kind for kind in PER_KIND if kind not in (*AS_WRITTEN, *REWORDED))
SENTENCES = re.compile(r"(?<=[a-z0-9)][.])\s+(?=[A-Z])")
PARAGRAPH_CHARS = (200, 2_000)
SENTENCE_WORDS = (7, 40)

_VERBS = """
    defeated founded invaded attacked conquered influenced replaced supported introduced discovered
    invented developed published established created produced designed captured destroyed killed received
    controlled ruled dominated surrounded followed caused reached entered opposed rejected accepted
    adopted described visited protected affected inspired annexed occupied covered appointed elected
    helped admired loved hated feared praised rescued arrested murdered betrayed threatened punished
    observed examined carried pulled pushed saved watched seized defended blocked limited prevented
    reduced used formed offered signed ended commanded led built wrote won took gave made held saw struck
"""
PARTICIPLES = {"led": "led", "wrote": "written", "took": "taken", "gave": "given", "saw": "seen"}
VERB = f"(?P<verb>{'|'.join(_VERBS.split())})"
_NAME = r"[A-Z][a-z]+(?: [A-Z][a-z]+){0,2}"
_NOUN = r"(?:[Tt]he|[Aa]n?|[Hh]is|[Hh]er|[Ii]ts|[Tt]heir) (?:[a-z]+ ){0,2}(?:[a-z]+|[A-Z][a-z]+)"
_PHRASE = rf"(?:{_NOUN}|{_NAME})"
_STOP = r"(?= (?:in|on|at|from|during|after|before|with|for|to|near|until|through|into)\b|[,.;])"
_BEGIN = r"^(?!Once|When|While|As |If |Since|Although)"
CLAUSE = re.compile(rf"{_BEGIN}(?P<subject>{_PHRASE}) {VERB} (?P<object>{_PHRASE}){_STOP}(?P<rest>.*)$")
AUXILIARY = re.compile(
    r"\b(?:is|was|are|were|has|had|can|could|will|would|should|may|might|must)\b(?! not\b)"
)
NEGATION = re.compile(r" (?:not|never)\b")
FIGURE = re.compile(
    r"(?<=[a-z,] )(?:[1-9]\d{0,2}(?:,\d{3})+|[2-9]|[1-9]\d+)(?:\.\d+)?(?= [a-z]|[.,;](?: |$))"
)
MIDDLE_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{3,}\b(?! [A-Z])(?<!\bThe)")
UNITS = (
    ("kilometres", "metres", "miles"), ("kilometers", "meters", "miles"), ("km", "m", "miles"), ("miles",
    "kilometres", "feet"), ("metres", "feet", "kilometres"), ("meters", "feet", "kilometers"), ("feet",
    "metres", "miles"), ("kg", "g", "tonnes"), ("percent", "dollars", "degrees"), ("years", "months",
    "centuries"), ("days", "hours", "weeks"), ("hours", "minutes", "days"), ("minutes", "hours",
    "seconds"), ("months", "years", "weeks"), ("inches", "feet", "metres"), ("pounds", "dollars",
    "ounces"), ("dollars", "euros", "cents"), ("tonnes", "kilograms", "pounds"), ("mm", "cm", "m"), ("cm",
    "mm", "m"),
)  # fmt: skip
UNIT = re.compile(rf"(?<=\d )(?:{'|'.join(sorted((row[0] for row in UNITS), key=len, reverse=True))})\b")
MONTHS = list(calendar.month_name)[1:]
_MONTH = "|".join(MONTHS)
DATE = re.compile(
    rf"(?P<day>\b\d{{1,2}}) (?P<month>{_MONTH})(?: (?P<year>\d{{4}}))?\b"
    rf"|(?P<month2>{_MONTH}) (?P<day2>\d{{1,2}})(?:, (?P<year2>\d{{4}}))?\b"
)
OPPOSITES = (
    ("more", "less"), ("before", "after"), ("higher", "lower"), ("larger", "smaller"), ("above", "below"),
    ("most", "least"), ("increased", "decreased"), ("earlier", "later"), ("longer", "shorter"),
    ("greater", "smaller"), ("first", "last"), ("better", "worse"), ("older", "younger"), ("northern",
    "southern"), ("eastern", "western"), ("over", "under"),
)  # fmt: skip
OPPOSITE = {a: b for pair in OPPOSITES for a, b in (pair, pair[::-1])}
COMPARATIVE = re.compile(rf"\b(?:{'|'.join(OPPOSITE)})\b(?! of\b)")
FRONTED = re.compile(
    r"^(?P<lead>(?:In|On|At|During|After|Before|Between) [^,;:]{3,60}), (?P<main>[^;:]+)[.]$"
)
ENDING = re.compile(
    r"^(?P<main>(?:The|An?|[A-Z][a-z]+) [^,;:]{20,}) (?P<lead>(?:in|on|during) (?:the )?"
    r"(?:\d{4}|[A-Z][a-z]+ \d{4}|\d+ [A-Z][a-z]+ \d{4}|\d+\w+ century))[.]$"
)
COORDINATED = re.compile(r"(?<=[a-z] )(?P<one>[A-Z][a-z]+) and (?P<two>[A-Z][a-z]+)(?=[.,])")
LISTED = re.compile(r"(?:,? (?:and|or) |, )(?:\w+(?:,? (?:and|or) |, ))*")
PART = re.compile(r"^(?P<part>[A-Z][^,;:()\"“]{35,}?)(?:, (?:which|and|but|while|although|because)|; )")
_SMALL = "zero one two three four five six seven eight nine ten eleven twelve"
SMALL = _SMALL.split()


class Source(NamedTuple):
    """A sentence and the paragraph that it is in."""

    sentence: str
    paragraph: str


class Pair(NamedTuple):
    """A statement made of a sentence by a method."""

    kind: str
    statement: str
    source: Source


Method = Callable[[Source, random.Random], str | None]


def as_whole(source: Source, _: random.Random) -> str | None:
    return source.sentence


def as_part(source: Source, _: random.Random) -> str | None:
    part = PART.match(source.sentence)
    return f"{part['part']}." if part else None


def _passive(clause: re.Match[str], agent: str, patient: str) -> str:
    verb = PARTICIPLES.get(clause["verb"], clause["verb"])
    is_plural = patient.endswith("s") and not patient.endswith("ss") and patient.split()[-1][0].islower()
    return f"{_first(patient)} {'were' if is_plural else 'was'} {verb} by {_later(agent)}{clause['rest']}"


def passive(source: Source, _: random.Random) -> str | None:
    clause = CLAUSE.match(source.sentence)
    return _passive(clause, clause["subject"], clause["object"]) if clause else None


def swap(source: Source, rng: random.Random) -> str | None:
    clause = CLAUSE.match(source.sentence)
    if clause is None:
        return None
    if rng.random() < 0.5:
        return _passive(clause, clause["object"], clause["subject"])
    return f"{_first(clause['object'])} {clause['verb']} {_later(clause['subject'])}{clause['rest']}"


def _first(phrase: str) -> str:
    return phrase[0].upper() + phrase[1:]


def _later(phrase: str) -> str:
    is_name = re.match(r"(?:The|An?|His|Her|Its|Their) ", phrase) is None
    return phrase if is_name else phrase[0].lower() + phrase[1:]


def order(source: Source, _: random.Random) -> str | None:
    if fronted := FRONTED.match(source.sentence):
        lead = fronted["lead"]
        return f"{_first(fronted['main'])} {lead[0].lower()}{lead[1:]}."
    if ending := ENDING.match(source.sentence):
        return f"{_first(ending['lead'])}, {_later(ending['main'])}."
    if pair := COORDINATED.search(source.sentence):
        return (
            source.sentence[: pair.start()]
            + f"{pair['two']} and {pair['one']}"
            + source.sentence[pair.end() :]
        )
    return None


def notation(source: Source, rng: random.Random) -> str | None:
    text = source.sentence
    if date := DATE.search(text):
        day, month, year = (
            date["day"] or date["day2"],
            date["month"] or date["month2"],
            date["year"] or date["year2"],
        )
        forms = [
            f"{month} {day}, {year}",
            f"{day} {month} {year}",
            f"{year}-{MONTHS.index(month) + 1:02}-{int(day):02}",
        ]
        if year:
            return _replaced(text, date, rng.choice([form for form in forms if form != date[0]]))
    if "%" in text:
        return text.replace("%", " percent")
    if figure := FIGURE.search(text):
        value = figure[0]
        if "," in value:
            return _replaced(text, figure, value.replace(",", rng.choice(["", "\u202f"])))
        if value.isdigit() and int(value) < len(SMALL):
            return _replaced(text, figure, SMALL[int(value)])
    for word, form in ((" kilometres", " km"), (" kilometers", " km"), (" percent", " %"), (" metres", " m")):
        if re.search(rf"\d{word}\b", text):
            return text.replace(word, form)
    return None


def _replaced(text: str, found: re.Match[str], new: str) -> str:
    return text[: found.start()] + new + text[found.end() :]


def negate(source: Source, _: random.Random) -> str | None:
    text = source.sentence
    if found := NEGATION.search(text):
        return _replaced(text, found, "")
    auxiliary = AUXILIARY.search(text)
    return _replaced(text, auxiliary, f"{auxiliary[0]} not") if auxiliary else None


def _exchanged(text: str, one: re.Match[str], other: re.Match[str]) -> str:
    return text[: one.start()] + other[0] + text[one.end() : other.start()] + one[0] + text[other.end() :]


def figure(source: Source, rng: random.Random) -> str | None:
    found = [each for each in FIGURE.finditer(source.sentence) if not DATE.search(source.sentence)]
    if len(found) > 1 and found[0][0] != found[1][0] and rng.random() < 0.5:
        if LISTED.fullmatch(source.sentence[found[0].end() : found[1].start()]):
            return None
        return _exchanged(source.sentence, found[0], found[1])
    if not found:
        return None
    chosen = rng.choice(found)
    digit = rng.choice([place for place, each in enumerate(chosen[0]) if each.isdigit()])
    new = str((int(chosen[0][digit]) - 1 + rng.randint(1, 8)) % 9 + 1)
    if chosen[0][digit] == new:
        return None
    return _replaced(source.sentence, chosen, chosen[0][:digit] + new + chosen[0][digit + 1 :])


def name(source: Source, rng: random.Random) -> str | None:
    found = list(MIDDLE_NAME.finditer(source.sentence))
    if len(found) > 1 and found[0][0] != found[-1][0] and rng.random() < 0.5:
        between = source.sentence[found[0].end() : found[-1].start()]
        return None if LISTED.fullmatch(between) else _exchanged(source.sentence, found[0], found[-1])
    others = sorted(
        {each[0] for each in MIDDLE_NAME.finditer(source.paragraph)}
        - set(re.findall(r"\w+", source.sentence))
    )
    if not found or not others:
        return None
    return _replaced(source.sentence, rng.choice(found), rng.choice(others))


def unit(source: Source, rng: random.Random) -> str | None:
    found = UNIT.search(source.sentence)
    if found is None:
        return None
    others = next(row[1:] for row in UNITS if row[0] == found[0])
    return _replaced(source.sentence, found, rng.choice(others))


def date(source: Source, rng: random.Random) -> str | None:
    found = DATE.search(source.sentence)
    if found is None:
        return None
    parts = [name for name, value in found.groupdict().items() if value]
    part = rng.choice(parts)
    old = found[part]
    if part.startswith("month"):
        new = rng.choice([month for month in MONTHS if month != old])
    elif part.startswith("day"):
        new = str(rng.choice([day for day in range(1, 29) if day != int(old)]))
    else:
        new = str(int(old) + rng.choice([-10, -1, 1, 10]))
    return source.sentence[: found.start(part)] + new + source.sentence[found.end(part) :]


def comparative(source: Source, _: random.Random) -> str | None:
    found = COMPARATIVE.search(source.sentence)
    if found is None or re.search(
        r"\b(?:before|after|first|more)\b.*\b(?:before|after|last|less)\b", source.sentence
    ):
        return None
    return _replaced(source.sentence, found, OPPOSITE[found[0]])


METHODS: dict[str, Method] = {
    "whole": as_whole, "part": as_part, "passive": passive, "order": order, "notation": notation, "swap":
    swap, "negate": negate, "figure": figure, "name": name, "unit": unit, "date": date, "comparative":
    comparative,
}  # fmt: skip


def documents(corpora: Path) -> Iterator[str]:
    """The texts of a folder of corpora, always in the same order."""
    for folder in ("books", "wikipedia"):
        for path in sorted((corpora / folder).iterdir()):
            yield path.read_text(encoding="utf-8")
    with gzip.open(corpora / "wikipedia-vital-1k.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"]


def sources(text: str) -> Iterator[Source]:
    """The sentences of a document that are long enough and no headings, each with its paragraph."""
    for block in re.split(r"\n\s*\n|\n(?=[A-Z])", text):
        paragraph = " ".join(block.split())
        if PARAGRAPH_CHARS[0] <= len(paragraph) <= PARAGRAPH_CHARS[1]:
            for sentence in SENTENCES.split(paragraph):
                fits = SENTENCE_WORDS[0] <= len(sentence.split()) <= SENTENCE_WORDS[1]
                if (
                    fits
                    and sentence[0].isupper()
                    and sentence.endswith(".")
                    and not re.search(r'["“”\[\]|*=×]|[.] ', sentence)
                ):
                    yield Source(sentence, paragraph)


def make_pairs(texts: Sequence[str], rng: random.Random) -> list[Pair]:
    """Draw sentences until each kind has its number of pairs; a paragraph is used once."""
    wanted = Counter(PER_KIND)
    found = [source for text in texts for source in sources(text)]
    rng.shuffle(found)
    pairs: list[Pair] = []
    used: set[str] = set()
    # The kinds that few sentences allow come first.
    for kind in sorted(wanted, key=lambda kind: kind in AS_WRITTEN):
        for source in found:
            if not wanted[kind]:
                break
            if source.paragraph in used:
                continue
            statement = METHODS[kind](source, rng)
            if statement is not None and (statement != source.sentence or kind == "whole"):
                pairs.append(Pair(kind, statement, source))
                used.add(source.paragraph)
                wanted[kind] -= 1
    return pairs


def judge(pairs: Sequence[Pair]) -> list[StatementVerdict]:
    """Verify each statement against its paragraph, in a library of all paragraphs."""
    with tempfile.TemporaryDirectory() as folder, Engine(db_path=f"{folder}/shoal.db") as engine:
        results = engine.ingest_many(
            {"title": f"Paragraph {number}", "content": pair.source.paragraph, "format": "plaintext"}
            for number, pair in enumerate(pairs)
        )
        statements = [
            {"text": pair.statement, "references": [f"document {result.id}"]}
            for pair, result in zip(pairs, results, strict=True)
        ]
        return list(engine.verify(statements=statements).statements)


def report(half: str, pairs: Sequence[Pair], verdicts: Sequence[StatementVerdict]) -> None:
    """Print the share of altered statements that are not accepted, and of true ones that are."""
    right: dict[str, list[bool]] = defaultdict(list)
    for pair, verdict in zip(pairs, verdicts, strict=True):
        is_accepted = verdict.verdict is Verdict.supported
        right[pair.kind].append(is_accepted is (pair.kind not in ALTERED))
    rows = {kind: f"{sum(right[kind])}/{len(right[kind])}" for kind in PER_KIND}
    groups = {
        "altered, caught": ALTERED,
        "as it stands, accepted": AS_WRITTEN,
        "reworded, accepted": REWORDED,
    }
    shares = {}
    for group, kinds in groups.items():
        outcomes = [each for kind in kinds for each in right[kind]]
        shares[group] = f"{sum(outcomes)}/{len(outcomes)} = {sum(outcomes) / max(len(outcomes), 1):.1%}"
    true = [each for kind in (*AS_WRITTEN, *REWORDED) for each in right[kind]]
    shares["true, rejected"] = (
        f"{true.count(False)}/{len(true)} = {true.count(False) / max(len(true), 1):.1%}"
    )
    print(json.dumps({"half": half, **shares, "right by kind": rows}, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tune", action="store_true", help="the first half alone")
    parser.add_argument(
        "--show", metavar="KIND", nargs="*", help="list wrong verdicts of these kinds, or of all"
    )
    args = parser.parse_args()
    rng = random.Random(args.seed)
    texts = list(documents(args.corpora))
    rng.shuffle(texts)
    for half, own in (("first", texts[::2]), ("second", texts[1::2]))[: 1 if args.tune else 2]:
        pairs = make_pairs(own, random.Random(f"{args.seed} {half}"))
        verdicts = judge(pairs)
        report(half, pairs, verdicts)
        for pair, verdict in zip(pairs, verdicts, strict=True):
            is_wrong = (verdict.verdict is Verdict.supported) is (pair.kind in ALTERED)
            if args.show is not None and is_wrong and (not args.show or pair.kind in args.show):
                messages = "; ".join(problem.message for problem in verdict.problems)
                print(f"\n{pair.kind}: {pair.statement}\n  of: {pair.source.sentence}\n  {messages}")


if __name__ == "__main__":
    main()
