-- Buckets at rest, of token_bucket.lua: the expiry of the key is the instant at which the bucket is full. Prepended
-- after bucket.lua. Its twin is bucket/rest.rs.
--
-- The value says which of four forms it has, and under which terms it was written: the last 4 digits of the record's
-- field `terms`, the tag. Instants are 16 digits.
--   - D full NN         full at that instant: one integer, D is tag % 8 + 1
--   f TAG count         a client's first take of a full bucket, by SET with an expiry and NX
--   r TAG full          full at that instant
--   h TAG full hold     the same, and no counter before the instant `hold`: tokens were put back
-- The last three are no numbers, so a bare DECR of them is an error and changes nothing.
--
-- The integer is written of a limit that `rests_as_number`. Workers take k tokens of it by DECRBY of k * p * 100, and
-- learn the full instant after that; a take that found no token is given back. NN is noise: a bare DECR that comes late
-- adds to it. Such a DECRBY may also meet a counter. No counter is as large as p * 100: the remainder says what it was.

-- Workers take by bare DECRs for a second after their last answer, and know nothing of what is put back meanwhile.
local HOLD = 1250000
-- No hold is longer, since no lease is: one that seems to be is by a clock that stepped back.
local LONGEST_HOLD = 62000000

-- Takes of a bucket at rest that found no token are given back within this. A script that forgets them writes no
-- integer meanwhile, so that nothing can be given back.
local GIVING_BACK = 250000

-- Whether buckets at rest of a token bucket are kept as integers.
local function rests_as_number(terms)
  local capacity, p = terms.capacity, terms.p
  return terms.catch_up and terms.n == 1 and p >= 10000 and capacity >= 3 and capacity <= 100000
    and capacity * p <= 100000000000000
end

-- The tokens of a counter that holds such a number, and whether takes of a bucket at rest have met it.
local function counted(terms, number)
  local met = rests_as_number(terms) and (number > terms.capacity or number < -50 * terms.p)
  if met then
    number = number > -EXACT and number < EXACT and number % (100 * terms.p) or 0
    -- It was below 0.
    if number > terms.capacity then number = 0 end
  end
  return math.max(0, number), met
end

-- What a value at rest says: form, tag, count or full instant, hold; nil when it is none. An integer is of form r, and
-- has the tag `present` or none.
local function parse_rest(text, present)
  if text and #text == 20 and string.byte(text) == 45 then
    local same = present and tonumber(string.sub(text, 2, 2)) == present % 8 + 1
    return 'r', same and present or '', tonumber(string.sub(text, 3, 18)), 0
  end
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

-- Writes a bucket at rest, as an integer if it may be one.
local function keep_at_rest(terms, state, full, hold, now, as_number)
  local text
  local absent_till = absent_full(terms)
  if hold > now then
    text = string.format('h%s%016.0f%016.0f', terms.tag, full, hold)
  elseif as_number and absent_till == 0 then
    text = string.format('-%d%016.0f00', terms.tag % 8 + 1, full)
  else
    text = string.format('r%s%016.0f', terms.tag, full)
  end
  local till = math.max(full, hold, absent_till)
  redis.call('SET', state, text, 'PXAT', whole(math.ceil(till / 1000)))
end
