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
local function depth_key(queue) return P .. ':depth:' .. queue end
local function limit_key(key) return P .. ':limit:' .. key end
local function proxy_key(proxy) return P .. ':proxy:' .. proxy end
local function loans_key(proxy) return P .. ':loans:' .. proxy end
local function sticky_key(sticky) return P .. ':sticky:' .. sticky end
local LEASES = P .. ':leases'
local SEQUENCE = P .. ':sequence'
local JOBS = P .. ':jobs'
local TENANTS = P .. ':tenants'
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
    at = math.min(earliest(ready_key(job)), earliest(delayed_key(job)))
    if slow then lag = earliest(lag_key(job)) end
    local waits = (tonumber(j[5]) or 0) + (tonumber(j[6]) or 0) > 0
    if j[4] and waits then at = math.min(at, tonumber(j[4])) end
  end
  set_due(j[2], j[3], job, at)
  if slow then set_due(slow, j[3], job, lag) end
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

-- A host's hash as a table; all but a few fields are numbers.
local TEXTS = { owner = true, group = true, address = true, probing = true, delay_by = true }
local function read_host(host)
  local key = host_key(host)
  local flat, h = redis.call('HGETALL', key), { inflight = 0, key = key }
  for i = 1, #flat, 2 do
    local field = flat[i]
    h[field] = TEXTS[field] and flat[i + 1] or tonumber(flat[i + 1])
  end
  return h
end

-- What a job asks a bucket at, whose word that is, and what the bucket is booked at: the operator's word, the job's,
-- that of robots.txt where it is stricter than the default, the default. A job slower than others waits by itself; one with no limit books nothing. 0 is
-- unlimited. `j` has rate (nil: it does not say), rate0 and robots; `b` has rate and delay.
local function wanted_rate(j, b, h)
  local word = b.rate
  -- A host in a domain's bucket may have a word of its own: the stricter one holds.
  if h and h.rate and h.rate > 0 and not (word and word > 0 and word < h.rate) then word = h.rate end
  if word then return word, 'operator', word end
  local plain, source = j.rate0, 'default'
  if b.delay and j.robots and (plain == 0 or 1 / b.delay < plain) then plain, source = 1 / b.delay, 'robots' end
  if not j.rate then return plain, source, plain end
  if j.rate == 0 or plain == 0 or j.rate > plain then return j.rate, 'job', j.rate end
  return j.rate, 'job', plain
end

-- What was decided about a host, and why: the last few are kept, for people.
local NOTES_KEPT = 10
local function note(host, what, reason)
  redis.call('LPUSH', notes_key(host), string.format('%d %s %s', now, what, reason))
  redis.call('LTRIM', notes_key(host), 0, NOTES_KEPT - 1)
  redis.call('EXPIRE', notes_key(host), DAY_S)
end

-- A host that an operator has set something for is remembered, others are forgotten after a day. The list of hosts is
-- written in one go (`list_hosts`).
local listed = {}
local function keep_host(host, h)
  listed[#listed + 1] = now
  listed[#listed + 1] = host
  if h.set then
    redis.call('PERSIST', h.key)
  else
    local rest = math.max(h.hold or 0, h.gone or 0, now) - now
    redis.call('EXPIRE', h.key, DAY_S + math.ceil(rest / 1000))
  end
end

local function list_hosts()
  for i = 1, #listed, 1000 do
    redis.call('ZADD', HOSTS, unpack(listed, i, math.min(i + 999, #listed)))
  end
  listed = {}
end

-- A bucket of which something was learnt before it was asked is forgotten after a day like any other.
local function lives_a_day(bucket)
  if redis.call('HEXISTS', host_key(bucket), 'set') == 0 then redis.call('EXPIRE', host_key(bucket), DAY_S, 'NX') end
end

-- A host of this job may be asked for now, if it waits at all.
-- Tells whether it was asleep.
local function wake(job, host, touched)
  local woken = redis.call('ZADD', ready_key(job), 'XX', 'LT', 'CH', now, host)
    + redis.call('ZADD', lag_key(job), 'XX', 'LT', 'CH', now, host)
  if woken > 0 then touched[job] = true end
  return woken > 0 and redis.call('HGET', job_key(job), 'state') == 'running'
end

-- Who waits for room in a bucket may ask again: the urgent first, and no more of them than there may be room for; whose
-- turn it is among rivals is found out then.
local EXTRA_WOKEN = 2
local function wake_waiters(bucket, most, touched)
  local woken = 0
  while woken < most do
    local waiter = redis.call('ZPOPMIN', waiters_key(bucket), 1)[1]
    if not waiter then
      redis.call('HDEL', host_key(bucket), 'waited')
      return
    end
    local job, host = string.match(waiter, '^(%S+) (%S+)$')
    if wake(job, host, touched) then woken = woken + 1 end
  end
end

-- Requests of a bucket came back: it has so many less in flight, and who waited may ask again. Other fields that are to
-- be set are written along.
local function lower(bucket, b, n, touched, fields)
  fields = fields or {}
  fields[#fields + 1] = 'inflight'
  fields[#fields + 1] = math.max(0, b.inflight - n)
  redis.call('HSET', b.key, unpack(fields))
  keep_host(bucket, b)
  if b.waited then wake_waiters(bucket, n + EXTRA_WOKEN, touched) end
end

-- Requests of a host came back: also to its domain and its address. The jobs to refresh are marked in `touched`.
local function host_returned(host, h, n, touched)
  lower(host, h, n, touched)
  if h.group then lower(h.group, read_host(h.group), n, touched) end
  if h.address then lower(h.address, read_host(h.address), n, touched) end
end

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

-- Has the job come to its end just now? True exactly once in its life.
local function ends_now(job)
  local j = redis.call('HMGET', job_key(job), 'state', 'ended', 'open', 'queued', 'delayed', 'leased', 'queue', 'tenant')
  if not j[1] or j[2] then return false end
  local leased = tonumber(j[6]) or 0
  local pending = (tonumber(j[4]) or 0) + (tonumber(j[5]) or 0) + leased
  local over = (j[1] == 'cancelled' and leased == 0) or (j[1] ~= 'cancelled' and j[3] ~= '1' and pending == 0)
  if not over then return false end
  if j[1] ~= 'cancelled' then redis.call('HSET', job_key(job), 'state', 'finished') end
  redis.call('HSET', job_key(job), 'ended', now)
  tell(job, 'ended', redis.call('HGET', job_key(job), 'state'))
  leave_queue(job, j[7], j[8])
  return true
end

-- After any move: write the sums, put the jobs' due times right, and name those that have ended.
local function finish_moves(touched)
  list_hosts()
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
    host_returned(host, read_host(host), n, touched)
  end
  return host_left
end

-- A proxy's score, 0 to 1: half of what it has lost comes back in this time, for who is not asked cannot prove itself.
local SCORE_HALF_LIFE_MS = 60000
local function score_now(score, scored)
  local lost = 1 - (tonumber(score) or 1)
  return 1 - lost * 0.5 ^ ((now - (tonumber(scored) or now)) / SCORE_HALF_LIFE_MS)
end
