"""The command `shoal`: use the library or a running service from a terminal.

Exit codes: 0 success, 1 failure (the reason is on stderr), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OF_PEOPLE = frozenset({"-h", "--help", "--print-config", "--json", "--debug"})
"""Options with which a person calls `shoal hook`. Without them, an agent waits for the answer, and it comes
without the import of the command line."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `shoal` with `arguments` (default: those of the process) and exit."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["hook"] and not OF_PEOPLE.intersection(given):
        from shoal import hook

        hook.main(given[1:])
    try:
        # Imported here: child processes of `ingest-dir` import this package without the command line.
        from shoal.cli.app import run

        code = run(given)
    except KeyboardInterrupt:
        # Ctrl-C during an import. Commands that have started report their own progress.
        sys.stderr.write("interrupted\n")
        code = 130
    sys.exit(code)
