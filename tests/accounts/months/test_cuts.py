"""What a listing is told behind a cut: since when entries are kept, or a refusal that says so."""

from typing import cast

from actors.accounts.listings import LedgerFilter
from actors.accounts.months.carried import Carried
from actors.accounts.months.cuts import kept_for
from actors.errors import Err, Refusal
from tests.accounts.making import ALICE, BOB
from tests.accounts.memory_cuts import MemoryCuts
from tests.accounts.months.world import NOVEMBER

CUT = NOVEMBER.next_ms


async def test_only_what_asks_for_detached_entries_is_refused() -> None:
    """Times and places before the cut, and operations of before; never a listing that found something and began
    behind."""
    cuts = MemoryCuts()
    assert await kept_for(cuts, ALICE, LedgerFilter(from_ms=0), True) == 0
    cuts.kept_from = CUT
    cuts.debited = {b"old": CUT - 1, b"new": CUT}
    cuts.carry[ALICE] = cast(Carried, object())
    for wanted, is_empty in (
        (LedgerFilter(), True),
        (LedgerFilter(), False),
        (LedgerFilter(from_ms=CUT), True),
        (LedgerFilter(to_ms=CUT + 1), True),
        (LedgerFilter(before=(CUT, 5)), True),
        (LedgerFilter(operation=b"new"), True),
        (LedgerFilter(operation=b"none"), True),
        (LedgerFilter(operation=b"old"), False),
    ):
        assert await kept_for(cuts, ALICE, wanted, is_empty) == CUT, wanted
    for wanted, is_empty in (
        (LedgerFilter(from_ms=CUT - 1), False),
        (LedgerFilter(to_ms=CUT), True),
        (LedgerFilter(before=(CUT - 1, 5)), True),
        (LedgerFilter(operation=b"old"), True),
    ):
        refusal = await kept_for(cuts, ALICE, wanted, is_empty)
        assert isinstance(refusal, Refusal) and refusal.err is Err.MONTH_DETACHED, wanted
        assert refusal.detail.startswith("entries are kept here from 2023-12-01T00:00:00Z on; the operator")


async def test_an_account_that_had_no_entries_then_is_told_of_no_operation_of_others() -> None:
    """Its own it cannot be. It was told 410 for the operations of all accounts, and 404 for those that never were."""
    cuts = MemoryCuts()
    cuts.kept_from, cuts.debited = CUT, {b"of alice": CUT - 1}
    cuts.carry[ALICE] = cast(Carried, object())
    assert isinstance(await kept_for(cuts, ALICE, LedgerFilter(operation=b"of alice"), True), Refusal)
    assert await kept_for(cuts, BOB, LedgerFilter(operation=b"of alice"), True) == CUT
