-- The fixed window: so many tokens within a window that begins in the ms of its first take, or at a multiple of its
-- length.
-- Written upon time.lua, bucket.lua and windows.lua. State is the number of tokens taken in the current window. Its key
-- is there until the window ends, at a whole ms. A bucket without tokens in its window has no key.
-- Workers take by a bare `INCRBY`. A `SET` before it gives a new window its expiry. A count without one is of a window
-- that begins now. `uncovered` tokens were counted by a bare `INCRBY`, though they were not left. They are taken off
-- again, but never below the limit: they may be of an earlier window.
-- Laws  4 7. Never more than the limit in one of its windows, so up to twice the limit in any time of that length.
--       5. After a step of the clock back, the window begins anew with its tokens.
--       6. Tokens taken before a change count until their window ends. A shorter length ends it sooner.
local function fixed_window(record, state, now, operation, count, uncovered)
  local terms = read_windows(record, 'fixed-window')
  if not terms then return unknown(state, now) end
  local window, ms = terms.rules[1].micros, now - now % 1000
  -- No window ends later than one that begins now. In its last ms, an aligned one has ended for a bucket without key.
  local latest = (terms.aligned and ms + 1000 - (ms + 1000) % window or ms) + window
  latest = latest + -latest % 1000

  local held, left = redis.call('GET', state), redis.call('PTTL', state)
  local taken, over, moved, expires = 0, latest, false, false
  if held and left >= -1 and #held <= 15 and string.find(held, '^%d+$') then
    taken, expires = tonumber(held), left >= 0
    -- The key is there in the ms of its expiry, too.
    if expires then over = ms + (left + 1) * 1000 else moved = taken > 0 end
    if uncovered and operation ~= 'charge' and taken - uncovered >= terms.capacity then
      taken, moved = taken - uncovered, true
    end
  end

  local tokens, verdict, granted, missing = math.max(0, terms.capacity - taken)
  tokens, verdict, granted, missing = apply(terms, tokens, operation, count)
  -- A take that leaves tokens need not look at the end of its window (fixed_window_quick.lua).
  if over > latest and (missing > 0 or operation ~= 'take' and operation ~= 'share') then
    over, moved, expires = latest, true, false
  end
  -- More tokens than the limit may have been taken, before it was lowered.
  taken = operation == 'reset' and 0 or math.max(0, taken + granted - (operation == 'refund' and count or 0))
  tokens = math.max(0, terms.capacity - taken)
  if operation ~= 'peek' and (verdict == 1 or verdict == 0 and moved) then
    if taken == 0 then
      redis.call('DEL', state)
    elseif expires then
      -- `PTTL` may have seen a later ms than `now`, and the window would end too early by `over`.
      redis.call('SET', state, whole(taken), 'KEEPTTL')
    else
      redis.call('SET', state, whole(taken), 'PXAT', whole(over / 1000 - 1))
    end
  end
  return {verdict, tokens, terms.capacity, missing > 0 and over - now or 0, 0, now, granted, 0}
end

local settle = fixed_window
