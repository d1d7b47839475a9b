"""What fields mean that have one meaning wherever they stand. Any other field says it where it is."""

from __future__ import annotations

MEANINGS = {
    # Documents
    "document_id": "the document that it belongs to",
    "document_title": "title of that document",
    "source_path": "where the text comes from, as it was told when it was handed in; a label only",
    "content_hash": "SHA-256 of the content's UTF-8",
    "tags": "in the order of the alphabet",
    "n_bytes": "of the content's UTF-8",
    "n_sentences": "sentences in it",
    "created_at": "when it was accepted, UTC in ISO 8601",
    "updated_at": "when it, its tags or its content were last changed, UTC in ISO 8601",
    # Chunks and where they are
    "chunk_id": "id of the chunk; `GET /api/v1/chunks/{chunk_id}` leads to it",
    "chunk_index": "place of the chunk in its document, from 0",
    "section_index": "place of the section in its document, from 0",
    "section_path": "headings it stands under, outermost first",
    "text": "`content[start_char:end_char]`, to the character",
    "start_char": "where it begins in the content, in code points",
    "end_char": "where it ends in the content, in code points, exclusive",
    "start_line": "its first line in the content, from 1",
    "end_line": "its last line in the content, inclusive",
    "sentence_count": "sentences in it",
    "confidence": "z-score of its strongest reef less that of the second: how clear its one subject is",
    "coverage": "share of its words that the topic model knows, 0 to 1",
    "matched_words": "words in it that the topic model knows",
    # Reefs
    "reef_id": "id of the reef, as in `GET /api/v1/reefs`",
    "reef_name": "name of the reef",
    "island_id": "id of the island, as in `GET /api/v1/reefs`",
    "island_name": "name of the island",
    "top_reef_id": "its strongest reef; null where it has no word that the topic model knows",
    "top_reef_name": "name of its strongest reef; null where it has no word that the topic model knows",
    "n_shared_reefs": "how many reefs it has in common with the query",
    "shared_reefs": "these reefs, those that add most to the score first",
    # Scores
    "scores": "the parts that its score is made of",
    "matched_terms": "the words and phrases of the query that it holds, and where",
    "weights": "what each signal counted in the score",
    "query_info": "what the query was taken to be about",
    # Versions
    "vocabulary_version": "of the learned words",
    "data_checksum": "of the build of the topic model's data that it was scored with",
    # Answers
    "warnings": "what a reader should know, in words",
    "trace_id": "of this answer: also its header `X-Trace-Id`, and on the lines of the log",
    "took_ms": "milliseconds it took",
    "links": "addresses of what belongs to it",
    "self": "address of this",
}
