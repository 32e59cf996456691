"""Whether a child becomes a key of its account, decided without an owner. At an owner: test_child_adoption.py."""

import copy

import msgspec
import pytest

from actors.accounts.account import SUSPENDED, Account, NamedKeySet, apply
from actors.accounts.child_admission import Adoption, decide_adoption
from actors.accounts.child_keys import ChildBlock, ChildLimits, read_child, root_public
from actors.accounts.hourly_limit import HOUR_SECONDS, NONE_SET, HourlyLimitSet, HourlySetting, HoursLearnt, Learnt
from actors.accounts.named_keys import KeyLimits, KeyProfile, write_limits
from actors.errors import Err
from actors.identity.credentials import key_hash, key_prefix, new_api_key, parse_api_key
from ledger_gateway.keys import narrow
from tests.accounts.making import ALICE, START, opened

ROOT = new_api_key(ALICE, b"r" * 24)
CHILD = narrow(ROOT, "child", seed=b"c" * 32, credits_total=50)
GRANDCHILD = narrow(CHILD, "grandchild", seed=b"g" * 32)


def with_root(credits: int = 100, **limits: int) -> Account:
    account = opened(credits=credits)
    told = write_limits(KeyLimits(**limits))  # type: ignore[arg-type]
    profile = KeyProfile(1, "bot", key_hash(ROOT), key_prefix(ROOT), told, 0, public=root_public(ROOT))
    apply(account, NamedKeySet(profile))
    return account


def decided(account: Account, text: str) -> Adoption:
    child, proof = read_child(text), parse_api_key(text)
    assert child is not None and proof is not None
    return decide_adoption(account, child, proof, START)


def take_up(account: Account, adoption: Adoption) -> None:
    assert adoption.refusal is None and adoption.unit is not None
    apply(account, adoption.unit)
    for profile in adoption.profiles:
        apply(account, NamedKeySet(profile))
    account.check()


def test_all_blocks_become_keys_for_one_unit() -> None:
    account = with_root(requests_per_second=5)
    before = copy.deepcopy(account)
    adoption = decided(account, GRANDCHILD)
    assert account == before  # Deciding changes nothing.
    assert [(each.number, each.parent, each.name) for each in adoption.profiles] == [
        (2, 1, "child"),
        (3, 2, "grandchild"),
    ]
    assert [each.key_hash == key_hash(GRANDCHILD) for each in adoption.profiles] == [False, True]
    take_up(account, adoption)
    second = START.wall_ms // 1000
    assert (account.window.left(second, 100), account.keys.by_number[1].units_left(second)) == (99, 4)
    assert (account.holds, account.purse.held, len(account.answers)) == ({}, 0, 0)
    assert decided(account, GRANDCHILD) == Adoption()


def test_a_block_that_is_a_key_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its id is a hash of all that was checked. But whoever presents it must have its seed."""
    account = with_root()
    take_up(account, decided(account, GRANDCHILD))
    other = narrow(CHILD, "another", seed=b"o" * 32)
    checked: list[bytes] = []
    proven = ChildBlock.proven_limits

    def counted(block: ChildBlock) -> ChildLimits | None:
        checked.append(block.id)
        return proven(block)

    monkeypatch.setattr(ChildBlock, "proven_limits", counted)
    take_up(account, decided(account, other))
    assert len(checked) == 1
    forged = narrow(ROOT, "child", seed=b"c" * 32, credits_total=50)[:-43] + "A" * 43
    assert decided(account, forged) == Adoption(Err.AUTH_FAILED, is_lasting=True)
    account.keys.by_number[2].window.take(START.wall_ms // 1000, 7)
    own = decided(account, CHILD)
    assert own.unit is not None and own.unit.key == 1  # Its own rate is for its calls.
    assert [(each.number, each.key_hash) for each in own.profiles] == [(2, key_hash(CHILD))]
    take_up(account, own)
    assert len(checked) == 1


def test_a_child_has_one_text_and_a_key_of_the_account_above_it() -> None:
    """Another text of the same blocks would take the place of the one that its holder has. A child of a key that the
    account does not have, such as one that was deleted, is none."""
    account = with_root()
    take_up(account, decided(account, CHILD))
    child, proof = read_child(CHILD), parse_api_key(CHILD)
    assert child is not None and proof is not None
    other = msgspec.structs.replace(proof, key_hash=b"o" * 32)
    assert decide_adoption(account, child, other, START) == Adoption(Err.AUTH_FAILED, is_lasting=True)
    assert decide_adoption(account, child, proof, START) == Adoption()
    assert decided(opened(credits=100), CHILD) == Adoption(Err.AUTH_FAILED, is_lasting=True)


def test_it_is_refused_as_a_call_is_and_in_the_same_order() -> None:
    """Interface, "Errors": what proves nothing first, money last. One lack is taken away after the other."""
    account = with_root(credits=10, requests_per_second=1, credits_total=5, expires_at=1)
    second, (root,) = START.wall_ms // 1000, account.keys.path(1)
    account.profile = msgspec.structs.replace(account.profile, status=SUSPENDED)
    root.window.take(second, 1)
    root.total, account.purse.held = 5, account.purse.balance
    found = [decided(account, CHILD).refusal]
    apply(
        account,
        NamedKeySet(msgspec.structs.replace(root.profile, limits='{"requests_per_second":1,"credits_total":5}')),
    )
    found.append(decided(account, CHILD).refusal)
    account.profile = msgspec.structs.replace(account.profile, status="active")
    found.append(decided(account, CHILD).refusal)
    root.window.take(second + 1, 0)
    found.append(decided(account, CHILD).refusal)
    root.total = 4
    apply(account, HourlyLimitSet(HourlySetting(1)))
    apply(account, HoursLearnt(Learnt(second // HOUR_SECONDS, None, 0)))
    found.append(decided(account, CHILD).refusal)
    apply(account, HourlyLimitSet(HourlySetting(NONE_SET)))
    found.append(decided(account, CHILD).refusal)
    account.purse.held = type(account.purse.held)(account.purse.balance - 1)
    found.append(decided(account, CHILD).refusal)
    assert found == [
        Err.AUTH_FAILED,
        Err.METHOD_NOT_ALLOWED,
        Err.RATE_LIMITED,
        Err.KEY_BUDGET_EXCEEDED,
        Err.HOURLY_LIMIT_EXCEEDED,
        Err.INSUFFICIENT_CREDITS,
        None,
    ]
