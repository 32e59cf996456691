"""docs/differences.md: its tables are the rows of differences.py, and each row is so here."""

import pytest
from solders.pubkey import Pubkey

from tests.ported_node import PortedNode

from .differences import PAGE, ROWS, Wallet, written
from .scene import Scene
from .tokens import metadata_account, place_metadata


def test_the_page_has_the_rows_of_today():
    """`python -m tests.lookups.differences` writes it."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page)
    assert all(str(row) in page for row in ROWS)


@pytest.fixture
def wallet(scene: Scene) -> Wallet:
    nft, fungible = scene.mint(0), scene.mint(6)
    place_metadata(scene, nft, metadata_account(nft, "One", "ONE", "https://x/1.json", scene.anna.pubkey(), standard=0))
    scene.holds(scene.bert, nft, 1)
    scene.holds(scene.bert, fungible, 1_000)
    owner = str(scene.bert.pubkey())
    return Wallet(PortedNode(scene.local), owner, str(nft), str(fungible), str(Pubkey.new_unique()))


async def test_each_row_is_as_it_says(wallet: Wallet):
    """What this service does, row by row; one chain for all."""
    for row in ROWS:
        try:
            await row.proof(wallet)
        except AssertionError as fault:
            raise AssertionError(f"{row.provider}: {row.method}, {row.what}") from fault
