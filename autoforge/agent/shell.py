"""Reads a shell command into the plain commands that it would run, in order, without running anything."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from autoforge.agent.words import PLAIN, UNKNOWN, Source, Unreadable, Word, words_of

MAX_LENGTH = 200_000


@dataclass(frozen=True)
class Redirect:
    operator: str
    target: Word


@dataclass(frozen=True)
class Simple:
    """One plain command; without words only its assignments and redirections count."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    stdin: str | None = None  # the text of a here-document or here-string


class Scope(Enum):
    OWN = auto()  # a shell of its own: its `cd` ends with it
    MAYBE = auto()  # it may run or not
    LOOP = auto()  # it may run any number of times


@dataclass(frozen=True)
class Group:
    scope: Scope
    items: "tuple[Simple | Group, ...]"


Item = Simple | Group

SCOPES = {
    "subshell": Scope.OWN,
    "command_substitution": Scope.OWN,
    "process_substitution": Scope.OWN,
    "do_group": Scope.LOOP,
    "function_definition": Scope.LOOP,
    "while_statement": Scope.LOOP,
    "if_statement": Scope.MAYBE,
    "case_item": Scope.MAYBE,
}
KEYWORDED = {"declaration_command", "unset_command"}
JOINING = {"pipeline", "list", "negated_command"}
OPENED = KEYWORDED | {"command", "redirected_statement"}
KEYWORDS = {"export", "declare", "typeset", "local", "readonly", "unset", "unsetenv"}
WORDS = PLAIN | KEYWORDS | {
    "concatenation", "string", "raw_string", "ansi_c_string", "translated_string", "simple_expansion", "expansion",
    "command_substitution", "process_substitution", "brace_expression", "arithmetic_expansion", "command_name",
}  # fmt: skip
COMMANDS = {"command", "declaration_command", "unset_command", "variable_assignment", "redirected_statement"}
ASSIGNED = {"variable_assignment", "variable_name"}
SUBSTITUTED = {"command_substitution", "arithmetic_expansion"}
OWNED = {"variable_assignment", "file_redirect"}
GIVEN = {"heredoc_body", "herestring_redirect"}
BELONGING = WORDS | ASSIGNED | GIVEN | {"file_redirect", "heredoc_start", "heredoc_end", "file_descriptor"}
ODD_SPACE = re.compile(r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f]")


def parse(command: str, values: Mapping[str, str] | None = None) -> tuple[Item, ...]:
    """The commands in `command`; `values` are the variables that are known to hold. Raises Unreadable."""
    if len(command) > MAX_LENGTH:
        raise Unreadable("It is too long to be checked: write it to a script file and run that.")
    if ODD_SPACE.search(command):
        raise Unreadable(
            "It holds a control character or an unusual space: write it with plain spaces and newlines."
        )
    try:
        text, root = _join_lines(command.encode())
        certain = {name: value for name, value in (values or {}).items() if not _mentions(text, name)}
        source = Source(text, certain)
        return tuple(_children(root, Source(text, {**certain, **_constants(root, source)})))
    except UnicodeEncodeError as error:
        raise Unreadable("It is not valid text.") from error
    except RecursionError as error:
        raise Unreadable("It is nested too deeply: write it to a script file and run that.") from error


def _join_lines(text: bytes) -> tuple[bytes, Node]:
    """Take out backslash-newline as the shell does; the grammar takes it for a space even inside a word."""
    while True:
        root = Parser(Language(tree_sitter_bash.language())).parse(text).root_node
        if root.has_error:
            raise Unreadable(
                "It is not a shell command that can be read: quote it fully, or split it in several calls."
            )
        kept = [(n.start_byte, n.end_byte) for n in _literal_nodes(root)]
        joints = [m.start() for m in re.finditer(rb"\\\n", text) if _is_joint(text, m.start(), kept)]
        if not joints:
            _check_gaps(root, text)
            return text, root
        for at in reversed(joints):
            text = text[:at] + text[at + 2 :]


def _check_gaps(root: Node, text: bytes) -> None:
    """Refuse what the grammar reads otherwise than the shell: escapes taken for space, a `$` cut off from its name."""
    at = 0
    for node in _walk(root):
        if node.children:
            continue
        own, gap = text[node.start_byte : node.end_byte], text[at : node.start_byte]
        parent = node.parent.type if node.parent else ""
        cut_off = (
            own == b"$"
            and parent != "simple_expansion"
            and re.match(rb"[\w{(@*#?!$-]", text[node.end_byte :])
        )
        glued = not node.is_named and (parent == "command" or (node.type == "$" and own != b"$"))
        if b"\\" in gap or cut_off or glued:
            raise Unreadable(
                "It joins quotes, `$` or escapes in a way that cannot be read: put whole words in quotes."
            )
        at = max(at, node.end_byte)
    if b"\\" in text[at:]:
        raise Unreadable("It ends in a backslash: write it without.")


def _is_joint(text: bytes, at: int, kept: Sequence[tuple[int, int]]) -> bool:
    before = text[:at]
    slashes = len(before) - len(before.rstrip(b"\\"))
    return slashes % 2 == 0 and not any(start <= at < end for start, end in kept)


def _walk(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _literal_nodes(root: Node) -> Iterator[Node]:
    for node in _walk(root):
        if node.type in ("raw_string", "comment") or (
            node.type == "heredoc_body" and not node.named_children
        ):
            yield node


def _mentions(text: bytes, name: str) -> int:
    """How often the name stands somewhere other than in `$name` or `${name`."""
    return len(re.findall(rf"(?<![\w$])(?<!\$\{{){re.escape(name)}\b".encode(), text))


def _constants(root: Node, source: Source) -> dict[str, str]:
    """Variables that are set once, at the top, without a condition, to a value that can be read."""
    found = {}
    for node in root.children:
        first = node.children[0] if node.type == "list" else node
        value = first.child_by_field_name("value") if first.type == "variable_assignment" else None
        if value is None or value.type == "array":
            continue
        name, words = source.of(first).partition("=")[0], words_of(value, source)
        certain = (
            len(words) == 1 and words[0].known and not words[0].glob and not re.search(r"\s", words[0].text)
        )
        if certain and _mentions(source.text, name) == 1:
            found[name] = words[0].text
    return found


def _children(node: Node, source: Source) -> Iterator[Item]:
    for child in node.children:
        items = _items(child, source)
        if child.next_sibling is not None and child.next_sibling.type == "&":
            yield Group(Scope.OWN, tuple(items))
        else:
            yield from items


def _items(node: Node, source: Source, tail: Sequence[Node] = ()) -> Iterator[Item]:
    """`tail`: redirections behind it, which the grammar binds to the whole list and the shell to its last command."""
    _refuse_hidden(node, source)
    inner = [child for child in node.named_children if child.type != "comment"]
    if node.type in JOINING:
        for child in inner:
            items = _items(child, source, tail if child == inner[-1] else ())
            scope = Scope.OWN if node.type == "pipeline" else Scope.MAYBE
            if node.type == "pipeline" or child != inner[0]:
                yield Group(scope, tuple(items))
            else:
                yield from items
    elif node.type == "redirected_statement" and inner[0].type in JOINING:
        yield from _items(inner[0], source, [*inner[1:], *tail])
    elif node.type in COMMANDS or node.type == "file_redirect":
        yield from _command([node, *tail], source)
    else:
        yield from _command(tail, source)
        items = _children(node, source)
        yield from [Group(SCOPES[node.type], tuple(items))] if node.type in SCOPES else items


def _refuse_hidden(node: Node, source: Source) -> None:
    """Refuse what the grammar cannot see into, and a `cd` that is none."""
    name = node.child_by_field_name("name") if node.type == "function_definition" else None
    if name is not None and source.of(name) in ("cd", "pushd", "popd", "chdir"):
        raise Unreadable(f"It gives `{source.of(name)}` another meaning: choose another name.")
    if node.type == "command_substitution" and re.match(r"`.*\\", source.of(node), re.S):
        raise Unreadable("It holds a backslash inside `…`: write $(…) instead.")
    if node.type == "expansion" and "@P" in source.of(node):
        raise Unreadable("${…@P} runs what a variable holds: write the command itself.")


def _command(nodes: Sequence[Node], source: Source) -> Iterator[Item]:
    """A command after what its words run, and before what follows its here-document."""
    parts = list(_parts(nodes))
    for part in parts:
        if part.type in BELONGING:
            yield from _children(part, source) if part.type in OWNED else _items(part, source)
    words = _words(parts, source)
    assignments = tuple(_assignment(part, source) for part in parts if part.type in ASSIGNED)
    redirects = tuple(_redirect(part, source) for part in parts if part.type == "file_redirect")
    stdin = next((_stdin(part, source) for part in parts if part.type in GIVEN), None)
    if words or assignments or redirects:
        yield Simple(tuple(words), assignments, redirects, stdin)
    for part in parts:
        if part.type not in BELONGING:
            yield from _items(part, source)


def _parts(nodes: Sequence[Node], *, opens: bool = True) -> Iterator[Node]:
    """The words, assignments, redirections and here-documents of one command, and what else stands with it."""
    for node in nodes:
        if node.type == "heredoc_redirect" or (opens and node.type in OPENED):
            inner = node.children if node.type in KEYWORDED else node.named_children
            yield from _parts(inner, opens=node.type == "redirected_statement")
            continue
        yield node
        if node.type == "file_redirect":  # the grammar binds words behind it to it
            yield from node.children_by_field_name("destination")[1:]


def _words(parts: Sequence[Node], source: Source) -> list[Word]:
    """The words; what touches is one word, though the grammar splits it at a backslash behind a quote."""
    words: list[Word] = []
    before: Node | None = None
    for part in parts:
        read = words_of(part, source) if part.type in WORDS else []
        if read and before is not None and before.end_byte == part.start_byte:
            if before.type not in WORDS or len(read) > 1:
                raise Unreadable(
                    "It glues a word to what stands in front of it: write the word in plain quotes."
                )
            last = words.pop()
            words.append(Word(last.text + read[0].text, last.glob or read[0].glob))
        else:
            words += read
        before = part
    return words


def _assignment(node: Node, source: Source) -> tuple[str, Word]:
    value = node.child_by_field_name("value")
    words = words_of(value, source) if value is not None else [Word("")]
    name = node.child_by_field_name("name")
    return source.of(name or node), words[0] if len(words) == 1 else Word(UNKNOWN)


def _redirect(node: Node, source: Source) -> Redirect:
    operator = next((child.type for child in node.children if not child.is_named), "")
    target = node.child_by_field_name("destination")
    words = words_of(target, source) if target is not None else [Word("-")]
    return Redirect(operator, words[0] if len(words) == 1 else Word(UNKNOWN))


def _stdin(node: Node, source: Source) -> str:
    """The text that a here-document or here-string gives; UNKNOWN in it where the shell would put something in."""
    if node.type == "herestring_redirect":
        return "".join(word.text for child in node.named_children for word in words_of(child, source))
    body = source.of(node)
    marks = {c.type: source.of(c) for c in node.parent.children if c.is_named} if node.parent else {}
    start = marks.get("heredoc_start", "")
    if marks.get("heredoc_end", "").strip("\t\n") != re.sub(r"['\"\\]", "", start):
        raise Unreadable("Its here-document does not end: put the delimiter on a line of its own.")
    if re.search(r"['\"\\]", start):
        return body
    seen = sum(1 for n in _walk(node) if n.type in SUBSTITUTED and source.of(n).startswith("$("))
    if re.search(r"(?<!\\)`", body) or seen != len(re.findall(r"(?<!\\)\$\(", body)):
        raise Unreadable("Its here-document runs what stands in it: quote the delimiter, as in <<'EOF'.")
    return UNKNOWN if re.search(r"[\\$]", body) else body
