"""The open branches as lines of text."""

import io
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from autoforge.progress.lines import plain
from autoforge.stack import Entry
from git_workflow.overlap import Conflict

UNLIMITED = 10_000  # columns: a branch is copied and must stay in one line


def lines(found: Sequence[Entry], target: str) -> list[str]:
    """A tree, each branch below what it is built on; below its second parent only a reference to it."""
    root = Tree(Text(plain(target)), guide_style="")
    nodes: dict[str, Tree] = {}
    known = {e.branch for e in found}
    todo = list(found)
    while todo:
        ready = [e for e in todo if all(p in nodes or p not in known for p in e.parents)] or todo[:1]
        for entry in ready:
            above = [nodes[p] for p in entry.parents if p in nodes] or [root]
            nodes[entry.branch] = _add(above[0], entry)
            for other in above[1:]:
                other.add(Text(f"↳ {_name(entry)}"))
        todo = [e for e in todo if e.branch not in nodes]
    out = io.StringIO()
    Console(file=out, width=UNLIMITED, color_system=None, force_terminal=False).print(root)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def _name(entry: Entry) -> str:
    return f"#{entry.number}" if entry.number else entry.branch


def _add(above: Tree, entry: Entry) -> Tree:
    number = f"#{entry.number} " if entry.number else ""
    node = above.add(Text(f"{number}{plain(entry.title)} [{', '.join(_marks(entry))}]"))
    node.add(Text(entry.branch)) if entry.number else None
    for other, paths in entry.conflicts.items():
        node.add(Text(f"conflicts with {other} in {', '.join(paths[:3])}"))
    if entry.problem:
        node.add(Text(plain(entry.problem.splitlines()[0])))
    return node


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
    rows = [f"{c.left} and {c.right} change the same lines of {', '.join(c.paths[:3])}" for c in found]
    return ["", *rows, "`autoforge prs --order` proposes in which order to merge."] if rows else []


def order_lines(order: Sequence[Entry], late: set[str]) -> list[str]:
    """One line for each, in the order in which they are best merged."""
    if not order:
        return []
    rows = [
        f"{n}. {_name(e)} {plain(e.title)}{' (will conflict by then)' if e.key in late else ''}"
        for n, e in enumerate(order, 1)
    ]
    total = f"{len(late)} of {len(order)} will conflict" if late else "none will conflict"
    return [f"Merge in this order, and {total}:", *rows]
