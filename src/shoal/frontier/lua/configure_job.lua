-- configure_job.lua: change a job's limits or its queue while it runs.
-- ARGV[1] job   ARGV[2..] pairs: fields of the job's hash (as in create)
-- returns {state or '', 1 when this call ended the job}
local job, touched = ARGV[1], { [ARGV[1]] = true }
local j = redis.call('HMGET', job_key(job), 'state', 'queue', 'queued', 'delayed', 'leased', 'tenant', 'half',
  'render_queued', 'render_delayed', 'render_leased')
if not j[1] then return { '', 0 } end
redis.call('HSET', job_key(job), unpack(ARGV, 2))

local function move_depth(from, to, place, n)
  if n == 0 then return end
  redis.call('HINCRBY', depth_key(from), place, -n)
  redis.call('HINCRBY', depth_key(to), place, n)
end

-- To another lane: what fetches a job's pages does not change.
local function move_to(queue)
  leave_queue(job, j[2], j[6])
  -- Slow hosts find their lane again by themselves.
  redis.call('ZUNIONSTORE', ready_key(job), 2, ready_key(job), lag_key(job))
  redis.call('DEL', lag_key(job))
  for i, place in ipairs({ 'queued', 'delayed', 'leased' }) do
    local of_half = tonumber(j[i + 7]) or 0
    move_depth(j[2], queue, place, (tonumber(j[i + 2]) or 0) - of_half)
    if j[7] then move_depth(j[7], half_of(queue), place, of_half) end
  end
  if j[7] then redis.call('HSET', job_key(job), 'half', half_of(queue)) end
end

-- Under new limits every host may be asked at once, also by those who waited for this job's turn; whoever cannot be
-- served yet says so at the next lease. Of very many hosts, the first are looked at, and others look again by themselves.
local LOOK_AT = 1000
local function wake_hosts()
  for _, list in ipairs({ ready_key(job), lag_key(job), render_key(job) }) do
    for _, host in ipairs(redis.call('ZRANGE', list, 0, LOOK_AT - 1)) do
      local h = read_host(host)
      local b = h.group and read_host(h.group) or h
      if b.waited then wake_waiters(b, redis.call('ZCARD', waiters_key(b.name)), touched) end
    end
    if redis.call('EXISTS', list) == 1 then redis.call('ZUNIONSTORE', list, 1, list, 'WEIGHTS', 0) end
  end
end

-- More time, or less: counted from the first lease, without the pauses.
local function set_deadline()
  local d = redis.call('HMGET', job_key(job), 'started', 'seconds', 'rested')
  local seconds = tonumber(d[2]) or 0
  if not d[1] or seconds == 0 then return redis.call('HDEL', job_key(job), 'deadline') end
  redis.call('HSET', job_key(job), 'deadline', tonumber(d[1]) + seconds * 1000 + (tonumber(d[3]) or 0))
end

local queue = redis.call('HGET', job_key(job), 'queue')
if queue ~= j[2] then move_to(queue) end
wake_hosts()
set_deadline()
redis.call('HDEL', job_key(job), 'spent')
local b = redis.call('HMGET', job_key(job), 'pages', 'admitted', 'dead', 'dropped', 'redirects', 'ended')
local pages = tonumber(b[1]) or 0
if pages > 0 and not b[6] and not IN_SLOT then -- a slot has a share, see cut_share
  local counted = (tonumber(b[2]) or 0) - (tonumber(b[3]) or 0) - (tonumber(b[4]) or 0) - (tonumber(b[5]) or 0)
  if counted > pages then drop_last(job, counted - pages) end
end
tell(job, 'changed', j[1])
local ended = #finish_moves(touched)
return { redis.call('HGET', job_key(job), 'state'), ended }
