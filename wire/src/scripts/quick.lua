-- The common case of settle.lua, and of scripted.lua under lazy_token_bucket.lua, which it stands before and shares its
-- keys, arguments and reply with: a take, where the record has its terms ready in one field (`quick_terms` in
-- bucket.lua). Functions cost each call their making, so this has next to none, and does for such terms what time.lua
-- and bucket.lua do for all. What it does not answer, it leaves to the rest.
local counted = #KEYS == 4 and #ARGV == 3
local operation, count, counter = ARGV[#ARGV - 1], tonumber(ARGV[#ARGV]), KEYS[#KEYS]
local quick = (counted or #KEYS == 2 and #ARGV == 2) and (operation == 'take' or operation == 'share')
  and redis.call('HGET', KEYS[1], 'quick')
local pattern = counted and '^(%d+) (%d+) (%d+) (%d+) %d+ t' or '^(%d+) (%d+) (%d+) (0) l(%d+)'
local capacity, n, p, near, since = string.match(quick or '', pattern)
if capacity then
  capacity, n, p, near = tonumber(capacity), tonumber(n), tonumber(p), tonumber(near)
  local tokens, written, stood
  local ready = count <= capacity
  if not since then
    stood = redis.call('ZSCORE', KEYS[2], ARGV[1])
    if stood then tokens, written = tonumber(redis.call('GET', counter)) or 0, stood % 3000000000000000 end
  else
    local held = redis.call('HMGET', counter, 'tokens', 'at', 'since')
    tokens, written = tonumber(held[1]), tonumber(held[2])
    -- To be carried over a change of terms first.
    if tokens and held[3] ~= since then ready = false end
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]

  local score
  if not tokens then
    tokens = capacity
  elseif written <= now then
    if tokens < 0 then tokens = 0 end
    local into = written % p
    local rest = into * n % p
    local i, base = (into * n - rest) / p, written - into
    local reached = now - (rest - rest % n) / n
    into = reached % p
    rest = into * n % p
    tokens = tokens + (((reached - into - base) / p - 1) * n + (n - i) + (into * n - rest) / p)
    score = now - (rest - rest % n) / n
  else
    ready = false
  end
  if tokens >= capacity then
    tokens, score = capacity, now
    if n > 1 then
      local rest = (now + 1) % p * n % p
      score = now + (n <= p and (rest - rest % n) / n >= (p - p % n) / n and 2 or 1)
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
    local into = score % p
    local rest = into * n % p
    local i, base, d = (into * n - rest) / p, score - into, (rest - rest % n) / n
    -- The instant by which k tokens have come.
    local function instant(k)
      local more = k % n
      local token, spans = i + more, (k - more) / n
      if token >= n then token, spans = token - n, spans + 1 end
      local rest = token * p % n
      local at = base + spans * p + (token * p - rest) / n + (rest > 0 and 1 or 0) + d
      return at < 9007199254740992 and at or 9007199254740992
    end
    local full = instant(capacity - tokens)
    if verdict == 1 or score ~= written then
      local text = struct.size('l') == 8 and '%d' or '%.0f'
      if not since then
        redis.call('SET', counter, string.format(text, tokens))
        local place, missed = score, capacity - tokens
        if missed > near then
          local distance, bound = 1, 4 * near
          while missed > bound and distance < 5 do
            distance, bound = distance + 1, 4 * bound
          end
          place = score + (distance > 2 and 2 - distance or distance) * 3000000000000000
        end
        if place ~= tonumber(stood) then redis.call('ZADD', KEYS[2], string.format(text, place), ARGV[1]) end
      else
        local held, at = string.format(text, tokens), string.format(text, score)
        redis.call('HSET', counter, 'tokens', held, 'at', at, 'since', since)
        redis.call('PEXPIREAT', counter, string.format(text, math.ceil(full / 1000)))
      end
    end
    local wait = missing > 0 and instant(missing) - now or 0
    return {verdict, tokens, capacity, wait, since and 0 or full - now, now, granted}
  end
end
