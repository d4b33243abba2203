"""GitHub's JSON for what checks say about a commit."""

from collections.abc import Sequence

from autoforge.demo.github.answers import Json, Links
from autoforge.demo.github.repository import CheckRun, Repository, Status
from autoforge.demo.github.represent import repository, repository_url, user


def run(links: Links, repo: Repository, run: CheckRun) -> Json:
    url = f"{repository_url(links, repo)}/check-runs/{run.id}"
    page = f"{links.web}/{repo.slug}/runs/{run.id}"
    return {
        "id": run.id,
        "node_id": f"CR_{run.id}",
        "name": run.name,
        "head_sha": run.head_sha,
        "status": run.status,
        "conclusion": run.conclusion,
        "started_at": run.started_at,
        "completed_at": run.completed_at,
        "external_id": run.external_id,
        "url": url,
        "html_url": page,
        "details_url": run.details_url or page,
        "output": {
            "title": run.title,
            "summary": run.summary,
            "text": None,
            "annotations_count": 0,
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": int(run.head_sha[:7], 16)},  # one for each commit
        "app": None,
        "pull_requests": [],
    }


def status(links: Links, repo: Repository, status: Status, *, creator: bool = False) -> Json:
    """Its creator is told to whoever sets it, and not in the combined status."""
    return {
        "id": status.id,
        "node_id": f"SC_{status.id}",
        "state": status.state,
        "context": status.context,
        "description": status.description,
        "target_url": status.target_url,
        "avatar_url": user(links, status.author)["avatar_url"],
        "created_at": status.created_at,
        "updated_at": status.created_at,
        "url": f"{repository_url(links, repo)}/statuses/{status.sha}",
        **({"creator": user(links, status.author)} if creator else {}),
    }


def combined(links: Links, repo: Repository, sha: str, latest: Sequence[Status]) -> Json:
    states = {status.state for status in latest}
    worst = "failure" if states & {"failure", "error"} else "success" if states == {"success"} else "pending"
    url = f"{repository_url(links, repo)}/commits/{sha}"
    return {
        "state": worst,
        "sha": sha,
        "total_count": len(latest),
        "statuses": [status(links, repo, one) for one in latest],
        "repository": repository(links, repo),
        "commit_url": url,
        "url": f"{url}/status",
    }
