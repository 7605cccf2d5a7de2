-- Everything there is.
-- Reply {key, type, content} of each key. Packed doubles of 8 bytes come as text.
local function told(value)
  if not string.find(value, '[%z\1-\31\127-\255]') then return value end
  if #value == 53 then
    -- Packed terms with a form and a tag.
    local numbers = {struct.unpack('<ddddc5dd', value)}
    for i = 1, 7 do numbers[i] = i == 5 and numbers[i] or string.format('%.0f', numbers[i]) end
    return table.concat(numbers, ' ', 1, 7)
  end
  local numbers = {struct.unpack('<' .. string.rep('d', #value / 8), value)}
  for i = 1, #numbers do numbers[i] = string.format('%.0f', numbers[i]) end
  return table.concat(numbers, ' ', 1, #numbers - 1)
end
local function all(values)
  for i = 1, #values do values[i] = told(values[i]) end
  return values
end
local read = {
  string = function(key) return told(redis.call('GET', key)) end,
  list = function(key) return all(redis.call('LRANGE', key, 0, -1)) end,
  hash = function(key) return all(redis.call('HGETALL', key)) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
}
local seen = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  seen[#seen + 1] = {key, kind, read[kind] and read[kind](key) or ''}
end
return seen
