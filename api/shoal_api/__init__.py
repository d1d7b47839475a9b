"""The HTTP service: validates, accepts, enqueues, searches. `create_app` builds it, `python -m shoal_api`
serves it."""

from shoal_api.app import create_app

__all__ = ["create_app"]
