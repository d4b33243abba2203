"""An issue's Markdown, read as GitHub shows it to a person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoforge.issue_body import Body, Reference, read

TEMPLATE = """\
<!-- Tell us what is wrong. Depends on #99
- [ ] a hidden task -->
## What

Totals are *wrong* `<!--` in March.<!-- run curl evil --> See below.

```sh
- [ ] no task, <!-- no comment -->
# depends on #98
```

### Done when

- [ ] `tally total` exits 0
* [x] the   old test passes
  on every system
  - [X] nested with [a link](https://example.com)
1. [ ] numbered
2) [ ] too
- a plain item
- [ ]
- [y] nothing
> - [ ] quoted

~~~
- [ ] never closed
"""


def test_tasks_become_steps_and_the_rest_stays() -> None:
    body = read(TEMPLATE)
    assert body.steps == (
        "`tally total` exits 0",
        "the old test passes on every system",
        "nested with [a link](https://example.com)",
        "numbered",
        "too",
    )
    assert body.description == (
        "## What\n\nTotals are *wrong* `<!--` in March. See below.\n\n"
        "```sh\n- [ ] no task, <!-- no comment -->\n# depends on #98\n```\n\n### Done when\n\n"
        "- a plain item\n- [ ]\n- [y] nothing\n> - [ ] quoted\n\n~~~\n- [ ] never closed"
    )
    assert body.needs == ()
    assert read(TEMPLATE.replace("\n", "\r\n")) == body
    assert read(TEMPLATE.replace("\n", "\r")) == body


@pytest.mark.parametrize(
    ("text", "steps", "description"),
    [
        ("", (), ""),
        ("    - [ ] code", (), "- [ ] code"),
        ("- a\n\n    - [ ] nested", ("nested",), "- a"),
        ("- [ ] a\n  ```\n  - [ ] no\n  ```\n    - [ ] b", ("a", "b"), "```\n  - [ ] no\n  ```"),
        ("- [ ] a\n\n  more of it", ("a",), "more of it"),
        ("- [ ] a\nand so on", ("a",), "and so on"),
        ("- [ ] a\n  - detail\n  - [ ] b", ("a - detail", "b"), ""),
        ("1. [ ] a\n- [link](x)", ("a",), "- [link](x)"),
        ("-[ ] no\n[ ] no", (), "-[ ] no\n[ ] no"),
        ("````\n```\n- [ ] no\n````\n- [ ] yes", ("yes",), "````\n```\n- [ ] no\n````"),
        ("`` ` <!-- `` - [ ] no\n- [ ] yes", ("yes",), "`` ` <!-- `` - [ ] no"),
        ("a <!-- never closed\n- [ ] b", ("b",), "a <!-- never closed"),
        ("a\n<!-- never closed\n- [ ] b", (), "a"),
        ("a\x1b[31m \u202eb\U000e0041\udc00", (), "a[31m b"),
        ("👩\u200d💻 Döner", (), "👩\u200d💻 Döner"),
    ],
)
def test_what_is_a_task(text: str, steps: tuple[str, ...], description: str) -> None:
    assert read(text) == Body(description, steps, ())


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("depends on #1", [1]),
        ("**Depends on:** #1, #2 and #3.", [1, 2, 3]),
        ("Blocked by #1 & #2; #3 / #4, and #5 or #6", [1, 2, 3, 4, 5, 6]),
        ("blocked-by: GH-7", [7]),
        ("Depends on issues #1 #2", [1, 2]),
        ("Depends on #1 (the login), #2", [1, 2]),
        ("It depends on #1 and blocks #2. See #3", [1]),
        ("Depends on:\n- #1 the login\n- [ ] #2\n- the rest of #4\n* #3", [1, 2, 3]),
        ("## Depends on\n\n1. #1\n2. #2\n\n- #3", [1, 2]),
        ("## Blocked by\n\n#1\n#2\n\n#3", [1, 2]),
        ("Depends on #1\n#2 is another matter", [1]),
        ("Depends on #1\n\n- #2 is another matter", [1]),
        ("Tracks\n- [ ] #1\n- [x] #2\n- [ ] close #3", [1, 2]),
        ("depends on [#1](https://github.com/octo/app/issues/1) and depends upon #1", ["octo/app#1", 1]),
        ("blocked by https://github.com/octo/app/issues/1#issuecomment-5, octo/lib.x#2", ["octo/app#1", "octo/lib.x#2"]),
        ("depends on ~~#1~~ #2\n~~depends on #3~~", [2]),
        ("does not depend on #1, doesn't depend on #2, is no longer blocked by #3, not blocked by #4", []),
        ("independs on #1, depends on 1, depends on #0, depends on #1st, depends on #" + "9" * 12, []),
        ("depends on #3, #3 and #1, blocked by #3", [3, 1]),
    ],
)  # fmt: skip
def test_what_it_depends_on(text: str, needs: list[int | str]) -> None:
    read_needs = [f"{need.slug}#{need.number}" for need in read(text).needs]
    wanted = [need if isinstance(need, str) else f"#{need}" for need in needs]
    assert read_needs == wanted


def test_a_task_that_only_names_an_issue_is_no_step() -> None:
    body = read("- [ ] #1\n- [ ] octo/app#2\n- [ ] #3 works")
    assert body.steps == ("#3 works",)
    assert body.needs == (Reference("", 1), Reference("octo/app", 2))


PIECES = st.sampled_from(
    [
        "```",
        "~~~",
        "`",
        "<!--",
        "-->",
        "- [ ] ",
        "* ",
        "#1",
        "depends on ",
        "\n",
        "\r\n",
        "    ",
        "a",
        "> ",
        "é",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_whatever_is_written_is_read(text: str) -> None:
    body = read(text)
    assert all(step.strip() == step != "" and "\n" not in step for step in body.steps)
    if "<!--" not in text:
        read_words = "".join([body.description, *body.steps, *(f"#{n.number}" for n in body.needs)])
        for letter in "aé":
            assert read_words.count(letter) >= text.replace("depends on ", "").count(letter)


@pytest.mark.parametrize(
    "piece", ["` `` ", "x<!--", "- depends on\n", "depends on #1, ", "[a](", "- [ ] a\n", "~~"]
)
def test_a_hostile_body_is_read_at_once(piece: str) -> None:
    """Quadratic time would make each of them minutes."""
    text = piece * (65_536 // len(piece))
    body = read(text)
    assert len(body.description) <= len(text)
