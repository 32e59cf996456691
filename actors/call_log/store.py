"""Keeps the calls of the last day, by account: the port, and Redis.

Implements: decisions, "Log of calls". Decides nothing but what goes when there is no room, which the script below does
in one step for all replicas: the oldest calls of an account above its own number; then the calls of whole accounts,
first of those without credits, which anybody can open for nothing, then of those that have been silent longest.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from actors.call_log.core import ANY_CALL, NODE_ERROR, REFUSED, RESULT, CallFilter, CallsOfAccount, LoggedCall

KEPT_MS = 86_400_000
ACCOUNT_WEIGHT = 10  # Memory of an account, in calls, in addition to its calls.
_PREFIX = "calls:"
_KEYS = tuple(
    _PREFIX + name for name in ("of-accounts", "of-accounts-without-credits", "weights", "weight", "newest-ids")
)
_COMMAND_SECONDS_MAX = 5.0
_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(LoggedCall)
# Each account has a list of its calls: one command adds many, and it takes a sixth of the time and memory of a stream.
# KEYS: the accounts that have credits and those that have none, each by the time of their last call; what an account
# takes, its calls and ACCOUNT_WEIGHT; the sum of that; the id of its newest call. ARGV: now, for how long, calls of an
# account, room for all, prefix of the lists, ACCOUNT_WEIGHT; then for each account its name, 1 where it has credits,
# the number of its calls, and they. Ids go on counting where an account was dropped, as they begin with the time. Loops
# are bounded, as nothing else is done in Redis meanwhile: each makes more room than the calls of this script take.
_APPEND = """
local now, kept, prefix, weight = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[5], tonumber(ARGV[6])
local total = tonumber(redis.call('GET', KEYS[4]) or '0')
local function drop(index, account)
  redis.call('ZREM', index, account)
  total = total - tonumber(redis.call('HGET', KEYS[3], account) or '0')
  redis.call('HDEL', KEYS[3], account)
  redis.call('HDEL', KEYS[5], account)
  redis.call('UNLINK', prefix .. account)
end
local at, accounts = 7, 0
while at <= #ARGV do
  local account, list, count = ARGV[at], prefix .. ARGV[at], tonumber(ARGV[at + 2])
  local before = tonumber(redis.call('HGET', KEYS[3], account) or '0')
  if before == 0 then redis.call('HSET', KEYS[5], account, string.format('%.0f', now * 1000)) end
  redis.call('HINCRBY', KEYS[5], account, count)
  local length = redis.call('RPUSH', list, unpack(ARGV, at + 3, at + 2 + count))
  local over = length - tonumber(ARGV[3])
  if over > 0 then
    redis.call('LTRIM', list, over, -1)
    length = length - over
  end
  for _ = 1, count + 500 do
    local oldest = redis.call('LINDEX', list, 0)
    if not oldest or tonumber(string.match(oldest, '%d+')) > now - kept then break end
    redis.call('LPOP', list)
    length = length - 1
  end
  redis.call('PEXPIRE', list, ARGV[2])
  redis.call('HSET', KEYS[3], account, length + weight)
  total = total + length + weight - before
  local has = ARGV[at + 1] == '1'
  redis.call('ZREM', has and KEYS[2] or KEYS[1], account)
  redis.call('ZADD', has and KEYS[1] or KEYS[2], now, account)
  at, accounts = at + 3 + count, accounts + 1
end
for each = 1, 2 do
  local silent = redis.call('ZRANGEBYSCORE', KEYS[each], '-inf', now - kept, 'LIMIT', 0, accounts + 20)
  for _, account in ipairs(silent) do drop(KEYS[each], account) end
end
for each = 2, 1, -1 do
  for _ = 1, 2 * accounts + 200 do
    local oldest = total > tonumber(ARGV[4]) and redis.call('ZRANGE', KEYS[each], 0, 0)[1]
    if not oldest then break end
    drop(KEYS[each], oldest)
  end
end
redis.call('SET', KEYS[4], total)
for each = 1, 5 do redis.call('PEXPIRE', KEYS[each], 2 * kept) end
return total
"""
# KEYS: the list of an account, and the ids of the newest calls. ARGV: the account, the id before which, how many calls
# are looked at, how many are given at most, how many texts each of them has, those texts, and texts that none of them
# has. Gives the id of the newest call that was looked at, then of each call how far behind that it is, and its JSON;
# and how many were looked at.
_FIND = """
local newest, span, most = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0'), tonumber(ARGV[3]), tonumber(ARGV[4])
local skip = ARGV[2] == '' and 0 or math.max(0, newest - tonumber(ARGV[2]) + 1)
if skip >= redis.call('LLEN', KEYS[1]) then return {'0', {}, 0} end
local calls, last_of_texts = redis.call('LRANGE', KEYS[1], -skip - span, -skip - 1), 5 + tonumber(ARGV[5])
local found, looked_at = {}, 0
for at = #calls, 1, -1 do
  local fits = true
  for text = 6, #ARGV do
    if (string.find(calls[at], ARGV[text], 1, true) ~= nil) ~= (text <= last_of_texts) then
      fits = false
      break
    end
  end
  looked_at = looked_at + 1
  if fits then
    found[#found + 1] = #calls - at
    found[#found + 1] = calls[at]
    if #found == 2 * most then break end
  end
end
return {string.format('%.0f', newest - skip), found, looked_at}
"""
_LOOKED_AT = 1_000  # Calls examined by one script: half a millisecond, during which Redis does nothing else.


class LogPart(NamedTuple):
    """Calls with their ids, newest first. end: id of the oldest call that was looked at; None: none is older."""

    calls: list[tuple[int, LoggedCall]]
    end: int | None


class CallLogUnavailable(Exception):
    """The store did not answer."""


class CallLogStore(Protocol):
    """Every method raises CallLogUnavailable."""

    async def append(self, accounts: Sequence[CallsOfAccount], now_ms: int) -> None:
        """Keep these calls, each account once. Calls that are older than a day, or over a limit, go."""
        ...

    async def find(
        self, pubkey: bytes, before: int | None, most: int, now_ms: int, wanted: CallFilter = ANY_CALL
    ) -> LogPart:
        """At most so many wanted calls of an account, none older than a day, from a part of its log. before: an id."""
        ...


class RedisCallLogStore:
    def __init__(self, client: Redis, of_account_max: int, weight_max: int) -> None:
        """client: may answer in bytes or text. weight_max: for all calls, and ACCOUNT_WEIGHT for each account."""
        assert 0 < of_account_max + ACCOUNT_WEIGHT <= weight_max, (of_account_max, weight_max)
        self._redis, self._of_account_max, self._weight_max = client, of_account_max, weight_max

    async def append(self, accounts: Sequence[CallsOfAccount], now_ms: int) -> None:
        arguments: list[Any] = [now_ms, KEPT_MS, self._of_account_max, self._weight_max, _PREFIX, ACCOUNT_WEIGHT]
        for pubkey, calls, has_credits in accounts:
            arguments += (pubkey.hex(), int(has_credits), len(calls), *map(_encoder.encode, calls))
        await self._ask(self._redis.eval(_APPEND, len(_KEYS), *_KEYS, *arguments))

    async def find(
        self, pubkey: bytes, before: int | None, most: int, now_ms: int, wanted: CallFilter = ANY_CALL
    ) -> LogPart:
        name, (has, lacks) = pubkey.hex(), _texts_of(wanted)
        span = _LOOKED_AT if has or lacks else most
        arguments = [name, "" if before is None else before, span, most, len(has), *has, *lacks]
        newest, found, looked_at = await self._ask(
            self._redis.eval(_FIND, 2, _PREFIX + name, _KEYS[-1], *arguments),
        )
        calls = [(int(newest) - int(found[at]), _decoder.decode(found[at + 1])) for at in range(0, len(found), 2)]
        young = [(number, call) for number, call in calls if call.at_ms > now_ms - KEPT_MS]
        is_last = len(young) < len(calls) or (looked_at < span and len(calls) < most)
        fitting = [(number, call) for number, call in young if wanted.has(call)]
        return LogPart(fitting, None if is_last else int(newest) - looked_at + 1)

    async def _ask(self, command: Any) -> Any:
        try:
            async with asyncio.timeout(_COMMAND_SECONDS_MAX):
                return await command
        except (RedisError, OSError, TimeoutError) as error:
            raise CallLogUnavailable(f"{type(error).__name__}: {error}") from error


def _texts_of(wanted: CallFilter) -> tuple[list[str], list[str]]:
    """Return texts that the JSON of each wanted call contains, and texts that it does not contain. Other calls may
    match too."""
    has = [f',"{text}",' for text in (wanted.request_id, wanted.method, wanted.outcome) if text not in (None, REFUSED)]
    has += [] if wanted.key is None else [f",{wanted.key}]"]
    return has, [f',"{text}",' for text in (RESULT, NODE_ERROR)] if wanted.outcome == REFUSED else []
