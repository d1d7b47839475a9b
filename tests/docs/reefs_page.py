"""The page of the reefs, made from the data: `python tests/docs/reefs_page.py` writes it anew."""

from __future__ import annotations

from pathlib import Path

import lagoon

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reefs.md"

INTRODUCTION = """\
# The reefs

The {n_reefs} reefs on {n_islands} islands in {n_archipelagos} archipelagos, as the packaged data has them. A reef is a
neighbourhood of words; its name says what they have in common, its typical words show it: those that lie nearest to
the middle of the reef and are common. A word belongs to several reefs, more or less strongly: `shoal explain WORDS`
shows which. How the reefs came about, and how to change them, is told in [the model's data](lagoon-data.md).

"""


def page() -> str:
    """The whole page as Markdown."""
    scorer = lagoon.load()
    parts = [
        INTRODUCTION.format(
            n_reefs=scorer.n_reefs, n_islands=len(scorer.islands), n_archipelagos=len(scorer.archipelagos)
        )
    ]
    for archipelago in scorer.archipelagos:
        parts.append(
            f"## {_capital(archipelago.name)}\n\n| reef | island | archipelago | typical words |\n|---|---|---|---|\n"
        )
        islands = {
            island.id: island.name for island in scorer.islands if island.archipelago_id == archipelago.id
        }
        parts += [
            f"| {reef.name} | {islands[reef.island_id]} | {archipelago.name} | {', '.join(reef.typical_words)} |\n"
            for reef in scorer.reefs
            if reef.island_id in islands
        ]
        parts.append("\n")
    return "".join(parts).rstrip() + "\n"


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
