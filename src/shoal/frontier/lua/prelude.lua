-- prelude.lua: names, the clock, sums and timetables; stands before every script.
-- Lua takes 200 locals outside of functions, with all that stands before an operation: `lease` is not far from that.
-- KEYS[1] prefix of all keys. Names are built here and nowhere else; frontier/keys.py lists them.
local P = KEYS[1]
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
local function suspects_key(worker) return P .. ':suspects:' .. worker end
local function ring_key(queue) return P .. ':ring:' .. queue end
local function depth_key(queue) return P .. ':depth:' .. queue end
local function limit_key(key) return P .. ':limit:' .. key end
local function proxy_key(proxy) return P .. ':proxy:' .. proxy end
local function loans_key(proxy) return P .. ':loans:' .. proxy end
local function sticky_key(sticky) return P .. ':sticky:' .. sticky end
local LEASES = P .. ':leases'
local SEQUENCE = P .. ':sequence'
local SERVER = P .. ':server'
local EPOCH = P .. ':epoch'
local JOBS = P .. ':jobs'
local TENANTS = P .. ':tenants'
local HOSTS = P .. ':hosts'
local STATS = P .. ':stats'
local EVENTS = P .. ':events'

-- A change that people wait for: kind is 'state', 'ended' or 'changed'.
local function tell(job, kind, state)
  local kept = 10000
  redis.call('XADD', EVENTS, 'MAXLEN', '~', kept, '*', 'job', job, 'kind', kind, 'state', state)
end

-- Sums over all jobs, for metrics: count(name, n); written with the jobs' own.
local counts = {}
local function count(name, n) counts[name] = (counts[name] or 0) + n end

-- A table of sums that is written in one go: add(job, field, n), then write_sums(). The places of requests are
-- summed up for each queue as well.
local PLACES = { queued = true, delayed = true, leased = true }
local sums = {}
local function add(job, field, n)
  local fields = sums[job]
  if not fields then
    fields = {}
    sums[job] = fields
  end
  fields[field] = (fields[field] or 0) + n
end

local function write_sums()
  for job, fields in pairs(sums) do
    local queue = redis.call('HGET', job_key(job), 'queue')
    for field, n in pairs(fields) do
      if n ~= 0 then
        redis.call('HINCRBY', job_key(job), field, n)
        if queue and PLACES[field] then redis.call('HINCRBY', depth_key(queue), field, n) end
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
  for _, name in ipairs({ queue, slow_lane(queue) }) do
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
  local j = redis.call('HMGET', job_key(job), 'state', 'queue', 'tenant', 'deadline', 'queued', 'delayed')
  if not j[2] then return end
  local at, lag, slow = NEVER, NEVER, slow_lane(j[2])
  if j[1] == 'running' then
    at = min(earliest(ready_key(job)), earliest(delayed_key(job)))
    if slow then lag = earliest(lag_key(job)) end
    local waits = (tonumber(j[5]) or 0) + (tonumber(j[6]) or 0) > 0
    if j[4] and waits then at = min(at, tonumber(j[4])) end
  end
  set_due(j[2], j[3], job, at)
  if slow then set_due(slow, j[3], job, lag) end
end

-- Put entries into a host's queue; the host becomes ready unless it is waiting already.
local function enqueue(job, host, level, entries, front)
  local list = queue_key(job, host, level)
  local push = front and 'LPUSH' or 'RPUSH'
  for i = 1, #entries, 1000 do
    redis.call(push, list, unpack(entries, i, min(i + 999, #entries)))
  end
  redis.call('ZADD', ready_key(job), 'NX', now, host)
end

-- Seen URLs by linear hashing: bucket counts grow one by one, so that no bucket leaves the intset encoding (512
-- integers). Lua's numbers cannot hold 64 bits: the last nine decimal digits, evenly spread, choose the bucket.
local PER_BUCKET = 190
local function spread(fingerprint) return tonumber(string.sub(fingerprint, -9)) end
local function bucket_of(fingerprint, base, split)
  local h = spread(fingerprint)
  local bucket = h % base
  if bucket < split then bucket = h % (base * 2) end
  return bucket
end

-- (base, split) for this many fingerprints.
local function buckets_for(n)
  local buckets, base = max(1, ceil(n / PER_BUCKET)), 1
  while base * 2 <= buckets do base = base * 2 end
  return base, buckets - base
end

-- A proxy's score, 0 to 1: half of what it has lost comes back in this time, for who is not asked cannot prove itself.
local function score_now(score, scored)
  local half_life_ms = 60000
  local lost = 1 - (tonumber(score) or 1)
  return 1 - lost * 0.5 ^ ((now - (tonumber(scored) or now)) / half_life_ms)
end

-- A server that was started anew may have lost its last writes: nobody works with it before somebody has looked at it,
-- or this time is over. Where nobody ever looked, nothing is known. (run of the server, whether to work with it)
local function server_run()
  local trust_after_s = 10
  local known, info = redis.call('GET', SERVER), redis.call('INFO', 'server')
  local run = string.match(info, 'run_id:(%w+)') or ''
  return run, not known or run == known
    or (tonumber(string.match(info, 'uptime_in_seconds:(%d+)')) or NEVER) > trust_after_s
end

-- A job that is being rebuilt says in `rebuild` how far that has come: first it recalls what is stored of it.
local function is_recalling(place) return string.sub(place, 1, 7) == 'recall ' end
