"""The command `shoal encoder embed`: make the vectors of passages."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from shoal.cli.session import Session
from shoal.cli.shared_options import Key
from shoal.cli.terminal import quantity


def embed(
    session: Session,
    again: Annotated[
        bool,
        typer.Option("--again", help="Delete all vectors first, because the encoder has changed."),
    ] = False,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="Let the workers of this service do it, as a job."),
    ] = None,
    key: Key = None,
    wait: Annotated[bool, typer.Option("--wait", help="With --server: wait for the end of the job.")] = False,
) -> None:
    """Make the vectors of all passages that lack one.

    Passages with a vector are also found by similarity. Searches work meanwhile, and vectors join as they
    come. Unchanged passages keep their vectors. If the command is interrupted, the next run continues where
    it stopped. With SHOAL_EMBED=1, the workers of a service do this by themselves after each upload.

    \b
        SHOAL_ENCODER=local:minilm shoal encoder embed
        shoal encoder embed --again
    """
    if server is not None:
        if again:
            raise typer.BadParameter("works without --server only", param_hint="--again")
        from shoal.cli.jobs import embed_on

        embed_on(session, server, key, wait=wait)
        return
    if wait:
        raise typer.BadParameter("needs --server; without it the command always waits", param_hint="--wait")
    from shoal.cli.progress import bar

    started = time.monotonic()
    with session.engine() as engine:
        with bar(session.err, "embed", bytes_total=0) as progress_bar:
            result = engine.maintenance.embed(again=again, watch=progress_bar.follow)
        status = engine.status()
    for title, reason in result.failed:
        session.warn(f"failed: {title}: {reason}")
    if session.as_json:
        session.emit(
            {
                **result._asdict(),
                "n_chunks_to_embed": status.n_chunks_to_embed,
                "encoder": status.encoder,
            }
        )
    seconds = time.monotonic() - started
    session.say(
        f"{quantity(result.n_after - result.n_before, 'passage')} embedded, {result.n_after:,} of "
        f"{status.n_chunks:,} have a vector, {quantity(len(result.failed), 'document')} failed "
        f"({seconds:.1f} s)"
    )
    if result.failed:
        raise typer.Exit(1)
