"""The demo's sample: a small application, its features, and what the scripted model writes for each.

Every file of the application is stored with `.txt` after its name, and a leading dot as `dot-`: so linters, type
checkers and test runners leave it alone, and every build tool packages it.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

VERIFY = "python3 -m unittest -q"
"""The application's verify command."""


@dataclass(frozen=True)
class Mistake:
    """A bug in the first version of `file`, where `wrong` stands in the place of `right`."""

    file: str
    wrong: str
    right: str
    insight: str
    test: str


@dataclass(frozen=True)
class Answer:
    """How the scripted model builds one feature; `evidence` has a command for each acceptance step."""

    feature: str
    opening: str
    test: str
    summary: str
    evidence: tuple[str, ...]
    files: dict[str, str]
    mistake: Mistake | None = None

    def first_version(self, path: str) -> str:
        """What it writes at first, its mistake included."""
        text = self.files[path]
        if self.mistake is None or self.mistake.file != path:
            return text
        return text.replace(self.mistake.right, self.mistake.wrong)


def write_application(target: Path) -> None:
    """Writes the application as it is before any feature is built."""
    for name, text in _tree(_root() / "app").items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def features_file() -> Path:
    return _root() / "features.toml"


def spec_file() -> Path:
    return _root() / "spec.md"


def answers() -> dict[str, Answer]:
    """The scripted answers by the feature's name."""
    with (_root() / "answers.toml").open("rb") as file:
        tables = tomllib.load(file)
    found = (_answer(folder, table) for folder, table in tables.items())
    return {answer.feature: answer for answer in found}


def _answer(folder: str, table: dict[str, Any]) -> Answer:
    mistake = table.pop("mistake", None)
    evidence = tuple(table.pop("evidence"))
    written = _tree(_root() / "features" / folder)
    return Answer(**table, evidence=evidence, files=written, mistake=Mistake(**mistake) if mistake else None)


def _tree(root: Path) -> dict[str, str]:
    """Texts by their path in the application."""
    stored = sorted(root.rglob("*.txt"))
    return {_name(path.relative_to(root)): path.read_text(encoding="utf-8") for path in stored}


def _name(stored: Path) -> str:
    path = PurePosixPath(stored.as_posix())
    name = path.name.removesuffix(".txt")
    return str(path.with_name("." + name.removeprefix("dot-") if name.startswith("dot-") else name))


def _root() -> Path:
    return Path(str(files(__name__)))
