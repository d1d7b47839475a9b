"""The commands `shoal encoder …`."""

from __future__ import annotations

import typer

from shoal.cli.embedding import embed
from shoal.cli.encoder_setup import check, convert
from shoal.cli.session import command


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Use a neural encoder, which is optional.", no_args_is_help=True)
    command(group, "check")(check)
    command(group, "convert")(convert)
    command(group, "embed")(embed)
    app.add_typer(group, name="encoder")
