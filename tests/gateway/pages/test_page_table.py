import pytest

from actors.gateway.pages.page_table import PageTable
from actors.pages import Page, PageAnswer, PageRequest


async def nothing(request: PageRequest) -> PageAnswer:
    raise AssertionError("never asked")


def table(*endpoints: str) -> PageTable:
    return PageTable([Page(*endpoint.split(" "), nothing) for endpoint in endpoints], [b"/account/info"])


HOOKS = table("GET /hooks", "POST /hooks", "DELETE /hooks/{id}", "POST /hooks/{id}/test", "GET /hooks/recent")


@pytest.mark.parametrize(
    ("path", "methods", "parameters"),
    [
        (b"/hooks", "GET, POST", {}),
        (b"/hooks/wh_1-a.b~C", "DELETE", {"id": "wh_1-a.b~C"}),
        (b"/hooks/recent", "GET", {}),
        (b"/hooks/x/test", "POST", {"id": "x"}),
    ],
)
def test_a_path_finds_its_pages(path, methods, parameters):
    """A path without parameters goes before a pattern."""
    found = HOOKS.find(path)
    assert (found.methods, found.parameters) == (methods, parameters)


@pytest.mark.parametrize(
    "path",
    [
        *(b"", b"/", b"/hook", b"/hooks/", b"//hooks", b"/Hooks", b"/hooks/%61", b"/hooks/a/", b"/hooks//test"),
        *(b"/hooks/a/test/", b"/hooks/a/Test", b"/hooks/" + b"a" * 129, b"/hooks/a\n", b"/hooks/\xc3\xa9", b"/" * 9999),
    ],
)
def test_other_spellings_are_no_paths(path):
    """Threat 6: bytes are compared; a parameter is one segment of plain characters."""
    assert HOOKS.find(path) is None


@pytest.mark.parametrize(
    "endpoints",
    [
        ("GET /a", "GET /a"),
        ("GET /{x}/b", "GET /a/{y}"),
        ("GET /a/{x}", "POST /a/{y}"),
        ("GET /account/info",),
    ],
)
def test_no_page_hides_another(endpoints):
    """Two contexts that want one path are told when the replica starts."""
    with pytest.raises(AssertionError):
        table(*endpoints)
