"""Who may see a document."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, NamedTuple


class Visibility(enum.StrEnum):
    """Who may see documents without rights with a search token."""

    everyone = "everyone"
    nobody = "nobody"


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """What a collection says of documents without rights."""

    without_rights: Annotated[
        Visibility, "who may see documents without rights with a search token: `everyone` or `nobody`"
    ]


class Rights(NamedTuple):
    """Who may see a document with a search token, by principals (`shoal.support.principals`).

    allow  who may; None: what the collection says of documents without rights
    deny   who may not, whatever else they are
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
