"""Filters: trees of conditions, and terms that a result must or must not contain.

Each filter has a name, so that an explanation can name the filters that a chunk does not meet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.declared.filters import SearchFilters
from shoal.errors import FilterError, QueryError, blaming
from shoal.facets.counting import FacetCounter
from shoal.filters.evaluation import FilterState
from shoal.filters.parsing import ReefNames, conditions_by_filter
from shoal.filters.tree import Node, joined
from shoal.index.matching import Matches
from shoal.scorer import Scorer
from shoal.search.library_index import LibraryIndex
from shoal.search.order_arguments import Boost
from shoal.search.query_language import ParsedQuery, Term
from shoal.search.signals import find_matches
from shoal.storage.database import Snapshot

PHRASE, TITLE, EXCLUDED = "phrase", "title", "excluded"
"""Names, among the filters, of the conditions that the query itself sets."""
_MET = "met"


@dataclass(frozen=True, slots=True)
class CompiledFilters:
    """Conditions by the name of their filter.

    by_filter   conditions on a chunk
    required    terms that a chunk must contain, by PHRASE and TITLE
    excluded    terms that it must not contain
    tree        a further condition
    names       of the reefs in `by_filter`, `tree` and boosts
    shared      what several searches of one snapshot share: the chunks that meet the filters, once they are
                known; None if nothing is shared
    among       ids of the chunks that results must be among, i64 (n,); None: all
    """

    by_filter: Mapping[str, Node] = field(default_factory=dict)
    required: Mapping[str, tuple[Term, ...]] = field(default_factory=dict)
    excluded: tuple[Term, ...] = ()
    tree: Node | None = None
    names: ReefNames | None = None
    shared: dict[str, NDArray[np.bool_]] | None = field(default=None, compare=False)
    among: NDArray[np.int64] | None = None

    def __bool__(self) -> bool:
        has_terms = self.required or self.excluded
        return bool(self.by_filter or has_terms or self.tree is not None or self.among is not None)

    def met_by(
        self, snapshot: Snapshot, library: LibraryIndex, matches: Mapping[Term, Matches] | None = None
    ) -> NDArray[np.bool_]:
        """Return, for each place of the index, whether its chunk meets all conditions. `matches`: of terms
        that were looked up already."""
        is_met = self._met_without_query(snapshot, library)
        known = matches or {}
        terms = [term for required in self.required.values() for term in required]
        known = {**find_matches(library, [term for term in terms if term not in known]), **known}
        for term in terms:
            is_met &= known[term].mask()
        for found in find_matches(library, self.excluded).values():
            is_met &= ~found.mask()
        return is_met

    def _met_without_query(self, snapshot: Snapshot, library: LibraryIndex) -> NDArray[np.bool_]:
        """Return a new array of the chunks that meet the conditions which the query does not set."""
        if self.shared is None:
            return self._met_by_filters(snapshot, library)
        if _MET not in self.shared:
            self.shared[_MET] = self._met_by_filters(snapshot, library)
        return self.shared[_MET].copy()

    def _met_by_filters(self, snapshot: Snapshot, library: LibraryIndex) -> NDArray[np.bool_]:
        is_met = library.index.live()
        if self.among is not None:
            is_met &= library.index.of_chunks(self.among)
        condition = joined((*self.by_filter.values(), *(() if self.tree is None else (self.tree,))))
        if condition is not None:
            state = self.state(snapshot, library)
            try:
                is_met &= state.met(condition)
            except FilterError:
                for name, node in self.by_filter.items():
                    with blaming(f"filters.{name}"):
                        state.met(node)
                raise
        return is_met

    def state(self, snapshot: Snapshot, library: LibraryIndex) -> FilterState:
        """Return what the conditions are evaluated on."""
        assert self.names is not None, "conditions come with names"
        return FilterState(snapshot, library.index, library.fields, self.names)

    def and_of_query(self, parsed: ParsedQuery, *, with_required: bool) -> CompiledFilters:
        """Add the conditions of the query: its excluded terms and, if `with_required`, its phrases and title
        terms."""
        required = {}
        if with_required:
            by_place = (
                (PHRASE, tuple(term for term in parsed.required if not term.in_title)),
                (TITLE, tuple(term for term in parsed.required if term.in_title)),
            )
            required = {name: terms for name, terms in by_place if terms}
        return dataclasses.replace(self, required=required, excluded=parsed.excluded)


def compile_filters(
    filters: SearchFilters,
    scorer: Scorer,
    label_threshold: float,
    tree: Node | None = None,
    boosts: Sequence[Boost] = (),
) -> CompiledFilters:
    """Compile filters, and a tree of further conditions. Raises QueryError for a reef or island that does not
    exist, also in the filters of `boosts`."""
    if filters.reef_ids is not None:
        _check_exist("reef_ids", filters.reef_ids, (reef.id for reef in scorer.reefs))
    if filters.island_ids is not None:
        _check_exist("island_ids", filters.island_ids, (island.id for island in scorer.islands))
    by_filter = dict(conditions_by_filter(filters))
    if tree is None and not boosts and not by_filter:
        return CompiledFilters()
    names = ReefNames.of(scorer, label_threshold)
    if tree is not None:
        names.check(tree)
    _check_boosts(names, boosts)
    return CompiledFilters(by_filter, tree=tree, names=names)


def facet_counter(
    snapshot: Snapshot,
    library: LibraryIndex,
    filters: CompiledFilters,
    names: ReefNames,
    is_found: NDArray[np.bool_],
    is_result: NDArray[np.bool_],
    matches: Mapping[Term, Matches] | None = None,
) -> FacetCounter:
    """Return what counts the facets of a search. `is_found`, `is_result`: as of FacetCounter."""

    def met(by_filter: Mapping[str, Node], tree: Node | None) -> NDArray[np.bool_]:
        others = dataclasses.replace(filters, by_filter=by_filter, tree=tree, shared=None)
        return others.met_by(snapshot, library, matches)

    state = FilterState(snapshot, library.index, library.fields, names)
    return FacetCounter(state, filters.by_filter, filters.tree, is_found, is_result, met)


def _check_boosts(names: ReefNames, boosts: Sequence[Boost]) -> None:
    for number, boost in enumerate(boosts):
        try:
            names.check(boost.filter)
        except FilterError as error:
            error.field = f"boosts[{number}].filter"
            raise


def _check_exist(name: str, ids: Iterable[int], existing: Iterable[int]) -> None:
    unknown = sorted(set(ids) - set(existing))
    if unknown:
        raise QueryError(f"filters.{name}", f"there is no {name.split('_', maxsplit=1)[0]} {unknown[0]}")
