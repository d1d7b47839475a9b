"""The command `shoal`: use the library or a running service from a terminal.

Exit codes: 0 success, 1 failure (the reason is on stderr), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `shoal` with `arguments` (default: those of the process) and exit."""
    try:
        # Imported here: child processes of `ingest-dir` import this package without the command line.
        from shoal.cli.app import run

        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        # Ctrl-C during an import. Commands that have started report their own progress.
        sys.stderr.write("interrupted\n")
        code = 130
    sys.exit(code)
