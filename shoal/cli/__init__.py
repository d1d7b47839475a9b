"""The command `shoal`: the library and a running service, from a terminal.

Exit codes: 0 done, 1 failed (the reason is on stderr), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `shoal` with these arguments (those of the process by default) and exit."""
    try:
        # Imported here: the children of `ingest-dir` import this package and need no command line.
        from shoal.cli.app import run

        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        # While something was imported; what has begun to work tells itself what it did.
        sys.stderr.write("interrupted\n")
        code = 130
    sys.exit(code)
