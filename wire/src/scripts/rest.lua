-- Buckets at rest, of token_bucket.lua: the expiry of the key is the instant at which the bucket is full. Prepended
-- after bucket.lua. Its twin is bucket/rest.rs.
--
-- The value says which of three forms it has, and under which terms it was written: the last 4 digits of the record's
-- field `terms`, the tag. Instants are 16 digits.
--   f TAG count         a client's first take of a full bucket, by SET with an expiry and NX
--   r TAG full          full at that instant
--   h TAG full hold     the same, and no counter before the instant `hold`: tokens were put back
-- No such value is a number, so a bare DECR of it is an error and changes nothing.

-- Workers take by bare DECRs for a second after their last answer, and know nothing of what is put back meanwhile.
local HOLD = 1250000
-- No hold is longer, since no lease is: one that seems to be is by a clock that stepped back.
local LONGEST_HOLD = 62000000

-- What a value at rest says: form, tag, count or full instant, hold; nil when it is none.
local function parse_rest(text)
  local form, tag, digits = string.match(text or '', '^([frh])(%d%d%d%d)(%d+)$')
  if form == 'f' and #digits <= 16 or form == 'r' and #digits == 16 then return form, tag, tonumber(digits), 0 end
  if form == 'h' and #digits == 32 then
    return form, tag, tonumber(string.sub(digits, 1, 16)), tonumber(string.sub(digits, 17))
  end
end

-- The ms for which the key of a first take lives.
local function first_take_ms(under, count)
  local token = count % under.n
  local micros = (count - token) / under.n * under.p + falls(token, under.n, under.p)
  return math.floor((micros + (under.n > 1 and 3 or 0)) / 1000) + 2
end

-- The instant of the take that wrote a first take, at the earliest. The expiry is asked for before the time: so what is
-- made of the two is never before the expiry.
local function first_taken(under, state, count)
  local left = redis.call('PTTL', state)
  return (math.floor(microseconds() / 1000) + left - first_take_ms(under, count)) * 1000
end

-- Tokens and score as of `at` of a bucket that is full at `full`; and whether the clock stepped back, so that it is
-- empty and fills from `at`.
local function arrived(under, full, at)
  if full <= at then return under.capacity, full, false end
  local base, i, d = locate(full, under.n, under.p)
  local base_at, i_at, rest = locate(at - d, under.n, under.p)
  local missing = i - i_at
  -- Summed up so that nothing on the way is larger than the outcome.
  if base > base_at then missing = ((base - base_at) / under.p - 1) * under.n + (under.n - i_at) + i end
  if missing > under.capacity then return 0, start(at, under.n, under.p), true end
  return under.capacity - missing, at - rest, false
end

-- Writes a bucket at rest.
local function keep_at_rest(terms, state, full, hold, now)
  local text = string.format('r%s%016.0f', terms.tag, full)
  if hold > now then text = string.format('h%s%016.0f%016.0f', terms.tag, full, hold) end
  local till = math.max(full, hold, absent_full(terms))
  redis.call('SET', state, text, 'PXAT', whole(math.ceil(till / 1000)))
end
