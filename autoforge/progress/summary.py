"""The feature table, the branch graph and the pull requests as text of a given width."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

from autoforge.report import Report
from db.feature import Batch, Feature, FeatureStatus


def show_report(console: Console, report: Report) -> None:
    """Table, then what is left and why, then the totals in one sentence."""
    show_features(console, report)
    for reasons, label in ((report.blocked, "blocked"), (report.open, "not passed")):
        for feature_id, reason in reasons.items():
            console.print(f"#{feature_id} {label}: {reason}", markup=False, highlight=False)
    for reason in report.unpublished.values():
        console.print(reason, markup=False, highlight=False)
    console.print(totals(report), markup=False, highlight=False)


def show_features(console: Console, report: Report) -> None:
    if report.features:
        console.print(_table(report))


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
        "question": feature.question,
        "answer": feature.answer,
    }
    steps = [f"  [{'x' if n in shown else ' '}] {step}" for n, step in enumerate(feature.steps)]
    head = [f"#{feature.id} {feature.name}", *([feature.description] if feature.description else [])]
    return head + [f"{name}: {value}" for name, value in facts.items() if value] + steps


def _table(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, options in _COLUMNS.items():
        table.add_column(name, **options)  # type: ignore[arg-type]
    for f in report.features:
        status = "blocked" if f.id in report.blocked else str(f.status)
        pull = f"#{f.pr_number} {f.pr_status or ''}".strip() if f.pr_number else ""
        depends = ",".join(map(str, f.dependencies))
        table.add_row(str(f.id), f.name, status, depends, (f.commit_sha or "")[:8], pull)
    return table


_COLUMNS: Mapping[str, Mapping[str, object]] = {
    "id": {"justify": "right", "no_wrap": True},
    "feature": {"overflow": "ellipsis", "no_wrap": True, "ratio": 1},
    "status": {"no_wrap": True},
    "needs": {"overflow": "ellipsis", "no_wrap": True},
    "commit": {"no_wrap": True},
    "PR": {"no_wrap": True},
}


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
            (len(report.unpublished), "batches not published"),
        )
        if number
    ]
    sentence = f"{passed} of {total} features passed"
    if rest:
        sentence += f"; {', '.join(rest)}"
    if report.why and report.ending:
        sentence += f". The build stopped: {report.why}"
    return f"{sentence}. Cost: ${report.cost_usd:.2f}"


def show_stack(console: Console, batches: Sequence[Batch], features: Sequence[Feature], target: str) -> None:
    """The branches as a tree: each below what it is built on."""
    keys = {batch.key for batch in batches}
    root = Tree(target, guide_style="dim")
    nodes: dict[str, Tree] = {}
    for batch in batches:
        if batch.head_sha is None:
            continue
        parents = [p.key for p in batch.parents if p.key in keys]
        above = nodes.get(parents[-1], root) if parents else root
        nodes[batch.key] = above.add(_branch(batch, features, len(parents)))
    console.print(root)


def _branch(batch: Batch, features: Sequence[Feature], parents: int) -> str:
    names = ", ".join(f"#{f.id}" for f in features if f.batch_key == batch.key)
    joined = f" (join of {parents})" if parents > 1 else ""
    pull = f" → PR #{batch.pr_number}" if batch.pr_number else ""
    return f"{batch.branch} {(batch.head_sha or '')[:8]} [{batch.status}] {names}{joined}{pull}".replace(
        "[", "\\["
    )
