-- The common case of settle.lua, which it stands before and shares keys, arguments and replies with: a take or a share
-- where the record has its terms ready in one field (`packed_terms` in bucket.lua). Functions cost each call their
-- making, and globals their look-up, so this has none of its own. What it does not answer, it leaves to the rest.
--
-- A bucket in any form is read as a score and the tokens missing at it: at rest, none are at the instant of being full.
local keys, argv = KEYS, ARGV
local operation = argv[1]
if (operation == 'take' or operation == 'share') and (#argv == 3 or #argv == 5 and argv[4] == '0') and keys[2] then
  local call = redis.call
  local packed = call('HGET', keys[2], 'packed')
  local count = tonumber(argv[2])
  local capacity, n, p, kind, rest_tag
  if packed and #packed == 53 then capacity, n, p, kind, rest_tag = struct.unpack('<ddddc5', packed) end
  -- The kind is the number of keys.
  if kind == #keys and count <= capacity and count >= 1 then
    local state = keys[1]
    local held = call('GET', state)
    local score, missing, first, left, member, stood
    local form = held and held:byte()
    if form == 45 and #held == 20 then
      if held:byte(2) == rest_tag:sub(3) % 8 + 49 then score, missing = tonumber(held:sub(3, 18)), 0 end
    elseif form == 114 then
      if held:sub(1, 5) == rest_tag then score, missing = tonumber(held:sub(6)), 0 end
    elseif form == 102 then
      if held:sub(2, 5) == rest_tag:sub(2) then
        first, left = tonumber(held:sub(6)), call('PTTL', state)
      end
    elseif kind == 2 then
      if not held then score, missing = 0, 0 end
    elseif form ~= 104 then
      member = state:sub(#keys[3])
      stood = call('ZSCORE', keys[3], member)
      if stood then
        local tokens = held and tonumber(held) or 0
        -- Otherwise takes of a bucket at rest may have met it.
        if tokens <= capacity and tokens >= -50 * p then
          score, missing = stood % 3000000000000000, capacity - (tokens > 0 and tokens or 0)
        end
      elseif not held then
        score, missing = 0, 0
      end
    end
    local time = call('TIME')
    local now = time[1] * 1000000 + time[2]
    local written = stood and score

    if first and first <= capacity and first * p < 9007199254740992 then
      local rest = first * p % n
      local micros = (first * p - rest) / n + (rest > 0 and 1 or 0) + (n > 1 and 3 or 0)
      local taken = now - now % 1000 + left * 1000 - (micros - micros % 1000) - 2000
      if taken <= now then
        score, missing = taken + 999, first
        if score > now then score = now end
        if n > 1 then
          rest = (score + 1) % p * n % p
          score = score + (n <= p and (rest - rest % n) / n >= (p - p % n) / n and 2 or 1)
        end
      end
    end
    if stood and score and score > now then score = nil end

    -- As of now: a span's beginning, the last token in it and µs since that token.
    local base, i, d
    if score and n == 1 then
      local since = (now - score) % p
      missing = missing - (now - score - since) / p
      score = now - since
      if missing <= 0 then score, missing = now, 0 end
    elseif score then
      local into = score % p
      local rest = into * n % p
      if score <= now or not first then
        local reached = now - (rest - rest % n) / n
        local token, span = (into * n - rest) / p, score - into
        into = reached % p
        rest = into * n % p
        missing = missing - ((reached - into - span) / p * n + (into * n - rest) / p - token)
        score = now - (rest - rest % n) / n
      end
      if missing <= 0 then
        rest = (now + 1) % p * n % p
        score, missing = now + (n <= p and (rest - rest % n) / n >= (p - p % n) / n and 2 or 1), 0
      end
      into = score % p
      rest = into * n % p
      base, i, d = score - into, (into * n - rest) / p, (rest - rest % n) / n
    end

    if score and missing <= capacity then
      local tokens = capacity - missing
      local verdict, granted = 1, count
      if tokens < count then
        granted = operation == 'share' and tokens or 0
        if granted == 0 then verdict = 0 end
      end
      missing = missing + granted
      local full
      if n == 1 then
        full = score + missing * p
      else
        local more = missing % n
        local token, spans = i + more, (missing - more) / n
        if token >= n then token, spans = token - n, spans + 1 end
        local rest = token * p % n
        full = base + spans * p + (token * p - rest) / n + (rest > 0 and 1 or 0) + d
      end
      local ahead = full - now
      local counts = stood or argv[3] == '1' and kind == 4 and granted > 0 and missing >= 2 and ahead >= 5000
      local writes = granted > 0 or stood and score ~= written

      if full < 9007199254740992 and not (stood and writes and missing <= 1) then
        if writes then
          local format, text = string.format, struct.size('l') == 8 and '%d' or '%.0f'
          if counts then
            call('SET', state, format(text, capacity - missing))
            local place, near = score, struct.unpack('<d', packed, 38)
            if missing > near then
              local distance, bound = 1, 4 * near
              while missing > bound and distance < 5 do
                distance, bound = distance + 1, 4 * bound
              end
              place = score + (distance > 2 and 2 - distance or distance) * 3000000000000000
            end
            if place ~= tonumber(stood) then
              call('ZADD', keys[3], format(text, place), member or state:sub(#keys[3]))
            end
          else
            local till, value = full + 999
            -- As `rests_as_number` says.
            if kind == 4 and n == 1 and p >= 10000 and capacity >= 3 and capacity <= 100000
              and capacity * p <= 100000000000000 then
              value = '-' .. rest_tag:sub(3) % 8 + 1 .. format(text, full) .. '00'
            else
              value = rest_tag .. format(text, full)
            end
            call('SET', state, value, 'PXAT', format(text, (till - till % 1000) / 1000))
          end
        end
        if granted == count and #argv == 3 and ahead < 4503599627370496 then return ahead * 2 + (counts and 1 or 0) end

        tokens = capacity - missing
        local lacking = granted == 0 and operation == 'take' and count - tokens or tokens == 0 and 1 or 0
        local wait = 0
        if lacking > 0 and n == 1 then
          wait = score + lacking * p - now
        elseif lacking > 0 then
          local more = lacking % n
          local token, spans = i + more, (lacking - more) / n
          if token >= n then token, spans = token - n, spans + 1 end
          local rest = token * p % n
          wait = base + spans * p + (token * p - rest) / n + (rest > 0 and 1 or 0) + d - now
        end
        return {verdict, tokens, capacity, wait, ahead, now, granted, counts and 1 or 0}
      end
    end
  end
end
