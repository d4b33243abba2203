"""What an agent may do with git: look, stage, commit and take back its own changes, on its own branch."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoforge.agent.paths import Denied, Place, Policy, check_write, is_own, real
from autoforge.agent.words import UNKNOWN, Word

READING = (
    "annotate", "blame", "cat-file", "check-attr", "check-ignore", "check-ref-format", "cherry", "count-objects",
    "describe", "diff", "diff-files", "diff-index", "diff-tree", "for-each-ref", "help", "log", "ls-files", "ls-tree",
    "merge-base", "name-rev", "range-diff", "rev-list", "rev-parse", "shortlog", "show", "show-branch", "show-ref",
    "status", "var", "version", "whatchanged",
)  # fmt: skip

WAYS = {
    "push": "autoforge pushes your branch when the feature has passed.",
    "fetch": "autoforge has fetched what you need.",
    "pull": "autoforge has fetched what you need.",
    "remote": "autoforge speaks with the remote.",
    "clone": "work in the worktree that you have.",
    "checkout": "stay on your branch; take a file back with `git restore FILE` or `git checkout -- FILE`.",
    "switch": "stay on your branch; take a file back with `git restore FILE`.",
    "branch": "stay on your branch; `git branch` only lists here.",
    "tag": "`git tag --list` only.",
    "stash": 'the stash is shared by all worktrees; commit, or keep a patch with `git diff > "$TMPDIR/keep.patch"`.',
    "config": "reading only: `git config --get NAME`.",
    "worktree": "`git worktree list` only; autoforge makes and removes worktrees.",
    "reflog": "`git reflog` only shows here.",
    "submodule": "`git submodule status` only.",
    "rebase": "autoforge moves branches; go on with new commits.",
    "merge": "autoforge merges; go on with new commits.",
    "reset": "`git reset [--soft|--mixed] …`, `git reset FILE`, or `git reset --hard HEAD` only.",
    "commit": "hooks and checks are not skipped: mend what they report.",
    "clean": "remove the files that you made by name, with rm.",
}

LISTS = r"--list|-l|--contains|--no-contains|--merged|--no-merged|--points-at"
SHOWS = (
    rf"{LISTS}|-[avrqi]+|-n\d*|--all|--remotes|--verbose|--show-current|--(sort|format|column|color|abbrev).*"
)
HARMLESS_CONFIG = re.compile(
    r"(color\.[\w.]+|advice\.\w+|core\.quotepath|log\.date)=[\w-]*|(core\.)?pager=cat|core\.pager=", re.I
)
HARMLESS_FLAGS = {
    "--no-pager",
    "-P",
    "-p",
    "--paginate",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--version",
    "--help",
    "-h",
    "-v",
}
SCOPES = {
    "--global",
    "--local",
    "--system",
    "--show-origin",
    "--show-scope",
    "--name-only",
    "-z",
    "--null",
    "--bool",
    "--int",
}


@dataclass(frozen=True)
class Rule:
    """Regular expressions on whole arguments. `first` must match the first one if there is one."""

    refuse: str = r"(?!)"
    first: str = r"(?s:.*)"


RULES = {
    **dict.fromkeys(READING, Rule(refuse=r"--out(?!put-indicator).*")),
    "grep": Rule(refuse=r"-O.*|--open.*"),
    "add": Rule(),
    "restore": Rule(),
    "rm": Rule(),
    "mv": Rule(),
    "cherry-pick": Rule(),
    "revert": Rule(),
    "apply": Rule(refuse=r"--unsafe.*"),
    "commit": Rule(refuse=r"--no-v(?!erb).*|-[apsvqeioz]*n.*"),  # before n: the letters that take no value
    "stash": Rule(first="list|show"),
    "worktree": Rule(first="list"),
    "submodule": Rule(first="status|summary"),
    "lfs": Rule(first="env|ls-files|status|track|untrack"),
    "reflog": Rule(refuse="expire|delete|drop"),
    "checkout": Rule(),
    "reset": Rule(refuse="--k.*|--me.*|--rec.*"),
    "branch": Rule(),
    "tag": Rule(),
    "config": Rule(),
}  # fmt: skip
NEEDS_ARGUMENT = {"stash", "worktree", "lfs", "checkout", "config"}


def check_git(policy: Policy, args: Sequence[Word], place: Place) -> None:
    """Raise Denied unless git may be called with these arguments from this place."""
    args, place = _past_options(policy, args, place)
    if not args:
        return
    name, texts = args[0].text, [word.text for word in args[1:]]
    rule = RULES.get(name)
    if rule is None:
        raise refused(name)
    wrong_first = not re.fullmatch(rule.first, texts[0]) if texts else name in NEEDS_ARGUMENT
    if wrong_first or any(re.fullmatch(rule.refuse, text, re.S) for text in texts):
        raise refused(name)
    if name in CHECKS and not CHECKS[name](texts):
        raise refused(name)
    paths = [word for word in args[1:] if not word.text.startswith("-")] if name in ("rm", "mv") else []
    for word in paths:
        check_write(policy, place, word, destructive=True, removes=name == "rm" or word is not paths[-1])


def _past_options(policy: Policy, args: Sequence[Word], place: Place) -> tuple[Sequence[Word], Place]:
    """The subcommand and what follows, and the place after `-C`."""
    left = list(args)
    while left and left[0].text.startswith("-"):
        option = left.pop(0).text
        if option == "-C" and left:
            place = _folder(policy, place, left.pop(0))
        elif option == "-c" and left and HARMLESS_CONFIG.fullmatch(left[0].text):
            left.pop(0)
        elif option not in HARMLESS_FLAGS:
            shown = option.replace(UNKNOWN, "…")
            raise Denied(f"`git {shown} …` is not allowed: call git plainly, from inside {policy.root}.")
    return left, place


def refused(name: str) -> Denied:
    shown = name.replace(UNKNOWN, "…")
    way = WAYS.get(
        name, "you may look (status, diff, log, show, …), add, commit, restore, rm, mv, revert and reset."
    )
    return Denied(f"`git {shown}` in this form is not allowed: {way}")


def _folder(policy: Policy, place: Place, word: Word) -> Path:
    if word.known and (place is not None or word.text.startswith("/")):
        folder = real(Path(place or "/") / word.text)
        if is_own(policy, folder):
            return folder
    raise Denied(
        f"`git -C {word.text.replace(UNKNOWN, '…')}` leaves your worktree: call git from inside {policy.root}."
    )


def _commit(texts: Sequence[str]) -> bool:
    """An argument that is known only later might be --no-verify, unless it is the value of an option."""
    pairs = zip(["", *texts], texts, strict=False)
    return all(
        re.fullmatch(r"-\w*[mFCct]|--\w[\w-]*", before) for before, text in pairs if text.startswith(UNKNOWN)
    )


def _listing(texts: Sequence[str]) -> bool:
    options = [text for text in texts if text.startswith("-")]
    plain = len(options) < len(texts)
    return all(re.fullmatch(rf"({SHOWS})(=.*)?", option) for option in options) and (
        not plain or any(re.fullmatch(rf"({LISTS})(=.*)?", option) for option in options)
    )


def _config(texts: Sequence[str]) -> bool:
    left = [text for text in texts if text not in SCOPES and not text.startswith("--type=")]
    first = left[0] if left else ""
    asks = re.fullmatch(r"--get(-all|-regexp|-urlmatch)?|--list|-l|get|list", first) is not None
    return asks or (len(left) == 1 and not first.startswith("-") and "." in first)


def _checkout(texts: Sequence[str]) -> bool:
    if "--" not in texts[:-1]:
        return False
    before = texts[: texts.index("--")]
    options = [text for text in before if text.startswith("-") or UNKNOWN in text]
    return len(before) - len(options) <= 1 and all(
        o in ("-q", "--quiet", "--ours", "--theirs") for o in options
    )


def _reset(texts: Sequence[str]) -> bool:
    hard = any(text.startswith("--h") for text in texts)
    return not hard or all(text.startswith("--h") or text in ("HEAD", "-q", "--quiet") for text in texts)


CHECKS: dict[str, Callable[[Sequence[str]], bool]] = {
    "commit": _commit,
    "branch": _listing,
    "tag": _listing,
    "config": _config,
    "checkout": _checkout,
    "reset": _reset,
}
