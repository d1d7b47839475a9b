"""Whether a task in other words finds the lesson that it needs: 60 lessons, 30 tasks.

    python -m benchmarks.note_tasks [--encoder NAME]

Each task of `note_tasks.json` needs one lesson and shares hardly a word with it. Prints for the even tasks,
by which rules may be chosen, and for the odd ones, which report them: how often this lesson is the first, and
among the first three, of `note_search`; how often a hook with its defaults shows it; and how many of the
notes that hooks show are the right ones. With an encoder, also how often the lesson is the first, and among
the first three, by the cosine alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from shoal import Engine
from shoal.declared.notes import MAX_TOP_K
from shoal.notes.notes import OwnerNotes
from shoal.settings import Settings

FIRST = 3
TASKS = Path(__file__).with_name("note_tasks.json")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", default="", help="as in SHOAL_ENCODER")
    options = parser.parse_args()
    stored = json.loads(TASKS.read_text("utf-8"))
    lessons = [lesson for lesson, _ in stored["tasks"]]
    given = {"encoder": options.encoder} if options.encoder else {}
    with tempfile.TemporaryDirectory() as scratch:
        settings = Settings(database_url=f"sqlite:///{scratch}/notes.db", **given)
        with Engine(settings=settings) as engine:
            notes = engine.notes.of("someone")
            for text in (*lessons, *stored["others"]):
                notes.add(text)
            engine.notes.embed()
            found = [notes.search(task, top_k=FIRST).results for _, task in stored["tasks"]]
            least, most = settings.hook_min_similarity, settings.hook_notes
            shown = [
                [
                    result.note.text
                    for result in notes.search(task, top_k=most).results
                    if result.similarity >= least
                ]
                for _, task in stored["tasks"]
            ]
            cosines = [by_cosine(notes, task) for _, task in stored["tasks"]] if given else []
    texts = [[result.note.text for result in results] for results in found]
    for name, start in (("even", 0), ("odd", 1)):
        numbers = range(start, len(lessons), 2)
        first = sum(texts[number][:1] == [lessons[number]] for number in numbers)
        among = sum(lessons[number] in texts[number] for number in numbers)
        print(f"{name} tasks: the right lesson is first in {first}, among three in {among} of {len(numbers)}")
        n_right = sum(lessons[number] in shown[number] for number in numbers)
        n_shown = sum(len(shown[number]) for number in numbers)
        print(f"    hooks show it for {n_right}; {n_right} of {n_shown} shown are right")
        if cosines:
            first = sum(cosines[number][:1] == [lessons[number]] for number in numbers)
            among = sum(lessons[number] in cosines[number] for number in numbers)
            print(f"    by the cosine alone: first in {first}, among three in {among}")


def by_cosine(notes: OwnerNotes, task: str) -> list[str]:
    """The notes whose vectors are nearest to that of a task."""
    results = notes.search(task, top_k=MAX_TOP_K, include_scores=True).results
    near = [each for each in results if each.scores is not None and each.scores.cosine is not None]
    near.sort(key=lambda each: -each.scores.cosine)  # type: ignore[union-attr, operator]
    return [each.note.text for each in near[:FIRST]]


if __name__ == "__main__":
    main()
