-- Functions for buckets that fill at a rate and that no daemon credits. Prepended after schedule.lua to their scripts.

-- The reply to an operation on a bucket of `tokens`, credited up to `at`. Then whether the bucket is to be written, and
-- whether it needs a key. `moved`: its score or terms are not those of the stored state. Last, the tokens after it,
-- below 0 where the bucket is in debt.
local function answer(terms, tokens, at, moved, operation, count, now, most_debt)
  local verdict, granted, missing
  tokens, verdict, granted, missing = apply(terms, tokens, operation, count, most_debt)
  local wait = missing > 0 and wait_for(terms, tokens, at, missing, now) or 0
  -- A denial that credited nothing writes nothing.
  local written = operation ~= 'peek' and (verdict == 1 or verdict == 0 and moved)
  local held = tokens < terms.capacity or absent(terms, now) < terms.capacity
  return {verdict, math.max(0, tokens), terms.capacity, wait, 0, now, granted, 0}, written, held, tokens
end

-- The instant in ms from which a bucket needs no key: it is full then, and so is an absent one.
local function expiry(terms, full)
  return whole(math.ceil(math.max(full, absent_full(terms)) / 1000))
end
