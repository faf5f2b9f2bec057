-- moves.lua: the moves of requests that several operations share; stands before every script.

-- Everything of a job that waits is dropped; returns how much that was.
local function drop_waiting(job)
  for _, list in ipairs({ ready_key(job), lag_key(job) }) do
    for _, host in ipairs(redis.call('ZRANGE', list, 0, -1)) do
      redis.call('UNLINK', queue_key(job, host, 0), queue_key(job, host, 1), queue_key(job, host, 2))
      redis.call('ZREM', waiters_key(host), job .. ' ' .. host)
    end
  end
  redis.call('UNLINK', ready_key(job), lag_key(job), delayed_key(job))
  local j = redis.call('HMGET', job_key(job), 'queued', 'delayed')
  local queued, delayed = tonumber(j[1]) or 0, tonumber(j[2]) or 0
  add(job, 'queued', -queued)
  add(job, 'delayed', -delayed)
  add(job, 'dropped', queued + delayed)
  write_sums()
  return queued + delayed
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
  redis.call('UNLINK', job_key(job), reasons_key(job), slow_key(job), ready_key(job), lag_key(job), delayed_key(job),
    spend_key(job))
  redis.call('SREM', JOBS, job)
  return 1
end

-- Has the job come to its end just now? True exactly once in its life; not before it is rebuilt.
local function ends_now(job)
  local j = redis.call('HMGET', job_key(job), 'state', 'ended', 'open', 'queued', 'delayed', 'leased', 'queue', 'tenant',
    'rebuild')
  if not j[1] or j[2] then return false end
  local leased = tonumber(j[6]) or 0
  local pending = (tonumber(j[4]) or 0) + (tonumber(j[5]) or 0) + leased
  local over = (j[1] == 'cancelled' and leased == 0) or (j[1] ~= 'cancelled' and j[3] ~= '1' and not j[9] and pending == 0)
  if not over then return false end
  if j[1] ~= 'cancelled' then redis.call('HSET', job_key(job), 'state', 'finished') end
  redis.call('HSET', job_key(job), 'ended', now)
  tell(job, 'ended', redis.call('HGET', job_key(job), 'state'))
  leave_queue(job, j[7], j[8])
  return true
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
    if redis.call('EXISTS', lease_key(group)) == 0 then redis.call('ZREM', LEASES, group) end
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
      add(job, 'leased', -1)
      if states[job] == 'cancelled' then
        add(job, 'dropped', 1)
      else
        add(job, 'queued', 1)
        enqueue(job, host, level, { entry }, true)
      end
    end
  end
  for host, n in pairs(host_left) do
    host_returned(read_host(host), n, touched)
  end
  return host_left
end
