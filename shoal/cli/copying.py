"""The command that copies a library to another database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.progress import bar
from shoal.cli.session import MAIN, Session, command, json_form
from shoal.cli.terminal import quantity

if TYPE_CHECKING:
    from shoal.maintenance.copying import CopyResult, CopyStep
    from shoal.settings import Settings

SQLITE, POSTGRES = "sqlite:///", "postgresql://"

SourceUrl = Annotated[
    str, typer.Argument(metavar="SOURCE", help="The library: a path, sqlite:///PATH or postgresql://…")
]
TargetUrl = Annotated[
    str, typer.Argument(metavar="TARGET", help="An empty database, or an unfinished copy: a path or URL.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "copy")(copy)


def copy(
    session: Session,
    source: SourceUrl,
    target: TargetUrl,
    without_jobs: Annotated[
        bool, typer.Option("--without-jobs", help="Leave out jobs that are not finished.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin an unfinished copy again, from the first row.")
    ] = False,
    all_collections: Annotated[
        bool, typer.Option("--all-collections", help="Copy main and every other collection.")
    ] = False,
) -> None:
    """Copy a whole library to another database, such as from SQLite to PostgreSQL.

    Everything is copied with its ids and times: documents, vectors, learned words, notes, synonyms, saved
    searches, logged queries and finished jobs. The search index is not: it is built from the copy. At the
    end, every row of the copy is compared with the source.

    The copy is the state of SOURCE at its beginning, and SOURCE never changes. Stop the services of SOURCE
    first, or the copy lacks the changes that they make meanwhile; the exit code is then 1. After an
    interruption, the same command continues. Jobs that are not finished are an error, unless --without-jobs
    leaves them out.

    One run copies one library: the collection main, or the one of --collection, to the collection of the same
    name of TARGET, which is created if it is missing. --all-collections copies main and all others, one after
    the other; they get new ids. Keys, uploaded files and names of vector stores are not copied.

    \b
        shoal copy shoal.db "postgresql://shoal@db.example/library?schema=shoal"
        shoal copy --collection birds shoal.db "postgresql://shoal@db.example/library?schema=shoal"
        shoal copy --all-collections shoal.db "postgresql://shoal@db.example/library?schema=shoal"
        shoal copy "postgresql://shoal@db.example/library?schema=shoal" shoal.db
    """
    from shoal.maintenance.copying import copy_library

    name = session.settings().collection
    if all_collections:
        if session.collection is not None:
            raise typer.BadParameter(
                "is for one collection; give it or --all-collections", param_hint="--collection"
            )
        _copy_all(
            session,
            _database_url(source, "SOURCE"),
            _database_url(target, "TARGET"),
            without_jobs=without_jobs,
            restart=restart,
        )
        return
    with (
        _libraries(_database_url(source, "SOURCE"), _database_url(target, "TARGET"), name) as (
            source_url,
            target_url,
        ),
        bar(session.err, "copy", bytes_total=0) as progress_bar,
    ):

        def watch(step: CopyStep) -> None:
            progress_bar.title(f"{step.doing} {step.table}")
            progress_bar.move_to(step.n_bytes, step.n_done, bytes_total=0, items_total=step.n_total)

        result = copy_library(
            source_url,
            target_url,
            without_jobs=without_jobs,
            restart=restart,
            watch=watch,
        )
    session.emit(result)
    _say_result(session, result)
    n_others = _count_collections(_database_url(source, "SOURCE")) if name == MAIN else 0
    if n_others:
        session.warn(
            f"{quantity(n_others, 'collection')} of SOURCE left out: `shoal collection list` names them, "
            "`shoal copy --collection NAME SOURCE TARGET` copies one, --all-collections all of them"
        )
    if not result.is_source_unchanged:
        raise typer.Exit(1)


def _copy_all(session: Session, source: str, target: str, *, without_jobs: bool, restart: bool) -> None:
    """Copy all collections, with a line for each."""
    from shoal.collections.copying import copy_all

    done: dict[str, CopyResult | None] = {}
    n_collections = 1 + _count_collections(source)
    with bar(session.err, "copy", bytes_total=0) as progress_bar:

        def watch(name: str, step: CopyStep) -> None:
            progress_bar.title(f"{name} ({len(done) + 1:,} of {n_collections:,}): {step.doing} {step.table}")
            progress_bar.move_to(step.n_bytes, step.n_done, bytes_total=0, items_total=step.n_total)

        copies = copy_all(
            _settings(source), _settings(target), without_jobs=without_jobs, restart=restart, watch=watch
        )
        for copied in copies:
            done[copied.name] = copied.result
            session.say(f"collection {copied.name}, {len(done):,} of {n_collections:,}:")
            if copied.result is None:
                session.say("copied before, and not changed since")
            else:
                _say_result(session, copied.result)
    n_keys = _count_keys(source)
    session.emit({"collections": json_form(done), "keys_left_out": n_keys})
    if n_keys:
        session.warn(
            f"{quantity(n_keys, 'key')} of SOURCE left out: `shoal key create` makes others on TARGET"
        )
    if any(result is not None and not result.is_source_unchanged for result in done.values()):
        raise typer.Exit(1)


def _say_result(session: Session, result: CopyResult) -> None:
    session.say(
        f"{quantity(result.n_documents, 'document')} ({quantity(sum(result.n_rows.values()), 'row')}) in "
        f"{result.target}, compared with {result.source}"
    )
    if result.jobs_left_out:
        session.say(f"left out: {quantity(result.jobs_left_out, 'job')} not finished")
    for table, n_rows in result.left_out.items():
        session.say(f"left out: {quantity(n_rows, 'row')} of {table}, whose keys are too long for PostgreSQL")
    if not result.is_source_unchanged:
        session.warn(
            f"{result.source} was changed during the copy, and the copy lacks these changes: stop its "
            "services and copy it to another, empty database"
        )


@contextmanager
def _libraries(source: str, target: str, name: str) -> Iterator[tuple[str, str]]:
    """The URLs of a collection in two installations; that of the target is created if it is missing.

    Raises NotFoundError if the source has no such collection, and StorageError.
    """
    if name == MAIN:
        yield source, target
        return
    from shoal.collections.copying import paired
    from shoal.collections.registry import Registry

    with (
        closing(Registry(_settings(source))) as sources,
        closing(Registry(_settings(target))) as targets,
        paired(sources, targets, sources.catalog.find(name)) as (_, source_url, target_url),
    ):
        yield source_url, target_url


def _count_collections(url: str) -> int:
    """The number of collections besides main in an installation, without creating its catalog."""
    from shoal.collections.catalog import Catalog

    with closing(Catalog(_settings(url))) as catalog:
        return 0 if catalog.existing_database() is None else catalog.count() - 1


def _count_keys(url: str) -> int:
    """The number of keys in the catalog of an installation, without creating it."""
    from shoal.access.key_store import KeyStore
    from shoal.collections.catalog import Catalog

    with closing(Catalog(_settings(url))) as catalog:
        return KeyStore(catalog).page(1).total


def _settings(url: str) -> Settings:
    from shoal.settings import Settings

    return Settings.from_environment(database_url=url)


def _database_url(path_or_url: str, parameter: str) -> str:
    """The URL of a path or URL. Raises typer.BadParameter."""
    if path_or_url.startswith(POSTGRES):
        return path_or_url
    path = path_or_url.removeprefix(SQLITE)
    if "://" in path or not path or Path(path).expanduser().is_dir():
        raise typer.BadParameter(
            f"must be a path, {SQLITE}PATH or {POSTGRES}USER@HOST/DATABASE?schema=NAME",
            param_hint=parameter,
        )
    return f"{SQLITE}{Path(path).expanduser()}"
