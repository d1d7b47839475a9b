"""Duplicates among notes: how many proposals are right, and how long the search for them takes.

usage: python -m benchmarks.note_duplicates [--notes 10000]

Right: all texts of `judgements/similar_texts.jsonl` are notes of one owner (`benchmarks.similarity` describes
them). `text`, `near`, `reworded` and `far` of a statement say the same; all other texts say something else.
Proposed pairs are those in one proposal; flagged are those in a proposal that warns of a contradiction.

Fast: variants of these texts, with up to 8 words exchanged, are notes of one owner that all wait. The time is
that of the processor, of a search without a chat endpoint.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from shoal import Engine
from shoal.models.notes import MergeProposal
from shoal.notes.notes import OwnerNotes

TEXTS = Path(__file__).parent / "judgements" / "similar_texts.jsonl"
SAME = ("text", "near", "reworded", "far")
OTHERS = ("opposite", "sibling", "template", "neighbour")
EXCHANGED = (0, 1, 3, 6, 8)
SEED = 1


def statements() -> list[dict[str, str]]:
    """Return the texts of each statement by their relation to it."""
    lines = TEXTS.read_text(encoding="utf-8").splitlines()
    return [
        {name: given[name] for name in (*SAME, *OTHERS) if name in given} for given in map(json.loads, lines)
    ]


def judge(notes: OwnerNotes) -> None:
    """Print how many proposals about the labelled texts are right."""
    relation: dict[str, tuple[int, str]] = {}
    for number, texts in enumerate(statements()):
        for name, text in texts.items():
            relation.setdefault(text, (number, name))
    notes.add_many({"text": text} for text in relation)
    notes.dedup()
    pairs = [pair for proposal in all_proposals(notes) for pair in pairs_of(proposal)]
    same = {(left, right) for left, right, is_opposite in pairs if not is_opposite}
    flagged = {(left, right) for left, right, is_opposite in pairs if is_opposite}

    def say_the_same(left: str, right: str) -> bool:
        (number, name), (other, other_name) = relation[left], relation[right]
        return number == other and {name, other_name} <= set(SAME)

    def contradict(left: str, right: str) -> bool:
        (number, name), (other, other_name) = relation[left], relation[right]
        return number == other and (name == "opposite") != (other_name == "opposite")

    right = sum(say_the_same(*pair) for pair in same)
    print(f"notes                               {len(relation):,}")
    print(f"proposed pairs that say the same    {right:,} of {len(same):,} ({right / len(same):.3f})")
    n_contradicting = sum(contradict(*pair) for pair in same)
    n_flagged = sum(contradict(*pair) for pair in flagged)
    print(f"proposed pairs that contradict      {n_contradicting:,} of {len(same):,}")
    print(f"flagged pairs that contradict       {n_flagged:,} of {len(flagged):,}")
    for one, two in itertools.combinations(SAME, 2):
        expected = {
            frozenset((texts[one], texts[two])) for texts in statements() if one in texts and two in texts
        }
        found = len(expected & {frozenset(pair) for pair in same})
        print(f"pairs of {one} and {two}: {found} of {len(expected)} found")


def all_proposals(notes: OwnerNotes) -> list[MergeProposal]:
    """Return the open proposals."""
    found: list[MergeProposal] = []
    while page := notes.proposals(limit=1000, offset=len(found)).proposals:
        found += page
    return found


def pairs_of(proposal: MergeProposal) -> list[tuple[str, str, bool]]:
    """Return the pairs of texts in a proposal, and whether they may contradict each other."""
    texts = [note.text for note in proposal.notes]
    return [(left, right, proposal.is_opposite) for left, right in itertools.combinations(texts, 2)]


def variants(texts: Sequence[str], n: int) -> list[str]:
    """Return texts with some of their words exchanged."""
    chosen = random.Random(SEED)
    words = sorted({word for text in texts for word in text.split()})
    found = []
    for _ in range(n):
        text = chosen.choice(texts).split()
        for _ in range(chosen.choice(EXCHANGED)):
            text[chosen.randrange(len(text))] = chosen.choice(words)
        found.append(" ".join(text))
    return found


def measure(notes: OwnerNotes, n: int) -> None:
    """Print the time of a search among many waiting notes, and after one more."""
    texts = sorted({text for given in statements() for text in given.values()})
    notes.add_many({"text": text} for text in variants(texts, n))
    for what in ("all waiting", "one more"):
        began = time.process_time()
        result = notes.dedup()
        seconds = time.process_time() - began
        print(
            f"{what}: {result.n_compared:,} notes compared in {seconds:.2f} s of the processor "
            f"({1000 * seconds / result.n_compared:.1f} ms each), {result.n_proposed:,} proposals"
        )
        notes.add("A new note about volcanoes, migrations and tests.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--notes", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Engine(db_path=Path(folder) / "shoal.db") as engine:
        judge(engine.notes.of("judged"))
        measure(engine.notes.of("many"), arguments.notes)


if __name__ == "__main__":
    main()
