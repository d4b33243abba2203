"""Feature lists of older tools: what is taken over, and what is told."""

import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.errors import InvalidFeatures
from db.feature import MAX_DEPENDENCIES, Feature, FeatureStatus, PrStatus
from db.legacy import from_items, is_legacy
from db.new_features import MAX_NAME, folded
from db.store import FeatureStore

FORM = {
    "prompt": "Which one?",
    "fields": [{"id": "c", "label": "Colour", "options": [{"value": "r", "label": "Red"}]}],
}


def one(**values: object) -> tuple[Feature, tuple[str, ...]]:
    found = from_items([values])
    return found.features[0], found.notes


# One item


def test_missing_keys_get_the_older_tools_defaults() -> None:
    found = from_items([{}, {"name": "B", "passes": True}])
    first, second = found.features
    assert (first.id, first.priority, first.category, first.name) == (1, 1, "uncategorized", "Feature 1")
    assert (first.description, first.steps, first.status, first.dependencies) == (
        "",
        (),
        FeatureStatus.PENDING,
        (),
    )
    assert (second.id, second.priority, second.status) == (2, 2, FeatureStatus.PASSED)
    assert found.notes == (
        '#1: it had no name and is called "Feature 1"',
        "1 of 2 features count as passed because the older tool says so: nothing was verified here",
    )


@pytest.mark.parametrize(
    ("value", "passed", "noted"),
    [
        (True, True, False), (1, True, False), ("TRUE", True, False), ("1", True, False), (False, False, False),
        (0, False, False), (None, False, False), ("", False, False), ("yes", False, True), ([1], False, True),
        (2, False, True), (1.5, False, True),
    ],
)  # fmt: skip
def test_flags_of_any_type(value: object, passed: bool, noted: bool) -> None:
    feature, notes = one(name="a", passes=value)
    assert (feature.status is FeatureStatus.PASSED) is passed
    assert any("passes was" in note for note in notes) is noted


def test_what_was_in_progress_is_pending_and_told() -> None:
    feature, notes = one(name="a", in_progress=True)
    assert (feature.status, notes) == (FeatureStatus.PENDING, ("#1: it was in progress and is pending",))
    assert one(name="a", in_progress=True, passes=True)[0].status is FeatureStatus.PASSED


def test_a_question_and_its_answer_are_kept() -> None:
    asks, notes = one(
        name="a", needs_human_input=1, human_input_request=json.dumps(FORM), human_input_response={}
    )
    assert (asks.status, asks.answer, notes) == (FeatureStatus.NEEDS_INPUT, None, ())
    assert asks.question == "Which one?\n- Colour (Red)"
    response = {"fields": {"c": "r", "sure": True}, "responded_at": "2026-01-01"}
    answered, _ = one(name="a", human_input_request=FORM, human_input_response=response)
    assert (answered.status, answered.answer) == (FeatureStatus.PENDING, "c: r\nsure: true")
    plain, _ = one(name="a", human_input_request="Why?", human_input_response="because {")
    assert (plain.question, plain.answer) == ("Why?", "because {")
    lost, notes = one(name="a", needs_human_input=True, human_input_request=None)
    assert (lost.status, "its question is lost" in notes[0]) == (FeatureStatus.PENDING, True)


@pytest.mark.parametrize(
    ("values", "kept", "told"),
    [
        ({"priority": "7"}, {"priority": 7}, ""),
        ({"priority": 7.0}, {"priority": 7}, ""),
        ({"priority": True}, {"priority": 1}, "priority was 'true', no usable number"),
        ({"priority": 10**30}, {"priority": 1}, "no usable number"),
        ({"steps": "only"}, {"steps": ("only",)}, "steps was 'only', no list"),
        ({"steps": '["a", " ", 3]'}, {"steps": ("a", "3")}, ""),
        ({"steps": "[1,"}, {"steps": ("[1,",)}, "no list"),
        ({"steps": {"a": 1}}, {"steps": ('{"a": 1}',)}, "no list"),
        ({"description": ["x"]}, {"description": '["x"]'}, "description was no text and is kept as JSON"),
        ({"description": "a\0b\ud800"}, {"description": "a\ufffdb\ufffd"}, ""),
        ({"category": " \n "}, {"category": "uncategorized"}, ""),
        ({"id": "x"}, {"id": 1}, "its id was 'x', which cannot be kept"),
        ({"id": -5}, {"id": 1}, "its id was '-5'"),
        ({"commit_sha": "A" * 40}, {"commit_sha": "a" * 40}, ""),
        ({"commit_sha": "abc123"}, {"commit_sha": None}, "commit_sha was 'abc123', no full commit id"),
        ({"pr_status": "merged", "pr_number": 3}, {"pr_status": PrStatus.MERGED, "pr_number": 3}, ""),
        ({"pr_status": ["x"]}, {"pr_status": None}, "pr_status was"),
        ({"refinement_state": "polished"}, {"refinement": "polished"}, ""),
        ({"refinement_state": "shiny"}, {"refinement": ""}, "refinement_state was 'shiny'"),
        ({"last_tested_at": "2026-01-02 03:04:05.5"}, {"last_tested_at": datetime(2026, 1, 2, 3, 4, 5, 500_000, UTC)}, ""),
        ({"name": "a\x1b[2Jb", "category": "c\x9b"}, {"name": "a\ufffd[2Jb", "category": "c\ufffd"}, ""),
        ({"last_tested_at": "0001-01-01T00:00:00+14:00"}, {"last_tested_at": None}, "no usable time"),
        ({"human_input_request": {"prompt": "Q", "fields": [{"id": "x", "options": 5}]}}, {"question": "Q\n- x"}, ""),
        ({"human_input_request": {"prompt": "Q", "fields": [{"id": "x", "options": True}]}}, {"question": "Q\n- x"}, ""),
        ({"last_tested_at": "soon"}, {"last_tested_at": None}, "last_tested_at was 'soon', no usable time"),
        ({"worktree_path": "/x", "mood": 1, "testing_in_progress": 0}, {}, "mean nothing here: 'mood', 'worktree_path'"),
        ({"passes": 1, "pr_status": "open", "pr_number": 9}, {}, "its pull request #9 was open: merge it"),
    ],
)  # fmt: skip
def test_b5_values_of_wrong_types(values: dict[str, object], kept: dict[str, object], told: str) -> None:
    feature, notes = one(**{"name": "a", **values})
    assert {key: getattr(feature, key) for key in kept} == kept
    assert told in "\n".join(notes)
    assert told or not [note for note in notes if "count as passed" not in note]


# The list


def test_names_become_unique_and_are_told() -> None:
    found = from_items(
        [{"name": "a"}, {"name": " A "}, {"name": "a (2)"}, {"name": "n" * 300}, {"name": "n" * 250}]
    )
    assert [f.name for f in found.features[:3]] == ["a", "A (2)", "a (2) (2)"]
    assert [len(f.name) <= MAX_NAME for f in found.features] == [True] * 5
    assert sum("its name was taken" in note for note in found.notes) == 3
    assert sum("is cut" in note for note in found.notes) == 2


def test_many_equal_names_are_told_apart_in_linear_time() -> None:
    began = time.process_time()
    found = from_items([{"name": "same"}] * 4000 + [{"name": "x" * 190 + str(n % 2)} for n in range(10)])
    assert time.process_time() - began < 3  # 10 s when every number is tried
    assert len({folded(f.name) for f in found.features}) == 4010
    assert found.features[3999].name == "same (4000)"


def test_dependencies_by_id_and_by_index() -> None:
    found = from_items(
        [
            {"id": 10, "name": "a"},
            {"id": 7, "name": "b", "dependencies": "[10, 10]"},
            {"id": 3, "name": "c", "depends_on_indices": [0, 1]},
            {"name": "d", "dependencies": [3], "depends_on_indices": [0]},
        ]
    )
    assert [(f.id, f.dependencies) for f in found.features] == [
        (10, ()),
        (7, (10,)),
        (3, (7, 10)),
        (4, (3, 10)),
    ]
    assert found.notes == ()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"dependencies": [99]}, "it depended on '99', which is not in the list: left out"),
        ({"dependencies": [2]}, "it depended on itself"),
        ({"dependencies": [True, None, "one", 1.5]}, "it depended on 'one'"),
        ({"dependencies": "not json"}, "dependencies was 'not json', no list"),
        ({"depends_on_indices": [True, -1, 5]}, "it depended on '-1'"),
    ],
)
def test_b38_what_is_no_dependency_is_left_out(values: dict[str, object], told: str) -> None:
    found = from_items([{"name": "a"}, {"name": "b", **values}])
    assert found.features[1].dependencies == ()
    assert told in "\n".join(found.notes)


def test_more_than_20_dependencies_are_cut() -> None:
    items: list[object] = [{"id": n, "name": f"f{n}"} for n in range(1, 26)]
    found = from_items([*items, {"id": 26, "name": "z", "dependencies": list(range(1, 26))}])
    assert found.features[-1].dependencies == tuple(range(1, MAX_DEPENDENCIES + 1))
    assert "#26: it had 25 dependencies, at most 20 are possible: left out from #21, #22" in found.notes[0]


@pytest.mark.parametrize("length", [2, 3, 5000])
def test_a_circle_is_opened_at_one_place(length: int, store: FeatureStore) -> None:
    items = [{"id": n + 1, "name": f"f{n}", "dependencies": [(n + 1) % length + 1]} for n in range(length)]
    found = from_items([*items, {"name": "behind", "dependencies": [1]}])
    assert found.notes == (f"#{length}: the dependency on #1 closed a circle and is left out",)
    assert found.features[-1].dependencies == (1,)
    store.restore(found.features)


def test_ids_that_are_taken_or_missing_get_a_free_one() -> None:
    found = from_items([{"id": 2, "name": "a"}, {"name": "b"}, {"id": 2, "name": "c"}, "junk", {"id": None}])
    ids = [f.id for f in found.features]
    assert (ids[0], len(set(ids))) == (2, 4)
    assert "#3: its id was '2', which cannot be kept" in found.notes
    assert "entries that were no features are left out: 1" in found.notes


@pytest.mark.parametrize("items", [[], [1, "x", None, []]])
def test_b33_a_list_without_features_is_refused(items: list[object]) -> None:
    with pytest.raises(InvalidFeatures, match="holds no features: nothing was imported"):
        from_items(items)


@pytest.mark.parametrize(
    ("items", "answer"),
    [([{"passes": False}], True), ([3, {"id": 1}], True), ([{"name": "x"}], False), ({"id": 1}, False)],
)
def test_an_older_tools_list_is_recognised(items: object, answer: bool) -> None:
    assert is_legacy(items) is answer


ODD = (
    None, True, 0, 1, 2, 3, -1, 10**30, 1.5, float("inf"), "", "x", "1", "[1, 2]", "{", "a\0b", "\ud800", b"\xff",
    [], [1], [0, 3, "a", None], {}, {"prompt": [1], "fields": [{"label": 1, "options": "x"}, 3]}, {"fields": {"a": None}},
)  # fmt: skip
NAMES = [
    "id", "priority", "category", "name", "description", "steps", "passes", "in_progress", "dependencies",
    "needs_human_input", "human_input_request", "human_input_response", "last_tested_at", "refinement_state",
    "branch_name", "worktree_path", "commit_sha", "pr_number", "pr_url", "pr_status", "depends_on_indices", "other",
]  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(ODD)), max_size=5))
def test_b5_whatever_the_list_holds_the_features_can_be_stored(items: list[dict[str, object]]) -> None:
    if not items:
        return
    found = from_items(items)
    ids = [f.id for f in found.features]
    assert len(set(ids)) == len(items)
    assert len({" ".join(f.name.split()).casefold() for f in found.features}) == len(items)
    left = {f.id: set(f.dependencies) for f in found.features}
    while ready := [i for i, needs in left.items() if not needs & left.keys()]:
        for i in ready:
            assert left.pop(i) <= set(ids)
    assert left == {}
