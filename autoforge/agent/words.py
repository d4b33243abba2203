"""Reads one word of a shell command: what is left of it after quote removal, as far as that is certain."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tree_sitter import Node

UNKNOWN = "\0"
"""Stands in a word for what only the running shell knows."""

OWN_PID = "%pid"
"""What `$!` reads as: a process that the command itself has started."""

PLAIN = {"word", "number", "extglob_pattern", "regex", "test_operator", "special_variable_name"}
BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
SIMPLE_BRACES = re.compile(r"([^{}]*)\{([^{}]*)\}([^{}]*)")


class Unreadable(Exception):
    """The command cannot be read."""


@dataclass(frozen=True)
class Word:
    """A word after quote removal. `glob`: it holds unquoted `*`, `?` or `[`."""

    text: str
    glob: bool = False

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text


@dataclass(frozen=True)
class Source:
    text: bytes
    values: Mapping[str, str]  # variables whose value is certain

    def of(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte].decode()


def words_of(node: Node, source: Source) -> list[Word]:
    if node.type == "command_name":
        return words_of(node.children[0], source)
    raw = source.of(node)
    if node.type in ("word", "concatenation") and BRACES.search(raw):
        simple = SIMPLE_BRACES.fullmatch(raw)
        if simple is None or re.search(r"""[\\'"$`]|\.\.""", raw):
            return [Word(re.split(r"""[\\'"$`{]""", raw)[0] + UNKNOWN)]
        before, inner, after = simple.groups()
        return [_tilde(f"{before}{one}{after}", _has_glob(raw), source) for one in inner.split(",")]
    text = _text(node, source)
    if raw.startswith("~:"):  # the shell puts the home in front of a colon as well
        return [Word(UNKNOWN)]
    if node.type in ("word", "concatenation") and re.match(r"~\+?[\w.-]*(/|$)", raw):
        return [_tilde(text, _has_glob(raw), source)]
    return [Word(text, glob=node.type in ("word", "concatenation") and _has_glob(raw))]


def _has_glob(raw: str) -> bool:
    return re.search(r"(?<!\\)[*?\[]", raw) is not None


def _tilde(text: str, glob: bool, source: Source) -> Word:
    if not text.startswith("~"):
        return Word(text, glob)
    who, slash, rest = text[1:].partition("/")
    home = {"": source.values.get("HOME", UNKNOWN), "+": "."}.get(who, UNKNOWN)
    return Word(home + slash + rest, glob)


def _text(node: Node, source: Source) -> str:
    """What the node stands for after quote removal."""
    raw = source.of(node)
    match node.type:
        case "raw_string":
            return raw[1:-1]
        case "ansi_c_string":
            return UNKNOWN if "\\" in raw else raw[2:-1]
        case "string":
            return _spliced(node, source, quoted=True)
        case "concatenation":
            return _spliced(node, source, quoted=False)
        case "translated_string":
            return _text(node.named_children[0], source)
        case "simple_expansion" | "expansion":
            name = raw.removeprefix("$").removeprefix("{").removesuffix("}")
            return OWN_PID if name == "!" else source.values.get(name, UNKNOWN)
        case kind if kind in PLAIN or not node.is_named:
            return _unescaped(raw)
    return UNKNOWN


def _unescaped(raw: str) -> str:
    if re.search(r"(?<!\\)\s", raw):
        raise Unreadable("It holds braces or quotes that cannot be read: put whole words in quotes.")
    return re.sub(r"\\(.)", r"\1", raw, flags=re.S)


def _spliced(node: Node, source: Source, *, quoted: bool) -> str:
    """The children's text with what stands between them."""
    edge = 1 if quoted else 0
    at, end, out = node.start_byte + edge, node.end_byte - edge, ""
    inner = [child for child in node.children if child.type not in ("string_content", '"')]
    for child in [*inner, None]:
        gap = source.text[at : child.start_byte if child else end].decode()
        out += re.sub(r'\\(["$`\\])', r"\1", gap) if quoted else _unescaped(gap)
        if child:
            translated = (
                child.type == "$" and child.next_sibling is not None and child.next_sibling.type == "string"
            )
            out, at = out + ("" if translated and not quoted else _text(child, source)), child.end_byte
    return out
