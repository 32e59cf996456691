"""Pure files touch nothing, and time and the environment are read in one place each."""

import ast

from tests.tidy.sources import Source, embedded_chain, imports, over, product

# Modules that wait, act, or are different every time.
IMPURE = {
    *("asyncio", "concurrent", "multiprocessing", "threading", "subprocess", "signal", "socket", "select", "ssl"),
    *("time", "random", "secrets", "uuid", "os", "shutil", "tempfile", "urllib.request", "http.client", "sqlite3"),
    *("ray", "asyncpg", "redis", "aiohttp", "httpx", "websockets", "starlette", "uvicorn", "grpc", "psutil"),
    *("actors.clock", "actors.hosting", "actors.hotlink"),
    *("actors.http_server.answering", "actors.http_server.choice", "actors.http_server.exchange"),
    "actors.http_server.server",
    "actors.local_servers",
    *(f"actors.storage.{name}" for name in ("connections", "migrating", "running_releases", "schema")),
}
# Shared files without rules of their own to protect them: vocabulary.
PURE_SHARED = {"addresses", "units", "errors", "x402_types", "calls", "catalog", "method_requests", "events"}
# The rules of a context live here, whatever the docstring says.
PURE_NAMES = {
    *("core", "credits", "nonces", "referrals", "ledger", "account"),
    *("wallet", "signatures", "challenge"),
    *("outcomes", "jsonrpc", "params", "headers", "replies", "transfers", "filters", "classify", "programs", "signing"),
}
CLOCKS = {"actors/clock.py"}
# Wiring reads the environment once and hands it down.
ENVIRONMENT = {"serve_app.py", "actors/launch/", "devnode/__main__.py"}
NOW_CALLS = {"now", "utcnow", "today"}


def is_pure(source: Source) -> bool:
    if source.path.startswith("actors/") and source.path.count("/") == 1:
        return source.stem in PURE_SHARED
    return source.stem in PURE_NAMES or "\nPure" in source.docstring or ". Pure" in source.docstring


SUBJECTS = (*product(), *embedded_chain())
PURE = tuple(source for source in SUBJECTS if is_pure(source))


@over(PURE)
def test_pure_files_import_nothing_that_acts(source: Source) -> None:
    """Style, "Pure core": synchronous code that takes time as an argument and touches nothing."""
    for name in imports(source):
        assert not any(name == banned or name.startswith(f"{banned}.") for banned in IMPURE), name


@over(PURE)
def test_pure_files_wait_for_nothing(source: Source) -> None:
    """An await in a rule is a place where another message could see half of it."""
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    # A Protocol may describe what a shell waits for; a rule may not.
    ports = {id(inner) for node in ast.walk(source.tree) if _is_protocol(node) for inner in ast.walk(node)}
    lines = [node.lineno for node in ast.walk(source.tree) if isinstance(node, waiting) and id(node) not in ports]
    assert lines == []


def _is_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases
    )


def test_there_are_pure_files() -> None:
    """If the rule above lost its subjects, nothing else would tell."""
    assert {"actors/accounts/core.py", "actors/accounts/credits.py", "actors/methods/catalog.py"} <= {
        s.path for s in PURE
    }


@over(SUBJECTS)
def test_time_is_read_in_one_place(source: Source) -> None:
    """Style, "Pure core": time is an argument; a test that moves the clock must move all of it."""
    if source.path in CLOCKS:
        return
    found = [f"line {node.lineno}" for node in ast.walk(source.tree) if _reads_time(node)]
    assert found == []


def _reads_time(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == "time" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module == "time"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in NOW_CALLS:
        owner = node.func.value
        return isinstance(owner, ast.Name) and owner.id in ("datetime", "date")
    return False


@over(SUBJECTS)
def test_the_environment_is_read_by_wiring_alone(source: Source) -> None:
    """Style, "Configuration": one tree, built once, passed down; nothing else reads the environment."""
    if any(source.path.startswith(allowed) for allowed in ENVIRONMENT):
        return
    found = [
        f"line {node.lineno}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        and node.attr in ("environ", "environb", "getenv", "putenv", "unsetenv")
    ]
    assert found == []


@over(SUBJECTS)
def test_no_bare_except(source: Source) -> None:
    """Style, "Errors": a failure is caught where it is understood."""
    found = [n.lineno for n in ast.walk(source.tree) if isinstance(n, ast.ExceptHandler) and n.type is None]
    assert found == []
