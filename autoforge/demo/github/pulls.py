"""The pull request part of the API, with GitHub's own refusals."""

from dataclasses import replace

from autoforge.demo.github import git, merging, represent, represent_git
from autoforge.demo.github.answers import Answer, ApiError, Call, invalid_pull
from autoforge.demo.github.follow import closed, compared, why_not_into
from autoforge.demo.github.repository import Pull, Repository, now

BODY_LIMIT = 65536


def listing(call: Call) -> Answer:
    by_update = call.query.get("sort") == "updated"
    newest_first = call.query.get("direction", "asc" if by_update else "desc") == "desc"
    pulls = [pull for pull in call.repository.pulls.values() if _is_wanted(call, pull)]
    pulls.sort(key=lambda pull: (pull.updated_at if by_update else "", pull.number), reverse=newest_first)
    return 200, [represent.pull_simple(call.links, call.repository, pull) for pull in pulls]


def _is_wanted(call: Call, pull: Pull) -> bool:
    state, base, head = call.query.get("state", "open"), call.query.get("base"), call.query.get("head", "")
    if state != "all" and pull.state != state:
        return False
    if base and pull.base != base:
        return False
    # GitHub ignores a head without its owner.
    return ":" not in head or head == f"{call.repository.owner}:{pull.head}"


def create(call: Call) -> Answer:
    repository = call.repository
    if call.account.app and not repository.app_may_open_pulls:
        raise ApiError(403, "GitHub Actions is not permitted to create or approve pull requests.")
    title, head, base = call.required("title"), _head(call), call.required("base")
    heads = git.branches(repository.path)
    _refuse_new(call, head=head, base=base, heads=heads)
    pull = Pull(
        id=next(repository.ids),
        number=repository.next_number(),
        title=title,
        body=call.field("body"),
        head=head,
        base=base,
        author=call.account,
        draft=bool(call.field("draft")),
        created_at=now(),
        updated_at=now(),
        head_sha=heads[head],
        base_sha=heads[base],
    )
    pull = compared(repository, pull, head_sha=heads[head], base_sha=heads[base])
    repository.pulls[pull.number] = pull
    return 201, represent.pull(call.links, repository, pull)


def _head(call: Call) -> str:
    owner, _, head = call.required("head").rpartition(":")
    if owner and owner != call.repository.owner:
        raise invalid_pull(field="head", code="invalid")
    return head


def _refuse_new(call: Call, *, head: str, base: str, heads: dict[str, str]) -> None:
    for field, branch in (("base", base), ("head", head)):
        if branch not in heads:
            raise invalid_pull(field=field, code="invalid")
    _refuse_body(call)
    if call.repository.has_open_pull(head, base):
        raise invalid_pull(f"A pull request already exists for {call.repository.owner}:{head}.")
    if not git.are_related(call.repository.path, heads[head], heads[base]):
        raise invalid_pull(f"The {head} branch has no history in common with {base}")
    if git.is_ancestor(call.repository.path, heads[head], heads[base]):
        raise invalid_pull(f"No commits between {base} and {head}")


def _refuse_body(call: Call) -> None:
    if len(call.field("body") or "") > BODY_LIMIT:
        message = f"body is too long (maximum is {BODY_LIMIT} characters)"
        raise invalid_pull(message, field="body")


def get(call: Call, number: str) -> Answer:
    return 200, represent.pull(call.links, call.repository, call.pull(number))


def edit(call: Call, number: str) -> Answer:
    repository, pull = call.repository, call.pull(number)
    _refuse_body(call)
    base, state = call.field("base"), call.field("state")
    if base is not None and base != pull.base:
        pull = _retargeted(repository, pull, base)
    if state == "open" and pull.state == "closed":
        pull = _reopened(repository, pull)
    elif state == "closed" and pull.state == "open":
        pull = closed(pull)
    changed = {name: call.body[name] for name in ("title", "body") if call.field(name) is not None}
    pull = replace(pull, updated_at=now(), **changed)
    repository.pulls[pull.number] = pull
    return 200, represent.pull(call.links, repository, pull)


def _retargeted(repository: Repository, pull: Pull, base: str) -> Pull:
    heads = git.branches(repository.path)
    if pull.state != "open":
        raise invalid_pull(
            "Cannot change the base branch of a closed pull request.", field="base", code="invalid"
        )
    if base not in heads:
        raise invalid_pull(f"Proposed base branch '{base}' was not found", field="base", code="invalid")
    tips = {"head_sha": pull.head_sha, "base_sha": heads[base]}
    why = why_not_into(repository, pull.head, base, **tips)
    if why:
        raise invalid_pull(why, field="base", code="invalid")
    return compared(repository, replace(pull, base=base), **tips)


def _reopened(repository: Repository, pull: Pull) -> Pull:
    heads = git.branches(repository.path)
    why = _why_not_reopened(repository, pull, heads)
    if why:
        raise invalid_pull(f"state cannot be changed. {why}", field="state", code="invalid")
    opened = replace(pull, state="open", closed_at=None)
    return compared(repository, opened, head_sha=pull.head_sha, base_sha=heads[pull.base])


def _why_not_reopened(repository: Repository, pull: Pull, heads: dict[str, str]) -> str | None:
    if pull.merged:
        return "The pull request cannot be reopened."
    for branch in (pull.head, pull.base):
        if branch not in heads:
            return f"The {branch} branch has been deleted."
    if heads[pull.head] != pull.head_sha:
        return f"The {pull.head} branch was force-pushed or recreated."
    return why_not_into(repository, pull.head, pull.base, head_sha=pull.head_sha, base_sha=heads[pull.base])


def merge(call: Call, number: str) -> Answer:
    sha = merging.merge(call, call.pull(number))
    return 200, {"sha": sha, "merged": True, "message": "Pull Request successfully merged"}


def is_merged(call: Call, number: str) -> Answer:
    if not call.pull(number).merged:
        raise ApiError(404, "Not Found")
    return 204, None


def files(call: Call, number: str) -> Answer:
    return 200, represent_git.files(call.links, call.repository, call.pull(number))


def commits(call: Call, number: str) -> Answer:
    shas = represent.pull_commits(call.repository, call.pull(number))
    return 200, [represent_git.commit(call.links, call.repository, sha) for sha in shas]


def set_draft(call: Call, number: str, *, draft: bool) -> None:
    pull = call.pull(number)
    call.repository.pulls[pull.number] = replace(pull, draft=draft, updated_at=now())
