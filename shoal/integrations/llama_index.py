"""A retriever for LlamaIndex.

from shoal import Engine
from shoal.integrations.llama_index import ShoalRetriever

retriever = ShoalRetriever(Engine(db_path="shoal.db"), {"top_k": 5, "context": 1})
nodes = retriever.retrieve("how bees find food")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from shoal.integrations.passages import Searcher, find_passages

SHOWN_TO_MODELS = frozenset({"document_title", "source_path", "section_path", "start_line", "end_line"})
"""Metadata that LlamaIndex puts before a language model with the text; the rest stays with the node."""


class ShoalRetriever(BaseRetriever):
    """Passages of a Shoal library as nodes with scores; `metadata` has the citation and `reefs`.

    `searcher` is a `shoal.Engine` or a `shoal.client.Client`; `arguments` are those of its search (`top_k`, `mode`,
    `filters`, `context` and so on).
    """

    def __init__(
        self, searcher: Searcher, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        """`options` are those of every LlamaIndex retriever."""
        super().__init__(**options)
        self._searcher = searcher
        self._arguments = dict(arguments or {})

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(
                    id_=one.id,
                    text=one.text,
                    metadata=dict(one.metadata),
                    excluded_llm_metadata_keys=sorted(one.metadata.keys() - SHOWN_TO_MODELS),
                    excluded_embed_metadata_keys=sorted(one.metadata),
                ),
                score=one.score,
            )
            for one in find_passages(self._searcher, query_bundle.query_str, self._arguments)
        ]
