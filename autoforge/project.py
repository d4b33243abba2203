"""What every command works on: the repository, its settings, its remote and forge, its feature table."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoforge import settings as configuration
from autoforge.settings import Settings, Surroundings
from db.engine import sqlite_url
from db.store import FeatureStore
from git_workflow import publish, repository
from git_workflow.base import Target
from git_workflow.command import Git
from git_workflow.forge import Forge, repository_slug
from git_workflow.repository import Repository, head_sha


@dataclass(frozen=True)
class Project:
    """`folder` has autoforge.toml; `remote` is None where there is none, `slug` where the remote is no forge's."""

    repo: Repository
    folder: Path
    settings: Settings
    surroundings: Surroundings = field(repr=False)
    remote: publish.Remote | None
    slug: str | None

    @property
    def worktrees(self) -> Path:
        """Beside the main checkout, also when the command was started in a linked worktree."""
        common = self.repo.common_dir
        main = common.parent if common.name == ".git" else self.repo.root
        return (main.parent / (self.settings.worktree.folder or f"{main.name}.worktrees")).resolve()

    @property
    def database_url(self) -> str:
        return self.settings.database.url or sqlite_url(self.repo.state_dir / "features.db")


def open_project(path: Path, surroundings: Surroundings, flags: Mapping[str, Any] | None = None) -> Project:
    """The project at or above `path`. Raises NotARepository, UnusableRepository and SettingsError."""
    repo = repository.open_repository(path.resolve(), Git(path))
    folder = _folder(path.resolve(), repo.root)
    prefix = "" if folder == repo.root else folder.relative_to(repo.root).as_posix()
    settings = configuration.load(folder, flags or {})
    url = repository.remote_url(repo.git, settings.remote)
    host, slug = (repository_slug(url) if url else None) or ("", None)
    if slug and _api_url(settings, surroundings, host) is None:
        slug = None
    remote = publish.Remote(settings.remote, surroundings.token if slug else None, surroundings.network)
    return Project(
        replace(repo, prefix=prefix), folder, settings, surroundings, remote if url else None, slug
    )


def _folder(path: Path, root: Path) -> Path:
    """The nearest folder with an autoforge.toml, else the top of the checkout."""
    for folder in (path, *path.parents):
        if (folder / configuration.FILE).is_file():
            return folder
        if folder == root:
            break
    return root


def _api_url(settings: Settings, surroundings: Surroundings, host: str) -> str | None:
    """The API of the forge at `host`, None when it is none that we know: then it gets no token of ours."""
    given = settings.github.api_url or surroundings.api_url
    if not given and (host == "github.com" or host.endswith(".ghe.com")):
        given = f"https://api.{host}"
    return given.rstrip("/") if given and host and host == _host(given) else None


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].removeprefix("api.").lower()


def connect(project: Project) -> Forge | None:
    """The forge of the remote, None when there is no token for it or the remote is no forge's."""
    if project.remote is None or project.remote.token is None or project.slug is None:
        return None
    from git_workflow.github import connect as connect_github

    url = repository.remote_url(project.repo.git, project.settings.remote) or ""
    host, _ = repository_slug(url) or ("", "")
    api_url = _api_url(project.settings, project.surroundings, host)
    assert api_url is not None
    return connect_github(
        api_url=api_url,
        slug=project.slug,
        token=project.remote.token,
        seconds_between_writes=project.settings.github.seconds_between_writes,
    )


@contextlib.contextmanager
def table(project: Project) -> Iterator[FeatureStore]:
    """The feature table, opened for one command. Raises StoreError."""
    # libpq would read the variable, but it has been taken out of the environment
    password = project.surroundings.credentials.get("PGPASSWORD")
    store = FeatureStore.open(project.database_url, password=password)
    try:
        yield store
    finally:
        store.close()


def known_target(project: Project, branch: str) -> Target | None:
    """The target as it was last seen, without asking the remote; None when it is not known here."""
    here = f"refs/remotes/{project.remote.name}/{branch}" if project.remote else f"refs/heads/{branch}"
    sha = head_sha(project.repo.git, here)
    return Target(branch, sha) if sha else None


def target_branch(project: Project) -> str:
    remote = project.remote.name if project.remote else None
    return project.settings.target or repository.default_branch(project.repo.git, remote)
