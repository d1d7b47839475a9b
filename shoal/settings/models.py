"""Settings of neural models."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import (
    at_least,
    between,
    check_encoder,
    check_header_value,
    check_http_url,
    check_reranker,
    one_of,
)
from shoal.settings.declaration import setting


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Neural models: a chat endpoint, an encoder and a reranker."""

    llm_url: str = setting(
        "",
        "OpenAI-compatible chat endpoint, such as `http://127.0.0.1:11434/v1`; transcripts of agents and "
        "notes that may be duplicates are sent there, and nowhere else. Empty: none, and agents submit their "
        "notes",
        check_http_url,
    )
    llm_key: str = setting("", "key of the chat endpoint", secret=True)
    llm_model: str = setting("", "name of the model that the chat endpoint runs")
    llm_daily_requests: int = setting(
        200, "most requests to the chat endpoint a day (UTC), of all processes; 0: none", at_least(0)
    )
    llm_timeout: float = setting(
        120.0, "longest wait for an answer of the chat endpoint, seconds", between(0.1, 3600)
    )

    # Encoder, a neural model that turns texts into vectors
    encoder: str = setting(
        "disabled",
        "`disabled`, `local:FOLDER` with an ONNX model and its tokenizer, or the address of an "
        "OpenAI-compatible endpoint of embeddings, such as `http://127.0.0.1:11434/v1`, to which queries and "
        "passages are then sent (docs/encoder.md)",
        check_encoder,
    )
    encoder_model: str = setting("", "name of the model that the endpoint runs")
    encoder_key: str = setting("", "key of the endpoint", check_header_value, secret=True)
    encoder_query_prefix: str = setting(
        "", "text before each query, such as `query: `; empty: what the model's folder names, if anything"
    )
    encoder_document_prefix: str = setting(
        "", "text before each passage, such as `passage: `; empty: what the model's folder names, if anything"
    )
    encoder_max_tokens: int = setting(
        256,
        "tokens that are read of a text, at most those of the model; the rest is ignored. For an endpoint "
        "they are estimated",
        between(8, 32_768),
    )
    encoder_threads: int = setting(
        2, "texts that a local model embeds at the same time in each process", between(1, 256)
    )
    encoder_device: str = setting(
        "cpu", "where a local model runs: cpu, or cuda (needs onnxruntime-gpu)", one_of("cpu", "cuda")
    )
    encoder_batch: int = setting(
        32, "most texts in one request, or in one run on a GPU; on a CPU each runs alone", between(1, 1024)
    )
    encoder_timeout: float = setting(
        30.0, "longest wait for an endpoint, with all tries of a request, seconds", between(0.1, 3600)
    )
    reranker: str = setting(
        "encoder",
        "what reranks the first results: `encoder`, or `local:FOLDER` with a cross-encoder in ONNX",
        check_reranker,
    )
    rerank: int = setting(
        0, "first results that a search reranks unless it says otherwise; 0: none", between(0, 100)
    )
    rerank_seconds: float = setting(
        2.0,
        "longest reranking, seconds; after it, results keep their order, with a warning",
        between(0.01, 60),
    )
    embed: bool = setting(
        False, "1 embeds documents after their job, and searches use their vectors as a third signal"
    )
