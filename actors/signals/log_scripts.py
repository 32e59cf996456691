"""The scripts that Redis runs for the signal log: each is one step that no other command interrupts.

Implements: decisions, "one signal"; threats 32 and 69. Redis 6.2 is enough. log.py says what each is for.

Scripts that write for a classifier begin with GUARD. KEYS: stream, positions, epochs, then those of the script. ARGV:
division, part, epoch and position of the claim; then those of the script, after `base`. A claim of an older division is
refused ("moved": the work is divided anew), and so is one with an older epoch than the stored one ("fenced": another
classifier owns the part). One with a newer division or epoch, or a higher position, knows more than Redis ("lost":
Redis has lost what was written last). positions has for each part its position, and under `r` and its number what it
reached.
"""

GUARD = """
local base = 4
local part, parts = ARGV[2], tonumber(string.match(ARGV[1], '/(%d+)$'))
local division = redis.call('HGET', KEYS[3], 'division') or '0/0'
if division ~= ARGV[1] then
  local newer = tonumber(string.match(division, '^%d+')) > tonumber(string.match(ARGV[1], '^%d+'))
  return {newer and 'moved' or 'lost', division}
end
local newest = tonumber(redis.call('HGET', KEYS[3], part) or '0') or 0
if newest > tonumber(ARGV[3]) then return {'fenced', part} end
local before = tonumber(redis.call('HGET', KEYS[2], part) or '0') or 0
if newest < tonumber(ARGV[3]) or before < tonumber(ARGV[4]) then return {'lost', part .. ' at ' .. before} end
local function move(position, reached)
  local fields = {}
  if tonumber(position) > before then fields = {part, position} end
  if parts > 1 and tonumber(reached) > tonumber(redis.call('HGET', KEYS[2], 'r' .. part) or '0') then
    fields[#fields + 1] = 'r' .. part
    fields[#fields + 1] = reached
  end
  if #fields > 0 then redis.call('HSET', KEYS[2], unpack(fields)) end
  if before == 0 and tonumber(position) > 0 then
    for other = 0, parts - 1 do redis.call('HSETNX', KEYS[2], other, position) end
  end
end
"""
# KEYS: one for each event. ARGV: position, slot that is reached, lifetime of what was seen, length of the stream; then
# slot and body of each event. Gives what the slowest of the other parts has reached ("" where there is none), and the
# cursor of each event, "" where it was known.
APPEND = """
local given = {'ok', ''}
for i = 4, #KEYS do
  local slot, body = ARGV[base + 2 * i - 3], ARGV[base + 2 * i - 2]
  local seen = redis.call('GET', KEYS[i])
  if not seen or seen == '-' then
    given[#given + 1] = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[base + 4], '*',
                                   'c', seen and 'restored' or 'event', 'b', body)
    redis.call('SET', KEYS[i], slot, 'EX', ARGV[base + 3])
  else
    given[#given + 1] = ''
    if not string.find(',' .. seen .. ',', ',' .. slot .. ',', 1, true) then
      redis.call('SET', KEYS[i], seen .. ',' .. slot, 'EX', ARGV[base + 3])
    end
  end
end
move(ARGV[base + 1], ARGV[base + 2])
if parts > 1 then
  local names, least = {}, nil
  for other = 0, parts - 1 do
    if tostring(other) ~= part then names[#names + 1] = 'r' .. other end
  end
  for _, reached in ipairs(redis.call('HMGET', KEYS[2], unpack(names))) do
    local slot = tonumber(reached or '0') or 0
    if not least or slot < least then least = slot end
  end
  given[2] = string.format('%.0f', least)
end
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
# ARGV: first and last slot of the gap, length of the stream, body. A gap that another part has told already, or that is
# inside that one, is not told again.
GAP = """
local from_slot, to_slot = tonumber(ARGV[base + 1]), tonumber(ARGV[base + 2])
local told_from, told_to = string.match(redis.call('HGET', KEYS[2], 'gap') or '', '^(%d+)-(%d+)$')
if not (told_from and tonumber(told_from) <= from_slot and tonumber(told_to) >= to_slot) then
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[base + 3], '*', 'c', 'gap', 'b', ARGV[base + 4])
  redis.call('HSET', KEYS[2], 'gap', ARGV[base + 1] .. '-' .. ARGV[base + 2])
end
move(ARGV[base + 2], string.format('%.0f', to_slot + 1))
return {'ok'}
"""
# KEYS: positions, epochs. ARGV: the division that is stored ('' for none), the number of parts, the epoch of the new
# division ('0': the next one), the number of positions; these; the length of a list of fields and their values that
# stay; these; names of epochs of releases before, which are raised. Gives the division that is stored now.
ARRANGE = """
local stored = redis.call('HGET', KEYS[2], 'division') or ''
if stored ~= ARGV[1] then return stored end
local epoch, older = tonumber(ARGV[3]), tonumber(string.match(stored, '^%d+') or '0')
if epoch <= older then
  local now = redis.call('TIME')
  epoch = math.max(older + 1, tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000))
end
local division = string.format('%.0f/%s', epoch, ARGV[2])
local at = 5
local fields = {}
for part = 0, tonumber(ARGV[4]) - 1 do
  local position = ARGV[at + part]
  for _, each in ipairs({part, position, 'r' .. part, string.format('%.0f', tonumber(position) + 1)}) do
    fields[#fields + 1] = each
  end
end
at = at + tonumber(ARGV[4])
local kept = tonumber(ARGV[at])
for i = at + 1, at + kept do fields[#fields + 1] = ARGV[i] end
redis.call('DEL', KEYS[1])
if #fields > 0 then redis.call('HSET', KEYS[1], unpack(fields)) end
for i = at + kept + 1, #ARGV do
  if redis.call('HEXISTS', KEYS[2], ARGV[i]) == 1 then redis.call('HINCRBY', KEYS[2], ARGV[i], 1) end
end
redis.call('HSET', KEYS[2], 'division', division)
return division
"""
# KEYS: epochs. ARGV: division, part. Gives the epoch of the claim; 0: there is another division now.
CLAIM = """
if redis.call('HGET', KEYS[1], 'division') ~= ARGV[1] then return 0 end
return redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
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
# KEYS: positions, epochs, began. ARGV: field and position of each. Positions of a division that stands are its own.
WHOLE = """
local now = redis.call('TIME')
redis.call('SET', KEYS[3], now[1] .. string.sub(string.format('%06d', now[2]), 1, 3), 'NX')
if redis.call('HEXISTS', KEYS[2], 'division') == 0 then
  for i = 1, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
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
