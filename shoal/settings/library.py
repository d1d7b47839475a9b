"""Settings of what a library takes in and how it reads it: limits, sources, scoring, learning, models."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import (
    at_least,
    between,
    check_encoder,
    check_header_value,
    check_hosts,
    check_http_url,
    check_presets,
    check_reranker,
    check_token_range,
    one_of,
    percent,
    setting,
)
from shoal.support.byte_units import GIB, KIB, MIB


@dataclass(frozen=True, kw_only=True)
class InputLimits:
    """Limits of what documents, queries and uploads may have."""

    max_query_chars: int = setting(4096, "longest query, characters", at_least(1))
    # A hundred words take 0.3 s in 100,000 chunks and find nothing that the first few dozen do not.
    max_query_terms: int = setting(
        64,
        "most distinct words of a query that are searched for, words of phrases included, and most excluded "
        "words; the query's profile uses all words",
        between(1, 1000),
    )
    search_timeout: float = setting(
        10.0,
        "a search or another read of a request is stopped after this many seconds; 0: no limit",
        at_least(0),
    )
    max_top_k: int = setting(100, "most results a search may ask for", between(10, 10_000))
    max_title_chars: int = setting(512, "longest title, characters", at_least(1))
    max_source_path_chars: int = setting(1024, "longest source path, characters", at_least(1))
    max_tag_chars: int = setting(64, "longest tag, characters", at_least(1))
    max_tags: int = setting(64, "most tags of a document", at_least(0))
    max_metadata_bytes: int = setting(64 * KIB, "largest metadata of a document, bytes of JSON", at_least(2))
    max_document_bytes: int = setting(32 * MIB, "largest document, bytes of UTF-8", at_least(1))
    max_file_bytes: int = setting(
        128 * MIB, "largest file that is converted or fetched, such as a PDF, bytes", at_least(1)
    )
    max_upload_bytes: int = setting(2 * GIB, "largest upload, bytes", at_least(1))
    max_upload_items: int = setting(100_000, "most documents in one upload", at_least(1))
    max_archive_ratio: float = setting(
        200.0, "largest ratio of unpacked to packed size, for an archive and each file in it", at_least(1)
    )
    min_charset_confidence: float = setting(
        0.8, "lowest confidence at which an encoding other than UTF-8 is accepted, 0 to 1", between(0, 1)
    )


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """Files that are converted, and pages and files that are fetched."""

    keep_originals: bool = setting(
        False, "1 keeps the files that documents were converted from, for download and for PDF pages"
    )
    conversion_seconds: float = setting(
        90.0,
        "longest conversion of a file of 16 MiB, seconds; larger files get proportionally more",
        between(1, 3600),
    )
    conversion_memory_bytes: int = setting(
        2 * GIB, "most memory of the process that converts a file, bytes", at_least(256 * MIB)
    )
    ocr: bool = setting(
        False, "1 reads PDF pages without text with `tesseract`, if that program is installed"
    )

    office: str = setting(
        "",
        "program of LibreOffice that reads DOC and PPT files, such as `soffice`; empty: an error says so",
    )
    web_parts: str = setting(
        "main",
        "what is stored of a web page: main (its main content), masked (the rest too, as comments that no "
        "search finds), or all (everything is searched)",
        one_of("main", "masked", "all"),
    )

    # Pages and files of the web
    fetch_urls: str = setting(
        "",
        "hosts that documents may be fetched from, separated by commas: `example.org`, `*.example.org` for "
        "the names below it, `*` for any; `example.org:8080` for another port than 80 and 443. Empty: "
        "nothing is fetched",
        check_hosts,
    )
    fetch_private: str = setting(
        "",
        "those of these hosts, and of the mail servers of sources, that may have an address of this machine "
        "or of a private network, in the same form; ports do not matter",
        check_hosts,
    )
    # A worker that works longer than a fifth of `item_time_limit` on a small document is killed.
    fetch_seconds: float = setting(
        30.0, "longest fetch of one page or file with all redirects, seconds", between(0.1, 90)
    )

    # Places that are followed
    sources: str = setting(
        "",
        "addresses that sources may have (docs/sources.md), separated by spaces, such as `s3://reports "
        "/srv/texts`: each allows itself and what is below it. Empty: none",
    )
    secrets_dir: str = setting(
        "/run/secrets", "folder with the files that secrets of sources may be read from, as `file:NAME`"
    )


@dataclass(frozen=True, kw_only=True)
class ScoringSettings:
    """How texts are cut and scored, and how searches weigh the scores."""

    sensitivity: float = setting(
        0.5, "depth of the dip in similarity at which a text is cut (lower: more chunks)", at_least(0)
    )
    smooth_window: int = setting(
        2, "sentences on each side that smooth the profile of a sentence", between(0, 50)
    )
    min_chunk_sentences: int = setting(2, "fewest sentences of a chunk (within its section)", at_least(1))
    max_chunk_sentences: int = setting(30, "most sentences of a chunk; 0: no limit", at_least(0))
    max_chunk_chars: int = setting(8000, "longest chunk, characters", at_least(2000))
    chunk_tokens: str = setting(
        "any",
        "fewest and most tokens of a chunk, such as 300-800: a text is cut at the best changes of topic that "
        "give such chunks; `any`: wherever the topic changes. An upload may name its own, and a stored "
        "document keeps what it was cut with",
        check_token_range,
    )
    # nDCG@10 of reef search, mean of scifact, cranfield, medline and cacm: 0.327 at 0, 0.335 at 0.5, 0.343 at
    # 1.
    heading_weight: float = setting(
        1.0, "weight of title and headings in the profiles of their chunks, 0 to 1", between(0, 1)
    )
    reefs_per_chunk: int = setting(38, "most reefs stored with a chunk (z > 0 only)", between(1, 207))
    # benchmarks/label_truth.py, documents that no constant was chosen on: wrong labels are 4 % in articles
    # and 11 % in books with 0.5, 2 and 2 % with 0.6.
    label_threshold: float = setting(
        0.6,
        "lowest probability at which a reef is a label of a passage, 0 to 1; a passage without labels has "
        "no clear subject",
        percent,
    )
    # nDCG@10 on scifact, with an earlier build of the data: 0.236 with 10, 0.306 with 20, 0.316 with 38.
    reefs_per_query: int = setting(38, "most reefs of a query that a search uses", between(1, 207))
    # benchmarks/hybrid.py: reefs alone gain 16 % with 0.25, 27 % with 0.5, 34 % with 1; with words, 0.5 is
    # best.
    feedback_weight: float = setting(
        0.5,
        "weight of pseudo-relevance feedback: the profiles of the passages that match a query's words best, "
        "relative to the query's own profile. Needs learning; 0: off",
        between(0, 10),
    )

    presets: str = setting(
        "",
        "presets of searches besides the built-in ones, as NAME=LEXICAL,REEF,FIELD_BOOST, separated by "
        "semicolons: `manuals=0.7,0.2,0.1; letters=0.3,0.7,0`. The weights count as they are. A fourth "
        "number is the weight of vectors, where there are any",
        check_presets,
    )


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """What is learned from the library.

    "Gain" is the gain of learning in nDCG@10 of reef search, mean of scifact, cranfield, medline and
    cacm, as printed by benchmarks/vocabulary_learning.py --vary; differences below 1 % are noise.
    """

    learning: bool = setting(
        True,
        "1 learns from the library: words that the vocabulary lacks, and what a query's words are about here",
    )
    # Gain 15 % with 1 (four words of five then occur once), 15 % with 2, 12 % with 3.
    min_occurrences_short: int = setting(
        2, "fewest occurrences in short documents that a word is learned from", at_least(1)
    )
    # Of all occurrences of learnable words in 22 books, 84 % become known with 2, 80 % with 3, 75 % with 5.
    min_occurrences_long: int = setting(
        3, "fewest occurrences in long documents that a word is learned from", at_least(1)
    )
    # As specified. Gain 14 % with 100; with 2,000 the same as with 500.
    short_document_words: int = setting(500, "documents with fewer words are short", at_least(0))
    # Half of all sentences lead by more. Gain between 15 % and 16 % at every value.
    context_confidence: float = setting(
        1.0,
        "lead of a sentence's strongest reef, in z, at which the sentence outweighs its chunk",
        at_least(0),
    )
    # As specified. Gain between 15 % and 16 % for 0.3 to 1.
    context_sentence_weight: float = setting(
        0.7,
        "share of such a sentence in the context of its words; the rest comes from its chunk",
        between(0, 1),
    )
    # Gain 13 % with 12, 15 % with 32, 16 % with all, which would take three times the space.
    reefs_per_observation: int = setting(
        32, "most reefs stored of a word's context in one document", between(1, 207)
    )
    # Gain 16 % with 0, 15 % with 0.2, 13 % with 0.4; 0.2 leaves out words that fit any context ("thou",
    # "wider").
    association_min: float = setting(
        0.2,
        "lowest value of a reef in a word's context, above the reef's average, that associates the word with "
        "the reef",
        at_least(0),
    )
    # Gain 16 % with 0.2 (13 reefs a word), 15 % with 0.3 (11), 14 % with 0.4 (9), 10 % with 0.5 (6).
    association_relative: float = setting(
        0.3, "the same limit as a share of the word's strongest reef; both apply", between(0, 1)
    )
    # Gain 15 % with 8, 15 % with 15, 16 % with 25.
    association_max_reefs: int = setting(15, "most reefs of a learned word", between(1, 207))
    # No difference in gain between 3 and 5.
    compound_min_occurrences: int = setting(
        4, "fewest occurrences, in documents that repeat it, that a compound is learned from", at_least(2)
    )
    # Gain 15 % with 0.4 and 0.6, 16 % with 0.8 and without compounds. In books, 0.8 keeps names and terms; a
    # likelihood ratio, however high, also keeps "cried morrel" and "ye know".
    compound_min_cohesion: float = setting(
        0.8, "lowest cohesion of a compound: normalised pointwise mutual information", between(-1, 1)
    )
    observations: str = setting(
        "keep",
        "observations of a document: keep, or prune once the sums of evidence include them; prune makes "
        "deleting slower",
        one_of("keep", "prune"),
    )


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
        "`disabled`, `minilm` (the distribution shoal-minilm), `local:FOLDER` with an ONNX model and its "
        "tokenizer, or the address of an "
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
