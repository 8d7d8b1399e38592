"""The law of the house: who may import whom, who may read a clock, how large a file may grow.

Every file is read as a syntax tree, so that the law holds for what no test happens to run. A fault
is told as file:line and the rule that it breaks. To change the law, change its table here, with its
reason; do not work around it.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for top in ("hub", "runner") for path in (ROOT / top).rglob("*.py"))
MAX_LINES = 400
MAX_FUNCTION_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a part of the house may import, beside itself and the standard library.

    `inside` is allowed only within a function: it is what a module's import must not load.
    """

    why: str
    may: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()


SQL = ("sqlmodel", "sqlalchemy")
HTTP = ("starlette",)
GROUND = ("hub.clock", "hub.config", "hub.errors")  # names and values that any part of the server uses

# The longest prefix of a module's name that stands here is its room.
ROOMS = {
    "hub.placement": Room(why="the decision is pure: values in, values out"),
    "hub.chunks": Room(
        why="a leaf that a runner machine carries", may=("blake3", "zstandard", "pyfastcdc", "fastcdc")
    ),
    "hub.carry": Room(
        why="a leaf that a runner machine carries, over HTTP of the standard library",
        may=("hub.chunks", "blake3"),
    ),
    "hub.reports": Room(
        why="a stranger's XML in, bounded values out; pure but for the one file",
        may=("hub.wire", "defusedxml", "junitparser"),
    ),
    "hub.wire": Room(why="a leaf that a runner machine carries", may=("pydantic",)),
    "hub.wire.pipeline_yaml": Room(why="the one reader of YAML", may=("pydantic", "yaml", "hub.wire")),
    "hub.store": Room(
        why="all SQL, and nothing but SQL",
        may=("hub.placement.model", "hub.errors", "hub.assets", *SQL, "aiosqlite", "asyncpg", "alembic"),
    ),
    "hub.dispatch": Room(
        why="the live fleet around placement", may=("hub.placement", "hub.store", "hub.wire", *GROUND)
    ),
    "hub.service": Room(
        why="the use cases; no HTTP",
        may=(
            "pydantic",  # a name in a path is held to the same type as one in a message
            *("hub.placement", "hub.store", "hub.dispatch", "hub.chunks", "hub.wire", "hub.reports"),
            *(*GROUND, "hub.blobs", "hub.logs"),
        ),
    ),
    "hub.api": Room(
        why="JSON over HTTP, and nothing else",
        may=(
            *("hub.service", "hub.wire", *HTTP, "pydantic", *GROUND, "prometheus_client"),
            "hub.chunks",  # bounds of bodies and the type of a framed one, known before a byte is read
            "blake3",  # a body is named while it arrives, so that it is read once
        ),
    ),
    "hub.web": Room(
        why="pages from the same views as the API",
        may=("hub.service", "hub.wire", *HTTP, "jinja2", "markupsafe", *GROUND, "hub.assets"),
    ),
    "hub.cli": Room(
        why="an HTTP client: starts in a fifth of a second on a machine without the server",
        may=(
            "hub.wire",
            "hub.chunks",
            "hub.carry",
            "hub.clock",
            "rich",
            "urllib3",
            "blake3",
            "zstandard",
        ),
    ),
    "hub.cli.admin": Room(
        why="the one command that reaches the server, lazily",
        may=("hub.cli", "hub.wire"),
        inside=("hub.app", "hub.config", "hub.service", "hub.store"),
    ),
    "hub.cli.simulate": Room(
        why="runs the rules itself: pure, on any machine, and lazily",
        may=("hub.cli",),
        inside=("hub.placement",),
    ),
    "hub.cli.replay": Room(
        why="judges by the rules itself, as simulate does: pure, on any machine, and lazily",
        may=("hub.cli",),
        inside=("hub.placement",),
    ),
    "hub.app": Room(why="puts the parts together", may=("hub", "starlette", "uvicorn", "uvloop")),
    "hub.config": Room(why="values only", may=("hub.placement.model",)),
    "hub.blobs": Room(why="bytes in a folder or a bucket", may=("hub.errors", "obstore")),
    "hub.logs": Room(why="bytes in files", may=("hub.errors",)),
    "hub.clock": Room(why="the one clock"),
    "hub.errors": Room(why="the tree of errors", may=("hub.wire",)),
    "hub.assets": Room(why="where templates and migrations stand"),
    "hub": Room(why="holds nothing itself"),
    "runner": Room(
        why="a runner machine carries no database and no web framework",
        may=("hub.wire", "hub.chunks", "hub.carry", "urllib3", "pydantic", "blake3", "zstandard"),
    ),
}
# A wall clock is read in one place; a runner and a command measure on their own machines.
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
MAY_READ_A_CLOCK = ("hub.clock", "hub.cli", "runner")
LONG_FUNCTIONS: dict[str, str] = {}  # "module.function": the reason


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The name of the room that a module stands in."""
    return max((name for name in ROOMS if within(module, name)), key=len)


def within(module: str, name: str) -> bool:
    return module == name or module.startswith(name + ".")


def imports(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """Every module that a file imports, with its line, and whether that is inside a function.

    What stands under `if TYPE_CHECKING` loads nothing, and counts as inside.
    """

    def walk(node: ast.AST, inside: bool) -> Iterator[tuple[str, int, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield alias.name, child.lineno, inside
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"line {child.lineno}: modules are named in full"
                for alias in child.names:
                    yield f"{child.module}.{alias.name}", child.lineno, inside
            else:
                lazy = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or _types_only(child)
                yield from walk(child, inside or lazy)

    yield from walk(tree, False)


def _types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def faults_of_imports(module: str, tree: ast.Module) -> list[str]:
    """What a module imports and may not."""
    name = room_of(module)
    room = ROOMS[name]
    found = []
    for imported, line, inside in imports(tree):
        own = imported.split(".")[0] in sys.stdlib_module_names or within(imported, name)
        allowed = (*room.may, *(room.inside if inside else ()))
        if not own and not any(within(imported, prefix) for prefix in allowed):
            found.append(f"line {line}: {name} may not import {imported} ({room.why})")
    return found


def clock_readings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where a file asks what time it is."""
    words = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name == "time" for alias in node.names):
            yield node.lineno, "import time"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield node.lineno, "from time import"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            words.append((node.lineno, f"{node.value.id}.{node.attr}"))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            words.append((node.lineno, f"{node.value.attr}.{node.attr}"))
    yield from ((line, word) for line, word in words if word in CLOCKS)


def declared(*extras: str) -> set[str]:
    """The distributions that the project asks for: its base, and those of `extras`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [
        *project["dependencies"],
        *(line for extra in extras for line in project["optional-dependencies"][extra]),
    ]
    return {plain(re.split(r"[\[<>=!~; ]", line)[0]) for line in asked}


def plain(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


# Imported, and carried by another that is declared: markupsafe by jinja2.
CARRIED = {"markupsafe"}


def test_what_is_imported_is_declared_where_a_runner_machine_or_a_hub_installs_it() -> None:
    distributions = packages_distributions()
    missing = set()
    for path in FILES:
        module = module_of(path)
        on_any_machine = any(within(module, name) for name in ("runner", "hub.cli", "hub.wire", "hub.chunks"))
        # Whoever chooses the other cutter installs it; the cutter says how.
        has = declared("fastcdc2016") if on_any_machine else declared("hub", "postgres")
        for imported, line, _ in imports(parsed(path)):
            top = imported.split(".")[0]
            if top in sys.stdlib_module_names or top in ("hub", "runner") or top in CARRIED:
                continue
            if not {plain(name) for name in distributions.get(top, [top])} & has:
                missing.add(f"{path.relative_to(ROOT)}:{line}: {top}")
    assert sorted(missing) == []


@pytest.fixture(params=FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def test_a_file_imports_only_what_its_room_may(path: Path) -> None:
    assert faults_of_imports(module_of(path), parsed(path)) == []


def test_a_file_reads_no_clock_unless_it_is_the_clock(path: Path) -> None:
    module = module_of(path)
    if not any(within(module, name) for name in MAY_READ_A_CLOCK):
        assert list(clock_readings(parsed(path))) == []


def test_a_file_says_what_it_is(path: Path) -> None:
    tree = parsed(path)
    assert ast.get_docstring(tree) or not tree.body, "a module has a docstring: what it is, and its invariant"


def test_a_file_and_its_functions_can_be_read_at_once(path: Path) -> None:
    tree = parsed(path)
    assert len(path.read_text().splitlines()) <= MAX_LINES
    long = [
        f"line {node.lineno}: {node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES
        and f"{module_of(path)}.{node.name}" not in LONG_FUNCTIONS
    ]
    assert long == []


@pytest.mark.parametrize("module", ["runner", "runner.agent", "hub.cli.main", "hub.wire.claim"])
def test_a_runner_and_the_command_line_load_no_database_and_no_web_framework(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"sqlmodel", "sqlalchemy", "starlette", "jinja2", "uvicorn", "yaml"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "code", "words"),
    [
        ("hub.placement.fit", "import asyncpg", "line 1: hub.placement may not import asyncpg"),
        ("hub.placement.fit", "from hub.store import jobs", "may not import hub.store.jobs"),
        ("hub.dispatch.queue", "from hub.service import runs", "may not import hub.service.runs"),
        ("hub.cli.runs", "def run():\n    import hub.app", "line 2: hub.cli may not import hub.app"),
        ("hub.cli.admin", "import hub.app", "may not import hub.app"),
        ("hub.cli.simulate", "import hub.placement", "may not import hub.placement"),
        ("runner.agent", "from hub import store", "may not import hub.store"),
        ("hub.service.runs", "import runner", "may not import runner"),
    ],
)
def test_the_law_finds_what_breaks_it(module: str, code: str, words: str) -> None:
    (fault,) = faults_of_imports(module, ast.parse(code))
    assert words in fault


def test_the_law_lets_pass_what_keeps_it() -> None:
    lazy = ast.parse("from hub.wire import runs\ndef hub():\n    from hub.app import serve\n")
    assert faults_of_imports("hub.cli.admin", lazy) == []
    assert faults_of_imports("hub.store.jobs", ast.parse("from hub.placement.model import Demand")) == []


@pytest.mark.parametrize(
    "code", ["import time", "from time import monotonic", "datetime.now()", "datetime.datetime.now()"]
)
def test_the_law_finds_a_clock_that_is_read(code: str) -> None:
    assert list(clock_readings(ast.parse(code)))
