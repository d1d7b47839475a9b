"""Interfaces of other programs, thin over the operations: each is off until `SHOAL_DROP_IN` names it."""

from __future__ import annotations

import importlib

import flask

from shoal.settings import Settings
from shoal.settings.checks import interfaces_of


def register(app: flask.Flask, settings: Settings) -> None:
    """Add the routes of the interfaces that the settings name. The OpenAPI document has none of them."""
    for name in interfaces_of(settings.drop_in):
        blueprint = importlib.import_module(f"shoal_api.drop_in.{name}").blueprint
        app.extensions["flask-smorest"]["blp_name_to_api"].setdefault(blueprint.name, None)
        app.register_blueprint(blueprint)
