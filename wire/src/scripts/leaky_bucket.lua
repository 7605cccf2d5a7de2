-- The leaky bucket: taken tokens are poured in and leak at the rate. A take that does not fit is denied. As a queue,
-- the bucket tells how long earlier tokens take to leak; takers that wait for that proceed at the rate. Written upon
-- time.lua, bucket.lua, schedule.lua and state.lua. State is {level, at, since}. The level is the tokens in the bucket.
-- It has leaked up to the instant `at`, under terms that apply since the instant `since`. An empty bucket has no key.
-- A charge is debt as far as the level is above the capacity.
--
-- Operation  besides those of script_only.lua, reserve: a take that is also denied if its delay is longer than
--       `longest` µs. `wait` of an allowed one is its delay. `wait` of a denied one is the time until it would be
--       allowed.
--
-- Laws  1 (with no tick) 2 3 4 5 6 7. The level stays, also above a lower capacity, so that reservations hold.
local function leaky_bucket(record, state, now, operation, count, longest)
  local terms, own = with_changes(read_terms(record, 'leaky-bucket'), record, now)
  if not terms then return unknown(state, now) end
  local capacity, n, p = terms.capacity, terms.n, terms.p

  -- Level under `later` terms, and the instant up to which it leaked.
  local function migrated(before, later, level, at)
    local k, leaked = owed(at, before.since, before.n, before.p)
    local part = 0
    level = math.max(0, level - k)
    -- The next token keeps the share of its time that has passed.
    if level > 0 and leaked < before.since then part = math.min(1, (before.since - leaked) * before.n / before.p) end
    if before.change == 'reset' then level = 0 end
    -- Reservations above a lower capacity may add up to more than 2^53.
    if before.change == 'proportional' then
      level = math.min(EXACT, math.ceil(level * later.capacity / before.capacity))
    end
    local from = math.max(at, before.since) - math.floor(part * later.p / later.n)
    return level, start(from, later.n, later.p)
  end
  -- The same under the present terms, of a bucket under any earlier ones.
  local function carried(later, before, level, at)
    if later == before then return level, at end
    level, at = carried(later.before, before, level, at)
    return migrated(later.before, later, level, at)
  end

  local begun = tonumber(redis.call('HGET', record, 'since'))
  local since = terms.from or begun
  local held, written, under = numbers(state, '<ddd')
  local level, at = held or 0, written
  if held and under ~= since then
    local wrote = terms
    local function is_of(one) return one.began == under end
    while wrote ~= own and under ~= wrote.from do wrote = wrote.before end
    if wrote == own and under ~= begun then wrote = before_own(own, record, is_of) end
    if wrote then
      level, at = carried(terms, wrote, level, at)
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
  local function until_leaked(tokens)
    local gone, level, at, later = instant(at, tokens, n, p), tokens, at, terms
    while later.ahead and gone > later.since do
      level, at = migrated(later, later.ahead, level, at)
      later = later.ahead
      gone = level > 0 and instant(at, level, later.n, later.p) or later.from
    end
    return math.max(0, gone - now)
  end
  local delay = operation == 'reserve' and level > 0 and until_leaked(level) or 0
  local tokens, verdict, granted, missing = math.max(0, capacity - level)
  local charges = operation == 'charge'
  if delay > (longest or EXACT) and count <= tokens then
    verdict, granted, missing = 0, 0, 0
  else
    tokens, verdict, granted, missing = apply(terms, charges and capacity - level or tokens, operation, count, longest)
    -- `level` tells the rest of what is missing.
    if charges then tokens, missing = math.max(0, tokens), math.min(1, missing) end
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
      keep(state, now + until_leaked(level), '<ddd', level, at, since)
    else
      redis.call('DEL', state)
    end
  end
  return {verdict, tokens, capacity, wait, 0, now, granted, 0}
end

local settle = leaky_bucket
