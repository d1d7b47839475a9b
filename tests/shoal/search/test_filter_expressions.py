"""Filter expressions and objects: what they mean, where errors point, and input that means harm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import FilterError
from shoal.filters.parsing import MAX_DEPTH, make_filter
from shoal.filters.tree import MAX_CONDITIONS, MAX_SEARCHES, MAX_VALUES, text_of


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ('tags = "sea" AND year >= 2020 AND NOT draft = true', None),
        ("a = 1 or b = 2 and not c = 3", "a = 1 OR b = 2 AND NOT c = 3"),
        ("(a = 1 OR b = 2) AND c = 3", None),
        ("a != 1", "NOT a = 1"),
        ("a NOT IN [1, 'x', y]", 'NOT a IN [1, "x", "y"]'),
        ("a in (1)", "a IN [1]"),
        ("a IN []", None),
        ("author NOT EXISTS", "NOT author EXISTS"),
        ("year 2 TO 5", "year >= 2 AND year <= 5"),
        ("title CONTAINS tide", 'title CONTAINS "tide"'),
        ("path starts with 'a \\' b'", 'source_path STARTS WITH "a \' b"'),
        ("path not ends with .md", 'NOT source_path ENDS WITH ".md"'),
        ('"my key".x = null', None),
        ('metadata."a.b" = FALSE', '"a.b" = false'),
        ('a."" = -1.5e3', 'a."" = -1500.0'),
        ("metadata.title = 1", None),
        ("title.x = 1", None),
        ("metadata.metadata = 1", None),
        ("created >= 2026-01-31 AND date < 2027", 'created >= "2026-01-31" AND date < 2027'),
        ('created >= "2020" AND date < "2027"', "created >= 2020 AND date < 2027"),
        ("time_start >= 1:02:30", "time_start >= 3750.0"),
        ("file_type = PDF", 'file_type = "pdf"'),
        ('tags = " two  words "', 'tags = "two words"'),
        ('a = "say \\"x\\" \\\\"', None),
    ],
)
def test_expression_has_the_meaning_of_its_text(expression: str, text: str | None) -> None:
    tree = make_filter(expression)
    assert tree is not None
    assert text_of(tree) == (expression if text is None else text)
    assert repr(make_filter(text_of(tree))) == repr(tree)


@pytest.mark.parametrize("blank", [None, "", " \n", {}])
def test_blank_filter_is_no_condition(blank: Any) -> None:
    assert make_filter(blank) is None


@pytest.mark.parametrize(
    ("expression", "place", "message"),
    [
        ("titel = x", "titel", "did you mean title?"),
        ("year >=", "", "expected a value, found the end"),
        ("(a = 1", "", "for the ( at character 1, found the end"),
        ("a = 1)", ")", "expected AND, OR or the end, found )"),
        ("a = b c", "c", "expected AND, OR or the end, found c"),
        ("a ~ 1", "~", "expected =, !=,"),
        ("a ! 1", "!", "unexpected '!'"),
        ('a = "b', '"b', "is not closed"),
        ("a = AND", "AND", 'as a text it is "AND"'),
        ("AND = 1", "AND", "expected a field, found AND"),
        ("a..b = 1", "a..b", "a part of the path is empty"),
        ("a. = 1", "a.", "the path ends with a point"),
        (".a = 1", ".a", "the path begins with a point"),
        ('a"b" = 1', '"b"', "expected a point"),
        ("page IN [1, x]", "x", "page is a number"),
        ("year > x", "x", "compares numbers and dates"),
        ("year > true", "true", "compares numbers and dates"),
        ("created > soon", "soon", "is a date, such as"),
        ("created > 2026-02-30", "2026-02-30", "is a date, such as"),
        ("title > a", "title > a", "title has no order"),
        ("page CONTAINS 1", "page CONTAINS 1", "is not a text"),
        ('title CONTAINS ""', '""', "not empty"),
        ("format = pdf", "pdf", "not one of markdown, plaintext"),
        ("a STARTS x", "x", "expected WITH after STARTS"),
        ("a ends x", "x", "expected WITH after ENDS"),
        ("a IN 1", "1", "expected [ and a list"),
        ("a IN [1 2]", "2", "expected , or ]"),
        ("a = 1e999", "1e999", "too large"),
        ("metadata = 1", "metadata", "needs a key"),
        ("a NOT = 1", "=", "expected IN, EXISTS"),
    ],
)
def test_error_points_at_the_place(expression: str, place: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        make_filter(expression)
    error = caught.value
    assert message in str(error)
    assert error.start is not None
    assert expression[error.start : error.end] == place
    assert str(error).startswith(f"character {error.start + 1}: ")
    assert error.excerpt == (expression[: error.start], place, expression[error.end :])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"created": {"$gte": "2020"}}, "created >= 2020"),
        (
            {"tags": "sea", "year": {"$gte": 2020, "$lt": 2025}},
            'tags = "sea" AND year >= 2020 AND year < 2025',
        ),
        ({"$or": [{"a": 1}, {"$not": {"b": {"$exists": True}}}]}, "a = 1 OR NOT b EXISTS"),
        ({"$and": [{"a": 1}]}, "a = 1"),
        ({"a": {"$ne": None}, "b": {"$nin": [1]}}, "NOT a = null AND NOT b IN [1]"),
        ({"a": {"$exists": False}}, "NOT a EXISTS"),
        (
            {"title": {"$prefix": "x", "$suffix": "z"}, "by.name": {"$contains": "y"}},
            'title STARTS WITH "x" AND title ENDS WITH "z" AND by.name CONTAINS "y"',
        ),
        ({"my key": 1, 'metadata."a.b"': 2}, '"my key" = 1 AND "a.b" = 2'),
    ],
)
def test_object_has_the_meaning_of_an_expression(given: dict[str, Any], text: str) -> None:
    assert text_of(make_filter(given)) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "must be an expression or an object"),
        ({"a": [1]}, "$in"),
        ({"a": {}}, "needs an operator"),
        ({"a": {"gte": 1}}, "a.gte: there is no operator gte; did you mean $gte?"),
        ({"$nor": []}, "$nor: there is no operator $nor; did you mean $or?"),
        ({"$and": []}, "$and: must be a list of at least one object"),
        ({"$or": [{"a": 1}, {}]}, "$or[1]: must be an object"),
        ({"$not": 1}, "$not: must be an object"),
        ({"a": {"$in": "x"}}, "a.$in: must be a list"),
        ({"a": {"$exists": 1}}, "a.$exists: must be true or false"),
        ({"a": {"$eq": [1]}}, "a.$eq: compares with"),
        ({"a": {"$in": [[1]]}}, "a.$in: compares with"),
        ({"titel": 1}, "did you mean title?"),
        ({"a": float("nan")}, "too large"),
        ({"a": "\ud800"}, "half a character"),
        ({1: 2}, "there is no operator 1"),
        ({"": 2}, "a name is empty"),
    ],
)
def test_error_in_an_object_names_the_member(given: Any, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        make_filter(given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("(" * 100 + "a = 1" + ")" * 100, f"more than {MAX_DEPTH} levels"),
        ("NOT " * 100_000 + "a = 1", "the limit is"),
        ("NOT " * 10_000 + "a = 1", f"more than {MAX_DEPTH} levels"),
        ("(" * 50_000, f"more than {MAX_DEPTH} levels"),
        (" OR ".join(["a = 1"] * (MAX_CONDITIONS + 1)), f"at most {MAX_CONDITIONS} conditions"),
        (" OR ".join(["a CONTAINS b"] * (MAX_SEARCHES + 1)), f"at most {MAX_SEARCHES} conditions with"),
        ("id IN [" + "1," * 20_000 + "1]", f"at most {MAX_VALUES + MAX_CONDITIONS:,} values"),
        ("id IN [" + "1, " * 1_000_000 + "1]", "the limit is"),
        ("a = " + "9" * 5_000, "too large"),
        ("a = '" + "x" * 5_000 + "'", "at most 4,096 characters"),
        (".".join(["a"] * 1_000) + " = 1", "at most 16 names"),
        ('"' * 9_999, ""),
        ("\\" * 9_999, ""),
        ("'" + "\\'" * 9_999, "is not closed"),
    ],
)
def test_hostile_expression_is_refused(expression: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        make_filter(expression)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


def test_hostile_object_is_refused() -> None:
    deep: dict[str, Any] = {"a": 1}
    for _ in range(500):
        deep = {"$not": deep}
    for hostile in (deep, {"id": {"$in": list(range(1_000_000))}}, {"$or": [{"a": 1}] * 100_000}):
        with pytest.raises(FilterError):
            make_filter(hostile)


pieces = st.sampled_from(
    ["a", "title", "AND", "OR", "NOT", "IN", "EXISTS", "TO", "STARTS", "WITH", "(", ")", "[", "]", ",", "=", "<", "!=",
     '"', "'", "\\", ".", " ", "1", "2026-01", "true", "\ud800", "\0", "é"]
)  # fmt: skip


@given(
    expression=st.lists(pieces, max_size=12).map(" ".join)
    | st.lists(pieces, max_size=12).map("".join)
    | st.text()
)
def test_any_text_is_parsed_or_refused_with_a_place(expression: str) -> None:
    refusal, tree = None, None
    try:
        tree = make_filter(expression)
    except FilterError as error:
        refusal = error
    if refusal is not None and refusal.start is not None:
        assert 0 <= refusal.start <= (refusal.end or 0) <= len(expression)
    if tree is not None:
        assert repr(make_filter(text_of(tree))) == repr(tree)
