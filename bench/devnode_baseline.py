"""A baseline for comparison: an embedded node as a competent user would write it in an hour.

Starlette and one LiteSVM, run with `uvicorn bench.devnode_baseline:app`. It is faster for what it leaves out: no slots,
no blocks, no journal, no preflight, no duplicate check, no statuses, no commitment; a restart loses everything.
"""

import base64
from typing import Any

from solders.litesvm import LiteSVM
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

_svm = LiteSVM().with_transaction_history(0).with_blockhash_check(False)


def _result(method: str, params: list[Any]) -> Any:
    if method == "sendTransaction":
        transaction = VersionedTransaction.from_bytes(base64.b64decode(params[0]))
        done = _svm.send_transaction(transaction)
        if isinstance(done, FailedTransactionMetadata):
            raise ValueError(str(done.err()))
        return str(done.signature())
    if method == "getAccountInfo":
        account = _svm.get_account(Pubkey.from_string(params[0]))
        if account is None:
            return {"context": {"slot": 1}, "value": None}
        value = {
            "lamports": account.lamports,
            "owner": str(account.owner),
            "data": [base64.b64encode(account.data).decode(), "base64"],
            "executable": account.executable,
            "rentEpoch": account.rent_epoch,
            "space": len(account.data),
        }
        return {"context": {"slot": 1}, "value": value}
    if method == "getLatestBlockhash":
        value = {"blockhash": str(_svm.latest_blockhash()), "lastValidBlockHeight": 150}
        return {"context": {"slot": 1}, "value": value}
    if method == "requestAirdrop":
        _svm.airdrop(Pubkey.from_string(params[0]), params[1])
        return "done"
    raise ValueError("method not found")


async def _call(request: Request) -> JSONResponse:
    asked = await request.json()
    reply = {"jsonrpc": "2.0", "id": asked["id"]}
    try:
        return JSONResponse(reply | {"result": _result(asked["method"], asked.get("params", []))})
    except ValueError as error:
        return JSONResponse(reply | {"error": {"code": -32000, "message": str(error)}})


app = Starlette(routes=[Route("/", _call, methods=["POST"])])
