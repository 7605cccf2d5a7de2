-- The common case of settle.lua: a take, a share or a reserve under packed terms (`packed_terms` in bucket.lua). This
-- file stands before settle.lua and has the same keys, arguments and replies. Functions would have to be made at each
-- call, and globals be looked up, so it has none of its own. It leaves all other cases to the files after it.
--
-- A bucket in any form is read as a score and the tokens missing then. At rest, the score is the full instant, and no
-- token is missing. In debt, it is the instant of the debt.
local keys, argv = KEYS, ARGV
local operation = argv[1]
local reserves = operation == 'reserve'
local is_quick = reserves or (operation == 'take' or operation == 'share') and (#argv == 3 or argv[4] == '0')
if is_quick and (#argv == 3 or #argv == 5) and keys[2] then
  local call = redis.call
  local packed = call('HGET', keys[2], 'packed')
  local count = tonumber(argv[2])
  local capacity, n, p, kind, rest_form, tag
  if packed and #packed == PACKED_LENGTH then
    capacity, n, p, kind, rest_form, tag = struct.unpack('<ddddc1c4', packed)
  end
  -- The kind is the number of keys.
  if kind == #keys and count <= capacity and count >= 1 then
    local state = keys[1]
    local held = call('GET', state)
    local score, missing, first, left, member, indexed
    local hold, debt = 0, 0
    local form = held and held:byte()
    if form == NUMBER_FORM and #held == NUMBER_LENGTH then
      -- 49 is the digit 1.
      if held:byte(2) == tag:sub(2) % NUMBER_TERMS + 49 then
        score, missing = tonumber(held:sub(3, 18)), 0
        if held:sub(19) ~= '00' then score = score + 1 end
      end
    elseif form == FULL_AT_FORM then
      if held:sub(2, 5) == tag then score, missing = tonumber(held:sub(6)), 0 end
    elseif form == FIRST_TAKE_FORM then
      if held:sub(2, 5) == tag then
        first, left = tonumber(held:sub(6)), call('PTTL', state)
      end
    elseif form == HELD_FORM or form == DEBT_FORM then
      if held:sub(2, 5) == tag then
        score, missing, hold = tonumber(held:sub(6, 21)), 0, tonumber(held:sub(22, 37))
        if form == DEBT_FORM then
          debt = tonumber(held:sub(38))
          missing = capacity + debt
        end
      end
    elseif kind == GCRA_KIND then
      if not held then score, missing = 0, 0 end
    else
      member = state:sub(#keys[3])
      indexed = call('ZSCORE', keys[3], member)
      if indexed then
        local tokens = held and tonumber(held) or 0
        -- Otherwise takes of a bucket at rest may have met the counter.
        if tokens <= capacity and tokens >= -AT_REST_UNIT / 2 * p / n then
          score, missing = indexed % BAND_WIDTH, capacity - (tokens > 0 and tokens or 0)
        end
      elseif not held then
        score, missing = 0, 0
      end
    end
    local time = call('TIME')
    local now = time[1] * 1000000 + time[2]
    local written = indexed and score

    if first and first <= capacity and first * p < EXACT then
      local rest = first * p % n
      local micros = (first * p - rest) / n + (rest > 0 and 1 or 0) + (n > 1 and FIRST_TAKE_LATE or 0)
      local ms = left - (micros - micros % 1000) / 1000 - FIRST_TAKE_EXTRA_MS
      local taken = now - now % 1000 + ms * 1000
      if taken <= now then
        score, missing = taken + 999, first
        if score > now then score = now end
        if n > 1 then
          rest = (score + 1) % p * n % p
          score = score + (n <= p and (rest - rest % n) / n >= (p - p % n) / n and 2 or 1)
        end
      end
    end
    if score and (score > now and (indexed or debt > 0) or hold > now + LONGEST_HOLD) then score = nil end

    -- As of now: the beginning of a span, its last token so far, and µs since that token.
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

    if score and missing <= capacity + debt then
      local tokens = capacity - missing
      local short, granted, wait = count - tokens, 0, 0
      if short <= 0 then
        granted = count
      elseif operation == 'share' and tokens > 0 then
        granted = tokens
      end
      if short >= 0 then
        -- Until a take would be allowed, or where no token is left, until the next one.
        local lacking = (short == 0 or granted > 0) and 1 or operation == 'share' and 1 - tokens or short
        if n == 1 then
          wait = score + lacking * p - now
        else
          local more = lacking % n
          local token, spans = i + more, (lacking - more) / n
          if token >= n then token, spans = token - n, spans + 1 end
          local rest = token * p % n
          wait = base + spans * p + (token * p - rest) / n + (rest > 0 and 1 or 0) + d - now
        end
      end
      if reserves and short > 0 and wait <= tonumber(argv[4]) and short <= EXACT - capacity
        and not (hold > now and hold % 2 == 1) then
        local in_hand = tonumber(argv[5]) or 0
        local used = wait + RESERVED_FOR
        if used < in_hand then used = in_hand end
        local held_for = now + used + (HOLD - in_hand > HOLD_MARGIN and HOLD - in_hand or HOLD_MARGIN)
        -- Even, since no caller has put tokens in.
        granted, hold = count, math.max(hold, held_for - held_for % 2)
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
      local counts = missing <= capacity and (indexed or argv[3] == '1' and kind == TOKEN_BUCKET_KIND and granted > 0
        and missing >= COUNT_FROM and ahead >= LEAST_AHEAD and hold <= now)
      local writes = granted > 0 or indexed and score ~= written

      if full < EXACT and not (indexed and writes and missing <= 1) then
        if writes then
          local format, text = string.format, struct.size('l') == 8 and '%d' or '%.0f'
          if counts then
            call('SET', state, format(text, capacity - missing))
            local target, near = score, struct.unpack('<d', packed, 38)
            if missing > near then
              local band, bound = 1, BAND_STRIDE * near
              while missing > bound and band < LAST_BAND do
                band, bound = band + 1, BAND_STRIDE * bound
              end
              target = score + (band > 2 and 2 - band or band) * BAND_WIDTH
            end
            if target ~= tonumber(indexed) then
              call('ZADD', keys[3], format(text, target), member or state:sub(#keys[3]))
            end
          else
            local till, value = full
            if rest_form == '-' then
              local part = NUMBER_EARLY_PART * n
              till = till + math.min((p - p % part) / part, NUMBER_MOST_EARLY)
            end
            if hold > now then
              till = math.max(till, hold)
              value = missing > capacity and 'd' .. tag .. format(text, score) or 'h' .. tag .. format(text, full)
              value = value .. format(text, hold)
              if missing > capacity then value = value .. format(text, missing - capacity) end
            elseif rest_form == '-' then
              value = '-' .. tag:sub(2) % NUMBER_TERMS + 1 .. format(text, full) .. '00'
            else
              value = 'r' .. tag .. format(text, full)
            end
            till = till + 999
            if indexed then call('ZREM', keys[3], member) end
            call('SET', state, value, 'PXAT', format(text, (till - till % 1000) / 1000))
          end
        end
        if granted == count and #argv == 3 and ahead < LONGEST_SHORT_HEADROOM then
          return ahead * 2 + (counts and 1 or 0)
        end

        tokens = math.max(0, capacity - missing)
        return {granted > 0 and 1 or 0, tokens, capacity, wait, ahead, now, granted, counts and 1 or 0}
      end
    end
  end
end
