"""The open branches as lines of text."""

import io
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from autoforge.progress.lines import plain
from autoforge.stack import Entry
from git_workflow.overlap import Conflict

PATHS = 3  # of those in which two conflict


def lines(found: Sequence[Entry], target: str, width: int) -> list[str]:
    """A tree, each branch below what it is built on; below its second parent only a reference to it.

    Lines are cut to `width` columns, but for the branches' names: they are copied.
    """
    root = Tree(Text(plain(target)), guide_style="")
    known, nodes = {e.branch: e for e in found}, dict[str, Tree]()
    todo = list(found)
    while todo:
        ready = [e for e in todo if all(p in nodes or p not in known for p in e.parents)] or todo[:1]
        for entry in ready:
            above = [nodes[p] for p in entry.parents if p in nodes] or [root]
            nodes[entry.branch] = _add(above[0], entry, known)
            for other in above[1:]:
                other.add(Text(f"↳ {_name(entry.branch, known)}"))
        todo = [e for e in todo if e.branch not in nodes]
    out = io.StringIO()
    longest = max([width, *(len(e.branch) + 4 * (len(found) + 1) for e in found)])
    Console(file=out, width=longest, color_system=None, force_terminal=False).print(root, no_wrap=True)
    rows = [line.rstrip() for line in out.getvalue().splitlines()]
    return [row if row.endswith(tuple(known)) else _cut(row, width) for row in rows]


def _cut(line: str, width: int) -> str:
    text = Text(line)
    text.truncate(width, overflow="ellipsis")
    return text.plain


def _name(branch: str, known: Mapping[str, Entry]) -> str:
    number = known[branch].number if branch in known else None
    return f"#{number}" if number else branch


def _add(above: Tree, entry: Entry, known: Mapping[str, Entry]) -> Tree:
    number = f"#{entry.number} " if entry.number else ""
    node = above.add(Text(f"{number}[{', '.join(_marks(entry))}] {_line(entry.title)}", no_wrap=True))
    node.add(Text(entry.branch, no_wrap=True))
    for other, paths in entry.conflicts.items():
        node.add(Text(f"conflicts with {_name(other, known)} in {_paths(paths)}", no_wrap=True))
    if entry.problem:
        node.add(Text(_line(entry.problem.splitlines()[0]), no_wrap=True))
    return node


def _line(text: str) -> str:
    return plain(" ".join(text.split()))


def _paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - PATHS} more" if len(paths) > PATHS else ""
    return ", ".join(paths[:PATHS]) + more


def _marks(entry: Entry) -> list[str]:
    marks = [entry.pr_status or entry.status]
    if entry.checks and (entry.checks.passed or entry.checks.failed or entry.checks.running):
        words = (
            (entry.checks.failed, "failed"),
            (entry.checks.running, "running"),
            (entry.checks.passed, "passed"),
        )
        marks.append("checks: " + " ".join(f"{n} {word}" for n, word in words if n))
    if entry.review and entry.review.decision != "none":
        marks.append(entry.review.decision.replace("_", " "))
    if entry.behind:
        marks.append("behind")
    return marks


def conflict_lines(found: Sequence[Conflict]) -> list[str]:
    """One line for each pair."""
    rows = [f"{c.left} and {c.right} change the same lines of {_paths(c.paths)}" for c in found]
    return ["", *rows, "`autoforge prs --order` proposes in which order to merge."] if rows else []


def order_lines(order: Sequence[Entry], target: str) -> list[str]:
    """One line for each, in the order in which they are best merged, and what it will conflict with then."""
    known, before, rows, late = {e.branch: e for e in order}, {target}, [], 0
    for number, entry in enumerate(order, 1):
        hits = {other: paths for other, paths in entry.conflicts.items() if other in before}
        before.add(entry.branch)
        late += bool(hits)
        rows.append(f"{number}. {_name(entry.branch, known)} {_line(entry.title)}")
        rows += [
            f"   will conflict with {_name(other, known)} in {_paths(paths)}" for other, paths in hits.items()
        ]
    total = f"{late} of {len(order)} will conflict" if late else "none will conflict"
    return [f"Merge in this order, each after what it is built on, and {total}:", *rows]
