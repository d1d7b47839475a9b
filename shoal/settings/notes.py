"""Settings of notes."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import at_least, between, check_http_url, check_owner_name, check_path_tags
from shoal.settings.declaration import setting
from shoal.support.byte_units import MIB


@dataclass(frozen=True, kw_only=True)
class NoteSettings:
    """Notes of agents and the hooks that show them.

    Where no other reason is given, 002 (engrams) names the value.
    """

    note_index_bytes: int = setting(
        256 * MIB,
        "memory of the indexes of notes that a process keeps, bytes, about; those of the owners whose last "
        "search is longest ago are dropped",
        at_least(0),
    )
    note_owner: str = setting(
        "default",
        "whose notes hooks, commands and the MCP server use unless they name an owner",
        check_owner_name,
    )
    note_path_tags: str = setting(
        "",
        "tags of environments by folder, `PATTERN=TAG` separated by commas, such as `/work/acme/*=acme`. `*` "
        "stands for a part of a name, `**` for any folders, `~` for the home folder of any user",
        check_path_tags,
    )
    # Not specified: 15 matches pin a note there, and 11 do not.
    note_pin_matches: int = setting(
        15, "a note is pinned where a tag holds with which it was matched this often", at_least(1)
    )
    # Not specified. With 0.3, three equal judgements in a row bring a score from 0 to 0.66.
    note_relevance_smoothing: float = setting(
        0.3, "weight of the newest judgement in the relevance of a note for a tag", between(0.01, 1)
    )
    note_relevance_weight: float = setting(
        0.01, "weight of the relevance of a note, relative to its rank score", between(0, 1)
    )
    note_filter_min_evals: int = setting(
        3, "fewest judgements before a note is left out or unpinned", at_least(1)
    )
    note_filter_score: float = setting(
        -0.1, "a note whose average relevance is lower is left out", between(-1, 1)
    )
    note_pin_relevance: float = setting(
        0.6, "a note whose average relevance is higher is pinned", between(-1, 1)
    )
    # Not specified ("enough evidence").
    note_pin_min_evals: int = setting(5, "fewest judgements before relevance pins a note", at_least(1))
    # Not specified. Below the limit for pins, so that one bad judgement does not unpin.
    note_unpin_relevance: float = setting(
        0.0, "an automatic pin ends when the average relevance is lower", between(-1, 1)
    )
    note_merge_similarity: float = setting(
        0.85, "notes that are at least this similar are proposed as duplicates", between(0.5, 1)
    )
    note_candidate_similarity: float = setting(
        0.5, "the chat endpoint judges notes that are at least this similar", between(0.1, 1)
    )
    # Not specified. What a model is less sure of is proposed to a person or an agent instead.
    note_merge_confidence: float = setting(
        0.7, "notes are merged if the chat endpoint is at least this confident", between(0, 1)
    )
    # Not specified.
    note_dedup_passes: int = setting(
        5, "most passes through the notes that wait to be compared, in one run", between(1, 100)
    )
    # Not specified. About 3,000 tokens, which a small local model can read.
    note_dedup_chars: int = setting(
        12_000, "characters of notes in one request to the chat endpoint, about", at_least(500)
    )

    # Hooks of agents
    server: str = setting(
        "",
        "address of the service that hooks ask; empty: the one that `shoal up` runs for the database, else "
        "the database itself",
        check_http_url,
    )
    # Not specified: tools that only look around or keep lists.
    hook_skip_tools: str = setting(
        "AskUserQuestion,ExitPlanMode,Glob,Grep,LS,Read,TodoWrite",
        "names of tools, separated by commas, before whose use the hook shows no notes",
    )
    hook_notes: int = setting(3, "most notes that a hook shows for a prompt or a tool", between(1, 50))
    # benchmarks/hook_relevance.py: precision 0.22 and recall 0.83 with 0, 0.85 and 0.61 with 0.02.
    hook_min_similarity: float = setting(
        0.02,
        "lowest similarity of a note to the prompt or the tool at which a hook shows it, 0 to 1",
        between(0, 1),
    )
    hook_event_days: int = setting(
        90, "events of hooks are deleted after this many days; 0: never", at_least(0)
    )
    agent_session_days: int = setting(
        180,
        "sessions of agents, what they were shown, and counts of requests to the chat endpoint are deleted "
        "this many days after the last change; 0: never",
        at_least(0),
    )
    note_dedup_hours: int = setting(
        0,
        "hours between two jobs that compare the waiting notes of all owners; 0: only on request",
        at_least(0),
    )
