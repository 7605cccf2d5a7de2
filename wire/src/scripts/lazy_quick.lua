-- The common case of scripted.lua under lazy_token_bucket.lua, which it stands before and shares keys, arguments and
-- reply with: a take or a share where the record has its terms ready in one field (`packed_terms` in bucket.lua). What
-- it does not answer, it leaves to the rest.
local operation, count = ARGV[1], tonumber(ARGV[2])
local packed = #KEYS == 2 and #ARGV == 2 and (operation == 'take' or operation == 'share')
  and redis.call('HGET', KEYS[1], 'packed')
local capacity, n, p, kind, _, since
if packed and #packed == 53 then capacity, n, p, kind, _, since = struct.unpack('<ddddc5d', packed) end
if kind == 1 then
  local state = KEYS[2]
  local held = redis.call('HMGET', state, 'tokens', 'at', 'since')
  local tokens, written = tonumber(held[1]), tonumber(held[2])
  -- To be carried over a change of terms first, if not since then.
  local ready = count <= capacity and (not tokens or tonumber(held[3]) == since)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]

  local at
  if not tokens then
    tokens = capacity
  elseif written <= now then
    local into = written % p
    local rest = into * n % p
    local i, base = (into * n - rest) / p, written - into
    local reached = now - (rest - rest % n) / n
    into = reached % p
    rest = into * n % p
    tokens = tokens + (((reached - into - base) / p - 1) * n + (n - i) + (into * n - rest) / p)
    at = now - (rest - rest % n) / n
  else
    ready = false
  end
  if tokens >= capacity then
    tokens, at = capacity, now
    if n > 1 then
      local rest = (now + 1) % p * n % p
      at = now + (n <= p and (rest - rest % n) / n >= (p - p % n) / n and 2 or 1)
    end
  end

  local verdict, granted, missing = 1, count, 0
  if operation == 'share' then
    if tokens == 0 then verdict = 0 end
    if tokens < count then granted = tokens end
  elseif tokens < count then
    verdict, granted, missing = 0, 0, count - tokens
  end
  tokens = tokens - granted
  if tokens == 0 and missing == 0 then missing = 1 end

  if ready and tokens < capacity then
    local into = at % p
    local rest = into * n % p
    local i, base, d = (into * n - rest) / p, at - into, (rest - rest % n) / n
    -- The instant by which k tokens have come.
    local function instant(k)
      local more = k % n
      local token, spans = i + more, (k - more) / n
      if token >= n then token, spans = token - n, spans + 1 end
      local rest = token * p % n
      local fallen = base + spans * p + (token * p - rest) / n + (rest > 0 and 1 or 0) + d
      return fallen < 9007199254740992 and fallen or 9007199254740992
    end
    if verdict == 1 or at ~= written then
      local text = struct.size('l') == 8 and '%d' or '%.0f'
      redis.call('HSET', state, 'tokens', string.format(text, tokens), 'at', string.format(text, at), 'since',
        string.format(text, since))
      local full = instant(capacity - tokens)
      redis.call('PEXPIREAT', state, string.format(text, math.ceil(full / 1000)))
    end
    local wait = missing > 0 and instant(missing) - now or 0
    return {verdict, tokens, capacity, wait, 0, now, granted, 0}
  end
end
