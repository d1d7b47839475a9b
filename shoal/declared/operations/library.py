# mypy: disable-error-code="empty-body"
"""Operations on words, synonyms, pins, saved searches and the query log of a library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from shoal.declared.arguments import (
    MAX_ID,
    OBJECT,
    Argument,
    Choice,
    Flag,
    Many,
    Members,
    Number,
    Text,
    Value,
    Whole,
)
from shoal.declared.operations.operation import Limit, Offset, Sent, delete, each, get, patch, post, put
from shoal.models import pins as of_pins
from shoal.models import saved_searches as of_saved
from shoal.models import synonyms as of_synonyms
from shoal.models.keys import Needed
from shoal.models.pins import ListedTarget, Pin, PinMatch, PinPage, PinTarget
from shoal.models.queries import (
    MAX_FREQUENT,
    MAX_PREFIX_CHARS,
    ClearedQueries,
    ClickedQueries,
    FrequentQueries,
    LoggedQuery,
    LoggedQueryPage,
)
from shoal.models.saved_searches import (
    DeliveryDetail,
    DeliveryPage,
    DeliveryStatus,
    NewSavedSearch,
    SavedSearch,
    SavedSearchPage,
)
from shoal.models.synonyms import (
    Acronym,
    AcronymPage,
    AcronymScan,
    AcronymStatus,
    Synonym,
    SynonymExport,
    SynonymImport,
    SynonymPage,
)
from shoal.models.vocabulary import LearnedWord, WordPage

MAX_WORD_CHARS = 512
MAX_SCAN_SECONDS = 30
MAX_DAYS = 3_650
MAX_COUNT = 1_000_000

ADDED = "Stored; searches use it from now on"
OTHER_PIN = "Another pin is for these words; the message names it"
OTHER_SYNONYM = "Another entry says the same or the opposite; the message names it"

Target = PinTarget | ListedTarget | Mapping[str, int | None] | int
"""A document by its id, or {"document_id": …} or {"chunk_id": …}."""


class TargetMembers(TypedDict, total=False):
    """A document, or one of its passages."""

    document_id: Annotated[int | None, Argument(kind=Whole(0), may_be_null=True, about="of the document")]
    chunk_id: Annotated[
        int | None,
        Argument(kind=Whole(0), may_be_null=True, about="of the passage; its document may be left out"),
    ]


def _as_targets(targets: Iterable[Target]) -> list[Mapping[str, Any]]:
    return [
        {"document_id": target.document_id, "chunk_id": target.chunk_id}
        if isinstance(target, PinTarget | ListedTarget)
        else {"document_id": target}
        if isinstance(target, int)
        else dict(target)
        for target in targets
    ]


_TARGET = Members(TargetMembers, '{"document_id": 3} or {"chunk_id": 7}')
PinQuery = Annotated[
    str,
    Argument(
        kind=Text(), about=f"up to {of_pins.MAX_WORDS} words; case, accents and punctuation do not count"
    ),
]
Pinned = Annotated[
    Sequence[Target],
    Argument(
        kind=Many(_TARGET, of_pins.MAX_PINNED),
        about=f"what comes first, in this order; up to {of_pins.MAX_PINNED}",
    ),
    Sent(_as_targets),
]
Hidden = Annotated[
    Sequence[Target],
    Argument(
        kind=Many(_TARGET, of_pins.MAX_HIDDEN),
        about=f"what is hidden from the results; up to {of_pins.MAX_HIDDEN}",
    ),
    Sent(_as_targets),
]
Match = Annotated[
    PinMatch | str,
    Argument(
        kind=Choice(PinMatch),
        about="`exact`: for searches with exactly these words; `contains`: for all that have them side by "
        "side, among others; default `exact`",
    ),
]
PinsWith = Annotated[
    str | None,
    Argument(
        kind=Text(most=of_pins.MAX_CHARS),
        option="containing",
        metavar="TEXT",
        about="only pins whose query contains this",
    ),
]


class PinOperations:
    """Operations on pins.

    An invalid field or a missing target raises InvalidError, a second pin for the same words ConflictError,
    an unknown id NotFoundError.
    """

    @get("/pins", Needed.read, command="pin list")
    def pins(self, *, q: PinsWith = None, limit: Limit = 50, offset: Offset = 0) -> PinPage:
        """List the pins of the library"""

    @each(pins)
    def each_pin(self, *, q: str | None = None) -> Iterable[Pin]:
        """All pins, read page by page"""

    @post(
        "/pins",
        Needed.write,
        status=201,
        about=ADDED,
        conflict=OTHER_PIN,
        may_repeat=False,
        command="pin add",
    )
    def add_pin(
        self, query: PinQuery, pinned: Pinned = (), *, hidden: Hidden = (), match: Match = PinMatch.exact
    ) -> Pin:
        """Put documents or passages first for a query, or hide them from its results"""

    @get("/pins/{pin_id}", Needed.read, fails=(404,))
    def pin(self, pin_id: int) -> Pin:
        """Show a pin"""

    @put("/pins/{pin_id}", Needed.write, conflict=OTHER_PIN, fails=(404,), command="pin replace")
    def replace_pin(
        self,
        pin_id: int,
        query: PinQuery,
        pinned: Pinned = (),
        *,
        hidden: Hidden = (),
        match: Match = PinMatch.exact,
    ) -> Pin:
        """Replace a pin"""

    @delete("/pins/{pin_id}", Needed.write, fails=(404,), command="pin delete")
    def delete_pin(self, pin_id: int) -> bool:
        """Delete a pin"""


Words = Annotated[Sequence[str], Argument(kind=Many(Text(), of_synonyms.MAX_GROUP), about=of_synonyms.WORDS)]
Root = Annotated[
    str | None,
    Argument(
        kind=Text(),
        about="the word or phrase that also finds the others; null: each of them finds the others",
    ),
]
SynonymsWith = Annotated[
    str | None,
    Argument(
        kind=Text(most=of_synonyms.MAX_CHARS),
        option="containing",
        metavar="TEXT",
        about="only entries with a word that contains this",
    ),
]


class SynonymOperations:
    """Operations on synonyms and acronyms.

    An invalid word raises InvalidError, an entry that contradicts another ConflictError, an unknown id
    NotFoundError.
    """

    @get("/synonyms", Needed.read, command="synonyms list", tool="list_synonyms")
    def synonyms(self, *, q: SynonymsWith = None, limit: Limit = 50, offset: Offset = 0) -> SynonymPage:
        """List the synonyms of the library"""

    @each(synonyms)
    def each_synonym(self, *, q: str | None = None) -> Iterable[Synonym]:
        """All synonyms, read page by page"""

    @post(
        "/synonyms",
        Needed.write,
        status=201,
        about=ADDED,
        conflict=OTHER_SYNONYM,
        may_repeat=False,
        command="synonyms add",
    )
    def add_synonym(self, synonyms: Words, *, root: Root = None) -> Synonym:
        """Add an entry: words that find each other, or a word that also finds others"""

    @get("/synonyms/export", Needed.read, answer=SynonymExport, command="synonyms export")
    def export_synonyms(self) -> list[dict[str, Any]]:
        """Return all entries, as an import takes them"""

    @post("/synonyms/import", Needed.write, command="synonyms import")
    def import_synonyms(
        self,
        synonyms: Annotated[
            Iterable[Mapping[str, Any]],
            Argument(
                kind=Many(OBJECT, of_synonyms.MAX_SYNONYMS),
                about="objects with `synonyms`, and with `root` if only that finds the others",
            ),
        ],
        *,
        replace: Annotated[
            bool, Argument(kind=Flag(), about="delete all former entries first; default false")
        ] = False,
    ) -> SynonymImport:
        """Add many entries at once

        Entries that contradict others are refused and listed. An invalid entry is an error that names it, and
        nothing is changed.
        """

    @get("/synonyms/{synonym_id}", Needed.read, fails=(404,))
    def synonym(self, synonym_id: int) -> Synonym:
        """Show an entry"""

    @put(
        "/synonyms/{synonym_id}",
        Needed.write,
        conflict=OTHER_SYNONYM,
        fails=(404,),
        command="synonyms replace",
    )
    def replace_synonym(self, synonym_id: int, synonyms: Words, *, root: Root = None) -> Synonym:
        """Replace an entry"""

    @delete("/synonyms/{synonym_id}", Needed.write, fails=(404,), command="synonyms delete")
    def delete_synonym(self, synonym_id: int) -> bool:
        """Delete an entry"""

    @get("/acronyms", Needed.read, command="acronyms list")
    def acronyms(
        self,
        *,
        status: Annotated[
            str | None,
            Argument(
                kind=Choice(AcronymStatus),
                default=AcronymStatus.proposed,
                about="only those with this status; default `proposed`",
            ),
        ] = None,
        acronym: Annotated[
            str | None,
            Argument(kind=Text(most=of_synonyms.MAX_CHARS), about="only this acronym, in any case"),
        ] = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> AcronymPage:
        """List the acronyms that a scan found, those in most documents first"""

    @post("/acronyms/scan", Needed.write, needs_body=False, command="acronyms scan")
    def scan_acronyms(
        self,
        *,
        max_seconds: Annotated[
            int | None,
            Argument(
                kind=Whole(1, MAX_SCAN_SECONDS),
                default=10,
                about=f"1 to {MAX_SCAN_SECONDS}, default 10; another scan goes on",
            ),
        ] = None,
    ) -> AcronymScan:
        """Look for acronyms in documents that are new or changed since the last scan

        The body may be left out.
        """

    @get("/acronyms/{acronym_id}", Needed.read, fails=(404,))
    def acronym(self, acronym_id: int) -> Acronym:
        """Show an acronym"""

    @post(
        "/acronyms/{acronym_id}/confirm",
        Needed.write,
        conflict=OTHER_SYNONYM,
        fails=(404,),
        may_repeat=False,
        command="acronyms confirm",
    )
    def confirm_acronym(self, acronym_id: int) -> Acronym:
        """Make an acronym and its expansion synonyms"""

    @post("/acronyms/{acronym_id}/reject", Needed.write, fails=(404,), command="acronyms reject")
    def reject_acronym(self, acronym_id: int) -> Acronym:
        """Reject an acronym: it is not proposed again, and its synonym is deleted"""


WordsWith = Annotated[
    str | None,
    Argument(
        kind=Text(most=MAX_WORD_CHARS),
        option="containing",
        metavar="TEXT",
        about="only words that contain this, ignoring case and accents",
    ),
]


class VocabularyOperations:
    """Operations on learned words."""

    @get("/vocabulary", Needed.read, command="vocabulary")
    def vocabulary(self, *, q: WordsWith = None, limit: Limit = 50, offset: Offset = 0) -> WordPage:
        """List learned words with their reefs and evidence, most frequent first"""

    @each(vocabulary)
    def each_word(self, *, q: str | None = None) -> Iterable[LearnedWord]:
        """All learned words, read page by page"""


_URL = "where webhooks are sent; of a host that `SHOAL_WEBHOOK_HOSTS` lists"
_NAME = f"unique, up to {of_saved.MAX_NAME_CHARS} characters"
_SCORE = "lowest `match_score` of a match, 0 to 1"
_SECRET = (
    f"signs the webhooks, {of_saved.MIN_SECRET_CHARS} to {of_saved.MAX_SECRET_CHARS} printable "
    "ASCII characters without spaces"
)
_ACTIVE = "whether new documents are reported"
_SOON = "A worker sends it soon"


class SavedSearchOperations:
    """Operations on saved searches. Arguments and results are those of `engine.saved_searches`.

    They need a key with the right `admin`. Unknown ids raise NotFoundError, invalid arguments InvalidError.
    """

    @post(
        "/saved-searches",
        Needed.admin,
        status=201,
        about="Saved; the secret is shown this once",
        fills=False,
        may_repeat=False,
        command="saved-search create",
    )
    def create_saved_search(
        self,
        name: Annotated[str, Argument(kind=Text(), about=_NAME)],
        search: Annotated[
            Mapping[str, Any], Argument(kind=OBJECT, about="the search, as for `POST /search`")
        ],
        *,
        url: Annotated[str, Argument(kind=Text(), about=_URL)],
        secret: Annotated[
            str | None, Argument(kind=Text(), about=f"{_SECRET}; default: a random one")
        ] = None,
        min_score: Annotated[float | None, Argument(kind=Number(0, 1), about=f"{_SCORE}; default 0")] = None,
        is_active: Annotated[bool | None, Argument(kind=Flag(), about=f"{_ACTIVE}; default true")] = None,
    ) -> NewSavedSearch:
        """Save a search that reports new matches

        When a job ends, those of its new passages that match are sent to `url`, signed with the secret.
        """

    @get("/saved-searches", Needed.admin, command="saved-search list")
    def saved_searches(self, *, limit: Limit = 50, offset: Offset = 0) -> SavedSearchPage:
        """List saved searches"""

    @each(saved_searches)
    def each_saved_search(self) -> Iterable[SavedSearch]:
        """All saved searches, read page by page"""

    @get("/saved-searches/{search_id}", Needed.admin, fails=(404,), command="saved-search show")
    def saved_search(self, search_id: int) -> SavedSearch:
        """Get a saved search, without its secret"""

    @patch(
        "/saved-searches/{search_id}", Needed.admin, fails=(404,), fills=False, command="saved-search change"
    )
    def change_saved_search(
        self,
        search_id: int,
        *,
        name: Annotated[str | None, Argument(kind=Text(), about=_NAME)] = None,
        search: Annotated[
            Mapping[str, Any] | None, Argument(kind=OBJECT, about="replaces the whole search")
        ] = None,
        url: Annotated[str | None, Argument(kind=Text(), about=_URL)] = None,
        secret: Annotated[str | None, Argument(kind=Text(), about=_SECRET)] = None,
        min_score: Annotated[float | None, Argument(kind=Number(0, 1), about=_SCORE)] = None,
        is_active: Annotated[
            bool | None,
            Argument(kind=Flag(), about=f"{_ACTIVE}; what came while it was false is not reported later"),
        ] = None,
    ) -> SavedSearch:
        """Change a saved search"""

    @delete(
        "/saved-searches/{search_id}",
        Needed.admin,
        fails=(404,),
        may_repeat=False,
        command="saved-search delete",
    )
    def delete_saved_search(self, search_id: int) -> None:
        """Delete a saved search and its webhooks"""

    @post(
        "/saved-searches/{search_id}/test",
        Needed.admin,
        status=202,
        about=_SOON,
        fails=(404, 503),
        may_repeat=False,
        command="saved-search test",
    )
    def test_saved_search(self, search_id: int) -> DeliveryDetail:
        """Send a test webhook with the best matches of the library"""

    @get(
        "/saved-searches/{search_id}/deliveries",
        Needed.admin,
        fails=(404,),
        command="saved-search deliveries",
    )
    def webhook_deliveries(
        self,
        search_id: int,
        *,
        status: Annotated[
            str | None, Argument(kind=Choice(DeliveryStatus), about="only webhooks with this status")
        ] = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> DeliveryPage:
        """List the webhooks of a saved search, newest first"""

    @get("/saved-searches/{search_id}/deliveries/{delivery_id}", Needed.admin, fails=(404,))
    def webhook_delivery(self, search_id: int, delivery_id: str) -> DeliveryDetail:
        """Get a webhook with its body"""

    @post(
        "/saved-searches/{search_id}/deliveries/{delivery_id}/redeliver",
        Needed.admin,
        status=202,
        about=_SOON,
        fails=(404,),
        command="saved-search redeliver",
    )
    def redeliver_webhook(self, search_id: int, delivery_id: str) -> DeliveryDetail:
        """Send a webhook again, under its id"""


OnlyEmpty = Annotated[
    bool, Argument(kind=Flag(), option="empty", about="only queries without results; default false")
]
OfResult = Annotated[int | None, Argument(kind=Whole(1, MAX_ID), about="of the result")]


class QueryLogOperations:
    """Operations on the query log. All but `report_click` need a key with the right `admin`."""

    @get("/queries", Needed.admin, command="queries list")
    def queries(
        self, *, only_empty: OnlyEmpty = False, limit: Limit = 50, offset: Offset = 0
    ) -> LoggedQueryPage:
        """List logged queries, newest first"""

    @each(queries)
    def each_query(self, *, only_empty: bool = False) -> Iterable[LoggedQuery]:
        """All logged queries, newest first, read page by page"""

    @delete("/queries", Needed.admin, answer=ClearedQueries, command="queries clear")
    def clear_queries(self) -> int:
        """Delete all logged queries and clicks"""

    @get("/queries/frequent", Needed.admin, command="queries frequent")
    def frequent_queries(
        self,
        *,
        prefix: Annotated[
            str | None,
            Argument(
                kind=Value({"type": "string"}),
                default="",
                metavar="TEXT",
                about=f"how they begin, up to {MAX_PREFIX_CHARS} characters",
            ),
        ] = None,
        days: Annotated[int | None, Argument(kind=Whole(1, MAX_DAYS), about="only of the last days")] = None,
        min_searches: Annotated[
            int | None,
            Argument(kind=Whole(1, MAX_COUNT), default=2, about="fewest searches; default 2"),
        ] = None,
        only_empty: Annotated[
            bool,
            Argument(
                kind=Flag(), option="empty", about="only queries that never had a result; default false"
            ),
        ] = False,
        limit: Annotated[int, Argument(kind=Whole(1, MAX_FREQUENT), about="most queries to return")] = 50,
    ) -> FrequentQueries:
        """List the most frequent queries"""

    @get("/queries/judged", Needed.admin, command="queries judged")
    def judged_queries(
        self,
        *,
        min_clicks: Annotated[
            int, Argument(kind=Whole(1, MAX_COUNT), about="fewest clicks on a document; default 1")
        ] = 1,
    ) -> ClickedQueries:
        """List judged queries made from clicks

        One line of JSON for each is what `shoal evaluate` reads.
        """

    @post("/queries/{trace_id}/clicks", Needed.read, fails=(404,), fills=False, command="queries click")
    def report_click(self, trace_id: str, *, chunk_id: OfResult = None, document_id: OfResult = None) -> None:
        """Report that a result of a search was opened

        `trace_id` is that of the response to the search. A key that may read is enough.
        """


class LibraryOperations(
    PinOperations, SynonymOperations, VocabularyOperations, SavedSearchOperations, QueryLogOperations
):
    """All of them."""
