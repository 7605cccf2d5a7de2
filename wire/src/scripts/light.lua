-- The common case of scripted.lua and joint.lua, before which it stands: takes, shares and peeks of buckets whose terms
-- are in the one field `packed` of the record (`packed_terms` in publish.lua). Making the functions of time.lua and
-- bucket.lua would cost more than all it does, so it has none, and does for such terms what these do for all. Nothing
-- is written before every bucket is decided: what it does not answer, it leaves to the rest as it was.
do
  local call, read, write, format = redis.call, struct.unpack, struct.pack, string.format
  local arguments, operation, count = #ARGV, ARGV[1], tonumber(ARGV[2])
  -- Where an operation would stand, joint.lua is given an algorithm.
  local joint = arguments > 2 and arguments % 3 == 0 and (operation == 'gcra' or string.find(operation, '-', 1, true))
  local light = joint or #KEYS == 2 and arguments == 2
    and (operation == 'take' or operation == 'share' or operation == 'peek')
  local now
  if light then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  end

  -- Of the bucket in hand: what is to be written, until when it is kept (as before, if nil), and how many entries of
  -- its log have left their window. Of several buckets, the same in tables.
  local state, value, till, dead, reply
  local states, values, tills, logs, replies, aheads, bucket, key, allowed
  if joint then
    states, values, tills, logs, replies, aheads, operation = {}, {}, {}, {}, {}, {}, 'take'
  end
  bucket, key, allowed = 1, 1, true
  while light do
    value, till, dead = nil, nil, nil
    local record, rests, due = KEYS[key], nil, nil
    state, key = KEYS[key + 1], key + 2
    if joint then
      local algorithm = ARGV[3 * bucket - 2]
      count = tonumber(ARGV[3 * bucket - 1])
      if algorithm == 'token-bucket' then
        rests, due, record, state, key = 4, KEYS[key], state, record, key + 2
      elseif algorithm == 'gcra' then
        rests, record, state = 2, state, record
      end
    end
    local packed = record and state and call('HGET', record, 'packed')
    light = false
    if packed and #packed == (rests and 53 or 40) then
      local kind, capacity, length, p, since, tag, ready, _
      if rests then
        capacity, length, p, kind, tag = read('<ddddc5', packed)
        ready = kind == rests and struct.size('l') == 8
      else
        kind, capacity, length, p, since = read('<ddddd', packed)
        -- The letter of its algorithm, by which a state is of the record's; see keyspace.rs.
        ready = kind == string.byte(state, #record - 4)
      end
      ready = ready and count <= capacity
      -- What could be taken, and of each algorithm what it is reckoned from.
      local tokens, n, missed, written, score
      local begun, over, taken, before, counts, kept
      local newest, sum, oldest, first

      if not ready then
        -- Not published, as another algorithm, or more than a bucket holds.
      elseif tag or kind == 108 or kind == 107 then
        -- At rest, lazy and leaky: a bucket that misses so many tokens, which come at a rate. At rest, none are missed
        -- at the instant at which it is full.
        n = length
        local held = call('GET', state)
        if tag and held then
          missed = 0
          if #held == 20 and string.byte(held) == 45 then
            written = string.byte(held, 2) == string.sub(tag, 3) % 8 + 49 and tonumber(string.sub(held, 3, 18))
          else
            written = string.sub(held, 1, 5) == tag and tonumber(string.sub(held, 6))
          end
          ready = written
        elseif tag then
          -- A counter that was evicted is not at rest.
          ready = not due or not call('ZSCORE', due, string.sub(state, #due))
        elseif held then
          local amount, under
          ready = #held == 24
          if ready then
            amount, written, under = read('<ddd', held)
            missed = kind == 107 and amount or capacity - amount
            ready = under == since and written <= now and missed <= capacity
          end
        end
        if held and ready then
          -- As `owed` in time.lua.
          local into = written % p
          local rest = into * n % p
          local i, base = (into * n - rest) / p, written - into
          local reached = now - (rest - rest % n) / n
          into = reached % p
          rest = into * n % p
          missed = missed - (((reached - into - base) / p - 1) * n + (n - i) + (into * n - rest) / p)
          score = now - (rest - rest % n) / n
        end
        if not missed or missed <= 0 then
          -- As `start`.
          missed, score = 0, now
          if n > 1 then
            local rest = (now + 1) % p * n % p
            score = now + (n <= p and (rest - rest % n) / n >= (p - p % n) / n and 2 or 1)
          end
        end
        tokens = capacity - missed
        -- The clock stepped back.
        if tokens < 0 then ready = false end
      elseif kind == 102 then
        -- Fixed windows; aligned ones begin at multiples of their length.
        local held = call('GET', state)
        ready = not held or #held == 24
        if held and ready then
          begun, over, taken = read('<ddd', held)
          ready = over - begun == length and begun <= now and (p == 0 or begun % length == 0)
          kept = over > now
        end
        if not kept then
          begun, taken = p == 0 and now or now - now % length, 0
          over = begun + length
        end
        tokens = taken < capacity and capacity - taken or 0
      elseif kind == 99 then
        -- Two windows, the former as far as it reaches into the time of one that ends now.
        local held = call('GET', state)
        taken, before = 0, 0
        over = now - now % length + length
        ready = not held or #held == 32
        if held and ready then
          local ended
          begun, ended, taken, before = read('<dddd', held)
          ready = ended - begun == length and begun <= now
          kept = ended == over and taken > 0
          local windows = over - begun + begun % length - length
          if windows > 0 then taken, before = 0, windows == length and taken or 0 end
        end
        -- As `weighed` in sliding_counter.lua.
        counts = (over - now) * before
        if counts >= 9007199254740992 then ready = false end
        local rest = counts % length
        counts = (counts - rest) / length + (rest > 0 and 1 or 0)
        tokens = capacity - taken - counts
        if tokens < 0 then tokens = 0 end
      elseif kind == 115 then
        -- A log of what was taken.
        local row, used = call('LINDEX', state, '-1'), 0
        newest, sum = now, 0
        if row then
          newest, sum = read('<dd', row)
          local gone = now - length
          -- Some of them may have left the window, a few of which are looked at here.
          dead, ready = 0, newest > gone and newest <= now
          if ready then
            row = call('LINDEX', state, '0')
            oldest, used = read('<dd', row)
            while oldest <= gone and dead < 8 do
              dead = dead + 1
              row = call('LINDEX', state, dead)
              oldest, used = read('<dd', row)
            end
            ready = oldest > gone
            first = #row > 16 and read('<d', row, 17) or 1
            used = (sum - used + first) % 4503599627370496
          end
        end
        -- Kept for up to an eighth longer than it counts, so that not each take has to say until when.
        n = (length - length % 8) / 8 + 1
        dead, kept = dead or 0, row and newest > since and newest - newest % n == now - now % n
        tokens = used < capacity and capacity - used or 0
        counts = used
      else
        ready = false
      end

      -- As `operate` in bucket.lua.
      local verdict, granted, missing = 1, count, 0
      if ready then
        if operation == 'share' then
          if tokens == 0 then verdict = 0 end
          if tokens <= count then granted, missing = tokens, 1 end
        elseif tokens < count then
          verdict, granted, missing = 0, 0, count - tokens
        elseif operation == 'peek' then
          granted = 0
        elseif tokens == count then
          missing = 1
        end
        tokens = tokens - granted
      end

      local wait, ahead, writes = 0, 0, verdict == 1 and operation ~= 'peek'
      if not ready then
        -- Left to the rest.
      elseif score then
        if verdict == 0 and operation ~= 'peek' then writes = not tag and score ~= written end
        missed = capacity - tokens
        -- A bucket at rest has no key, and a take of nothing may leave none.
        if missed == 0 and writes then ready = false end
        -- As `instant`: when so many more tokens have come. All, if it is written; those missing; all missed before.
        local into = score % p
        local rest = into * n % p
        local i, base = (into * n - rest) / p, score + (rest - rest % n) / n - into
        for turn = writes and 1 or 2, tag and 3 or 2 do
          local k = turn == 1 and missed or turn == 2 and missing or missed - granted
          if k > 0 then
            local more = k % n
            local token, spans = i + more, (k - more) / n
            if token >= n then token, spans = token - n, spans + 1 end
            local rest = token * p % n
            local at = base + spans * p + (token * p - rest) / n + (rest > 0 and 1 or 0)
            if at > 9007199254740992 then at = 9007199254740992 end
            if turn == 1 then till = at elseif turn == 2 then wait = at - now else ahead = at - now end
          elseif turn == 3 then
            ahead = score - now
          end
        end
        if till == 9007199254740992 and tag then ready = false end
        if not ready then
          -- Left to the rest.
        elseif writes and tag then
          -- As `rests_as_number` in rest.lua says.
          if kind == 4 and n == 1 and p >= 10000 and capacity >= 3 and capacity <= 100000
            and capacity * p <= 100000000000000 then
            value = '-' .. string.sub(tag, 3) % 8 + 1 .. format('%d', till) .. '00'
          else
            value = tag .. format('%d', till)
          end
        elseif writes then
          value = write('<ddd', kind == 107 and missed or tokens, score, since)
        end
      elseif kind == 102 then
        if missing > 0 then wait = over - now end
        if tokens == capacity and writes then ready = false end
        if writes then
          value = write('<ddd', begun, over, capacity - tokens)
          if not kept then till = over end
        end
      elseif kind == 99 then
        taken = taken + granted
        if missing > 0 then
          -- When so little of the window before counts that the rest fits; of this one, once it is that.
          local room, counted, ends = capacity - taken - tokens - missing, before, over
          if room < 0 then room, counted, ends = room + taken, taken, over + length end
          local product = room * length
          if product >= 9007199254740992 then ready = false end
          wait = ends - (product - product % counted) / counted - now
        end
        if taken == 0 and writes then ready = false end
        if writes then
          value = write('<dddd', over - length, over, taken, before)
          if not kept then till = over + length end
        end
      else
        if missing > 0 then
          -- When as many leave as have to.
          local excess = counts + granted + tokens + missing - capacity
          ready = excess <= (first or granted)
          wait = (oldest or now) + length - now
        end
        if granted == 0 and writes then ready = false end
        if writes then
          local all = (sum + granted) % 4503599627370496
          value = granted == 1 and write('<dd', now, all) or write('<ddd', now, all, granted)
          if not kept then till = now - now % n + n + length end
        end
      end
      if ready then
        light = true
        if joint then
          local headroom = tag and till and till - now or ahead
          reply = write('<dddddddd', verdict, tokens, capacity, wait, headroom, now, granted, 0)
          aheads[bucket] = ahead
          if verdict ~= 1 and ARGV[3 * bucket] == '1' then allowed = false end
        else
          reply = {verdict, tokens, capacity, wait, 0, now, granted, 0}
        end
      end
    end

    if not joint or not light then break end
    states[bucket], values[bucket], tills[bucket], logs[bucket], replies[bucket] = state, value, till, dead, reply
    if 3 * bucket == arguments then
      light = key == #KEYS + 1
      break
    end
    bucket = bucket + 1
  end

  if light then
    for i = 1, bucket do
      if joint then
        state, value, till, dead = states[i], values[i], tills[i], logs[i]
        if not allowed then
          local verdict, tokens, capacity, _, _, _, granted = read('<ddddddd', replies[i])
          -- What a peek would be told.
          if verdict == 1 then
            replies[i] = write('<dddddddd', 1, tokens + granted, capacity, 0, aheads[i], now, 0, 0)
          end
        end
      end
      if not allowed or not value then
        -- Stays as it was.
      elseif dead then
        call('RPUSH', state, value)
        if dead > 0 then call('LTRIM', state, dead, '-1') end
        if till then call('PEXPIREAT', state, format('%d', math.ceil(till / 1000))) end
      elseif till then
        call('SET', state, value, 'PXAT', format('%d', math.ceil(till / 1000)))
      else
        call('SET', state, value, 'KEEPTTL')
      end
    end
    return joint and table.concat(replies) or reply
  end
end
