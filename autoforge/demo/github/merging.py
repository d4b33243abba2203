"""Merging a pull request the three ways that GitHub offers, with real commits and no checkout."""

from dataclasses import replace

from autoforge.demo.github import git
from autoforge.demo.github.answers import ApiError, Call
from autoforge.demo.github.follow import close_issues, follow
from autoforge.demo.github.repository import Account, Pull, Repository, now
from autoforge.demo.github.represent import pull_commits


def merge(call: Call, pull: Pull) -> str:
    """Answers the commit that the base branch now is at."""
    repository = call.repository
    _check(pull, expected=call.field("sha"))
    new = _merged_commit(call, pull)
    if not git.set_ref(repository.path, f"refs/heads/{pull.base}", new, old=pull.base_sha):
        raise ApiError(409, "Base branch was modified. Review and try the merge again.")
    moment = now()
    merged = repository.pulls[pull.number] = replace(
        pull,
        state="closed",
        mergeable=None,
        merge_sha=new,
        merged_by=call.account,
        merged_at=moment,
        closed_at=moment,
        updated_at=moment,
    )
    close_issues(repository, merged)
    if repository.delete_branch_on_merge:
        git.delete_ref(repository.path, f"refs/heads/{pull.head}")
    follow(repository)
    return new


def _check(pull: Pull, *, expected: object) -> None:
    if pull.state != "open":
        raise ApiError(405, "Pull Request is not mergeable")
    if pull.draft:
        raise ApiError(405, "Pull Request is still a draft")
    if expected and expected != pull.head_sha:
        raise ApiError(409, "Head branch was modified. Review and try the merge again.")
    if not pull.mergeable:
        raise ApiError(405, "Pull Request is not mergeable")


def _merged_commit(call: Call, pull: Pull) -> str:
    method = call.field("merge_method", "merge")
    if method == "rebase":
        return _rebased(call.repository, pull)
    parents = [pull.base_sha, pull.head_sha] if method == "merge" else [pull.base_sha]
    tree = git.merged_tree(call.repository.path, pull.base_sha, pull.head_sha)
    assert tree is not None  # _check saw that it is mergeable
    author = call.account if method == "merge" else pull.author
    message = _message(call, pull, squash=method == "squash")
    return git.write_commit(call.repository.path, tree, parents, message=message, author=_identity(author))


def _identity(account: Account) -> git.Identity:
    return git.Identity(account.login, f"{account.login}@users.noreply.github.com")


def _message(call: Call, pull: Pull, *, squash: bool) -> str:
    """Of whoever merges, where they give one; else what GitHub proposes by default."""
    title = f"Merge pull request #{pull.number} from {call.repository.owner}/{pull.head}"
    text = pull.title
    if squash:
        title, text = _squash_message(call.repository, pull)
    given = call.field("commit_message")
    text = text if given is None else given
    return f"{call.field('commit_title') or title}\n\n{text}".strip() + "\n"


def _squash_message(repository: Repository, pull: Pull) -> tuple[str, str]:
    """One commit gives its own message, several give the pull request's title and a list of theirs."""
    form = ("show", "--no-patch", "--format=%B")
    messages = [git.output(repository.path, *form, sha).strip() for sha in pull_commits(repository, pull)]
    if len(messages) == 1:
        subject, _, text = messages[0].partition("\n")
        return f"{subject} (#{pull.number})", text.strip()
    return f"{pull.title} (#{pull.number})", "\n\n".join(f"* {message}" for message in messages)


def _rebased(repository: Repository, pull: Pull) -> str:
    """Each commit on top of the base, as a merge whose common ancestor is the commit's own parent."""
    path, tip = repository.path, pull.base_sha
    for sha in pull_commits(repository, pull):
        form = "--format=%an%x00%ae%x00%aI%x00%P%x00%B"
        name, email, date, parents, message = git.output(path, "show", "--no-patch", form, sha).split("\0")
        if len(parents.split()) > 1:
            continue
        onto = git.write_commit(path, f"{tip}^{{tree}}", parents.split(), message="rebase")
        tree = git.merged_tree(path, onto, sha)
        if tree is None:
            raise ApiError(405, "This branch can't be rebased")
        tip = git.write_commit(path, tree, [tip], message=message, author=git.Identity(name, email, date))
    return tip
