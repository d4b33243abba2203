"""The build's log: set up once, a file for each build, secrets redacted."""

import contextlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path

REDACTED = "[redacted]"
PATTERNS = re.compile(
    r"sk-ant-[A-Za-z0-9_-]{8,}|\bgh[pousr]_[A-Za-z0-9]{8,}|\bgithub_pat_[A-Za-z0-9_]{8,}|\bglpat-[A-Za-z0-9_-]{8,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bxox[abprs]-[A-Za-z0-9-]{8,}|\bAIza[A-Za-z0-9_-]{20,}"
    r"|(?<=://)[^/\s:@'\"]*:[^/\s@'\"]+(?=@)"
    r"|(?i:(?<=bearer )|(?<=basic )|(?<=authorization: token ))[A-Za-z0-9._~+/=-]{8,}"
)


def redact(text: str) -> str:
    """The text without tokens, keys and credentials in URLs."""
    return PATTERNS.sub(REDACTED, text)


class _Redacting(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


@contextlib.contextmanager
def log_to(path: Path) -> Iterator[None]:
    """Write everything that our rooms log into `path`; other libraries only from warnings on."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(_Redacting("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root, ours = logging.getLogger(), logging.getLogger("autoforge")
    before = ours.level
    root.addHandler(handler)
    ours.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.removeHandler(handler)
        ours.setLevel(before)
        handler.close()
