"""What every command works on: the repository, its settings, its remote and forge, its feature table."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoforge import settings as configuration
from autoforge.settings import Settings, Surroundings
from db.engine import sqlite_url
from db.store import FeatureStore
from git_workflow import publish, repository
from git_workflow.command import Git
from git_workflow.forge import Forge, repository_slug
from git_workflow.repository import Repository


@dataclass(frozen=True)
class Project:
    """`folder` has autoforge.toml; `remote` and `slug` are None where there is none."""

    repo: Repository
    folder: Path
    settings: Settings
    surroundings: Surroundings = field(repr=False)
    remote: publish.Remote | None
    slug: str | None

    @property
    def worktrees(self) -> Path:
        name = self.settings.worktree.folder or f"{self.repo.root.name}.worktrees"
        return (self.repo.root.parent / name).resolve()

    @property
    def database_url(self) -> str:
        return self.settings.database.url or sqlite_url(self.repo.state_dir / "features.db")


def open_project(path: Path, surroundings: Surroundings, flags: Mapping[str, Any] | None = None) -> Project:
    """The project at or above `path`. Raises NotARepository, UnusableRepository and SettingsError."""
    repo = repository.open_repository(path.resolve(), Git(path))
    folder = _folder(path.resolve(), repo.root)
    repo = Repository(
        repo.git, repo.root, repo.common_dir, str(folder.relative_to(repo.root)).removeprefix(".")
    )
    settings = configuration.load(folder, flags or {})
    url = repository.remote_url(repo.git, settings.remote)
    found = repository_slug(url) if url else None
    host, slug = found or (None, None)
    token = surroundings.token if host and host == _host(_api_url(settings, surroundings, host)) else None
    remote = publish.Remote(settings.remote, token, surroundings.network) if url else None
    return Project(repo, folder, settings, surroundings, remote, slug)


def _folder(path: Path, root: Path) -> Path:
    """The nearest folder with an autoforge.toml, else the top of the checkout."""
    for folder in (path, *path.parents):
        if (folder / configuration.FILE).is_file():
            return folder
        if folder == root:
            break
    return root


def _api_url(settings: Settings, surroundings: Surroundings, host: str) -> str:
    given = settings.github.api_url or surroundings.api_url
    if given:
        return given.rstrip("/")
    return "https://api.github.com" if host == "github.com" else f"https://{host}/api/v3"


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].removeprefix("api.").lower()


def connect(project: Project) -> Forge | None:
    """The forge of the remote, None when there is no token for it or the remote is no forge's."""
    if project.remote is None or project.remote.token is None or project.slug is None:
        return None
    from git_workflow.github import connect as connect_github

    url = repository.remote_url(project.repo.git, project.settings.remote) or ""
    host, _ = repository_slug(url) or ("", "")
    return connect_github(
        api_url=_api_url(project.settings, project.surroundings, host),
        slug=project.slug,
        token=project.remote.token,
        seconds_between_writes=project.settings.github.seconds_between_writes,
    )


@contextlib.contextmanager
def table(project: Project) -> Iterator[FeatureStore]:
    """The feature table, opened for one command. Raises StoreError."""
    store = FeatureStore.open(project.database_url)
    try:
        yield store
    finally:
        store.close()


def target_branch(project: Project) -> str:
    remote = project.remote.name if project.remote else None
    return project.settings.target or repository.default_branch(project.repo.git, remote)
