import base64

import pytest
from solders.account import Account
from solders.pubkey import Pubkey
from solders.rpc.responses import parse_websocket_message

from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM, TOKEN_PROGRAMS, USDC_MINT
from devnode.pubsub.account_contents import TOO_LARGE, account_value, program_value
from devnode.pubsub.payloads import in_slot, notification
from devnode.pubsub.topics import AccountTopic, ProgramTopic, Shape
from devnode.records.commitment import Commitment
from tests.devnode.local_node import LocalNode

ENCODINGS = ("binary", "base58", "base64", "base64+zstd", "jsonParsed")


def topic(encoding: str, offset: int | None = None, length: int | None = None) -> AccountTopic:
    return AccountTopic(USDC_MINT, Commitment.PROCESSED, Shape(encoding, offset, length))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_contents_are_those_of_a_read(local: LocalNode, encoding: str) -> None:
    """A notification shows an account as getAccountInfo does, in every encoding."""
    account = local.chain.vm.account(USDC_MINT)
    read = local.call("getAccountInfo", str(USDC_MINT), {"encoding": encoding})["value"]
    assert account_value(local.node, topic(encoding), USDC_MINT, account) == read


def test_a_data_slice_is_accepted_and_ignored(local: LocalNode) -> None:
    """As on a node, notifications have the whole data whatever slice the subscription names."""
    account = local.chain.vm.account(USDC_MINT)
    assert account is not None
    value = account_value(local.node, topic("base64", 4, 32), USDC_MINT, account)
    assert base64.b64decode(value["data"][0]) == account.data and value["space"] == 82


@pytest.mark.parametrize("program", sorted(TOKEN_PROGRAMS, key=str))
def test_what_cannot_be_parsed_is_left_out_for_a_token_program_alone(local: LocalNode, program: Pubkey) -> None:
    """As on a node: jsonParsed of a token program has parsed accounts only; other programs and encodings have all."""
    broken = Account(1, bytes(7), program, False, 0)
    shown = {
        (owner, encoding): program_value(
            local.node, ProgramTopic(owner, Commitment.PROCESSED, Shape(encoding), ()), USDC_MINT, broken
        )
        for owner in (program, SYSTEM_PROGRAM)
        for encoding in ("jsonParsed", "base64")
    }
    assert [key for key, value in shown.items() if value is None] == [(program, "jsonParsed")]


def test_data_too_long_for_base58_is_replaced_by_a_text(local: LocalNode) -> None:
    """A notification cannot refuse as a read does, so it has Agave's text."""
    account = Account(1, bytes(129), SYSTEM_PROGRAM, False, 0)
    assert account_value(local.node, topic("binary"), USDC_MINT, account)["data"] == TOO_LARGE
    assert account_value(local.node, topic("base58"), USDC_MINT, account)["data"] == [TOO_LARGE, "base58"]
    assert account_value(local.node, topic("binary"), USDC_MINT, account)["space"] == 129


@pytest.mark.parametrize(
    ("encoding", "data"), [("binary", ""), ("base58", ["", "base58"]), ("jsonParsed", ["", "base64"])]
)
def test_a_closed_account_is_shown_as_an_empty_one(local: LocalNode, encoding: str, data: object) -> None:
    """A client must learn that an account was closed; otherwise it would show the last balance for ever."""
    assert account_value(local.node, topic(encoding), USDC_MINT, None) == {
        "data": data,
        "executable": False,
        "lamports": 0,
        "owner": str(SYSTEM_PROGRAM),
        "rentEpoch": 0,
        "space": 0,
    }


@pytest.mark.parametrize("encoding", ["base64", "base64+zstd", "jsonParsed"])
def test_accounts_of_programs_decode_in_a_client(local: LocalNode, encoding: str) -> None:
    """An independent library decodes program and account notifications."""
    account = local.chain.vm.account(USDC_MINT)
    assert account is not None
    of_program = ProgramTopic(TOKEN_PROGRAM, Commitment.PROCESSED, Shape(encoding), ())
    value = program_value(local.node, of_program, USDC_MINT, account)
    assert value is not None
    assert value["pubkey"] == str(USDC_MINT)
    (shown,) = parse_websocket_message(notification(of_program, 5, in_slot(9, value)))
    assert shown.result.value.pubkey == USDC_MINT  # type: ignore[union-attr]
    single = in_slot(9, value["account"])
    (shown,) = parse_websocket_message(notification(topic(encoding), 5, single))
    assert shown.result.value.lamports == account.lamports  # type: ignore[union-attr]


def test_a_closed_account_decodes_in_a_client(local: LocalNode) -> None:
    """An independent library decodes the notification of a closed account."""
    value = in_slot(9, account_value(local.node, topic("base64"), Pubkey.default(), None))
    (shown,) = parse_websocket_message(notification(topic("base64"), 5, value))
    assert shown.result.value.lamports == 0  # type: ignore[union-attr]
