"""Configuration and environment: what wins, what is taken out, and who gets a token."""

from pathlib import Path

import pytest

from autoforge import project, settings
from autoforge.errors import SettingsError
from autoforge.settings import Surroundings
from tests.conftest import run

OURS = ("GITHUB_TOKEN", "BATCH", "SLOT", "PORT", "PORTS", "BUILD", "REPO", "ASKPASS")


def write(folder: Path, text: str) -> Path:
    path = folder / "autoforge.toml"
    path.write_text(text)
    return path


def test_flags_win_over_variables_over_the_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.load(tmp_path, {}).concurrency == 3
    write(
        tmp_path, 'concurrency = 4\n[agent]\nmodel = "file"\nmax_turns = 7\n[verify]\ncommands = ["make"]\n'
    )
    assert settings.load(tmp_path, {}).concurrency == 4
    monkeypatch.setenv("AUTOFORGE_CONCURRENCY", "5")
    monkeypatch.setenv("AUTOFORGE_AGENT__MODEL", "variable")
    monkeypatch.setenv("AUTOFORGE_VERIFY__COMMANDS", '["tox"]')
    loaded = settings.load(tmp_path, {})
    assert (loaded.concurrency, loaded.agent.model, loaded.verify.commands) == (5, "variable", ("tox",))
    loaded = settings.load(tmp_path, {"concurrency": 6, "agent.model": "flag", "agent.max_turns": None})
    assert (loaded.concurrency, loaded.agent.model, loaded.agent.max_turns) == (6, "flag", 7)


def test_variables_that_are_no_settings_are_no_concern_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OURS:
        monkeypatch.setenv(f"AUTOFORGE_{name}", "something")
    assert settings.load(tmp_path, {}) == settings.Settings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("concurrency = ", "cannot be read"),
        ("concurrency = 0\n", "concurrency: "),
        ("concurency = 4\n", "concurency: there is no such key"),
        ("[agent]\nmodle = 'x'\n", "agent.modle: there is no such key"),
        ("[agent]\nmax_turns = 'many'\n", "agent.max_turns: "),
        ("verify = 'make'\n", "verify: "),
        ("[verify]\ncommands = 'make'\n", "verify.commands: "),
        ("[verify]\ncommands = [1]\n", "verify.commands.0: "),
        ("branch_prefix = 'a..b'\n", "branch_prefix: "),
        ("[limits]\nbudget_usd = -1\n", "limits.budget_usd: "),
        ("'<flags>' = 1\n", ""),
        ("[agent]\ntimeout_s = inf\n", "agent.timeout_s: Input should be a finite number"),
    ],
)
def test_b5_a_fault_in_the_file_is_one_error_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    if not said:  # the key by which flags travel
        assert settings.load(tmp_path, {}) == settings.Settings()
        return
    with pytest.raises(SettingsError) as caught:
        settings.load(tmp_path, {})
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_b5_bytes_that_are_no_text_and_a_folder_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "autoforge.toml").write_bytes(b"a = '\xff\0'")
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.load(tmp_path, {})
    (tmp_path / "autoforge.toml").unlink()
    (tmp_path / "autoforge.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.load(tmp_path, {})


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("AGENT__MAX_TURNS", "many", "agent.max_turns"),
        ("CONCURRENCY", "99", "concurrency"),
        ("VERIFY__COMMANDS", "make test", "AUTOFORGE_VERIFY"),
        ("VERIFY", "make test", "AUTOFORGE_VERIFY"),
        ("AGENT__MODLE", "x", "agent.modle"),
    ],
)
def test_a_fault_in_a_variable_is_not_blamed_on_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, key: str
) -> None:
    path = write(tmp_path, "concurrency = 4\n[agent]\nmax_turns = 7\n[verify]\ncommands = ['make']\n")
    monkeypatch.setenv(f"AUTOFORGE_{name}", value)
    with pytest.raises(SettingsError) as caught:
        settings.load(tmp_path, {})
    assert key in str(caught.value)
    assert "AUTOFORGE_" in str(caught.value)
    assert str(path) not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "plain", "credential", "model"),
    [
        ("PATH", True, False, False),
        ("LANG", True, False, False),
        ("SSH_AUTH_SOCK", True, False, False),  # switched off for children one room further
        ("GITHUB_TOKEN", False, False, False),
        ("GH_TOKEN", False, False, False),
        ("GH_ENTERPRISE_TOKEN", False, False, False),
        ("AUTOFORGE_GITHUB_TOKEN", False, False, False),
        ("GIT_DIR", False, False, False),
        ("GIT_INDEX_FILE", False, False, False),
        ("GIT_SSH_COMMAND", False, False, False),
        ("NPM_TOKEN", False, True, False),
        ("DB_PASSWORD", False, True, False),
        ("STRIPE_API_KEY", False, True, False),
        ("ANTHROPIC_API_KEY", False, True, True),
        ("CLAUDE_CODE_OAUTH_TOKEN", False, True, True),
        ("AWS_SECRET_ACCESS_KEY", False, True, True),
        ("AUTOFORGE_DATABASE__URL", False, False, False),
        ("AUTOFORGE_BATCH", False, False, False),
    ],
)
def test_c5_what_is_taken_out_of_the_environment(
    name: str, plain: bool, credential: bool, model: bool
) -> None:
    environ = {name: "value"}
    taken = settings.take(environ)
    assert (name in taken.plain, name in taken.credentials, name in taken.model_access) == (
        plain,
        credential,
        model,
    )
    assert (name in environ) == (plain or (name.startswith("AUTOFORGE_") and name not in settings.TOKENS))
    assert "value" not in repr(taken)


def test_what_autoforge_needs_itself_is_kept_apart() -> None:
    environ = {
        "GITHUB_TOKEN": "a",
        "AUTOFORGE_GITHUB_TOKEN": "b",
        "GH_TOKEN": "",
        "GITHUB_API_URL": "https://x/api/v3",
    }
    environ |= {
        "GIT_AUTHOR_NAME": "Ann",
        "GIT_AUTHOR_EMAIL": "ann@example.com",
        "GIT_SSH_COMMAND": "ssh -i k",
    }
    taken = settings.take(environ)
    assert (taken.token, taken.api_url, taken.identity) == (
        "b",
        "https://x/api/v3",
        ("Ann", "ann@example.com"),
    )
    assert taken.network == {"GIT_SSH_COMMAND": "ssh -i k"}


@pytest.mark.parametrize(
    ("url", "api_url", "configured", "given"),
    [
        ("https://github.com/o/app.git", None, None, True),
        ("git@github.com:o/app.git", None, None, True),
        ("ssh://git@ssh.github.com:443/o/app.git", None, None, True),
        ("https://octo.ghe.com/o/app", None, None, True),
        ("https://ghe.example/o/app", "https://ghe.example/api/v3", None, True),
        ("https://ghe.example/o/app", None, "https://ghe.example/api/v3/", True),
        ("https://github.com/o/app", "https://ghe.example/api/v3", None, False),
        ("https://ghe.example/o/app", None, None, False),
        ("https://gitlab.com/o/app", None, None, False),
        ("https://gitlab.com/o/app", "https://api.github.com", None, False),
        ("https://github.com.evil.example/o/app", "https://api.github.com", None, False),
        ("https://github.com/o/app", None, "https://elsewhere.example/api/v3", False),
        ("/srv/git/app.git", None, None, False),
        ("https://example.com/a/b/c/app", None, None, False),
    ],
)
def test_only_the_forges_own_host_gets_the_token(
    clone: Path, url: str, api_url: str | None, configured: str | None, given: bool
) -> None:
    run("git", "remote", "set-url", "origin", url, cwd=clone)
    around = Surroundings(token="secret", api_url=api_url)
    opened = project.open_project(clone, around, {"github.api_url": configured})
    assert opened.remote is not None
    assert opened.remote.token == ("secret" if given else None)
    assert opened.slug == ("o/app" if given else None)
    assert (project.connect(opened) is not None) is given


def test_a_remote_that_is_not_there_is_none(clone: Path) -> None:
    opened = project.open_project(clone, Surroundings(token="secret"), {"remote": "upstream"})
    assert (opened.remote, opened.slug, project.connect(opened)) == (None, None, None)


@pytest.mark.parametrize("start", ["", "sub/pkg", "sub/pkg/deep", ".hidden/app"])
def test_w5_a_project_in_a_subdirectory_has_its_own_file(clone: Path, start: str) -> None:
    for folder in ("sub/pkg", ".hidden/app"):
        (clone / folder / "deep").mkdir(parents=True)
        write(clone / folder, "concurrency = 7\n")
    write(clone, "concurrency = 2\n")
    opened = project.open_project(clone / start, Surroundings())
    expected = "" if not start else start.removesuffix("/deep")
    assert opened.repo.prefix == expected
    assert opened.folder == clone / expected
    assert opened.settings.concurrency == (7 if start else 2)


def test_w5_worktrees_are_beside_the_main_checkout_also_from_a_linked_one(
    clone: Path, tmp_path: Path
) -> None:
    run("git", "worktree", "add", "-q", "--detach", str(tmp_path / "deep" / "linked"), cwd=clone)
    there = project.open_project(tmp_path / "deep" / "linked", Surroundings())
    here = project.open_project(clone, Surroundings())
    assert there.worktrees == here.worktrees == tmp_path / "app.worktrees"
    assert there.database_url == here.database_url
