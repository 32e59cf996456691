import base64
import re

import orjson

from actors.config import PaymentsConfig
from actors.gateway.payments import terms as payment_terms
from actors.x402_types import BlockhashHint

WALLET, SPONSOR = "So11111111111111111111111111111111111111112", "11111111111111111111111111111111"
PAYMENTS = PaymentsConfig(network="devnet", deposit_wallet=WALLET, sponsor_pubkey=SPONSOR)


def test_the_header_is_what_version_2_clients_take():
    """Standard base64 with padding, on one line: current clients test it with this pattern and throw otherwise."""
    page = payment_terms.build(PAYMENTS, "https://rpc.example", "/rpc")
    assert re.fullmatch(rb"[A-Za-z0-9+/]+={0,2}", page.header)
    assert len(page.header) % 4 == 0
    assert orjson.loads(base64.b64decode(page.header, validate=True)) == page.v2


def test_version_2_terms_are_complete():
    """CAIP-2 network, string amounts, the wallet as payTo and the sponsor as feePayer; $0.10 comes first."""
    page = payment_terms.build(PAYMENTS, "https://rpc.example/", "/rpc")
    assert page.v2["x402Version"] == 2
    assert page.v2["resource"]["url"] == "https://rpc.example/rpc"
    assert [accept["amount"] for accept in page.v2["accepts"]] == ["100000", "10000", "1000000"]
    for accept in page.v2["accepts"]:
        assert accept["scheme"] == "exact"
        assert accept["network"] == "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
        assert accept["asset"] == "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"
        assert accept["payTo"] == WALLET
        assert accept["extra"] == {"feePayer": SPONSOR}
        assert accept["maxTimeoutSeconds"] > 0


def test_version_1_terms_are_complete():
    """One element; an outputSchema of null would break the legacy parser, so there is none."""
    (accept,) = payment_terms.build(PAYMENTS, "https://rpc.example", "/").v1_accepts
    assert accept["network"] == "solana-devnet"
    assert accept["maxAmountRequired"] == "100000"
    assert accept["resource"] == "https://rpc.example/"
    assert accept["extra"] == {"feePayer": SPONSOR}
    assert "outputSchema" not in accept
    assert "amount" not in accept


def test_the_deposit_fields_are_the_interfaces():
    """402 data: deposit_address, usdc_mint, minimum_deposit_usdc, network, instructions; all strings."""
    deposit = payment_terms.build(PAYMENTS, "https://rpc.example", "/").deposit
    assert deposit["deposit_address"] == WALLET
    assert deposit["minimum_deposit_usdc"] == "0.01"
    words = {"deposit_address", "usdc_mint", "minimum_deposit_usdc", "network", "instructions"}
    assert set(deposit) == words | {"network_name"}
    assert WALLET in deposit["instructions"]


def test_without_a_sponsor_no_terms_are_offered_that_nobody_could_pay():
    """Every client throws on terms without a feePayer."""
    page = payment_terms.build(PaymentsConfig(deposit_wallet=WALLET), "https://rpc.example", "/")
    assert (page.v2, page.v1_accepts, page.header) == ({}, [], b"")
    assert page.deposit["network"] == "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
    assert page.deposit["network_name"] == "Solana mainnet"


def test_amounts_below_the_minimum_deposit_are_not_offered():
    """What would not be credited must not be asked for."""
    payments = PAYMENTS.model_copy(update={"minimum_deposit_base_units": 50_000})
    amounts = [accept["amount"] for accept in payment_terms.build(payments, "https://x", "/").v2["accepts"]]
    assert amounts == ["100000", "1000000"]
    payments = PAYMENTS.model_copy(update={"minimum_deposit_base_units": 5_000_000})
    assert [accept["amount"] for accept in payment_terms.build(payments, "https://x", "/").v2["accepts"]] == ["5000000"]


HINT = BlockhashHint("4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM", 1_234)


def test_a_fresh_blockhash_rides_along_for_version_2_only():
    """It saves a payer one question; the height is a decimal string, and version 1 knows neither."""
    page = payment_terms.build(PAYMENTS, "https://rpc.example", "/", HINT)
    for accept in page.v2["accepts"]:
        known = {"recentBlockhash": HINT.blockhash, "lastValidBlockHeight": "1234"}
        assert accept["extra"] == {"feePayer": SPONSOR} | known
    assert page.v1_accepts[0]["extra"] == {"feePayer": SPONSOR}


def test_a_bare_page_says_where_to_deposit_and_offers_nothing():
    """For those who may have paid already, and for paths that take no payment."""
    page = payment_terms.build(PAYMENTS, "https://rpc.example", "/").bare()
    assert (page.v2, page.v1_accepts, page.header) == ({}, [], b"")
    assert page.deposit["deposit_address"] == WALLET


def test_an_extension_is_in_the_object_and_in_the_header():
    """Clients read the header, people the body: both say the same."""
    page = payment_terms.build(PAYMENTS, "https://rpc.example", "/").with_extension("e", {"info": {}})
    assert page.v2["extensions"] == {"e": {"info": {}}}
    assert orjson.loads(base64.b64decode(page.header)) == page.v2


def test_discovery_lists_the_payable_and_is_empty_without_a_sponsor():
    """GET /.well-known/x402.json."""
    found = payment_terms.discovery(PAYMENTS, "https://rpc.example/", [("POST", "/rpc")])
    (resource,) = found["resources"]
    assert (resource["url"], resource["method"]) == ("https://rpc.example/rpc", "POST")
    assert found["settle"] == "https://rpc.example/x402/settle" and found["enabled"]
    off = payment_terms.discovery(PaymentsConfig(deposit_wallet=WALLET), "https://rpc.example", [("POST", "/rpc")])
    assert (off["resources"], off["enabled"]) == ([], False)
