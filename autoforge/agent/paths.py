"""Which files an agent may write and read: its worktree and temporary folder, without what steers the build."""

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from autoforge.agent.words import UNKNOWN, Word

PROTECTED = (
    "autoforge.toml", ".autoforge/**", ".claude/**", ".mcp.json", ".git", ".git/**", ".githooks/**", ".husky/**",
    ".pre-commit-config.yaml", ".pre-commit-config.yml", "lefthook.y*ml", ".lefthook.y*ml",
    ".github/workflows/**", ".github/actions/**", ".gitlab-ci.yml", ".gitlab/ci/**", ".circleci/**", ".buildkite/**",
    ".travis.yml", ".drone.yml", ".woodpecker.yml", ".woodpecker/**", ".forgejo/workflows/**", ".gitea/workflows/**",
    "azure-pipelines.yml", "bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml", ".cirrus.yml", "jenkinsfile",
)  # fmt: skip
"""Patterns relative to the worktree, whatever their case: what steers the build, its checks and the agent itself."""

SECRETS = (
    ".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
    ".config/gh", ".config/hub", ".config/glab-cli", ".config/gcloud", ".config/git/credentials", ".password-store",
    ".claude.json", ".claude/.credentials.json", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
    ".m2/settings.xml", ".terraform.d", ".local/share/keyrings", "library/keychains",
)  # fmt: skip
"""Below the home folder, lower case."""

LIBRARIES = {
    ".asdf", ".bun", ".cache", ".cargo", ".conda", ".deno", ".dotnet", ".gem", ".gradle", ".local", ".m2", ".mise",
    ".npm", ".nvm", ".pnpm-store", ".pub-cache", ".pyenv", ".rbenv", ".rustup", ".sdkman", ".volta", ".yarn",
    "anaconda3", "go", "miniconda3", "site-packages", "node_modules", ".venv", "venv",
}  # fmt: skip
"""Folders that hold installed code; anything below them may be read in the home folder."""

SYSTEM_SECRETS = re.compile(
    r"/proc/[^/]+/(environ|mem)|/etc/g?shadow-?|/(var/)?run/secrets(/.*)?|.*\.git/autoforge(/.*)?"
)
DEVICES = {"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "-"}
MATCH_LIMIT = 2000

Place = Path | None
"""A folder that a command may stand in; None: one that only the running shell knows."""


class Denied(Exception):
    """The reason and the allowed way, as the agent reads them."""


@dataclass(frozen=True)
class Policy:
    """Where an agent works; `root` and `tmp` are resolved, `protected` are patterns relative to root."""

    root: Path
    tmp: Path
    protected: tuple[str, ...] = PROTECTED
    branch: str = ""
    home: Path = field(default_factory=Path.home)


def real(path: Path | str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (ValueError, OSError) as error:
        raise Denied("The path cannot be read: write it plainly.") from error


def is_own(policy: Policy, path: Path) -> bool:
    return any(path.is_relative_to(real(base)) for base in (policy.root, policy.tmp))


def outside(policy: Policy, text: str) -> Denied:
    return Denied(
        f"{text} is outside of your worktree. Work inside {policy.root}; temporary files go to {policy.tmp} ($TMPDIR)."
    )


def check_write(
    policy: Policy, place: Place, word: Word, *, destructive: bool = False, removes: bool = False
) -> None:
    """Raise Denied unless the word names something that may be written.

    destructive: a name that only the running shell knows is denied; removes: a link counts as itself and a folder as all that is in it.
    """
    text = word.text
    if text in DEVICES or text.startswith("/dev/fd/"):
        return
    if not word.known or (place is None and not text.startswith("/")):
        if destructive:
            raise Denied(
                "What it would change is known only when it runs: write the paths out, from the worktree's root."
            )
        prefix = text.split(UNKNOWN)[0]
        if not word.known and "/" in prefix:
            _check_known(policy, place, prefix.rpartition("/")[0] + "/", removes=False)
        return
    for candidate in _candidates(place, word):
        _check_known(policy, place, candidate, removes=removes)


def _check_known(policy: Policy, place: Place, text: str, *, removes: bool) -> None:
    if place is None and not text.startswith("/"):
        return
    path = Path(os.path.normpath(_joined(place, text)))
    target = _without_last_link(_joined(place, text)) if removes else real(_joined(place, text))
    if not is_own(policy, target):
        raise outside(policy, text)
    for seen in {path, target}:
        _check_protected(policy, seen, text, removes=removes)


def _joined(place: Place, text: str) -> str:
    return f"{place}/{text}" if place is not None and not text.startswith("/") else text


def _without_last_link(text: str) -> Path:
    folder, name = os.path.split(text.rstrip("/"))
    return real(text) if name in ("", ".", "..") else real(folder) / name


def _candidates(place: Place, word: Word) -> Iterator[str]:
    """The word itself, and what it matches now when it holds a pattern."""
    yield word.text
    if word.glob:
        yield from islice(glob.iglob(word.text, root_dir=place), MATCH_LIMIT)  # noqa: PTH207  as the shell: `*` hides dot files


def _check_protected(policy: Policy, path: Path, text: str, *, removes: bool) -> None:
    root = real(policy.root)
    if not path.is_relative_to(root):
        return
    name = str(path.relative_to(root)).lower()
    for pattern in policy.protected:
        plain = pattern.removesuffix("/**")
        base = plain.lower()
        below = pattern.endswith("/**") and name.startswith(f"{base}/")
        holds = removes and (name == "." or base.startswith(f"{name}/")) and (root / plain).exists()
        if below or holds or name == base or fnmatchcase(name, pattern.lower()):
            raise Denied(
                f"{text} is or holds {base}, which steers the build and its checks, so it is protected. "
                "Leave it as it is; if the feature needs it changed, say so in your summary."
            )


def check_read(policy: Policy, path: Path, *, recursive: bool = False) -> None:
    """Raise Denied unless the file may be read: own files, and installed code outside of credentials."""
    target = real(path)
    if is_own(policy, target):
        return
    check_secret(policy, target)
    home = real(policy.home)
    if recursive and home.is_relative_to(target):
        raise Denied(f"{path} is too wide to be searched. Search inside {policy.root}.")
    if (
        target.is_relative_to(home)
        and home != Path("/")
        and not LIBRARIES & set(target.relative_to(home).parts)
    ):
        raise Denied(f"{path} is outside of your worktree. Read the files in {policy.root}.")


def check_secret(policy: Policy, path: Path) -> None:
    home, target = real(policy.home), real(path)
    if is_own(policy, target):
        return
    for seen in (Path(os.path.normpath(path)), target):
        name = str(seen.relative_to(home)).lower() if seen.is_relative_to(home) else ""
        if SYSTEM_SECRETS.fullmatch(str(seen)) or any(name == s or name.startswith(f"{s}/") for s in SECRETS):
            raise Denied(f"{path} holds credentials or autoforge's own state: the feature does not need it.")


def check_word(policy: Policy, place: Place, word: Word) -> None:
    """Raise Denied when a word of a command names credentials, alone or behind `=` or `@`."""
    for piece in {word.text, *re.split("[=@:]", word.text)}:
        text = piece.split(UNKNOWN)[0]
        if "/" in text and (text.startswith("/") or place is not None):
            for candidate in _candidates(place, Word(text, word.glob)):
                check_secret(policy, Path(_joined(place, candidate)))
