"""GET /console: the page for people, who sign in with an API key; GET /operator: the page of operators; and files that
browsers and robots request.

Implements: README.md. A shell: it reads the page's files once, when a replica starts.
"""

from functools import partial
from importlib import resources

from actors.console.document import ConsoleDocument, console_document
from actors.pages import Handler, Page, PageAnswer, PageRequest

PATH = "/console"
OPERATOR_PATH = "/operator"
# In this order, because they share one module: each uses the ones before it.
_SCRIPTS = (
    *("text", "gateway", "chart", "usage", "ledger", "calls", "log", "sends", "webhooks", "signals", "service"),
    *("wallet", "keys", "hourly", "console"),
)
_FILE_HEADERS = (("cache-control", "public, max-age=86400"), ("x-content-type-options", "nosniff"))


# For the operators' page: the same tools, with its own views.
_OPERATOR_SCRIPTS = (
    *("text", "gateway", "operator_gateway", "operator_alerts", "operator_accounts", "operator_deposits"),
    *("operator_nodes", "operator_owners", "operator"),
)


class OperatorPage:
    """The document has no secret and no figure: its script asks for them with the operator's token."""

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
        """Return the console, and the files requested at the root of every site."""
        return [
            Page("GET", PATH, self._show, is_public=True, is_limited=False),
            Page("GET", "/robots.txt", _file("robots.txt", "text/plain"), is_public=True, is_limited=False),
            Page("GET", "/favicon.ico", _file("favicon.ico", "image/x-icon"), is_public=True, is_limited=False),
            Page("GET", "/favicon.svg", _file("favicon.svg", "image/svg+xml"), is_public=True, is_limited=False),
        ]

    async def _show(self, request: PageRequest) -> PageAnswer:
        return PageAnswer(self._document.body, 200, "text/html; charset=utf-8", self._document.headers)


def _file(name: str, content_type: str) -> Handler:
    body = (resources.files("actors.console") / "static" / name).read_bytes()
    return partial(_give, PageAnswer(body, 200, content_type, _FILE_HEADERS))


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

    return console_document(
        text("head.html") + text(page), text("console.css"), [text(f"{name}.js") for name in scripts]
    )
