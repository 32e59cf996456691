"""Citations in code and pages lead to a place in docs/ that exists."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import ROOT, files, over

DOCS = ROOT / "docs"
PLACES = (
    *("*.md", "*.py", "*.toml", "*.yaml", "actors/**/*.py", "actors/**/*.md", "actors/**/*.sql", "devnode/**/*.py"),
    *("devnode/**/*.md", "ledger_gateway/**/*.py", "ledger_gateway/**/*.md", "tests/**/*.py", "tests/**/*.md"),
    *("bench/**/*.py", "bench/**/*.md"),
)
CITING = tuple(path for path in sorted(set(files(*PLACES))) if path != Path(__file__))
_JOINED = re.compile(r"\n[ \t]*(?:#|--)?[ \t]*")  # The end of a line within a comment or a docstring.
_QUOTED = r'"([^"]{1,80})"'
_PAGES = re.compile(rf"\b([Ii]nterface|[Dd]ecisions|[Dd]esign|[Ss]tyle),? {_QUOTED}((?:(?:,? and|,|:) {_QUOTED})*)")
_NUMBERED = re.compile(r"\b([Mm]oney rule|[Tt]hreat)s? (\d+(?:(?:,| and|, and| to) \d+)*)")
# Texts that stand elsewhere than in this repository, and the ways in which older comments named them.
_ELSEWHERE = re.compile(
    r"\b[Hh]ostile (?:input|row)s?\b|\binterface specification\b|\b[Dd]ecisions,? \d|\b[Dd]ecisions, section"
    r"|\b[Dd]esign, section|\b[Hh]ouse (?:style|rules)\b"
    r"|\bfacts? (?:of|on|about) the (?:launch platform|block engine|TPU)"
)


def joined(path: Path) -> str:
    return _JOINED.sub(" ", path.read_text(encoding="utf-8"))


def anchors(page: Path) -> str:
    """The beginnings of headings, paragraphs, list items and table cells of a page, one a line, without backticks."""
    lines = []
    for line in page.read_text(encoding="utf-8").replace("`", "").split("\n"):
        lines += [cell.strip() for cell in line.lstrip("#-0123456789. ").split("|")]
    return "\n".join(lines)


def has(page: str, name: str) -> bool:
    return re.search(rf"^{re.escape(name.replace('`', ''))}(?!\w)", page, re.MULTILINE) is not None


PAGES = {name: anchors(DOCS / f"{name}.md") for name in ("interface", "design", "style")}
PAGES["decisions"] = "\n".join(
    path.read_text(encoding="utf-8").split("\n")[0].removeprefix("# ").replace("`", "")
    for path in sorted((DOCS / "decisions").glob("*.md"))
)
NUMBERS = {
    name: set(re.findall(r"^\| (\d+) \|", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE))
    for name, page in (("money rule", "decisions/money-rules.md"), ("threat", "threats.md"))
}


def citations(text: str) -> Iterator[tuple[str, str]]:
    """Each cited page with the cited name or number: ("interface", "Limits"), ("threat", "57")."""
    for found in _PAGES.finditer(text):
        for name in re.findall(_QUOTED, found.group(0)):
            yield found.group(1).lower(), name
    for found in _NUMBERED.finditer(text):
        for number in re.findall(r"\d+", found.group(2)):
            yield found.group(1).lower(), number


def broken(text: str) -> list[str]:
    lost = []
    for page, name in citations(text):
        there = name in NUMBERS[page] if page in NUMBERS else has(PAGES[page], name)
        if not there:
            lost.append(f"{page} has no {name!r}")
    return lost


@over(CITING)
def test_each_citation_leads_somewhere(path: Path) -> None:
    """A reader who follows a comment finds the text that it names."""
    assert broken(joined(path)) == []


@over(CITING)
def test_no_text_outside_the_repository_is_cited(path: Path) -> None:
    """Whoever takes over the project has nothing but the repository."""
    found = _ELSEWHERE.search(joined(path))
    assert found is None, f"{found.group()!r}: cite docs/"


def test_the_rule_finds_what_it_is_for() -> None:
    """A rule that never says no guards nothing."""
    assert broken('Implements: interface, "Limits" and "Bulk endpoints"; threats 7, 8 and 57; money rule 4.') == []
    assert broken('Implements: interface, "No such thing".') and broken("Threat 5700.")
    assert broken("money rules 1 and 99") == ["money rule has no '99'"]
    assert broken('decisions, "one signal", "no such decision"') == ["decisions has no 'no such decision'"]


def test_each_decision_is_listed_and_dated() -> None:
    """docs/decisions/README.md is the list; a page without context, decision and consequence decides nothing."""
    index = (DOCS / "decisions/README.md").read_text(encoding="utf-8")
    for path in sorted((DOCS / "decisions").glob("*.md")):
        if path.name == "README.md":
            continue
        text = path.read_text(encoding="utf-8")
        assert f"]({path.name})" in index, path.name
        assert re.search(r"^Decided on \d{4}-\d\d-\d\d\.", text, re.MULTILINE), path.name
        if path.name != "money-rules.md":
            assert re.findall(r"^## (\w+)", text, re.MULTILINE) == ["Context", "Decision", "Consequence"], path.name
