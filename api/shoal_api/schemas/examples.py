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
                    "match_score": 7.594747,
                    "n_shared_reefs": 9,
                    "document_id": 1,
                    "document_title": "Tides",
                    "source_path": "notes/tides.md",
                    "chunk_id": 1,
                    "chunk_index": 0,
                    "start_char": 9,
                    "end_char": 63,
                    "start_line": 3,
                    "end_line": 3,
                    "section_path": ["Tides"],
                    "confidence": 4.090007,
                    "coverage": 1.0,
                    "top_reef_name": "sea, ocean, waters",
                    "tags": ["sea"],
                    "highlights": [[40, 44], [45, 50]],
                    "scores": {
                        "lexical": None,
                        "reef": 7.594747,
                        "bonus": 0.0,
                        "final": 7.594747,
                        "lexical_raw": None,
                        "reef_raw": 7.594747,
                    },
                    "provenance": ["reef"],
                }
            ],
            "query_info": {
                "top_reef": "sea, ocean, waters",
                "confidence": 0.700254,
                "coverage": 1.0,
                "top_reefs": [
                    {"reef_id": 48, "reef_name": "sea, ocean, waters", "z_score": 6.870761},
                    {"reef_id": 119, "reef_name": "deliver, sent, delivery", "z_score": 6.170507},
                ],
                "unknown_words": [],
            },
            "trace_id": "3abc6577dca04f93bfff303062d3953f",
            "took_ms": 3.462,
            "warnings": [],
        },
    }
}
