"""Generate docs/reefs.md from the scorer's data: `python tests/docs/reefs_page.py` writes it."""

from __future__ import annotations

from pathlib import Path

import lagoon

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reefs.md"

INTRODUCTION = """\
# The reefs

The {n_reefs} reefs on {n_islands} islands in {n_archipelagos} archipelagos, from the packaged data. A reef
is a group of words with related meanings. Its name is a label; its typical words are common words near the
middle of the group. A word belongs to several reefs with different strengths: `shoal explain WORDS` shows
them. [The scorer's data](lagoon-data.md) says how the reefs are made and how to change them.

"""


def page() -> str:
    """Return the whole page as Markdown."""
    scorer = lagoon.load()
    parts = [
        INTRODUCTION.format(
            n_reefs=scorer.n_reefs, n_islands=len(scorer.islands), n_archipelagos=len(scorer.archipelagos)
        )
    ]
    for archipelago in scorer.archipelagos:
        parts.append(
            f"## {_capital(archipelago.name)}\n\n"
            "| reef | island | archipelago | typical words |\n|---|---|---|---|\n"
        )
        islands = {
            island.id: island.name for island in scorer.islands if island.archipelago_id == archipelago.id
        }
        parts += [
            f"| {reef.name} | {islands[reef.island_id]} | {archipelago.name} "
            f"| {', '.join(reef.typical_words)} |\n"
            for reef in scorer.reefs
            if reef.island_id in islands
        ]
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
