"""The receiver of webhooks in tests of saved searches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from web_server import WebServer, response


@dataclass
class Receiver:
    """Takes webhooks at `url`."""

    server: WebServer
    url: str

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.server.bodies]

    def texts(self) -> list[list[str]]:
        """The texts of the passages of each webhook."""
        return [[passage["text"] for passage in event["passages"]] for event in self.events()]

    def answer(self, status: str, **headers: str) -> None:
        self.server.answers["/hook"] = response(status=status, **headers)
