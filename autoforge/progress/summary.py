"""The feature table, the branch graph and what is left, as lines of text."""

import io
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from autoforge import questions
from autoforge.progress.lines import plain
from autoforge.report import Report
from db.feature import Batch, Feature, FeatureStatus

COLUMNS = ("id", "feature", "status", "needs", "commit", "PR")
NAME, GAP, NARROWEST, LONGEST_NEEDS = 1, "  ", 10, 16
REASON_LINES = 8
UNLIMITED = 10_000  # columns: a branch is copied and must stay in one line


def report_lines(report: Report, width: int) -> list[str]:
    """Table, then what is left and why, then the totals in one sentence."""
    return [
        *table_lines(report, width),
        "",
        *(_short(f"#{i} blocked: {reason}") for i, reason in report.blocked.items()),
        *(_short(f"#{i} not passed: {reason}") for i, reason in report.open.items()),
        *map(_short, report.unpublished.values()),
        totals(report),
    ]


def _short(reason: str) -> str:
    """The first line and the end, where a command's output says what went wrong; `features show` has it all."""
    lines = [line.rstrip() for line in reason.splitlines() if line.strip()]
    if len(lines) > REASON_LINES:
        lines = [lines[0], "…", *lines[2 - REASON_LINES :]]
    return "\n  ".join(lines)


def table_lines(report: Report, width: int) -> list[str]:
    """Names are cut where the table would be wider than `width` columns."""
    rows = [COLUMNS, *(_row(f, blocked=f.id in report.blocked) for f in report.features)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    others = sum(widths) - widths[NAME] + len(GAP) * (len(COLUMNS) - 1)
    widths[NAME] = min(widths[NAME], max(NARROWEST, width - others))
    return [
        GAP.join(_fit(cell, size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _row(f: Feature, *, blocked: bool) -> tuple[str, ...]:
    status = "blocked" if blocked else str(f.status)
    pull = f"#{f.pr_number} {f.pr_status or ''}".strip() if f.pr_number else ""
    needs = _fit(",".join(map(str, f.dependencies)), LONGEST_NEEDS).rstrip()
    return str(f.id), plain(f.name), status, needs, (f.commit_sha or "")[:8], pull


def _fit(cell: str, size: int) -> str:
    text = Text(cell)
    text.truncate(size, overflow="ellipsis", pad=True)
    return text.plain


def feature_lines(feature: Feature, report: Report) -> list[str]:
    """Everything about one feature that is not empty."""
    why = report.blocked.get(feature.id) or report.open.get(feature.id)
    shown = {e.step for e in feature.evidence if e.exit_code == 0}
    facts = {
        "status": f"{feature.status}{f': {why}' if why else ''}",
        "category": feature.category,
        "priority": str(feature.priority),
        "depends on": ", ".join(f"#{i}" for i in feature.dependencies),
        "verified by": ", ".join(feature.verify),
        "branch": feature.branch_name,
        "commit": feature.commit_sha,
        "pull request": feature.pr_url,
        "attempts": str(feature.attempts),
        "question": questions.render(questions.from_column(feature.question or "")),
        "answer": feature.answer,
    }
    steps = [f"  [{'x' if n in shown else ' '}] {step}" for n, step in enumerate(feature.steps)]
    head = [f"#{feature.id} {feature.name}", *([feature.description] if feature.description else [])]
    return head + [f"{name}: {value}" for name, value in facts.items() if value] + steps


def totals(report: Report) -> str:
    """One sentence: how many passed, and what the rest does."""
    total = len(report.features)
    passed = report.count(FeatureStatus.PASSED)
    rest = [
        f"{number} {word}"
        for number, word in (
            (report.count(FeatureStatus.FAILED), "failed"),
            (len(report.blocked), "blocked"),
            (report.count(FeatureStatus.NEEDS_INPUT), "waiting for an answer"),
            (report.count(FeatureStatus.PENDING), "pending"),
            (report.count(FeatureStatus.RUNNING), "running"),
            (report.count(FeatureStatus.SKIPPED), "skipped"),
            (len(report.unpublished), "batches not published or not up to date"),
        )
        if number
    ]
    sentence = f"{passed} of {total} features passed"
    if rest:
        sentence += f"; {', '.join(rest)}"
    if report.why and report.ending:
        sentence += f". The build stopped: {report.why.rstrip('.')}"
    return f"{sentence}. Cost: ${report.cost_usd:.2f}"


def stack_lines(batches: Sequence[Batch], features: Sequence[Feature], target: str) -> list[str]:
    """The branches as a tree, each below what it is built on; none when nothing has been committed."""
    keys = {batch.key for batch in batches}
    root = Tree(Text(plain(target)), guide_style="")
    nodes: dict[str, Tree] = {}
    for batch in batches:
        if batch.head_sha is None:
            continue
        parents = [p.key for p in batch.parents if p.key in keys]
        above = nodes.get(parents[-1], root) if parents else root
        nodes[batch.key] = above.add(Text(_branch(batch, features, len(parents))))
    if not nodes:
        return []
    out = io.StringIO()
    Console(file=out, width=UNLIMITED, color_system=None, force_terminal=False).print(root)
    return ["", *(line.rstrip() for line in out.getvalue().splitlines())]


def _branch(batch: Batch, features: Sequence[Feature], parents: int) -> str:
    names = ", ".join(f"#{f.id}" for f in features if f.batch_key == batch.key)
    joined = f" (join of {parents})" if parents > 1 else ""
    pull = f" → PR #{batch.pr_number}" if batch.pr_number else ""
    return f"{batch.branch} {(batch.head_sha or '')[:8]} [{batch.status}] {names}{joined}{pull}"
