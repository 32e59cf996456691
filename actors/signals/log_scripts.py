"""The scripts that Redis runs for the signal log: each is one step that no other command interrupts.

Implements: decisions, "one signal"; threats 32 and 69. Redis 6.2 is enough. log.py says what each is for.

Scripts that write for a classifier begin with GUARD. KEYS: stream, positions, epochs, then those of the script. ARGV:
the number of claims; slice, epoch and position of each; then those of the script, after `base`. A claim with an older
epoch than the stored one is refused ("fenced": another classifier owns the slice). One with a newer epoch, or a higher
position, knows more than Redis ("lost": Redis has lost what was written last).
"""

GUARD = """
local claims, base = tonumber(ARGV[1]), 1 + 3 * tonumber(ARGV[1])
for i = 0, claims - 1 do
  local slice, epoch = ARGV[3 * i + 2], tonumber(ARGV[3 * i + 3])
  local newest = tonumber(redis.call('HGET', KEYS[3], slice) or '0') or 0
  if newest > epoch then return {'fenced', slice} end
  local before = tonumber(redis.call('HGET', KEYS[2], slice) or '0') or 0
  if newest < epoch or before < tonumber(ARGV[3 * i + 4]) then return {'lost', slice .. ' at ' .. before} end
end
local function move(position)
  for i = 0, claims - 1 do
    local before = tonumber(redis.call('HGET', KEYS[2], ARGV[3 * i + 2]) or '0') or 0
    if tonumber(position) > before then redis.call('HSET', KEYS[2], ARGV[3 * i + 2], position) end
  end
end
"""
# KEYS: one for each event. ARGV: position, lifetime of what was seen, length of the stream; then slot and body of each
# event. Gives the cursor of each event, "" where it was known.
APPEND = """
local given = {'ok'}
for i = 4, #KEYS do
  local slot, body = ARGV[base + 2 * i - 4], ARGV[base + 2 * i - 3]
  local seen = redis.call('GET', KEYS[i])
  if not seen or seen == '-' then
    given[#given + 1] = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[base + 3], '*',
                                   'c', seen and 'restored' or 'event', 'b', body)
    redis.call('SET', KEYS[i], slot, 'EX', ARGV[base + 2])
  else
    given[#given + 1] = ''
    if not string.find(',' .. seen .. ',', ',' .. slot .. ',', 1, true) then
      redis.call('SET', KEYS[i], seen .. ',' .. slot, 'EX', ARGV[base + 2])
    end
  end
end
move(ARGV[base + 1])
return given
"""
# KEYS: one for each event. ARGV: slot that was lost, lifetime, length; then for each event the body of before and the
# place of the slot in it, as text before and after it.
CORRECT = """
local given = {'ok'}
for i = 4, #KEYS do
  local at = base + 3 * i - 8
  local body, head, tail = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local seen = redis.call('GET', KEYS[i])
  local left, was_first, found = {}, false, false
  if seen and seen ~= '-' then
    for slot in string.gmatch(seen, '[^,]+') do
      if slot == ARGV[base + 1] then
        found = true
        was_first = #left == 0
      else
        left[#left + 1] = slot
      end
    end
  end
  if found then
    if #left == 0 then
      redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[base + 3], '*', 'c', 'removed', 'b', body)
      redis.call('SET', KEYS[i], '-', 'EX', ARGV[base + 2])
      given[#given + 1] = 'removed'
    else
      redis.call('SET', KEYS[i], table.concat(left, ','), 'EX', ARGV[base + 2])
      if was_first then
        redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[base + 3], '*', 'c', 'moved', 'b', head .. left[1] .. tail)
        given[#given + 1] = 'moved'
      end
    end
  end
end
return given
"""
# ARGV: position, length of the stream, body.
GAP = """
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[base + 2], '*', 'c', 'gap', 'b', ARGV[base + 3])
move(ARGV[base + 1])
return {'ok'}
"""
# KEYS: positions, epochs. ARGV: how many slices are claimed; these; then slice and position of those that get one.
# Gives position and epoch of each claimed slice.
CLAIM = """
local count, given = tonumber(ARGV[1]), {}
for i = count + 2, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
for i = 2, count + 1 do
  given[#given + 1] = redis.call('HGET', KEYS[1], ARGV[i]) or '0'
  given[#given + 1] = redis.call('HINCRBY', KEYS[2], ARGV[i], 1)
end
return given
"""
# KEYS: stream, then one for each entry. ARGV: lifetime of what was seen; then cursor, change, body and slots of each
# entry. Entries that are not after the last one are in the stream already.
RESTORE = """
for i = 2, #KEYS do
  local id, change, body, slots = ARGV[4 * i - 6], ARGV[4 * i - 5], ARGV[4 * i - 4], ARGV[4 * i - 3]
  redis.pcall('XADD', KEYS[1], id, 'c', change, 'b', body)
  if slots ~= '' then redis.call('SET', KEYS[i], slots, 'EX', ARGV[1], 'NX') end
end
return #KEYS
"""
# KEYS: positions, began. ARGV: slice and position of each.
WHOLE = """
local now = redis.call('TIME')
redis.call('SET', KEYS[2], now[1] .. string.sub(string.format('%06d', now[2]), 1, 3), 'NX')
for i = 1, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
"""
# KEYS: wallets. ARGV: now, until, the most; then wallets. Gives 1 if they are watched.
WATCH_MORE = """
local fresh = 0
for i = 4, #ARGV do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if not score or tonumber(score) < tonumber(ARGV[1]) then fresh = fresh + 1 end
end
if fresh > 0 and redis.call('ZCOUNT', KEYS[1], ARGV[1], '+inf') + fresh > tonumber(ARGV[3]) then return 0 end
for i = 4, #ARGV do redis.call('ZADD', KEYS[1], ARGV[2], ARGV[i]) end
return 1
"""
