-- lease.lua: give one worker the requests that may be fetched now.
-- ARGV[1] limit   ARGV[2] lease_ms   ARGV[3..] queues, the most urgent first
-- returns {group, ms until more is due (0 = at once, -1 = nothing waits), expired leases, record, …}
--
-- For each queue: the due jobs by their turn (virtual time, so that shares follow weights), of each its ready hosts,
-- of each host as many entries as its rate, its cap and its share of the batch allow.
local limit, lease_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local MAX_JOBS, MAX_HOSTS, PASSES, QUANTUM = 64, 256, 8, 8
local records, taken_of, touched = {}, {}, {}

local function put_off(job, host, at)
  redis.call('ZADD', ready_key(job), string.format('%.3f', at), host)
end

local function park(job, host, paused)
  redis.call('ZADD', ready_key(job), '+inf', host)
  redis.call('SADD', waiters_key(host), job)
  if paused then redis.call('PERSIST', waiters_key(host)) else redis.call('EXPIRE', waiters_key(host), DAY_S) end
end

-- How many requests the host takes now, and the time of its next free slot (a virtual-scheduling token bucket).
local function room(job, limits, host, want)
  local h = redis.call('HMGET', host_key(host), 'slot', 'inflight', 'rate', 'parallel', 'hold', 'burst',
    'paused')
  if h[7] then
    park(job, host, true)
    return 0
  end
  local hold = tonumber(h[5]) or 0
  if hold > now then
    put_off(job, host, hold)
    return 0
  end
  local rate, burst, parallel = limits.rate, limits.burst, tonumber(h[4]) or limits.parallel
  if h[3] then rate, burst = tonumber(h[3]), tonumber(h[6]) end
  local inflight, n, slot, interval = tonumber(h[2]) or 0, want, 0, 0
  if parallel > 0 then
    if inflight >= parallel then
      park(job, host)
      return 0
    end
    n = math.min(n, parallel - inflight)
  end
  if rate > 0 then
    interval = 1000 / rate
    slot = math.max(tonumber(h[1]) or 0, now)
    local free = math.floor(burst - (slot - now) / interval + 1e-6)
    if free <= 0 then
      put_off(job, host, slot - (burst - 1) * interval)
      return 0
    end
    n = math.min(n, free)
  end
  return n, { slot = slot, interval = interval, burst = burst, inflight = inflight, parallel = parallel }
end

local function pop(job, host, n)
  local got = 0
  while got < n do
    local popped = redis.call('LMPOP', 3, queue_key(job, host, 0), queue_key(job, host, 1), queue_key(job, host, 2),
      'LEFT', 'COUNT', n - got)
    if not popped then break end
    local start = job .. ' ' .. host .. ' ' .. string.sub(popped[1], -1) .. ' '
    for _, entry in ipairs(popped[2]) do
      records[#records + 1] = start .. entry
      got = got + 1
    end
  end
  return got
end

-- When may the host be asked again for this job?
local function reschedule(job, host, state)
  if redis.call('EXISTS', queue_key(job, host, 0), queue_key(job, host, 1), queue_key(job, host, 2)) == 0 then
    redis.call('ZREM', ready_key(job), host)
  elseif state.parallel > 0 and state.inflight >= state.parallel then
    park(job, host)
  else
    put_off(job, host, math.max(now, state.slot - (state.burst - 1) * state.interval))
  end
end

local function take_from_host(job, limits, host, want)
  local n, state = room(job, limits, host, want)
  if n == 0 then return 0 end
  local got = pop(job, host, n)
  if got > 0 then
    state.inflight = state.inflight + got
    state.slot = state.slot + got * state.interval
    redis.call('HSET', host_key(host), 'inflight', state.inflight)
    -- A job without a rate books no slots, nor does it free those that others have booked.
    if state.interval > 0 then redis.call('HSET', host_key(host), 'slot', string.format('%.3f', state.slot)) end
  end
  reschedule(job, host, state)
  return got
end

-- Delayed requests whose time has come go to the front level of their queues.
local function promote(job)
  local due = redis.call('ZRANGEBYSCORE', delayed_key(job), '-inf', now, 'LIMIT', 0, 500)
  if #due == 0 then return end
  redis.call('ZREM', delayed_key(job), unpack(due))
  for _, record in ipairs(due) do
    local _, host, _, entry = split_record(record)
    enqueue(job, host, 0, { entry }, false)
  end
  add(job, 'delayed', -#due)
  add(job, 'queued', #due)
end

local function take_from_job(job, limits, quota)
  promote(job)
  local got = 0
  for _ = 1, PASSES do
    local hosts = redis.call('ZRANGEBYSCORE', ready_key(job), '-inf', now, 'LIMIT', 0, MAX_HOSTS)
    if #hosts == 0 then break end
    local share = math.ceil((quota - got) / #hosts)
    for _, host in ipairs(hosts) do
      got = got + take_from_host(job, limits, host, math.min(share, quota - got))
      if got >= quota then return got end
    end
  end
  return got
end

local function limits_of(job)
  local j = redis.call('HMGET', job_key(job), 'rate', 'burst', 'parallel', 'weight')
  return { rate = tonumber(j[1]), burst = tonumber(j[2]), parallel = tonumber(j[3]), weight = tonumber(j[4]) }
end

local function by_turn(a, b)
  if a.turn == b.turn then return a.job < b.job end
  return a.turn < b.turn
end

-- The due jobs of a queue. One that was idle starts at the present virtual time: it neither saves up nor waits.
local function due_jobs(queue)
  local jobs = redis.call('ZRANGEBYSCORE', due_key(queue), '-inf', now, 'LIMIT', 0, MAX_JOBS)
  if #jobs == 0 then return jobs end
  local clock = tonumber(redis.call('GET', clock_key(queue)) or 0)
  local turns = redis.call('ZMSCORE', turn_key(queue), unpack(jobs))
  local order = {}
  for i, job in ipairs(jobs) do
    order[i] = { job = job, turn = math.max(tonumber(turns[i] or 0), clock), limits = limits_of(job) }
  end
  table.sort(order, by_turn)
  redis.call('SET', clock_key(queue), string.format('%.3f', order[1].turn), 'EX', DAY_S)
  return order
end

local function serve(queue)
  local order = due_jobs(queue)
  while #order > 0 and #records < limit do
    local first = order[1]
    local quota = math.min(limit - #records, math.max(QUANTUM, math.ceil((limit - #records) / #order)))
    local got = take_from_job(first.job, first.limits, quota)
    taken_of[first.job] = (taken_of[first.job] or 0) + got
    touched[first.job] = true
    if got > 0 then
      first.turn = first.turn + got / first.limits.weight
      redis.call('ZADD', turn_key(queue), string.format('%.3f', first.turn), first.job)
    end
    if got < quota then table.remove(order, 1) else table.sort(order, by_turn) end
  end
end

local function wait_ms(queues_from)
  local wait = -1
  for i = queues_from, #ARGV do
    local first = redis.call('ZRANGE', due_key(ARGV[i]), 0, 0, 'WITHSCORES')
    if first[2] then
      local ms = math.max(0, math.ceil(tonumber(first[2]) - now))
      if wait < 0 or ms < wait then wait = ms end
    end
  end
  return wait
end

-- A lost sequence starts at the time, not at 1: a lease from before a flush must not fit a group of today. Counted in
-- eighths of a millisecond, time runs ahead of any sequence; and Lua still writes the number without an exponent.
local function next_group()
  local group = redis.call('INCR', SEQUENCE)
  if group > 1 then return group end
  group = now * 8
  redis.call('SET', SEQUENCE, string.format('%d', group))
  return group
end

local function record_group()
  local group = next_group()
  local fields = {}
  for i, record in ipairs(records) do
    fields[#fields + 1] = i
    fields[#fields + 1] = record
    if #fields == 2000 or i == #records then
      redis.call('HSET', lease_key(group), unpack(fields))
      fields = {}
    end
  end
  redis.call('ZADD', LEASES, now + lease_ms, group)
  for job, n in pairs(taken_of) do
    if n > 0 then
      add(job, 'queued', -n)
      add(job, 'leased', n)
      redis.call('HSETNX', job_key(job), 'started', now)
    end
  end
  return group
end

for i = 3, #ARGV do serve(ARGV[i]) end
local group = #records > 0 and record_group() or 0
write_sums()
for job in pairs(touched) do refresh_due(job) end
return { group, wait_ms(3), redis.call('ZCOUNT', LEASES, '-inf', now), unpack(records) }
