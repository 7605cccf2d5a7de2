-- The lazy token bucket: refilled by the script of each operation, nothing else needed. Written upon time.lua,
-- bucket.lua and lazy.lua. State is a hash {tokens, at, since}: tokens, the instant up to which they have been
-- credited, and the instant since which the terms they were credited under apply. A full bucket has no key.
-- Laws  1 (with no tick) 2 3 4 5 6 7.
local function lazy_token_bucket(record, state, now, operation, count)
  local terms = read_terms(record, 'lazy-token-bucket')
  if not terms then return unknown(state, now) end

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

  local moved = whole(at) ~= held[2] or since ~= held[3]
  local reply, written, kept = answer(terms, tokens, at, moved, operation, count, now)
  if written and kept then
    redis.call('HSET', state, 'tokens', whole(reply[2]), 'at', whole(at), 'since', since)
    local full = instant(at, terms.capacity - reply[2], terms.n, terms.p)
    redis.call('PEXPIREAT', state, expiry(terms, full))
  elseif written then
    redis.call('DEL', state)
  end
  return reply
end

local scripted = lazy_token_bucket
