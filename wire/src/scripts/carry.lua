-- Carries one slice of buckets over a change of terms: credited under the terms of before up to the change, under the
-- present ones since. Runs after time.lua, bucket.lua and rest.lua.
-- KEYS  1 record  2 due index  3 former index  4... counters of the buckets in the slice
-- ARGV  1 bytes before the member in a counter's key
-- Reply {carried, left, now}: buckets carried by this call, buckets still in the former index, the instant of Redis.
-- Laws  3 6. A bucket no longer in the former index is left alone; a worker may have settled it meanwhile.
assert(#KEYS >= 3 and #ARGV == 1, 'carry takes at least 3 keys and 1 argument')
local record, due, former, prefix = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1])

local now = microseconds()
local terms = read_terms(record, 'token-bucket')
local carried = 0
if terms and terms.former then
  local before = read_former_terms(record)
  local may_vanish = absent(terms, now) >= terms.capacity
  for i = 4, #KEYS do
    local member = string.sub(KEYS[i], prefix + 1)
    local stood = redis.call('ZSCORE', former, member)
    if stood then
      local text = redis.call('GET', KEYS[i])
      -- One at rest has no place here: its counter was evicted, and it was taken for full.
      if not parse_rest(text) then
        local tokens, at = carry_counter(before, terms, tonumber(text) or 0, score_at(stood))
        if terms.catch_up then tokens, at = credit(terms, tokens, at, now) end
        if tokens >= terms.capacity and may_vanish then
          redis.call('UNLINK', KEYS[i])
        else
          redis.call('SET', KEYS[i], whole(tokens))
          redis.call('ZADD', due, whole(place(terms, tokens, at)), member)
        end
      end
      redis.call('ZREM', former, member)
      carried = carried + 1
    end
  end
end
local left = redis.call('ZCARD', former)
if left == 0 and terms and terms.former then
  terms.former = false
  redis.call('HSET', record, 'former', 0, 'packed', packed_terms('token-bucket', terms))
end
return {carried, left, now}
