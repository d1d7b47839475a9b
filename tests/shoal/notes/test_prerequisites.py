"""A note with prerequisites is shown only where all of them hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidFieldError
from shoal.notes.environment import Environment
from shoal.notes.prerequisites import GATES, Prerequisites, merge, merge_tags, split_tags

HERE = Environment(
    os="linux",
    repo="app-repo",
    cwd="/home/ann/work/acme/app-repo/packages/web",
    mcp_servers=("browser", "tickets"),
    tags=("acme",),
)


def some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), unique=True, max_size=3).map(
        lambda chosen: tuple(sorted(chosen))
    )


PREREQUISITES = st.builds(
    Prerequisites,
    os=some("linux", "darwin", "windows"),
    repos=some("app-repo", "api", "web"),
    paths=some("/work/*", "acme", "/home/ann"),
    mcp_servers=some("browser", "tickets", "mail"),
)
ENVIRONMENTS = st.builds(
    Environment,
    os=st.sampled_from(["linux", "darwin", "windows", ""]),
    repo=st.sampled_from(["app-repo", "api", "web", ""]),
    cwd=st.sampled_from(["/work/acme", "/home/ann", "/home/bob/acme/x", "/", ""]),
    mcp_servers=some("browser", "tickets", "mail"),
)


@pytest.mark.parametrize(
    ("prerequisites", "failed"),
    [
        ({}, ()),
        ({"os": ["linux"]}, ()),
        ({"os": ["darwin", "linux"]}, ()),
        ({"os": ["macOS"]}, ("os",)),
        ({"os": []}, ()),
        ({"repos": ["other", "App-Repo"]}, ()),
        ({"repos": ["app"]}, ("repos",)),
        ({"mcp_servers": ["browser"]}, ()),
        ({"mcp_servers": ["browser", "mail"]}, ("mcp_servers",)),
        ({"paths": ["/home/ann/work"]}, ()),
        ({"paths": ["/home/ann/wor"]}, ("paths",)),
        ({"paths": ["~/work/*/app-repo"]}, ()),
        ({"os": ["windows"], "repos": ["x"], "paths": ["/x"], "mcp_servers": ["x"]}, GATES),
    ],
)
def test_gates_hold_or_fail(prerequisites: object, failed: tuple[str, ...]) -> None:
    gates = Prerequisites.from_json(prerequisites)
    assert gates.failed_in(HERE) == failed
    assert gates.hold_in(HERE) == (not failed)


@given(PREREQUISITES, ENVIRONMENTS)
def test_a_note_holds_where_each_of_its_gates_holds_alone(
    gates: Prerequisites, environment: Environment
) -> None:
    alone = [Prerequisites(**{gate: getattr(gates, gate)}) for gate in GATES]
    assert gates.hold_in(environment) == all(gate.hold_in(environment) for gate in alone)
    assert Prerequisites().hold_in(environment)


@given(PREREQUISITES)
def test_no_gate_holds_where_nothing_is_known(gates: Prerequisites) -> None:
    assert gates.failed_in(Environment()) == tuple(gate for gate in GATES if getattr(gates, gate))


@given(PREREQUISITES)
def test_json_form_gives_the_same_gates(gates: Prerequisites) -> None:
    assert Prerequisites.from_json(gates.as_json()) == gates


@given(st.lists(PREREQUISITES, min_size=1, max_size=3), ENVIRONMENTS)
def test_a_merged_note_holds_wherever_one_of_the_notes_held(
    notes: list[Prerequisites], environment: Environment
) -> None:
    if any(note.hold_in(environment) for note in notes):
        assert merge(notes).hold_in(environment)


@given(st.lists(PREREQUISITES, min_size=1, max_size=4), st.randoms())
def test_merging_does_not_depend_on_the_order(notes: list[Prerequisites], random) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(notes, len(notes))
    assert merge(shuffled) == merge(notes)
    assert merge([merge(notes[:2]), *notes[2:]]) == merge(notes)


def test_merging_unites_repos_and_keeps_the_servers_that_all_need() -> None:
    a = Prerequisites(repos=("api",), os=("linux",), mcp_servers=("browser", "mail"))
    b = Prerequisites(repos=("web",), os=(), mcp_servers=("browser", "tickets"))
    assert merge([a, b]) == Prerequisites(repos=("api", "web"), mcp_servers=("browser",))
    assert merge([]) == Prerequisites()
    assert merge_tags([("a", "b"), ("b", "c")]) == ("b",)
    assert merge_tags([]) == merge_tags([("a",), ()]) == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "prerequisites: must be an object"),
        ({"oss": []}, "'oss' is not one of os, repos, paths, mcp_servers"),
        ({"tags": ["a"]}, "tags are no prerequisite"),
        ({"os": 7}, "prerequisites.os: must be a list of texts"),
        ({"os": {"linux": 1}}, "prerequisites.os: must be a list of texts"),
        ({"repos": [""]}, "prerequisites.repos: must not contain an empty text"),
        ({"repos": [["a"]]}, "prerequisites.repos: must be a text"),
        ({"repos": ["a\x1b[31m"]}, "control characters"),
        ({"repos": ["a" * 201]}, "the limit is 200"),
        ({"paths": ["a" * 301]}, "the limit is 300"),
        ({"mcp_servers": [str(i) for i in range(51)]}, "the limit is 50"),
    ],
)
def test_wrong_prerequisites_are_refused_by_name(value: object, message: str) -> None:
    with pytest.raises(InvalidFieldError, match=message):
        Prerequisites.from_json(value)


@given(PREREQUISITES, PREREQUISITES)
def test_added_prerequisites_hold_in_the_note(gates: Prerequisites, added: Prerequisites) -> None:
    united = gates.united(added)
    for gate in GATES:
        assert set(getattr(united, gate)) == {*getattr(gates, gate), *getattr(added, gate)}
    assert Prerequisites.from_json(united.as_json()) == united


def test_tags_among_the_prerequisites_are_split_off() -> None:
    gates, tags = split_tags({"tags": ["frontend", "react"], "repos": ["app-repo"], "os": "darwin"})
    assert gates == Prerequisites(repos=("app-repo",), os=("darwin",))
    assert tags == ("frontend", "react")
    assert split_tags(None) == (Prerequisites(), ())
