-- The state of a bucket, prepended after time.lua to every script that decides. The crate topup-twin has it in Rust.
-- Constants in capitals are declared in constants.rs; the script's text begins with them.
--
-- A counting bucket stands in the due index. Its score there is the instant up to which it has been credited, moved by
-- its backoff band. A bucket at rest (rest.lua) and an absent one stand in no index. After a change of terms the due
-- index becomes the previous index, until each of its buckets has been migrated (law 6). An absent bucket held `anchor`
-- tokens at the instant `anchored` and grows from there. A raised capacity therefore gives no tokens away.

local function microseconds()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- A whole number as text. The server's own conversion may write a large one with an exponent. `%d` is the fastest form,
-- but too short where Redis was built for 32 bits.
local format = string.format
local WHOLE = struct.size('l') == 8 and '%d' or '%.0f'
local function whole(number)
  return format(WHOLE, number)
end

-- The reply where the limit is not published, or not as this algorithm. A counter that a bare DECR has just made is
-- removed. A key that expires stays: the record may have been lost, and is restored soon.
local function unknown(state, now)
  if redis.call('PTTL', state) == -1 then redis.call('DEL', state) end
  return {-1, 0, 0, 0, 0, now, 0, 0}
end

-- Whether a number of a record is whole, from `least` to 2^53. Absurd terms would keep a script busy.
local function is_sound(number, least)
  return number and number >= least and number <= EXACT and number % 1 == 0
end

-- The record as a table; nil where there is none, one of another algorithm, or one with absurd numbers.
local function read_terms(record, algorithm)
  local f = redis.call('HMGET', record, 'algorithm', 'capacity', 'n', 'p', 'catch_up', 'tick', 'anchor', 'anchored',
    'former', 'filled', 'fills', 'terms', 'schedule')
  if f[1] ~= algorithm then return nil end
  local terms = {
    capacity = tonumber(f[2]), n = tonumber(f[3]), p = tonumber(f[4]), catch_up = f[5] == '1', tick = tonumber(f[6]),
    anchor = tonumber(f[7]), anchored = tonumber(f[8]), has_previous = f[9] == '1', filled = tonumber(f[10]),
    fills = tonumber(f[11]), schedule = f[13] or '',
  }
  local count = tonumber(f[12] or 1)
  local sound = is_sound(terms.capacity, 1) and is_sound(terms.n, 0) and is_sound(terms.p, 1)
    and is_sound(terms.tick, 0) and is_sound(terms.anchor, 0) and is_sound(terms.anchored, -EXACT)
    and is_sound(terms.filled, -EXACT) and is_sound(terms.fills, -EXACT) and is_sound(count, 0)
  if not sound then return nil end
  terms.count, terms.tag = count, format('%04d', count % TAGS)
  return terms
end

-- The instant of the first change of the schedule that no daemon has made, if its instant has come.
local function overdue(terms, now)
  local at = tonumber(string.match(terms.schedule or '', '^%d+'))
  if at and at <= now then return at end
end

-- The previous terms, the instant of the last change, and its effect on tokens.
local function read_previous_terms(record)
  local f = redis.call('HMGET', record, 'since', 'change', 'was_capacity', 'was_n', 'was_p', 'was_filled')
  return {
    since = tonumber(f[1]), change = f[2], capacity = tonumber(f[3]), n = tonumber(f[4]), p = tonumber(f[5]),
    filled = tonumber(f[6]),
  }
end

-- The instant at which a calendar quota was last filled. It may be `fills`, which no daemon has announced yet.
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
  if score > now + LATEST_START then
    -- The clock stepped back. The tokens owed cannot be known, so credit begins now.
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
  -- Debt is owed under any terms.
  if tokens < 0 then return tokens end
  if change == 'proportional' then
    if tokens >= capacity then return new_capacity end
    return math.floor(tokens * new_capacity / capacity)
  end
  return math.min(tokens, new_capacity)
end

-- Tokens and score under the present terms of a bucket that was last credited under the previous ones, `before`.
local function migrate(before, terms, tokens, score)
  local k, at = owed(score, before.since, before.n, before.p)
  local part = 0
  if tokens + k >= before.capacity or score < before.filled then
    tokens = before.capacity
  else
    tokens = tokens + k
    -- The next token keeps the share of its time that has passed.
    if at < before.since and before.n > 0 then part = math.min(1, (before.since - at) * before.n / before.p) end
  end
  local from = math.max(score, before.since)
  if terms.n > 0 then from = from - math.floor(part * terms.p / terms.n) end
  return converted(tokens, before.capacity, terms.capacity, before.change), start(from, terms.n, terms.p)
end

-- The same of a counter. Takes of a bucket at rest have met a counter that is above its capacity (rest.lua). Whether by
-- the previous or the present terms is unknown, so it counts as empty.
local function migrate_counter(before, terms, number, score)
  return migrate(before, terms, number <= before.capacity and math.max(0, number) or 0, score)
end

-- µs from `now` until k more tokens have come.
local function time_to(terms, score, k, now)
  if terms.n > 0 then return math.max(0, instant(score, k, terms.n, terms.p) - now) end
  if terms.fills > now then return terms.fills - now end
  -- No daemon has announced the quota's next filling yet.
  return QUOTA_RETRY
end

-- µs from `now` for which the bucket stays below full if nothing more is taken.
local function headroom(terms, score, tokens, now)
  if terms.n > 0 then return math.max(0, instant(score, terms.capacity - tokens, terms.n, terms.p) - now) end
  return math.max(0, terms.fills - now)
end

-- The shortest time in µs from the credit of a bucket to the instant at which it is due again. With catch-up, a settle
-- credits what it needs, and no daemon has to come sooner than after UNHURRIED µs. Without catch-up, only a daemon's
-- tick brings tokens, so a bucket is due as soon as it is owed one.
local function period_of(terms)
  if terms.n == 0 then return terms.tick end
  local token = math.ceil(terms.p / terms.n)
  return terms.catch_up and math.max(terms.tick, token, UNHURRIED) or token
end

-- Backoff bands. A bucket loses no token before it is full, so one that stays below full for long is credited less
-- often. Band 1 cannot be full for 5 periods and is credited every 4 of them. Band 2 cannot be full for 20, and is
-- credited every 16; the last band every 1024. The index is ordered by score, so each band stands apart: its score
-- there is moved by a multiple of BAND_WIDTH. Doubles are exact up to three times that, so bands above 2 stand below
-- 0. Without catch-up there are no bands, since takers would see the difference.

-- The offset of a band's scores in the index.
local function band_offset(band)
  return (band > 2 and 2 - band or band) * BAND_WIDTH
end

-- The same of a bucket that misses `missing` tokens, more than `near`.
local function offset_for(missing, near)
  local band, bound = 1, BAND_STRIDE * near
  while missing > bound and band < LAST_BAND do
    band, bound = band + 1, BAND_STRIDE * bound
  end
  return band_offset(band)
end

-- The tokens of 5 periods. A bucket that misses no more is in band 0.
local function near_of(terms)
  if terms.n == 0 or not terms.catch_up then return EXACT end
  return (BAND_STRIDE + 1) * math.ceil(period_of(terms) * terms.n / terms.p)
end

-- The score of a bucket in the index.
local function index_score(terms, tokens, score)
  local missing, near = terms.capacity - tokens, near_of(terms)
  return missing <= near and score or score + offset_for(missing, near)
end

-- The instant up to which a bucket with such a score in the index has been credited.
local function score_in_index(indexed)
  return indexed % BAND_WIDTH
end

-- Applies an operation to a bucket of `tokens`, below 0 where it is in debt. Returns the tokens after it, the verdict,
-- the tokens taken, and the tokens missing. A denied take misses its own tokens, a bucket without any misses one.
-- A charge takes up to `count`, as long as the debt is at most `most_debt` after it.
local function apply(terms, tokens, operation, count, most_debt)
  if operation == 'refund' then return math.min(terms.capacity, tokens + count), 1, 0, 0 end
  if operation == 'reset' then return terms.capacity, 1, 0, 0 end
  if operation == 'charge' then
    local granted = math.max(0, math.min(count, tokens + math.min(most_debt or 0, EXACT - terms.capacity)))
    return tokens - granted, 1, granted, math.max(0, 1 - tokens + granted)
  end
  if operation == 'share' then
    if tokens < 0 then return tokens, 0, 0, 1 - tokens end
    local granted = math.min(tokens, count)
    if granted < tokens then return tokens - granted, 1, granted, 0 end
    return 0, granted > 0 and 1 or 0, granted, 1
  end
  if count > terms.capacity then return tokens, -2, 0, 0 end
  if tokens < count then return tokens, 0, 0, count - tokens end
  if operation == 'peek' then return tokens, 1, 0, 0 end
  return tokens - count, 1, count, tokens == count and 1 or 0
end

-- Whether products of µs and tokens within a span are exact, and no two tokens fall on one µs. A rate of whole tokens
-- for each µs is exact too: only numbers above every capacity would not be.
local function is_exact(n, p)
  return n > 0 and (n <= p or p == 1) and n * p < EXACT
end

-- Whether buckets at rest of a token bucket are kept as numbers.
local function rests_as_number(terms)
  local capacity, n, p = terms.capacity, terms.n, terms.p
  return terms.catch_up and n > 0 and n <= NUMBER_MOST_TOKENS and p >= n * NUMBER_LEAST_TOKEN_TIME
    and capacity >= NUMBER_LEAST_CAPACITY and capacity <= NUMBER_MOST_CAPACITY
    and capacity * n <= p * NUMBER_MOST_PER_MICRO and capacity * p <= n * NUMBER_LONGEST_FILLING
end

-- Whether takes may have moved the full instant of a bucket by so many µs: whole tokens come in that time. A bucket
-- made anew begins at any µs. Where the time of a token is no whole µs, 2 µs more or less are no difference.
local function are_whole_tokens(terms, micros)
  local units = math.ceil(terms.p * AT_REST_UNIT / terms.n)
  local rest = micros * AT_REST_UNIT % units
  return math.min(rest, units - rest) <= (terms.n > 1 and 2 * AT_REST_UNIT or 0)
end

-- The packed terms of a token bucket or GCRA, 53 bytes, for settle_packed.lua, take_packed.lua and refill.lua. All but
-- the fifth and the sixth are doubles. Empty where these scripts would not be exact, an absent bucket is not full, or a
-- schedule changes the terms.
-- - capacity, n, p
-- - the kind: a token bucket, GCRA, or a token bucket without catch-up
-- - the form of a value at rest: - for a number, r for a text
-- - the tag
-- - the most tokens that a bucket in band 0 misses
-- - the period
local function packed_terms(algorithm, terms)
  local near, period, kind = 0, 0, GCRA_KIND
  if not is_exact(terms.n, terms.p) or terms.anchor < terms.capacity or terms.schedule ~= '' then return '' end
  if algorithm == 'token-bucket' then
    near, period, kind = near_of(terms), period_of(terms), terms.catch_up and TOKEN_BUCKET_KIND or NO_CATCH_UP_KIND
    if terms.has_previous or terms.catch_up and near >= EXACT then return '' end
  elseif algorithm ~= 'gcra' then
    return ''
  end
  local form = kind == TOKEN_BUCKET_KIND and rests_as_number(terms) and '-' or 'r'
  return struct.pack('<ddddc1c4dd', terms.capacity, terms.n, terms.p, kind, form, terms.tag, near, period)
end

-- The record of a token bucket as a table, from that field. It takes as long as reading two of the other fields. `tick`
-- is a period.
local function read_packed_terms(record)
  local packed = redis.call('HGET', record, 'packed')
  if not packed or #packed ~= PACKED_LENGTH then return nil end
  local capacity, n, p, kind, _, _, _, period = struct.unpack('<ddddc1c4dd', packed)
  if kind ~= TOKEN_BUCKET_KIND and kind ~= NO_CATCH_UP_KIND then return nil end
  if not (is_sound(capacity, 1) and is_sound(period, 1) and is_sound(n, 1) and is_sound(p, 1)) then return nil end
  return {
    capacity = capacity, n = n, p = p, catch_up = kind == TOKEN_BUCKET_KIND, tick = period, anchor = capacity,
    anchored = 0, has_previous = false, filled = 0, fills = 0,
  }
end
