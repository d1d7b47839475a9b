"""What the command line shows of reranking."""

import io
from pathlib import Path

from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer
from rich.console import Console

from shoal.cli.explanation import print_explanation
from shoal.cli.results import print_search, reranked_by
from shoal.cli.session import json_form
from shoal.engine import Engine

QUERY = "the lava of a volcano"


def test_results_and_explanations_say_what_was_reranked(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer(), encoder=FakeEncoder()) as engine:
        engine.ingest(content="The lava of the volcano was red. It was hot.", title="Fire")
        engine.ingest(content="The ash of a volcano fell on the town. It was grey.", title="Ash")
        answer = json_form(engine.search(QUERY, rerank=20, include_scores=True))
        shown = _shown(lambda console: print_search(console, answer, with_scores=True, query=QUERY))
        assert f"fake reordered the first {len(answer['results'])} results in" in shown
        first = answer["results"][0]
        assert (
            f"reranked from number {first['rerank']['blend_rank']}: {first['rerank']['score']:.2f} =" in shown
        )
        plain = json_form(engine.search(QUERY, include_scores=True))
        assert "rerank" not in _shown(
            lambda console: print_search(console, plain, with_scores=True, query=QUERY)
        )
        explanation = json_form(engine.explain(QUERY, chunk_id=first["chunk_id"], rerank=20))
        explanation["target"]["chunk_index"] = 0
        explanation["feedback"] = []
        assert "Reranked from number" in _shown(lambda console: print_explanation(console, explanation))


def test_a_fallback_is_not_called_reranking() -> None:
    info = {"name": "", "revision": "", "n": 0, "ms": 2000.0, "fallback": "late"}
    assert reranked_by(info) == reranked_by(None) == ""
    assert (
        reranked_by({**info, "name": "m", "n": 1, "fallback": None})
        == "m reordered the first result in 2000 ms"
    )


def _shown(show: object) -> str:
    output = io.StringIO()
    assert callable(show)
    show(Console(file=output, width=200))
    return output.getvalue()
