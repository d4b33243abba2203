"""Reads an issue's Markdown as a person sees it: what is wanted, the acceptance steps, what it depends on; pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Hidden from a reader, not from a model: control and bidirectional characters, and the "tags" that mirror ASCII.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
_MARK = re.compile(
    r"^[ \t]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})[^\n]*"
    r"|(?P<comment><!--)"
    r"|(?<!`)(?P<ticks>`{1,9})(?!`)[^\n]*?(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE,
)
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?P<box>\[[ xX]\][ \t]+)?(?P<text>\S.*)")
_CODE_INDENT = 4

_LINK = re.compile(r"\[[^\[\]\n]{0,300}\]\((https?://[^\s()]{1,300})\)")
_STRUCK = re.compile(r"~~[^~\n]+~~")
_REFERENCE = r"(?:https?://[^\s/]+/([\w.-]+/[\w.-]+)/(?:issues|pull)/|([\w.-]+/[\w.-]+)?#|GH-)([1-9]\d{0,8})(?:#[a-z]+-\d+)?(?!\w)"
_ALONE = re.compile(_REFERENCE)
_DEPENDS = re.compile(
    r"(?<!not )(?<!n['\u2019]t )(?<!never )(?<!longer )\b(?:depends?[ \t-]{1,9}(?:up)?on|blocked[ \t-]{1,9}by)\b"
    r"[ \t:*_]{0,20}",
    re.IGNORECASE,
)
_FIRST = re.compile(
    rf"\n{{0,2}}[ \t]*(?:(?:the[ \t]+)?(?:issues?|tickets?|pull requests?|PRs?)[ \t:]+)?{_REFERENCE}",
    re.IGNORECASE,
)
_NEXT = re.compile(
    r"(?:[ \t]*\([^()\n]{0,100}\))?(?:\n[ \t]*(?=\S+[ \t]*$)|(?:[ \t]*(?:[,;&+/]|and\b|or\b)){0,2}[ \t]*)"
    + _REFERENCE,
    re.IGNORECASE | re.MULTILINE,
)
_BULLETS = re.compile(r"\n+((?:[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t][^\n]*(?:\n|\Z)){1,100})")
_BULLET = re.compile(rf"[ \t]*(?:[-*+]|\d{{1,9}}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?{_REFERENCE}", re.MULTILINE)


@dataclass(frozen=True)
class Reference:
    """Another issue; `slug` (owner/name) is empty where it was left out."""

    slug: str
    number: int


@dataclass(frozen=True)
class Body:
    description: str
    steps: tuple[str, ...]
    needs: tuple[Reference, ...]


def seen(text: str) -> str:
    """The text without characters that nobody sees, in lines that end as ours do."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def read(text: str) -> Body:
    """Comments are left out: what no reader of the issue sees must not reach an agent.

    A task that only names another issue is a dependency; every other one is a step.
    """
    segments = list(_segments(seen(text)))
    rest, tasks = _split(
        [(line, code) for segment, code in segments for line in segment.removesuffix("\n").split("\n")]
    )
    parts = {task: _ALONE.fullmatch(_plain(task)) for task in tasks}
    prose = _plain("\n".join(segment for segment, code in segments if not code))
    needs = [*_dependencies(prose), *(_value(found) for found in parts.values() if found)]
    return Body(
        description=re.sub(r"\n(?:[ \t]*\n){2,}", "\n\n", "\n".join(rest)).strip(),
        steps=tuple(task for task in tasks if not parts[task]),
        needs=tuple(dict.fromkeys(needs)),
    )


def _segments(text: str) -> Iterator[tuple[str, bool]]:
    """(whole lines, whether they are a fenced block), without HTML comments; each character is looked at once."""
    shown: list[str] = []
    start = at = 0
    last_end = text.rfind("-->")
    while found := _MARK.search(text, at):
        at = found.end()
        if found["fence"]:
            end = re.compile(rf"^[ \t]*{found['fence']}{found['fence'][0]}*[ \t]*$", re.MULTILINE)
            closed = end.search(text, at)
            at = min(closed.end() + 1, len(text)) if closed else len(text)
            yield "".join((*shown, text[start : found.start()])), False
            yield text[found.start() : at], True
            shown, start = [], at
        elif found["comment"] and (at <= last_end or _begins_line(text, found.start())):
            shown.append(text[start : found.start()])
            start = at = text.index("-->", at) + 3 if at <= last_end else len(text)
    yield "".join((*shown, text[start:])), False


def _begins_line(text: str, position: int) -> bool:
    return not text[text.rfind("\n", 0, position) + 1 : position].strip()


def _split(lines: Sequence[tuple[str, bool]]) -> tuple[list[str], list[str]]:
    """The lines that are no task, and the tasks; a task's indented lines below it belong to it."""
    rest: list[str] = []
    tasks: list[str] = []
    task_indent: int | None = None
    in_list = False
    for line, code in lines:
        indent = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
        item = None if code or (indent >= _CODE_INDENT and not in_list) else _ITEM.fullmatch(line.rstrip())
        if item and item["box"]:
            tasks.append(" ".join(item["text"].split()))
            task_indent, in_list = indent, True
        elif task_indent is not None and line.strip() and indent > task_indent and not code:
            tasks[-1] += " " + " ".join(line.split())
        else:
            rest.append(line)
            task_indent = None
            in_list = bool(item) or (in_list and (code or indent > 0 or not line.strip()))
    return rest, tasks


def _plain(text: str) -> str:
    """Links as their address, and nothing that is struck out."""
    return _STRUCK.sub("", _LINK.sub(r"\1", text))


def _dependencies(text: str) -> Iterator[Reference]:
    """What follows "depends on" or "blocked by": references in the sentence, or those that begin a list's items."""
    for key in _DEPENDS.finditer(text):
        found = _FIRST.match(text, key.end())
        while found:
            yield _value(found)
            found = _NEXT.match(text, found.end())
        if bullets := _BULLETS.match(text, key.end()):
            yield from map(_value, _BULLET.finditer(bullets[1]))


def _value(found: re.Match[str]) -> Reference:
    return Reference(found[1] or found[2] or "", int(found[3]))
