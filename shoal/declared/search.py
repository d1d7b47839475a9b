"""The arguments of a search: the one declaration that the library, the API, the client and the commands
share."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, TypedDict

from shoal.declared.arguments import (
    Argument,
    Audit,
    Choice,
    Flag,
    Number,
    Numbers,
    TextForm,
    Value,
    Whole,
    arguments_of,
)
from shoal.declared.filters import SearchFilters
from shoal.models.search import (
    BUILT_IN,
    MAX_WEIGHT,
    Expand,
    Fusion,
    GroupBy,
    Pins,
    SearchMode,
    Synonyms,
    Syntax,
    TextMode,
    Typos,
)
from shoal.models.search import DEFAULT as DEFAULT_PRESET
from shoal.support.languages import LANGUAGES
from shoal.support.token_estimate import TOKENIZER

LIKELY = 0.25
"""Relevance that some result of the first page must reach, or the search gets a warning; people see less
relevant results folded. 91 % of the queries with an answer in the library have such a result, and 15 % of the
others; no threshold separates them better (`benchmarks/relevance.py`)."""
MAX_OFFSET = 10_000
"""Deeper pages of a ranking are of no use to people and cost as much as all pages before them."""
MAX_CONTEXT = 10
"""Most neighbours on each side; for more, read the document."""
MAX_PER_DOCUMENT = 10_000
FIRST_OF_DOCUMENT = 3
"""Without a limit per document, so many passages of each come first: a long document does not push out the
others, and a page is full all the same if enough passages match."""
MAX_RERANK = 100
"""Most results that one search reads again."""
MAX_SHORTLIST = 1_000
"""Most documents on a shortlist."""
MAX_TOKENS = 1_000_000
"""Largest token budget; the context windows of current models are not larger."""
MAX_SORT_KEYS = 8
MAX_BOOSTS = 16
"""In one search; each looks at every document or passage."""
MAX_PART = 1.0
"""Largest weight of a decay or a boost: as much as the best match by all signals together."""
MIN_HALF_LIFE_DAYS = 0.001
MAX_HALF_LIFE_DAYS = 365_000.0
MAX_FACETS = 20
"""In one request; each looks at every passage."""
DEFAULT_FACET_VALUES = 10
MAX_FACET_VALUES = 1_000
"""Values of one facet in a response."""

ALL_LANGUAGES = "*"

SIGNALS = MappingProxyType(
    {
        "lexical": "words, by BM25",
        "reef": "shared reefs",
        "field_boost": "words in title, headings and tags",
        "dense": "nearness in meaning, by vectors; without effect where there are none",
    }
)
ONLY_HYBRID = "only for mode `hybrid`"
FILTER = Value({"type": ["string", "object"]})
FACETS = Value(
    {"type": "array", "maxItems": MAX_FACETS, "items": {"type": ["string", "object"]}}, TextForm.with_commas
)
ABOUT_FILTER = (
    'a condition that every result meets: an expression such as `tags = "sea" AND year >= 2020 AND NOT '
    "draft = true`"
)
FILTER_OBJECT = ', or an object such as `{"tags": "sea", "year": {"$gte": 2020}}`'


class SearchArguments(TypedDict, total=False):
    """The arguments of a search besides its query. Those that are missing have the default."""

    top_k: Annotated[
        int,
        Argument(
            kind=Whole(1, setting="max_top_k"),
            default=10,
            about="most results to return; the setting `SHOAL_MAX_TOP_K` says how many",
            ranks=False,
            is_saved=False,
            audit=Audit.always,
        ),
    ]
    mode: Annotated[
        SearchMode | str,
        Argument(
            kind=Choice(SearchMode),
            default=SearchMode.hybrid,
            about="which signals rank the results: `lexical` (words, by BM25), `reef` (shared topics), "
            "`dense` (vectors, with an encoder), or all that there are as `hybrid`",
            audit=Audit.always,
        ),
    ]
    preset: Annotated[
        str,
        Argument(
            kind=Value({"type": "string"}),
            default=DEFAULT_PRESET,
            metavar="NAME",
            about=f"a set of signal weights: {', '.join(f'`{name}`' for name in BUILT_IN)}, or another that "
            f"`SHOAL_PRESETS` defines; {ONLY_HYBRID}",
            audit=Audit.always,
        ),
    ]
    weights: Annotated[
        Mapping[str, float] | str | None,
        Argument(
            kind=Numbers(SIGNALS, MAX_WEIGHT),
            metavar="lexical=X,reef=Y,field_boost=Z,dense=W",
            about=f"weights of the signals, in place of a preset; {ONLY_HYBRID}",
            address="; as `lexical:0.7,reef:0.3`; an omitted signal has weight 0",
        ),
    ]
    fusion: Annotated[
        str,
        Argument(
            kind=Choice(Fusion),
            default=Fusion.blend,
            about=f"how the rankings of the signals are combined: by a weighted sum of scores (`blend`) or "
            f"by reciprocal ranks (`rrf`); {ONLY_HYBRID}",
            audit=Audit.always,
        ),
    ]
    tags: Annotated[
        Sequence[str] | None,
        Argument(
            kind=Value({"type": "array"}, TextForm.with_commas),
            metavar="A,B",
            about="only passages of documents with all of these tags: the filter `tags`",
        ),
    ]
    min_confidence: Annotated[
        float | None,
        Argument(
            kind=Number(),
            about="only passages whose strongest reef leads the second by at least this z-score, such as 3 "
            "for one clear subject: the filter `min_confidence`",
        ),
    ]
    filters: Annotated[
        SearchFilters | Mapping[str, Any] | None,
        Argument(
            kind=Value({"type": "object"}, None),
            about="filters that every result passes; absent or null means no filter",
        ),
    ]
    filter: Annotated[
        str | Mapping[str, Any] | None,
        Argument(kind=FILTER, metavar="EXPRESSION", about=ABOUT_FILTER, body=FILTER_OBJECT),
    ]
    max_per_document: Annotated[
        int | None,
        Argument(
            kind=Whole(0, MAX_PER_DOCUMENT),
            about=f"most results from one document; 0: no limit. Without it, the best {FIRST_OF_DOCUMENT} of "
            "each document come first, then the others (`further`), so that a page is full if enough "
            f"passages match. With `group_by`, the passages of each, by default {FIRST_OF_DOCUMENT}",
            audit=Audit.always,
        ),
    ]
    include_scores: Annotated[
        bool,
        Argument(
            kind=Flag(),
            default=False,
            option="scores",
            about="adds to each result `shared_reefs` (topics shared with the query, with both z-scores and "
            "their share of the score) and `matched_terms` (words it holds, and where)",
            ranks=False,
            is_saved=False,
            is_explained=False,
        ),
    ]
    offset: Annotated[
        int,
        Argument(
            kind=Whole(0, MAX_OFFSET),
            default=0,
            about="results to skip",
            ranks=False,
            is_saved=False,
            audit=Audit.always,
        ),
    ]
    cursor: Annotated[
        str | None,
        Argument(
            kind=Value({"type": "string"}),
            about="`next_cursor` of the page before, in place of `offset`: the page begins after its last "
            "result, also if the library has changed; only for the same search. Not with `group_by` "
            "or `fold_similar`, whose pages begin at an `offset`",
            ranks=False,
            is_saved=False,
            is_for_notes=False,
        ),
    ]
    context: Annotated[
        int,
        Argument(
            kind=Whole(0, MAX_CONTEXT),
            default=0,
            about="number of chunks before and after each result to return as `before` and `after`",
            ranks=False,
            is_saved=False,
            is_explained=False,
        ),
    ]
    min_relevance: Annotated[
        float,
        Argument(
            kind=Number(0, 1),
            default=0.0,
            about="lowest `relevance` of a result, 0 to 1. Less relevant results are removed from the page; "
            "`offset` counts them. Not in mode `dense`, which ranks by vectors alone",
            ranks=False,
            audit=Audit.always,
        ),
    ]
    expand: Annotated[
        str,
        Argument(
            kind=Choice(Expand),
            default=Expand.none,
            about="`time` adds `evidence` to each result: of a recording, the passages within 15 seconds, or "
            "10 of a frame",
            ranks=False,
            is_saved=False,
            is_explained=False,
        ),
    ]
    typos: Annotated[
        str,
        Argument(
            kind=Choice(Typos),
            default=Typos.auto,
            about="`auto` searches for the nearest words of the library in place of words that stand nowhere "
            "and are not known; `off` searches for the words as typed",
            audit=Audit.always,
        ),
    ]
    syntax: Annotated[
        str,
        Argument(
            kind=Choice(Syntax),
            default=Syntax.simple,
            about="`simple` reads quotation marks, a minus before a word and `title:` as the query language; "
            "`plain` reads the query as text",
            audit=Audit.always,
        ),
    ]
    prefix: Annotated[
        bool,
        Argument(
            kind=Flag(),
            default=False,
            about="whether the last word may be the beginning of a word, for search as you type",
            audit=Audit.always,
        ),
    ]
    language: Annotated[
        str | None,
        Argument(
            kind=Choice(tuple(LANGUAGES)),
            about="language of the query, a code of ISO 639-1; default: the one that its script or its stop "
            "words say, else all languages of the library",
            audit=Audit.always,
        ),
    ]
    languages: Annotated[
        Sequence[str] | None,
        Argument(
            kind=Value(
                {"type": "array", "items": {"type": "string", "enum": [ALL_LANGUAGES, *LANGUAGES]}},
                TextForm.with_commas,
            ),
            metavar="CODES",
            about="languages of passages in which words of the query also stand for words that mean the "
            f"same, by wordnets: codes of ISO 639-1, or `{ALL_LANGUAGES}` for all of the library; "
            "default: none",
            audit=Audit.given,
        ),
    ]
    synonyms: Annotated[
        str,
        Argument(
            kind=Choice(Synonyms),
            default=Synonyms.on,
            about="whether words also match the synonyms of the library",
            is_counted=True,
            audit=Audit.always,
        ),
    ]
    pins: Annotated[
        str,
        Argument(
            kind=Choice(Pins),
            default=Pins.on,
            about="whether the pins of the library put results first and hide others",
            is_saved=False,
            is_counted=True,
            audit=Audit.always,
        ),
    ]
    rerank: Annotated[
        int | None,
        Argument(
            kind=Whole(0, MAX_RERANK),
            about="first results, counted from rank 1, that the encoder reads again and reorders, 0 to 100; "
            "by default the setting `SHOAL_RERANK`. If it fails or takes too long, they keep their order, "
            "with a warning",
            is_saved=False,
            is_for_notes=False,
            audit=Audit.always,
        ),
    ]
    shortlist: Annotated[
        int,
        Argument(
            kind=Whole(0, MAX_SHORTLIST),
            default=0,
            about="documents are ranked first, as wholes, and then only passages of the best so many of "
            "them, 1 to 1,000; 0: of all",
            is_saved=False,
            is_for_notes=False,
            audit=Audit.given,
        ),
    ]
    sort: Annotated[
        str | Sequence[str] | None,
        Argument(
            kind=Value({"type": ["array", "string"], "items": {"type": "string"}}),
            metavar="FIELDS",
            about="fields of documents to order by instead of the score, such as `-date` (newest first), "
            f"`title`, `created` or a path into the metadata; at most {MAX_SORT_KEYS}. Missing values come "
            "last, equal documents are ordered by score. Sorted results are not reranked",
            body="; a list, or one text with commas",
            address="; with commas",
            is_for_notes=False,
            is_counted=True,
            audit=Audit.given,
        ),
    ]
    decay: Annotated[
        str | Mapping[str, Any] | None,
        Argument(
            kind=Value(
                {
                    "type": ["object", "string"],
                    "properties": {
                        "field": {"type": "string"},
                        "half_life_days": {
                            "type": "number",
                            "minimum": MIN_HALF_LIFE_DAYS,
                            "maximum": MAX_HALF_LIFE_DAYS,
                        },
                        "weight": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_PART},
                        "now": {"type": "string"},
                    },
                }
            ),
            metavar="FIELD:DAYS:WEIGHT",
            about="adds `weight` to the score of a passage from today, half of it at an age of "
            f"`half_life_days`, a quarter at twice that age; {ONLY_HYBRID}",
            body=". `now` is the moment from which the age counts, by default that of the search; the "
            "response has it, so that further pages can be of the same order",
            address=". As `FIELD:HALF_LIFE_DAYS:WEIGHT`, such as `date:30:0.2`, and perhaps `@NOW`",
            is_for_notes=False,
            is_counted=True,
            audit=Audit.given,
        ),
    ]
    boosts: Annotated[
        Sequence[str | Mapping[str, Any]] | None,
        Argument(
            kind=Value(
                {
                    "type": ["array"],
                    "items": {
                        "type": ["object", "string"],
                        "properties": {
                            "filter": {"type": ["string", "object"]},
                            "weight": {"type": "number"},
                        },
                    },
                },
                TextForm.repeated,
            ),
            option="boost",
            metavar="WEIGHT:EXPRESSION",
            about=f"adds `weight` to the score of passages that meet `filter`; {ONLY_HYBRID}; at most "
            f"{MAX_BOOSTS}",
            address=". As `WEIGHT:EXPRESSION`, such as `0.2:tags = sea`; may be repeated",
            is_for_notes=False,
            is_counted=True,
            audit=Audit.given,
        ),
    ]
    group_by: Annotated[
        str,
        Argument(
            kind=Choice(GroupBy),
            default=GroupBy.chunk,
            about="`document` ranks whole documents by their best passages: `documents` in place of "
            "`results`, each with up to `max_per_document` passages; `top_k` and `offset` count documents. "
            "`parent` takes attachments together with what they are attached to, such as a mail",
            is_saved=False,
            is_for_notes=False,
            is_counted=True,
            audit=Audit.given,
        ),
    ]
    fold_similar: Annotated[
        bool,
        Argument(
            kind=Flag(),
            default=False,
            about="folds results that say nearly the same as one before, among the first 200, under it as "
            "`folded`: four of five runs of five words are in both",
            is_saved=False,
            is_for_notes=False,
            is_counted=True,
            audit=Audit.given,
        ),
    ]
    facets: Annotated[
        Sequence[str | Mapping[str, Any]] | None,
        Argument(
            kind=FACETS,
            option="facet",
            metavar="FIELD",
            about="fields whose values are counted over the results of all pages, such as `tags`, "
            "`author.name` or, for a histogram, `created:month` and `price:10`; at most "
            f"{MAX_FACETS}",
            body=', or objects such as `{"field": "price", "interval": 10, "limit": 50}`',
            address="; comma-separated",
            ranks=False,
            is_saved=False,
            is_for_notes=False,
            is_explained=False,
        ),
    ]
    facet_limit: Annotated[
        int | None,
        Argument(
            kind=Whole(1, MAX_FACET_VALUES),
            about=f"most values of a facet; default {DEFAULT_FACET_VALUES}, of a histogram "
            f"{MAX_FACET_VALUES:,}",
            ranks=False,
            is_saved=False,
            is_for_notes=False,
            is_explained=False,
        ),
    ]
    text: Annotated[
        str,
        Argument(
            kind=Choice(TextMode),
            default=TextMode.full,
            about="what a result has of the text of its passage: all (`full`), the window with the most "
            "words of the query (`snippet`), or nothing (`none`); then `text_span` says which part",
            ranks=False,
            is_saved=False,
            is_for_notes=False,
            is_explained=False,
        ),
    ]
    max_tokens: Annotated[
        int | None,
        Argument(
            kind=Whole(1, MAX_TOKENS),
            about=f"token budget for the texts of all results, 1 to {MAX_TOKENS:,}: the first results that "
            f"fit; the last of them may be cut after a sentence. Counted by the estimate `{TOKENIZER}`",
            ranks=False,
            is_saved=False,
            is_for_notes=False,
            is_explained=False,
        ),
    ]
    prompt: Annotated[
        bool,
        Argument(
            kind=Flag(),
            default=False,
            about="adds `prompt`: the results as numbered passages for a language model, with references; "
            "`max_tokens` is then for the prompt",
            ranks=False,
            is_saved=False,
            is_for_notes=False,
            is_explained=False,
        ),
    ]


SEARCH: Mapping[str, Argument] = MappingProxyType(arguments_of(SearchArguments))
"""The arguments by name, in the order in which they are documented."""
SHORT_FORMS = frozenset({"tags", "min_confidence"})
"""Arguments that stand for the filters of their names; giving both is an error."""


class RankingArguments(TypedDict, total=False):
    """The arguments of a search that the fused ranking of a batch has, too."""

    top_k: Annotated[int, SEARCH["top_k"]]
    max_per_document: Annotated[int | None, SEARCH["max_per_document"]]
    text: Annotated[str, SEARCH["text"]]
    max_tokens: Annotated[int | None, SEARCH["max_tokens"]]
    prompt: Annotated[bool, SEARCH["prompt"]]


OF_RANKING = arguments_of(RankingArguments)


def is_weak(relevance: float, *, is_pinned: bool) -> bool:
    """Return whether people see a result folded among others: it hardly answers the query."""
    return relevance < LIKELY and not is_pinned
