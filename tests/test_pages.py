"""What a page may be: mistakes of a context show when it is built, not when a client asks."""

import pytest

from actors.pages import Page, PageAnswer, PageRequest, json_answer


async def nothing(request: PageRequest) -> PageAnswer:
    raise AssertionError("never asked")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("TRACE", "/a"), ("get", "/a"), ("GET", "a"), ("GET", "/"), ("GET", "/a/"), ("GET", "//a"), ("GET", "/a b")),
        *(("GET", "/{}"), ("GET", "/{Id}"), ("GET", "/a{id}"), ("GET", "/%61")),
    ],
)
def test_a_page_has_one_method_and_one_canonical_pattern(method, path):
    """Threat 6: no path has a second spelling."""
    with pytest.raises(AssertionError):
        Page(method, path, nothing)


def test_the_list_of_endpoints_shows_the_pattern():
    assert Page("DELETE", "/webhooks/{id}", nothing).endpoint == "DELETE /webhooks/{id}"


def test_an_error_page_is_json():
    """The front replaces error pages of other types by its own."""
    with pytest.raises(AssertionError):
        PageAnswer(b"<p>", 404, "text/html")
    assert json_answer({"a": 1}, 201) == PageAnswer(b'{"a":1}', 201)


def test_a_public_page_has_no_account():
    """A handler that needs the account fails loudly where its page was declared public."""
    with pytest.raises(AssertionError):
        _ = PageRequest(None).account
    assert PageRequest(b"k" * 32).account == b"k" * 32
