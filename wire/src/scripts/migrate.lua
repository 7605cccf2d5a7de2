-- Migrates one slice of buckets over a change of terms. Credits them under the previous terms up to the change, and
-- under the present ones since. Runs after time.lua, bucket.lua and rest.lua.
--
-- KEYS
-- 1. record
-- 2. due index
-- 3. previous index
-- 4. and on, counters of the buckets in the slice
--
-- ARGV
-- 1. bytes before the member in a counter's key
--
-- Reply {migrated, left, now}. Buckets migrated by this call, buckets still in the previous index, the instant of
--       Redis.
--
-- Laws  3 6. A bucket that is not in the previous index any more stays as it is. A worker may have settled it.
assert(#KEYS >= 3 and #ARGV == 1, 'migrate takes at least 3 keys and 1 argument')
local record, due, previous, prefix = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1])

local now = microseconds()
local terms = read_terms(record, 'token-bucket')
local migrated = 0
if terms and terms.has_previous then
  local before = read_previous_terms(record)
  -- A change that is overdue ends the time of these terms.
  local due_change = overdue(terms, now)
  local till = due_change or now
  local may_vanish = not due_change and absent(terms, now) >= terms.capacity
  for i = 4, #KEYS do
    local member = string.sub(KEYS[i], prefix + 1)
    local indexed = redis.call('ZSCORE', previous, member)
    if indexed then
      local text = redis.call('GET', KEYS[i])
      -- The counter of a bucket at rest was evicted, and a worker took the bucket for full. It belongs in no index.
      if not parse_rest(text) then
        local tokens, at = migrate_counter(before, terms, tonumber(text) or 0, score_in_index(indexed))
        if terms.catch_up then tokens, at = credit(terms, tokens, at, till) end
        if tokens >= terms.capacity and may_vanish then
          redis.call('UNLINK', KEYS[i])
        else
          redis.call('SET', KEYS[i], whole(tokens))
          redis.call('ZADD', due, whole(index_score(terms, tokens, at)), member)
        end
      end
      redis.call('ZREM', previous, member)
      migrated = migrated + 1
    end
  end
end
local left = redis.call('ZCARD', previous)
if left == 0 and terms and terms.has_previous then
  terms.has_previous = false
  redis.call('HSET', record, 'former', 0, 'packed', packed_terms('token-bucket', terms))
end
return {migrated, left, now}
