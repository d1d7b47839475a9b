"""Settings of cutting, scoring and weighing."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import at_least, between, check_presets, check_token_range, percent
from shoal.settings.declaration import setting


@dataclass(frozen=True, kw_only=True)
class ScoringSettings:
    """How texts are cut and scored, and how searches weigh the scores."""

    sensitivity: float = setting(
        0.5, "depth of the dip in similarity at which a text is cut (lower: more chunks)", at_least(0)
    )
    smooth_window: int = setting(
        2, "sentences on each side that smooth the profile of a sentence", between(0, 50)
    )
    min_chunk_sentences: int = setting(2, "fewest sentences of a chunk (within its section)", at_least(1))
    max_chunk_sentences: int = setting(30, "most sentences of a chunk; 0: no limit", at_least(0))
    max_chunk_chars: int = setting(8000, "longest chunk, characters", at_least(2000))
    chunk_tokens: str = setting(
        "any",
        "fewest and most tokens of a chunk, such as 300-800: a text is cut at the best changes of topic that "
        "give such chunks; `any`: wherever the topic changes. An upload may name its own, and a stored "
        "document keeps what it was cut with",
        check_token_range,
    )
    # nDCG@10 of reef search, mean of scifact, cranfield, medline and cacm: 0.327 at 0, 0.335 at 0.5, 0.343 at
    # 1.
    heading_weight: float = setting(
        1.0, "weight of title and headings in the profiles of their chunks, 0 to 1", between(0, 1)
    )
    reefs_per_chunk: int = setting(38, "most reefs stored with a chunk (z > 0 only)", between(1, 207))
    label_threshold: float = setting(
        0.5,
        "lowest probability at which a reef is a label of a passage, 0 to 1; a passage without labels has "
        "no clear subject",
        percent,
    )
    # nDCG@10 on scifact, with an earlier build of the data: 0.236 with 10, 0.306 with 20, 0.316 with 38.
    reefs_per_query: int = setting(38, "most reefs of a query that a search uses", between(1, 207))
    # benchmarks/hybrid.py: reefs alone gain 16 % with 0.25, 27 % with 0.5, 34 % with 1; with words, 0.5 is
    # best.
    feedback_weight: float = setting(
        0.5,
        "weight of pseudo-relevance feedback: the profiles of the passages that match a query's words best, "
        "relative to the query's own profile. Needs learning; 0: off",
        between(0, 10),
    )

    presets: str = setting(
        "",
        "presets of searches besides the built-in ones, as NAME=LEXICAL,REEF,FIELD_BOOST, separated by "
        "semicolons: `manuals=0.7,0.2,0.1; letters=0.3,0.7,0`. The weights count as they are. A fourth "
        "number is the weight of vectors, where there are any",
        check_presets,
    )
