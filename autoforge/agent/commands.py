"""Judges a whole shell command: follows where it stands, and whatever it starts."""

import re
from collections.abc import Callable, Sequence

from autoforge.agent.calls import (
    Call,
    Places,
    cd,
    check_redirect,
    check_refused,
    check_script,
    check_variable,
    declare,
    git,
    kill,
    name_of,
    plain,
    source,
    split_options,
    with_input,
)
from autoforge.agent.files import check_outputs, find_parts, operands
from autoforge.agent.paths import Denied, Policy, check_word, check_write
from autoforge.agent.rules import AS_TEXT, SHELLS, STARTERS
from autoforge.agent.shell import Item, Scope, Simple, parse
from autoforge.agent.words import UNKNOWN, Unreadable, Word


def check_text(policy: Policy, text: str, places: Places) -> Places:
    """Judge a whole command; answers where the shell may stand after it."""
    try:
        items = parse(text, {"HOME": str(policy.home), "TMPDIR": str(policy.tmp), "PWD": "."})
    except Unreadable as error:
        raise Denied(str(error)) from error
    return _run(policy, items, places)


def _run(policy: Policy, items: Sequence[Item], places: Places) -> Places:
    for item in items:
        if isinstance(item, Simple):
            places = _simple(policy, item, places)
        elif item.scope is Scope.OWN:
            _run(policy, item.items, places)
        else:
            after = places | _run(policy, item.items, places)
            if item.scope is Scope.LOOP and after != places and None not in places:
                after |= _run(policy, item.items, after | {None})
            places = after
    return places


def _simple(policy: Policy, simple: Simple, places: Places) -> Places:
    for name, value in simple.assignments:
        check_variable(name, value.text)
    words = (*simple.words, *(value for _, value in simple.assignments))
    for place in places:
        for redirect in simple.redirects:
            check_redirect(policy, redirect, place)
        for word in words:
            check_word(policy, place, word)
    after = _call(policy, simple.words, simple.stdin, places)
    return after | places if simple.redirects else after  # with a redirection that fails nothing has run


def _call(policy: Policy, words: Sequence[Word], stdin: str | None, places: Places) -> Places:
    if not words:
        return places
    call = Call(name_of(words[0]), tuple(words[1:]), stdin, places)
    check_refused(call)
    if call.name.startswith("git-"):
        call = Call("git", (Word(call.name[4:]), *call.args), stdin, places)
    started = _started(call)
    if started is not None:
        return places | started(policy)
    return HANDLERS.get(call.name, plain)(policy, call)


def _started(call: Call) -> Callable[[Policy], Places] | None:
    """How to judge the command that this one starts; None when it starts none."""
    args = list(call.args)
    first = next((at for at, word in enumerate(args) if not word.text.startswith("-")), len(args))
    key = f"{call.name} {args[first].text}" if first < len(args) else call.name
    if key in STARTERS:
        args = args[first + 1 :]
    elif (key := call.name) not in STARTERS:
        return None
    rule = STARTERS[key]
    if any(word.text in rule.looks_up for word in args[:1]):
        return lambda policy: call.places
    options, inner = split_options(args, rule.valued)
    inner = inner[rule.before :]
    if key == "xargs":
        inner = with_input(options, inner)
    texts = [word for word in inner if key in AS_TEXT and re.search(r"\s", word.text)]

    def judge(policy: Policy) -> Places:
        for word in texts:
            _check_own_text(policy, word, call)
        return (
            call.places if texts[:1] == inner[:1] and texts else _call(policy, inner, call.stdin, call.places)
        )

    return judge


def _check_own_text(policy: Policy, word: Word, call: Call) -> None:
    if not word.known:
        raise Denied(
            f"What `{call.name}` runs is put together only when it runs: write it out, or put it in a script file."
        )
    check_text(policy, word.text, call.places)


def _shell(policy: Policy, call: Call) -> Places:
    """A shell: its command string, its script file, or what it is given to read."""
    left, as_text = list(call.args), False
    while left and re.match(r"[-+].", left[0].text):
        option = left.pop(0).text
        if option in ("--version", "--help"):
            return call.places
        if option == "--":
            break
        as_text |= not option.startswith("--") and "c" in option
        valued = option in ("--rcfile", "--init-file") or (
            not option.startswith("--") and re.search("[oO]$", option)
        )
        left = left[1:] if valued else left
    if as_text and left[:1] == [Word("--")]:
        left = left[1:]
    if as_text and left:
        _check_own_text(policy, left[0], call)
    elif not as_text and left and "-s" not in [word.text for word in call.args]:
        check_script(policy, call, left[0])
    elif call.stdin is not None:
        _check_own_text(policy, Word(call.stdin), call)
    else:
        raise Denied(f"`{call.name}` would run what it reads: write that to a script file and run the file.")
    return call.places


def _eval(policy: Policy, call: Call) -> Places:
    text = Word(" ".join(word.text for word in call.args))
    if not text.known:
        _check_own_text(policy, text, call)
    return check_text(policy, text.text, call.places)


def _trap(policy: Policy, call: Call) -> Places:
    words = operands(call.args)
    if len(words) > 1 and words[0].text not in ("", "-"):
        _check_own_text(policy, words[0], call)
    return call.places


def _env(policy: Policy, call: Call) -> Places:
    options, left = split_options(call.args, ("-u", "--unset", "-C", "--chdir", "-S", "--split-string"))
    for at, text in enumerate(word.text for word in options):
        if re.match(r"-[0v]*[iS]|--(ign|sp)|-$", text):
            raise Denied(
                "`env -i` and `env -S` are not allowed: run the command with the environment that it has."
            )
        if re.match(r"-[0v]*C|--ch", text):
            raise Denied("`env -C` is not allowed: `cd` there first.")
        name = re.sub(r"^(-u|--unset=)", "", text) or "".join(word.text for word in options[at + 1 : at + 2])
        check_variable(name, "")
    if left and left[0].text == "-":
        raise Denied("`env -` is not allowed: run the command with the environment that it has.")
    while left and "=" in left[0].text:
        name, _, value = left.pop(0).text.partition("=")
        if UNKNOWN in name:
            raise Denied("Which variable `env` sets is not written out: write its name literally.")
        check_variable(name, value)
    return _call(policy, left, call.stdin, call.places)


def _find(policy: Policy, call: Call) -> Places:
    starts, commands = find_parts(call.args)
    for place in call.places:
        check_outputs(policy, call.name, call.args, place)
        for start in starts if any(word.text == "-delete" for word in call.args) else []:
            check_write(policy, place, start, destructive=True)
    for words in commands:
        _call(policy, words, None, call.places)
    return call.places


HANDLERS: dict[str, Callable[[Policy, Call], Places]] = {
    **dict.fromkeys(SHELLS, _shell),
    **dict.fromkeys(("cd", "pushd", "popd", "chdir"), cd),
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly", "unset"), declare),
    "git": git,
    "eval": _eval,
    "source": source,
    ".": source,
    "trap": _trap,
    "env": _env,
    "find": _find,
    "kill": kill,
}
