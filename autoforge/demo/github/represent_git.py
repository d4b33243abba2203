"""GitHub's JSON for what git holds: commits, changed files, branches and refs."""

from autoforge.demo.github import git
from autoforge.demo.github.answers import Json, Links
from autoforge.demo.github.repository import Pull, Repository
from autoforge.demo.github.represent import repository_url

COMMIT_FORMAT = "%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%T%x00%P%x00%B"
STATUS = {"A": "added", "D": "removed", "M": "modified", "T": "changed"}


def commit(links: Links, repo: Repository, sha: str) -> Json:
    url, web = repository_url(links, repo), f"{links.web}/{repo.slug}"
    parts = git.output(repo.path, "show", "--no-patch", f"--format={COMMIT_FORMAT}", sha).split("\0")
    author, committer = (
        dict(zip(("name", "email", "date"), parts[at : at + 3], strict=True)) for at in (0, 3)
    )
    tree, parents, message = parts[6:]
    return {
        "sha": sha,
        "node_id": f"C_{sha}",
        "url": f"{url}/commits/{sha}",
        "html_url": f"{web}/commit/{sha}",
        "comments_url": f"{url}/commits/{sha}/comments",
        "author": None,
        "committer": None,
        "parents": [
            {"sha": parent, "url": f"{url}/commits/{parent}", "html_url": f"{web}/commit/{parent}"}
            for parent in parents.split()
        ],
        "commit": {
            "author": author,
            "committer": committer,
            "message": message.strip("\n"),
            "comment_count": 0,
            "tree": {"sha": tree, "url": f"{url}/git/trees/{tree}"},
            "url": f"{url}/git/commits/{sha}",
        },
    }


def files(links: Links, repo: Repository, pull: Pull) -> list[Json]:
    """What the pull request changes; a rename counts as removed and added."""
    span = ("--no-renames", "-z", f"{pull.base_sha}...{pull.head_sha}")
    named = git.output(repo.path, "diff", "--name-status", *span).split("\0")[:-1]
    numbers = git.output(repo.path, "diff", "--numstat", *span).split("\0")[:-1]
    counts = [row.split("\t")[:2] for row in numbers]
    return [
        _file(links, repo, pull, path=path, status=STATUS.get(letter, "changed"), counts=pair)
        for letter, path, pair in zip(named[::2], named[1::2], counts, strict=True)
    ]


def _file(links: Links, repo: Repository, pull: Pull, *, path: str, status: str, counts: list[str]) -> Json:
    added, removed = (0 if count == "-" else int(count) for count in counts)
    url, web = repository_url(links, repo), f"{links.web}/{repo.slug}"
    side = pull.base_sha if status == "removed" else pull.head_sha
    patch = git.output(
        repo.path, "diff", "--no-renames", f"{pull.base_sha}...{pull.head_sha}", "--", f":(literal){path}"
    )
    return {
        "sha": git.output(repo.path, "rev-parse", f"{side}:{path}"),
        "filename": path,
        "status": status,
        "additions": added,
        "deletions": removed,
        "changes": added + removed,
        "patch": patch[patch.find("@@") :] if "@@" in patch else "",
        "blob_url": f"{web}/blob/{side}/{path}",
        "raw_url": f"{web}/raw/{side}/{path}",
        "contents_url": f"{url}/contents/{path}?ref={side}",
    }


def branch_short(links: Links, repo: Repository, name: str, *, sha: str) -> Json:
    url = f"{repository_url(links, repo)}/commits/{sha}"
    return {"name": name, "commit": {"sha": sha, "url": url}, "protected": _is_protected(repo, name)}


def branch(links: Links, repo: Repository, name: str, *, sha: str) -> Json:
    url = f"{repository_url(links, repo)}/branches/{name}"
    off: Json = {"enabled": False, "required_status_checks": {"contexts": [], "checks": []}}
    return {
        "name": name,
        "commit": commit(links, repo, sha),
        "protected": _is_protected(repo, name),
        "protection": off,
        "protection_url": f"{url}/protection",
        "_links": {"self": url, "html": f"{links.web}/{repo.slug}/tree/{name}"},
    }


def _is_protected(repo: Repository, name: str) -> bool:
    return f"refs/heads/{name}" in repo.protected


def ref(links: Links, repo: Repository, name: str, *, sha: str) -> Json:
    url = repository_url(links, repo)
    return {
        "ref": name,
        "node_id": f"REF_{name}",
        "url": f"{url}/git/{name}",
        "object": {"type": "commit", "sha": sha, "url": f"{url}/git/commits/{sha}"},
    }
