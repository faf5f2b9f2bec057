-- prelude.lua: names, the clock and the moves that several operations share; stands before every script.
-- KEYS[1] prefix of all keys. Names are built here and nowhere else; frontier/keys.py lists them.
local P = KEYS[1]

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local DAY_S = 86400
local NEVER = math.huge

local function job_key(job) return P .. ':job:' .. job end
local function reasons_key(job) return P .. ':reasons:' .. job end
local function slow_key(job) return P .. ':slow:' .. job end
local function seen_key(job, bucket) return P .. ':seen:' .. job .. ':' .. bucket end
local function queue_key(job, host, level) return P .. ':queue:' .. job .. ':' .. host .. ':' .. level end
local function ready_key(job) return P .. ':ready:' .. job end
local function delayed_key(job) return P .. ':delayed:' .. job end
local function due_key(queue) return P .. ':due:' .. queue end
local function turn_key(queue) return P .. ':turn:' .. queue end
local function clock_key(queue) return P .. ':clock:' .. queue end
local function host_key(host) return P .. ':host:' .. host end
local function waiters_key(host) return P .. ':waiters:' .. host end
local function lease_key(group) return P .. ':lease:' .. group end
local function depth_key(queue) return P .. ':depth:' .. queue end
local function limit_key(key) return P .. ':limit:' .. key end
local function proxy_key(proxy) return P .. ':proxy:' .. proxy end
local function loans_key(proxy) return P .. ':loans:' .. proxy end
local function sticky_key(sticky) return P .. ':sticky:' .. sticky end
local LEASES = P .. ':leases'
local SEQUENCE = P .. ':sequence'
local JOBS = P .. ':jobs'
local HOSTS = P .. ':hosts'
local STATS = P .. ':stats'
local EVENTS = P .. ':events'

-- A change that people wait for: kind is 'state', 'ended' or 'changed'.
local EVENTS_KEPT = 10000
local function tell(job, kind, state)
  redis.call('XADD', EVENTS, 'MAXLEN', '~', EVENTS_KEPT, '*', 'job', job, 'kind', kind, 'state', state)
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

-- When can something of this job be leased? Keeps due:{Q} true; a job that is not running is in no rotation.
local function refresh_due(job)
  local state = redis.call('HMGET', job_key(job), 'state', 'queue')
  if not state[2] then return end
  local at = NEVER
  if state[1] == 'running' then
    local host = redis.call('ZRANGE', ready_key(job), 0, 0, 'WITHSCORES')
    if host[2] then at = tonumber(host[2]) end
    local record = redis.call('ZRANGE', delayed_key(job), 0, 0, 'WITHSCORES')
    if record[2] then at = math.min(at, tonumber(record[2])) end
  end
  if at == NEVER then
    redis.call('ZREM', due_key(state[2]), job)
  else
    redis.call('ZADD', due_key(state[2]), string.format('%.3f', at), job)
  end
end

-- Put entries into a host's queue; the host becomes ready unless it is waiting already.
local function enqueue(job, host, level, entries, front)
  local list = queue_key(job, host, level)
  local push = front and 'LPUSH' or 'RPUSH'
  for i = 1, #entries, 1000 do
    redis.call(push, list, unpack(entries, i, math.min(i + 999, #entries)))
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
  local buckets, base = math.max(1, math.ceil(n / PER_BUCKET)), 1
  while base * 2 <= buckets do base = base * 2 end
  return base, buckets - base
end

-- A host that an operator has set something for is remembered, others are forgotten after a day.
local function keep_host(host)
  redis.call('ZADD', HOSTS, now, host)
  local h = redis.call('HMGET', host_key(host), 'set', 'hold')
  if h[1] then
    redis.call('PERSIST', host_key(host))
  else
    local held = math.max(0, (tonumber(h[2]) or 0) - now)
    redis.call('EXPIRE', host_key(host), DAY_S + math.ceil(held / 1000))
  end
end

-- Requests of a host came back: lower its count, and let jobs that waited for it ask again.
-- Returns nothing; the jobs to refresh are marked in `touched`.
local function host_returned(host, n, touched)
  -- Not -n: for n = 0 Redis 7.0 would get the text '-0', which it does not take for an integer.
  local left = redis.call('HINCRBY', host_key(host), 'inflight', 0 - n)
  if left < 0 then redis.call('HSET', host_key(host), 'inflight', 0) end
  keep_host(host)
  local waiters = redis.call('SMEMBERS', waiters_key(host))
  if #waiters == 0 then return end
  redis.call('DEL', waiters_key(host))
  for _, job in ipairs(waiters) do
    redis.call('ZADD', ready_key(job), 'XX', now, host)
    touched[job] = true
  end
end

-- Has the job come to its end just now? True exactly once in its life.
local function ends_now(job)
  local j = redis.call('HMGET', job_key(job), 'state', 'ended', 'open', 'queued', 'delayed', 'leased', 'queue')
  if not j[1] or j[2] then return false end
  local leased = tonumber(j[6]) or 0
  local pending = (tonumber(j[4]) or 0) + (tonumber(j[5]) or 0) + leased
  local over = (j[1] == 'cancelled' and leased == 0) or (j[1] ~= 'cancelled' and j[3] ~= '1' and pending == 0)
  if not over then return false end
  if j[1] ~= 'cancelled' then redis.call('HSET', job_key(job), 'state', 'finished') end
  redis.call('HSET', job_key(job), 'ended', now)
  tell(job, 'ended', redis.call('HGET', job_key(job), 'state'))
  redis.call('ZREM', due_key(j[7]), job)
  redis.call('ZREM', turn_key(j[7]), job)
  return true
end

-- After any move: write the sums, put the jobs' due times right, and name those that have ended.
local function finish_moves(touched)
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
  for host, n in pairs(host_left) do host_returned(host, n, touched) end
  return host_left
end

-- A proxy's score, 0 to 1: half of what it has lost comes back in this time, for who is not asked cannot prove itself.
local SCORE_HALF_LIFE_MS = 60000
local function score_now(score, scored)
  local lost = 1 - (tonumber(score) or 1)
  return 1 - lost * 0.5 ^ ((now - (tonumber(scored) or now)) / SCORE_HALF_LIFE_MS)
end
