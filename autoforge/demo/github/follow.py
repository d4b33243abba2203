"""What GitHub does by itself when branches have moved: pull requests follow, close or count as merged."""

import re
from collections.abc import Mapping
from dataclasses import replace

from autoforge.demo.github import git
from autoforge.demo.github.repository import Pull, Repository, now

CLOSES = r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):? #(\d+)\b"


def follow(repository: Repository) -> None:
    """Bring every open pull request in step with the branches; `refs/pull/N/head` and `/merge` too."""
    heads = git.branches(repository.path)
    for pull in list(repository.pulls.values()):
        if pull.state == "open":
            repository.pulls[pull.number] = _followed(repository, pull, heads)


def closed(pull: Pull) -> Pull:
    return replace(pull, state="closed", closed_at=now(), updated_at=now())


def close_issues(repository: Repository, merged: Pull) -> None:
    """Those that the merged pull request says it closes; GitHub does so in the default branch only."""
    if merged.base != repository.default_branch:
        return
    for number in map(int, re.findall(CLOSES, merged.body or "")):
        issue = repository.issues.get(number)
        if issue and issue.state == "open":
            repository.issues[number] = replace(issue, state="closed", closed_at=now(), updated_at=now())


def compared(repository: Repository, pull: Pull, *, head_sha: str, base_sha: str) -> Pull:
    """The open pull request with these tips: mergeable or not, or ended because nothing is left of it."""
    path = repository.path
    if not git.are_related(path, head_sha, base_sha):
        return closed(pull)
    git.set_ref(path, f"refs/pull/{pull.number}/head", head_sha)
    if git.is_ancestor(path, head_sha, base_sha):
        return _contained(repository, pull, head_sha=head_sha, base_sha=base_sha)
    tree = git.merged_tree(path, base_sha, head_sha)
    if tree:
        message = f"Merge {head_sha} into {base_sha}"
        trial = git.write_commit(path, tree, [base_sha, head_sha], message=message)
        git.set_ref(path, f"refs/pull/{pull.number}/merge", trial)
    return replace(pull, head_sha=head_sha, base_sha=base_sha, mergeable=tree is not None, updated_at=now())


def _followed(repository: Repository, pull: Pull, heads: Mapping[str, str]) -> Pull:
    if pull.head not in heads:
        return closed(pull)
    head_sha = heads[pull.head]
    if pull.base not in heads:
        base = _inherited_base(repository, pull.base, heads)
        if base is None or why_not_into(repository, pull.head, base, head_sha=head_sha, base_sha=heads[base]):
            return closed(pull)
        return compared(repository, replace(pull, base=base), head_sha=head_sha, base_sha=heads[base])
    if (head_sha, heads[pull.base]) == (pull.head_sha, pull.base_sha):
        return pull
    return compared(repository, pull, head_sha=head_sha, base_sha=heads[pull.base])


def why_not_into(repository: Repository, head: str, base: str, *, head_sha: str, base_sha: str) -> str | None:
    """Why no pull request that exists can be open between these branches."""
    if repository.has_open_pull(head, base):
        return f"A pull request already exists for base branch '{base}' and head branch '{head}'"
    if not git.are_related(repository.path, head_sha, base_sha):
        return f"The {head} branch has no history in common with {base}."
    if git.is_ancestor(repository.path, head_sha, base_sha):
        return f"There are no new commits between base branch '{base}' and head branch '{head}'"
    return None


def _inherited_base(repository: Repository, deleted: str, heads: Mapping[str, str]) -> str | None:
    """Where the merged pull request of a deleted branch went, if the repository retargets."""
    seen: set[str] = set()
    base: str | None = deleted
    while repository.retarget_on_base_delete and base is not None and base not in seen:
        if base in heads:
            return base
        seen.add(base)
        merged = (p for p in reversed(repository.pulls.values()) if p.head == base and p.merged)
        base = next((pull.base for pull in merged), None)
    return None


def _contained(repository: Repository, pull: Pull, *, head_sha: str, base_sha: str) -> Pull:
    """Merged when the commits have come into the base; closed when the head went back behind it."""
    ended = replace(closed(pull), head_sha=head_sha)
    if git.is_ancestor(repository.path, head_sha, pull.base_sha):
        return ended
    merged = replace(ended, merged_at=ended.closed_at, merge_sha=base_sha, mergeable=None)
    close_issues(repository, merged)
    return merged
