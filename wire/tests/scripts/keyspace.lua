-- Everything there is.
-- Reply: {key, type, content} of each key.
local read = {
  string = function(key) return redis.call('GET', key) end,
  stream = function(key)
    local rows = redis.call('XRANGE', key, '-', '+')
    for i = 1, #rows do rows[i][2] = rows[i][2][2] end
    return rows
  end,
  hash = function(key) return redis.call('HGETALL', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
}
local seen = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  seen[#seen + 1] = {key, kind, read[kind] and read[kind](key) or ''}
end
return seen
