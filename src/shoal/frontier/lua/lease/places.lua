-- lease/places.lua: the jobs that are looked at, each read once, and the places of theirs that must wait.
local RECHECK_MS = 10000
local touched, shrunk = {}, {} -- jobs whose due time must be put right; those that may have come to their end

local known_jobs = {}

local function job_of(job)
  local j = known_jobs[job]
  if j then return j end
  local v = redis.call('HMGET', job_key(job), 'state', 'queue', 'tenant', 'weight', 'rate', 'parallel', 'rate0',
    'parallel0', 'robots', 'bytes', 'received', 'deadline', 'host_bytes', 'host_seconds', 'ended', 'half')
  j = { name = job, state = v[1], queue = v[2], tenant = v[3], weight = tonumber(v[4]) or 1, rate = tonumber(v[5] or ''),
    parallel = tonumber(v[6] or ''), rate0 = tonumber(v[7]) or 0, parallel0 = tonumber(v[8]) or 0, robots = v[9] == '1',
    bytes = tonumber(v[10]) or 0, received = tonumber(v[11]) or 0, deadline = tonumber(v[12] or ''),
    host_bytes = tonumber(v[13]) or 0, host_seconds = tonumber(v[14]) or 0, slow_lane = v[2] and slow_lane(v[2]),
    half = v[16] }
  known_jobs[job] = j
  return j
end

-- The list of the hosts that a job has in a queue: in its own, in the slow one beside it, or in its browser half's.
local function list_key(queue, j)
  if queue == j.queue then return ready_key(j.name) end
  return queue == j.half and render_key(j.name) or lag_key(j.name)
end

-- A place is a (job, host) in the list in which it stands: ready, lag when the host is slow, or render.
-- Written by `write_waits`, before the list is looked at again.
local waits = {}
local function put_off(place, at)
  local wait = waits[place.list]
  if not wait then
    wait = { list = place.list }
    waits[place.list] = wait
  end
  wait[#wait + 1] = ceil(at)
  wait[#wait + 1] = place.host
end

local function write_waits()
  for _, wait in pairs(waits) do redis.call('ZADD', wait.list, unpack(wait)) end
  waits = {}
end

-- Wait for room in a bucket; who is not woken looks again by himself, unless it takes an operator to make room.
local function park(place, bucket, paused)
  put_off(place, paused and NEVER or now + RECHECK_MS)
  redis.call('ZADD', waiters_key(bucket), 'NX', place.rank * 1e13 + now,
    waiter_of(place.job.name, place.host, place.queue == place.job.half))
  if paused then redis.call('PERSIST', waiters_key(bucket)) else redis.call('EXPIRE', waiters_key(bucket), DAY_S) end
  if not read_host(bucket).waited then set(read_host(bucket), 'waited', 1) end
end

local function wait_until(place, bucket, at)
  park(place, bucket)
  put_off(place, at)
end
