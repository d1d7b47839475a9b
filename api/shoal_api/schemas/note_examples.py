"""Example responses of notes for the documentation."""

from __future__ import annotations

from typing import Any

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
            "1. [12] **Python Performance**: Use list comprehensions instead of loops to optimize Python. "
            "(similarity 0.92)",
            "count": 1,
            "results": [
                {
                    "content": "Use list comprehensions instead of loops to optimize Python.",
                    "metadata": {"topic": "Python Performance", "confidence": 0.9, "note_id": 12},
                    "similarity": 0.92,
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
