"""`python -m shoal_worker`: run a worker with the settings of the environment."""

from __future__ import annotations

import gc
import sys

if __name__ == "__main__":
    # What imports make stays. Without collections among it, the imports take a tenth less time.
    gc.disable()

    from shoal.errors import ShoalError
    from shoal_worker.process import main

    try:
        sys.exit(main())
    except ShoalError as error:
        sys.exit(f"shoal worker: {error}")
