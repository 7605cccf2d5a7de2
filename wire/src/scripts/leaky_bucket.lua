-- The leaky bucket: taken tokens are poured in and leak at the rate. A take that does not fit is denied. As a queue,
-- the bucket tells how long earlier tokens take to leak; takers that wait for that proceed at the rate. Written upon
-- time.lua, bucket.lua and state.lua. State is {level, at, since}: tokens in the bucket, the instant up to which it has
-- leaked, and the instant since which the terms of that leak apply. An empty bucket has no key.
-- Operation  besides those of script_only.lua, reserve: a take that is also denied if its delay is longer than
--       `longest` µs. `wait` of an allowed one is its delay; of a denied one, the time until it would be allowed.
-- Laws  1 (with no tick) 2 3 4 5 7, and 6: the level stays, also above a lower capacity, so that reservations hold.
local function leaky_bucket(record, state, now, operation, count, longest)
  local terms = read_terms(record, 'leaky-bucket')
  if not terms then return unknown(state, now) end
  local capacity, n, p = terms.capacity, terms.n, terms.p

  -- Level under the present terms, and the instant up to which it leaked.
  local function migrated(before, level, at)
    local k, leaked = owed(at, before.since, before.n, before.p)
    local part = 0
    level = math.max(0, level - k)
    -- The next token keeps the share of its time that has passed.
    if level > 0 and leaked < before.since then part = math.min(1, (before.since - leaked) * before.n / before.p) end
    if before.change == 'reset' then level = 0 end
    -- Reservations above a lower capacity may add up to more than 2^53.
    if before.change == 'proportional' then level = math.min(EXACT, math.ceil(level * capacity / before.capacity)) end
    return level, start(math.max(at, before.since) - math.floor(part * p / n), n, p)
  end

  local since = tonumber(redis.call('HGET', record, 'since'))
  local held, written, under = numbers(state, '<ddd')
  local level, at = held or 0, written
  if held and under ~= since then
    local before = read_previous_terms(record)
    if before.capacity then
      level, at = migrated(before, level, at)
    else
      -- A removed limit of the same name has left this state.
      level = 0
    end
  end
  if level > 0 and at > now + LATEST_START then
    -- The clock stepped back. The tokens that leaked cannot be known, so the bucket leaks from now on.
    at = start(now, n, p)
  elseif level > 0 then
    local k
    k, at = owed(at, now, n, p)
    level = math.max(0, level - k)
  end
  if level == 0 then at = start(now, n, p) end

  local moved = held and (at ~= written or since ~= under)
  local function until_leaked(tokens) return math.max(0, instant(at, tokens, n, p) - now) end
  local delay = operation == 'reserve' and level > 0 and until_leaked(level) or 0
  local tokens, verdict, granted, missing = math.max(0, capacity - level)
  if delay > (longest or EXACT) and count <= tokens then
    verdict, granted, missing = 0, 0, 0
  else
    tokens, verdict, granted, missing = apply(terms, tokens, operation, count)
  end
  local wait = 0
  if operation == 'reserve' and verdict == 1 then
    wait = delay
  elseif missing > 0 then
    wait = until_leaked(missing + math.max(0, level + granted - capacity))
  end
  if operation == 'reserve' and verdict == 0 then wait = math.max(wait, delay - longest) end
  level = level + granted
  if operation == 'refund' then
    level = math.max(0, level - count)
    tokens = math.max(0, capacity - level)
  elseif operation == 'reset' then
    level = 0
  end

  if operation ~= 'peek' and (verdict == 1 or verdict == 0 and moved) then
    if level > 0 then
      keep(state, instant(at, level, n, p), '<ddd', level, at, since)
    else
      redis.call('DEL', state)
    end
  end
  return {verdict, tokens, capacity, wait, 0, now, granted, 0}
end

local settle = leaky_bucket
