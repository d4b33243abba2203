"""Checks what a command would write, from its options and operands."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from autoforge.agent.paths import Denied, Place, Policy, check_write
from autoforge.agent.rules import OUTPUTS, WRITERS
from autoforge.agent.words import Word


def takes_value(option: str, valued: Sequence[str]) -> bool:
    """Whether the next word is this option's value; long options may be shortened."""
    return option in valued or (
        len(option) > 3 and option.startswith("--") and any(known.startswith(option) for known in valued)
    )


def operands(args: Sequence[Word], valued: Sequence[str] = ()) -> list[Word]:
    found: list[Word] = []
    left = list(args)
    while left:
        word = left.pop(0)
        if word.text == "--":
            return found + left
        if not word.text.startswith("-") or word.text == "-":
            found.append(word)
        elif takes_value(word.text, valued) and left:
            left.pop(0)
    return found


def values_of(args: Sequence[Word], options: Sequence[str]) -> list[Word]:
    """The values given to any of the options, in every way of writing them."""
    found: list[Word] = []
    for at, word in enumerate(args):
        following = list(args[at + 1 : at + 2])
        for option in options:
            name, equals, value = word.text.partition("=")
            cluster = re.match(rf"-[A-Za-z]*{option[1]}", word.text) if len(option) == 2 else None
            if takes_value(word.text, [option]) or (cluster and cluster.end() == len(word.text)):
                found += following
            elif cluster:
                found.append(Word(word.text[cluster.end() :], word.glob))
            elif equals and option.startswith("--") and takes_value(name, [option]):
                found.append(Word(value, word.glob))
    return found


def check_outputs(policy: Policy, name: str, args: Sequence[Word], place: Place) -> None:
    for word in values_of(args, OUTPUTS.get(name, ())):
        check_write(policy, place, word)
    if name == "dd":
        for word in args:
            if word.text.startswith("of="):
                check_write(policy, place, Word(word.text[3:]), destructive=True)


def check_writer(policy: Policy, name: str, args: Sequence[Word], place: Place) -> None:
    rule = WRITERS[name]
    words = operands(args, (*rule.valued, *OUTPUTS.get(name, ())))
    if rule.into:
        given = values_of(args, OUTPUTS.get(name, ()))
        target = given[-1] if given else words.pop() if words else None
        if target is not None:
            _check_target(policy, place, target, words, destructive=rule.destructive)
            _check_sources(policy, name, target, words, place)
    if not rule.reads:
        for word in words:
            check_write(policy, place, word, destructive=rule.destructive, removes=rule.removes)


def _check_target(
    policy: Policy, place: Place, target: Word, sources: Sequence[Word], *, destructive: bool
) -> None:
    check_write(policy, place, target, destructive=destructive)
    if target.known and place is not None and (place / target.text).is_dir():
        for source in sources:
            name = Path(source.text.rstrip("/")).name
            if source.known and name not in ("", ".", ".."):
                check_write(policy, place, Word(f"{target.text}/{name}"))


def _check_sources(policy: Policy, name: str, target: Word, sources: Sequence[Word], place: Place) -> None:
    if name == "rsync" and any(re.match(r"[^/]*:", word.text) for word in (target, *sources)):
        raise Denied("`rsync` to or from another machine is not allowed: use what is in the worktree.")
    if name == "ln" and place is not None and target.known:
        # a relative link is followed from where it stands
        link = place / target.text
        folder = link if link.is_dir() else Path(os.path.normpath(link)).parent
        for word in sources:
            check_write(policy, folder, word)


def check_in_place(policy: Policy, args: Sequence[Word], place: Place) -> None:
    """sed and perl: with -i, everything behind the script is written."""
    texts = [word.text for word in args]
    if not any(re.match(r"-[A-Za-z]*i|--in-p", text) for text in texts):
        return
    script_given = any(re.match(r"-[A-Za-z]*[ef]$|--(expression|file)", text) for text in texts)
    files = operands(args, ("-e", "-f", "-pe", "-ne", "-pie", "-nie", "--expression", "--file"))
    for word in files if script_given else files[1:]:
        check_write(policy, place, word)


def find_parts(args: Sequence[Word]) -> tuple[list[Word], list[list[Word]]]:
    """Where find starts, and the commands that it runs, with `{}` as something below each start."""
    starts: list[Word] = []
    left = list(args)
    while left and not re.match(r"[-(!,]", left[0].text):
        starts.append(left.pop(0))
    starts = starts or [Word(".")]
    commands = []
    while left:
        if re.fullmatch(r"-(exec|ok)(dir)?", left.pop(0).text):
            end = next((at for at, word in enumerate(left) if word.text in (";", "+")), len(left))
            commands.append(left[:end])  # a shell inside may mean the braces of a find of its own
            for start in starts:
                commands.append([Word(word.text.replace("{}", f"{start.text}/{{}}")) for word in left[:end]])
            left = left[end:]
    return starts, commands
