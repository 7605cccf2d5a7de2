-- States of a few whole numbers, each a double of 8 bytes. Prepended after bucket.lua to the scripts of such
-- algorithms.

-- The numbers of a state, by a form of struct.unpack; none where there is no state of that length.
local function numbers(state, form)
  local held = redis.call('GET', state)
  if held and #held == struct.size(form) then return struct.unpack(form, held) end
end

-- Writes numbers that expire at an instant.
local function keep(state, till, form, ...)
  redis.call('SET', state, struct.pack(form, ...), 'PXAT', whole(math.ceil(till / 1000)))
end
