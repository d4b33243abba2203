"""The only reader of configuration and environment: flags over AUTOFORGE_* over autoforge.toml over defaults."""

import re
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariable

from autoforge.errors import SettingsError
from git_workflow.naming import valid_prefix

FILE = "autoforge.toml"
PREFIX = "AUTOFORGE_"
FLAGS = "<flags>"  # no key of the file can be called so
TOKENS = (
    "AUTOFORGE_GITHUB_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
)
CREDENTIAL = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|PRIVATE_KEY|API_?KEY|ACCESS_KEY", re.IGNORECASE
)
MODEL_ACCESS = re.compile(
    r"^(ANTHROPIC_|CLAUDE_|AWS_|GOOGLE_APPLICATION_CREDENTIALS$|CLOUD_ML_|VERTEX_|API_TIMEOUT_MS$)"
)
NETWORK = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_COMMAND")


def _prefix(value: str) -> str:
    if problem := valid_prefix(value):
        raise ValueError(problem)
    return value


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Verify(Section):
    """The project's own commands; every one must exit 0 before a feature has passed."""

    commands: tuple[str, ...] = ()
    timeout_s: float = Field(1800, gt=0)
    allow_red: bool = False


class Worktree(Section):
    """Where agents work and what a fresh worktree needs."""

    folder: str = ""
    copy_files: tuple[str, ...] = Field((), alias="copy")
    setup: tuple[str, ...] = ()
    setup_timeout_s: float = Field(900, gt=0)
    keep: bool = False
    first_port: int = Field(42000, ge=1024, le=60000)


class Agent(Section):
    """One agent session."""

    model: str | None = None
    max_turns: int = Field(200, ge=1)
    max_cost_usd: float = Field(5.0, gt=0)
    turn_cost_usd: float = Field(0.5, ge=0)
    timeout_s: float = Field(3600, gt=0)


class Commit(Section):
    """What a commit may contain."""

    max_file_bytes: int = Field(2_000_000, gt=0)
    protected: tuple[str, ...] = ()
    timeout_s: float = Field(600, gt=0)
    sign: bool = True


class PullRequests(Section):
    """How pull requests are opened, and whether a merged one's branch is deleted on the remote."""

    draft: bool = False
    delete_branch: bool = False


class Limits(Section):
    """What a build may use."""

    budget_usd: float | None = Field(None, gt=0)


class Environment(Section):
    """Variables that look like credentials and are still given to agents, set-up and verify commands."""

    keep: tuple[str, ...] = ()


class GitHub(Section):
    """The forge. `api_url` is found from the remote when it is not given."""

    api_url: str | None = None
    seconds_between_writes: float = Field(1.0, ge=0)


class Database(Section):
    """The feature table; without a url it lives in the repository's .git folder."""

    url: str | None = None


class Settings(BaseSettings):
    """Everything that can be configured. Frozen; read once when a command starts."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=PREFIX, env_nested_delimiter="__", populate_by_name=True
    )

    target: str | None = None
    remote: str = "origin"
    branch_prefix: Annotated[str, AfterValidator(_prefix)] = "autoforge"
    concurrency: int = Field(3, ge=1, le=32)
    batch_size: int = Field(3, ge=1, le=3)
    max_attempts: int = Field(3, ge=1, le=20)
    verify: Verify = Verify()
    worktree: Worktree = Worktree()
    agent: Agent = Agent()
    commit: Commit = Commit()
    pr: PullRequests = PullRequests()
    limits: Limits = Limits()
    environment: Environment = Environment()
    github: GitHub = GitHub()
    database: Database = Database()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        assert isinstance(init_settings, InitSettingsSource)
        flags = init_settings.init_kwargs.pop(FLAGS, {})
        flat = InitSettingsSource(settings_cls, init_kwargs=flags)
        return flat, env_settings, init_settings


@dataclass(frozen=True)
class Surroundings:
    """What was taken out of the process's environment at its start; secrets do not show in a repr.

    `plain` is what children get in any case, `credentials` only those that `environment.keep` names, `model_access`
    only the agent.
    """

    token: str | None = field(default=None, repr=False)
    api_url: str | None = None
    server_url: str | None = None
    network: Mapping[str, str] = field(default_factory=dict, repr=False)
    identity: tuple[str, str] | None = None
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    model_access: Mapping[str, str] = field(default_factory=dict, repr=False)
    plain: Mapping[str, str] = field(default_factory=dict, repr=False)


def take(environ: MutableMapping[str, str]) -> Surroundings:
    """Read what autoforge needs and remove GIT_*, forge tokens and credentials, so that no child inherits them."""
    token = next((environ[name] for name in TOKENS if environ.get(name)), None)
    network = {name: environ[name] for name in NETWORK if name in environ}
    name = environ.get("GIT_COMMITTER_NAME") or environ.get("GIT_AUTHOR_NAME")
    email = environ.get("GIT_COMMITTER_EMAIL") or environ.get("GIT_AUTHOR_EMAIL")
    credentials, access = {}, {}
    for key in list(environ):
        if key.startswith("GIT_") or key in TOKENS:
            del environ[key]
        elif MODEL_ACCESS.search(key):
            access[key] = credentials[key] = environ.pop(key)
        elif CREDENTIAL.search(key) and not key.startswith(PREFIX):
            credentials[key] = environ.pop(key)
    return Surroundings(
        token=token,
        api_url=environ.get("GITHUB_API_URL"),
        server_url=environ.get("GITHUB_SERVER_URL"),
        network=network,
        identity=(name, email) if name and email else None,
        credentials=credentials,
        model_access=access,
        plain={k: v for k, v in environ.items() if not k.startswith(PREFIX)},
    )


def load(root: Path, flags: Mapping[str, Any]) -> Settings:
    """The settings of the project at `root`. Raises SettingsError that names file and key."""
    path = root / FILE
    try:
        content = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    try:
        return Settings(**{**content, FLAGS: _nested(flags)})
    except ValidationError as error:
        raise SettingsError(_explain(path, content, error)) from error
    except UnreadableVariable as error:
        section = re.search(r'field "(\w+)"', str(error))
        raise SettingsError(
            f"a variable of {PREFIX}{section[1].upper() if section else ''} cannot be read: a list in a variable is "
            f"JSON, such as {PREFIX}VERIFY__COMMANDS='[\"make test\"]'."
        ) from error


def _nested(flags: Mapping[str, Any]) -> dict[str, Any]:
    """`{"agent.model": "x"}` as the sections want it; None means that the flag was not given."""
    result: dict[str, Any] = {}
    for key, value in flags.items():
        *sections, name = key.split(".")
        place = result
        for section in sections if value is not None else ():
            place = place.setdefault(section, {})
        if value is not None:
            place[name] = value
    return result


def _explain(path: Path, content: Mapping[str, Any], error: ValidationError) -> str:
    lines = []
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"])
        in_file = _at(content, fault["loc"]) == (True, fault["input"])
        what = "there is no such key" if fault["type"] == "extra_forbidden" else fault["msg"]
        lines.append(f"{path if in_file else f'a flag or {PREFIX}* variable'}: {key}: {what}")
    return "\n".join(lines)


def _at(content: Any, location: Sequence[int | str]) -> tuple[bool, Any]:
    """Whether there is a value at this place, and which."""
    for part in location:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return False, None
    return True, content
