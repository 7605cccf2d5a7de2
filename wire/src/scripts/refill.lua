-- Credits the due buckets of a shard, as of now: a slice of the daemon's pass. Runs after time.lua, bucket.lua and
-- rest.lua.
--
-- KEYS
-- 1. record
-- 2. due index
-- 3. the beginning of a counter's key; a member of the index follows it
--
-- ARGV
-- 1. most buckets
-- 2. 0 for due buckets only. An instant adds buckets of far bands that were last credited a period before it, and
--    buckets ahead of a clock that stepped back
--
-- Reply {credited, full, tokens, now, again}.
-- - credited: buckets credited
-- - full: credited buckets that are full and lost their keys
-- - tokens: tokens given, 2^53 if more
-- - again: the instant at which the next bucket is due, or `now` if more may be due
--
-- Laws  1 3 4 5. A bucket is due when its period has passed and a token is owed, so any number of daemons may call this
--       at any time. The counters are not declared as keys. Listing the buckets here saves a third of the cost, see
--       docs/design/refill.md.
assert(#KEYS == 3 and #ARGV == 2, 'refill takes 3 keys and 2 arguments')
local record, due, prefix = KEYS[1], KEYS[2], KEYS[3]
local most, all = tonumber(ARGV[1]), tonumber(ARGV[2])

local now = microseconds()
local terms = read_packed_terms(record) or read_terms(record, 'token-bucket')
if not terms then return {0, 0, 0, now, EXACT} end
-- Until a change that is overdue is made, settles credit.
if overdue(terms, now) then return {0, 0, 0, now, now + OVERDUE_RETRY} end

-- Buckets of one batch: a command takes no more arguments than Lua's stack has room for.
local BATCH = 1000

local capacity, n, p, period = terms.capacity, terms.n, terms.p, period_of(terms)
local fresh_now, may_vanish = fresh(terms, now), absent(terms, now) >= capacity
local near = near_of(terms)
-- In units where a µs is n and a token is p, times since the origin are exact. The origin is the beginning of a span at
-- most 2^53 units back. Credits since then need no long division, and no function call.
local exact = is_exact(n, p) and capacity <= EXACT / 2
local origin = exact and now - now % p - p * math.floor(EXACT / (n * p) - 1) or EXACT
local credited, full, given = 0, 0, 0
-- The earliest new score of a bucket in band 0, and the instant at which the next bucket of another band is due.
local earliest, again = EXACT, n == 0 and (terms.fills > now and terms.fills or now + period) or EXACT
-- The last number added to a counter, and its text. Most buckets are owed as much as the one before them.
local more, text

-- The instant at which a bucket with such a score in the index is due.
local function due_at(indexed)
  local band = math.floor(indexed / BAND_WIDTH)
  return indexed - band * BAND_WIDTH + period * BAND_STRIDE ^ (band < 0 and 2 - band or band)
end

-- Credits the buckets listed from the first on whose scores in the index are up to `to`. All are in the band of
-- `offset`. Returns the first row that is left.
local function batch(rows, first, offset, to)
  local type, capacity, n, p = type, capacity, n, p
  local moved, k, kept, leaving, gone = {}, 0, {}, {}, {}
  local i = first
  while i < #rows do
    local member, score = rows[i], tonumber(rows[i + 1])
    if score > to then break end
    score = score - offset
    local key = prefix .. member
    local before, come, tokens, at, at_rest
    local written = true
    if score >= origin and score <= now then
      -- As `owed` does.
      local past = (score - origin) * n
      local phase = past % p
      local present = (now - origin) * n - phase + phase % n
      local rest = present % p
      come = (present - rest - past + phase) / p
      at = now - (rest - rest % n) / n
      if come > capacity then come = capacity end
      if come ~= more then more, text = come, format(WHOLE, come) end
      tokens = redis.pcall('INCRBY', key, text)
      before = type(tokens) == 'number' and tokens - come
      if before and before <= -NUMBER_BASE then
        redis.call('DECRBY', key, text)
        before = nil
      end
    end
    if not before then
      -- The terms are not exact in these units, or the key is no counter.
      local value = redis.call('MGET', key)[1]
      at_rest, before, written = parse_rest(value), counted(terms, tonumber(value or 0) or 0), false
      tokens, at = credit(terms, before, score, now)
    elseif before < 0 or before > capacity then
      local held = counted(terms, before)
      before, tokens, written = held, held + come, false
    end
    if tokens >= capacity then tokens, at, written = capacity, fresh_now, false end
    if tokens > before and not at_rest then given = given + (tokens - before) end
    if at_rest then
      -- Its counter was evicted, and a worker took the bucket for full. It belongs in no index.
      leaving[#leaving + 1] = member
    elseif tokens >= capacity and may_vanish then
      leaving[#leaving + 1], gone[#gone + 1] = member, key
    else
      -- As `index_score` does.
      local missing = capacity - tokens
      if missing <= near then
        if at < earliest then earliest = at end
      else
        at = at + offset_for(missing, near)
        again = math.min(again, due_at(at))
      end
      -- The server may write the number with an exponent, but reads the same number again.
      moved[k + 1], moved[k + 2] = at, member
      k = k + 2
      if not written then kept[#kept + 1], kept[#kept + 2] = key, format(WHOLE, tokens) end
    end
    i = i + 2
  end
  if #kept > 0 then redis.call('MSET', unpack(kept)) end
  if k > 0 then redis.call('ZADD', due, unpack(moved)) end
  if #gone > 0 then redis.call('UNLINK', unpack(gone)) end
  if #leaving > 0 then redis.call('ZREM', due, unpack(leaving)) end
  credited, full = credited + (i - first) / 2, full + #gone
  return i
end

-- From band to band. The first bucket that is not due ends its band. A score of no band is left to clean.lua.
local from, beyond = whole(-LAST_BAND_OFFSET), '(' .. whole(LAST_BAND_OFFSET)
while from and credited < most do
  local count = math.min(BATCH, most - credited)
  local rows = redis.call('ZRANGEBYSCORE', due, from, beyond, 'WITHSCORES', 'LIMIT', 0, count)
  local i = 1
  if #rows < 2 * count then from = nil end
  while i < #rows do
    local indexed = tonumber(rows[i + 1])
    local offset = indexed - indexed % BAND_WIDTH
    local bound = math.max(now - due_at(offset), math.min(now, all) - period)
    if n == 0 then bound = math.min(now - period, last_filled(terms, now) - 1) end
    if all > 0 and indexed > offset + now + LATEST_START then bound = BAND_WIDTH end
    if indexed > offset + bound then
      if n > 0 then again = math.min(again, due_at(indexed)) end
      local skipped = offset + (all > 0 and now + LATEST_START + 1 or BAND_WIDTH)
      repeat i = i + 2 until i > #rows or tonumber(rows[i + 1]) >= skipped
      from = from and whole(skipped)
    else
      i = batch(rows, i, offset, offset + bound)
    end
  end
end
if from then return {credited, full, math.min(given, EXACT), now, now} end
if n > 0 then again = math.min(again, earliest + period) end
return {credited, full, math.min(given, EXACT), now, again}
