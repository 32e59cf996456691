"""GET /console: the page for people, who sign in with an API key.

Implements: README.md. A shell: it reads the page's files once, when a replica starts.
"""

from importlib import resources

from actors.console.document import ConsoleDocument, console_document
from actors.pages import Page, PageAnswer, PageRequest

PATH = "/console"
# In this order, as they share one module: each uses what stands above it.
_SCRIPTS = (
    *("text", "gateway", "chart", "usage", "ledger", "calls", "log", "sends", "webhooks", "signals", "service"),
    *("wallet", "keys", "console"),
)


class ConsolePage:
    def __init__(self) -> None:
        self._document = read_document()

    def pages(self) -> list[Page]:
        return [Page("GET", PATH, self._show, is_public=True, is_limited=False)]

    async def _show(self, request: PageRequest) -> PageAnswer:
        return PageAnswer(self._document.body, 200, "text/html; charset=utf-8", self._document.headers)


def read_document() -> ConsoleDocument:
    folder = resources.files("actors.console") / "static"

    def text(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    return console_document(text("console.html"), text("console.css"), [text(f"{name}.js") for name in _SCRIPTS])
