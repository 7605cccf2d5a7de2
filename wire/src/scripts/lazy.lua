-- What the buckets share that fill at a rate and that no daemon tops up. Prepended after bucket.lua to their scripts.

-- The answer to an operation on a bucket of `tokens`, credited up to `at`; and whether it is to be written, as it is
-- where it `moved` since it was, and to have a key.
local function answer(terms, tokens, at, moved, operation, count, now)
  local verdict, granted, missing
  tokens, verdict, granted, missing = operate(terms, tokens, operation, count)
  local wait = missing > 0 and time_to(terms, at, missing, now) or 0
  -- A denial that credited nothing writes nothing.
  local written = operation ~= 'peek' and (verdict == 1 or verdict == 0 and moved)
  local held = tokens < terms.capacity or absent(terms, now) < terms.capacity
  return {verdict, tokens, terms.capacity, wait, 0, now, granted, 0}, written, held
end

-- The ms from which a bucket needs no key: once it is full, unless one without is not full yet.
local function expiry(terms, full)
  return whole(math.ceil(math.max(full, absent_full(terms)) / 1000))
end
