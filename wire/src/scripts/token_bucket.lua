-- The token bucket that a daemon tops up: every operation on one but the bare DECR. Written upon time.lua and
-- bucket.lua. State is a counter, and a place in the due or former index. A full bucket has neither.
-- Laws  1 2 3 5 6, and 7: an unknown limit leaves no key behind, not even what a bare DECR has left.
local function token_bucket(record, due, former, counter, member, now, operation, count, full_at)
  local terms = read_terms(record, 'token-bucket')
  if not terms then return unknown(counter, now) end

  -- As last written ...
  local tokens, stood, found = nil, redis.call('ZSCORE', due, member), 'due'
  if not stood and terms.former then
    stood, found = redis.call('ZSCORE', former, member), 'former'
  end
  if stood then
    -- A missing counter was evicted: empty, not full. Below 0 is debt, which is nobody's.
    tokens = math.max(0, tonumber(redis.call('GET', counter) or 0))
  end
  -- ... and as of now.
  local written = stood and score_at(stood)
  local score = written
  if not stood then
    tokens, score = absent(terms, now)
    found = 'absent'
  else
    if found == 'former' then tokens, score = carry(read_former_terms(record), terms, tokens, score) end
    -- A full bucket that still has a key counts from now, as one without does.
    if terms.catch_up or tokens >= terms.capacity then tokens, score = credit(terms, tokens, score, now) end
  end

  -- Someone has taken since, and learned of the bucket without what is to be put back: it would be full before they
  -- know.
  if full_at and (terms.n == 0 or math.abs(now + headroom(terms, score, tokens, now) - full_at) > 5) then count = 0 end

  local verdict, granted, missing
  tokens, verdict, granted, missing = operate(terms, tokens, operation, count)
  local wait = 0
  if missing > 0 then
    wait = time_to(terms, score, missing, now)
    -- Without catch-up, tokens come at the daemon's ticks only. Once they are due it comes within a tick, and never
    -- should it be dead: a quarter of one is soon enough to ask again.
    if not terms.catch_up then
      local soon = math.max(1000, math.min(250000, math.floor(terms.tick / 4)))
      wait = math.max(wait, score + terms.tick - now, soon)
    end
  end

  -- What was refused and credited nothing is left as it is, debt included: whoever credits next clamps it.
  local changed = verdict == 1 or (verdict == 0 and score ~= written)
  if operation ~= 'peek' and changed then
    if found == 'former' then redis.call('ZREM', former, member) end
    if tokens >= terms.capacity and absent(terms, now) >= terms.capacity then
      redis.call('DEL', counter)
      if found == 'due' then redis.call('ZREM', due, member) end
    else
      redis.call('SET', counter, whole(tokens))
      local stands = place(terms, tokens, score)
      if found ~= 'due' or stands ~= tonumber(stood) then redis.call('ZADD', due, whole(stands), member) end
    end
  end
  return {verdict, tokens, terms.capacity, wait, headroom(terms, score, tokens, now), now, granted}
end
