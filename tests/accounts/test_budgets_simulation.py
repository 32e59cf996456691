"""Named keys with budgets of all sizes, up to five levels deep, in the simulation of test_simulation.py.

An auditor reads the ledger alone, entry by entry, and knows the budgets: at no entry has a key, with all keys that were
made from it, spent one credit more than it may. A failing seed is in the name of the failing test.
"""

import re
from collections import Counter

import pytest

from actors.accounts import commits
from actors.accounts.key_requests import CreateKey, KeyLimits, NewKey
from actors.accounts.named_keys import KeySpending
from actors.calls import KeyProof, Proof
from actors.identity.credentials import parse_api_key
from ledger_gateway.keys import narrow
from tests.accounts.auditor import DEBIT, REFUND
from tests.accounts.test_simulation import Simulation

DAY_MS = 86_400_000
LEVELS, KEYS_EACH = 5, 9
BUDGETS = (None, None, 0, 1, 7, 30, 60, 150)


class BudgetSimulation(Simulation):
    """budgets: of each key by its name: (total, of a day, name of the key that it was made from)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.budgets: dict[str, tuple[int | None, int | None, str]] = {}
        self.names: dict[Proof, str] = {}

    async def _keys(self, pubkey: bytes) -> list[KeyProof]:
        """Some of the keys are made by the account's wallet, the others from these, offline."""
        await super()._keys(pubkey)
        texts, levels = {"": ""}, {"": 0}
        for number in range(1, KEYS_EACH + 1):
            parent = self.chance.choice([each for each, level in levels.items() if level < LEVELS])
            name = f"{pubkey.hex()[:8]} {number}"
            levels[name] = levels[parent] + 1
            total, of_a_day = self.chance.choice(BUDGETS), self.chance.choice(BUDGETS)
            self.budgets[name] = total, of_a_day, parent
            if parent:
                seed = self.chance.randbytes(32)
                texts[name] = narrow(texts[parent], name, seed=seed, credits_total=total, credits_a_day=of_a_day)
                continue
            made = await self.owner.ask(CreateKey(pubkey, name, KeyLimits(of_a_day, total)))
            assert isinstance(made.value, NewKey), made
            texts[name] = made.value.text
        proofs = []
        for name, text in texts.items():
            proof = parse_api_key(text) if name else None
            if proof is not None:
                self.names[proof] = name
                proofs.append(proof)
        return proofs  # The account's own key has no budget.

    def _is_known(self, proof: KeyProof) -> bool:
        return proof in self.numbers

    def check_budgets(self) -> int:
        """The number of entries of named keys."""
        seen = 0
        for pubkey in self.granted:
            spent, in_day, paid = Counter[str](), Counter[tuple[str, int]](), dict[bytes, tuple[str, int]]()
            row = self.store.rows[pubkey]
            for entry, _ in row.entries:
                named = re.fullmatch(r".*\|(\d+)", entry.description)
                if entry.type not in (DEBIT, REFUND):
                    continue
                name, day = "" if named is None else row.keys[int(named[1])].name, entry.at_ms // DAY_MS
                assert name == self.names.get(self.asked[entry.operation], ""), "another key paid than was shown"
                seen += bool(name)
                if entry.type == DEBIT:
                    paid[entry.operation] = name, day
                else:
                    assert paid[entry.operation][0] == name, "another key is paid back"
                    day = paid[entry.operation][1]
                while name:
                    spent[name] -= entry.amount
                    in_day[name, day] -= entry.amount
                    total, of_a_day, parent = self.budgets[name]
                    assert total is None or spent[name] <= total, (name, spent[name], total)
                    assert of_a_day is None or in_day[name, day] <= of_a_day, (name, in_day, of_a_day)
                    name = parent
            names = {number: key.name for number, key in row.keys.items()}
            assert sorted(names) == list(range(1, len(names) + 1)) and len(set(names.values())) == len(names)
            stored = {names[number]: kept for number, kept in row.spending.items()}
            assert set(spent) <= set(stored), "spending without a row"
            for name, kept in stored.items():
                assert kept == KeySpending(spent[name], kept.day, in_day[name, kept.day]), (name, kept)
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
