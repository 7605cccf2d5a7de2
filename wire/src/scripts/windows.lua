-- What the algorithms share that count what is taken within windows of time. Prepended after bucket.lua to their
-- scripts.

-- What the record says, or nil when it is not there or not of this algorithm; its rules by the length of their windows,
-- the shortest first.
local function read_windows(record, algorithm)
  local f = redis.call('HMGET', record, 'algorithm', 'capacity', 'rules', 'aligned', 'since')
  if f[1] ~= algorithm then return nil end
  local rules = {}
  for tokens, micros in string.gmatch(f[3], '(%d+) (%d+)') do
    rules[#rules + 1] = {tokens = tonumber(tokens), micros = tonumber(micros)}
  end
  return {capacity = tonumber(f[2]), rules = rules, aligned = f[4] == '1', since = tonumber(f[5])}
end
