-- The quickest cases of script_only.lua for sliding counters: a take or a share that leaves tokens. It stands before
-- take_packed.lua, has no functions, and leaves all other cases to the files after it, the keys unchanged.
-- ARGV  3 given for this file alone, which removes it
-- Reply the tokens left, at least 1. All other cases have the reply of script_only.lua.
if ARGV[3] == 'quick' and #KEYS == 2 then
  local call, read = redis.call, struct.unpack
  ARGV[3] = nil
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
    local count, counts = tonumber(ARGV[2]), (over - now) * before
    sound = sound and count > 0 and counts < EXACT
    local rest = counts % length
    counts = (counts - rest) / length + (rest > 0 and 1 or 0)
    local left = capacity - taken - counts - count
    if sound and left > 0 then
      local state = struct.pack('<dddd', over - length, over, taken + count, before)
      if kept then
        call('SET', KEYS[2], state, 'KEEPTTL')
      else
        call('SET', KEYS[2], state, 'PXAT', string.format('%d', math.ceil((over + length) / 1000)))
      end
      return left
    end
  end
end
