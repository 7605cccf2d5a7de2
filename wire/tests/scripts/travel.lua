-- Makes time pass: every instant kept in Redis moves back, or forward when the clock is to step back.
-- KEYS  1 record  2 due index  3 previous index  4 the beginning of the buckets' keys
-- ARGV  1 µs to pass
local by = tonumber(ARGV[1])
local function earlier(instant) return string.format('%016.0f', instant - by) end
local function score(instant) return string.format('%.0f', instant - by) end

for i = 2, 3 do
  local scored = redis.call('ZRANGE', KEYS[i], 0, -1, 'WITHSCORES')
  for j = 1, #scored, 2 do redis.call('ZADD', KEYS[i], score(scored[j + 1]), scored[j]) end
end
for _, field in ipairs({'since', 'anchored', 'filled', 'fills', 'was_filled'}) do
  local instant = tonumber(redis.call('HGET', KEYS[1], field) or 0)
  -- 0 is none, and 2^53 never.
  if instant > 0 and instant < 9007199254740992 then redis.call('HSET', KEYS[1], field, score(instant)) end
end
local before = redis.call('HGET', KEYS[1], 'earlier')
if before and before ~= '' then
  local rows = {}
  for count, ended, pace, filled, change in string.gmatch(before, '(%d+) (%d+) (%d+ %d+ %d+) (%d+) (%a+)') do
    if tonumber(filled) > 0 then filled = score(filled) end
    rows[#rows + 1] = table.concat({count, score(ended), pace, filled, change}, ' ')
  end
  redis.call('HSET', KEYS[1], 'earlier', table.concat(rows, ','))
end
local schedule = redis.call('HGET', KEYS[1], 'schedule')
if schedule and schedule ~= '' then
  local changes = {}
  for at, rest in string.gmatch(schedule, '(%d+)( [^,]+)') do changes[#changes + 1] = score(at) .. rest end
  redis.call('HSET', KEYS[1], 'schedule', table.concat(changes, ','))
end
-- The last number of the packed terms of other algorithms is an instant.
local packed = redis.call('HGET', KEYS[1], 'packed')
if packed and #packed == 40 and struct.unpack('<d', packed, 33) > 0 then
  local instant = struct.unpack('<d', packed, 33)
  redis.call('HSET', KEYS[1], 'packed', string.sub(packed, 1, 32) .. struct.pack('<d', instant - by))
end

-- Redis 6.2 has no PEXPIRETIME, and tells PTTL by a clock that does not stand still.
local function expiry(key)
  local exact = redis.pcall('PEXPIRETIME', key)
  if type(exact) == 'number' then return exact end
  local before, left, after
  repeat
    before, left, after = redis.call('TIME'), redis.call('PTTL', key), redis.call('TIME')
  until before[1] == after[1] and math.floor(before[2] / 1000) == math.floor(after[2] / 1000)
  return before[1] * 1000 + math.floor(before[2] / 1000) + left
end

-- Keys expire by the ms, and none too early.
for _, key in ipairs(redis.call('KEYS', KEYS[4] .. '*')) do
  local text = redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) or ''
  local form, tag, digits = string.match(text, '^([frhd])(%d%d%d%d)(%d+)$')
  local integer = #text == 20 and string.byte(text) == 45
  if form or integer then
    local expires = expiry(key) - math.floor(by / 1000)
    local changed = integer and string.sub(text, 1, 2) .. earlier(string.sub(text, 3, 18)) .. string.sub(text, 19)
      or 'f' .. tag .. digits
    if form == 'r' then changed = 'r' .. tag .. earlier(digits) end
    if form == 'h' then
      changed = 'h' .. tag .. earlier(string.sub(digits, 1, 16)) .. earlier(string.sub(digits, 17))
    end
    if form == 'd' then
      local hold = string.sub(digits, 17, 32)
      if tonumber(hold) > 0 then hold = earlier(hold) end
      changed = 'd' .. tag .. earlier(string.sub(digits, 1, 16)) .. hold .. string.sub(digits, 33)
    end
    redis.call('SET', key, changed)
    redis.call('PEXPIREAT', key, string.format('%.0f', expires))
  end
end
return redis.status_reply('OK')
