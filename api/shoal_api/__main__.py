"""`python -m shoal_api`: the service with the settings of the environment."""

from __future__ import annotations

import sys

from shoal.errors import ShoalError
from shoal.settings import Settings
from shoal_api.runner import serve

if __name__ == "__main__":
    try:
        serve(Settings.from_environment())
    except ShoalError as error:
        sys.exit(f"shoal serve: {error}")
