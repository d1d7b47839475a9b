"""Options that commands of several modules have."""

from __future__ import annotations

from typing import Annotated

import typer

Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        envvar="SHOAL_API_KEY",
        show_envvar=False,
        help="API key, if the service needs one. Prefer SHOAL_API_KEY: other users can see command lines.",
    ),
]
ChunkTokens = Annotated[
    str | None,
    typer.Option(
        "--chunk-tokens",
        metavar="LOW-HIGH",
        help="Cut into passages of so many tokens, such as 300-800, at changes of topic; any: wherever the "
        "topic changes. Default: that of the settings.",
    ),
]
Owner = Annotated[
    str | None,
    typer.Option("--owner", metavar="NAME", help="Whose notes. Default: SHOAL_NOTE_OWNER, default."),
]
