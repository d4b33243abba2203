"""The demo: a sample repository, a loopback GitHub, a scripted model, and the real `autoforge build --auto-pr`."""

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoforge.demo import sample, script
from autoforge.demo.github import Account, LoopbackGitHub, Repository
from autoforge.demo.model import ScriptedModel
from autoforge.errors import UsageError
from autoforge.settings import Surroundings
from git_workflow.command import Git

OWNER, NAME, TOKEN = "octo", "tally", "demo-token"
CONFIGURATION = f"""\
target = "main"

[verify]
commands = ["{sample.VERIFY}"]

[commit]
sign = false

[github]
seconds_between_writes = 0.0
"""
IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Demo"), ("EMAIL", "demo@localhost"))
}
INTRODUCTION = """\
autoforge demo: six features of a small application, built in parallel worktrees and opened as stacked pull requests.
Real: the claude CLI with its tools and hooks, git, worktrees, pushes over HTTP, the GitHub client.
Scripted: what the model says. GitHub is a stand-in on this machine; nothing leaves it.
"""


@dataclass(frozen=True)
class Stage:
    """Where the demo plays: `folder/app` is the clone, `folder/origin.git` the bare remote."""

    folder: Path
    github: LoopbackGitHub
    env: Mapping[str, str] = field(repr=False)

    @property
    def app(self) -> Path:
        return self.folder / "app"


def run(
    folder: Path | None,
    *,
    keep: bool,
    surroundings: Surroundings,
    write: Callable[[str], None],
) -> int:
    """The build's exit code."""
    with _folder(folder) as place, _stage(place, surroundings) as stage:
        write(INTRODUCTION)
        repository = _make_repository(stage)
        code = _autoforge(stage, write, "features", "import", str(sample.features_file()))
        code = code or _autoforge(stage, write, "build", "--auto-pr")
        _show(repository, write)
        if keep:
            write(f"\nThe loopback GitHub answers at {stage.github.url} (token {TOKEN}); Ctrl-C ends it.")
            _wait()
        if folder:
            stage_git(stage).run("remote", "set-url", "origin", str(place / "origin.git"))
            write(f"\nEverything is in {place}: the clone in app/, the remote in origin.git/.")
    return code


@contextlib.contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        if given.exists() and (not given.is_dir() or any(given.iterdir())):
            raise UsageError(f"{given} is not an empty folder. Give one that is new.")
        given.mkdir(parents=True, exist_ok=True)
        yield given.resolve()
        return
    place = Path(tempfile.mkdtemp(prefix="autoforge-demo-")).resolve()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _stage(place: Path, surroundings: Surroundings) -> Iterator[Stage]:
    github, model = LoopbackGitHub({TOKEN: Account(OWNER)}), ScriptedModel(script.answer)
    try:
        env = {
            **surroundings.plain,
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_API_URL": github.start(),
            "ANTHROPIC_BASE_URL": model.start(),
            "ANTHROPIC_API_KEY": "demo",
            "CLAUDE_CONFIG_DIR": str(place / "claude"),
        }
        yield Stage(place, github, env)
    finally:
        github.stop()
        model.stop()


def _make_repository(stage: Stage) -> Repository:
    """A repository with one commit, as somebody would have it before they start."""
    repository = stage.github.add_repository(OWNER, NAME, stage.folder / "origin.git")
    stage.app.mkdir()
    sample.write_application(stage.app)
    shutil.copy(sample.spec_file(), stage.app / "SPEC.md")
    (stage.app / "autoforge.toml").write_text(CONFIGURATION)
    git = stage_git(stage)
    url = f"{stage.github.url}/{OWNER}/{NAME}.git"
    git.run("init", "--quiet", "--initial-branch=main")
    git.run("add", "--all")
    git.run("commit", "--quiet", "--no-gpg-sign", "--message", "chore: start the application")
    git.run("remote", "add", "origin", url)
    authorized = url.replace("://", f"://x-access-token:{TOKEN}@")
    git.run("push", "--quiet", authorized, "main:main")
    git.run("update-ref", "refs/remotes/origin/main", "main")
    git.run("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    return repository


def stage_git(stage: Stage) -> Git:
    return Git(stage.app, env=IDENTITY)


def _autoforge(stage: Stage, write: Callable[[str], None], *args: str) -> int:
    """Run the real command as a person would. Ctrl-C is the command's to handle."""
    write(f"$ autoforge {' '.join(args)}")
    command = [sys.executable, "-m", "autoforge", "-C", str(stage.app), *args]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with subprocess.Popen(command, env=dict(stage.env), preexec_fn=_listen) as child:
            forward = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
            code = child.wait()
            signal.signal(signal.SIGTERM, forward)
    finally:
        signal.signal(signal.SIGINT, before)
    return code


def _listen() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _show(repository: Repository, write: Callable[[str], None]) -> None:
    write("\nPull requests:")
    for number, pull in sorted(repository.pulls.items()):
        draft = " (draft)" if pull.draft else ""
        write(f"  #{number} {pull.title}{draft}\n     {pull.head} → {pull.base}")


def _wait() -> None:
    """Until Ctrl-C or SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with contextlib.suppress(KeyboardInterrupt):
        ended.wait()
