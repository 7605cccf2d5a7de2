-- Tops up counters, to capacity at most.
-- KEYS counters   ARGV 1 credit, 2 capacity   Reply nothing
for _, key in ipairs(KEYS) do
  local tokens = tonumber(redis.call('GET', key) or 0)
  redis.call('SET', key, math.min(tonumber(ARGV[2]), tokens + tonumber(ARGV[1])))
end
