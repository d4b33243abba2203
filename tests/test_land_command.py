"""`autoforge land`: what it shows, what it refuses, how it ends."""

from collections.abc import Callable
from pathlib import Path

from autoforge.demo.github import Repository
from autoforge.project import Project
from db.feature import NewFeature
from tests.agents import Crew
from tests.builds import add, build, chain
from tests.conftest import TOKEN, commit
from tests.harness.github import ValidatingGitHub
from tests.invoke import invoke, refused, succeed
from tests.landings import built, by_name, sha

Opened = Callable[..., Project]


def configured(clone: Path, command: str = "sh check.sh") -> None:
    (clone / "autoforge.toml").write_text(f'[verify]\ncommands = ["{command}"]\n')


def test_the_command_shows_what_could_land_and_lands_it(opened: Opened, clone: Path) -> None:
    project = opened(batch_size=1)
    assert "Nothing can land" in succeed(clone, "land")
    first, second = built(project, *chain("a.txt=1", "b.txt=1"))
    shown = succeed(clone, "land")
    assert shown.index(f"{first.key}  {first.branch}  #1 a.txt=1") < shown.index(
        f"{second.key}  {second.branch}"
    )
    assert sha(clone, "main") == sha(clone, "origin/main")
    configured(clone)
    out = succeed(clone, "land", second.key)
    assert f"{first.branch} lands as well" in out
    assert "2 batches have landed in main." in out
    assert "0 batches have landed in main." in succeed(clone, "land", "--all")


def test_the_command_says_what_is_left_and_why(opened: Opened, clone: Path) -> None:
    [batch] = built(opened(), NewFeature("a.txt=1"))
    configured(clone, "echo the reason; false")
    ended = invoke(clone, "land", "--all")
    assert ended.code == 1
    assert f"{batch.branch} has not landed: merged into main" in ended.out
    assert "the reason" in ended.out
    assert "0 batches have landed in main, 1 not." in ended.out


def test_what_cannot_land_is_refused(
    opened: Opened, clone: Path, forged: Repository, github: ValidatingGitHub
) -> None:
    configured(clone)
    project = opened(token=TOKEN, api_url=github.url)
    add(project, NewFeature("a.txt=1"), NewFeature("b.txt=1"))
    assert build(project, Crew(by_name), auto_pr=True, features=(1,)).exit_code == 0
    before = sha(clone, "main")
    assert "pull request #1 is open: merge it on GitHub" in refused(clone, "land", "1")
    assert "#1 is open" in succeed(clone, "land")
    assert "Feature #2 is pending" in refused(clone, "land", "2")
    assert "no batch or feature nothing" in refused(clone, "land", "nothing")
    assert "not both" in refused(clone, "land", "1", "--all")
    assert "not both" in refused(clone, "build", "--auto-pr", "--land")
    assert invoke(clone, "land", "--all").code == 1
    commit(clone, {"README.md": "# mine\n"})
    (clone / "README.md").write_text("in the middle of it\n")
    assert "commit or stash" in refused(clone, "land", "--all")
    assert "commit or stash" in refused(clone, "build", "--land")
    assert sha(clone, "main^") == before
