-- The state of a bucket, prepended after time.lua to every script that decides. Its twin is bucket/mod.rs.
--
-- A bucket that is a counter is in the due index with the instant up to which it has been credited. One at rest is in
-- none (rest.lua), and one that is absent is full. After a change of terms the due index of before is the former index
-- until each of its buckets has been carried over (law 6). An absent bucket held `anchor` tokens at the instant
-- `anchored` and grows from there: after a capacity was raised, "full" begins as what it was before.

local function microseconds()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Whole numbers as text: the server's own conversion may write large ones with an exponent. %d is the fastest, and
-- too short where Redis was built for 32 bits.
local format = string.format
local WHOLE = struct.size('l') == 8 and '%d' or '%.0f'
local function whole(number)
  return format(WHOLE, number)
end

-- What a limit answers that is not published, or not as this algorithm: it leaves no state behind.
local function unknown(state, now)
  -- A first take was made by the terms of a limit that Redis has just lost: forgotten, it could be made again. An
  -- integer at rest may be one, too (rest.lua).
  local held = redis.pcall('GET', state)
  local form = type(held) == 'string' and string.byte(held)
  if form ~= 102 and (form ~= 45 or #held ~= 20) then redis.call('DEL', state) end
  return {-1, 0, 0, 0, 0, now, 0, 0}
end

-- What the record says, or nil when it is not there or not of this algorithm.
local function read_terms(record, algorithm)
  local f = redis.call('HMGET', record, 'algorithm', 'capacity', 'n', 'p', 'catch_up', 'tick', 'anchor', 'anchored',
    'former', 'filled', 'fills', 'terms')
  if f[1] ~= algorithm then return nil end
  return {
    capacity = tonumber(f[2]), n = tonumber(f[3]), p = tonumber(f[4]), catch_up = f[5] == '1', tick = tonumber(f[6]),
    anchor = tonumber(f[7]), anchored = tonumber(f[8]), former = f[9] == '1', filled = tonumber(f[10]),
    fills = tonumber(f[11]), tag = format('%04d', tonumber(f[12] or 1) % 10000),
  }
end

-- The terms of before the last change, when it was, and what it does with tokens.
local function read_former_terms(record)
  local f = redis.call('HMGET', record, 'since', 'change', 'was_capacity', 'was_n', 'was_p', 'was_filled')
  return {
    since = tonumber(f[1]), change = f[2], capacity = tonumber(f[3]), n = tonumber(f[4]), p = tonumber(f[5]),
    filled = tonumber(f[6]),
  }
end

-- When a calendar quota was last filled: at `fills` too, should no daemon have been there to announce it.
local function last_filled(terms, now)
  if terms.fills > 0 and now >= terms.fills then return terms.fills end
  return terms.filled
end

-- The score of a bucket that stops being full at `now`.
local function fresh(terms, now)
  if terms.n == 0 then return math.max(now, last_filled(terms, now)) end
  return start(now, terms.n, terms.p)
end

-- Tokens and score of a bucket as of `now`.
local function credit(terms, tokens, score, now)
  if terms.n == 0 and score < last_filled(terms, now) then return terms.capacity, fresh(terms, now) end
  if score > now + 2 then
    -- The clock stepped back: what is owed cannot be known, so count from now.
    return math.min(tokens, terms.capacity), fresh(terms, now)
  end
  local k, at = owed(score, now, terms.n, terms.p)
  if tokens + k >= terms.capacity then return terms.capacity, fresh(terms, now) end
  return tokens + k, at
end

-- Tokens and score of an absent bucket as of `now`.
local function absent(terms, now)
  if terms.anchor >= terms.capacity then return terms.capacity, fresh(terms, now) end
  return credit(terms, terms.anchor, terms.anchored, now)
end

-- The instant from which an absent bucket is full; 0 unless its capacity was raised.
local function absent_full(terms)
  if terms.anchor >= terms.capacity then return 0 end
  return instant(terms.anchored, terms.capacity - terms.anchor, terms.n, terms.p)
end

-- Tokens under new terms of a bucket that holds `tokens` of `capacity`.
local function converted(tokens, capacity, new_capacity, change)
  if change == 'reset' then return new_capacity end
  if change == 'proportional' then
    if tokens >= capacity then return new_capacity end
    return math.floor(tokens * new_capacity / capacity)
  end
  return math.min(tokens, new_capacity)
end

-- Tokens and score under the present terms of a bucket last credited under the terms of before.
local function carry(before, terms, tokens, score)
  local k, at = owed(score, before.since, before.n, before.p)
  local part = 0
  if tokens + k >= before.capacity or score < before.filled then
    tokens = before.capacity
  else
    tokens = tokens + k
    -- The token under way keeps the share of it that has come.
    if at < before.since and before.n > 0 then part = math.min(1, (before.since - at) * before.n / before.p) end
  end
  local from = math.max(score, before.since)
  if terms.n > 0 then from = from - math.floor(part * terms.p / terms.n) end
  return converted(tokens, before.capacity, terms.capacity, before.change), start(from, terms.n, terms.p)
end

-- The same of a counter of so much. Above its capacity, takes of a bucket at rest have met it (rest.lua), by the terms
-- of before or the present ones: then it counts as empty.
local function carry_counter(before, terms, number, score)
  return carry(before, terms, number <= before.capacity and math.max(0, number) or 0, score)
end

-- µs from `now` until k more tokens have come.
local function time_to(terms, score, k, now)
  if terms.n > 0 then return math.max(0, instant(score, k, terms.n, terms.p) - now) end
  if terms.fills > now then return terms.fills - now end
  -- A quota whose next filling no daemon has announced yet: worth asking again in a second.
  return 1000000
end

-- µs from `now` for which the bucket stays below full if nothing more is taken.
local function headroom(terms, score, tokens, now)
  if terms.n > 0 then return math.max(0, instant(score, terms.capacity - tokens, terms.n, terms.p) - now) end
  return math.max(0, terms.fills - now)
end

-- The shortest time from being credited to being due again, in µs. With catch-up, takers credit what they need when
-- they need it: a tick or a token's time, but nobody has to come sooner than after UNHURRIED µs. Without, tokens come
-- with whoever comes each tick. A bucket that stopped being full after the last one is due, too, once it is owed one.
local UNHURRIED = 1600000
local function period_of(terms)
  if terms.n == 0 then return terms.tick end
  local token = math.ceil(terms.p / terms.n)
  return terms.catch_up and math.max(terms.tick, token, UNHURRIED) or token
end

-- A bucket loses no token before it is full, so one that cannot be full for a while is credited less often: not for 5
-- periods, every 4 (distance 1); not for 20, every 16 (distance 2), and so on, up to every 1024. The index is ordered
-- by score, where it would stand before those that are due sooner. So its place there is its score and so many times
-- FAR, which is beyond all instants until 2065; as numbers are exact up to three times that, distances above 2 are
-- below 0. Without catch-up, takers would see the difference.
local FAR, FARTHEST, STRIDE = 3000000000000000, 5, 4

-- What a place at such a distance has on the score.
local function offset_of(distance)
  return (distance > 2 and 2 - distance or distance) * FAR
end

-- The same where a bucket misses so many tokens, more than `near`.
local function offset_for(missing, near)
  local distance, bound = 1, STRIDE * near
  while missing > bound and distance < FARTHEST do
    distance, bound = distance + 1, STRIDE * bound
  end
  return offset_of(distance)
end

-- A bucket at rest becomes a counter when it misses so many tokens, and is below full for so many µs: then bare DECRs
-- will pay.
local COUNT_FROM, LEAST_AHEAD = 2, 5000

-- The tokens of 5 periods: a bucket that misses no more is near.
local function near_of(terms)
  if terms.n == 0 or not terms.catch_up then return EXACT end
  return (STRIDE + 1) * math.ceil(period_of(terms) * terms.n / terms.p)
end

-- Where a bucket stands in the index.
local function place(terms, tokens, score)
  local missing, near = terms.capacity - tokens, near_of(terms)
  return missing <= near and score or score + offset_for(missing, near)
end

-- The score of a bucket that stands there.
local function score_at(place)
  return place % FAR
end

-- What an operation makes of a bucket that holds `tokens`: the tokens after it, the verdict, the tokens taken, and how
-- many more it would take for the take that was denied, or for one of a single token now that none is left.
local function operate(terms, tokens, operation, count)
  if operation == 'refund' then return math.min(terms.capacity, tokens + count), 1, 0, 0 end
  if operation == 'reset' then return terms.capacity, 1, 0, 0 end
  if operation == 'share' then
    local granted = math.min(tokens, count)
    if granted < tokens then return tokens - granted, 1, granted, 0 end
    return 0, granted > 0 and 1 or 0, granted, 1
  end
  if count > terms.capacity then return tokens, -2, 0, 0 end
  if tokens < count then return tokens, 0, 0, count - tokens end
  if operation == 'peek' then return tokens, 1, 0, 0 end
  return tokens - count, 1, count, tokens == count and 1 or 0
end

-- Whether µs and tokens within a span can be multiplied exactly, and no two tokens fall on one µs. Or all of them do:
-- of so many for each µs, what would not be exact is more than any bucket holds.
local function is_plain(n, p)
  return n > 0 and (n <= p or p == 1) and n * p < EXACT
end

-- The terms in one field of the record, 53 bytes, for quick.lua, light.lua and refill.lua: doubles but for the fifth.
-- Empty unless they are such as these reckon with: then an absent bucket is full.
--   capacity, n, p
--   a kind: 4 a token bucket, 2 gcra, 0 a token bucket without catch-up
--   what a value at rest begins with under them, r and the tag
--   the tokens that are near
--   the period
local function packed_terms(algorithm, terms)
  local near, period, kind = 0, 0, 2
  if not is_plain(terms.n, terms.p) or terms.anchor < terms.capacity then return '' end
  if algorithm == 'token-bucket' then
    near, period, kind = near_of(terms), period_of(terms), terms.catch_up and 4 or 0
    if terms.former or terms.catch_up and near >= EXACT then return '' end
  elseif algorithm ~= 'gcra' then
    return ''
  end
  return struct.pack('<ddddc5dd', terms.capacity, terms.n, terms.p, kind, 'r' .. terms.tag, near, period)
end

-- What the record of a token bucket says, from that field: as long as it takes to read two of all the others. As the
-- tick, a period.
local function read_packed_terms(record)
  local packed = redis.call('HGET', record, 'packed')
  if not packed or #packed ~= 53 then return nil end
  local capacity, n, p, kind, _, _, period = struct.unpack('<ddddc5dd', packed)
  if kind ~= 4 and kind ~= 0 then return nil end
  return {
    capacity = capacity, n = n, p = p, catch_up = kind == 4, tick = period, anchor = capacity, anchored = 0,
    former = false, filled = 0, fills = 0,
  }
end
