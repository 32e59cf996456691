from hypothesis import given
from hypothesis import strategies as st
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.chain.indexes import AccountIndexes
from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM
from devnode.parsing.token_accounts import holding

KEYS = [Pubkey.from_bytes(bytes([number]) * 32) for number in range(1, 5)]


def token(mint: Pubkey, owner: Pubkey, delegate: Pubkey | None) -> Account:
    option = bytes(36) if delegate is None else b"\x01\x00\x00\x00" + bytes(delegate)
    head = bytes(mint) + bytes(owner) + bytes(8) + option + b"\x01"
    return Account(1, head + bytes(165 - len(head)), TOKEN_PROGRAM, False, 0)


accounts = st.one_of(
    st.none(),
    st.just(Account(1, b"", SYSTEM_PROGRAM, False, 0)),
    st.builds(token, st.sampled_from(KEYS), st.sampled_from(KEYS), st.one_of(st.none(), st.sampled_from(KEYS))),
)


@given(st.lists(st.tuples(st.sampled_from(KEYS), accounts), max_size=30))
def test_the_indexes_agree_with_a_scan(writes: list[tuple[Pubkey, Account | None]]) -> None:
    """After any sequence of writes each index holds exactly what a scan of all accounts would find."""
    indexes = AccountIndexes()
    now: dict[Pubkey, Account] = {}
    for pubkey, after in writes:
        indexes.update(pubkey, now.get(pubkey), after)
        if after is None:
            now.pop(pubkey, None)
        else:
            now[pubkey] = after
    held = {pubkey: found for pubkey, account in now.items() if (found := holding(account)) is not None}
    for key in KEYS:
        assert indexes.token_accounts_of(key) == {pubkey for pubkey, one in held.items() if one.owner == key}
        assert indexes.token_accounts_of_mint(key) == {pubkey for pubkey, one in held.items() if one.mint == key}
        assert indexes.token_accounts_delegated_to(key) == {p for p, one in held.items() if one.delegate == key}
    for program in (SYSTEM_PROGRAM, TOKEN_PROGRAM):
        assert indexes.of_program(program) == {p for p, account in now.items() if account.owner == program}
    assert set(indexes.all_accounts()) == set(now)
