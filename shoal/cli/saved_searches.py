"""The commands `shoal saved-search …`: searches that report new matches by webhook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from shoal.cli.search_options import SAVED, given, of_operation, options_of, values_of
from shoal.cli.session import Limit, Offset, Session, add_group
from shoal.cli.terminal import quantity
from shoal.declared.operations.library import SavedSearchOperations
from shoal.models.saved_searches import (
    Delivery,
    DeliveryDetail,
    DeliveryPage,
    NewSavedSearch,
    SavedSearch,
    SavedSearchPage,
)

SearchId = Annotated[int, typer.Argument(metavar="SEARCH", help="Number of the saved search.", min=1)]
DeliveryId = Annotated[str, typer.Argument(metavar="DELIVERY", help="Id of the webhook.")]
Url = Annotated[
    str, typer.Option("--url", metavar="URL", help="Where webhooks are sent (SHOAL_WEBHOOK_HOSTS).")
]
Secret = Annotated[
    str | None, typer.Option("--secret", metavar="TEXT", help="Signs the webhooks; default: a random one.")
]
MinScore = Annotated[
    float | None, typer.Option("--min-score", metavar="N", help="Lowest score of a match, 0 to 1.")
]
OPTIONS = options_of(SAVED, has_defaults=False)
DELIVERIES = of_operation(SavedSearchOperations.webhook_deliveries)


def register(app: typer.Typer) -> None:
    """Add the group of this module."""
    add_group(
        app,
        "saved-search",
        "Searches that report new matches by webhook (docs/saved-searches.md).",
        ("create", create, "saved search {saved_search[id]}; its secret, shown this once: {secret}"),
        ("list", list_searches, _say_page),
        ("show", show, _say),
        ("change", change, _say),
        ("delete", delete, "saved search {deleted} is deleted"),
        ("test", test, _say_delivery),
        ("deliveries", deliveries, _say_deliveries),
        ("redeliver", redeliver, _say_delivery),
        ("run", run, "{n_tries:,} tried; {waiting:,} waiting, {failed:,} given up"),
        declared={"create": OPTIONS, "change": OPTIONS, "deliveries": options_of(DELIVERIES)},
    )


def create(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of your own, unique.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    url: Url,
    secret: Secret = None,
    min_score: MinScore = None,
    **options: Any,
) -> NewSavedSearch:
    """Save a search that reports new matches.

    When a job ends, those of its new passages that match are sent to the URL. The secret that signs the
    webhooks is shown this once.

    \b
        shoal saved-search create Volcanoes "lava and ash" --url https://example.org/hook
    """
    search = {"query": query, **_given(options)}
    with session.engine() as engine:
        return engine.saved_searches.create(name, search, url=url, secret=secret, min_score=min_score or 0.0)


def list_searches(session: Session, limit: Limit = 50, offset: Offset = 0) -> SavedSearchPage:
    """List saved searches.

    \b
        shoal saved-search list
    """
    with session.engine() as engine:
        return engine.saved_searches.list(limit=limit, offset=offset)


def _say_page(session: Session, page: SavedSearchPage) -> None:
    for search in page.saved_searches:
        session.say(_line(search))
    session.say_rest(len(page.saved_searches), page.total, "no saved searches")


def show(session: Session, search: SearchId) -> SavedSearch:
    """Show a saved search, without its secret.

    \b
        shoal saved-search show 1
    """
    with session.engine() as engine:
        return engine.saved_searches.get(search)


def change(
    session: Session,
    search: SearchId,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Another name.")] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", metavar="QUERY", help="Another query; the options of the search go with it."),
    ] = None,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="Another address.")] = None,
    secret: Annotated[str | None, typer.Option("--secret", metavar="TEXT", help="Another secret.")] = None,
    min_score: MinScore = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Whether new documents are reported.")
    ] = None,
    **options: Any,
) -> SavedSearch:
    """Change a saved search.

    --query replaces the whole search, with the options of the search; these alone change the search that is
    saved.

    \b
        shoal saved-search change 1 --inactive
        shoal saved-search change 1 --min-relevance 0.5
    """
    search_now = {**({} if query is None else {"query": query}), **_given(options)}
    with session.engine() as engine:
        searches = engine.saved_searches
        if search_now and query is None:
            search_now = {**searches.get(search).search, **search_now}
        return searches.change(
            search,
            name=name,
            search=search_now or None,
            url=url,
            secret=secret,
            min_score=min_score,
            is_active=active,
        )


def delete(session: Session, search: SearchId) -> dict[str, int]:
    """Delete a saved search and its webhooks.

    \b
        shoal saved-search delete 1
    """
    with session.engine() as engine:
        engine.saved_searches.delete(search)
    return {"deleted": search}


def test(session: Session, search: SearchId) -> DeliveryDetail:
    """Send a test webhook with the best matches of the library.

    A worker sends it soon; without one, `shoal saved-search run` does.

    \b
        shoal saved-search test 1
    """
    with session.engine() as engine:
        return engine.saved_searches.test(search)


def deliveries(
    session: Session, search: SearchId, limit: Limit = 50, offset: Offset = 0, **options: Any
) -> DeliveryPage:
    """List the webhooks of a saved search with their outcome, newest first.

    \b
        shoal saved-search deliveries 1 --status failed
    """
    with session.engine() as engine:
        return engine.saved_searches.deliveries(
            search, limit=limit, offset=offset, **given(DELIVERIES, options)
        )


def _say_deliveries(session: Session, page: DeliveryPage) -> None:
    for delivery in page.deliveries:
        _say_delivery(session, delivery)
    session.say_rest(len(page.deliveries), page.total, "no webhooks")


def redeliver(session: Session, search: SearchId, delivery: DeliveryId) -> DeliveryDetail:
    """Send a webhook again, under its id.

    \b
        shoal saved-search redeliver 1 6f1c2a52-0a57-4a7e-b6a2-7b1f8a0d1c55
    """
    with session.engine() as engine:
        return engine.saved_searches.redeliver(search, delivery)


def run(session: Session) -> dict[str, int]:
    """Evaluate saved searches and send webhooks that are due, as a worker does.

    For a library without a service, after `shoal ingest` or `shoal sync`.

    \b
        shoal saved-search run
    """
    with session.engine() as engine:
        return {"n_tries": engine.saved_searches.run(), **engine.saved_searches.counts()}


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a search that were given, defaults of other searches included."""
    return {name: value for name, value in values_of(SAVED, options).items() if value is not None}


def _say(session: Session, search: SavedSearch) -> None:
    session.say(_line(search))
    session.say(f"  {json.dumps(dict(search.search), ensure_ascii=False)}")
    session.say(f"  {search.url}")
    if search.error:
        session.say(f"  not evaluated: {search.error}")


def _line(search: SavedSearch) -> str:
    notes = ["active" if search.is_active else "inactive"]
    if search.n_waiting:
        notes.append(f"{search.n_waiting:,} waiting")
    if search.n_failed:
        notes.append(f"{search.n_failed:,} given up")
    return f"{search.id}  {search.name}: {search.search['query']} ({', '.join(notes)})"


def _say_delivery(session: Session, delivery: Delivery | DeliveryDetail) -> None:
    tries = f", {quantity(delivery.attempts, 'try', 'tries')}" if delivery.attempts else ""
    error = f": {delivery.error}" if delivery.error else ""
    session.say(
        f"{delivery.delivery_id}  {delivery.created_at}  {delivery.event.value}, "
        f"{quantity(delivery.n_passages, 'passage')}, {delivery.status.value}{tries}{error}"
    )
