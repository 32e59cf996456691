import pytest
from solders.pubkey import Pubkey
from solders.rpc import responses
from solders.token.associated import get_associated_token_address
from spl.token.instructions import approve, close_account, transfer
from spl.token.models import ApproveParams, CloseAccountParams, TransferParams

from devnode.encoding.addresses import NATIVE_MINT, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, USDC_MINT
from tests.devnode.local_node import LocalNode

MINT = str(USDC_MINT)


def test_balance_and_supply(local: LocalNode) -> None:
    """Amounts are base units as text, and scaled by the mint's decimals; the supply is the sum of all wallets."""
    wallet = local.wallet(10**9, 5_250_000).pubkey()
    account = str(get_associated_token_address(wallet, USDC_MINT))
    expected = {"amount": "5250000", "decimals": 6, "uiAmount": 5.25, "uiAmountString": "5.25"}
    assert local.call("getTokenAccountBalance", account)["value"] == expected
    assert local.call("getTokenSupply", MINT)["value"] == expected
    raw = local.raw_reply("getTokenAccountBalance", account)
    assert responses.GetTokenAccountBalanceResp.from_json(raw).value.amount == "5250000"


def test_other_accounts_are_refused_as_token_accounts(local: LocalNode) -> None:
    wallet = str(local.wallet().pubkey())
    assert local.error("getTokenAccountBalance", str(Pubkey.new_unique())) == (
        -32602,
        "Invalid param: could not find account",
    )
    assert local.error("getTokenAccountBalance", wallet) == (-32602, "Invalid param: not a Token account")
    assert local.error("getTokenAccountBalance", MINT) == (-32602, "Invalid param: not a Token account")
    assert local.error("getTokenSupply", wallet) == (-32602, "Invalid param: not a Token mint")


def test_accounts_of_an_owner(local: LocalNode) -> None:
    wallet = local.wallet(10**9, 5).pubkey()
    local.wallet(10**9, 6)
    by_mint = local.call("getTokenAccountsByOwner", str(wallet), {"mint": MINT}, {"encoding": "jsonParsed"})
    (one,) = by_mint["value"]
    assert one["account"]["data"]["parsed"]["info"]["owner"] == str(wallet)
    by_program = {"programId": str(TOKEN_PROGRAM)}
    raw = local.raw_reply("getTokenAccountsByOwner", str(wallet), by_program, {"encoding": "base64"})
    assert len(responses.GetTokenAccountsByOwnerResp.from_json(raw).value) == 1
    other = {"programId": str(TOKEN_2022_PROGRAM)}
    assert local.call("getTokenAccountsByOwner", str(wallet), other, {"encoding": "base64"})["value"] == []
    assert local.call("getTokenAccountsByOwner", str(wallet), {"mint": str(NATIVE_MINT)})["value"] == []


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({}, "expected `mint` or `programId`"),
        ("x", "expected `mint` or `programId`"),
        ({"mint": str(Pubkey.from_bytes(b"\x09" * 32))}, "Invalid param: could not find mint"),
        ({"mint": str(TOKEN_PROGRAM)}, "Invalid param: not a Token mint"),
        ({"programId": MINT}, "Invalid param: unrecognized Token program id"),
    ],
)
def test_bad_token_filters(local: LocalNode, wanted: object, text: str) -> None:
    """The filter must name one known mint or token program; otherwise it is error -32602 with Agave's text."""
    code, message = local.error("getTokenAccountsByOwner", MINT, wanted)
    assert code == -32602 and text in message


def test_accounts_of_a_delegate_are_found_by_commitment(local: LocalNode) -> None:
    wallet, delegate = local.wallet(10**9, 5), Pubkey.new_unique()
    account = get_associated_token_address(wallet.pubkey(), USDC_MINT)
    program = {"program_id": TOKEN_PROGRAM}
    allow = ApproveParams(**program, source=account, delegate=delegate, owner=wallet.pubkey(), amount=2, signers=[])
    local.land(local.signed(wallet, approve(allow)))
    query = (str(delegate), {"mint": MINT}, {"encoding": "jsonParsed"})
    assert local.call("getTokenAccountsByDelegate", *query)["value"] == []
    local.finalize()
    (one,) = local.call("getTokenAccountsByDelegate", *query)["value"]
    info = one["account"]["data"]["parsed"]["info"]
    assert (info["delegate"], info["delegatedAmount"]["amount"]) == (str(delegate), "2")


def test_a_closed_account_is_still_there_at_finalized(local: LocalNode) -> None:
    wallet, other = local.wallet(10**9, 5), local.wallet(10**9, 1)
    account = get_associated_token_address(wallet.pubkey(), USDC_MINT)
    target = get_associated_token_address(other.pubkey(), USDC_MINT)
    owner = wallet.pubkey()
    move = TransferParams(program_id=TOKEN_PROGRAM, source=account, dest=target, owner=owner, amount=5, signers=[])
    close = CloseAccountParams(program_id=TOKEN_PROGRAM, account=account, dest=owner, owner=owner, signers=[])
    record = local.land(local.signed(wallet, transfer(move), close_account(close)))
    assert record.meta.err is None
    query = (str(owner), {"mint": MINT})
    assert local.call("getTokenAccountsByOwner", *query, {"commitment": "processed"})["value"] == []
    assert len(local.call("getTokenAccountsByOwner", *query, {"encoding": "base64"})["value"]) == 1
    local.finalize()
    assert local.call("getTokenAccountsByOwner", *query)["value"] == []


def test_largest_holders(local: LocalNode) -> None:
    """Token accounts of one mint, largest first; an address that is no mint is refused."""
    wallets = [local.wallet(10**9, amount).pubkey() for amount in (5, 9, 7)]
    rows = local.call("getTokenLargestAccounts", MINT)["value"]
    assert [row["amount"] for row in rows] == ["9", "7", "5"]
    assert rows[0]["address"] == str(get_associated_token_address(wallets[1], USDC_MINT))
    assert local.error("getTokenLargestAccounts", str(wallets[0]))[1] == "Invalid param: not a Token mint"
