"""The place of each passage in the file that its document was converted from."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.models.files import FilePlace, Locator, LocatorKind


def file_places(locators: Sequence[Locator], spans: Sequence[tuple[int, int]]) -> list[FilePlace | None]:
    """Return the place of each span, given by start and end in code points; None if no locator covers any of
    it.

    Locators and spans are in order, and neither overlap. A span over several units has the first and the
    last of them, and their name if all have the same. Sheets of other names are not joined: a span belongs
    to the first one.
    """
    places: list[FilePlace | None] = []
    at = 0
    for start, end in spans:
        while at < len(locators) and locators[at].end_char <= start:
            at += 1
        # The last locator of this span may be the first of the next.
        last = at
        while last < len(locators) and locators[last].start_char < end:
            last += 1
        places.append(_joined(locators[at:last]))
    return places


def _joined(locators: Sequence[Locator]) -> FilePlace | None:
    if not locators:
        return None
    kind, name = locators[0].kind, locators[0].name
    same = [one for one in locators if one.kind is kind]
    if kind is LocatorKind.sheet:
        same = [one for one in same if one.name == name]
    elif any(one.name != name for one in same):
        name = ""
    return FilePlace.of(kind, name, min(one.first for one in same), max(one.last for one in same))
