-- Credits the buckets of a shard that are due, as of now and as many as a fraction of a millisecond allows: a slice of
-- the daemon's pass. Runs after time.lua and bucket.lua.
-- KEYS  1 record  2 due index  3 what the key of a counter begins with; the members of the index follow it
-- ARGV  1 most buckets  2 an instant: also those last credited a period before it that are not due yet for being far
--       from full, and those ahead of a clock stepped back; 0: only those due
-- Reply {credited, full, tokens, now, again}: buckets credited, those of them that are full and lost their keys, tokens
--       given (2^53 when more), the instant of Redis, and when the next of the buckets there are is due: now, when
--       there may be more already.
-- Laws  1 3 4 5. A bucket is due when a tick has passed and a token is owed, so any number of daemons may send this at
--       any time. The counters are not declared as keys: listing the buckets here saves a third (ARCHITECTURE.md).
assert(#KEYS == 3 and #ARGV == 2, 'refill takes 3 keys and 2 arguments')
local record, due, prefix = KEYS[1], KEYS[2], KEYS[3]
local most, all = tonumber(ARGV[1]), tonumber(ARGV[2])

local now = microseconds()
local terms = read_terms(record, 'token-bucket')
if not terms then return {0, 0, 0, now, EXACT} end

-- So many buckets at a time, and no more once this many µs have been spent. Where TIME stands still while a script
-- runs there is another clock; where there is none, `most` is the bound.
local BATCH, BUDGET = 80, 250
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
-- Where a µs counts n and a token p, all from an instant on are numbers that are exact: the beginning of a span, 2^53
-- back. So what came since then needs no long division, and no call.
local plain = is_plain(n, p) and capacity <= EXACT / 2
local origin = plain and now - now % p - p * math.floor(EXACT / (n * p) - 1) or EXACT
local credited, full, given, nearer = 0, 0, 0, EXACT
-- What was last added to a counter, and its text: most are owed as much as the one before them.
local more, text

-- When a bucket that stands there is due.
local function due_at(place)
  local band = math.floor(place / FAR)
  return place - band * FAR + period * STRIDE ^ (band < 0 and 2 - band or band)
end

-- Credits up to `count` buckets whose places are `from` to `to` and have `offset` on their scores: how many there were.
local function batch(offset, from, to, count)
  local rows = redis.call('ZRANGEBYSCORE', due, from, to, 'WITHSCORES', 'LIMIT', 0, count)
  if #rows == 0 then return 0 end
  local type, capacity, n, p = type, capacity, n, p
  local moved, k, kept, leaving, gone = {}, 0, {}, {}, {}
  for i = 1, #rows, 2 do
    local member, score = rows[i], rows[i + 1] - offset
    local key = prefix .. member
    local before, tokens, at
    local written = true
    if score >= origin and score <= now then
      -- As `owed` does.
      local past = (score - origin) * n
      local phase = past % p
      local present = (now - origin) * n - phase + phase % n
      local rest = present % p
      local come = (present - rest - past + phase) / p
      at = now - (rest - rest % n) / n
      if come > capacity then come = capacity end
      if come ~= more then more, text = come, format(WHOLE, come) end
      tokens = redis.pcall('INCRBY', key, text)
      before = type(tokens) == 'number' and tokens - come
    end
    if not before then
      -- Not so simple, or no number.
      before, written = math.max(0, tonumber(redis.call('MGET', key)[1] or 0) or 0), false
      tokens, at = credit(terms, before, score, now)
    elseif before < 0 then
      before, tokens, written = 0, tokens - before, false
    end
    if tokens >= capacity then tokens, at, written = capacity, fresh_now, false end
    if tokens > before then given = given + (tokens - before) end
    if tokens >= capacity and may_vanish and capacity - before <= unused then
      leaving[#leaving + 1], gone[#gone + 1] = member, key
    else
      -- As `place` does.
      local missing = capacity - tokens
      if missing <= ease then
        at = at + off
      elseif missing > near then
        at = at + offset_for(missing, near)
      end
      -- Now standing before where this pass still looks for those due next.
      if at < offset and n > 0 then nearer = math.min(nearer, due_at(at)) end
      -- However the server writes a number, it reads what it was.
      moved[k + 1], moved[k + 2] = at, member
      k = k + 2
      if not written then kept[#kept + 1], kept[#kept + 2] = key, format(WHOLE, tokens) end
    end
  end
  if #kept > 0 then redis.call('MSET', unpack(kept)) end
  if k > 0 then redis.call('ZADD', due, unpack(moved)) end
  if #gone > 0 then
    redis.call('UNLINK', unpack(gone))
    redis.call('ZREM', due, unpack(leaving))
  end
  credited, full = credited + #rows / 2, full + #gone
  return #rows / 2
end

-- Whether that is all there is, and time is left for more.
local function done(offset, from, to)
  while true do
    local count = math.min(BATCH, most - credited)
    if count > 0 and batch(offset, from, to, count) < count then return true end
    if count <= 0 or spent() > BUDGET then return false end
  end
end

-- The first place taken from there on.
local function first(from)
  return tonumber(redis.call('ZRANGEBYSCORE', due, whole(from), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

-- From place to place, so that distances at which no bucket is cost nothing.
local again = n == 0 and (terms.fills > now and terms.fills or now + period) or EXACT
local place = first(offset_of(FARTHEST))
while place do
  local offset = place - place % FAR
  local bound = math.max(now - due_at(offset), math.min(now, all) - period)
  if n == 0 then bound = math.min(now - period, last_filled(terms, now) - 1) end
  if all > 0 or place <= offset + bound then
    local ended = done(offset, whole(offset), whole(offset + bound))
      and (all == 0 or done(offset, '(' .. whole(offset + now + 2), '(' .. whole(offset + FAR)))
    if not ended then return {credited, full, math.min(given, EXACT), now, now} end
    place = first(offset)
  end
  if n > 0 and place and place < offset + FAR then again = math.min(again, due_at(place)) end
  place = place and first(offset + FAR)
end
return {credited, full, math.min(given, EXACT), now, math.min(again, nearer)}
