"""The reference page: well formed, nothing loaded, every method and path on it, and no text that becomes markup."""

from dataclasses import replace
from html.parser import HTMLParser

from actors.documents import reference
from actors.errors import Err

from .service import served, the_offer

PAGE = reference.page(the_offer())
_VOID = {"meta", "link"}


class Tags(HTMLParser):
    """Every tag with its attributes; `open` is empty at the end of a page that closes what it opens."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_it_closes_what_it_opens_and_loads_nothing() -> None:
    """Served offline: no script, no remote style, font or picture."""
    tags = Tags(PAGE)
    assert tags.open == [] and "script" not in {tag for tag, _ in tags.seen}
    sources = [value for tag, attributes in tags.seen for name, value in attributes.items() if name in ("src", "href")]
    assert all(value is not None and value.startswith(("#", "/", "data:,")) for value in sources)
    assert "url(" not in PAGE and "@import" not in PAGE
    assert not any(name.startswith("on") for _, attributes in tags.seen for name in attributes)


def test_links_of_the_page_lead_to_its_parts() -> None:
    """Ids are there, and each is there once."""
    tags = Tags(PAGE)
    ids = [attributes["id"] for _, attributes in tags.seen if "id" in attributes]
    links = [attributes["href"] for _, attributes in tags.seen if str(attributes.get("href")).startswith("#")]
    assert len(set(ids)) == len(ids) and {str(link)[1:] for link in links} <= set(ids)


def test_every_method_path_and_error_is_on_it() -> None:
    """The page is made of the same tables as the documents for machines."""
    for name in (*served(), *(method.row.name for method in the_offer().methods), *(err.name for err in Err)):
        assert f"<code>{name}</code>" in PAGE, name


def test_both_colour_schemes_and_small_screens_are_thought_of() -> None:
    """By the page's own style."""
    assert "prefers-color-scheme:dark" in PAGE and 'name="viewport"' in PAGE and "max-width:30rem" in PAGE
    assert '<html lang="en">' in PAGE and 'class="skip"' in PAGE


def test_no_text_becomes_markup() -> None:
    """The public URL is the operator's, and could be anything."""
    hostile = reference.page(replace(the_offer(), public_url='https://x/"><script>alert(1)</script>'))
    assert "<script" not in hostile and "&lt;script&gt;" in hostile
