"""A worktree with a gate, for tests that call its tools."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoforge.agent import guard
from autoforge.agent.tools import Answer
from autoforge.events import Event
from autoforge.gate import Gate, Rules
from db.feature import Batch, NewFeature
from db.store import FeatureStore
from git_workflow import standing
from git_workflow.command import Git
from tests.conftest import run

KEY, BRANCH = "k23456", "autoforge/work-k23456"
STEPS = ("it is there", "it is right")


@dataclass
class Bench:
    """A worktree with a gate over three features, of which the second depends on the first."""

    path: Path
    base: str
    gate: Gate

    def __call__(self, tool: str, **arguments: Any) -> Answer:
        return asyncio.run(self.call(tool, **arguments))

    async def call(self, tool: str, **arguments: Any) -> Answer:
        tools = {one.name: one for one in self.gate.tools()}
        return await tools[tool].call(arguments)

    def passed(self, number: int, *commands: str, **arguments: Any) -> Answer:
        evidence = [{"step": n, "command": command} for n, command in enumerate(commands, 1)]
        return self("feature_passed", **{"id": number, "evidence": evidence, **arguments})

    def git(self, *args: str) -> str:
        return run("git", *args, cwd=self.path)

    def write(self, name: str, text: str = "x\n") -> None:
        (self.path / name).write_text(text)

    def state(self) -> tuple[str, Mapping[str, str]]:
        """HEAD, and every file that git does not ignore."""
        names = self.git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
        files = {n: (self.path / n).read_text() for n in names if (self.path / n).is_file()}
        return self.git("rev-parse", "HEAD"), files


def make(clone: Path, store: FeatureStore, tmp_path: Path) -> Bench:
    """On a branch of its own, as an attempt finds it."""
    path, scratch = tmp_path / "w1", tmp_path / "scratch"
    scratch.mkdir()
    base = run("git", "rev-parse", "HEAD", cwd=clone)
    run("git", "worktree", "add", "-q", "--no-track", "-b", BRANCH, str(path), cwd=clone)
    new = [
        NewFeature("One", steps=STEPS),
        NewFeature("Two", steps=STEPS, depends_on=(0,)),
        NewFeature("Three"),
    ]
    ids = store.add_features(new)
    git = Git(path)
    rules = Rules(
        cwd=path,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
        commands=("sh check.sh",),
        timeout_s=30,
        protected=guard.PROTECTED,
        max_file_bytes=1000,
        policy=guard.Policy(root=path, tmp=scratch, protected=guard.PROTECTED, branch=BRANCH),
    )
    batch = Batch(KEY, BRANCH, tuple(ids), base_sha=base)
    events: asyncio.Queue[Event] = asyncio.Queue()
    ref = standing.branch_ref(git)
    return Bench(path, base, Gate(git, rules, batch, tuple(store.features()), base, ref, 1, events))
