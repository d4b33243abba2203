"""Judges one plain command that starts no other: whether it may run, and where the shell stands after it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from autoforge.agent.files import check_in_place, check_outputs, check_writer, operands, takes_value
from autoforge.agent.git_rules import check_git
from autoforge.agent.paths import Denied, Place, Policy, check_word, check_write, is_own, outside, real
from autoforge.agent.rules import PUBLISHING, PUBLISHING_WHY, REFUSED, WRITERS
from autoforge.agent.shell import Redirect
from autoforge.agent.words import UNKNOWN, Word

REFUSED_VARIABLES = re.compile(
    r"GIT_\w+|AUTOFORGE_\w+|BASH_ENV|CDPATH|PROMPT_COMMAND|LD_PRELOAD|DYLD_INSERT_LIBRARIES", re.I
)
HARMLESS_VARIABLES = re.compile(
    r"GIT_PAGER=(cat)?|GIT_(SEQUENCE_)?EDITOR=(true|:)|GIT_MERGE_AUTOEDIT=no|GIT_TERMINAL_PROMPT=0|GIT_OPTIONAL_LOCKS=0"
)


Places = frozenset[Place]


@dataclass(frozen=True)
class Call:
    """One command with a name, wherever it may stand."""

    name: str
    args: tuple[Word, ...]
    stdin: str | None
    places: Places


def name_of(word: Word) -> str:
    name = word.text.rpartition("/")[2].lower()
    if (
        not word.known
        or (word.glob and name != "[")
        or not name
        or name.startswith("-")
        or re.search(r"[\s=]", word.text)
    ):
        raise Denied(
            "Which command runs is not written out: write its name literally, not as a variable, pattern or output."
        )
    return name


def check_refused(call: Call) -> None:
    names = [call.name, call.name.partition(".")[0]]
    texts = [word.text for word in call.args]
    if re.fullmatch(r"(python|pypy)[\d.]*", call.name) and "-m" in texts[:-1]:
        names.append(texts[texts.index("-m") + 1])
    for name in names:
        if name in REFUSED:
            raise Denied(f"`{name}` is not allowed: {REFUSED[name]}")
    first = [word.text for word in operands(call.args)][:2]
    if PUBLISHING.get(call.name, set()) & {*first, " ".join(first)}:
        raise Denied(f"`{call.name} {' '.join(first)}` is not allowed: {PUBLISHING_WHY}")


def check_variable(name: str, text: str) -> None:
    if REFUSED_VARIABLES.fullmatch(name) and not HARMLESS_VARIABLES.fullmatch(f"{name}={text}"):
        raise Denied(
            f"The variable {name} is not to be set or taken away: it steers git or the build. Run the command plainly."
        )


def check_redirect(policy: Policy, redirect: Redirect, place: Place) -> None:
    if redirect.operator in ("<", "<&"):
        check_word(policy, place, redirect.target)
    elif not (redirect.operator == ">&" and re.fullmatch(r"\d+-?|-", redirect.target.text)):
        check_write(policy, place, redirect.target)


def plain(policy: Policy, call: Call) -> Places:
    for place in call.places:
        check_outputs(policy, call.name, call.args, place)
        if call.name in WRITERS:
            check_writer(policy, call.name, call.args, place)
        elif call.name in ("sed", "gsed", "perl"):
            check_in_place(policy, call.args, place)
    return call.places


def git(policy: Policy, call: Call) -> Places:
    for place in call.places:
        check_git(policy, call.args, place)
    return call.places


def cd(policy: Policy, call: Call) -> Places:
    targets = operands(call.args)
    word = targets[0] if targets else Word(str(policy.home))
    if call.name == "popd" or word.text == "-" or not word.known or word.glob:
        return call.places | {None}
    sure = len(targets) == 1 and len(call.args) == 1
    after: set[Place] = set() if sure else set(call.places)  # the shell refuses what it does not understand
    for place in call.places:
        if place is None and not word.text.startswith("/"):
            after.add(None)
            continue
        target = real((place or policy.root) / word.text)
        if not is_own(policy, target):
            raise outside(policy, word.text)
        after |= {target} if target.is_dir() else {target, place}
    return frozenset(after)


def check_script(policy: Policy, call: Call, word: Word) -> None:
    if not word.text.strip(UNKNOWN) or re.fullmatch(r"-|/dev/(stdin|fd/.*)|/proc/.*/fd/.*", word.text):
        raise Denied(f"`{call.name}` would run what only the running shell knows: name the script file.")


def source(policy: Policy, call: Call) -> Places:
    for word in call.args[:1]:
        check_script(policy, call, word)
    return call.places | {None} if call.args and not call.args[0].known else call.places


def declare(policy: Policy, call: Call) -> Places:
    for word in call.args:
        name, _, value = word.text.partition("=")
        check_variable(name, value)
    return call.places


def kill(policy: Policy, call: Call) -> Places:
    left = [word.text for word in call.args]
    if left[:1] in (["-s"], ["-n"], ["--signal"]):
        left = left[2:]
    elif left and re.fullmatch(r"-\w+|--signal=.*|--list.*", left[0]):
        left = left[1:]
    for text in left[1:] if left[:1] == ["--"] else left:
        if not re.fullmatch(r"%\S*|[2-9]|[1-9]\d+|[A-Z]+", text):
            raise Denied(
                "Only processes that you started may be ended: `cmd & pid=$!` and `kill $pid` in one command, "
                "`kill %1`, or the number itself."
            )
    return call.places


def split_options(args: Sequence[Word], valued: Sequence[str]) -> tuple[list[Word], list[Word]]:
    """The options in front with their values, and the rest."""
    at = 0
    while at < len(args) and args[at].text.startswith("-") and args[at].text != "-":
        option = args[at].text
        at += 2 if takes_value(option, valued) else 1
        if option == "--":
            break
    return list(args[:at]), list(args[at:])


def with_input(options: Sequence[Word], inner: Sequence[Word]) -> list[Word]:
    """What xargs runs, with what it reads as unknown words."""
    texts = [word.text for word in options]
    for at, text in enumerate(texts):
        if re.match(r"-[Ii]|--replace", text):
            mark = (
                re.sub(r"^(-[Ii]|--replace=?)", "", text) or (texts[at + 1] if text == "-I" else "") or "{}"
            )
            return [Word(word.text.replace(mark, UNKNOWN), word.glob) for word in inner]
    return [*inner, Word(UNKNOWN)]
