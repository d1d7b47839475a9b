"""Answers as they come, for the documentation."""

from __future__ import annotations

from typing import Any

SEARCH_ANSWERS: dict[str, dict[str, Any]] = {
    "tides": {
        "summary": "To the query `why does the tide come in?`; of up to ten `top_reefs` two are shown",
        "value": {
            "results": [
                {
                    "text": "The moon pulls the sea. Twice a day the tide comes in.",
                    "match_score": 0.96982,
                    "n_shared_reefs": 31,
                    "document_id": 1,
                    "document_title": "Tides",
                    "source_path": "notes/tides.md",
                    "metadata": {},
                    "chunk_id": 1,
                    "chunk_index": 0,
                    "start_char": 9,
                    "end_char": 63,
                    "start_line": 3,
                    "end_line": 3,
                    "section_path": ["Tides"],
                    "confidence": 4.02441,
                    "coverage": 1.0,
                    "top_reef_name": "seas and coasts",
                    "tags": ["sea"],
                    "highlights": [[40, 44], [45, 50]],
                    "scores": {
                        "lexical": 1.0,
                        "reef": 1.0,
                        "bonus": 0.5,
                        "final": 0.96982,
                        "lexical_raw": 7.93539,
                        "reef_raw": 18.0961,
                    },
                    "provenance": ["lexical", "reef"],
                }
            ],
            "query_info": {
                "top_reef": "seas and coasts",
                "confidence": 2.06051,
                "coverage": 1.0,
                "top_reefs": [
                    {"reef_id": 53, "reef_name": "seas and coasts", "z_score": 7.07043},
                    {"reef_id": 69, "reef_name": "fabrics and coverings", "z_score": 5.00993},
                ],
                "unknown_words": [],
            },
            "weights": {"lexical": 0.573414, "reef": 0.366227, "bonus": 0.0603594},
            "trace_id": "e0052418ed7d4a818baba838f6c5e23d",
            "took_ms": 16.114,
            "warnings": [],
        },
    }
}
