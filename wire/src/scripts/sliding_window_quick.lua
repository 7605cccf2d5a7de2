-- Takes and shares of sliding windows under packed terms, sooner than by take_packed.lua, before which it stands. It
-- has no functions, and leaves all other cases to the files after it, the keys unchanged.
-- ARGV  3 given for this file alone, which removes it
-- Reply the tokens left, if there are any. If there are none, and in all other cases, that of script_only.lua.
if ARGV[3] == 'quick' and #KEYS == 2 then
  local call, read, argv, state = redis.call, struct.unpack, ARGV, KEYS[2]
  argv[3] = nil
  local packed = call('HGET', KEYS[1], 'packed')
  local letter, capacity, length, since, _
  if packed and #packed == PACKED_STATE_LENGTH then letter, capacity, length, _, since = read('<ddddd', packed) end
  if letter == SLIDING_WINDOW_LETTER then
    local row, time, count = call('LINDEX', state, '-1'), call('TIME'), tonumber(argv[2])
    local now = time[1] * 1000000 + time[2]
    local gone, newest, oldest, held, sum, used, dead, sound = now - length, now, now, 0, 0, 0, 0, true
    if row then
      newest, sum = read('<dd', row)
      sound = newest > gone and newest <= now
      if sound then
        local first = call('LINDEX', state, '0')
        local total
        oldest, total = read('<dd', first)
        while oldest <= gone and dead < 8 do
          dead = dead + 1
          first = call('LINDEX', state, dead)
          oldest, total = read('<dd', first)
        end
        sound = oldest > gone
        held = #first > 16 and read('<d', first, 17) or 1
        used = (sum - total + held) % LOG_TOTALS
      end
    end
    local granted, left, wait = count, capacity - used - count, 0
    local is_short = left > 0
    sound = sound and count > 0 and count <= capacity
    if sound and not is_short then
      -- As `apply` in bucket.lua, where no token is left.
      local tokens = left + count > 0 and left + count or 0
      if left < 0 then granted = argv[1] == 'share' and tokens or 0 end
      left = tokens - granted
      local missing = (granted == count or argv[1] == 'share') and 1 or count - tokens
      -- The oldest entry must hold all tokens that have to leave.
      sound = used + granted + left + missing - capacity <= (row and held or granted)
      wait = oldest + length - now
    end
    if sound then
      if granted > 0 then
        -- As in take_packed.lua.
        local part, all = (length - length % LOG_KEPT_LONGER) / LOG_KEPT_LONGER + 1, (sum + granted) % LOG_TOTALS
        call('RPUSH', state, granted == 1 and struct.pack('<dd', now, all) or struct.pack('<ddd', now, all, granted))
        if dead > 0 then call('LTRIM', state, dead, '-1') end
        if not row or newest <= since or newest - newest % part ~= now - now % part then
          call('PEXPIREAT', state, string.format('%d', math.ceil((now - now % part + part + length) / 1000)))
        end
      end
      if is_short then return left end
      return {granted > 0 and 1 or 0, left, capacity, wait, 0, now, granted, 0}
    end
  end
end
