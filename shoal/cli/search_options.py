"""The options that `search` and `explain` share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shoal.cli.session import Session
from shoal.models.search import SearchMode

FUSIONS = ("blend", "rrf")
SYNTAXES = ("simple", "plain")
SYNONYMS = PINS = ("on", "off")
EXPANSIONS = ("none", "time")
TYPOS = ("auto", "off")
PASSAGES, NOTES = "chunk", "note"
MODES = tuple(mode.value for mode in SearchMode)

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="What you want to read about, in your own words.")
]
QueryOrNone = Annotated[
    str | None,
    typer.Argument(metavar="QUERY", help="What you want to read about, in your own words; or --batch."),
]
Mode = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar="/".join(MODES),
        help="Ranking by words (lexical), by reefs, by vectors (dense, with an encoder), or by all of them.",
    ),
]
PresetName = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="Weights of a hybrid search: balanced, for exact words (precise), for meaning (conceptual), "
        "job_matching, corpus, or a preset of SHOAL_PRESETS.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="lexical=X,reef=Y,field_boost=Z,dense=W",
        help="Weight of each signal, instead of a preset. A signal that is not named has weight 0.",
    ),
]
FusionName = Annotated[
    str,
    typer.Option(
        "--fusion",
        metavar="/".join(FUSIONS),
        help="Fusion of the rankings: a weighted sum of scores (blend) or reciprocal rank fusion (rrf).",
    ),
]
Tags = Annotated[
    str | None, typer.Option("--tags", metavar="A,B", help="Only documents with all of these tags.")
]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="EXPRESSION",
        help="Only passages that meet this, such as 'tags = sea AND year >= 2020 AND NOT draft = true'.",
    ),
]
MinConfidence = Annotated[
    float | None,
    typer.Option(
        help="Only passages whose strongest reef leads the second by at least this z-score: "
        "3 for one clear subject, 1 to exclude passages without a subject."
    ),
]
TopK = Annotated[int, typer.Option(min=1, help="How many results.")]
Cursor = Annotated[
    str | None,
    typer.Option("--cursor", metavar="TEXT", help="The page after that whose next_cursor this is."),
]
MaxPerDocument = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Most passages of a document; 0: no limit. By default, the best 3 of each document come first, "
        "then the others.",
    ),
]
MinRelevance = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1.0,
        help="Only passages with this relevance or more: the probability, 0 to 1, that a passage answers "
        "the query.",
    ),
]
Rerank = Annotated[
    int | None,
    typer.Option(
        "--rerank",
        metavar="N",
        min=0,
        max=100,
        help="How many of the first results the encoder reads again and reorders; 0: none. By default "
        "SHOAL_RERANK.",
    ),
]
Shortlist = Annotated[
    int,
    typer.Option(
        "--shortlist",
        metavar="N",
        min=0,
        max=1000,
        help="Rank documents first, as wholes, and then only passages of the best N of them; 0: of all.",
    ),
]
TyposName = Annotated[
    str,
    typer.Option(
        "--typos",
        metavar="/".join(TYPOS),
        help="Search for the nearest words in place of those that stand nowhere (auto), or as typed (off).",
    ),
]
SyntaxName = Annotated[
    str,
    typer.Option(
        "--syntax",
        metavar="/".join(SYNTAXES),
        help='Read "phrases", -word and title: as the query language (simple), or all as text (plain).',
    ),
]
Prefix = Annotated[bool, typer.Option("--prefix", help="The last word may be the beginning of a word.")]

Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="FIELDS",
        help="Order by fields of documents instead of by score, with commas; - in front is descending: "
        "-date, title, created, or a key of the metadata.",
    ),
]
Decay = Annotated[
    str | None,
    typer.Option(
        "--decay",
        metavar="FIELD:DAYS:WEIGHT",
        help="Add up to WEIGHT to the score of newer documents, half of it at an age of DAYS: date:30:0.2.",
    ),
]
Boosts = Annotated[
    list[str] | None,
    typer.Option(
        "--boost",
        metavar="WEIGHT:EXPRESSION",
        help="Add WEIGHT to the score of passages that meet a filter: '0.2:tags = sea'. May be repeated.",
    ),
]

GroupBy = Annotated[
    str,
    typer.Option(
        "--group-by",
        metavar="chunk/document",
        help="What a result is: a passage, or a whole document with its best passages, --max-per-document.",
    ),
]
Offset = Annotated[
    int,
    typer.Option(
        "--offset",
        min=0,
        help="How many results to skip. Pages with --group-by document or --fold-similar have no cursor.",
    ),
]
FoldSimilar = Annotated[
    bool,
    typer.Option(
        "--fold-similar",
        help="Name results that say nearly the same as one before only under that one.",
    ),
]
SynonymUse = Annotated[
    str,
    typer.Option(
        "--synonyms",
        metavar="/".join(SYNONYMS),
        help="Whether words also match the synonyms of the library, which `shoal synonyms` lists.",
    ),
]

PinUse = Annotated[
    str,
    typer.Option(
        "--pins",
        metavar="/".join(PINS),
        help="Whether pins put results first and hide others, which `shoal pin list` lists.",
    ),
]

Server = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Search the library of this service."),
]


def parse_weights(text: str | None, option: str = "--weights") -> dict[str, float] | None:
    """Parse `lexical=0.7,reef=0.3` to {"lexical": 0.7, "reef": 0.3}. Raises typer.BadParameter."""
    if text is None:
        return None
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            weight = float(number)
        except ValueError:
            raise typer.BadParameter(
                f"write it as lexical=0.7,reef=0.3, not {text!r}", param_hint=option
            ) from None
        if name in weights:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint=option)
        weights[name] = weight
    return weights


def warn(session: Session, answer: dict[str, Any]) -> None:
    """Print the warnings of an answer."""
    for warning in answer.get("warnings") or ():
        session.warn(f"warning: {warning}")
