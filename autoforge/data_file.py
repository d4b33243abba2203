"""Parses a JSON, YAML or TOML file that anybody may have written, or says what is wrong with it."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import yaml

from autoforge.errors import UsageError

MAX_BYTES = 10_000_000
_MAX_NESTING = 20
_LONG_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){100}""")
_SHOWN = 60
_KINDS = (
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "an object"),
    (type(None), "nothing"),
)


def parse(path: Path, *, max_bytes: int = MAX_BYTES) -> object:
    """What the file holds, by its suffix. Raises UsageError, and nothing else whatever the file holds.

    Refused on top of the language's rules: a key given twice, NUL bytes, NaN in JSON, aliases and tags in YAML.
    """
    parsers: dict[str, tuple[str, Callable[[str], object]]] = {
        ".json": ("JSON", _json),
        ".yaml": ("YAML", _yaml),
        ".yml": ("YAML", _yaml),
        ".toml": ("TOML", _toml),
    }
    if path.suffix.lower() not in parsers:
        raise UsageError(f"{path.name} has no known type; expected a file that ends in {', '.join(parsers)}.")
    language, parser = parsers[path.suffix.lower()]
    text = _text(path, max_bytes)
    try:
        return parser(text)
    except RecursionError as error:
        raise UsageError(f"{path.name} is nested too deeply.") from error
    except yaml.MarkedYAMLError as error:
        raise UsageError(f"{path.name} is not valid YAML: {_place(error)}.") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        what = " ".join(str(error).split())[:300]
        raise UsageError(f"{path.name} is not valid {language}: {what}.") from error


def describe(value: object) -> str:
    """What kind of value it is, in words."""
    return next((words for kind, words in _KINDS if isinstance(value, kind)), f"a {type(value).__name__}")


def quote(value: object) -> str:
    """Text in quotes, short and printable, or the kind of any other value."""
    if not isinstance(value, str):
        return describe(value)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value[:_SHOWN])
    return f'"{text}…"' if len(value) > _SHOWN else f'"{text}"'


def _text(path: Path, max_bytes: int) -> str:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder; expected a file.")
        if not path.is_file():
            raise UsageError(f"There is no file {path}.")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
    if len(data) > max_bytes:
        raise UsageError(f"{path.name} is larger than {max_bytes // 1_000_000} MB; split it.")
    if b"\0" in data:
        raise UsageError(f"{path.name} has a NUL byte in line {_line(data, data.index(0))}; expected text.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = _line(data, error.start)
        raise UsageError(f"{path.name} is not UTF-8 in line {line}; save it as UTF-8.") from error


def _line(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def _json(text: str) -> object:
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(
                f"the key {quote(key)} twice in one object (name: {quote(dict(pairs).get('name'))})"
            )
        result[key] = value
    return result


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON value")


def _toml(text: str) -> object:
    if _LONG_KEY.search(text):  # tomllib takes time by the square of a key's parts
        raise RecursionError
    return tomllib.loads(text)


def _yaml(text: str) -> object:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    for event in yaml.parse(text, loader):  # before anything is built from it
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_NESTING:
            raise RecursionError
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
            raise ValueError(f"an alias or a tag at {_at(event.start_mark)}; write the value itself")
    node = yaml.compose(text, loader)
    if node is None:
        return None
    _prepare(node)
    return yaml.constructor.SafeConstructor().construct_document(node)


def _prepare(root: yaml.Node) -> None:
    """Refuse keys given twice, and keep as text what only looks like a date."""
    nodes = [root]
    for node in nodes:  # grows while it is read
        if isinstance(node, yaml.SequenceNode):
            nodes.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    raise ValueError(
                        f"the key {quote(key.value)} for the second time at {_at(key.start_mark)}"
                    )
                seen.add(str(key.value))
                nodes += (key, value)
        elif node.tag == "tag:yaml.org,2002:timestamp":
            node.tag = "tag:yaml.org,2002:str"


def _place(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f"{error.problem or error.context}" + (f" at {_at(mark)}" if mark else "")


def _at(mark: object) -> str:
    return f"line {getattr(mark, 'line', 0) + 1}, column {getattr(mark, 'column', 0) + 1}"
