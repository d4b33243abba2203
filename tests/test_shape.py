"""The laws of ARCHITECTURE.md, as far as the source can show that they are kept."""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("autoforge", "git_workflow", "db", "prompts")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
OURS = [path for path in SOURCES if "migrations/" not in path.as_posix()]  # Alembic runs those

LINES, ORCHESTRATOR_LINES, FUNCTION_LINES = 300, 150, 40

IMPORTERS = {
    "typer": ("autoforge/cli.py", "autoforge/commands/"),
    "claude_agent_sdk": ("autoforge/agent/",),
    "psutil": ("autoforge/process.py",),
    "git": ("git_workflow/command.py",),
    "github": ("git_workflow/github.py",),
    "sqlalchemy": ("db/",),
    "alembic": ("db/",),
    "rich": ("autoforge/progress/", "autoforge/commands/", "autoforge/demo/"),
    "starlette": ("autoforge/demo/",),
    "uvicorn": ("autoforge/demo/",),
    "jinja2": ("prompts/",),
    "pydantic": ("autoforge/settings.py",),
    "pydantic_settings": ("autoforge/settings.py",),
    "tree_sitter": ("autoforge/agent/",),
    "psycopg": ("db/",),
    "platformdirs": ("autoforge/registry.py",),
}
BELOW = {"git_workflow": {"db", "autoforge", "prompts"}, "db": {"git_workflow", "autoforge", "prompts"}}
BELOW["prompts"] = {"git_workflow", "db", "autoforge"}
CATCH_ALL = {"autoforge/attempt.py", "autoforge/agent/tools.py", "autoforge/cli.py"}
FORBIDDEN_WORDS = ("manager", "service", "helper", "utils")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported(path: Path, modules: Collection[str]) -> Iterator[str]:
    """The modules of ours that it imports: `from package import module` is the module, not the package."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield from {full if full in modules else node.module or ""} & set(modules)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_a_file_and_its_functions_stay_small(path: Path) -> None:
    limit = ORCHESTRATOR_LINES if path.name == "orchestrator.py" else LINES
    assert len(path.read_text("utf-8").splitlines()) <= limit
    for function in functions(path):
        body = function.body[1:] if ast.get_docstring(function) else function.body
        if body and function.end_lineno:
            assert function.end_lineno - body[0].lineno + 1 <= FUNCTION_LINES, function.name


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_each_library_has_its_importers(path: Path) -> None:
    for module in imports(path):
        allowed = IMPORTERS.get(module.partition(".")[0])
        assert allowed is None or name_of(path).startswith(allowed), module


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_lower_rooms_import_nothing_from_above(path: Path) -> None:
    room = name_of(path).partition("/")[0]
    for module in imports(path):
        assert module.partition(".")[0] not in BELOW.get(room, set()), module


def test_imports_have_no_cycles() -> None:
    modules = {name_of(p).removesuffix(".py").removesuffix("/__init__").replace("/", "."): p for p in SOURCES}
    graph = {name: set(imported(path, modules)) - {name} for name, path in modules.items()}
    done: set[str] = set()
    while free := {name for name, needs in graph.items() if name not in done and needs <= done}:
        done |= free
    assert set(graph) - done == set()


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_only_three_places_catch_everything(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else ""
            broad = node.type is None or caught in ("Exception", "BaseException")
            assert not broad or name_of(path) in CATCH_ALL, f"line {node.lineno}"


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_only_settings_reads_the_environment_and_nothing_prints(path: Path) -> None:
    may_read = name_of(path) in ("autoforge/settings.py", "autoforge/cli.py", "autoforge/agent/tree_guard.py")
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
            assert may_read or ast.unparse(node).startswith("process."), f"line {node.lineno}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print" or name_of(path) == "autoforge/agent/tree_guard.py", (
                f"line {node.lineno}"
            )


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_modules_say_what_they_are_and_hold_no_state(path: Path) -> None:
    module = tree(path)
    assert ast.get_docstring(module), "a module says in one sentence what it is"
    for function in functions(path):
        assert not any(isinstance(node, ast.Global) for node in ast.walk(function)), function.name
    for node in module.body:
        if isinstance(node, ast.Expr):
            assert isinstance(node.value, ast.Constant), f"line {node.lineno} runs at import"


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_names_say_what_a_thing_is(path: Path) -> None:
    names = [
        path.stem,
        *(n.name for n in ast.walk(tree(path)) if isinstance(n, ast.ClassDef | ast.FunctionDef)),
    ]
    assert [n for n in names if any(word in n.lower() for word in FORBIDDEN_WORDS)] == []


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_more_than_three_parameters_are_named(path: Path) -> None:
    if name_of(path).startswith(("autoforge/commands/", "autoforge/cli.py")):
        return  # typer's options
    for function in functions(path):
        positional = [a.arg for a in function.args.args if a.arg not in ("self", "cls")]
        overrides = any("override" in ast.unparse(d) for d in function.decorator_list)
        assert len(positional) <= 5 or overrides, f"{function.name}: {positional}"


def test_help_imports_no_heavy_library() -> None:
    heavy = ("claude_agent_sdk", "git", "github", "sqlalchemy", "alembic", "starlette", "uvicorn")
    code = (
        "import sys\n"
        "from autoforge import cli, settings\n"
        "try: cli.app()(['build', '--help'], obj=settings.take({}))\n"
        "except SystemExit: pass\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
