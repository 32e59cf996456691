"""All pages of operators: none of them is open, and no document for customers names one."""

import pytest

from actors.config import Config
from actors.operator_config import OperatorConfig
from tests.operators.world import operated


async def test_every_page_below_operator_takes_the_token_and_nothing_else() -> None:
    """Only the HTML page itself is public: it has no secret and no figure."""
    async with operated() as one:
        pages = one.world.door._pages._table.pages
        assert [page.path for page in pages if page.is_public] == ["/operator"]
        assert {page.for_operators for page in pages if not page.is_public} == {True}
        shown = await one.world.http.get("/operator")
        assert shown.status_code == 200 and "operator.js" not in shown.text
        assert shown.headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha256-")


@pytest.mark.parametrize("enabled", [True, False])
def test_a_setting_switches_all_of_it_off(enabled: bool) -> None:
    config = Config(operator=OperatorConfig(enabled=enabled))
    from actors.launch.assembly import operating  # Its wiring needs no cluster until a page is asked.

    class NoOwner: ...

    pages = operating.assemble_operators(config, NoOwner(), NoOwner(), NoOwner())  # type: ignore[arg-type]
    assert bool(pages) is enabled
