"""The log: what is written, and what never is."""

import logging
from pathlib import Path

import pytest

from autoforge.log import REDACTED, log_to, redact


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-abcdefgh12345",
        "ghp_" + "a" * 36,
        "ghs_" + "B" * 36,
        "github_pat_" + "a1_" * 10,
        "glpat-abcdefgh_12",
        "AKIA" + "A" * 16,
        "xoxb-1234567890-abc",
        "AIza" + "x" * 35,
    ],
)
def test_keys_and_tokens_are_redacted(secret: str) -> None:
    assert redact(f"before {secret} after") == f"before {REDACTED} after"
    assert secret not in redact(f"TOKEN={secret}\n'{secret}'")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://x-access-token:hunter2@github.com/o/r", f"https://{REDACTED}@github.com/o/r"),
        ("Authorization: Bearer abcdefgh12345678", f"Authorization: Bearer {REDACTED}"),
        ("authorization: token abcdefgh12345678", f"authorization: token {REDACTED}"),
        ("https://github.com/o/r/pull/1", "https://github.com/o/r/pull/1"),
        ("see sk-learn and ghp_ and 12:30@noon", "see sk-learn and ghp_ and 12:30@noon"),
    ],
)
def test_credentials_in_urls_and_headers_are_redacted_and_nothing_else(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_everything_of_ours_and_only_warnings_of_others_are_written_redacted(tmp_path: Path) -> None:
    secret = "ghp_" + "a" * 36
    ours, other = logging.getLogger("autoforge.room"), logging.getLogger("somebody")
    with log_to(tmp_path / "log"):
        ours.debug("small thing")
        other.info("noise")
        other.warning("heed %s", secret)
        try:
            raise ValueError(secret)
        except ValueError:
            ours.exception("it broke")
    ours.error("too late")
    written = (tmp_path / "log").read_text()
    assert "DEBUG autoforge.room small thing" in written
    assert f"WARNING somebody heed {REDACTED}" in written
    assert "Traceback" in written
    assert not any(word in written for word in (secret, "noise", "too late"))
