"""GitHub's JSON: every field that its OpenAPI description requires, with this server's own addresses."""

from autoforge.demo.github import git
from autoforge.demo.github.answers import Json, Links
from autoforge.demo.github.repository import Account, Pull, Repository

USER_URLS = "events followers following gists organizations received_events repos starred subscriptions"
REPOSITORY_URLS = (
    "archive assignees blobs branches collaborators comments commits compare contents contributors deployments "
    "downloads events forks git_commits git_refs git_tags hooks issue_comment issue_events issues keys labels "
    "languages merges milestones notifications pulls releases stargazers statuses subscribers subscription tags "
    "teams trees"
)
REPOSITORY_FLAGS = "fork archived disabled has_projects has_wiki has_pages has_discussions has_downloads"
REPOSITORY_COUNTS = (
    "forks forks_count open_issues open_issues_count size stargazers_count watchers watchers_count network_count "
    "subscribers_count"
)
PRIVATE_COUNTS = (
    "followers following public_gists public_repos collaborators disk_usage owned_private_repos private_gists "
    "total_private_repos"
)
EPOCH = "2024-01-01T00:00:00Z"


def _urls(base: str, names: str) -> Json:
    return {f"{name}_url": f"{base}/{name}" for name in names.split()}


def user(links: Links, account: Account) -> Json:
    login = f"{account.login}[bot]" if account.app and not account.login.endswith("[bot]") else account.login
    url = f"{links.api}/users/{login}"
    return {
        "login": login,
        "id": sum(map(ord, login)),
        "node_id": f"U_{login}",
        "type": "Bot" if account.app else "User",
        "site_admin": False,
        "gravatar_id": "",
        "avatar_url": f"{links.web}/{login}.png",
        "html_url": f"{links.web}/{login}",
        "url": url,
        **_urls(url, USER_URLS),
    }


def private_user(links: Links, account: Account) -> Json:
    return {
        **user(links, account),
        **dict.fromkeys(["bio", "blog", "company", "email", "hireable", "location", "name"]),
        **dict.fromkeys(PRIVATE_COUNTS.split(), 0),
        "user_view_type": "private",
        "two_factor_authentication": False,
        "created_at": EPOCH,
        "updated_at": EPOCH,
    }


def repository_url(links: Links, repository: Repository) -> str:
    return f"{links.api}/repos/{repository.slug}"


def repository(links: Links, repository: Repository) -> Json:
    url, web = repository_url(links, repository), f"{links.web}/{repository.slug}"
    return {
        "id": repository.id,
        "node_id": f"R_{repository.id}",
        "name": repository.name,
        "full_name": repository.slug,
        "owner": user(links, Account(repository.owner)),
        "private": repository.private,
        "visibility": "private" if repository.private else "public",
        "default_branch": repository.default_branch,
        "delete_branch_on_merge": repository.delete_branch_on_merge,
        "permissions": dict.fromkeys(["admin", "maintain", "push", "triage", "pull"], True),
        **dict.fromkeys(REPOSITORY_FLAGS.split(), False),
        **dict.fromkeys(["description", "homepage", "language", "license", "mirror_url"]),
        **dict.fromkeys(REPOSITORY_COUNTS.split(), 0),
        **dict.fromkeys(["created_at", "updated_at", "pushed_at"], EPOCH),
        "has_issues": True,
        **dict.fromkeys(["allow_merge_commit", "allow_squash_merge", "allow_rebase_merge"], True),
        "url": url,
        "html_url": web,
        **dict.fromkeys(["clone_url", "git_url", "ssh_url", "svn_url"], f"{web}.git"),
        **_urls(url, REPOSITORY_URLS),
    }


def association(repo: Repository, account: Account) -> str:
    """What somebody is to the repository; only the first two may write."""
    if account.login == repo.owner:
        return "OWNER"
    return "COLLABORATOR" if account.may_write and not account.app else "NONE"


def label(links: Links, repo: Repository, name: str) -> Json:
    number = repo.labels[name]
    return {
        "id": number,
        "node_id": f"LA_{number}",
        "name": name,
        "color": "ededed",
        "description": "",
        "default": False,
        "url": f"{repository_url(links, repo)}/labels/{name}",
    }


def pull_simple(links: Links, repo: Repository, pull: Pull) -> Json:
    """A pull request as lists show it."""
    urls = pull_urls(links, repo, pull)
    author = user(links, pull.author)
    return {
        "id": pull.id,
        "node_id": node_id(repo, pull),
        "number": pull.number,
        "state": pull.state,
        "draft": pull.draft,
        "locked": False,
        "title": pull.title,
        "body": pull.body,
        "user": author,
        "author_association": association(repo, pull.author),
        "labels": [label(links, repo, name) for name in pull.labels],
        "head": _side(links, repo, pull.head, sha=pull.head_sha),
        "base": _side(links, repo, pull.base, sha=pull.base_sha),
        "created_at": pull.created_at,
        "updated_at": pull.updated_at,
        "closed_at": pull.closed_at,
        "merged_at": pull.merged_at,
        "merge_commit_sha": pull.merge_sha,
        "assignees": [],
        "requested_reviewers": [],
        "requested_teams": [],
        **dict.fromkeys(["assignee", "milestone", "auto_merge"]),
        **{f"{name}_url": address for name, address in urls.items() if name != "self"},
        "url": urls["self"],
        "_links": {name: {"href": urls[name]} for name in urls if name not in ("diff", "patch")},
    }


def pull(links: Links, repo: Repository, pull: Pull) -> Json:
    """A pull request with what git has to be asked for."""
    span = f"{pull.base_sha}...{pull.head_sha}"
    counts = [line.split("\t") for line in git.output(repo.path, "diff", "--numstat", span).splitlines()]
    added, removed = (sum(int(row[side]) for row in counts if row[side] != "-") for side in (0, 1))
    state = "unknown" if pull.mergeable is None else "clean" if pull.mergeable else "dirty"
    return {
        **pull_simple(links, repo, pull),
        "merged": pull.merged,
        "merged_by": user(links, pull.merged_by) if pull.merged_by else None,
        "mergeable": pull.mergeable,
        "rebaseable": pull.mergeable,
        "mergeable_state": "draft" if pull.draft and pull.state == "open" else state,
        "maintainer_can_modify": False,
        "comments": len(pull.comments),
        "review_comments": 0,
        "commits": len(pull_commits(repo, pull)),
        "additions": added,
        "deletions": removed,
        "changed_files": len(counts),
    }


def pull_urls(links: Links, repo: Repository, pull: Pull) -> dict[str, str]:
    url, web = repository_url(links, repo), f"{links.web}/{repo.slug}/pull/{pull.number}"
    return {
        "self": f"{url}/pulls/{pull.number}",
        "html": web,
        "diff": f"{web}.diff",
        "patch": f"{web}.patch",
        "issue": f"{url}/issues/{pull.number}",
        "comments": f"{url}/issues/{pull.number}/comments",
        "commits": f"{url}/pulls/{pull.number}/commits",
        "review_comments": f"{url}/pulls/{pull.number}/comments",
        "review_comment": f"{url}/pulls/comments{{/number}}",
        "statuses": f"{url}/statuses/{pull.head_sha}",
    }


def _side(links: Links, repo: Repository, branch_name: str, *, sha: str) -> Json:
    owner = user(links, Account(repo.owner))
    label = f"{repo.owner}:{branch_name}"
    return {"label": label, "ref": branch_name, "sha": sha, "user": owner, "repo": repository(links, repo)}


def node_id(repo: Repository, pull: Pull) -> str:
    return f"PR_{repo.id}_{pull.number}"


def pull_commits(repo: Repository, pull: Pull) -> list[str]:
    """Oldest first."""
    return git.output(repo.path, "rev-list", "--reverse", f"{pull.base_sha}..{pull.head_sha}").split()
