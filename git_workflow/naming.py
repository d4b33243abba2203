"""Makes the names of branches and refs: readable, never clashing, always valid for git."""

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Sequence

_LETTERS = "abcdefghjkmnpqrstuvwxyz"  # without i, l and o, which look like digits
_DIGITS = "23456789"
_LONGEST_PREFIX = 100


def slug(name: str, limit: int = 40) -> str:
    """The name's ASCII words in lower case, joined with "-", at most `limit` (1 or more) characters; never empty."""
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    plain = "".join(c for c in letters if not unicodedata.combining(c) and c not in "'\u2019")
    words: list[str] = re.findall(r"[a-z0-9]+", plain) or ["feature"]
    text = words[0][:limit]
    for word in words[1:]:
        if len(text) + 1 + len(word) > limit:
            break
        text = f"{text}-{word}"
    return text


def new_key() -> str:
    """Six random characters, the first of them a letter: about 650 million keys."""
    return secrets.choice(_LETTERS) + "".join(secrets.choice(_LETTERS + _DIGITS) for _ in range(5))


def branch_name(prefix: str, name: str, key: str) -> str:
    return f"{prefix}/{slug(name)}-{key}"


def join_branch(prefix: str, tips: Sequence[str]) -> str:
    """The branch of a join: the same tips in the same order give the same name, on every machine."""
    return f"{prefix}/join-{hashlib.sha256(' '.join(tips).encode()).hexdigest()[:12]}"


def is_join(branch: str) -> bool:
    return re.search(r"/join-[0-9a-f]{12}$", branch) is not None


def saved_ref(key: str, name: str) -> str:
    """Where work that is on no branch is kept; `name` must be a valid part of a ref, and is used as it is."""
    return f"refs/autoforge/saved/{key}/{name}"


def valid_prefix(prefix: str) -> str | None:
    """Why git would refuse branches below this prefix, as a sentence, or None."""
    for refused, why in (
        (prefix == "", "it is empty"),
        (len(prefix.encode(errors="replace")) > _LONGEST_PREFIX, f"it is longer than {_LONGEST_PREFIX} bytes"),
        (prefix.startswith("-"), 'it starts with "-"'),
        ("" in prefix.split("/"), 'it starts or ends with "/", or has "//" in it'),
        (re.search(r"[\x00-\x20\x7f~^:?*\[\\\ud800-\udfff]", prefix), r"it has a space, a control character or one of ~^:?*[\ in it"),
        (".." in prefix or "@{" in prefix, 'it has ".." or "@{" in it'),
        (re.search(r"(^|/)\.", prefix), 'a part of it starts with "."'),
        (re.search(r"\.lock(/|$)", prefix), 'a part of it ends with ".lock"'),
    ):  # fmt: skip
        if refused:
            return f"The branch prefix {prefix!r} cannot be used: {why}. A name like autoforge is fine."
    return None
