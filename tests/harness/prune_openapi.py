"""Cuts GitHub's OpenAPI description down to the operations that the tests validate.

Run by hand, never by the tests. Origin: the npm package @octokit/openapi 23.0.2, MIT licence, Copyright GitHub Inc.
and the Octokit contributors; the description itself is github/rest-api-description, MIT licence as well.

    npm install @octokit/openapi
    python -m tests.harness.prune_openapi node_modules/@octokit/openapi/generated/api.github.com.json \\
        tests/harness/github-openapi.min.json
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]
REPOSITORY = "/repos/{owner}/{repo}"
BELOW_REPOSITORY = """
/pulls /pulls/{pull_number} /pulls/{pull_number}/merge /pulls/{pull_number}/files /pulls/{pull_number}/commits
/pulls/{pull_number}/requested_reviewers /pulls/{pull_number}/reviews /pulls/{pull_number}/reviews/{review_id}
/pulls/{pull_number}/comments /issues/{issue_number} /issues/{issue_number}/comments /issues/comments/{comment_id}
/issues/{issue_number}/labels /issues/{issue_number}/labels/{name} /labels /labels/{name}
/issues /issues/{issue_number}/assignees /commits/{ref} /commits/{ref}/check-runs /commits/{ref}/status /check-runs
/statuses/{sha} /branches /branches/{branch} /git/ref/{ref} /git/refs /git/refs/{ref} /compare/{basehead}
/contents/{path} /merges /merge-upstream /forks
"""
PROSE = frozenset(("examples", "example", "x-github", "externalDocs", "description", "summary", "tags"))
PROSE |= {"x-multi-segment", "deprecated"}
KINDS = ("schemas", "parameters", "responses", "headers")


def prune(description: Json) -> Json:
    names = [REPOSITORY, *(REPOSITORY + name for name in BELOW_REPOSITORY.split()), "/user", "/rate_limit"]
    paths = {name: without_prose(description["paths"][name]) for name in names}
    components = referenced(paths, description["components"])
    for part in (paths, components):
        spell_out_null(part)
    for operation in (operation for path in paths.values() for operation in path.values()):
        describe(operation.get("responses", {}) if isinstance(operation, dict) else {})
    describe(components["responses"])
    info = description["info"]
    return {
        "openapi": description["openapi"],
        "info": {name: info.get(name) for name in ("title", "version", "license")},
        "servers": [{"url": "http://127.0.0.1"}],
        "paths": paths,
        "components": {kind: found for kind, found in components.items() if found},
    }


def without_prose(node: Any, *, keys_are_names: bool = False) -> Any:
    """Drops what no validator reads; a property that is called "description" stays."""
    if isinstance(node, list):
        return [without_prose(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: without_prose(
            value, keys_are_names=key in ("properties", "patternProperties") and not keys_are_names
        )
        for key, value in node.items()
        if keys_are_names or key not in PROSE
    }


def referenced(root: Any, components: Json) -> dict[str, Json]:
    """The components that `root` refers to, directly or through others."""
    kept: dict[str, Json] = {kind: {} for kind in KINDS}
    waiting = [root]
    while waiting:
        for kind, name in references(waiting.pop()):
            if kind in kept and name not in kept[kind]:
                kept[kind][name] = without_prose(components[kind][name])
                waiting.append(kept[kind][name])
    return kept


def references(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, list):
        for one in node:
            yield from references(one)
    elif isinstance(node, dict):
        target = node.get("$ref")
        if isinstance(target, str) and target.startswith("#/components/"):
            kind, _, name = target.removeprefix("#/components/").partition("/")
            yield kind, name
        for one in node.values():
            yield from references(one)


def spell_out_null(node: Any) -> None:
    """openapi-core overlooks `nullable` beside enum, and beside oneOf and anyOf without a type: make null an alternative."""
    if isinstance(node, list):
        for one in node:
            spell_out_null(one)
    elif isinstance(node, dict):
        null = {"type": "object", "nullable": True, "enum": [None]}
        for word in ("oneOf", "anyOf"):
            if node.get("nullable") is True and word in node and "type" not in node:
                node[word] += [] if null in node[word] else [null]
        if node.get("nullable") is True and None not in node.get("enum", [None]):
            node["enum"] = [*node["enum"], None]
        for one in node.values():
            spell_out_null(one)


def describe(responses: Json) -> None:
    """OpenAPI requires the description that without_prose took away."""
    for response in responses.values():
        if "$ref" not in response:
            response.setdefault("description", "-")


def main(source: str, target: str) -> None:
    description = json.loads(Path(source).read_text(encoding="utf-8"))
    text = json.dumps(prune(description), separators=(",", ":"), sort_keys=True)
    Path(target).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
