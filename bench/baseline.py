"""A baseline for comparison: a metered gateway as a competent user would write it in an afternoon.

FastAPI, httpx.AsyncClient and one Redis Lua script that checks the key, the rate and the balance and debits, run with
`uvicorn bench.baseline:app --workers 2`. It is faster for what it leaves out: nothing is durable (Redis keeps no log),
a crash between debit and answer is never corrected, and it has no ledger, no batches, no wallet signatures, no
sessions. Settings come from the environment, because uvicorn imports the module in each worker: BASELINE_REDIS_URL,
BASELINE_NODE_URL.
"""

import os
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import redis.asyncio
from fastapi import FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse

PRICES = {"getSlot": 1, "getBlockHeight": 1, "getBalance": 1, "getTransaction": 5, "getBlock": 25, "sendTransaction": 2}
PRICES |= {"getAccountInfo": 1, "getMultipleAccounts": 1, "getLatestBlockhash": 1, "getTokenAccountsByOwner": 25}
PRICES |= {"getSignaturesForAddress": 5, "simulateTransaction": 5}
REQUESTS_PER_SECOND = 1_000_000  # Counted as in the product, but never reached: no refusals are measured.

# Keys: balance, rate window. Arguments: price, limit. Answers the new balance, or -1 unknown, -2 rate, -3 credits.
DEBIT = """
local balance = redis.call('GET', KEYS[1])
if not balance then return -1 end
local used = redis.call('INCR', KEYS[2])
if used == 1 then redis.call('EXPIRE', KEYS[2], 2) end
if used > tonumber(ARGV[2]) then return -2 end
if tonumber(balance) < tonumber(ARGV[1]) then return -3 end
return redis.call('DECRBY', KEYS[1], ARGV[1])
"""
_REFUSALS = {-1: (401, "unknown API key"), -2: (429, "rate limit exceeded"), -3: (402, "insufficient credits")}


def balance_key(api_key: str) -> str:
    return f"balance:{api_key}"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    limits = httpx.Limits(max_connections=512, max_keepalive_connections=512)
    async with (
        redis.asyncio.Redis.from_url(os.environ["BASELINE_REDIS_URL"]) as store,
        httpx.AsyncClient(limits=limits, timeout=30.0) as client,
    ):
        app.state.store, app.state.client = store, client
        app.state.debit = store.register_script(DEBIT)
        app.state.node_url = os.environ["BASELINE_NODE_URL"]
        yield


app = FastAPI(lifespan=lifespan)


def _error(status: int, identity: Any, message: str) -> JSONResponse:
    return JSONResponse({"jsonrpc": "2.0", "id": identity, "error": {"code": -32000, "message": message}}, status)


@app.post("/")
async def call(request: Request, x_api_key: Annotated[str, Header()]) -> Response:
    body = await request.json()
    price = PRICES.get(body["method"])
    if price is None:
        return _error(200, body["id"], "method not found")
    state = request.app.state
    key = balance_key(x_api_key)
    remaining = int(await state.debit([key, f"rate:{x_api_key}:{int(time.time())}"], [price, REQUESTS_PER_SECOND]))
    if remaining < 0:
        status, message = _REFUSALS[remaining]
        return _error(status, body["id"], message)
    try:
        answer = await state.client.post(state.node_url, json=body)
    except httpx.HTTPError:
        await state.store.incrby(key, price)
        return _error(502, body["id"], "node unreachable")
    headers = {"X-Credits-Remaining": str(remaining), "X-Request-Id": uuid.uuid4().hex}
    return Response(answer.content, answer.status_code, headers, "application/json")
