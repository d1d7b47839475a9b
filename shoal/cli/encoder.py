"""The commands `shoal encoder …`."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.session import Key, Session, command
from shoal.cli.terminal import data_size, quantity
from shoal.errors import EncoderError, EncoderMismatchError

if TYPE_CHECKING:
    from shoal.settings import Settings


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
    """Make the vectors of all passages and notes that lack one.

    Passages with a vector are also found by similarity. Searches work meanwhile, and vectors join as they
    come. Unchanged passages keep their vectors. If the command is interrupted, the next run continues where
    it stopped. With SHOAL_EMBED=1, the workers of a service do this by themselves after each upload.

    \b
        SHOAL_ENCODER=minilm shoal encoder embed
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
        n_notes = engine.notes.embed()
        status = engine.status()
    for title, reason in result.failed:
        session.warn(f"failed: {title}: {reason}")
    session.emit(
        {
            **result._asdict(),
            "n_notes": n_notes,
            "n_chunks_to_embed": status.n_chunks_to_embed,
            "encoder": status.encoder,
        }
    )
    seconds = time.monotonic() - started
    session.say(
        f"{quantity(result.n_after - result.n_before, 'passage')} embedded, {result.n_after:,} of "
        f"{status.n_chunks:,} have a vector; {quantity(n_notes, 'note')} embedded; "
        f"{quantity(len(result.failed), 'document')} failed "
        f"({seconds:.1f} s)"
    )
    if result.failed:
        raise typer.Exit(1)


Output = Annotated[Path, typer.Argument(metavar="OUTPUT", help="A new folder.")]
Source = Annotated[
    Path | None,
    typer.Option(
        "--source",
        metavar="FOLDER",
        help="A BERT encoder as its makers publish it: config.json, model.safetensors, tokenizer.json. "
        "Default: the packaged all-MiniLM-L6-v2.",
    ),
]
Int8 = Annotated[
    bool, typer.Option("--int8", help="Quantise the weights: a quarter of the size, and about twice as fast.")
]


def check(session: Session) -> None:
    """Check that the encoder of the settings works, and how fast it is.

    Embeds about 60 short texts. Says whether paraphrases are nearer to each other than unrelated sentences;
    if not, the pooling or the prefixes are wrong, or it is no encoder of sentences. Says also whether the
    vectors of the library are of this encoder.

    \b
        SHOAL_ENCODER=minilm shoal encoder check
    """
    from shoal.encoders.conversion import MIN_SEPARATION, check_encoder
    from shoal.encoders.encoder import open_encoder, open_pair_scorer

    settings = session.library_settings()
    encoder = open_encoder(settings)
    if encoder is None:
        raise EncoderError("no encoder is configured: set SHOAL_ENCODER (docs/encoder.md)")
    result = check_encoder(encoder)
    scorer = open_pair_scorer(settings)
    reranker = None if scorer is None else scorer.identity
    if scorer is not None:
        scorer.score("rain", ["wind and rain"])
    stored = _library_encoder(session, settings)
    fits = None if stored is None else stored == result.identity._asdict()
    if session.as_json:
        session.emit(
            {
                **dataclasses.asdict(result),
                "identity": result.identity._asdict(),
                "separates": result.separates,
                "fits_library": fits,
                "reranker": None if reranker is None else reranker._asdict(),
            }
        )
    else:
        name, revision, dimension = result.identity
        session.say(f"encoder:      {name}, revision {revision}, {dimension} numbers a vector")
        session.say(f"reads:        the first {result.max_tokens} tokens of a text")
        session.say(f"first vector: after {result.first_seconds:.1f} s, with loading")
        session.say(f"passages:     {result.texts_per_second:.1f} a second, of about 180 tokens")
        session.say(f"queries:      {result.query_ms:.0f} ms each")
        session.say(
            f"paraphrases:  similarity {result.paraphrase_similarity:.2f}, unrelated sentences "
            f"{result.unrelated_similarity:.2f}; right in {100 * result.separation:.1f} % of comparisons"
        )
        if fits is not None:
            session.say(f"library:      its vectors are {'' if fits else 'not '}of this encoder")
        if reranker is not None:
            session.say(f"reranker:     {reranker.name}, revision {reranker.revision}")
    if not result.separates:
        raise EncoderError(
            f"the encoder does not separate paraphrases from unrelated sentences ({result.separation:.2f}; "
            f"at least {MIN_SEPARATION}); check its pooling and the prefixes of the settings"
        )
    if stored is not None and not fits:
        raise EncoderMismatchError(
            f"the vectors of the library are of {stored['name']} (revision {stored['revision']}, "
            f"{stored['dimension']} numbers); run `shoal encoder embed --again` to embed all "
            "passages with the present encoder"
        )


def _library_encoder(session: Session, settings: Settings) -> dict[str, Any] | None:
    """Return name, revision and dimension of the encoder of the library's vectors; None if it has none."""
    if not settings.may_exist:
        return None
    with session.engine() as engine:
        encoder = engine.status().encoder
    return None if encoder is None else dict(encoder)


def convert(session: Session, output: Output, source: Source = None, int8: Int8 = False) -> None:
    """Convert a BERT encoder to a folder that SHOAL_ENCODER can name.

    Needs the extra `build` of the package. Other models: export them with optimum or
    sentence-transformers.

    \b
        shoal encoder convert bert --source FOLDER --int8
        SHOAL_ENCODER=local:bert shoal encoder check
    """
    from shoal.encoders.conversion import convert as convert_model

    converted = convert_model(output, source=source, int8=int8)
    session.emit({**dataclasses.asdict(converted), "folder": str(converted.folder)})
    session.say(
        f"{converted.name} in {converted.precision}, {data_size(converted.n_bytes)}: "
        f"SHOAL_ENCODER=local:{converted.folder.absolute()}"
    )


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Use a neural encoder, which is optional.", no_args_is_help=True)
    command(group, "check")(check)
    command(group, "convert")(convert)
    command(group, "embed")(embed)
    app.add_typer(group, name="encoder")
