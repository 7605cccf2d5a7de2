-- Permits of a limit with algorithm "concurrency": acquires, renews and releases them, and grants free places to the
-- first waiters.
--
-- A key has three sorted sets. An id ends in its number of permits, as in ID-3.
-- - `holders` has a member for each place, scored by the instant until which it is taken. A holder of 3 has the members
--   `ID-3`, `ID-3:2` and `ID-3:3`.
-- - `order` has the ids of waiters, scored by their turn.
-- - `leases` has the ids of waiters, scored by the instant until which each counts as alive.
--
-- KEYS
-- 1. record
-- 2. index of the shard, with the keys that have holders or waiters, scored by the last instant in their sets
-- 3. and on, for each key, holders, order and leases
--
-- ARGV
-- 1. operation: acquire, renew, release or peek
-- 2. 1 if the id may wait (acquire), else 0
-- 3. and on, for each key, a number of ids, then the ids
--
-- Reply {now, ttl, limit, held, waiting, wait, states, granted}. Held, waiting and wait are of the first key.
-- - ttl: 0 if no such limit is published
-- - wait: µs until the time of the first holder is over
-- - states: of each id, 1 holds, 2 waits, 0 neither, -2 asks for more than the limit. Release tells the state before
-- - granted: the ids that this call moved from waiting to holding
--
-- Laws  4 7.
--       1. Never more than `limit` holders, unless the limit was lowered. A lease once told is never shortened. A
--       holder that counts from the sending of its renewal therefore ends before its place does.
--       5. After a step of the clock back, no place is taken for longer than the longest ttl that may apply.
--       FIFO. A place goes to the first waiter that is alive, and no call overtakes waiters.
--       Once. A holder whose time is over is not renewed, and its release frees nothing.
assert(#KEYS >= 5 and #KEYS % 3 == 2 and #ARGV >= 3, 'permits takes a record, an index, keys by three, and ids')
local record, index, operation = KEYS[1], KEYS[2], ARGV[1]
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
local function text(number) return string.format('%.0f', number) end

local f = call('HMGET', record, 'algorithm', 'capacity', 'permit_ttl', 'permit_longest', 'since')
local limit, ttl = tonumber(f[2]), tonumber(f[3])
if f[1] ~= 'concurrency' or not limit or not ttl or ttl <= 0 then return {now, 0, 0, 0, 0, 0, {}, {}} end

if operation == 'peek' then
  local after = '(' .. text(now)
  local held, waiting = call('ZCOUNT', KEYS[3], after, '+inf'), call('ZCOUNT', KEYS[5], after, '+inf')
  return {now, ttl, limit, held, waiting, 0, {}, {}}
end

-- A lowered ttl does not end what was told before.
local longest, since = math.max(ttl, tonumber(f[4] or 0) or 0), tonumber(f[5] or 0) or 0
if now >= since + longest then longest = ttl end
local lease = math.min(ttl, WAITER_LEASE)

local function permits_of(id) return tonumber(string.match(id, '%-(%d+)$') or 1) end
local function member(id, i) return i == 1 and id or id .. ':' .. i end
local function hold(holders, id, till)
  for i = 1, permits_of(id) do call('ZADD', holders, text(till), member(id, i)) end
end
-- The members of `set` with scores in a range leave it, and `also` if that is given.
local function leave(set, also, from, to)
  local over = call('ZRANGEBYSCORE', set, from, to, 'LIMIT', 0, 1000)
  if #over > 0 then
    call('ZREM', set, unpack(over))
    if also then call('ZREM', also, unpack(over)) end
  end
end
local function last(set)
  local member = call('ZRANGE', set, -1, -1)[1]
  return member and tonumber(call('ZSCORE', set, member))
end
-- No instant lies farther ahead than `most`, unless the clock stepped back.
local function clamp(set, most)
  if call('ZCOUNT', set, '(' .. text(now + most), '+inf') == 0 then return end
  for _, one in ipairs(call('ZRANGEBYSCORE', set, '(' .. text(now + most), '+inf')) do
    call('ZADD', set, text(now + most), one)
  end
end

local states, granted = {}, {}
local first = {0, 0, 0}

local function work(holders, order, leases, from, count)
  for i, set in ipairs({holders, order, leases}) do
    local kind = call('TYPE', set).ok
    if kind ~= 'zset' and kind ~= 'none' then call('DEL', set) end
  end
  call('ZREMRANGEBYSCORE', holders, '-inf', text(now))
  clamp(holders, longest)
  local queued = call('EXISTS', order) == 1
  if queued then
    clamp(leases, longest)
    leave(leases, order, '-inf', text(now))
  end
  local held = call('ZCARD', holders)

  local function grant()
    while queued do
      local id = call('ZRANGE', order, 0, 0)[1]
      local permits = id and permits_of(id)
      local till = id and tonumber(call('ZSCORE', leases, id) or nil)
      if not id or till and permits <= limit and held + permits > limit then break end
      if till and permits <= limit then
        hold(holders, id, till)
        held = held + permits
        granted[#granted + 1] = id
      end
      call('ZREM', order, id)
      call('ZREM', leases, id)
    end
  end

  if operation ~= 'release' then grant() end
  for i = from, from + count - 1 do
    local id = ARGV[i]
    local permits, till = permits_of(id), tonumber(call('ZSCORE', holders, id) or nil)
    local waits = not till and queued and tonumber(call('ZSCORE', leases, id) or nil)
    local state = till and 1 or waits and 2 or 0
    if operation == 'release' then
      if till then
        for j = 1, permits do held = held - call('ZREM', holders, member(id, j)) end
      elseif waits then
        call('ZREM', order, id)
        call('ZREM', leases, id)
      end
    elseif till then
      hold(holders, id, math.max(till, now + ttl))
    elseif waits then
      call('ZADD', leases, text(math.max(waits, now + lease)), id)
    elseif operation == 'acquire' then
      local waiting = call('ZCARD', order)
      if permits > limit or permits < 1 then
        state = -2
      elseif waiting == 0 and held + permits <= limit then
        hold(holders, id, now + ttl)
        held, state = held + permits, 1
      elseif ARGV[2] == '1' and waiting < MOST_WAITERS then
        call('ZADD', order, text((last(order) or 0) + 1), id)
        call('ZADD', leases, text(now + lease), id)
        queued, state = true, 2
      end
    end
    states[#states + 1] = state
  end
  if operation == 'release' then grant() end

  local till = 0
  for _, set in ipairs({holders, leases}) do
    local over = last(set)
    if over then
      call('PEXPIREAT', set, text(math.ceil(over / 1000) + 1))
      if set == leases then call('PEXPIREAT', order, text(math.ceil(over / 1000) + 1)) end
      till = math.max(till, over)
    end
  end
  -- Both begin with the same prefix, which `permits` follows in the one and `p:` in the other.
  local key = string.sub(holders, #index - 4)
  if till > 0 then call('ZADD', index, text(till), key) else call('ZREM', index, key) end
  local next_over = call('ZRANGE', holders, 0, 0)[1]
  return {held, queued and call('ZCARD', order) or 0, next_over and call('ZSCORE', holders, next_over) - now or 0}
end

if call('TYPE', index).ok ~= 'zset' then call('DEL', index) end
local at = 3
for i = 3, #KEYS, 3 do
  local count = tonumber(ARGV[at])
  local counts = work(KEYS[i], KEYS[i + 1], KEYS[i + 2], at + 1, count)
  if i == 3 then first = counts end
  at = at + 1 + count
end
call('ZREMRANGEBYSCORE', index, '-inf', text(now))
local till = last(index)
if till then call('PEXPIREAT', index, text(math.ceil(till / 1000) + 1)) end
return {now, ttl, limit, first[1], first[2], first[3], states, granted}
