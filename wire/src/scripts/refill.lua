-- Credits one slice of a limit's buckets, as of now: the daemon's pass. Runs after time.lua and bucket.lua.
-- KEYS  1 record  2 due index  3... counters of the buckets in the slice
-- ARGV  1 bytes before the member in a counter's key
-- Reply {credited, full, tokens, now}: buckets credited, those of them that are full and lost their keys, tokens given
--       (2^53 when more), and the instant of Redis.
-- Laws  1 3 4 5. A bucket not in the index, or not due (a tick has passed and a token is owed), is left alone, so any
--       number of daemons may send any slice at any time.
assert(#KEYS >= 3 and #ARGV == 1, 'refill takes at least 3 keys and 1 argument')
local record, due, prefix = KEYS[1], KEYS[2], tonumber(ARGV[1])

local now = microseconds()
local terms = read_terms(record, 'token-bucket')
if not terms then return {0, 0, 0, now} end

-- Once per bucket, so what is looked up each time has a name of its own here.
local members, sub = {}, string.sub
for i = 3, #KEYS do members[i - 2] = sub(KEYS[i], prefix + 1) end
local scores = redis.call('ZMSCORE', due, unpack(members))
local counts = redis.call('MGET', unpack(KEYS, 3))

local tonumber, capacity, tick = tonumber, terms.capacity, terms.tick
local may_vanish = absent(terms, now) >= capacity
-- A bucket that missed more than this was in use: it is kept for a tick after it is full, so that its workers may go on
-- with bare DECRs. A quota's filling is one for all, and nobody looks at its buckets a tick later.
local unused = terms.n == 0 and capacity or 1
local given, k, kept, moved, full, gone = 0, 0, {}, {}, {}, {}
for i = 1, #members do
  local score = tonumber(scores[i])
  -- Due after a tick; a score in the future is a clock that stepped back, and waits for nothing.
  if score and (now - score >= tick or score > now + 2) then
    local before = tonumber(counts[i] or 0)
    if before < 0 then before = 0 end
    local tokens, at = credit(terms, before, score, now)
    if at ~= score then
      if tokens > before then given = given + (tokens - before) end
      if tokens >= capacity and may_vanish and capacity - before <= unused then
        full[#full + 1] = members[i]
        gone[#gone + 1] = KEYS[i + 2]
      else
        kept[k + 1], kept[k + 2] = KEYS[i + 2], whole(tokens)
        moved[k + 1], moved[k + 2] = whole(at), members[i]
        k = k + 2
      end
    end
  end
end
if k > 0 then
  redis.call('MSET', unpack(kept))
  redis.call('ZADD', due, unpack(moved))
end
if #full > 0 then
  redis.call('UNLINK', unpack(gone))
  redis.call('ZREM', due, unpack(full))
end
return {k / 2 + #full, #full, math.min(given, EXACT), now}
