-- Packed terms of the algorithms that keep states. Prepended after bucket.lua to the scripts that write records.

-- The packed terms of such an algorithm, five doubles, for take_packed.lua. They are the letter of the algorithm in a
-- state's key, capacity, n, p and since. For windows the last three are their length, 1 where they are aligned, and 0.
-- A log has the instant `changed` of the last change there, since earlier expiries were set by other terms. Empty where
-- take_packed.lua would not be exact, or a schedule changes the terms. `given`: the fields of the limit.
local function packed_state_terms(given, terms, since, changed)
  local letters = {
    ['lazy-token-bucket'] = LAZY_LETTER, ['leaky-bucket'] = LEAKY_LETTER, ['fixed-window'] = FIXED_WINDOW_LETTER,
    ['sliding-counter'] = SLIDING_COUNTER_LETTER, ['sliding-window'] = SLIDING_WINDOW_LETTER,
  }
  local letter, form = letters[given.algorithm], '<ddddd'
  -- Where Redis was built for 32 bits, %d is too short for an instant.
  if not letter or struct.size('l') < 8 or terms.schedule ~= '' then return '' end
  if given.rules ~= '' then
    local tokens, micros = string.match(given.rules, '^(%d+) (%d+)$')
    if not tokens then return '' end
    local aligned = letter == FIXED_WINDOW_LETTER and given.aligned or 0
    return struct.pack(form, letter, tokens, micros, aligned, letter == SLIDING_WINDOW_LETTER and changed or 0)
  end
  if not is_exact(terms.n, terms.p) or letter == LAZY_LETTER and terms.anchor < terms.capacity then return '' end
  return struct.pack(form, letter, terms.capacity, terms.n, terms.p, since)
end
