-- Buckets at rest, of token_bucket.lua. The key expires when the bucket is full, or a little later. Prepended after
-- bucket.lua. The crate topup-twin has it in Rust.
--
-- A value has one of five forms. It names its terms by the tag: the last 4 digits of the record's field `terms`.
-- Instants have 16 digits.
-- - `- D full NN`         full at that instant, as one integer. D is tag % 8 + 1
-- - `f TAG count`         a client's first take of a full bucket, by SET with an expiry and NX
-- - `r TAG full`          full at that instant
-- - `h TAG full hold`     the same, and no counter before the instant `hold`, since tokens were put back. `hold` is odd
--                         if callers have put tokens in since it is held
-- - `d TAG at hold debt`  in debt by `debt` tokens at the instant `at`, and no counter before `hold`, unless that is 0
--
-- The last four are no integers, so a bare DECR of them is an error and changes nothing.
--
-- The integer is a number at rest, see `rests_as_number` in bucket.lua. A worker takes k tokens of it by DECRBY of k
-- times the time of a token in hundredths of a µs. The reply tells the full instant after the take. A take that found
-- no token is given back. NN are hundredths of a µs, which bare DECRs that come late add, too. Scripts round them up. A
-- DECRBY may also meet a counter. No counter is as large as the units of a token, so the remainder tells its tokens.

-- By how much a native take of one token moves the number of a bucket at rest.
local function units_at_rest(terms)
  local rest = terms.p % terms.n
  return (terms.p - rest) / terms.n * AT_REST_UNIT + math.ceil(rest * AT_REST_UNIT / terms.n)
end

-- The time for which a number's key lives after the full instant.
local function early_at_rest(terms)
  local part = NUMBER_EARLY_PART * terms.n
  return math.min((terms.p - terms.p % part) / part, NUMBER_MOST_EARLY)
end

-- The tokens of a counter that holds `number`, and whether takes of a bucket at rest have met it.
local function counted(terms, number)
  local units = rests_as_number(terms) and units_at_rest(terms)
  local met = units and (number > terms.capacity or number < -units / 2)
  if met then
    number = number > -EXACT and number < EXACT and number % units or 0
    -- The counter was below 0.
    if number > terms.capacity then number = 0 end
  end
  return math.max(0, number), met
end

-- Parses a value at rest. Returns form, tag, count or full instant, and hold, or nil where `text` is none. A number at
-- rest has form r. Its tag is `present`, or empty where it names other terms. A bucket in debt has form d, with tag,
-- debt, hold, and the instant of the debt.
local function parse_rest(text, present)
  if text and #text == NUMBER_LENGTH and string.byte(text) == NUMBER_FORM then
    local same = present and tonumber(string.sub(text, 2, 2)) == present % NUMBER_TERMS + 1
    local full = tonumber(string.sub(text, 3, 18))
    return 'r', same and present or '', string.sub(text, 19) == '00' and full or full + 1, 0
  end
  local form, tag, digits = string.match(text or '', '^([frhd])(%d%d%d%d)(%d+)$')
  if form == 'f' and #digits <= 16 or form == 'r' and #digits == 16 then return form, tag, tonumber(digits), 0 end
  if form == 'h' and #digits == 32 then
    return form, tag, tonumber(string.sub(digits, 1, 16)), tonumber(string.sub(digits, 17))
  end
  if form == 'd' and #digits > 32 and #digits <= 48 then
    local at, hold = tonumber(string.sub(digits, 1, 16)), tonumber(string.sub(digits, 17, 32))
    return form, tag, tonumber(string.sub(digits, 33)), hold, at
  end
end

-- Time to live, in ms, of the key of a first take.
local function first_take_ms(under, count)
  local token = count % under.n
  local micros = (count - token) / under.n * under.p + falls(token, under.n, under.p)
  return math.floor((micros + (under.n > 1 and FIRST_TAKE_LATE or 0)) / 1000) + FIRST_TAKE_EXTRA_MS
end

-- The earliest instant at which a first take may have been written. The expiry is read before the time, so the sum of
-- the two is never before the expiry.
local function first_taken(under, state, count)
  local left = redis.call('PTTL', state)
  return (math.floor(microseconds() / 1000) + left - first_take_ms(under, count)) * 1000
end

-- Tokens and score as of `at` of a bucket that is full at `full`. A third result tells that more tokens are missing
-- than the bucket holds, since the clock stepped back. The bucket is empty then and fills from `at`. The third result
-- is the last instant by `at` of the tokens on the way to `full`.
local function arrived(under, full, at)
  if full <= at then return under.capacity, full, false end
  local base, i, d = locate(full, under.n, under.p)
  local base_at, i_at, rest = locate(at - d, under.n, under.p)
  local missing = i - i_at
  -- In this order no intermediate number is larger than the result.
  if base > base_at then missing = ((base - base_at) / under.p - 1) * under.n + (under.n - i_at) + i end
  if missing > under.capacity then return 0, start(at, under.n, under.p), at - rest end
  return under.capacity - missing, at - rest, false
end

-- Writes a bucket at rest, as a number if it may be one. `last`: the instant at which it is full with the changes ahead
-- of a schedule. Tokens below 0 are debt, as of `score`.
local function keep_at_rest(terms, state, full, hold, now, as_number, last, tokens, score)
  local text
  local absent_till = absent_full(terms)
  if tokens < 0 then
    text = string.format('d%s%016.0f%016.0f%.0f', terms.tag, score, hold > now and hold or 0, -tokens)
  elseif hold > now then
    text = string.format('h%s%016.0f%016.0f', terms.tag, full, hold)
  elseif as_number and absent_till == 0 then
    text = string.format('-%d%016.0f00', terms.tag % NUMBER_TERMS + 1, full)
  else
    text = string.format('r%s%016.0f', terms.tag, full)
  end
  local till = math.max(full + (as_number and early_at_rest(terms) or 0), hold, absent_till, last or 0)
  redis.call('SET', state, text, 'PXAT', whole(math.ceil(till / 1000)))
end
