-- The sliding counter: two windows one after the other, the former counted as far as it reaches into the time of one
-- window that ends now. Written upon time.lua, bucket.lua, state.lua and windows.lua. State is
-- {begin, end, taken, before}: the window under way, which begins at a multiple of its length, what was taken in it and
-- in the one before. A bucket of which nothing counts has no key.
-- Laws  what was taken before is taken for spread evenly: exact where it was, and less than twice the limit in any
--       window however it was; never more than the limit in one that begins at a multiple of its length; 4 7; 5: a
--       clock that steps back has the window begin anew, with what was taken in it; 6: what counts at a change counts
--       in the window under way then by the new terms.
local function sliding_counter(record, state, now, operation, count)
  local terms = read_windows(record, 'sliding-counter')
  if not terms then return unknown(state, now) end
  local capacity, window = terms.capacity, terms.rules[1].micros

  -- What counts of `before` at `at`, where the window after it is over at `over` and lasts `length`: rounded up.
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
  tokens, verdict, granted, missing = operate(terms, tokens, operation, count)
  taken = taken + granted
  if operation == 'refund' then
    taken = math.max(0, taken - count)
    tokens = math.max(0, capacity - taken - counts)
  elseif operation == 'reset' then
    taken, before = 0, 0
  end

  local wait = 0
  if missing > 0 then
    -- When so little of the window before counts that the rest fits; of this one, once it is that.
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

local scripted = sliding_counter
