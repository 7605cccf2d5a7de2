-- The quickest cases of script_only.lua for fixed windows: a take or a share that leaves tokens. Its window is under
-- way, or begins with it and is not aligned. The clock and the expiry are of use in other cases only, and are not read.
-- It stands before take_packed.lua, has no functions, and leaves all other cases to the files after it, the keys
-- unchanged.
-- ARGV  3 given for this file alone, which removes it
-- Reply the tokens left, at least 1. All other cases have the reply of script_only.lua.
if ARGV[3] == 'quick' and #KEYS == 2 then
  local argv, call, taken = ARGV, redis.pcall, nil
  argv[3] = nil
  local packed = call('HGET', KEYS[1], 'packed')
  if packed and #packed == PACKED_STATE_LENGTH then
    local letter, capacity, length, aligned = struct.unpack('<dddd', packed)
    taken = letter == FIXED_WINDOW_LETTER and call('INCRBY', KEYS[2], argv[2])
    if type(taken) == 'number' then
      local count = tonumber(argv[2])
      if taken < capacity and count > 0 then
        if taken > count then return capacity - taken end
        if taken == count and aligned == 0 and length > 1000 then
          -- The key is there until the last ms of the window.
          call('PEXPIRE', KEYS[2], math.ceil(length / 1000) - 1)
          return capacity - taken
        end
      end
      if taken == count then call('DEL', KEYS[2]) else call('DECRBY', KEYS[2], argv[2]) end
    end
  end
end
