"""Whether any recall shows a note of another owner: many random ones, and 1,000 hostile ones.

usage: python -m benchmarks.note_isolation [--recalls 1000000] [--minutes 60] [--owners 300] [--seed 1]

A library has notes of `--owners` owners, whose names are easy to confuse: they differ in case, in the
Unicode form of a letter, in a blank, in a character that shows nothing, or one begins with the other, and
some have wildcards and quotes of SQL. Every owner has three notes, of three of the same twelve words each.
The words are invented, so they have no topics, and a query matches notes of many owners, and often none of
the one who asks. A random recall asks for one or two of the words. The hostile ones name owners that do not
exist, ask with the names, ids and sessions of others, or ask for notes by the ids of others. Every result,
`nearest` and turn of a context is compared with the owner that the database has for its id. Exits 1 if a
foreign note was shown, or if an owner with notes that hold a word of the query got none.

Stops after `--minutes` of processor time, and prints how many recalls these were.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from shoal import Engine
from shoal.errors import NotFoundError, ShoalError
from shoal.notes.note_records import checked_note, store_notes
from shoal.notes.notes import OwnerNotes

WORDS = (
    "zorvat", "quenbil", "trelmo", "vaskine", "plorrup", "gindeth", "hozzak", "brimfel", "yustor", "klamwe",
    "difron", "nexpol",
)  # fmt: skip
NOTES_PER_OWNER, WORDS_PER_NOTE = 3, 3
HOSTILE = 1_000
TOLD_AFTER = 20_000
"""Random recalls after which their number is printed."""

CONFUSABLE: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    str.title,
    lambda name: f"{name} ",
    lambda name: f" {name}",
    lambda name: f"{name}\u200b",
    lambda name: name.replace("o", "о"),
    lambda name: name.replace("n", "ｎ"),
    lambda name: f"{name}é",
    lambda name: unicodedata.normalize("NFD", f"{name}é"),
    lambda name: name[:-1] or name,
    lambda name: f"{name}0",
    lambda name: f"{name[:-1]}%",
    lambda name: f"{name[:-1]}_",
    lambda name: f"{name}' OR '1'='1",
    lambda name: f"{name}/{name}",
    lambda name: f'"{name}"',
    lambda name: name.ljust(200, "x"),
)
"""Names that are easily taken for the one that is given."""
REFUSED = ("", " ", "a" * 201, "owner\x00", "owner\n", "\ud800", "a" * 100_000)

QUERIES = (
    "{other} {words}",
    "owner:{other} {words}",
    "' OR owner = '{other}' -- {words}",
    "notes of {other}, session {other}: {words}",
    "note {id} {words}",
)
BY_ID: tuple[Callable[[OwnerNotes, int], Any], ...] = (
    lambda notes, note_id: notes.get(note_id),
    lambda notes, note_id: notes.explain(note_id, WORDS[0]),
    lambda notes, note_id: notes.history(note_id),
    lambda notes, note_id: notes.feedbacks(note_id),
    lambda notes, note_id: notes.deprecate(note_id),
    lambda notes, note_id: notes.update(note_id, text="taken over"),
)


def owner_names(n: int) -> list[str]:
    """Return different names in groups of confusable ones."""
    names: dict[str, None] = {}
    number = 0
    while len(names) < n:
        names.update(dict.fromkeys(confused(f"owner{number}") for confused in CONFUSABLE))
        number += 1
    return list(names)[:n]


class Library:
    """The notes of all owners, and what each may see."""

    def __init__(self, engine: Engine, names: list[str], generator: random.Random) -> None:
        self.engine, self.names, self.generator = engine, names, generator
        items = [
            {"text": " ".join(generator.sample(WORDS, WORDS_PER_NOTE)), "owner": name, "session_id": name}
            for name in names
            for _ in range(NOTES_PER_OWNER)
        ]
        checked = [checked_note(engine.settings, item) for item in items]
        store_notes(engine.database, engine.scorer, engine.settings, checked)
        with engine.database.snapshot() as snapshot:
            rows = list(snapshot.tuples("SELECT id, owner, text FROM notes"))
        self.owner_of = {note_id: owner for note_id, owner, _ in rows}
        self.words_of: dict[str, set[str]] = {name: set() for name in names}
        for _, owner, text in rows:
            self.words_of[owner].update(text.split())
        self.n_results = self.n_foreign = self.n_missing = 0

    def recall(self, owner: str, query: str) -> None:
        """Recall, and count what the owner must not see."""
        found = self.engine.notes.of(owner).recall(query, threshold=0.0)
        shown = [item.metadata["note_id"] for item in found.results]
        shown += [turn.note_id for item in found.results for turn in item.context]
        if found.nearest is not None:
            shown.append(found.nearest.metadata["note_id"])
        self.n_results += len(shown)
        self.n_foreign += sum(self.owner_of[note_id] != owner for note_id in shown)
        is_known = not self.words_of.get(owner, set()).isdisjoint(query.split())
        self.n_missing += is_known and not shown

    def query(self) -> str:
        return " ".join(self.generator.sample(WORDS, self.generator.randint(1, 2)))

    def hostile(self) -> Iterator[Callable[[], None]]:
        """Yield attempts to see notes of others, without end."""
        draw = self.generator.choice
        while True:
            name, other = self.generator.sample(self.names, 2)
            foreign = draw([note_id for note_id, owner in self.owner_of.items() if owner != name])
            yield partial(self.recall, draw(REFUSED), self.query())
            yield partial(self.recall, draw(CONFUSABLE)(name), self.query())
            for form in QUERIES:
                yield partial(self.recall, name, form.format(other=other, id=foreign, words=self.query()))
            yield partial(self._by_id, name, foreign, draw(BY_ID))

    def _by_id(self, name: str, note_id: int, call: Callable[[OwnerNotes, int], Any]) -> None:
        try:
            call(self.engine.notes.of(name), note_id)
        except NotFoundError:
            return
        self.n_foreign += 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recalls", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="of processor time, at most")
    parser.add_argument("--owners", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder) / "shoal.db") as engine:
        library = Library(engine, owner_names(options.owners), generator)
        attempts, n_refused = library.hostile(), 0
        for _ in range(HOSTILE):
            try:
                next(attempts)()
            except ShoalError:
                n_refused += 1
        print(
            f"{HOSTILE:,} hostile recalls ({n_refused} refused): {library.n_foreign} foreign notes",
            flush=True,
        )
        began, n_done = time.process_time(), 0
        while n_done < options.recalls and time.process_time() - began < 60 * options.minutes:
            for _ in range(min(TOLD_AFTER, options.recalls - n_done)):
                library.recall(generator.choice(library.names), library.query())
                n_done += 1
            seconds = time.process_time() - began
            print(
                f"{n_done:,} random recalls of {options.owners} owners: {library.n_results:,} notes shown, "
                f"{library.n_foreign} foreign; {library.n_missing} without the notes of the owner; "
                f"{1000 * seconds / n_done:.2f} ms of processor time each",
                flush=True,
            )
    return int(library.n_foreign + library.n_missing > 0)


if __name__ == "__main__":
    raise SystemExit(main())
