"""What a search token sees equals a library that holds only that: the fast version of the benchmark."""

from __future__ import annotations

from benchmarks.token_model import TENANTS, compare, libraries


def test_answers_are_those_of_a_library_that_holds_only_what_is_visible() -> None:
    with libraries(60, seed=3) as pairs:
        totals = {tenant: len(pairs[tenant][1].documents.list(limit=100).documents) for tenant in TENANTS}
        found, asked_for, answered = compare(pairs, 250, seed=11)
    assert found == []
    assert len(set(totals.values())) > 2
    assert max(totals.values()) < 60
    assert asked_for.keys() >= {"search", "facets", "suggest", "explain", "similar", "documents.get"}
    assert answered["explain"] < asked_for["explain"]
