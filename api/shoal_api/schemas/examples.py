"""Example responses for the documentation."""

from __future__ import annotations

from typing import Any

SEARCH_EXAMPLES: dict[str, dict[str, Any]] = {
    "tides": {
        "summary": "Query `why does the tide come in?`; shows two of up to ten `top_reefs`",
        "value": {
            "results": [
                {
                    "text": "The moon pulls the sea. Twice a day the tide comes in.",
                    "match_score": 0.96982,
                    "relevance": 0.977318,
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
                    "place": None,
                    "modality": "text",
                    "time_start": None,
                    "time_end": None,
                    "section_path": ["Tides"],
                    "confidence": 4.02441,
                    "coverage": 1.0,
                    "top_reef_name": "seas and coasts",
                    "labels": [{"reef_id": 53, "reef_name": "seas and coasts", "probability": 0.621}],
                    "awaits_rescore": False,
                    "tags": ["sea"],
                    "highlights": [[40, 44], [45, 50]],
                    "scores": {
                        "lexical": 1.0,
                        "reef": 1.0,
                        "field_boost": 0.5,
                        "final": 0.96982,
                        "lexical_raw": 7.88177,
                        "reef_raw": 18.0887,
                        "field_boost_parts": None,
                        "dense": None,
                        "dense_raw": None,
                        "decay": None,
                        "boosts": None,
                        "exact_name": 0.0,
                        "identifiers": 0.0,
                    },
                    "provenance": ["lexical", "reef"],
                    "why": "holds *tide*; about seas and coasts",
                    "reasons": [
                        {"kind": "word", "lead": "holds", "items": ["tide"]},
                        {"kind": "topic", "lead": "about", "items": ["seas and coasts"]},
                    ],
                    "term_coverage": 1.0,
                    "pinned": False,
                    "further": False,
                    "lacking": [],
                }
            ],
            "total": 1,
            "has_more": False,
            "query_info": {
                "top_reef": "seas and coasts",
                "confidence": 4.48588,
                "coverage": 1.0,
                "top_reefs": [
                    {"reef_id": 53, "reef_name": "seas and coasts", "z_score": 11.7367, "own_z": 7.07043},
                    {
                        "reef_id": 69,
                        "reef_name": "fabrics and coverings",
                        "z_score": 7.25081,
                        "own_z": 5.00993,
                    },
                ],
                "unknown_words": [],
                "missing_terms": [],
                "near_words": [],
                "synonyms": [],
                "translations": [],
                "excluded": [],
                "pins": [],
                "feedback": [
                    {"chunk_id": 1, "document_id": 1, "document_title": "Tides", "share": 0.483075},
                    {
                        "chunk_id": 64,
                        "document_id": 8,
                        "document_title": "Life in a Tide Pool",
                        "share": 0.370487,
                    },
                    {
                        "chunk_id": 60,
                        "document_id": 8,
                        "document_title": "Life in a Tide Pool",
                        "share": 0.146438,
                    },
                ],
            },
            "weights": {"lexical": 0.573414, "reef": 0.366227, "field_boost": 0.0603594, "dense": 0.0},
            "trace_id": "e0052418ed7d4a818baba838f6c5e23d",
            "took_ms": 16.114,
            "warnings": [],
            "next_cursor": None,
        },
    }
}


Examples = dict[str, dict[str, Any]]

NOTE: dict[str, Any] = {
    "id": 7,
    "owner": "default",
    "kind": "lesson",
    "title": "",
    "text": "Run the migrations before the integration tests, or the tests hang on a missing table.",
    "domain": "",
    "tags": ["pytest", "python"],
    "categories": ["build/tests"],
    "prerequisites": {"os": [], "repos": ["shop"], "paths": [], "mcp_servers": []},
    "source": "manual",
    "metadata": {},
    "verified": False,
    "pinned_by": None,
    "pin_tags": [],
    "occurrence_count": 1,
    "times_matched": 0,
    "last_matched": None,
    "deprecated_at": None,
    "deprecated_reason": None,
    "merged_into": None,
    "repo_matches": {},
    "tag_set_matches": [],
    "tag_relevance": {},
    "sessions": [],
    "labels": [],
    "created_at": "2026-01-31T09:30:00.000Z",
    "updated_at": "2026-01-31T09:30:00.000Z",
    "change_number": 7,
}

NOTE_EXAMPLES: Examples = {"lesson": {"summary": "A lesson for one repository", "value": NOTE}}

ADDED_NOTE_EXAMPLES: Examples = {
    "added": {
        "summary": "A new note; nothing similar is stored",
        "value": {"note": NOTE, "is_duplicate": False, "similar": []},
    }
}

NOTE_SEARCH_EXAMPLES: Examples = {
    "tests": {
        "summary": "Query `why do the tests hang?`",
        "value": {
            "query": "why do the tests hang?",
            "results": [
                {
                    "note": NOTE,
                    "score": 2.0,
                    "similarity": 0.74,
                    "matched_words": ["tests", "hang"],
                    "shared_reefs": [{"reef_id": 88, "reef_name": "testing and observing", "share": 0.61}],
                    "why": "holds *tests* and *hang*",
                    "reasons": [{"kind": "word", "lead": "holds", "items": ["tests", "hang"]}],
                    "scores": None,
                }
            ],
            "n_active": 1,
            "took_ms": 1.4,
            "warnings": [],
        },
    }
}

RECALL_EXAMPLES: Examples = {
    "recall": {
        "summary": "Query `python optimization`",
        "value": {
            "response": "## Memory recall: 'python optimization'\nFound 1 relevant knowledge item:\n\n"
            "1. **Python Performance**: Use list comprehensions instead of loops to optimize Python. "
            "(note 12, similarity 0.92, said 2026-01-31)",
            "count": 1,
            "results": [
                {
                    "content": "Use list comprehensions instead of loops to optimize Python.",
                    "metadata": {"topic": "Python Performance", "confidence": 0.9, "note_id": 12},
                    "similarity": 0.92,
                    "kind": "knowledge",
                    "said_at": "2026-01-31T09:00:00.000Z",
                    "event": None,
                    "valid_from": "2026-01-31",
                    "valid_to": None,
                    "session_id": "",
                    "replaced": [],
                    "context": [],
                }
            ],
            "topics": ["Python Performance"],
            "similarities": [0.92],
            "nearest": None,
        },
    }
}

RETRIEVAL_EXAMPLES: Examples = {
    "retrieve": {
        "summary": "Query `why does the tide come in?`",
        "value": {
            "results": [
                {
                    "content": "The moon pulls the sea. Twice a day the tide comes in.",
                    "metadata": {
                        "source": "notes/tides.md",
                        "title": "Tides",
                        "section": "Tides",
                        "start_line": 3,
                        "end_line": 3,
                        "document_id": 1,
                        "chunk_id": 1,
                    },
                    "similarity": 0.9773,
                }
            ],
            "query": "why does the tide come in?",
            "total_results": 1,
            "message": "Found 1 relevant document",
            "results_summary": "1. notes/tides.md (sim: 0.98): The moon pulls the sea. Twice a day the tide "
            "comes in.",
        },
    }
}
