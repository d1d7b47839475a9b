"""`python -m shoal_api`: the service with the settings of the environment."""

from __future__ import annotations

import gc
import sys

if __name__ == "__main__":
    # What imports make stays. Without collections among it, the imports take a tenth less time.
    gc.disable()

    from shoal.errors import ShoalError
    from shoal.settings import Settings
    from shoal_api.runner import serve

    try:
        serve(Settings.from_environment())
    except ShoalError as error:
        sys.exit(f"shoal serve: {error}")
