"""`python -m shoal_worker`: run a worker with the settings of the environment."""

from __future__ import annotations

import sys

from shoal.errors import ShoalError
from shoal_worker.process import main

if __name__ == "__main__":
    try:
        sys.exit(main())
    except ShoalError as error:
        sys.exit(f"shoal worker: {error}")
