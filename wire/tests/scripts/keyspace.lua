-- Everything there is.
-- Reply: {key, type, content} of each key.
local read = {
  string = function(key) return redis.call('GET', key) end,
  stream = function(key)
    local rows = redis.call('XRANGE', key, '-', '+')
    for i = 1, #rows do rows[i][2] = rows[i][2][2] end
    return rows
  end,
  hash = function(key)
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      -- Doubles and a tag, as text.
      if fields[i] == 'packed' and #fields[i + 1] == 53 then
        local numbers = {struct.unpack('<ddddc5dd', fields[i + 1])}
        for j = 1, 7 do numbers[j] = j == 5 and numbers[j] or string.format('%.0f', numbers[j]) end
        fields[i + 1] = table.concat(numbers, ' ', 1, 7)
      end
    end
    return fields
  end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
}
local seen = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  seen[#seen + 1] = {key, kind, read[kind] and read[kind](key) or ''}
end
return seen
