-- The sliding counter: two windows one after the other. The earlier one counts by its share in the time of one window
-- that ends now. Written upon time.lua, bucket.lua, state.lua and windows.lua. State is {begin, end, taken, before}.
-- The current window begins at a multiple of its length. `taken` and `before` are the tokens taken in it and in the one
-- before. A bucket without tokens that count has no key.
-- Laws  4 7. Takes of the earlier window count as spread evenly. The limit is exact where they were, and less than
--       twice the limit is taken in any window. Never more than the limit in a window that begins at a multiple of its
--       length.
--       5. After a step of the clock back, the window begins anew with its tokens.
--       6. The tokens that count at a change count in the window that is current then under the new terms.
local function sliding_counter(record, state, now, operation, count)
  local terms = read_windows(record, 'sliding-counter')
  if not terms then return unknown(state, now) end
  local capacity, window = terms.capacity, terms.rules[1].micros

  -- The tokens of the earlier window, `before`, that count at `at`, rounded up. The later one ends at `over`.
  local function weighed(before, over, length, at)
    if at >= over then return 0 end
    if at <= over - length then return before end
    local part, rest = muldiv(over - at, before, length)
    return rest > 0 and part + 1 or part
  end

  local begun, over, taken, before = numbers(state, '<dddd')
  local moved = false
  if begun and over - begun ~= window then
    local length, since = over - begun, terms.since
    local counted = since < over and taken + weighed(before, over, length, since)
      or weighed(taken, over + length, length, since)
    begun, taken, before, moved = since - since % window, counted, 0, true
  end
  if begun and begun > now then begun, before, moved = now, 0, true end
  if begun then
    local windows = (now - now % window - (begun - begun % window)) / window
    if windows == 1 then taken, before = 0, taken elseif windows > 1 then taken, before = 0, 0 end
  else
    taken, before = 0, 0
  end
  begun = now - now % window
  over = begun + window

  local counts = weighed(before, over, window, now)
  local tokens, verdict, granted, missing = math.max(0, capacity - taken - counts)
  tokens, verdict, granted, missing = apply(terms, tokens, operation, count)
  taken = taken + granted
  if operation == 'refund' then
    taken = math.max(0, taken - count)
    tokens = math.max(0, capacity - taken - counts)
  elseif operation == 'reset' then
    taken, before = 0, 0
  end

  local wait = 0
  if missing > 0 then
    -- The instant at which so few tokens of the earlier window count that the rest fits. Where that is not enough, the
    -- current window becomes the earlier one first.
    local room, counted, ends = capacity - taken - (tokens + missing), before, over
    if room < 0 then room, counted, ends = room + taken, taken, over + window end
    wait = ends - muldiv(room, window, counted) - now
  end
  if operation ~= 'peek' and (verdict == 1 or verdict == 0 and moved) then
    if taken > 0 or before > 0 then
      keep(state, taken > 0 and over + window or over, '<dddd', begun, over, taken, before)
    else
      redis.call('DEL', state)
    end
  end
  return {verdict, tokens, capacity, wait, 0, now, granted, 0}
end

local settle = sliding_counter
