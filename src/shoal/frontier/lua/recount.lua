-- recount.lua: hold a job's sums against what lies in its queues, among its delayed requests and in leases.
-- ARGV[1] job   ARGV[2] 1 to put right what differs, 0 to look only   ARGV[3] at most this many hosts are counted
-- ARGV[4..] hosts that may have a queue of the job although they stand in none of its lists
-- returns {requests that are missing, requests that the sums leave out, hosts put back, 1 when the job was put back into
--   its rotation, 1 when this call ended the job}; {} when the job is unknown or has ended
--
-- What is missing counts as dropped: the sums add up again, and the job can end. Who can rebuild the job does so before.
local job, repairs, most = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3])
local j = redis.call('HMGET', job_key(job), 'state', 'ended', 'queue', 'tenant', 'queued', 'delayed', 'leased',
  'render_queued', 'render_delayed', 'render_leased')
if not j[1] or j[2] then return {} end

local function in_rotation()
  local queues = { j[3] }
  queues[#queues + 1] = slow_lane(j[3])
  queues[#queues + 1] = half_of(j[3])
  for _, queue in ipairs(queues) do
    if redis.call('ZSCORE', due_jobs_key(queue, j[4]), job) and redis.call('ZSCORE', due_key(queue), j[4]) then
      return true
    end
  end
  return false
end

-- Of one half: from level 0 on, or from RENDER on.
local function length(host, first)
  return redis.call('LLEN', queue_key(job, host, first)) + redis.call('LLEN', queue_key(job, host, first + 1))
    + redis.call('LLEN', queue_key(job, host, first + 2))
end

local function stands(host, first)
  if first == RENDER then return redis.call('ZSCORE', render_key(job), host) end
  return redis.call('ZSCORE', ready_key(job), host) or redis.call('ZSCORE', lag_key(job), host)
end

local found = 0
for i = 4, #ARGV do
  for _, first in ipairs({ 0, RENDER }) do
    if repairs and length(ARGV[i], first) > 0 and not stands(ARGV[i], first) then
      if in_half(first) then open_half(job) end
      redis.call('ZADD', first == RENDER and render_key(job) or ready_key(job), 'NX', now, ARGV[i])
      found = found + 1
    end
  end
end

local function is_too_long()
  return redis.call('ZCARD', ready_key(job)) + redis.call('ZCARD', lag_key(job)) + redis.call('ZCARD', render_key(job))
    > most
end

local function count_queued(first)
  local n, counted = 0, {}
  for _, list in ipairs({ ready_key(job), lag_key(job), render_key(job) }) do
    local is_half = list == render_key(job)
    for _, host in ipairs(is_half == (first == RENDER) and redis.call('ZRANGE', list, 0, -1) or {}) do
      if not counted[host] then n = n + length(host, first) end
      counted[host] = true
    end
  end
  for i = 4, #ARGV do
    if not counted[ARGV[i]] then n = n + length(ARGV[i], first) end
  end
  return n
end

-- (leased requests, those of the browser half)
local function count_leased()
  local n, rendered, start = 0, 0, job .. ' '
  for _, group in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do
    for _, record in ipairs(redis.call('HVALS', lease_key(group))) do
      if string.sub(record, 1, #start) == start then
        local _, _, level = split_record(record)
        n = n + 1
        if in_half(level) then rendered = rendered + 1 end
      end
    end
  end
  return n, rendered
end

-- Of a job that never had a browser half there is nothing to look for.
local function count_delayed_half()
  local n, counted = 0, tonumber(j[9] or '')
  if redis.call('ZCARD', delayed_key(job)) > most then return counted or 0 end
  for _, record in ipairs(counted and redis.call('ZRANGE', delayed_key(job), 0, -1) or {}) do
    local _, _, level = split_record(record)
    if in_half(level) then n = n + 1 end
  end
  return n
end

local missing, surplus = 0, 0
local function put_right(field, counted, is)
  local by = is - (tonumber(counted) or 0)
  if by < 0 then missing = missing - by else surplus = surplus + by end
  if repairs then add(job, field, by) end
end

local function put_half_right(field, counted, is)
  if repairs then add(job, field, is - (tonumber(counted) or 0)) end
end

if not is_too_long() then
  local rendered = count_queued(RENDER)
  put_right('queued', j[5], count_queued(0) + rendered)
  put_half_right('render_queued', j[8], rendered)
  if repairs and rendered > 0 then open_half(job) end
end
put_right('delayed', j[6], redis.call('ZCARD', delayed_key(job)))
put_half_right('render_delayed', j[9], count_delayed_half())
local leased, rendered = count_leased()
put_right('leased', j[7], leased)
put_half_right('render_leased', j[10], rendered)
if not repairs then return { missing, surplus, 0, 0, 0 } end
write_sums()

-- Of a slot: pages whose links are owed to others.
local function count_owing()
  local n, start = 0, job .. ' '
  for _, line in ipairs(redis.call('ZRANGE', owed_key(), 0, -1)) do
    if string.sub(line, 1, #start) == start then n = n + 1 end
  end
  return n
end

if IN_SLOT and redis.call('ZCARD', owed_key()) <= most then redis.call('HSET', job_key(job), 'owing', count_owing()) end

-- The two equations: what is nowhere was dropped, what nobody has counted was admitted.
local sums_of = redis.call('HMGET', job_key(job), 'admitted', 'queued', 'delayed', 'leased', 'done', 'dead', 'dropped')
local gap = tonumber(sums_of[1]) or 0
for i = 2, #sums_of do gap = gap - (tonumber(sums_of[i]) or 0) end
if gap > 0 then
  add(job, 'dropped', gap)
elseif gap < 0 then
  add(job, 'admitted', -gap)
  add(job, 'seen', -gap)
end
write_sums()
if ends_now(job) then return { missing, surplus, found, 0, 1 } end
local before = in_rotation()
refresh_due(job)
return { missing, surplus, found, not before and in_rotation() and 1 or 0, 0 }
