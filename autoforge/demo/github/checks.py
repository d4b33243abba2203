"""What checks say about a commit: check runs, which apps make, and commit statuses, which anybody may set who writes."""

from collections.abc import Collection

from autoforge.demo.github import represent_checks
from autoforge.demo.github.answers import Answer, ApiError, Call
from autoforge.demo.github.contents import commit_sha
from autoforge.demo.github.repository import CheckRun, Status, now


def create_run(call: Call) -> Answer:
    if not call.account.app:
        raise ApiError(403, "You must authenticate via a GitHub App.")
    conclusion, output = call.field("conclusion"), call.field("output") or {}
    status = "completed" if conclusion else call.field("status", "queued")
    if status == "completed" and not conclusion:
        raise ApiError(422, 'Invalid request.\n\n"conclusion" wasn\'t supplied.')
    run = CheckRun(
        id=next(call.repository.ids),
        app=call.account.login,
        name=call.required("name"),
        head_sha=commit_sha(call, call.required("head_sha")),
        status=status,
        conclusion=conclusion,
        started_at=call.field("started_at") or now(),
        completed_at=(call.field("completed_at") or now()) if conclusion else None,
        details_url=call.field("details_url"),
        external_id=call.field("external_id"),
        title=output.get("title"),
        summary=output.get("summary"),
    )
    call.repository.check_runs.append(run)
    return 201, represent_checks.run(call.links, call.repository, run)


def runs(call: Call, revision: str) -> Answer:
    """The latest of each name, or all of them."""
    sha = commit_sha(call, revision)
    found: Collection[CheckRun] = [run for run in call.repository.check_runs if run.head_sha == sha]
    if call.query.get("filter", "latest") == "latest":
        found = {(run.app, run.name): run for run in found}.values()
    for field in ("status", "check_name"):
        wanted = call.query.get(field)
        found = [run for run in found if wanted in (None, getattr(run, field.removeprefix("check_")))]
    listed = [represent_checks.run(call.links, call.repository, run) for run in found]
    return 200, {"total_count": len(listed), "check_runs": listed}


def create_status(call: Call, sha: str) -> Answer:
    status = Status(
        id=next(call.repository.ids),
        author=call.account,
        sha=commit_sha(call, sha),
        context=call.field("context", "default"),
        state=call.required("state"),
        description=call.field("description"),
        target_url=call.field("target_url"),
        created_at=now(),
    )
    call.repository.statuses.append(status)
    return 201, represent_checks.status(call.links, call.repository, status, creator=True)


def combined_status(call: Call, revision: str) -> Answer:
    """The latest of each context, and what they come to."""
    sha = commit_sha(call, revision)
    latest = {one.context: one for one in call.repository.statuses if one.sha == sha}
    return 200, represent_checks.combined(call.links, call.repository, sha, list(latest.values()))
