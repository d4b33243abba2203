"""GitHub's JSON for what people say: issues, comments and reviews."""

from autoforge.demo.github.answers import Json, Links
from autoforge.demo.github.repository import Comment, Issue, Pull, Repository, Review
from autoforge.demo.github.represent import association, label, node_id, pull_urls, repository_url, user


def issue(links: Links, repo: Repository, issue: Issue | Pull) -> Json:
    """A pull request differs by its address for people and by what only it has."""
    url = f"{repository_url(links, repo)}/issues/{issue.number}"
    completed = issue.state == "closed" and isinstance(issue, Issue)
    return {
        "id": issue.id,
        "node_id": node_id(repo, issue) if isinstance(issue, Pull) else f"I_{repo.id}_{issue.number}",
        "number": issue.number,
        "title": issue.title,
        "body": issue.body,
        "state": issue.state,
        "state_reason": "completed" if completed else None,
        "locked": False,
        "user": user(links, issue.author),
        "author_association": association(repo, issue.author),
        "labels": [label(links, repo, name) for name in issue.labels],
        "comments": len(issue.comments),
        "assignees": [],
        **dict.fromkeys(["assignee", "milestone"]),
        "created_at": issue.created_at,
        "updated_at": issue.updated_at,
        "closed_at": issue.closed_at,
        "url": url,
        "html_url": _page(links, repo, issue),
        "repository_url": repository_url(links, repo),
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "labels_url": f"{url}/labels{{/name}}",
        **(_as_pull(links, repo, issue) if isinstance(issue, Pull) else {}),
    }


def _as_pull(links: Links, repo: Repository, pull: Pull) -> Json:
    urls = pull_urls(links, repo, pull)
    addresses = {f"{name}_url": urls[name] for name in ("html", "diff", "patch")}
    return {
        "draft": pull.draft,
        "pull_request": {"url": urls["self"], "merged_at": pull.merged_at, **addresses},
    }


def _page(links: Links, repo: Repository, issue: Issue | Pull) -> str:
    kind = "pull" if isinstance(issue, Pull) else "issues"
    return f"{links.web}/{repo.slug}/{kind}/{issue.number}"


def comment(links: Links, repo: Repository, issue: Issue | Pull, comment: Comment) -> Json:
    url = repository_url(links, repo)
    return {
        "id": comment.id,
        "node_id": f"IC_{comment.id}",
        "body": comment.body,
        "user": user(links, comment.author),
        "author_association": association(repo, comment.author),
        "created_at": comment.created_at,
        "updated_at": comment.created_at,
        "url": f"{url}/issues/comments/{comment.id}",
        "issue_url": f"{url}/issues/{issue.number}",
        "html_url": f"{_page(links, repo, issue)}#issuecomment-{comment.id}",
    }


def review(links: Links, repo: Repository, pull: Pull, review: Review) -> Json:
    pull_url = pull_urls(links, repo, pull)["self"]
    page = f"{_page(links, repo, pull)}#pullrequestreview-{review.id}"
    return {
        "id": review.id,
        "node_id": f"PRR_{review.id}",
        "user": user(links, review.author),
        "author_association": association(repo, review.author),
        "body": review.body,
        "state": review.state,
        "commit_id": review.commit_sha,
        "submitted_at": review.submitted_at,
        "html_url": page,
        "pull_request_url": pull_url,
        "_links": {"html": {"href": page}, "pull_request": {"href": pull_url}},
    }
