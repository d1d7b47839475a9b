"""The page that lists collections, to switch to another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal_api.collections import represent, visible
from shoal_api.console.layout import blueprint, page
from shoal_api.console.query_params import page_number

PER_PAGE = 100


@blueprint.get("/collections")
@page()
def collections() -> tuple[str, Mapping[str, Any]]:
    """List the collections."""
    number = page_number()
    listed = visible(PER_PAGE, (number - 1) * PER_PAGE)
    return "collections.html", {
        "collections": list(map(represent, listed.collections)),
        "total": listed.total,
        "page": number,
        "per_page": PER_PAGE,
    }
