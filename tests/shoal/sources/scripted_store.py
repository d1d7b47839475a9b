"""A store whose content, pages and failures a test sets."""

from __future__ import annotations

from shoal import Engine
from shoal.errors import ObjectGoneError
from shoal.settings import Settings
from shoal.sources.sources import Sources
from shoal.sources.stores import Listed, ListedPage, Place, Store


class ScriptedStore(Store):
    """Objects by name. `versions`: of those whose version is not their content; `errors`: raised by reading.

    `list_errors` are raised by the next listings, one each.
    """

    address = "memory://trial"

    def __init__(self, objects: dict[str, bytes], page_size: int = 2) -> None:
        self.objects = objects
        self.versions: dict[str, str] = {}
        self.errors: dict[str, Exception] = {}
        self.list_errors: list[Exception] = []
        self.page_size = page_size
        self.reads: list[str] = []

    def open(self, place: Place, settings: Settings, *, reaches: bool = True) -> ScriptedStore:
        return self

    def list(self, place: str | None) -> ListedPage:
        if self.list_errors:
            raise self.list_errors.pop(0)
        begin = int(place or 0)
        names = sorted(self.objects)[begin : begin + self.page_size]
        after = begin + self.page_size
        listed = tuple(Listed(name, self._version(name), len(self.objects[name])) for name in names)
        return ListedPage(listed, str(after) if after < len(self.objects) else None)

    def _version(self, name: str) -> str:
        return self.versions.get(name) or self.objects[name].hex()[:200]

    def read(self, name: str, max_bytes: int) -> bytes:
        self.reads.append(name)
        if name in self.errors:
            raise self.errors[name]
        if name not in self.objects:
            raise ObjectGoneError("it is gone since it was listed")
        return self.objects[name]


def sources_of(engine: Engine, store: ScriptedStore) -> Sources:
    """The sources of a library, which find this store everywhere."""
    return Sources(engine.database, engine.settings, engine._library.run_job, store.open)


def stored(engine: Engine) -> dict[str, str]:
    """The contents of the library by source path."""
    page = engine.documents.list(limit=1000)
    return {str(each.source_path): engine.documents.content(each.id) for each in page.documents}
