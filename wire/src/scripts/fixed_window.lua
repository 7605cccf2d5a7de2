-- The fixed window: so many tokens within a window that begins with its first take, or at a multiple of its length.
-- Written upon time.lua, bucket.lua, state.lua and windows.lua. State is {begin, end, taken}: the current window, in
-- µs, and the tokens taken in it. A bucket without tokens in its window has no key.
-- Laws  4 7. Never more than the limit in one of its windows, so up to twice the limit in any time of that length.
--       5. After a step of the clock back, the window begins anew with its tokens.
--       6. Tokens of the window that is current at a change count in the one that is current then under the new terms.
local function fixed_window(record, state, now, operation, count)
  local terms = read_windows(record, 'fixed-window')
  if not terms then return unknown(state, now) end
  local window, aligned = terms.rules[1].micros, terms.aligned
  local function beginning(at) return aligned and at - at % window or at end

  local begun, over, taken = numbers(state, '<ddd')
  local moved = false
  if begun and (over - begun ~= window or beginning(begun) ~= begun) then
    if over > terms.since then
      begun = aligned and beginning(terms.since) or begun
      over, moved = begun + window, true
    else
      begun = nil
    end
  end
  if begun and begun > now then
    begun, moved = beginning(now), true
    over = begun + window
  end
  if not begun or over <= now then
    begun, taken = beginning(now), 0
    over = begun + window
  end

  local tokens, verdict, granted, missing = math.max(0, terms.capacity - taken)
  tokens, verdict, granted, missing = apply(terms, tokens, operation, count)
  if operation ~= 'peek' and (verdict == 1 or verdict == 0 and moved) then
    if tokens < terms.capacity then
      keep(state, over, '<ddd', begun, over, terms.capacity - tokens)
    else
      redis.call('DEL', state)
    end
  end
  return {verdict, tokens, terms.capacity, missing > 0 and over - now or 0, 0, now, granted, 0}
end

local settle = fixed_window
