-- The common case of script_only.lua and take_all.lua, before which it stands: takes, shares and peeks under packed
-- terms (`packed_terms` in bucket.lua, `packed_state_terms` in publish.lua). To make the functions of time.lua and
-- bucket.lua would cost more than all of its work. It has none therefore, and computes only for packed terms.
-- It writes nothing before every bucket is decided. All other cases it leaves to the files after it, the keys
-- unchanged.
do
  local call, read, write, format = redis.call, struct.unpack, struct.pack, string.format
  local arguments, operation, count = #ARGV, ARGV[1], tonumber(ARGV[2])
  -- take_all.lua is given an algorithm in the place of the operation.
  local several = arguments > 2 and arguments % 3 == 0 and (operation == 'gcra' or string.find(operation, '-', 1, true))
  local decided = several or #KEYS == 2 and arguments == 2
    and (operation == 'take' or operation == 'share' or operation == 'peek')
  local now
  if decided then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  end

  -- The present bucket: the value to be written, its expiry (unchanged if nil), and how many entries of its log have
  -- left their window. For several buckets, the same in tables.
  local state, value, till, dead, reply
  local states, values, tills, logs, replies, aheads, bucket, key, allowed
  if several then
    states, values, tills, logs, replies, aheads, operation = {}, {}, {}, {}, {}, {}, 'take'
  end
  bucket, key, allowed = 1, 1, true
  while decided do
    value, till, dead = nil, nil, nil
    local record, rests, due = KEYS[key], nil, nil
    state, key = KEYS[key + 1], key + 2
    if several then
      local algorithm = ARGV[3 * bucket - 2]
      count = tonumber(ARGV[3 * bucket - 1])
      if algorithm == 'token-bucket' then
        rests, due, record, state, key = TOKEN_BUCKET_KIND, KEYS[key], state, record, key + 2
      elseif algorithm == 'gcra' then
        rests, record, state = GCRA_KIND, state, record
      end
    end
    local packed = record and state and call('HGET', record, 'packed')
    decided = false
    if packed and #packed == (rests and PACKED_LENGTH or PACKED_STATE_LENGTH) then
      local kind, capacity, length, p, since, form, tag, ready, _
      if rests then
        capacity, length, p, kind, form, tag = read('<ddddc1c4', packed)
        ready = kind == rests and struct.size('l') == 8
      else
        kind, capacity, length, p, since = read('<ddddd', packed)
        -- The letter in the state's key must be that of the record's algorithm.
        ready = kind == string.byte(state, #record - 4)
      end
      ready = ready and count <= capacity
      -- Tokens that can be taken, and the numbers of each algorithm that they follow from.
      local tokens, n, missed, written, score
      local begun, over, taken, before, counts, kept
      local newest, sum, oldest, first

      if not ready then
        -- The limit is not published, or of another algorithm, or the count is above the capacity.
      elseif tag or kind == LAZY_LETTER or kind == LEAKY_LETTER then
        -- At rest, lazy and leaky: the bucket misses tokens, which come at a rate. At rest, it misses none at its full
        -- instant.
        n = length
        local held = call('GET', state)
        if tag and held then
          missed = 0
          if #held == NUMBER_LENGTH and string.byte(held) == NUMBER_FORM then
            -- 49 is the digit 1.
            written = string.byte(held, 2) == string.sub(tag, 2) % NUMBER_TERMS + 49
              and tonumber(string.sub(held, 3, 18))
            if written and string.sub(held, 19) ~= '00' then written = written + 1 end
          else
            written = string.sub(held, 1, 5) == 'r' .. tag and tonumber(string.sub(held, 6))
          end
          ready = written
        elseif tag then
          -- A bucket in the index has no key if its counter was evicted.
          ready = not due or not call('ZSCORE', due, string.sub(state, #due))
        elseif held then
          local amount, under
          ready = #held == 24
          if ready then
            amount, written, under = read('<ddd', held)
            missed = kind == LEAKY_LETTER and amount or capacity - amount
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
        -- More is missing than the bucket holds, since the clock stepped back.
        if tokens < 0 then ready = false end
      elseif kind == FIXED_WINDOW_LETTER then
        -- Fixed windows. Aligned ones begin at multiples of their length. The key is there until the window ends.
        kept = call('GET', state)
        taken = kept and tonumber(kept) or 0
        ready = not kept or taken > 0 and #kept <= 15 and string.find(kept, '^%d+$')
        tokens = taken < capacity and capacity - taken or 0
      elseif kind == SLIDING_COUNTER_LETTER then
        -- Two windows. The earlier one counts by its share in the time of one window that ends now.
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
        if counts >= EXACT then ready = false end
        local rest = counts % length
        counts = (counts - rest) / length + (rest > 0 and 1 or 0)
        tokens = capacity - taken - counts
        if tokens < 0 then tokens = 0 end
      elseif kind == SLIDING_WINDOW_LETTER then
        -- A log of takes.
        local row, used = call('LINDEX', state, '-1'), 0
        newest, sum = now, 0
        if row then
          newest, sum = read('<dd', row)
          local gone = now - length
          -- Up to 8 entries that have left the window are skipped here.
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
            used = (sum - used + first) % LOG_TOTALS
          end
        end
        -- The key lives up to an eighth of the window longer than the log counts, so not every take has to set its
        -- expiry.
        n = (length - length % LOG_KEPT_LONGER) / LOG_KEPT_LONGER + 1
        dead, kept = dead or 0, row and newest > since and newest - newest % n == now - now % n
        tokens = used < capacity and capacity - used or 0
        counts = used
      else
        ready = false
      end

      -- As `apply` in bucket.lua.
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
        -- Left to the files after this one.
      elseif score then
        if verdict == 0 and operation ~= 'peek' then writes = not tag and score ~= written end
        missed = capacity - tokens
        -- A full bucket has no key, and a take of no tokens may leave it full.
        if missed == 0 and writes then ready = false end
        -- As `instant` in time.lua, in up to three turns.
        -- 1. The instant at which the bucket is full, if it is written.
        -- 2. The instant by which the missing tokens have come.
        -- 3. The instant at which the bucket would have been full without this take.
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
            if at > EXACT then at = EXACT end
            if turn == 1 then till = at elseif turn == 2 then wait = at - now else ahead = at - now end
          elseif turn == 3 then
            ahead = score - now
          end
        end
        if till == EXACT and tag then ready = false end
        if not ready then
          -- Left to the files after this one.
        elseif writes and tag then
          if form == '-' then
            value = '-' .. string.sub(tag, 2) % NUMBER_TERMS + 1 .. format('%d', till) .. '00'
          else
            value = 'r' .. tag .. format('%d', till)
          end
        elseif writes then
          value = write('<ddd', kind == LEAKY_LETTER and missed or tokens, score, since)
        end
      elseif kind == FIXED_WINDOW_LETTER then
        -- As in fixed_window.lua, which begins a window anew that would end too late.
        local ms = now - now % 1000
        over = (p == 0 and ms or ms + 1000 - (ms + 1000) % length) + length
        over = over + -over % 1000
        if missing > 0 then
          local latest = over
          if kept then over = ms + (call('PTTL', state) + 1) * 1000 end
          ready = over > ms and over <= latest
          wait = over - now
        end
        if granted == 0 and writes then ready = false end
        if writes then
          value = format('%d', taken + granted)
          if not kept then till = over - 1000 end
        end
      elseif kind == SLIDING_COUNTER_LETTER then
        taken = taken + granted
        if missing > 0 then
          -- As in sliding_counter.lua.
          local room, counted, ends = capacity - taken - tokens - missing, before, over
          if room < 0 then room, counted, ends = room + taken, taken, over + length end
          local product = room * length
          if product >= EXACT then ready = false end
          wait = ends - (product - product % counted) / counted - now
        end
        if taken == 0 and writes then ready = false end
        if writes then
          value = write('<dddd', over - length, over, taken, before)
          if not kept then till = over + length end
        end
      else
        if missing > 0 then
          -- The oldest entry must hold all tokens that have to leave.
          local excess = counts + granted + tokens + missing - capacity
          ready = excess <= (first or granted)
          wait = (oldest or now) + length - now
        end
        if granted == 0 and writes then ready = false end
        if writes then
          local all = (sum + granted) % LOG_TOTALS
          value = granted == 1 and write('<dd', now, all) or write('<ddd', now, all, granted)
          if not kept then till = now - now % n + n + length end
        end
      end
      if ready then
        decided = true
        if several then
          local headroom = tag and till and till - now or ahead
          reply = write('<dddddddd', verdict, tokens, capacity, wait, headroom, now, granted, 0)
          aheads[bucket] = ahead
          if verdict ~= 1 and ARGV[3 * bucket] == '1' then allowed = false end
        else
          reply = {verdict, tokens, capacity, wait, 0, now, granted, 0}
        end
      end
    end

    if not several or not decided then break end
    states[bucket], values[bucket], tills[bucket], logs[bucket], replies[bucket] = state, value, till, dead, reply
    if 3 * bucket == arguments then
      decided = key == #KEYS + 1
      break
    end
    bucket = bucket + 1
  end

  if decided then
    for i = 1, bucket do
      if several then
        state, value, till, dead = states[i], values[i], tills[i], logs[i]
        if not allowed then
          local verdict, tokens, capacity, _, _, _, granted = read('<ddddddd', replies[i])
          -- Turned into the reply to a peek.
          if verdict == 1 then
            replies[i] = write('<dddddddd', 1, tokens + granted, capacity, 0, aheads[i], now, 0, 0)
          end
        end
      end
      if not allowed or not value then
        -- The bucket stays as it was.
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
    return several and table.concat(replies) or reply
  end
end
