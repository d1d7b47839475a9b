"""Requests for facets: intervals behind a colon."""

from __future__ import annotations

import pytest

from shoal.errors import QueryError
from shoal.facets.requests import make_facets


@pytest.mark.parametrize("facet", ["created:decade", "created:", "updated:Month"])
def test_an_unknown_interval_of_a_field_is_an_error_and_no_key_of_the_metadata(facet: str) -> None:
    with pytest.raises(QueryError, match="one of day, week, month, year, or a number"):
        make_facets([facet])


@pytest.mark.parametrize("facet", ["a:b", "files:x:y", "metadata.created:decade"])
def test_a_key_of_the_metadata_may_have_a_colon(facet: str) -> None:
    (request,) = make_facets([facet])
    assert request.field.path == (facet.removeprefix("metadata."),)
    assert request.interval is None
