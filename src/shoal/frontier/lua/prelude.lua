-- prelude.lua: names, the clock, sums and timetables; stands before every script.
-- Lua takes 200 locals outside of functions, with all that stands before an operation: `lease` is not far from that.
-- KEYS[1] prefix of all keys. Names are built here and nowhere else; frontier/keys.py lists them.
-- A frontier that is spread over servers has two kinds of parts. In its list of jobs KEYS[2] is KEYS[1] once more: no job
-- ends by itself there. In a slot it is the prefix of what is about the server. Nobody works with a slot that is not `here`, as
-- its mark says, nor on a server that was started anew and that nobody has looked at; but for those who move slots or
-- look at servers, who give KEYS[3].
local IN_LIST = KEYS[2] == KEYS[1]
local IN_SLOT = not IN_LIST and KEYS[2]
local P = IN_SLOT or KEYS[1]
local SERVER = P .. ':server'
local WHOLE = P .. ':whole'
local FENCE = P .. ':fence'
P = KEYS[1]
local SLOT = P .. ':slot'
local function this_run() return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or '' end
local function is_run(run) return string.find(redis.call('INFO', 'server'), 'run_id:' .. run, 1, true) end
if IN_SLOT and not KEYS[3] then
  local mark = redis.call('GET', SLOT) or 'lost'
  if mark == 'here' and not is_run(redis.call('GET', SERVER) or '-') then mark = 'unseen' end
  if mark ~= 'here' then return redis.error_reply('ELSEWHERE ' .. mark) end
end

local max, min, ceil, floor = math.max, math.min, math.ceil, math.floor

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)

local DAY_S = 86400
local NEVER = math.huge

local function job_key(job) return P .. ':job:' .. job end
local function reasons_key(job) return P .. ':reasons:' .. job end
local function slow_key(job) return P .. ':slow:' .. job end
local function seen_key(job, bucket) return P .. ':seen:' .. job .. ':' .. bucket end
local function queue_key(job, host, level) return P .. ':queue:' .. job .. ':' .. host .. ':' .. level end
local function ready_key(job) return P .. ':ready:' .. job end
local function lag_key(job) return P .. ':lag:' .. job end
local function render_key(job) return P .. ':render:' .. job end
local function routes_key(job) return P .. ':routes:' .. job end
local function alike_key(job) return P .. ':alike:' .. job end
local function spend_key(job) return P .. ':spend:' .. job end
local function delayed_key(job) return P .. ':delayed:' .. job end
local function due_key(queue) return P .. ':due:' .. queue end
local function turn_key(queue) return P .. ':turn:' .. queue end
local function clock_key(queue) return P .. ':clock:' .. queue end
local function due_jobs_key(queue, tenant) return P .. ':due:' .. queue .. ':' .. tenant end
local function turn_jobs_key(queue, tenant) return P .. ':turn:' .. queue .. ':' .. tenant end
local function clock_jobs_key(queue, tenant) return P .. ':clock:' .. queue .. ':' .. tenant end
local function rivals_key(queue, host) return P .. ':rivals:' .. queue .. ':' .. host end
local function rival_jobs_key(queue, host, tenant) return P .. ':rival:' .. queue .. ':' .. tenant .. ':' .. host end
local function host_key(host) return P .. ':host:' .. host end
local function waiters_key(host) return P .. ':waiters:' .. host end
local function notes_key(host) return P .. ':notes:' .. host end
local function robots_key(origin) return P .. ':robots:' .. origin end
local function lease_key(group) return P .. ':lease:' .. group end
local function holder_key(group) return P .. ':holder:' .. group end
local function suspects_key(worker) return P .. ':suspects:' .. worker end
local function ring_key(queue) return P .. ':ring:' .. queue end
local function depth_key(queue) return P .. ':depth:' .. queue end
local function limit_key(key) return P .. ':limit:' .. key end
local function proxy_key(proxy) return P .. ':proxy:' .. proxy end
local function loans_key(proxy) return P .. ':loans:' .. proxy end
local function sticky_key(sticky) return P .. ':sticky:' .. sticky end
local function parts_key(extraction) return P .. ':parts:' .. extraction end
local function slots_key(job) return P .. ':slots:' .. job end
local function shares_key(job) return P .. ':shares:' .. job end
local function brought_key() return P .. ':brought' end
local function sent_key() return P .. ':sent' end
local function owed_key() return P .. ':owed' end
local function claims_key(extraction) return P .. ':claims:' .. extraction end
local function met_key() return P .. ':met' end
local EXTRACTIONS = P .. ':extractions'
local LEASES = P .. ':leases'
local SEQUENCE = P .. ':sequence'
local EPOCH = P .. ':epoch'
local JOBS = P .. ':jobs'
local TENANTS = P .. ':tenants'
local HOSTS = P .. ':hosts'
local STATS = P .. ':stats'
local EVENTS = P .. ':events'

-- A change that people wait for: kind is 'state', 'ended', 'changed' or 'drift'.
local function tell(job, kind, state)
  local kept = 10000
  if IN_SLOT then return end -- the list of jobs tells
  redis.call('XADD', EVENTS, 'MAXLEN', '~', kept, '*', 'job', job, 'kind', kind, 'state', state)
end

-- Sums over all jobs, for metrics: count(name, n); written with the jobs' own.
local counts = {}
local function count(name, n) counts[name] = (counts[name] or 0) + n end

-- Single requests of a job that is fetched without a browser may need one. They are its browser half: they have levels
-- 3 to 5 in place of 0 to 2, their hosts stand in a list of their own, and they are leased from the browser's queue of
-- the job's lane. nil for a job that is for the browser as a whole, which has no halves.
local RENDER = 3
local function half_of(queue)
  local lane = string.match(queue, '^http%.(.*)$')
  return lane and 'browser.' .. lane or nil
end

local function in_half(level) return tonumber(level) >= RENDER end

-- The level of a request that needs a browser, in a job of this queue.
local function render_level(queue, level)
  level = tonumber(level)
  return half_of(queue) and level < RENDER and level + RENDER or level
end

-- From its first such request on, a job's hash names the queue of its browser half.
local halves = {}
local function open_half(job)
  if halves[job] then return end
  halves[job] = true
  local half = half_of(redis.call('HGET', job_key(job), 'queue') or '')
  if half then redis.call('HSETNX', job_key(job), 'half', half) end
end

-- A table of sums that is written in one go: add(job, field, n), then write_sums(). The places of requests are
-- summed up for each queue as well; those of a browser half stand in a job's sums twice, and in its queue's only.
local PLACES = { queued = true, delayed = true, leased = true }
local HALF_PLACES = { render_queued = 'queued', render_delayed = 'delayed', render_leased = 'leased' }
local sums = {}
local function add(job, field, n)
  local fields = sums[job]
  if not fields then
    fields = {}
    sums[job] = fields
  end
  fields[field] = (fields[field] or 0) + n
end

-- So many requests of this level come to a place, or leave it.
local function add_place(job, level, place, n)
  add(job, place, n)
  if in_half(level) then add(job, 'render_' .. place, n) end
end

local function write_sums()
  for job, fields in pairs(sums) do
    local queue = redis.call('HGET', job_key(job), 'queue')
    for field, n in pairs(fields) do
      if n ~= 0 then
        redis.call('HINCRBY', job_key(job), field, n)
        if queue and PLACES[field] then redis.call('HINCRBY', depth_key(queue), field, n) end
        local place = HALF_PLACES[field]
        local half = place and queue and half_of(queue)
        if half then
          redis.call('HINCRBY', depth_key(queue), place, -n)
          redis.call('HINCRBY', depth_key(half), place, n)
        end
      end
    end
  end
  for name, n in pairs(counts) do
    if n ~= 0 then redis.call('HINCRBY', STATS, name, n) end
  end
  sums, counts = {}, {}
end

-- A record is 'job host level entry'.
local function split_record(record)
  return string.match(record, '^(%S+) (%S+) (%d) (.*)$')
end

-- The lane of slow hosts that a queue has beside it; nil for urgent jobs, which stay where they are, and for slow ones.
local function slow_lane(queue)
  local engine, lane = string.match(queue, '^(.-)%.(.*)$')
  return lane == 'batch' and engine .. '.slow' or nil
end

-- A job's place in a rotation; its tenant stands there with the earliest of its jobs.
local function set_due(queue, tenant, job, at)
  local key = due_jobs_key(queue, tenant)
  if at == NEVER then
    if redis.call('ZREM', key, job) == 0 then return end
  else
    redis.call('ZADD', key, string.format('%.3f', at), job)
  end
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', due_key(queue), first[2], tenant)
  else
    redis.call('ZREM', due_key(queue), tenant)
  end
end

-- A job leaves the rotations of a queue.
local function leave_queue(job, queue, tenant)
  local names = { queue }
  names[#names + 1] = slow_lane(queue)
  names[#names + 1] = half_of(queue)
  for _, name in ipairs(names) do
    set_due(name, tenant, job, NEVER)
    redis.call('ZREM', turn_jobs_key(name, tenant), job)
  end
end

local function earliest(key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) or NEVER
end

-- When can something of this job be leased? Keeps due:{Q} true; a job that is not running is in no rotation.
local function refresh_due(job)
  local j = redis.call('HMGET', job_key(job), 'state', 'queue', 'tenant', 'deadline', 'queued', 'delayed', 'half',
    'render_queued', 'render_delayed')
  if not j[2] then return end
  local at, lag, slow, half = NEVER, NEVER, slow_lane(j[2]), NEVER
  if j[1] == 'running' then
    local queued, delayed = tonumber(j[5]) or 0, tonumber(j[6]) or 0
    at = earliest(ready_key(job))
    if slow then lag = earliest(lag_key(job)) end
    local retry = earliest(delayed_key(job))
    if j[7] then
      -- Whichever half is looked at first takes up what is due of both.
      local of_half = tonumber(j[9]) or 0
      half = earliest(render_key(job))
      if of_half > 0 then half = min(half, retry) end
      if j[4] and (tonumber(j[8]) or 0) + of_half > 0 then half = min(half, tonumber(j[4])) end
      if of_half == delayed then retry = NEVER end
    end
    at = min(at, retry)
    if j[4] and queued + delayed > 0 then at = min(at, tonumber(j[4])) end
  end
  set_due(j[2], j[3], job, at)
  if slow then set_due(slow, j[3], job, lag) end
  if j[7] then set_due(j[7], j[3], job, half) end
end

-- Put entries into a host's queue; the host becomes ready unless it is waiting already. Where many hosts get some, the
-- caller gives `ready` to be told who does, {plain = {ms, host, …}, half = …}, and makes them ready together.
local function enqueue(job, host, level, entries, front, ready)
  local list = queue_key(job, host, level)
  local push = front and 'LPUSH' or 'RPUSH'
  for i = 1, #entries, 1000 do
    redis.call(push, list, unpack(entries, i, min(i + 999, #entries)))
  end
  local half = in_half(level)
  if half then open_half(job) end
  if ready then
    local hosts = half and ready.half or ready.plain
    hosts[#hosts + 1] = now
    hosts[#hosts + 1] = host
  elseif half then
    redis.call('ZADD', render_key(job), 'NX', now, host)
  else
    redis.call('ZADD', ready_key(job), 'NX', now, host)
  end
end

-- A server that was started anew, or promoted in place of another, may have lost the last writes: nobody works with it
-- before somebody has looked at it, or this time is over since it was first met. Where nobody ever looked, nothing is
-- known. (run of the server, whether to work with it)
local function server_run()
  if IN_SLOT then return redis.call('GET', SERVER), true end -- it was looked at, or nobody would be here
  local trust_after_ms = 10000
  local known, run = redis.call('GET', SERVER), this_run()
  if not known or run == known then return run, true end
  local whose, since = string.match(redis.call('GET', met_key()) or '', '^(%w*) (%d+)$')
  if whose == run then return run, now - tonumber(since) > trust_after_ms end
  redis.call('SET', met_key(), string.format('%s %d', run, now), 'EX', DAY_S)
  return run, false
end

-- A job that is being rebuilt says in `rebuild` how far that has come: first it recalls what is stored of it.
local function is_recalling(place) return string.sub(place, 1, 7) == 'recall ' end
