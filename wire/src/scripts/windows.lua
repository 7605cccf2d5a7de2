-- Functions for algorithms that count tokens within windows of time. Prepended after bucket.lua to their scripts.

-- The record as a table; nil where there is none, or one of another algorithm. The rule of the shortest window is
-- first.
local function read_windows(record, algorithm)
  local f = redis.call('HMGET', record, 'algorithm', 'capacity', 'rules', 'aligned', 'since')
  if f[1] ~= algorithm then return nil end
  local rules = {}
  for tokens, micros in string.gmatch(f[3], '(%d+) (%d+)') do
    rules[#rules + 1] = {tokens = tonumber(tokens), micros = tonumber(micros)}
  end
  return {capacity = tonumber(f[2]), rules = rules, aligned = f[4] == '1', since = tonumber(f[5])}
end
