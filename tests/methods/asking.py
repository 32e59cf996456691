"""Parameters as a client sends them, and what the rules make of them."""

import base64

import msgspec
import orjson
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction

from actors.errors import Err, Refusal
from actors.methods.assets import AssetsByIdQuestion, AssetsQuestion, TokenAccountsQuestion
from actors.methods.fees import EstimateQuestion, FeeQuestion
from actors.methods.history import HistoryQuestion
from actors.methods.rules import check
from actors.methods.sends import RaceQuestion, SendStatusQuestion, SmartSendQuestion

KEY = "So11111111111111111111111111111111111111112"
OTHER = "SysvarC1ock11111111111111111111111111111111"
SIGNATURE = "5" * 87
PAYER = Keypair.from_seed(bytes(31) + b"\x01")
QUESTIONS = {
    "suggestPriorityFee": FeeQuestion,
    "getPriorityFeeEstimate": EstimateQuestion,
    "getAssetsByOwner": AssetsQuestion,
    "getAsset": AssetsByIdQuestion,
    "getAssetBatch": AssetsByIdQuestion,
    "getAssets": AssetsByIdQuestion,
    "getTokenAccounts": TokenAccountsQuestion,
    "getTransactionHistory": HistoryQuestion,
    "sendAndConfirm": RaceQuestion,
    "sendSmartTransaction": SmartSendQuestion,
    "getSendStatus": SendStatusQuestion,
}


def asked(method, *arguments, **named):
    """What the method's handler is asked. named: parameters by name, in place of arguments."""
    params = named or list(arguments)
    sent = check(method, params, orjson.dumps(params))
    assert not isinstance(sent, Refusal), sent.detail
    return msgspec.json.decode(sent, type=QUESTIONS[method]) if method in QUESTIONS else orjson.loads(sent)


def refused(method, *arguments, **named):
    params = named or list(arguments)
    verdict = check(method, params, orjson.dumps(params))
    assert isinstance(verdict, Refusal), verdict
    assert verdict.err is Err.INVALID_PARAMS
    return verdict.detail


def a_transfer(number=1):
    instruction = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=Keypair().pubkey(), lamports=number))
    return Transaction([PAYER], Message([instruction], PAYER.pubkey()), Hash.default())


def text(transaction):
    return base64.b64encode(bytes(transaction)).decode()


def checked(method: str, *arguments: object, raw: bytes | None = None) -> bytes:
    raw = orjson.dumps(list(arguments)) if raw is None else raw
    result = check(method, orjson.loads(raw), raw)
    assert not isinstance(result, Refusal), result.detail
    return result
