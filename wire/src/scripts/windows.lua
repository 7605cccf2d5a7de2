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

-- The whole numbers of a state that is a text of them.
local function numbers(text)
  local found = {}
  for number in string.gmatch(text or '', '%d+') do found[#found + 1] = tonumber(number) end
  return unpack(found)
end

-- Keeps a state of whole numbers until an instant.
local function keep(state, till, ...)
  local texts = {...}
  for i = 1, #texts do texts[i] = whole(texts[i]) end
  redis.call('SET', state, table.concat(texts, ' '), 'PXAT', whole(math.ceil(till / 1000)))
end
