"""What follows from the declaration of an operation: its route, its checks, its document and both clients."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fake_scorer import FakeScorer

from shoal.client import AsyncClient, Client, InvalidError
from shoal.declared.arguments import Argument, Text, Whole
from shoal.declared.operations.operation import delete, get, operations_of, post
from shoal.engine import Engine
from shoal.models.keys import Needed
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.openapi import Blueprint

Shell = Annotated[str, Argument(kind=Text(most=20), about="what it lives in")]


@dataclass(frozen=True)
class Snail:
    """A snail."""

    id: Annotated[int, "id of the snail"]
    shell: Annotated[str, "what it lives in"]


class SnailOperations:
    """The declaration: the first of two places."""

    @get("/snails/{snail_id}", Needed.read, fails=(404,))
    def snail(
        self,
        snail_id: int,
        *,
        pace: Annotated[int | None, Argument(kind=Whole(1, 9), default=3, about="how fast")] = None,
    ) -> Snail:
        """Show a snail"""

    @post("/snails", Needed.write, status=201, about="Housed", may_repeat=False)
    def add_snail(self, shell: Shell) -> Snail:
        """House a snail"""

    @delete("/snails/{snail_id}", Needed.write, fails=(404,))
    def delete_snail(self, snail_id: int) -> bool:
        """Let a snail go"""


blueprint = Blueprint("snails", __name__, description="Snails")


@blueprint.serves(SnailOperations.snail)
def get_snail(query: dict[str, Any], snail_id: int) -> Any:
    """The behaviour: the second."""
    return Snail(snail_id, f"at pace {query['pace']}")


@blueprint.serves(SnailOperations.add_snail)
def add_snail(data: dict[str, Any]) -> Any:
    return Snail(7, **data)


@blueprint.serves(SnailOperations.delete_snail)
def delete_snail(snail_id: int) -> None:
    assert snail_id == 7


class SnailClient(Client, SnailOperations):
    """A client with these operations."""


class AsyncSnailClient(AsyncClient, SnailOperations):
    """The same with coroutines."""


@pytest.fixture
def app(tmp_path: Path) -> Any:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/shoal.db")
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        made = create_app(settings, engine=engine)
        made.extensions["flask-smorest"]["blp_name_to_api"]["pins"].register_blueprint(blueprint)
        yield made


def test_requests_are_checked_by_the_declared_arguments(app: Any) -> None:
    client = app.test_client()
    assert client.get("/api/v1/snails/4").get_json() == {"id": 4, "shell": "at pace 3"}
    slow = client.get("/api/v1/snails/4?pace=10").get_json()
    assert slow["errors"] == {"pace": ["must be between 1 and 9"]}
    assert client.get("/api/v1/snails/4?paces=1").status_code == 422
    assert client.post("/api/v1/snails", json={"shell": "x" * 21}).status_code == 422
    assert client.post("/api/v1/snails", json={}).get_json()["errors"].keys() == {"shell"}


def test_both_clients_have_a_method_with_the_declared_signature(app: Any) -> None:
    transport = httpx.WSGITransport(app=app)
    with SnailClient("http://localhost", transport=transport) as client:
        assert client.add_snail("a pot") == Snail(7, "a pot")
        assert client.snail(4, pace=2) == Snail(4, "at pace 2")
        assert client.delete_snail(7)
        with pytest.raises(InvalidError):
            client.add_snail("x" * 21)
        with pytest.raises(TypeError, match="did you mean pace"):
            client.snail(4, pce=1)  # type: ignore[call-arg]
        assert str(inspect.signature(client.snail)) == "(snail_id: int, *, pace: int | None = None) -> Snail"
        assert (client.delete_snail.__doc__ or "").startswith("Let a snail go; false")

    async def use() -> Snail:
        answer = httpx.Response(200, json={"id": 1, "shell": "s", "new": 1})
        async with AsyncSnailClient("http://s", transport=httpx.MockTransport(lambda _: answer)) as client:
            return await client.snail(1)

    assert asyncio.run(use()) == Snail(1, "s")


def test_operations_are_listed_in_their_order() -> None:
    assert [each.address for each in operations_of(SnailOperations)] == [
        "/api/v1/snails/{snail_id}",
        "/api/v1/snails",
        "/api/v1/snails/{snail_id}",
    ]
