-- Credits the buckets of a shard that are due, as of now and as many as a fraction of a millisecond allows: a slice of
-- the daemon's pass. Runs after time.lua and bucket.lua.
-- KEYS  1 record  2 due index  3 what the key of a counter begins with; the members of the index follow it
-- ARGV  1 most buckets  2 1: also those not due yet for being far from full, and those ahead of a clock stepped back
-- Reply {credited, full, tokens, now, again}: buckets credited, those of them that are full and lost their keys, tokens
--       given (2^53 when more), the instant of Redis, and when the next of the buckets there are is due: now, when
--       there may be more already.
-- Laws  1 3 4 5. A bucket is due when a tick has passed and a token is owed, so any number of daemons may send this at
--       any time. The counters are not declared as keys: listing the buckets here saves a third (ARCHITECTURE.md).
assert(#KEYS == 3 and #ARGV == 2, 'refill takes 3 keys and 2 arguments')
local record, due, prefix = KEYS[1], KEYS[2], KEYS[3]
local most, all = tonumber(ARGV[1]), ARGV[2] == '1'

local now = microseconds()
local terms = read_terms(record, 'token-bucket')
if not terms then return {0, 0, 0, now, EXACT} end

-- So many buckets at a time, and no more once this many µs have been spent. Where TIME stands still while a script runs
-- there is another clock; where there is none, `most` is the bound.
local BATCH, BUDGET = 40, 150
local os = rawget(_G, 'os')
local begun = os and os.clock()
local function spent()
  if os then return (os.clock() - begun) * 1000000 end
  return microseconds() - now
end

local capacity, n, p, period = terms.capacity, terms.n, terms.p, period_of(terms)
local fresh_now, may_vanish = fresh(terms, now), absent(terms, now) >= capacity
local near, ease, off = near_of(terms)
-- A bucket that missed more than this was in use: it is kept for a tick after it is full, so that its workers may go on
-- with bare DECRs. A quota's filling is one for all, and nobody looks at its buckets a tick later.
local unused = n == 0 and capacity or 1
-- Rates for which a span's tokens times its µs are exact need no long division, and no call.
local plain = n > 0 and n <= p and n * p < EXACT
local credited, full, given, nearer = 0, 0, 0, EXACT

-- Credits up to `count` buckets whose places are `from` to `to` and `distance` away: how many there were.
local function batch(distance, from, to, count)
  local offset = distance * FAR
  local rows = redis.call('ZRANGEBYSCORE', due, from, to, 'WITHSCORES', 'LIMIT', 0, count)
  if #rows == 0 then return 0 end
  local tonumber, format, WHOLE, capacity, n, p = tonumber, format, WHOLE, capacity, n, p
  local keys, j = {}, 0
  for i = 1, #rows, 2 do
    j = j + 1
    keys[j] = prefix .. rows[i]
  end
  local counts = redis.call('MGET', unpack(keys))
  local kept, moved, k, leaving, gone = {}, {}, 0, {}, {}
  for i = 1, j do
    local before, score = tonumber(counts[i]) or 0, rows[2 * i] - offset
    if before < 0 then before = 0 end
    local tokens, at
    if plain and score <= now then
      -- As `owed` does.
      local into = score % p
      local rest = into * n % p
      local fallen = (into * n - rest) / p
      local base = score - into
      local reached = now - (rest - rest % n) / n
      into = reached % p
      rest = into * n % p
      tokens = before + (((reached - into - base) / p - 1) * n + (n - fallen) + (into * n - rest) / p)
      if tokens >= capacity then
        tokens, at = capacity, fresh_now
      else
        at = now - (rest - rest % n) / n
      end
    else
      tokens, at = credit(terms, before, score, now)
    end
    if tokens > before then given = given + (tokens - before) end
    if tokens >= capacity and may_vanish and capacity - before <= unused then
      leaving[#leaving + 1], gone[#gone + 1] = rows[2 * i - 1], keys[i]
    else
      -- As `place` does.
      local missing = capacity - tokens
      if missing <= ease then
        at = at + off
      elseif missing > near then
        at = at + (missing > STRIDE * near and 2 * FAR or FAR)
      end
      -- Now nearer than where this pass still looks for those due next.
      if at < offset and n > 0 then nearer = math.min(nearer, at % FAR + period * (at < FAR and 1 or STRIDE)) end
      kept[k + 1], kept[k + 2] = keys[i], format(WHOLE, tokens)
      moved[k + 1], moved[k + 2] = format(WHOLE, at), rows[2 * i - 1]
      k = k + 2
    end
  end
  if k > 0 then
    redis.call('MSET', unpack(kept))
    redis.call('ZADD', due, unpack(moved))
  end
  if #gone > 0 then
    redis.call('UNLINK', unpack(gone))
    redis.call('ZREM', due, unpack(leaving))
  end
  credited, full = credited + j, full + #gone
  return j
end

-- Whether that is all there is, and time is left for more.
local function done(distance, from, to)
  while true do
    local count = math.min(BATCH, most - credited)
    if count > 0 and batch(distance, from, to, count) < count then return true end
    if count <= 0 or spent() > BUDGET then return false end
  end
end

-- The first place taken, so far away or farther.
local function first(distance)
  return tonumber(redis.call('ZRANGEBYSCORE', due, whole(distance * FAR), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

-- From place to place, so that distances at which no bucket is cost nothing.
local from, again = 0, n == 0 and (terms.fills > now and terms.fills or now + period) or EXACT
while from <= FARTHEST do
  local place = first(from)
  if not place then break end
  local distance = math.floor(place / FAR)
  local offset, stride = distance * FAR, period * STRIDE ^ distance
  local bound = now - (all and period or stride)
  if n == 0 then bound = math.min(now - period, last_filled(terms, now) - 1) end
  if all or place <= offset + bound then
    local ended = done(distance, whole(offset), whole(offset + bound))
      and (not all or done(distance, '(' .. whole(offset + now + 2), '(' .. whole(offset + FAR)))
    if not ended then return {credited, full, math.min(given, EXACT), now, now} end
    place = first(distance)
  end
  if n > 0 and place and place < offset + FAR then again = math.min(again, place - offset + stride) end
  from = distance + 1
end
return {credited, full, math.min(given, EXACT), now, math.min(again, nearer)}
