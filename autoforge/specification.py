"""Reads a specification, and says whether it starts a project or changes one."""

import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from autoforge.errors import UsageError
from git_workflow.command import Git

MAX_BYTES = 1_000_000
OPENING, CLOSING = "<project_specification>", "</project_specification>"
NOT_CONTENT = re.compile(r"<!(?!\[CDATA\[)")  # entities would be filled in, and comments lost
SCAFFOLD = re.compile(
    r"\..*"
    r"|(readme|licen[cs]e|changelog|contributing|code_of_conduct|security)([^/.]*|[^/]*\.(md|txt|rst))"
    r"|autoforge\.toml|claude\.md|[^/]*spec[^/]*\.(md|txt|xml)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Specification:
    """`text` is what the planning agent reads; `name` is where it came from."""

    name: str
    text: str


def read(source: str) -> Specification:
    """A Markdown, text or XML-tagged file, or `-` for standard input. Raises UsageError."""
    name = "standard input" if source == "-" else source
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1) if source == "-" else _head(Path(source))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}.") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} is larger than {MAX_BYTES:,} bytes. Give the specification alone.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text (byte {error.start}).") from error
    if "\0" in text:
        raise UsageError(f"{name} is no text: it contains a NUL byte at {text.index(chr(0))}.")
    if not text.strip():
        raise UsageError(f"{name} is empty. Describe what is to be built.")
    return Specification(name, _from_tags(text))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _from_tags(text: str) -> str:
    """The XML-tagged form of older tools as headings and paragraphs; other text as it is."""
    body = text.strip()
    if not (body.startswith((OPENING, "<?xml")) and body.endswith(CLOSING)) or NOT_CONTENT.search(body):
        return text
    try:
        return "\n".join(_headings(ElementTree.fromstring(body), 1)).strip() + "\n"
    except (ElementTree.ParseError, RecursionError):
        return text  # people write `&` and `<` into it: the tags read well enough as they are


def _headings(element: ElementTree.Element, level: int) -> list[str]:
    attributes = ", ".join(f"{key}: {value}" for key, value in element.items())
    title = element.tag.replace("_", " ") + (f" ({attributes})" if attributes else "")
    lines = ["", f"{'#' * min(level, 6)} {title}"]
    if element.text and element.text.strip():
        lines += ["", _dedented(element.text)]
    for child in element:
        lines += _headings(child, level + 1)
        if child.tail and child.tail.strip():
            lines += ["", _dedented(child.tail)]
    return lines


def _dedented(text: str) -> str:
    return textwrap.dedent(text).strip("\n").rstrip()


def is_greenfield(files: Sequence[str]) -> bool:
    """Whether a tree holds no code yet: nothing but notes, a licence and configuration of tools."""
    return all(map(SCAFFOLD.fullmatch, files))


def files(git: Git, commit: str | None) -> list[str]:
    """The names in a commit's tree; none without a commit."""
    return (
        [name for name in git.run("ls-tree", "-r", "--name-only", "-z", commit).split("\0") if name]
        if commit
        else []
    )
