"""What must hold for every stack of pull requests, and what people do to branches."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from autoforge.demo.github import Repository
from autoforge.project import Project
from db.feature import Batch, BatchStatus, FeatureStatus
from tests.builds import batches, features
from tests.conftest import TOKEN, commit, run
from tests.harness.github import ValidatingGitHub


@dataclass(frozen=True)
class Person:
    """Works on branches in a clone of their own."""

    folder: Path

    @classmethod
    def cloning(cls, github: ValidatingGitHub, folder: Path) -> "Person":
        url = f"http://x:{TOKEN}@{github.url.removeprefix('http://')}/octo/app.git"
        run("git", "clone", "-q", url, str(folder), cwd=folder.parent)
        return cls(folder)

    def git(self, *args: str) -> str:
        return run("git", *args, cwd=self.folder)

    def adds(self, branch: str, files: dict[str, str]) -> str:
        """One more commit on the branch."""
        self._at(branch)
        sha = commit(self.folder, files, "by hand")
        self.git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        return sha

    def amends(self, branch: str, files: dict[str, str]) -> str:
        """Another commit in the place of the last one."""
        self._at(branch)
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--amend", "--no-edit")
        self.git("push", "-q", "--force", "origin", f"HEAD:refs/heads/{branch}")
        return self.git("rev-parse", "HEAD")

    def _at(self, branch: str) -> None:
        self.git("fetch", "-q", "origin")
        self.git("checkout", "-q", "--detach", f"origin/{branch}")


def by_feature(project: Project) -> dict[int, Batch]:
    """The batch that each feature belongs to now."""
    known = {b.key: b for b in batches(project)}
    return {f.id: known[f.batch_key] for f in features(project) if f.batch_key in known}


def own_files(project: Project, batch: Batch) -> list[str]:
    """What its agents wrote: one file a feature."""
    passed = [
        f.id for f in features(project) if f.batch_key == batch.key and f.status is FeatureStatus.PASSED
    ]
    return sorted(f"src/f{number}.txt" for number in passed)


def shown(origin: Path, base: str, head: str) -> list[str]:
    """The files that a pull request shows."""
    return run("git", "diff", "--name-only", f"{base}...{head}", cwd=origin).split()


def check(
    project: Project,
    forged: Repository,
    origin: Path,
    *,
    besides: dict[str, list[str]] | None = None,
    rewritten: Collection[str] = (),
) -> None:
    """Table, git and forge agree, and each open pull request shows its own change and no other.

    `besides`: by branch, the files that people added to it. `rewritten`: branches whose commits people replaced.
    """
    table = batches(project)
    open_ones = [pull for pull in forged.pulls.values() if pull.state == "open"]
    heads = [pull.head for pull in open_ones]
    assert len(set(heads)) == len(heads), f"two open pull requests of one branch: {heads}"
    for batch in table:
        if batch.status is not BatchStatus.OPENED:
            continue
        pull = forged.pulls[batch.pr_number or 0]
        there = run("git", "rev-parse", f"refs/heads/{batch.branch}", cwd=origin)
        assert (pull.state, pull.head, pull.base) == ("open", batch.branch, batch.base_branch)
        assert (batch.head_sha, batch.pushed_sha, batch.last_error) == (there, there, None)
        expected = sorted(own_files(project, batch) + (besides or {}).get(batch.branch, []))
        assert shown(origin, pull.base, batch.branch) == expected, batch.branch
        for feature in features(project):
            if feature.batch_key == batch.key and feature.commit_sha and batch.branch not in rewritten:
                run("git", "merge-base", "--is-ancestor", feature.commit_sha, there, cwd=origin)
