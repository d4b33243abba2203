"""`autoforge init`: a first autoforge.toml."""

from pathlib import Path
from typing import Annotated

import typer

from autoforge.commands.context import Repository, open_project, say
from autoforge.errors import UsageError

TEMPLATE = """\
# autoforge: read once at the start of a build. All keys: see "Configuration" in autoforge's README.
{target}
[verify]
# Every command must exit 0 before a feature has passed.
commands = [{commands}]
"""


def init(
    context: typer.Context,
    verify: Annotated[
        list[str] | None, typer.Option(help="A command that shows that the project works; may be repeated.")
    ] = None,
    repository: Repository = None,
) -> None:
    """Write autoforge.toml. Changes nothing else."""
    import json

    from autoforge import settings
    from autoforge.project import target_branch

    project = open_project(context, repository)
    path = project.folder / settings.FILE
    target = json.dumps(target_branch(project), ensure_ascii=False)
    commands = ", ".join(json.dumps(command, ensure_ascii=False) for command in verify or ())
    _write(path, TEMPLATE.format(target=f"target = {target}\n", commands=commands))
    say(f"Wrote {path}.")
    if not verify:
        say("Now set `verify.commands` in it: what must succeed before a feature counts.")
    goal = "--auto-pr" if project.remote else "--land"
    say(f"Next: autoforge plan FILE or autoforge features import FILE, then autoforge build {goal}")


def _write(path: Path, text: str) -> None:
    """A new file, whole or not at all. Raises UsageError."""
    begun = False
    try:
        data = text.encode()
        with path.open("xb") as file:
            begun = True
            file.write(data)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already; it was left as it is.") from error
    except UnicodeEncodeError as error:
        raise UsageError("A verify command is not UTF-8 text: nothing was written.") from error
    except OSError as error:
        if begun:
            path.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written ({error.strerror}): nothing is left of it.") from error
