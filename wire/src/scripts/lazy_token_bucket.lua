-- The lazy token bucket: refilled by the script of each operation, nothing else needed. Written upon time.lua and
-- bucket.lua. State is a hash {tokens, at, since}: tokens, the instant up to which they have been credited, and the
-- instant since which the terms they were credited under apply. A full bucket has no key.
-- Laws  1 (with no tick) 2 3 4 5 6 7.
local function lazy_token_bucket(record, state, now, operation, count)
  local terms = read_terms(record, 'lazy-token-bucket')
  if not terms then
    redis.call('DEL', state)
    return {-1, 0, 0, 0, 0, now, 0}
  end

  local since = redis.call('HGET', record, 'since')
  local held = redis.call('HMGET', state, 'tokens', 'at', 'since')
  local tokens, at
  local before = held[1] and held[3] ~= since and read_former_terms(record)
  if held[1] and (not before or before.capacity) then
    tokens, at = tonumber(held[1]), tonumber(held[2])
    if before then tokens, at = carry(before, terms, tokens, at) end
    tokens, at = credit(terms, tokens, at, now)
  else
    -- Full; or left by a limit of this name that has been removed, which says nothing of this one.
    tokens, at = absent(terms, now)
  end

  local verdict, granted, missing
  tokens, verdict, granted, missing = operate(terms, tokens, operation, count)
  local wait = 0
  if missing > 0 then wait = time_to(terms, at, missing, now) end

  -- A denial that credited nothing writes nothing.
  local changed = verdict == 1 or (verdict == 0 and (whole(at) ~= held[2] or since ~= held[3]))
  if operation ~= 'peek' and changed then
    if tokens >= terms.capacity and absent(terms, now) >= terms.capacity then
      redis.call('DEL', state)
    else
      redis.call('HSET', state, 'tokens', whole(tokens), 'at', whole(at), 'since', since)
      -- Once full it needs no key, unless one without is not full yet.
      local full = instant(at, terms.capacity - tokens, terms.n, terms.p)
      if terms.anchor < terms.capacity then
        full = math.max(full, instant(terms.anchored, terms.capacity - terms.anchor, terms.n, terms.p))
      end
      redis.call('PEXPIREAT', state, whole(math.ceil(full / 1000)))
    end
  end
  return {verdict, tokens, terms.capacity, wait, 0, now, granted}
end

local scripted = lazy_token_bucket
