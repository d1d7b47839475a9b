"""The pages of the console: each gathers what one template shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flask
from markupsafe import Markup

from shoal.charts.reef_map import lay_out, map_svg
from shoal.charts.ribbon import read_ribbon, row_svg, strip_svg
from shoal.errors import NotFoundError, QueryError
from shoal.jobs import jobs as protocol
from shoal.jobs.names import ItemStatus, JobStatus
from shoal.models import DocFormat, SearchMode
from shoal.search.request import Preset
from shoal.search.similar import SimilarChunk
from shoal.settings import KIB, MIB
from shoal.storage.overview import chunks_of_reef, frequent_tags, main_reefs
from shoal_api import service
from shoal_api.console import figures
from shoal_api.console.layout import page
from shoal_api.paths import ID

RESULTS = 10
DOCUMENTS = 50
CHUNKS = 20
ITEMS = 100
WORDS = 50
TAGS = 60
MAX_PAGES = 1_000
LIST_SEPARATOR = ","

blueprint = flask.Blueprint("console", __name__)


@blueprint.app_template_global()
def turn(number: int) -> str:
    """The address of this page with another page of its list."""
    asked = {name: value for name, value in flask.request.args.items() if name != "page"}
    assert flask.request.endpoint is not None, "a template is drawn for a page"
    here: dict[str, Any] = {**(flask.request.view_args or {}), **asked, "page": number}
    return flask.url_for(flask.request.endpoint, **here)


blueprint.add_app_template_global(figures.score_bar)
blueprint.add_app_template_global(figures.score_shares, "score_parts")
blueprint.add_app_template_global(figures.greatest)
blueprint.add_app_template_global(figures.runs, "runs")
blueprint.add_app_template_global(figures.length, "length_bar")
blueprint.add_app_template_global(figures.citation, "citation")


@blueprint.app_template_filter()
def readable_bytes(n_bytes: int) -> str:
    """A size for people."""
    if n_bytes < KIB:
        return f"{n_bytes} B"
    if n_bytes < MIB:
        return f"{n_bytes / KIB:.0f} KiB"
    return f"{n_bytes / MIB:.1f} MiB".replace(".0 ", " ")


@blueprint.app_template_filter()
def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


@blueprint.get("/")
@page
def search() -> tuple[str, Mapping[str, Any]]:
    """Ask, and see why."""
    engine = service.current().engine
    asked = flask.request.args
    with engine.database.snapshot() as snapshot:
        tags = frequent_tags(snapshot, TAGS)
    shown: dict[str, Any] = {
        "asked": asked,
        "tags": tags,
        "modes": [mode.value for mode in SearchMode],
        "presets": [preset.value for preset in Preset],
        "formats": [kind.value for kind in DocFormat],
        "archipelagos": engine.scorer.archipelagos,
        "n_documents": engine.documents(limit=0).total,
        "answer": None,
    }
    query = asked.get("q", "").strip()
    if query:
        number = _page_number()
        shown["page"] = number
        shown["answer"] = engine.search(
            query,
            top_k=RESULTS,
            offset=(number - 1) * RESULTS,
            include_scores=True,
            filters=_filters(asked),
            mode=asked.get("mode") or SearchMode.hybrid,
            preset=asked.get("preset") or Preset.balanced,
        )
        shown["words"] = engine.explain(query).words
    return "search.html", shown


@blueprint.get("/library")
@page
def library() -> tuple[str, Mapping[str, Any]]:
    """What there is, and a door to bring more."""
    engine = service.current().engine
    number = _page_number()
    tag, q = flask.request.args.get("tag") or None, flask.request.args.get("q") or None
    found = engine.documents(tag=tag, q=q, limit=DOCUMENTS, offset=(number - 1) * DOCUMENTS)
    with engine.database.snapshot() as snapshot:
        reefs = main_reefs(snapshot, [document.id for document in found.documents], 3)
        tags = frequent_tags(snapshot, TAGS)
    return "library.html", {
        "found": found,
        "reefs": reefs,
        "tags": tags,
        "tag": tag,
        "q": q,
        "page": number,
        "per_page": DOCUMENTS,
        "max_document": service.current().settings.max_document_bytes,
    }


@blueprint.get(f"/documents/<{ID}:document_id>")
@page
def document(document_id: int) -> tuple[str, Mapping[str, Any]]:
    """One document: its ribbon, its sections, and its chunks in place."""
    here = service.current()
    engine = here.engine
    detail = engine.document(document_id)
    wanted = _whole("chunk", 0)
    first = max(0, min(wanted - 2, detail.document.n_chunks - 1)) if "chunk" in flask.request.args else 0
    chunks = engine.chunks(document_id, limit=CHUNKS, offset=first, n_reefs=5)
    with engine.database.snapshot() as snapshot:
        ribbon = read_ribbon(snapshot, document_id, engine.scorer)
    alike: Sequence[SimilarChunk] = ()
    chosen = next((one for one in chunks.chunks if one.chunk_index == wanted), None)
    if chosen is not None and "chunk" in flask.request.args:
        alike = engine.similar(chosen.id, top_k=5)
    firsts = _first_chunks(detail.sections)
    return "document.html", {
        "document": detail.document,
        "report": detail.report,
        "sections": [
            (section, firsts[section.section_index]) for section in detail.sections if section.n_chunks
        ],
        "chunks": chunks.chunks,
        "first": first,
        "per_page": CHUNKS,
        "chosen": chosen if "chunk" in flask.request.args else None,
        "alike": alike,
        "ribbon": ribbon,
        "strip": Markup(strip_svg(ribbon)),  # noqa: S704 - drawn from numbers and escaped names
        "rows": [(row, Markup(row_svg(row))) for row in ribbon.rows],  # noqa: S704
        "starts": [piece.start_char for piece in ribbon.pieces],
    }


@blueprint.get("/jobs")
@page
def jobs() -> tuple[str, Mapping[str, Any]]:
    """What was handed over, and how far it is."""
    database = service.current().engine.database
    number = _page_number()
    status = flask.request.args.get("status") or None
    try:
        wanted = JobStatus(status) if status else None
    except ValueError:
        raise QueryError("status", f"{status[:40] if status else ''!r} is no status of a job") from None
    return "jobs.html", {
        "jobs": protocol.list_jobs(database, wanted, DOCUMENTS, (number - 1) * DOCUMENTS),
        "total": protocol.count_jobs(database, wanted),
        "statuses": [each.value for each in JobStatus],
        "status": status,
        "page": number,
        "per_page": DOCUMENTS,
    }


@blueprint.get(f"/jobs/<{ID}:job_id>")
@page
def job(job_id: int) -> tuple[str, Mapping[str, Any]]:
    """One job: live while it runs, and what failed."""
    here = service.current()
    database = here.engine.database
    found = protocol.get_job(database, job_id)
    waves = [] if found.ended else protocol.get_waves(database, job_id)
    number = _page_number()
    failed = (
        protocol.get_items(database, job_id, ItemStatus.failed, ITEMS, 0) if found.progress.failed else []
    )
    return "job.html", {
        "job": found,
        "estimate": here.paces.estimate(found, waves),
        "failed": failed,
        "items": protocol.get_items(database, job_id, None, ITEMS, (number - 1) * ITEMS),
        "total": found.progress.total,
        "page": number,
        "per_page": ITEMS,
    }


@blueprint.get("/reefs")
@page
def reefs() -> tuple[str, Mapping[str, Any]]:
    """The map of the library."""
    engine = service.current().engine
    counts = {reef["id"]: reef["n_chunks"] for reef in engine.reefs()["reefs"]}
    scorer = engine.scorer
    address = flask.url_for("console.reef", reef_id=0)[:-1] + "{}"
    by_island = {
        island.id: [(reef, counts[reef.id]) for reef in scorer.reefs if reef.island_id == island.id]
        for island in scorer.islands
    }
    return "reefs.html", {
        "map": Markup(map_svg(lay_out(scorer, counts), address)),  # noqa: S704 - escaped there
        "archipelagos": scorer.archipelagos,
        "islands": scorer.islands,
        "by_island": by_island,
        "most": max(counts.values(), default=0),
        "n_chunks": sum(counts.values()),
    }


@blueprint.get("/reefs/<int:reef_id>")
@page
def reef(reef_id: int) -> tuple[str, Mapping[str, Any]]:
    """One reef: its typical words, and the chunks that are most about it."""
    engine = service.current().engine
    scorer = engine.scorer
    found = next((each for each in scorer.reefs if each.id == reef_id), None)
    if found is None:
        raise NotFoundError(f"there is no reef {reef_id}")
    with engine.database.snapshot() as snapshot:
        best = chunks_of_reef(snapshot, reef_id, RESULTS)
    island = next(each for each in scorer.islands if each.id == found.island_id)
    return "reef.html", {
        "reef": found,
        "island": island,
        "archipelago": next(each for each in scorer.archipelagos if each.id == island.archipelago_id),
        "neighbours": [each for each in scorer.reefs if each.island_id == island.id and each.id != reef_id],
        "best": best,
    }


@blueprint.get("/vocabulary")
@page
def vocabulary() -> tuple[str, Mapping[str, Any]]:
    """The words that were learned here."""
    number = _page_number()
    q = flask.request.args.get("q") or None
    found = service.current().engine.vocabulary(q=q, limit=WORDS, offset=(number - 1) * WORDS)
    return "vocabulary.html", {"found": found, "q": q, "page": number, "per_page": WORDS}


def _filters(asked: Mapping[str, str]) -> dict[str, Any]:
    """The filters of the form; what is left open is not asked for. Raises QueryError."""
    filters: dict[str, Any] = {}
    tags = [tag.strip() for tag in asked.get("tags", "").split(LIST_SEPARATOR) if tag.strip()]
    if tags:
        filters["tags"] = tags
    if asked.get("format"):
        filters["format"] = asked["format"]
    if asked.get("archipelago"):
        filters["archipelago"] = _whole("archipelago", 0)
    if asked.get("document"):
        filters["document_ids"] = [_whole("document", 0)]
    if asked.get("min_confidence"):
        try:
            filters["min_confidence"] = float(asked["min_confidence"])
        except ValueError:
            raise QueryError("min_confidence", "must be a number") from None
    return filters


def _page_number() -> int:
    number = _whole("page", 1)
    if not 1 <= number <= MAX_PAGES:
        raise QueryError("page", f"must be between 1 and {MAX_PAGES:,}")
    return number


def _whole(name: str, default: int) -> int:
    """A whole number of the address. Raises QueryError."""
    given = flask.request.args.get(name)
    if given is None or given == "":
        return default
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise QueryError(name, "must be a whole number")
    return int(given)


def _first_chunks(sections: Any) -> dict[int, int]:
    """The number of the first chunk of each section, by the section's place."""
    firsts, at = {}, 0
    for section in sections:
        firsts[section.section_index] = at
        at += section.n_chunks
    return firsts
