"""Facets beside the results of a search: links that add a condition to the filter or take it away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import flask

from shoal.filters.objects import make_filter
from shoal.filters.tree import Node, text_of
from shoal.models.facets import Facet, FacetValue
from shoal.search.facets.own_conditions import toggled
from shoal.search.facets.requests import make_facets
from shoal_api.console import query_params
from shoal_api.console.layout import here

NAMES: Mapping[str, str] = {
    "tags": "Tags",
    "reef": "Topics",
    "file_type": "Types",
    "folder": "Folders",
    "date": "Years",
}
DEFAULTS = ("tags", "reef", "file_type", "folder", "date:year")
"""Facets of every search; `facets` in the address adds others."""
FEW, MORE = 8, 100
"""Values of a facet at first, and of the one that `more` in the address names."""


class ShownValue(NamedTuple):
    """A value, and the address of the page after a click on it."""

    text: str
    n_documents: int
    address: str
    is_selected: bool


class ShownFacet(NamedTuple):
    """A facet that can narrow the results. `more`: the address of the page with more values, if there are."""

    name: str
    values: Sequence[ShownValue]
    n_more: int
    more: str | None


def asked_facets() -> list[dict[str, Any]]:
    """Return the facets of this page, as the engine takes them. Raises QueryError."""
    more = flask.request.args.get("more")
    names = list(dict.fromkeys((*DEFAULTS, *query_params.texts("facets"))))
    return [
        {
            "field": facet.field.text,
            "interval": None if facet.interval is None else facet.interval.shown,
            "limit": MORE if name == more else FEW if facet.interval is None else MORE,
        }
        for name, facet in zip(names, make_facets(names), strict=True)
    ]


def shown_facets(facets: Iterable[Facet], expression: str | None) -> list[ShownFacet]:
    """Return the facets that can narrow the results, or do."""
    tree = make_filter(expression)
    shown = []
    for facet in facets:
        values = [value for value in facet.values if value.filter is not None]
        can_narrow = any(value.count < facet.n_documents or value.is_selected for value in values)
        if can_narrow:
            n_more = facet.n_values - len(facet.values)
            name = facet.field if facet.interval is None else f"{facet.field}:{facet.interval}"
            more = here(more=name) if n_more and len(facet.values) < MORE else None
            links = [_shown_value(facet, value, tree) for value in values]
            shown.append(ShownFacet(NAMES.get(facet.field, facet.field), links, n_more, more))
    return shown


def _shown_value(facet: Facet, value: FacetValue, tree: Node | None) -> ShownValue:
    chosen = make_filter(value.filter)
    assert chosen is not None, "the value has a filter"
    after = toggled(tree, chosen, () if value.name is None else (value.value,))
    text = value.name or (value.value if isinstance(value.value, str) else _json(value.value))
    if isinstance(facet.interval, int | float) and isinstance(value.value, int | float):
        text = f"{text} to {_json(round(value.value + facet.interval, 6))}"
    address = here(filter=None if after is None else text_of(after), more=None)
    return ShownValue(text, value.count, address, value.is_selected)


def _json(value: Any) -> str:
    return flask.json.dumps(value)
