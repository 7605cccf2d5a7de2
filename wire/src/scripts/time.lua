-- The arithmetic of time and tokens, prepended to every script that credits. The crate topup-twin has it in Rust.
--
-- A rate in lowest terms gives n tokens every p µs. Its tokens fall on whole µs. A span of p µs begins at a multiple of
-- p. Its token `i` (`0 <= i < n`) falls on `ceil(i * p / n)`. A bucket is `d` µs after the last of these instants, and
-- its next tokens come `d` µs after the next ones. One whole number, the score, therefore keeps the exact phase of any
-- rate, and nothing drifts. All numbers here are whole and at most 2^53 (EXACT), where doubles and `%` are exact.

-- floor(a * b / c) and the remainder, for 0 <= a < c < 2^45 and 0 <= b <= 2^53.
local function muldiv(a, b, c)
  local product = a * b
  if product < EXACT then
    local rest = product % c
    return (product - rest) / c, rest
  end
  -- The product is too large for a double. Long division takes 7 bits of b at a time.
  local quotient, rest, unit = 0, 0, 128 ^ 7
  while unit >= 1 do
    local lower = b % unit
    local partial = rest * 128 + a * ((b - lower) / unit)
    b, rest = lower, partial % c
    quotient = quotient * 128 + (partial - rest) / c
    unit = unit / 128
  end
  return quotient, rest
end

-- The µs into its span at which token i falls.
local function falls(i, n, p)
  if n <= p then
    local at, rest = muldiv(i, p, n)
    if rest > 0 then at = at + 1 end
    return at
  end
  -- Several tokens every µs. The search goes from a close guess to the first µs by which i tokens have come.
  local at = math.max(0, math.floor(i * p / n) - 1)
  while at < p and muldiv(at, n, p) < i do at = at + 1 end
  return at
end

-- Locates t: the start of its span, the last token of the span at or before t, and whole µs since that token.
local function locate(t, n, p)
  local into = t % p
  local i, rest = muldiv(into, n, p)
  -- `rest` is the time from token i to t in units of 1/n µs. It is below 1 µs where several tokens fall on one.
  return t - into, i, (rest - rest % n) / n
end

-- The score of a bucket that stops being full at `now`: never early, at most 2 µs late.
local function start(now, n, p)
  if n <= 1 then return now end
  if n > p then return now + 1 end
  local _, _, d = locate(now + 1, n, p)
  if d >= (p - p % n) / n then return now + 2 end
  return now + 1
end

-- The whole tokens owed to a bucket at `now`, and its score once it has them.
local function owed(score, now, n, p)
  if now <= score or n == 0 then return 0, score end
  if n == 1 then
    local rest = (now - score) % p
    return (now - score - rest) / p, now - rest
  end
  local base, i, d = locate(score, n, p)
  local base_now, i_now, rest = locate(now - d, n, p)
  local k = i_now - i
  -- In this order no intermediate number is larger than the result, which is exact up to 2^53.
  if base_now > base then k = ((base_now - base) / p - 1) * n + (n - i) + i_now end
  return k, now - rest
end

-- The instant by which k more tokens have come; 2^53 if it is later than that, or never comes.
local function instant(score, k, n, p)
  if n == 0 then return EXACT end
  local base, i, d = locate(score, n, p)
  local rest = k % n
  local spans = (k - rest) / n
  if i >= n - rest then
    i, spans = i - (n - rest), spans + 1
  else
    i = i + rest
  end
  local at = base + spans * p + falls(i, n, p) + d
  if at < EXACT then return at end
  return EXACT
end
