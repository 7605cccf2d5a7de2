-- The common case of fair_shares_only.lua, before which it stands: a take that tokens of its part cover, with some
-- left. To make the functions of time.lua and bucket.lua would cost more than all of its work. It has none therefore.
-- All other cases it leaves to the files after it, the keys unchanged.
do
  local operation, count, key = ARGV[1], tonumber(ARGV[2]), ARGV[3]
  if #KEYS == 2 and #ARGV == 3 and (operation == 'take' or operation == 'share' or operation == 'charge') then
    local call, read, record, state = redis.call, struct.unpack, KEYS[1], KEYS[2]
    local time = call('TIME')
    local now = time[1] * 1000000 + time[2]
    local published = call('HMGET', record, 'algorithm', 'since')
    local held = call('HMGET', state, '=', ':' .. key, ':*')
    local total, name, part = held[1], key, held[2]
    if total and not part then
      name, part = '*', held[3]
      for prefix in string.gmatch(string.sub(total, 81), '[^\n]+') do
        if string.sub(key, 1, #prefix) == prefix then
          name = prefix .. '*'
          part = call('HGET', state, ':' .. name)
          break
        end
      end
    end
    if published[1] == 'fair-shares' and total and #total >= 80 and part and #part == 64 then
      local since, capacity, n, p, tokens, at, dealt, period, expires, lends = read('<dddddddddd', total)
      local most, own_n, own_p, own, own_at, loan, used, carry = read('<dddddddd', part)
      local ready = tonumber(published[2]) == since and at <= now and own_at <= now and n <= p and n * p < EXACT
        and own_n <= own_p and own_n * own_p < EXACT and expires >= now + math.ceil(capacity / n * p) + 1000
      if ready then
        -- As `credit` in bucket.lua: of the total, then of the part.
        for turn = 1, 2 do
          local n, p, full, some, score = n, p, capacity, tokens, at
          if turn == 2 then n, p, full, some, score = own_n, own_p, most, own, own_at end
          local into = score % p
          local rest = into * n % p
          local i, base = (into * n - rest) / p, score - into
          local reached = now - (rest - rest % n) / n
          into = reached % p
          rest = into * n % p
          some = some + (reached - into - base) / p * n + (into * n - rest) / p - i
          score = now - (rest - rest % n) / n
          if some >= full then
            -- As `start`.
            some, score = full, now
            if n > 1 then
              rest = (now + 1) % p * n % p
              score = now + ((rest - rest % n) / n >= (p - p % n) / n and 2 or 1)
            end
          end
          if turn == 1 then tokens, at = some, score else own, own_at = some, score end
        end
        if not (dealt <= now and now < dealt + period) then loan = 0 end
        if count < own and count < tokens then
          own, tokens = own - count, tokens - count
          total = struct.pack('<dddddddddd', since, capacity, n, p, tokens, at, dealt, period, expires, lends)
            .. string.sub(total, 81)
          part = struct.pack('<dddddddd', most, own_n, own_p, own, own_at, loan, used, carry)
          call('HSET', state, '=', total, ':' .. name, part)
          return {1, math.min(own + loan, tokens), most, 0, 0, now, count, 0}
        end
      end
    end
  end
end
