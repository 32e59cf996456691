"""The console's document: what it may run, and that it needs nothing from elsewhere."""

import base64
import hashlib
import re

import pytest

from actors.console.document import ConsoleDocument, console_document
from actors.console.endpoints import read_document, read_operator_document

BOTH = pytest.mark.parametrize("document", [read_document(), read_operator_document()], ids=["console", "operator"])
PAGE = "<html><!-- style --><body></body><!-- script --></html>"


def policy(headers: tuple[tuple[str, str], ...]) -> dict[str, str]:
    parts = (part.partition(" ") for part in dict(headers)["content-security-policy"].split("; "))
    return {name: value for name, _, value in parts}


@BOTH
def test_only_the_pages_own_script_and_style_run(document: ConsoleDocument) -> None:
    """Strict Content-Security-Policy: by hash, with no exception, and nothing may frame the page."""
    text, rules = document.body.decode(), policy(document.headers)
    for tag, name in (("style", "style-src"), ('script type="module"', "script-src")):
        ((inside),) = re.findall(rf"<{tag}>(.*?)</{tag.split()[0]}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert text.count("<script") == text.count("<style") == 1
    assert (rules["default-src"], rules["connect-src"], rules["frame-ancestors"]) == ("'none'", "'self'", "'none'")
    assert (rules["base-uri"], rules["form-action"]) == ("'none'", "'none'")
    assert (rules["require-trusted-types-for"], rules["trusted-types"]) == ("'script'", "'none'")
    assert not any(word in " ".join(rules.values()) for word in ("unsafe", "*", "http:", "https:"))
    assert dict(document.headers)["x-frame-options"] == "DENY"


@BOTH
def test_the_page_loads_nothing_and_makes_no_html_of_text(document: ConsoleDocument) -> None:
    """No address of another host but in examples and placeholders, no handler in an attribute, no function that takes
    HTML: a name that comes from the chain or from a webhook's endpoint can only be text."""
    text = document.body.decode()
    own = r"/(?:docs(?:#account)?|llms\.txt|pricing|capabilities|health|console|operator)\""
    assert re.findall(rf"(?:src|href)=[\"'](?!#|{own}|data:)[^\"']*", text) == []
    assert set(re.findall(r"https?://[\w.-]+", text)) == {"http://www.w3.org", "https://example.com"}, text[:80]
    assert re.findall(r"<[^>]*\s(?:on\w+|style)=[\"']", text.partition("<script")[0]) == []
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc|DOMParser|javascript:"
    assert re.findall(sinks, text) == []
    assert "localStorage" not in text and "document.cookie" not in text


@BOTH
def test_every_field_has_a_label(document: ConsoleDocument) -> None:
    """By keyboard and by screen reader: a field that nobody names cannot be filled."""
    text = document.body.decode()
    fields = set(re.findall(r"<(?:input|select|textarea) id=\"([\w-]+)\"", text))
    assert fields and fields == set(re.findall(r"<label[^>]* for=\"([\w-]+)\"", text))


@pytest.mark.parametrize(("style", "script"), [("</style><b>", ""), ("", "'</script>'"), ("", "'<!--'")])
def test_a_text_that_would_end_its_element_is_refused(style: str, script: str) -> None:
    with pytest.raises(AssertionError):
        console_document(PAGE, style, [script])
