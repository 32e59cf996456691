"""GET /console: the page for people, who sign in with an API key; GET /operator: the page of operators; and the files
that browsers and robots look for.

Implements: README.md. A shell: it reads the page's files once, when a replica starts.
"""

from functools import partial
from importlib import resources

from actors.console.document import ConsoleDocument, console_document
from actors.pages import Page, PageAnswer, PageRequest

PATH, OPERATOR_PATH = "/console", "/operator"
# In this order, as they share one module: each uses what stands above it.
_SCRIPTS = (
    *("text", "gateway", "chart", "usage", "ledger", "calls", "log", "sends", "webhooks", "signals", "service"),
    *("wallet", "keys", "hourly", "console"),
)
# Asked for at the root of every site, by name.
_FILES = {"/robots.txt": "text/plain; charset=utf-8", "/favicon.ico": "image/x-icon", "/favicon.svg": "image/svg+xml"}
_FILE_HEADERS = (("cache-control", "public, max-age=86400"), ("x-content-type-options", "nosniff"))


# Of the operators' page: the same tools, and views of its own.
_OPERATOR_SCRIPTS = (
    *("text", "gateway", "operator_gateway", "operator_alerts", "operator_accounts", "operator_deposits"),
    *("operator_nodes", "operator_owners", "operator"),
)


class OperatorPage:
    """It has no secret and no figure: what it shows, it asks for with the operator's token."""

    def __init__(self) -> None:
        self._document = read_operator_document()

    def pages(self) -> list[Page]:
        return [Page("GET", OPERATOR_PATH, self._show, is_public=True, is_limited=False)]

    async def _show(self, request: PageRequest) -> PageAnswer:
        return PageAnswer(self._document.body, 200, "text/html; charset=utf-8", self._document.headers)


class ConsolePage:
    def __init__(self) -> None:
        self._document = read_document()

    def pages(self) -> list[Page]:
        console = Page("GET", PATH, self._show, is_public=True, is_limited=False)
        return [console, *(_file(path, content_type) for path, content_type in _FILES.items())]

    async def _show(self, request: PageRequest) -> PageAnswer:
        return PageAnswer(self._document.body, 200, "text/html; charset=utf-8", self._document.headers)


def _file(path: str, content_type: str) -> Page:
    body = (resources.files("actors.console") / "static" / path[1:]).read_bytes()
    return Page(
        "GET",
        path,
        partial(_give, PageAnswer(body, 200, content_type, _FILE_HEADERS)),
        is_public=True,
        is_limited=False,
    )


async def _give(answer: PageAnswer, request: PageRequest) -> PageAnswer:
    return answer


def read_document() -> ConsoleDocument:
    return _joined("console.html", _SCRIPTS)


def read_operator_document() -> ConsoleDocument:
    return _joined("operator.html", _OPERATOR_SCRIPTS)


def _joined(page: str, scripts: tuple[str, ...]) -> ConsoleDocument:
    folder = resources.files("actors.console") / "static"

    def text(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    return console_document(text(page), text("console.css"), [text(f"{name}.js") for name in scripts])
