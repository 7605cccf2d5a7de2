-- Takes and shares of sliding counters under packed terms, sooner than by take_packed.lua, before which it stands. It
-- has no functions, and leaves all other cases to the files after it, the keys unchanged.
-- ARGV  3 given for this file alone, which removes it
-- Reply the tokens left, if there are any. If there are none, and in all other cases, that of script_only.lua.
if ARGV[3] == 'quick' and #KEYS == 2 then
  local call, read, argv = redis.call, struct.unpack, ARGV
  argv[3] = nil
  local packed = call('HGET', KEYS[1], 'packed')
  local letter, capacity, length
  if packed and #packed == PACKED_STATE_LENGTH then letter, capacity, length = read('<ddd', packed) end
  if letter == SLIDING_COUNTER_LETTER then
    local held, time = call('GET', KEYS[2]), call('TIME')
    local now = time[1] * 1000000 + time[2]
    local over = now - now % length + length
    local taken, before, kept, sound = 0, 0, false, not held or #held == 32
    if held and sound then
      local begun, ended
      begun, ended, taken, before = read('<dddd', held)
      sound = ended - begun == length and begun <= now
      kept = ended == over and taken > 0
      -- The windows that have ended since.
      local windows = over - begun + begun % length - length
      if windows > 0 then taken, before = 0, windows == length and taken or 0 end
    end
    -- As `weighed` in sliding_counter.lua.
    local count, counts, wait = tonumber(argv[2]), (over - now) * before, 0
    sound = sound and count > 0 and count <= capacity and counts < EXACT
    local rest = counts % length
    counts = (counts - rest) / length + (rest > 0 and 1 or 0)
    local granted, left = count, capacity - taken - counts - count
    local is_short = left > 0
    if sound and not is_short then
      -- As `apply` in bucket.lua, where no token is left.
      local tokens = left + count > 0 and left + count or 0
      if left < 0 then granted = argv[1] == 'share' and tokens or 0 end
      left = tokens - granted
      local missing = (granted == count or argv[1] == 'share') and 1 or count - tokens
      -- As in sliding_counter.lua.
      local room, counted, ends = capacity - taken - tokens - missing, before, over
      if room < 0 then room, counted, ends = room + taken + granted, taken + granted, over + length end
      local product = room * length
      sound = product < EXACT
      wait = ends - (product - product % counted) / counted - now
    end
    if sound then
      if granted > 0 then
        local state = struct.pack('<dddd', over - length, over, taken + granted, before)
        if kept then
          call('SET', KEYS[2], state, 'KEEPTTL')
        else
          call('SET', KEYS[2], state, 'PXAT', string.format('%d', math.ceil((over + length) / 1000)))
        end
      end
      if is_short then return left end
      return {granted > 0 and 1 or 0, left, capacity, wait, 0, now, granted, 0}
    end
  end
end
