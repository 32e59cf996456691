"""Named keys with budgets of all sizes, up to five levels deep, in the simulation of test_simulation.py.

An auditor reads the ledger alone, entry by entry, and knows the budgets: at no entry has a key, with all keys that were
made from it, spent one credit more than it may. A failing seed is in the name of the failing test.
"""

import re
from collections import Counter

import pytest

from actors.accounts import commits
from actors.accounts.key_requests import CreateKey, KeyLimits, NewKey
from actors.accounts.named_keys import KeyProfile, KeySpending, write_limits
from actors.calls import KeyProof
from actors.identity.credentials import parse_api_key
from actors.units import routing_bytes
from tests.accounts.auditor import DEBIT, REFUND
from tests.accounts.test_simulation import Simulation

DAY_MS = 86_400_000
LEVELS, KEYS_EACH = 5, 9
BUDGETS = (None, None, 0, 1, 7, 30, 60, 150)


class BudgetSimulation(Simulation):
    """budgets: of each key by account and number: (total, of a day, parent)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.budgets: dict[tuple[bytes, int], tuple[int | None, int | None, int]] = {}

    async def _keys(self, pubkey: bytes) -> list[KeyProof]:
        """Some of the keys are made by the account's wallet, the others from these."""
        proofs = await super()._keys(pubkey)
        levels = {0: 0}
        for number in range(1, KEYS_EACH + 1):
            parent = self.chance.choice([each for each, level in levels.items() if level < LEVELS])
            levels[number] = levels[parent] + 1
            total, of_a_day = self.chance.choice(BUDGETS), self.chance.choice(BUDGETS)
            self.budgets[pubkey, number] = total, of_a_day, parent
            limits = KeyLimits(credits_a_day=of_a_day, credits_total=total)
            proof = await self._made(pubkey, number, limits, parent)
            self.numbers[proof] = number
            proofs.append(proof)
        return proofs[1:]  # The account's own key has no budget, and is another test's.

    async def _made(self, pubkey: bytes, number: int, limits: KeyLimits, parent: int) -> KeyProof:
        if parent == 0:
            made = await self.owner.ask(CreateKey(pubkey, f"key {number}", limits))
            assert isinstance(made.value, NewKey) and made.value.state.number == number, made
            proof = parse_api_key(made.value.text)
            assert proof is not None
            return proof
        account = self.owner._accounts[pubkey]
        key_hash = bytes([number]) + pubkey[1:]
        profile = KeyProfile(number, f"key {number}", key_hash, "child", write_limits(limits), 0, parent=parent)
        await self.owner._activations.set_key(account, profile)
        return KeyProof(key_hash, routing_bytes(pubkey))

    def check_budgets(self) -> int:
        """The number of entries of named keys."""
        seen = 0
        for pubkey in self.granted:
            spent, in_day, paid = Counter[int](), Counter[tuple[int, int]](), dict[bytes, tuple[int, int]]()
            row = self.store.rows[pubkey]
            for entry, _ in row.entries:
                named = re.fullmatch(r".*\|(\d+)", entry.description)
                if entry.type not in (DEBIT, REFUND) or named is None:
                    continue
                seen += 1
                number, day = int(named[1]), entry.at_ms // DAY_MS
                if entry.type == DEBIT:
                    paid[entry.operation] = number, day
                else:
                    assert paid[entry.operation][0] == number, "another key is paid back"
                    day = paid[entry.operation][1]
                while number:
                    spent[number] -= entry.amount
                    in_day[number, day] -= entry.amount
                    total, of_a_day, parent = self.budgets[pubkey, number]
                    assert total is None or spent[number] <= total, (number, spent[number], total)
                    assert of_a_day is None or in_day[number, day] <= of_a_day, (number, in_day, of_a_day)
                    number = parent
            stored = {number: kept.total for number, kept in row.spending.items()}
            assert stored == {number: spent[number] for number in stored}
            assert set(spent) <= set(stored), "spending without a row"
            for number, kept in row.spending.items():
                assert kept == KeySpending(spent[number], kept.day, in_day[number, kept.day]), (number, kept)
        return seen


@pytest.mark.parametrize("seed", range(25))
async def test_no_key_spends_one_credit_more_than_it_may(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions, "Named keys": through kills, takeovers, jumping clocks, lost answers and refunds, at every level."""
    monkeypatch.setattr(commits, "LINGER_SECONDS", 0)
    monkeypatch.setattr(commits, "BEAT_SECONDS", 3_600)
    simulation = BudgetSimulation(seed)
    await simulation.run()
    simulation.check()
    assert simulation.check_budgets() > 0, "too few calls to show anything"
