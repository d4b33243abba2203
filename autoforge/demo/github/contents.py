"""The repository part of the API: the repository itself, its branches, commits and refs."""

from autoforge.demo.github import git, represent, represent_git
from autoforge.demo.github.answers import Answer, ApiError, Call
from autoforge.demo.github.follow import follow


def repository(call: Call) -> Answer:
    return 200, represent.repository(call.links, call.repository)


def branches(call: Call) -> Answer:
    heads = git.branches(call.repository.path)
    return 200, [
        represent_git.branch_short(call.links, call.repository, name, sha=sha) for name, sha in heads.items()
    ]


def branch(call: Call, name: str) -> Answer:
    sha = git.branches(call.repository.path).get(name)
    if sha is None:
        raise ApiError(404, "Branch not found")
    return 200, represent_git.branch(call.links, call.repository, name, sha=sha)


def commit(call: Call, revision: str) -> Answer:
    return 200, represent_git.commit(call.links, call.repository, commit_sha(call, revision))


def commit_sha(call: Call, revision: str) -> str:
    """What a branch, tag or SHA in an address means."""
    path = call.repository.path
    sha = git.commit_of(path, f"refs/heads/{revision}") or git.commit_of(path, revision)
    if sha is None:
        raise ApiError(422, f"No commit found for SHA: {revision}")
    return sha


def ref(call: Call, name: str) -> Answer:
    sha = git.commit_of(call.repository.path, f"refs/{name}")
    if sha is None:
        raise ApiError(404, "Not Found")
    return 200, represent_git.ref(call.links, call.repository, f"refs/{name}", sha=sha)


def create_ref(call: Call) -> Answer:
    path, name = call.repository.path, call.required("ref")
    if not name.startswith("refs/") or name.count("/") < 2:
        raise ApiError(422, "Reference name must start with 'refs' and have at least two slashes.")
    if git.commit_of(path, name):
        raise ApiError(422, "Reference already exists")
    return 201, _set(call, name, old="")


def move_ref(call: Call, name: str) -> Answer:
    full = f"refs/{name}"
    old, new = _existing(call, full), call.required("sha")
    if not call.field("force") and not git.is_ancestor(call.repository.path, old, new):
        raise ApiError(422, "Update is not a fast forward")
    return 200, _set(call, full, old=old)


def _set(call: Call, name: str, *, old: str) -> object:
    sha = git.commit_of(call.repository.path, call.required("sha"))
    if sha is None:
        raise ApiError(422, "Object does not exist")
    if not git.set_ref(call.repository.path, name, sha, old=old):
        raise ApiError(422, "Reference update failed")
    follow(call.repository)
    return represent_git.ref(call.links, call.repository, name, sha=sha)


def delete_ref(call: Call, name: str) -> Answer:
    full = f"refs/{name}"
    _existing(call, full)
    git.delete_ref(call.repository.path, full)
    follow(call.repository)
    return 204, None


def _existing(call: Call, name: str) -> str:
    sha = git.commit_of(call.repository.path, name)
    if sha is None:
        raise ApiError(422, "Reference does not exist")
    if name in call.repository.protected:
        raise ApiError(422, f"Protected branch update failed for {name}.")
    return sha
