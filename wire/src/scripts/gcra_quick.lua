-- Takes and shares of GCRA buckets under packed terms that are granted whole, sooner than by settle_packed.lua, before
-- which it stands. It has no functions, and leaves all other cases to the files after it, the keys unchanged.
-- Keys, arguments and reply are those of settle.lua.
if #KEYS == 2 and #ARGV == 3 and (ARGV[1] == 'take' or ARGV[1] == 'share') then
  local call, state = redis.call, KEYS[1]
  local packed = call('HGET', KEYS[2], 'packed')
  -- `form`: the first letter of a value at rest, and the tag.
  local capacity, n, p, kind, form
  if packed and #packed == PACKED_LENGTH then capacity, n, p, kind, form = struct.unpack('<ddddc5', packed) end
  if kind == GCRA_KIND then
    local held, time, count = call('GET', state), call('TIME'), tonumber(ARGV[2])
    local now, full, has_room = time[1] * 1000000 + time[2], nil, false
    if not held then
      full = now
    elseif held:sub(1, 5) == form then
      full = tonumber(held:sub(6))
    end
    if full and n == 1 then
      if full < now then full = now end
      full = full + count * p
      has_room = full - now <= capacity * p
    elseif full then
      local missing, starts, rest = count, full <= now, nil
      if starts then
        -- As `start` in time.lua.
        rest = (now + 1) % p * n % p
        full = now + (n <= p and (rest - rest % n) / n >= (p - p % n) / n and 2 or 1)
      end
      local into = full % p
      rest = into * n % p
      local base, i, d = full - into, (into * n - rest) / p, (rest - rest % n) / n
      if not starts then
        local reached = now - d
        into = reached % p
        rest = into * n % p
        missing = missing + (base - (reached - into)) / p * n + i - (into * n - rest) / p
      end
      has_room = missing <= capacity
      -- As `instant`: when as many more have come as are taken.
      local more = count % n
      local token, spans = i + more, (count - more) / n
      if token >= n then token, spans = token - n, spans + 1 end
      rest = token * p % n
      full = base + spans * p + (token * p - rest) / n + (rest > 0 and 1 or 0) + d
    end
    if has_room and count >= 1 and full < EXACT and full - now < LONGEST_SHORT_HEADROOM then
      local till, format, text = full + 999, string.format, struct.size('l') == 8 and '%d' or '%.0f'
      call('SET', state, form .. format(text, full), 'PXAT', format(text, (till - till % 1000) / 1000))
      return (full - now) * 2
    end
  end
end
