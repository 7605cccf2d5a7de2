-- Takes and shares of lazy and leaky buckets under packed terms that leave tokens, sooner than by take_packed.lua,
-- before which it stands. It has no functions, and leaves all other cases to the files after it, the keys unchanged.
-- ARGV  3 given for this file alone, which removes it
-- Reply the tokens left, if there are any. If there are none, and in all other cases, that of script_only.lua.
if ARGV[3] == 'quick' and #KEYS == 2 then
  local call, read, argv = redis.call, struct.unpack, ARGV
  argv[3] = nil
  local packed = call('HGET', KEYS[1], 'packed')
  local letter, capacity, n, p, since
  if packed and #packed == PACKED_STATE_LENGTH then letter, capacity, n, p, since = read('<ddddd', packed) end
  -- The letter in the state's key must be that of the record's algorithm.
  if (letter == LAZY_LETTER or letter == LEAKY_LETTER) and letter == string.byte(KEYS[2], #KEYS[1] - 4) then
    local held, time, count = call('GET', KEYS[2]), call('TIME'), tonumber(argv[2])
    local now = time[1] * 1000000 + time[2]
    local missed, score, sound = 0, nil, not held or #held == 24
    if held and sound then
      local amount, written, under = read('<ddd', held)
      missed = letter == LEAKY_LETTER and amount or capacity - amount
      sound = under == since and written <= now and missed <= capacity
      -- As `owed` in time.lua.
      local into = written % p
      local rest = into * n % p
      local i, base = (into * n - rest) / p, written - into
      local reached = now - (rest - rest % n) / n
      into = reached % p
      rest = into * n % p
      missed = missed - (((reached - into - base) / p - 1) * n + (n - i) + (into * n - rest) / p)
      score = now - (rest - rest % n) / n
    end
    if missed <= 0 then
      -- As `start`.
      missed, score = 0, now
      if n > 1 then
        local rest = (now + 1) % p * n % p
        score = now + (n <= p and (rest - rest % n) / n >= (p - p % n) / n and 2 or 1)
      end
    end
    missed = missed + count
    if sound and count > 0 and missed < capacity then
      -- As `instant`: when it is full.
      local into = score % p
      local rest = into * n % p
      local more = missed % n
      local token, spans = (into * n - rest) / p + more, (missed - more) / n
      if token >= n then token, spans = token - n, spans + 1 end
      local part = token * p % n
      local till = score + (rest - rest % n) / n - into + spans * p + (token * p - part) / n + (part > 0 and 1 or 0)
      if till > EXACT then till = EXACT end
      local left = capacity - missed
      call('SET', KEYS[2], struct.pack('<ddd', letter == LEAKY_LETTER and missed or left, score, since), 'PXAT',
        string.format('%d', math.ceil(till / 1000)))
      return left
    end
  end
end
