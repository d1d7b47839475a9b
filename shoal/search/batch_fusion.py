"""One ranking of the results of several searches, by reciprocal ranks.

Scores of different queries cannot be compared, ranks can. A result has the sum of (k + 1) / (k + rank) over
the searches that found it, divided by the number of searches (reciprocal rank fusion: Cormack, Clarke and
Büttcher, SIGIR 2009). 1 is the first result of every search.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from shoal.models.batches import BatchAnswer, FoundBy, FusedResult
from shoal.models.search import SearchResult
from shoal.search.fusion import RRF_K
from shoal.search.ordering import BestFirst, DocumentLimit, per_document


def fuse(answers: Sequence[BatchAnswer], top_k: int, limit: DocumentLimit) -> list[FusedResult]:
    """Return the best `top_k` results of all searches. `limit`: per document, as in a search.

    A search contributes the results that it returned. Equal scores are in the order of their chunk ids.
    """
    responses = [(answer, answer.response) for answer in answers if answer.response is not None]
    found_by: dict[int, list[FoundBy]] = {}
    results: dict[int, SearchResult] = {}
    for answer, response in responses:
        for rank, result in enumerate(response.results, start=1):
            part = (RRF_K + 1) / (RRF_K + rank) / len(responses)
            finder = FoundBy(answer.index, answer.query, rank, result.match_score, part)
            finders = found_by.setdefault(result.chunk_id, [])
            if all(part > other.part for other in finders):
                results[result.chunk_id] = result
            finders.append(finder)
    fused = [
        FusedResult(sum(finder.part for finder in finders), tuple(finders), results[chunk_id])
        for chunk_id, finders in found_by.items()
    ]
    fused.sort(key=lambda each: (-each.fused_score, each.result.chunk_id))
    n_best = per_document(limit, len(fused))
    chosen: list[FusedResult] = []
    further: list[FusedResult] = []
    of_document: Counter[int] = Counter()
    for each in fused:
        is_further = of_document[each.result.document_id] >= n_best
        of_document[each.result.document_id] += 1
        result = dataclasses.replace(each.result, further=is_further)
        (further if is_further else chosen).append(dataclasses.replace(each, result=result))
    return [*chosen, *(further if isinstance(limit, BestFirst) else ())][:top_k]
