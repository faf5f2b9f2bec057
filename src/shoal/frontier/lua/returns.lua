-- returns.lua: who waits is woken, leases end, requests come back, jobs go; stands before every script but `lease`.

-- A host of this job, or of its browser half, may be asked for now, if it waits at all.
-- Tells whether it was asleep.
local function wake(job, host, half, touched)
  local woken
  if half then
    woken = redis.call('ZADD', render_key(job), 'XX', 'LT', 'CH', now, host)
  else
    woken = redis.call('ZADD', ready_key(job), 'XX', 'LT', 'CH', now, host)
      + redis.call('ZADD', lag_key(job), 'XX', 'LT', 'CH', now, host)
  end
  if woken > 0 then touched[job] = true end
  return woken > 0 and redis.call('HGET', job_key(job), 'state') == 'running'
end

-- Who waits for room in a bucket may ask again: the urgent first, and no more of them than there may be room for; whose
-- turn it is among rivals is found out then.
local EXTRA_WOKEN = 2
local function wake_waiters(b, most, touched)
  local woken = 0
  while woken < most do
    local waiter = redis.call('ZPOPMIN', waiters_key(b.name), 1)[1]
    if not waiter then
      set(b, 'waited', nil)
      return
    end
    local job, host, half = string.match(waiter, '^(%S+) (%S+) ?(%+?)$')
    if wake(job, host, half == '+', touched) then woken = woken + 1 end
  end
end

-- Requests of a bucket came back: it has so many less in flight, and who waited may ask again.
local function lower(b, n, touched)
  set(b, 'inflight', max(0, b.inflight - n))
  list_host(b)
  if b.waited then wake_waiters(b, n + EXTRA_WOKEN, touched) end
end

-- Requests of a host came back: also to its domain and its address. The jobs to refresh are marked in `touched`.
local function host_returned(h, n, touched)
  lower(h, n, touched)
  if h.group then lower(read_host(h.group), n, touched) end
  if h.address then lower(read_host(h.address), n, touched) end
end

-- A job's keys go, at most so many buckets of seen in a call; 1 when nothing is left, 0 to be called again.
local function drop_keys(job, base, split, most)
  local last = tonumber(base) + tonumber(split) - 1
  local stop = max(0, last - most + 1)
  for bucket = last, stop, -1 do redis.call('UNLINK', seen_key(job, bucket)) end
  if stop > 0 then
    redis.call('HSET', job_key(job), 'base', stop, 'split', 0)
    return 0
  end
  redis.call('UNLINK', job_key(job), reasons_key(job), slow_key(job), ready_key(job), lag_key(job), render_key(job),
    delayed_key(job), spend_key(job), routes_key(job), alike_key(job), slots_key(job), shares_key(job))
  redis.call('SREM', JOBS, job)
  return 1
end

-- After any move: write the sums, put the jobs' due times right, and name those that have ended.
local function finish_moves(touched)
  write_hosts()
  write_sums()
  local ended = {}
  for job in pairs(touched) do
    if ends_now(job) then
      ended[#ended + 1] = job
    else
      refresh_due(job)
    end
  end
  return ended
end

-- Take records out of a lease group. Calls take(index, record) for each that was still there; returns how many were not.
-- An index named twice is taken once: the second is as late as in a call of its own.
local function take_leases(group, indexes, take)
  local lost = 0
  local records = redis.call('HMGET', lease_key(group), unpack(indexes))
  local found, taken = {}, {}
  for i, index in ipairs(indexes) do
    if records[i] and not taken[index] then
      taken[index] = true
      found[#found + 1] = index
      take(index, records[i])
    else
      lost = lost + 1
    end
  end
  if #found > 0 then
    redis.call('HDEL', lease_key(group), unpack(found))
    if redis.call('EXISTS', lease_key(group)) == 0 then
      redis.call('ZREM', LEASES, group)
      redis.call('DEL', holder_key(group))
    end
  end
  return lost
end

-- Unfetched requests go back to the front of their queues; those of a cancelled or unknown job are dropped.
-- returns = {record, …}; host_left counts the returns by host.
local function give_back(records, touched)
  local states, host_left = {}, {}
  for i = #records, 1, -1 do
    local job, host, level, entry = split_record(records[i])
    if states[job] == nil then states[job] = redis.call('HGET', job_key(job), 'state') or false end
    host_left[host] = (host_left[host] or 0) + 1
    if states[job] then
      touched[job] = true
      add_place(job, level, 'leased', -1)
      if states[job] == 'cancelled' then
        add(job, 'dropped', 1)
      else
        add_place(job, level, 'queued', 1)
        enqueue(job, host, level, { entry }, true)
      end
    end
  end
  for host, n in pairs(host_left) do
    host_returned(read_host(host), n, touched)
  end
  return host_left
end
