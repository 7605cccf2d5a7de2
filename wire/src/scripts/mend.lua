-- Mends the record of one shard, and the types of its indexes. Runs after time.lua, bucket.lua and packed_state.lua.
--
-- KEYS
-- 1. record
-- 2. due index
-- 3. previous index
--
-- ARGV
-- 1. the record's field `generation` as the caller has seen it, empty if it has seen none
-- 2. and on, all fields and values of the limit. Then those that scripts wrote, where the caller has verified them
--
-- Reply {outcome, what, field, value, ...}, with the record after it.
-- - 0 all is as it should be
-- - 1 mended, since `what` differed
-- - 2 nothing was done, since another daemon has published the record meanwhile
--
-- Laws  6. Buckets and due index stay, so a lost record costs no token. Announce a mended record: workers may have read
--       the one before.
assert(#KEYS == 3 and #ARGV >= 3 and #ARGV % 2 == 1, 'mend takes 3 keys, a generation and pairs of fields and values')
local record, due, previous = KEYS[1], KEYS[2], KEYS[3]
-- A record has 37 fields at most.
local MOST_FIELDS = 64
-- An instant so far ahead of the clock is none of a clock that stepped back.
local AHEAD = 86400000000
-- A freeze ends a second after it began. One that stands for longer was left behind.
local LONGEST_FREEZE = 10000000

local now = microseconds()
local kind = redis.call('TYPE', record).ok
local has_fields = kind == 'hash' and redis.call('HLEN', record) <= MOST_FIELDS
if (has_fields and redis.call('HGET', record, 'generation') or '') ~= ARGV[1] then return {2, ''} end

local differences = {}
for i, index in ipairs({'due index', 'previous index'}) do
  local found = redis.call('TYPE', KEYS[i + 1]).ok
  if found ~= 'zset' and found ~= 'none' then
    redis.call('UNLINK', KEYS[i + 1])
    differences[#differences + 1] = index .. ' of type ' .. found
  end
end
if kind == 'none' then
  differences[#differences + 1] = 'no record'
elseif not has_fields then
  redis.call('UNLINK', record)
  differences[#differences + 1] = kind == 'hash' and 'record of too many fields' or 'record of type ' .. kind
end
local rows = has_fields and redis.call('HGETALL', record) or {}
local held = {}
for i = 1, #rows, 2 do held[rows[i]] = rows[i + 1] end

-- The fields of the limit are as given. A limit of a config has no end: `expires` goes.
local given, names, target = {}, {}, {}
local scripts_own = ' packed anchor anchored former since terms frozen generation was_capacity was_n was_p was_filled '
 .. 'earlier change permit_longest plans_before plans_at plans_past expires '
for i = 2, #ARGV, 2 do
  given[ARGV[i]] = ARGV[i + 1]
  if not string.find(scripts_own, ' ' .. ARGV[i] .. ' ', 1, true) then
    names[#names + 1], target[ARGV[i]] = ARGV[i], ARGV[i + 1]
  end
end

-- The others are as verified, or else as they are where they can be, or else as in a new record.
local function number_in(text, least, most)
  local number = text and string.find(text, '^%d+$') and tonumber(text)
  return number and number >= least and number <= most and number
end
local function keep(field, most, otherwise)
  local text = given[field] or number_in(held[field], 0, most) and held[field] or whole(otherwise)
  names[#names + 1], target[field] = field, text
end
local is_verified, capacity = given.since ~= nil, tonumber(given.capacity)
keep('since', now + AHEAD, now)
keep('terms', EXACT, math.floor(now / 1000000))
keep('anchor', EXACT, capacity)
keep('anchored', now + AHEAD, now)
keep('generation', EXACT - 1, 1)

-- Holders of permits go by the longest ttl that they were told.
local told = given.permit_longest
  or not is_verified and number_in(held.permit_longest, 0, EXACT) and held.permit_longest
if told then target.permit_longest = told end

-- A freeze of another daemon stays until it is made.
local frozen = number_in(held.frozen, 0, now) or 0
target.frozen = frozen > now - LONGEST_FREEZE and whole(frozen) or '0'
-- The last bucket of the previous index may have been migrated by a worker.
local has_buckets = given.algorithm == 'token-bucket' and redis.call('EXISTS', previous) == 1
local said = given.algorithm == 'token-bucket' and held.former == '1' and held.was_n
target.former = (has_buckets or said) and '1' or '0'
-- Without the previous terms, the buckets migrate as if the terms had not changed.
local was = {
  was_capacity = given.capacity, was_n = given.n, was_p = given.p, was_filled = given.filled, change = 'keep',
}
local known = number_in(held.was_capacity, 1, EXACT) and number_in(held.was_n, 0, EXACT)
  and number_in(held.was_p, 1, EXACT) and number_in(held.was_filled, 0, EXACT)
  and string.find(' keep proportional reset ', ' ' .. (held.change or '-') .. ' ', 1, true)
for field, present in pairs(was) do
  local value = is_verified and given[field] or not is_verified and known and held[field]
    or target.former == '1' and present
  if value then target[field] = value end
end

local earlier = is_verified and given.earlier or not is_verified and known and held.earlier
target.earlier = earlier and #earlier < MOST_EARLIER_BYTES and earlier or nil

-- Assignments before a change of the table. Without its instant, the change is long past.
local changed_at = number_in(is_verified and given.plans_at or not is_verified and held.plans_at, 1, now + AHEAD)
if changed_at then
  target.plans_at = whole(changed_at)
  for _, field in ipairs({'plans_before', 'plans_past'}) do
    target[field] = is_verified and given[field] or not is_verified and held[field] or ''
  end
end

local terms = {
  capacity = capacity, n = tonumber(given.n), p = tonumber(given.p), catch_up = given.catch_up == '1',
  tick = tonumber(given.tick), anchor = tonumber(target.anchor), anchored = tonumber(target.anchored),
  has_previous = target.former == '1', filled = tonumber(given.filled), fills = tonumber(given.fills),
  tag = format('%04d', tonumber(target.terms) % TAGS), schedule = given.schedule or '',
}
-- Absent buckets may have grown to a raised capacity. A worker that may not write the record leaves that to be written.
if given.rules == '' and terms.n > 0 and terms.anchor < capacity and absent_full(terms) <= now then
  terms.anchor, target.anchor = capacity, whole(capacity)
end
if given.algorithm == 'token-bucket' or given.algorithm == 'gcra' then
  target.packed = packed_terms(given.algorithm, terms)
else
  local before, changed = given.packed or held.packed, nil
  if before and #before == PACKED_STATE_LENGTH then changed = select(5, struct.unpack('<ddddd', before)) end
  if not (changed and changed >= 0 and changed <= now + AHEAD and changed % 1 == 0) then changed = now end
  target.packed = packed_state_terms(given, terms, target.since, changed)
end

-- A newer version may have fields that this one does not know. Later ones than those verified are foreign.
for field, value in pairs(held) do
  if not is_verified and not target[field] and not string.find(scripts_own, ' ' .. field .. ' ', 1, true) then
    target[field] = value
  end
end

if has_fields then
  local changed = {}
  for field, value in pairs(target) do
    if held[field] ~= value then changed[#changed + 1] = field end
  end
  for field in pairs(held) do
    if not target[field] then changed[#changed + 1] = string.format('%q', string.sub(field, 1, 32)) end
  end
  table.sort(changed)
  if #changed > 6 then changed = {unpack(changed, 1, 6)}; changed[7] = 'and others' end
  if #changed > 0 then differences[#differences + 1] = table.concat(changed, ', ') end
end
if #differences == 0 then return {0, '', unpack(rows)} end

redis.call('DEL', record)
-- Redis searches a small hash from its beginning, so the field that every take reads is written first.
redis.call('HSET', record, 'packed', target.packed)
for _, field in ipairs(names) do
  redis.call('HSET', record, field, target[field])
  target[field] = nil
end
target.packed = nil
for field, value in pairs(target) do redis.call('HSET', record, field, value) end
redis.call('HINCRBY', record, 'generation', 1)
return {1, table.concat(differences, '; '), unpack(redis.call('HGETALL', record))}
