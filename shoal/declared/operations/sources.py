# mypy: disable-error-code="empty-body"
"""Operations on sources: places that the library follows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Unpack

from shoal.declared.arguments import Argument, Flag, Text
from shoal.declared.operations.operation import Limit, Offset, delete, each, get, patch, post
from shoal.declared.sources import SourceFields, SourceLimits
from shoal.models.keys import Needed
from shoal.models.sources import (
    MAX_NAME_CHARS,
    NAME_PATTERN,
    RemovedSource,
    Source,
    SourceObjectPage,
    SourcePage,
    SourcePreview,
    SourceRun,
    SourceRunPage,
    StoppedRun,
)

Name = Annotated[
    str, Argument(kind=Text(most=MAX_NAME_CHARS, pattern=NAME_PATTERN), about="name of the source")
]
_EVERY = "time from the end of one run to the next, such as `15 min`, `2 h` or `1 day`; "


class SourceOperations:
    """Operations on sources. Arguments and results are those of `engine.sources`.

    They need a key with the right `admin`. Unknown names raise NotFoundError, invalid arguments InvalidError.
    """

    @post(
        "/sources",
        Needed.admin,
        status=201,
        about="Added; with `every`, its first run is due at once",
        fills=False,
        may_repeat=False,
        command="source add",
    )
    def add_source(
        self,
        name: Annotated[
            str, Argument(kind=Text(), about=f"of a to z, 0 to 9, `.`, `_` and `-`, at most {MAX_NAME_CHARS}")
        ],
        url: Annotated[
            str,
            Argument(
                kind=Text(),
                about="what is followed, such as `s3://BUCKET/FOLDER` or `/srv/texts`; `SHOAL_SOURCES` must "
                "allow it",
            ),
        ],
        *,
        every: Annotated[
            str | None, Argument(kind=Text(), about=f"{_EVERY}default: only when asked for")
        ] = None,
        **fields: Unpack[SourceFields],
    ) -> Source:
        """Follow a folder, a bucket or another place"""

    @get("/sources", Needed.admin, command="source list")
    def sources(self, *, limit: Limit = 50, offset: Offset = 0) -> SourcePage:
        """List sources"""

    @each(sources)
    def each_source(self) -> Iterable[Source]:
        """All sources, read page by page"""

    @get("/sources/{name}", Needed.admin, fails=(404,), command="source show")
    def source(self, name: Name) -> Source:
        """Show a source with its last run"""

    @patch("/sources/{name}", Needed.admin, fails=(404,), fills=False, command="source change")
    def change_source(
        self,
        name: Name,
        *,
        every: Annotated[
            str | None, Argument(kind=Text(), about=f"{_EVERY}empty: only when asked for")
        ] = None,
        is_paused: Annotated[
            bool | None,
            Argument(kind=Flag(), option="paused", about="whether no run begins or goes on by itself"),
        ] = None,
        **limits: Unpack[SourceLimits],
    ) -> Source:
        """Change when and how a source is followed"""

    @delete(
        "/sources/{name}",
        Needed.admin,
        fails=(404,),
        may_repeat=False,
        answer=RemovedSource,
        command="source remove",
    )
    def remove_source(
        self,
        name: Name,
        *,
        with_documents: Annotated[
            bool, Argument(kind=Flag(), about="a job deletes its documents too; default false: they stay")
        ] = False,
    ) -> int:
        """Follow a source no longer"""

    @post(
        "/sources/{name}/run",
        Needed.admin,
        status=202,
        about="Begun; a worker carries it out",
        fails=(404,),
        needs_body=False,
        command="source run",
    )
    def run_source(
        self,
        name: Name,
        *,
        force: Annotated[
            bool,
            Argument(
                kind=Flag(), about="documents go even if the source lists nothing any more; default false"
            ),
        ] = False,
    ) -> SourceRun:
        """Begin a run; the one that is open, if there is one"""

    @post("/sources/{name}/stop", Needed.admin, fails=(404,), answer=StoppedRun, command="source stop")
    def stop_source(self, name: Name) -> bool:
        """End the open run; what it stored stays"""

    @get("/sources/{name}/preview", Needed.admin, fails=(404, 503), command="source preview")
    def preview_source(self, name: Name) -> SourcePreview:
        """Show what a run would do, and its first ten documents; nothing is stored"""

    @get("/sources/{name}/runs", Needed.admin, fails=(404,), command="source runs")
    def source_runs(self, name: Name, *, limit: Limit = 50, offset: Offset = 0) -> SourceRunPage:
        """List the runs of a source, newest first"""

    @get("/sources/{name}/objects", Needed.admin, fails=(404,), command="source objects")
    def source_objects(
        self,
        name: Name,
        *,
        only_errors: Annotated[
            bool, Argument(kind=Flag(), about="only objects that are not stored; default false")
        ] = False,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> SourceObjectPage:
        """List the objects of a source"""
